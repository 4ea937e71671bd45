"""Heads of all sequences to the cores of an Ascend chip: whole, in column pieces, or chunk-parallel in two launches.

Sequences count as equally long. A column piece repeats the map of its chunks; two launches do not, and pay with GM traffic.
"""

import heapq
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from hajax.plans import Note

COLUMNS = 16  # of a state, at least
PIECES = (1, 2, 3, 4, 6, 8)  # near equal ones of a head
LEAST_GAIN = 2e-3  # of the bound: a mapping of the same family that is better by less is not looked for
GOOD = 1.005  # of the bound: nor is any other
FEW_BYTES = 1.02  # of the least: what heads in pieces may move through GM where there are heads for all cores ...
LARGE_GAIN = 1.25  # ... unless their makespan is so much better ...
SMALL_GAIN = 1.01  # ... and it has to be better by more than this
Kind = Literal["whole", "map", "state"]
Family = Literal["whole heads", "column pieces", "chunk-parallel", "chunk and head"]
_SEARCHED = 3  # of these, for the smallest makespan


@dataclass(frozen=True, slots=True)
class Weights:
    """Cycles of a head's chunk: map (needs no state), state (all columns), state_fixed (a piece of any width).

    item: once an item; pair_gain: share that two heads side by side save; write and read: what the map leaves in GM between
    launches, read by each piece; launch: of the second one. Shares of the least bytes that a head's chunk moves: rows, which
    each piece of its columns reads for itself, and left, that a map launch writes, and each piece of the next one reads.
    """

    map: float
    state: float
    state_fixed: float = 0.0
    item: float = 0.0
    pair_gain: float = 0.0
    write: float = 0.0
    read: float = 0.0
    launch: float = 0.0
    rows: float = 0.0
    left: float = 0.0

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if not getattr(self, name) >= 0:
                raise ValueError(f"weights.{name}: expected a number that is not negative, got {getattr(self, name)}")
        if self.map + self.state <= 0 or self.pair_gain >= 1:
            raise ValueError(f"weights: expected some work and a pair_gain below 1, got {self}")


@dataclass(frozen=True, slots=True)
class Piece:
    """Work of one core: `heads` value heads from `head` side by side, state columns and chunks of them.

    kind whole: map and state of these columns; map: leaves its results in the workspace; state: begins with them.
    """

    sequence: int
    head: int
    heads: int
    column: int
    columns: int
    kind: Kind
    first_chunk: int
    chunks: int


@dataclass(frozen=True, slots=True)
class Mapping:
    """launches: by launch and core, its pieces in order. bound: all heads' work, unsplit and paired, over the cores.

    executed: work of all pieces over the cores. alternatives: the best makespan of each family.
    """

    family: Family
    launches: tuple[tuple[tuple[Piece, ...], ...], ...]
    makespan: float
    bound: float
    executed: float
    alternatives: tuple[tuple[Family, float], ...]


