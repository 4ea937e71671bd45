"""What the launches of a plan move from and to GM, and which of it a later one finds in L2. Modelled, and simpler than a cache:

bytes are there if no more than L2 holds was touched since, which the chunks' places in their cores' work tell; of bytes that
several cores read side by side, each misses its share; what is written for the first time misses.
"""

import functools
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from hajax import abi
from hajax.passes.kernel_clock import STEP_BYTES
from hajax.passes.step_cost import gm_bytes
from hajax.passes.vector_cycles import BLOCK
from hajax.plans.footprint import UNIT, Dims, wide
from hajax.plans.program import Item, Launch, Program, Step

CONSTANTS, CODE = "constants", "code"
_OF_KEY_HEADS = ("query", "key")
_OF_COLUMNS = ("value", "output", "state_in", "state_out")
_HELD = 0.9  # of L2's bytes, what is not lost before it is read again: sets fill unevenly
_REMEMBERED = 4  # launches that touched the same bytes
_SAMPLES = 8  # chunks of a piece, and pieces of a core, whose way through L2 is looked at

Tensor = tuple[str, bool]  # with True: an item's columns of it
Place = tuple[Tensor, int, int]  # of each slot of the workspace and of the constants, bytes from .. to; else the whole tensor
_Before = tuple[tuple[int, tuple[int, ...]], ...]  # launches that touched the same bytes, and which of their programs did


@dataclass(frozen=True, slots=True)
class Piece:
    """An item with its chunks, and when its core works on it: in its launch, from 0 to 1."""

    item: Item
    chunks: int
    first: bool  # its chunks hold the sequence's first
    last: bool
    round: int
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Traffic:
    """What a program moves: bytes by place, for each chunk and for each item; heads of tensors that it reads or writes."""

    reads: frozenset[Place]
    writes: frozenset[Place]
    kept: dict[Place, int]  # constants, and its steps
    body: dict[Place, int]
    ends: dict[Place, int]
    heads: tuple[tuple[Tensor, int], ...]

    @property
    def places(self) -> list[Place]:
        """All that it touches."""
        return sorted({*self.reads, *self.writes, *self.kept})


def pieces_of(launch: Launch, all_chunks: int) -> list[list[Piece]]:
    """By core, the items that find chunks."""

    def chunks_of(item: Item) -> int:
        left = all_chunks - item.first_chunk
        return max(0, left if item.chunks < 0 else min(left, item.chunks))

    most = max(1, *(sum(map(chunks_of, core)) for core in launch.cores))
    cores: list[list[Piece]] = []
    for core in launch.cores:
        found, at = list[Piece](), 0
        for item in core:
            if chunks := chunks_of(item):
                ends = item.first_chunk == 0, item.first_chunk + chunks == all_chunks
                found.append(Piece(item, chunks, *ends, len(found), at / most, (at + chunks) / most))
                at += chunks
        cores.append(found)
    return cores


def traffic_of(number: int, program: Program, dims: Dims, value_dim: int) -> Traffic:
    """Of a plan's program with this number."""
    reads, writes, heads = set[Place](), set[Place](), dict[tuple[Tensor, int], None]()
    others = value_dim - program.columns
    steps = len(program.setup) + len(program.body) + len(program.finish)
    kept: dict[Place, int] = {((CODE, False), number, number + 1): steps * STEP_BYTES}
    body, ends = dict[Place, int](), dict[Place, int]()
    for section, sums in ((program.setup, ends), (program.body, body), (program.finish, ends)):
        for step in section:
            place = place_of(step, others)
            if place is None:
                continue
            if place[0] == (CONSTANTS, False):
                kept[place] = gm_bytes(step, dims)
                continue
            (writes if is_write(step) else reads).add(place)
            once = ends if step.first or step.last else sums
            once[place] = once.get(place, 0) + gm_bytes(step, dims)
            heads[place[0], step.p[1]] = None
    return Traffic(frozenset(reads), frozenset(writes), kept, body, ends, tuple(heads))


