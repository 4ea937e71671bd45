"""Gates of a decay per channel, and keys and queries times decays, for the vector form: scaled and split in UB, to L1.

Exponents are products of 0/1 matrices with the decays' parts: sums of terms of one sign. Each halving of the chunk has rows of
its own: second halves from the middle of their group (of keys and of queries), first halves to the middle (of keys).
"""

from dataclasses import dataclass

import numpy as np

from hajax.lowering.assembler import FULL, HALF, UNIT, Assembler, at
from hajax.lowering.gates import LOWEST_DECAY, LOWEST_STRENGTH, Basics, build_diagonals, high_and_low, selector_fractals
from hajax.lowering.per_channel_tiles import FRACTAL, Write, scatter_halves, second_halves, write
from hajax.lowering.tiles import TRANSPOSE, Parts, copy_out, load, load_parts, multiply, parts_in_l1, vector
from hajax.lowering.vector_steps import Rows, tensor
from hajax.lowering.vector_tiles import subtract
from hajax.plans.program import LOAD, MAP, Operand

FAR, NEAR = (32, 16), (8, 4, 2, 1)  # tokens of a half: of halvings between blocks of 16 tokens, and inside them
KEY_SCALE = 64.0  # keys are multiplied by it first, so that low parts of scaled rows stay above fp16's subnormals


@dataclass(frozen=True, slots=True)
class Fractals:
    """Constants. `shared`: what the inverse takes of them."""

    ones: Operand  # in L0A
    ones_in_l1: Operand
    near: dict[int, Operand]  # in L0A: sums inside a block, from the middle of a group or to it
    between: dict[str, Operand]  # in L1, [row block][row block]: "32", "16", from the chunk's "start", to its "end"
    shared: Basics