def map_to_cores(
    sequences: int,
    value_heads: int,
    value_dim: int,
    chunks: int,
    cores: int,
    weights: Weights,
    *,
    pairs: bool = True,
    family: Family | None = None,
) -> tuple[Mapping, Note]:
    """The mapping with the smallest makespan, of one family if it is named; of equals the one with fewer launches and pieces.

    Where there are at least as many heads as cores they stay whole unless pieces of them are worth the bytes and the programs.

    chunk and head, only if it is named: what no mapping is compared with, each chunk of each head a piece of its own.
    """
    for name, size in (("sequences", sequences), ("value_heads", value_heads), ("chunks", chunks), ("cores", cores)):
        if size < 1:
            raise ValueError(f"{name}: expected at least 1, got {size}")
    if value_dim < COLUMNS or value_dim % COLUMNS:
        raise ValueError(f"value_dim: expected a positive multiple of {COLUMNS}, got {value_dim}")
    problem = _Problem(sequences, value_heads, value_dim // COLUMNS, chunks, cores, weights, pairs and weights.pair_gain > 0)
    bound = sum(_work(problem, unit) for unit in _units(problem, problem.pairs)) / cores
    best: dict[Family, _Candidate] = {}
    for candidate in _candidates(problem, bound, best) if family != "chunk and head" else (_chunk_and_head(problem),):
        known = best.get(candidate.family)
        if known is None or candidate.makespan < known.makespan:
            best[candidate.family] = candidate
        if candidate.makespan <= GOOD * bound and len(best) == _SEARCHED:
            break
    if family is not None and family not in best:
        raise ValueError(f"family: expected one of {', '.join(best)} for these heads, got {family!r}")
    wanted = _worthwhile(problem, best) if family is None else {family: best[family]}
    winner = min(wanted.values(), key=lambda c: (round(c.makespan / bound, 6), len(c.launches), sum(map(len, c.launches))))
    alternatives = tuple((family, candidate.makespan) for family, candidate in best.items())
    launches = _launches(problem, winner)
    work = sum(piece_cycles(weights, piece, value_dim) for launch in launches for core in launch for piece in core)
    result = Mapping(winner.family, launches, winner.makespan, bound, work / cores, alternatives)
    return result, _note(result, cores)


def piece_cycles(weights: Weights, piece: Piece, value_dim: int) -> float:
    """Modelled cycles of one piece."""
    scale = piece.chunks * (1.0 if piece.heads == 1 else 2 * (1 - weights.pair_gain))
    map_work = weights.map + (weights.write if piece.kind == "map" else 0.0)
    state_work = weights.state_fixed + weights.state * piece.columns / value_dim
    match piece.kind:
        case "map":
            return weights.item + scale * map_work
        case "state":
            return weights.item + scale * (weights.read + state_work)
        case _:
            return weights.item + scale * (map_work + state_work)


def _note(result: Mapping, cores: int) -> Note:
    beaten = [f"{family} {makespan:.0f}" for family, makespan in result.alternatives if family != result.family]
    worst = max(makespan for _, makespan in result.alternatives)
    return Note(
        "heads_to_cores",
        f"{result.family} on {cores} cores: expected makespan {result.makespan:.0f} cycles, "
        f"{result.makespan / result.bound:.3f} of total work / cores; stages of a chunk counted one after the other",
        f"makespans: {', '.join(beaten) or 'no other way'}",
        f"{worst - result.makespan:.0f} cycles",
    )


@dataclass(frozen=True, slots=True)
class _Problem:
    sequences: int
    value_heads: int
    blocks: int  # of COLUMNS columns
    chunks: int
    cores: int
    weights: Weights
    pairs: bool


_Unit = tuple[int, int, int]  # sequence, head, heads
_Part = tuple[int, _Unit, Kind, int, int]  # core, unit, kind, first block of columns (map: chunk), how many


@dataclass(frozen=True, slots=True)
class _Candidate:
    family: Family
    launches: tuple[tuple[_Part, ...], ...]
    makespan: float


def _worthwhile(problem: _Problem, best: dict[Family, _Candidate]) -> dict[Family, _Candidate]:
    whole = best["whole heads"]
    if problem.sequences * problem.value_heads < problem.cores:
        return best
    least = {family: SMALL_GAIN if _bytes(problem, one) <= FEW_BYTES else LARGE_GAIN for family, one in best.items()}
    return {family: one for family, one in best.items() if one is whole or whole.makespan > least[family] * one.makespan}


def _bytes(problem: _Problem, candidate: _Candidate) -> float:
    """What all heads move, over the least that they can."""
    weights, moved = problem.weights, 0.0
    for _, (_, _, heads), kind, _, size in itertools.chain(*candidate.launches):
        rows = weights.rows + (weights.left if kind != "whole" else 0.0)
        part = size / problem.chunks * rows if kind == "map" else rows + (1 - weights.rows) * size / problem.blocks
        moved += heads * part
    return moved / (problem.sequences * problem.value_heads)


def _units(problem: _Problem, paired: bool) -> list[_Unit]:
    """Pairs of heads of each sequence, odd ones alone and last."""
    size = 2 if paired else 1
    heads = [(s, h, size) for s in range(problem.sequences) for h in range(0, problem.value_heads - size + 1, size)]
    odd = [(s, problem.value_heads - 1, 1) for s in range(problem.sequences) if problem.value_heads % size]
    return heads + odd


def _scale(problem: _Problem, unit: _Unit) -> float:
    """Head chunks of a unit, less what heads side by side save."""
    return problem.chunks * (1.0 if unit[2] == 1 else 2 * (1 - problem.weights.pair_gain))


def _work(problem: _Problem, unit: _Unit) -> float:
    weights = problem.weights
    return weights.item + _scale(problem, unit) * (weights.map + weights.state_fixed + weights.state)


def _candidates(problem: _Problem, bound: float, best: dict[Family, _Candidate]) -> Iterable[_Candidate]:
    """All units whole; then the last ones of them in column pieces, or chunk-parallel, as pairs or as single heads.

    best: of each family so far, which a candidate has to beat.
    """
    for paired in (True, False) if problem.pairs else (False,):
        units = _units(problem, paired)
        start = max(0, len(units) - 3 * problem.cores)
        base = _packed(problem, [0.0] * problem.cores, units[:start])
        for tail in range(min(len(units), problem.cores + len(units) % problem.cores) + 1):
            whole = _packed(problem, base[0], units[start : len(units) - tail])
            parts = (*base[1], *whole[1])
            if not tail:
                yield _Candidate("whole heads", (parts,), max(whole[0]))
                continue
            split = units[len(units) - tail :]
            for last in (split, _singles(split)) if paired else (split,):
                limit = best["column pieces"].makespan if "column pieces" in best else float("inf")
                made = _columns(problem, whole[0], last, limit, bound)
                if made:
                    yield _Candidate("column pieces", ((*parts, *made[1]),), made[0])
                limit = best["chunk-parallel"].makespan if "chunk-parallel" in best else float("inf")
                two = _chunk_parallel(problem, whole[0], last, limit, bound)
                if two:
                    yield _Candidate("chunk-parallel", ((*parts, *two[1]), two[2]), two[0])


def _chunk_and_head(problem: _Problem) -> _Candidate:
    """The maps of all chunks dealt out, head after head, then whole heads for what has to follow one another."""
    weights, cores = problem.weights, problem.cores
    heads = _units(problem, paired=False)
    order = enumerate(itertools.product(heads, range(problem.chunks)))
    maps: list[_Part] = [(number % cores, unit, "map", chunk, 1) for number, (unit, chunk) in order]
    states: list[_Part] = [(number % cores, unit, "state", 0, problem.blocks) for number, unit in enumerate(heads)]
    first = -(-len(maps) // cores) * (weights.item + weights.map + weights.write)
    state = weights.item + problem.chunks * (weights.read + weights.state_fixed + weights.state)
    makespan = first + weights.launch + -(-len(states) // cores) * state
    return _Candidate("chunk and head", (tuple(maps), tuple(states)), makespan)


def _singles(units: Sequence[_Unit]) -> list[_Unit]:
    return [(sequence, head + i, 1) for sequence, head, heads in units for i in range(heads)]


def _packed(problem: _Problem, loads: Sequence[float], units: Sequence[_Unit]) -> tuple[list[float], list[_Part]]:
    """Whole units, longest first, each to the core that has the least."""
    after, parts = list(loads), []
    heap = [(load, core) for core, load in enumerate(after)]
    heapq.heapify(heap)
    for unit in sorted(units, key=lambda u: -u[2]):
        load, core = heap[0]
        after[core] = load + _work(problem, unit)
        heapq.heapreplace(heap, (after[core], core))
        parts.append((core, unit, "whole", 0, problem.blocks))
    return after, parts  # type: ignore[return-value]


def _columns(
    problem: _Problem, loads: Sequence[float], units: Sequence[_Unit], limit: float, bound: float
) -> tuple[float, list[_Part]] | None:
    """Units in column pieces, each of which repeats the map."""
    weights = problem.weights

    def cost(unit: _Unit) -> tuple[float, float]:
        scale = _scale(problem, unit)
        return weights.item + scale * (weights.map + weights.state_fixed), scale * weights.state / problem.blocks

    return _best_fill(loads, units, problem.blocks, "whole", cost, limit, bound)


def _chunk_parallel(
    problem: _Problem, loads: Sequence[float], units: Sequence[_Unit], limit: float, bound: float
) -> tuple[float, list[_Part], tuple[_Part, ...]] | None:
    """The units' maps beside the whole units, in ranges of chunks; their states in a second launch, in column pieces."""
    weights = problem.weights

    def state(unit: _Unit) -> tuple[float, float]:
        scale = _scale(problem, unit)
        return weights.item + scale * (weights.read + weights.state_fixed), scale * weights.state / problem.blocks

    def chunk(unit: _Unit) -> tuple[float, float]:
        return weights.item, _scale(problem, unit) / problem.chunks * (weights.map + weights.write)

    second = _best_fill([0.0] * problem.cores, units, problem.blocks, "state", state, limit - weights.launch, bound)
    if second is None:
        return None
    rest = weights.launch + second[0]
    first = _best_fill(loads, units, problem.chunks, "map", chunk, limit - rest, bound)
    return (rest + first[0], first[1], tuple(second[1])) if first else None


_Cost = Callable[[_Unit], tuple[float, float]]  # cycles of a piece of any size, and of each block


def _best_fill(
    loads: Sequence[float], units: Sequence[_Unit], blocks: int, kind: Kind, cost: _Cost, limit: float, bound: float
) -> tuple[float, list[_Part]] | None:
    """Units in pieces: the smallest makespan found; None if none is below the limit.

    Either near equal pieces, longest first to the core that has the least; or cores filled up to a target, one after the other.
    """
    costs = [cost(unit) for unit in units]
    low = max(*loads, (sum(loads) + sum(once + blocks * each for once, each in costs)) / len(loads))
    limit -= LEAST_GAIN * bound
    if low >= limit:
        return None
    best: tuple[float, list[_Part]] | None = None
    for pieces in (n for n in PIECES if n <= blocks):
        best = _dealt(loads, units, costs, blocks, pieces, kind, best[0] if best else limit) or best
    high = best[0] if best else min(limit, max(loads) + sum(once + blocks * each for once, each in costs))
    while high - low > LEAST_GAIN * bound:
        middle = (low + high) / 2
        filled = _filled(loads, units, costs, blocks, kind, middle)
        if filled is None:
            low = middle
        else:
            high, best = filled[0], filled
    return best


def _dealt(
    loads: Sequence[float],
    units: Sequence[_Unit],
    costs: Sequence[tuple[float, float]],
    blocks: int,
    pieces: int,
    kind: Kind,
    limit: float,
) -> tuple[float, list[_Part]] | None:
    """None when the makespan is not below the limit."""
    makespan = max(loads)
    if makespan >= limit:
        return None
    heap = [(load, core) for core, load in enumerate(loads)]
    heapq.heapify(heap)
    parts: list[_Part] = []
    bounds = [blocks * piece // pieces for piece in range(pieces + 1)]
    ranges = sorted(itertools.pairwise(bounds), key=lambda r: r[0] - r[1])
    for first, end in ranges:  # the longer ones of all units first
        for unit, (once, each) in zip(units, costs, strict=True):
            load, core = heap[0]
            load = load + once + (end - first) * each
            if load > makespan:
                if load >= limit:
                    return None
                makespan = load
            heapq.heapreplace(heap, (load, core))
            parts.append((core, unit, kind, first, end - first))
    return makespan, parts


def _filled(
    loads: Sequence[float],
    units: Sequence[_Unit],
    costs: Sequence[tuple[float, float]],
    blocks: int,
    kind: Kind,
    target: float,
) -> tuple[float, list[_Part]] | None:
    """Cores take blocks up to the target, the emptiest first; None if some are left."""
    parts: list[_Part] = []
    number, block = 0, 0
    makespan = max(loads)
    for core in sorted(range(len(loads)), key=lambda c: (loads[c], c)):
        load = loads[core]
        while number < len(units):
            once, each = costs[number]
            room = target - load - once
            fits = blocks - block if room >= (blocks - block) * each else int(room / each) if room > 0 else 0
            if fits < 1:
                break
            parts.append((core, units[number], kind, block, fits))
            load += once + fits * each
            block += fits
            if block == blocks:
                number, block = number + 1, 0
        makespan = max(makespan, load)
    return (makespan, parts) if number == len(units) else None


def _launches(problem: _Problem, candidate: _Candidate) -> tuple[tuple[tuple[Piece, ...], ...], ...]:
    launches = []
    for parts in candidate.launches:
        cores: list[list[Piece]] = [[] for _ in range(problem.cores)]
        for core, (sequence, head, heads), kind, first, count in parts:
            chunks = (first, count) if kind == "map" else (0, problem.chunks)
            column, columns = (0, problem.blocks) if kind == "map" else (first, count)
            cores[core].append(Piece(sequence, head, heads, column * COLUMNS, columns * COLUMNS, kind, *chunks))
        launches.append(tuple(tuple(core) for core in cores))
    return tuple(launches)