def place_of(step: Step, others: int) -> Place | None:
    """What a step moves from or to GM. others: columns of the state that its program's items leave to others."""
    at = UNIT * step.constant, UNIT * (step.constant + step.size)
    if step.opcode.startswith("workspace"):
        each = UNIT * wide(step.p, 4)
        return (("workspace", each > 0), at[0], at[1] + others // BLOCK * each)
    if step.opcode.startswith("constant"):
        return ((CONSTANTS, False), *at)
    if step.opcode.startswith(("rows", "gate")):
        name = abi.names("tensors")[step.p[0]]
        return ((name, name in _OF_COLUMNS), 0, 1)
    return None


def is_write(step: Step) -> bool:
    """Of those: to GM."""
    return step.opcode.endswith("_from_ub")


@dataclass(frozen=True, slots=True)
class _Past:
    """A launch: its cores' pieces, the programs that they run, and the bytes that it touches, each once."""

    cores: list[list[Piece]]
    used: tuple[int, ...]
    bytes: float


class Reuse:
    """Launches one after the other, and what the last one of them finds in L2."""

    def __init__(self, traffic: Sequence[Traffic], grouped: int, l2_bytes: int):
        self._traffic, self._grouped, self._l2 = traffic, grouped, _HELD * l2_bytes
        self._past: list[_Past] = []
        self._sums = [0.0]  # of their bytes, up to each
        every = {place for one in traffic for place in one.places}
        names = {place[0][0] for place in every}
        # By name, where places begin and end, and of each part between what touched it before and whether it is written now.
        self._cuts = {name: sorted({at for one in every if one[0][0] == name for at in one[1:]}) for name in names}
        self._before: dict[str, list[_Before]] = {name: [() for _ in self._cuts[name]] for name in names}
        self._written: set[tuple[str, int]] = set()
        self._shares: dict[Tensor, float] = {}
        self._spans = functools.cache(self._spans_of)
        self._lost = functools.cache(self._lost_of)

    def launch(self, cores: list[list[Piece]]) -> None:
        """The next one."""
        if self._past:
            self._remember(len(self._past) - 1, self._past[-1].used)
        self._shares = self._shares_of(cores)
        used = tuple(sorted({piece.item.program for core in cores for piece in core}))
        self._past.append(_Past(cores, used, self._bytes(cores)))
        self._sums.append(self._sums[-1] + self._past[-1].bytes)
        self._written = {
            (place[0][0], at) for program in used for place in self._traffic[program].writes for at, _ in self._parts(place)
        }

    def read(self, place: Place, program: int) -> float:
        """Of what a program of this launch reads there, the share that it misses."""
        return self._shares[place[0]] * self._missed(place, program, self._written)

    def lost(self, place: Place, program: int) -> float:
        """Of what a program of this launch moves there, the share that no launch before has left in L2."""
        return self._missed(place, program, set())

    def _missed(self, place: Place, program: int, found: set[tuple[str, int]]) -> float:
        """The same, but for parts that are found."""
        tensor, before = place[0], self._before[place[0][0]]
        whole, sizes = 0, dict[_Before, int]()
        for at, size in self._parts(place):
            whole += size
            if (tensor[0], at) not in found:
                sizes[before[at]] = sizes.get(before[at], 0) + size
        kept = tensor[0] in (CONSTANTS, CODE)
        number, grouped = len(self._past), self._head_of(tensor)
        return sum(self._lost(number, program, by, grouped, kept) * size for by, size in sizes.items()) / whole

    def _parts(self, place: Place) -> list[tuple[int, int]]:
        """By number, with their bytes."""
        cuts = self._cuts[place[0][0]]
        return [(at, cuts[at + 1] - cuts[at]) for at in range(bisect_left(cuts, place[1]), bisect_left(cuts, place[2]))]

    def _remember(self, number: int, used: tuple[int, ...]) -> None:
        """What the programs of a launch touched."""
        touched: dict[tuple[str, int], list[int]] = {}
        for program in used:
            for name, at in {(place[0][0], at) for place in self._traffic[program].places for at, _ in self._parts(place)}:
                touched.setdefault((name, at), []).append(program)
        for (name, at), programs in touched.items():
            self._before[name][at] = (*self._before[name][at][-_REMEMBERED + 1 :], (number, tuple(programs)))

    def _head_of(self, tensor: Tensor) -> int:
        """Value heads that share one head of a tensor."""
        return self._grouped if tensor[0] in _OF_KEY_HEADS else 1

    def _lost_of(self, number: int, program: int, by: _Before, grouped: int, all: bool) -> float:
        if not by or all:
            return float(not by or self._since(by[-1][0], 1.0, 0.0) > self._l2)
        seen = lost = 0
        for core in self._past[-1].cores:
            mine = [piece for piece in core if piece.item.program == program]
            for piece in mine[:: -(-len(mine) // _SAMPLES) or 1]:
                step = -(-piece.chunks // _SAMPLES)
                for at in range(step // 2, piece.chunks, step):
                    chunk, share = piece.item.first_chunk + at, (at + 0.5) / piece.chunks
                    when = piece.begin + share * (piece.end - piece.begin)
                    seen += 1
                    lost += self._is_lost(by, grouped, piece.item, chunk, when)
        return lost / max(1, seen)

    def _is_lost(self, by: _Before, grouped: int, item: Item, chunk: int, when: float) -> bool:
        for past, programs in reversed(by):
            for first, chunks, begin, end in self._spans(past, programs, grouped).get((item.sequence, item.head // grouped), ()):
                if first <= chunk < first + chunks:
                    then = begin + (chunk - first + 0.5) / chunks * (end - begin)
                    return self._since(past, then, when) > self._l2
        return True

    def _since(self, past: int, then: float, when: float) -> float:
        """Bytes touched from this place in a launch of the past to that in the last one."""
        between = self._sums[-2] - self._sums[past + 1]
        return (1 - then) * self._past[past].bytes + between + when * self._past[-1].bytes

    def _spans_of(
        self, number: int, programs: tuple[int, ...], grouped: int
    ) -> dict[tuple[int, int], list[tuple[int, int, float, float]]]:
        """By sequence and head, which chunks such programs work on in a launch, and when."""
        spans: dict[tuple[int, int], list[tuple[int, int, float, float]]] = {}
        for piece in (piece for core in self._past[number].cores for piece in core):
            item = piece.item
            if item.program in programs:
                for tensor_head in {(item.head + one) // grouped for _, one in self._traffic[item.program].heads}:
                    found = spans.setdefault((item.sequence, tensor_head), [])
                    found.append((item.first_chunk, piece.chunks, piece.begin, piece.end))
        return spans

    def _shares_of(self, cores: list[list[Piece]]) -> dict[Tensor, float]:
        """By tensor, of the bytes that items move, the part that no other item moves at the same time."""
        every: dict[Tensor, int] = {}
        once: dict[Tensor, dict[tuple[int, ...], int]] = {}
        for piece in (piece for core in cores for piece in core):
            item = piece.item
            for tensor, head in self._traffic[item.program].heads:
                of = (item.sequence, (item.head + head) // self._head_of(tensor), item.first_chunk, piece.round)
                of = (*of, item.column) if tensor[1] else of
                every[tensor] = every.get(tensor, 0) + piece.chunks
                once.setdefault(tensor, {})[of] = piece.chunks
        return {tensor: sum(found.values()) / every[tensor] for tensor, found in once.items()}

    def _bytes(self, cores: list[list[Piece]]) -> float:
        found: dict[int, tuple[float, float]] = {}
        total = 0.0
        for piece in (piece for core in cores for piece in core):
            program = piece.item.program
            if program not in found:
                both = self._traffic[program].body, self._traffic[program].ends
                body, ends = (sum(self._shares[at[0]] * size for at, size in of.items()) for of in both)
                found[program] = body, ends
            total += piece.chunks * found[program][0] + found[program][1]
        return total