def place_fractals(asm: Assembler) -> Fractals:
    """Setup steps: constants from GM."""
    one = np.ones((16, 16), np.float16)
    tokens = np.arange(asm.dims.chunk)
    row, column = tokens[:, None], tokens[None, :]
    whole = {str(half): _sums(asm.dims.chunk, half) for half in FAR} | {"start": column <= row, "end": column > row}
    left = [_sums(16, half) for half in NEAR]
    tiles = [-np.eye(16), *selector_fractals(), one, *left]
    for matrix in whole.values():
        tiles += [matrix[i : i + 16, t : t + 16] for i in range(0, asm.dims.chunk, 16) for t in range(0, asm.dims.chunk, 16)]
    source = asm.buffer("basics", "L1", len(tiles) * HALF, kept=True)
    place = asm.constants.place(np.stack(tiles).astype(np.float16))
    asm.emit("constant_to_l1", source, constant=place, size=len(tiles) * HALF // UNIT, first=True)
    target = asm.buffer("basics:A", "L0A", (2 + len(left)) * HALF, kept=True)
    load(asm, "A", source, target=target, label="basics")
    load(asm, "A", at(source, 9 * HALF), size=1 + len(left), target=at(target, HALF), label="basics")
    squares = asm.dims.rows**2
    between = {name: at(source, (10 + len(left) + n * squares) * HALF) for n, name in enumerate(whole)}
    near = {half: at(target, (2 + n) * HALF) for n, half in enumerate(NEAR)}
    shared = Basics(target, at(target, HALF), target, source, source, source, source, at(source, HALF), at(source, 9 * HALF))
    return Fractals(at(target, HALF), at(source, 9 * HALF), near, between, shared)


def _sums(size: int, half: int) -> np.ndarray:
    """Of each row, the tokens from the middle of its group of 2 * half to it, or from behind it to the middle."""
    found = np.zeros((size, size))
    for i in range(size):
        middle = i - i % (2 * half) + half
        found[i, middle : i + 1] = 1
        found[i, i + 1 : middle] = 1
    return found


@dataclass(frozen=True, slots=True)
class Piece:
    """Some key blocks of a chunk, which are scaled together."""

    first: int
    keys: int


def pieces_of(asm: Assembler, most: int) -> list[Piece]:
    """All key blocks."""
    keys = asm.dims.keys
    return [Piece(first, min(most, keys - first)) for first in range(0, keys, most)]


@dataclass(frozen=True, slots=True)
class Gates:
    """What outlives a stage: split decays in L1 as column blocks, raw strengths, diagonals with zeros beside what is written."""

    decays: Parts
    raw: Operand
    diagonals: Operand


def place_gates(asm: Assembler) -> Gates:
    """Setup: room for gates."""
    rows, keys = asm.dims.rows, asm.dims.keys
    decays = parts_in_l1(asm, "decays", rows * keys, number=2)  # gates are fp32 in every form
    raw = asm.buffer("strengths", "UB", asm.dims.chunk * 4, versions=2)
    diagonals = asm.buffer("strength diagonals:UB", "UB", 2 * rows * HALF, kept=True)
    vector(asm, "dup16", diagonals, repeats=4 * rows, scalar=asm.scalar(0.0), label="zeros")
    return Gates(decays, raw, diagonals)


def place_chunk_decay(asm: Assembler) -> Operand:
    """Setup: room in UB for e^G_C of each channel in a row of 16."""
    return asm.buffer("chunk decay", "UB", asm.dims.keys * FULL)


def load_gates(asm: Assembler, gates: Gates, pieces: list[Piece], *, strengths: bool = True) -> None:
    """Load steps: strengths; decays, split on the way to L1, as there is no room in UB to keep them."""
    asm.stage = LOAD
    rows = asm.dims.rows
    if strengths:
        asm.emit("gate_to_ub", gates.raw, p=(tensor("beta"), 0), label="beta")
    for piece in pieces:
        count = rows * piece.keys
        staged = asm.buffer("decays:UB", "UB", count * FULL)
        asm.emit("rows_to_ub", staged, count=piece.keys, p=(tensor("log_decay"), 0, piece.first, 1), label="decays")
        vector(asm, "maxs32", staged, staged, repeats=4 * count, scalar=asm.scalar(LOWEST_DECAY), label="decays")
        target = gates.decays.from_fractal(piece.first * rows)
        _split_rows(asm, staged, count, (Write(target, count * FRACTAL),), "decays")


def lower_strengths(asm: Assembler, fractals: Fractals, gates: Gates) -> tuple[Operand, Parts]:
    """Map steps: strengths in UB, each in all rows of a column, four fractals of them; their logarithms as diagonals in L1."""
    asm.stage = MAP
    rows = asm.dims.rows
    logs = asm.buffer("ln beta", "UB", asm.dims.chunk * 4)
    vector(asm, "ln32", logs, gates.raw, repeats=1, label="ln beta")
    vector(asm, "maxs32", logs, logs, repeats=1, scalar=asm.scalar(LOWEST_STRENGTH), label="ln beta")
    halves = high_and_low(asm, logs, 1, "strengths")
    build_diagonals(asm, halves, gates.diagonals, 2 * rows, "strength")
    diagonals = parts_in_l1(asm, "ln beta", rows, number=2)
    asm.emit("ub_to_l1", diagonals.high, gates.diagonals, size=2 * rows * FRACTAL, label="ln beta")
    tile = asm.buffer("strengths", "L0C", rows * FULL)
    right = load_parts(asm, "B", diagonals, size=rows, label="ln beta")
    multiply(asm, tile, fractals.ones, right, n=rows, overwrite=True, label="strengths")
    columns = copy_out(asm, tile, rows, half=False, label="strengths")
    vector(asm, "exp32", columns, columns, repeats=4 * rows, label="strengths")
    return columns, diagonals


def lower_chunk_decay(asm: Assembler, fractals: Fractals, gates: Gates, target: Operand) -> None:
    """Map steps: e^G_C of each channel, in rows."""
    asm.stage = MAP
    rows, keys = asm.dims.rows, asm.dims.keys
    left = load_parts(asm, "A", gates.decays, size=rows * keys, flags=TRANSPOSE, label="decays^T")
    ones = load(asm, "B", fractals.ones_in_l1, count=rows, label="ones")
    tile = asm.buffer("chunk decay", "L0C", keys * FULL)
    multiply(asm, tile, left, ones, m=keys, k=rows, overwrite=True, label="chunk decay")
    asm.emit("c_to_ub32", target, tile, size=keys, label="chunk decay")
    vector(asm, "exp32", target, target, repeats=4 * keys, label="chunk decay")


@dataclass(frozen=True, slots=True)
class Sources:
    """fp32 rows of a piece in UB, and its decays in L0B; all of them [row block][key block]."""

    piece: Piece
    key: Operand  # times KEY_SCALE
    query: Operand
    decays: Parts

    def count(self, asm: Assembler) -> int:
        """Fractals of a tile."""
        return asm.dims.rows * self.piece.keys


def lower_sources(asm: Assembler, rows: Rows, gates: Gates, piece: Piece, kinds: str = "KQ") -> Sources:
    """Map steps: keys and queries as fp32, or those of one kind."""
    asm.stage = MAP
    blocks, keys = asm.dims.rows, piece.keys
    count = blocks * keys
    found = []
    for name, tile in (("K", rows.key), ("Q", rows.query)):
        if name not in kinds:
            found.append(Operand(""))
            continue
        halves = asm.buffer(f"{name} halves:UB", "UB", count * HALF)
        gap = (blocks - 1) * FRACTAL
        for row in range(blocks):
            place, source = at(halves, row * keys * HALF), at(tile, (piece.first * blocks + row) * HALF)
            asm.emit("l1_to_ub", place, source, count=keys, size=FRACTAL, p=(gap, 0, 0, 0), label=name)
        if name == "K":
            vector(asm, "muls16", halves, halves, repeats=2 * count, scalar=asm.scalar(KEY_SCALE), label=name)
        found.append(asm.buffer(f"{name}:UB", "UB", count * FULL))
        vector(asm, "to32", found[-1], halves, repeats=4 * count, strides=(8, 4, 0), label=name)
    raw = gates.decays.from_fractal(piece.first * blocks)
    decays = load_parts(asm, "B", raw, count=blocks, size=keys, inner=blocks, group=1, flags=TRANSPOSE, label="decays")
    return Sources(piece, found[0], found[1], decays)


@dataclass(frozen=True, slots=True)
class Reads:
    """What the state stage reads of a piece, in L1, [row block][key block]: from the chunk's start keys, then queries; to its
    end keys.
    """

    piece: Piece
    start: Parts
    end: Parts


def place_reads(asm: Assembler, pieces: list[Piece]) -> list[Reads]:
    """Room for two chunks."""
    found = []
    for piece in pieces:
        count = asm.dims.rows * piece.keys
        start, end = parts_in_l1(asm, "start rows", 2 * count, versions=2), parts_in_l1(asm, "end rows", count, versions=2)
        found.append(Reads(piece, start, end))
    return found


def lower_exponents(asm: Assembler, fractals: Fractals, sources: Sources, name: str) -> Operand:
    """Sums of decays of each row, between blocks, in L0C."""
    rows, keys = asm.dims.rows, sources.piece.keys
    tile = asm.buffer(f"{name} exponents", "L0C", rows * keys * FULL)
    left = load(asm, "A", fractals.between[name], size=rows * rows, label=f"{name} sums")
    multiply(
        asm, tile, left, sources.decays, count=rows, n=keys, k=rows, move_tile=keys, move_left=rows, overwrite=True,
        label=f"{name} sums",
    )  # fmt: skip
    return tile


def exponential(asm: Assembler, tile: Operand, count: int, name: str, *, room: int = 0) -> Operand:
    """exp of a tile of L0C in UB, with room for so many fractals behind it."""
    staged = asm.buffer(f"{name}:UB", "UB", (count + room) * FULL)
    asm.emit("c_to_ub32", staged, tile, size=count, label=name)
    vector(asm, "exp32", staged, staged, repeats=4 * count, label=name)
    return staged


def _split_rows(asm: Assembler, rows: Operand, fractals: int, places: tuple[Write, ...], label: str) -> None:
    """Both parts of scaled rows to their places; the rows are used up."""
    for part in range(places[0].target.number):
        name = f"{label} {'low' if part else 'high'}"
        staged = asm.buffer(f"{name}:UB", "UB", fractals * HALF)
        vector(asm, "to16", staged, rows, repeats=4 * fractals, strides=(4, 8, 0), label=name)
        for place in places:
            write(asm, staged, place, part, name)
        if part < places[0].target.number - 1:
            subtract(asm, rows, staged, 4 * fractals, label=f"{label} less its high part")


def lower_reads(asm: Assembler, fractals: Fractals, sources: Sources, log_strengths: Parts, reads: Reads) -> None:
    """Map steps: what reads the state, and what writes it: keys with their strengths."""
    lower_end_rows(asm, fractals, sources, log_strengths, reads)
    lower_start_rows(asm, fractals, sources, reads)


def lower_end_rows(asm: Assembler, fractals: Fractals, sources: Sources, log_strengths: Parts, reads: Reads) -> None:
    """Map steps: keys to the chunk's end, with their strengths."""
    asm.stage = MAP
    rows, keys, count = asm.dims.rows, sources.piece.keys, sources.count(asm)
    tile = lower_exponents(asm, fractals, sources, "end")
    strengths = load_parts(asm, "A", log_strengths, size=rows, label="ln beta")
    ones = load(asm, "B", fractals.ones_in_l1, count=keys, label="ones")
    multiply(asm, tile, strengths, ones, count=rows, n=keys, move_tile=keys, move_left=1, label="end sums: ln beta")
    end = exponential(asm, tile, count, "end")
    vector(asm, "mul32", end, end, sources.key, repeats=4 * count, label="end rows")
    _split_rows(asm, end, count, (Write(reads.end, count * FRACTAL),), "end rows")


def lower_start_rows(asm: Assembler, fractals: Fractals, sources: Sources, reads: Reads, kinds: str = "KQ") -> None:
    """Map steps: keys and queries from the chunk's start, or those of one kind."""
    asm.stage = MAP
    count = sources.count(asm)
    start = exponential(asm, lower_exponents(asm, fractals, sources, "start"), count, "start")
    if "Q" in kinds:
        queries = asm.buffer("start queries:UB", "UB", count * FULL)
        vector(asm, "mul32", queries, start, sources.query, repeats=4 * count, label="start queries")
        _split_rows(asm, queries, count, (Write(reads.start.from_fractal(count), count * FRACTAL),), "start queries")
    if "K" in kinds:
        vector(asm, "mul32", start, start, sources.key, repeats=4 * count, label="start keys")
        _split_rows(asm, start, count, (Write(reads.start, count * FRACTAL),), "start keys")


@dataclass(frozen=True, slots=True)
class LevelRows:
    """Rows of one halving of a piece in L1, [row block][key block]: keys, then queries."""

    piece: Piece
    keys: Parts
    queries: Parts


def place_level_rows(asm: Assembler, pieces: list[Piece]) -> list[dict[int, LevelRows]]:
    """Setup: room for the halvings inside blocks of each piece, with zeros where there are no rows."""
    most = asm.dims.rows * pieces[0].keys
    staged = asm.buffer("zeros:UB", "UB", 2 * most * HALF)
    vector(asm, "dup16", staged, repeats=4 * most, scalar=asm.scalar(0.0), label="zeros")
    found = []
    for piece in pieces:
        count = asm.dims.rows * piece.keys
        levels = {}
        for half in NEAR:
            keys, queries = (parts_in_l1(asm, f"level {half} {name}", count, kept=True) for name in ("keys", "queries"))
            for parts in (keys, queries) if half == 1 else (queries,):
                asm.emit("ub_to_l1", parts.high, staged, size=parts.number * count * FRACTAL, first=True, label="zeros")
            levels[half] = LevelRows(piece, keys, queries)
        found.append(levels)
    return found


def lower_far_level(asm: Assembler, fractals: Fractals, sources: Sources, half: int) -> LevelRows:
    """Map steps: the rows of a halving between blocks. Queries of second halves only."""
    asm.stage = MAP
    rows, keys, count = asm.dims.rows, sources.piece.keys, sources.count(asm)
    name = f"level {half}"
    parts = parts_in_l1(asm, f"{name} keys", count), parts_in_l1(asm, f"{name} queries", count // 2)
    level = LevelRows(sources.piece, *parts)
    scaled = exponential(asm, lower_exponents(asm, fractals, sources, str(half)), count, name, room=count // 2)
    runs = [(rows // 2, rows // 2)] if half == 8 * rows else [(row, 1) for row in range(1, rows, 2)]
    done = count
    for row, height in runs:
        offset, size = row * keys * FULL, height * keys
        moved = at(scaled, done * FULL), at(scaled, offset), at(sources.query, offset)
        vector(asm, "mul32", *moved, repeats=4 * size, label=f"{name} queries")
        done += size
    vector(asm, "mul32", scaled, scaled, sources.key, repeats=4 * count, label=f"{name} keys")
    size = count * FRACTAL
    places = Write(level.keys, size), Write(level.queries, size // 2, source=size)
    _split_rows(asm, scaled, count + count // 2, places, f"{name} rows")
    return level


def lower_near_level(asm: Assembler, fractals: Fractals, sources: Sources, level: LevelRows, half: int) -> None:
    """Map steps: the rows of a halving inside blocks. Halves of one token meet keys as they came."""
    asm.stage = MAP
    count, name = sources.count(asm), f"level {half}"
    tile = asm.buffer(f"{name} exponents", "L0C", count * FULL)
    multiply(asm, tile, fractals.near[half], sources.decays, n=count, overwrite=True, label=f"{name} sums")
    key, query = f"{name} keys", f"{name} queries"
    if half == 1:
        first = count // 2
        exponents = copy_out(asm, tile, count, half=False, label=name)
        scaled = asm.buffer(f"{name} rows:UB", "UB", count * FULL)
        behind = at(scaled, first * FULL)
        second_halves(asm, "exp32", half, scaled, exponents, fractals=count, label=name)
        second_halves(asm, "mul32", half, behind, sources.query, scaled, packed=True, fractals=count, label=query)
        second_halves(asm, "mul32", half, scaled, sources.key, scaled, packed=True, fractals=count, label=key)
        keys = scatter_halves(level.keys, half, count)
    else:
        first = count
        scaled = exponential(asm, tile, count, name, room=count // 2)
        second_halves(asm, "mul32", half, at(scaled, first * FULL), scaled, sources.query, fractals=count, label=query)
        vector(asm, "mul32", scaled, scaled, sources.key, repeats=4 * count, label=key)
        keys = Write(level.keys, count * FRACTAL)
    places = keys, scatter_halves(level.queries, half, count, source=first)
    _split_rows(asm, scaled, first + count // 2, places, f"{name} rows")
