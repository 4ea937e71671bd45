"""Keys and queries of a chunk times decays of each channel, split, as operands of scores and states.

Rows scaled from their block's start or to its end come from the vector unit; farther reaches multiply those by factors of
whole blocks on the cube. Inside a block of 16, each halving has a tile of its own: second halves from the middle of their
group (of keys and of queries), first halves to the middle (of keys). Keys come in two kinds: minus keys over the state's scale,
and strong keys, times strength and the state's scale; queries come times the call's scale over the state's.
"""

from dataclasses import dataclass

from hajax.lowering.assembler import FULL, HALF, Assembler, at
from hajax.lowering.per_channel_gates import BLOCK_0, BLOCK_1, LEVELS, LOWER, SLOTS, UPPER, Fractals
from hajax.lowering.per_channel_tiles import FRACTAL, Write, scatter_halves, second_halves, split_tile
from hajax.lowering.system import Inputs
from hajax.lowering.tiles import TRANSPOSE, Parts, load, load_parts, multiply, parts_in_l1, vector
from hajax.plans.program import MAP, Operand


@dataclass(frozen=True, slots=True)
class Desk:
    """Buffers that the rows of one kind after the other, of one head after the other, use: they bound what is alive at once."""

    rows: Operand  # in UB, fp32: minus keys, then scaled queries, [row block][key block]
    scaled: Operand  # in UB: the rows at work
    exponents: Operand  # in L0C
    tile: Operand  # in L0C: the rows at work


def place_desk(asm: Assembler) -> Desk:
    """The buffers. For one head they are kept, so that what comes and goes beside them has one room of its own."""
    count, kept = asm.dims.rows * asm.dims.keys, asm.dims.heads == 1
    rows, scaled = (asm.buffer(f"{name}:UB", "UB", 2 * count * FULL, kept=kept) for name in ("rows", "scaled rows"))
    exponents, tile = (
        asm.buffer(name, "L0C", size * FULL, kept=kept) for name, size in (("exponents", count), ("scaled rows", 2 * count))
    )
    return Desk(rows, scaled, exponents, tile)


def _source(asm: Assembler, tiles: tuple[Operand, ...], head: int, label: str) -> Operand:
    """Rows of a key head as right operand, [row block][key block]."""
    rows, keys = asm.dims.rows, asm.dims.keys
    tile = tiles[asm.dims.key_head(head)]
    return load(asm, "B", tile, count=rows, size=keys, inner=rows, group=1, flags=TRANSPOSE, label=label)


def lower_exponents(asm: Assembler, desk: Desk, decays: Parts, left: Operand) -> None:
    """Map steps: a 0/1 matrix times a head's decays."""
    asm.stage = MAP
    rows, keys = asm.dims.rows, asm.dims.keys
    right = load_parts(asm, "B", decays, count=rows, size=keys, inner=rows, group=1, flags=TRANSPOSE, label="decays")
    multiply(asm, desk.exponents, left, right, n=rows * keys, overwrite=True, label="exponents")


@dataclass(frozen=True, slots=True)
class Reads:
    """What the state stage reads of a head, in L1: minus keys then queries, from the chunk's start; strong keys to its end."""

    start: Parts  # [minus K, Q][row block][key block]
    end: Parts  # [row block][key block]


@dataclass(frozen=True, slots=True)
class BlockRows:
    """Rows from their block's start (keys, then queries) and strong keys to its end, in L1, [row block][key block]."""

    prefix: Parts
    suffix: Parts
    second: Parts  # block 3's keys and queries from the start of block 2; keys of block 0 to the end of block 1; of block 1


def place_block_rows(asm: Assembler) -> BlockRows:
    """Room in L1; used by one head after the other."""
    rows, keys = asm.dims.rows, asm.dims.keys
    return BlockRows(
        parts_in_l1(asm, "prefix rows", 2 * rows * keys),
        parts_in_l1(asm, "suffix rows", rows * keys),
        parts_in_l1(asm, "second rows", 4 * keys),
    )


def lower_suffix_rows(
    asm: Assembler, fractals: Fractals, desk: Desk, inputs: Inputs, strengths: Parts, blocks: BlockRows, reads: Reads, head: int
) -> None:
    """Map steps: strong keys to the end of their block of 16 tokens. Products make fp32 of fp16."""
    asm.stage = MAP
    rows, keys, count = asm.dims.rows, asm.dims.keys, asm.dims.rows * asm.dims.keys
    source = _source(asm, inputs.keys, head, "K")
    left = load_parts(asm, "A", strengths.from_fractal(head * rows), size=rows, label="strengths")
    multiply(
        asm, desk.tile, left, source, count=rows, n=keys, move_tile=keys, move_left=1, move_right=keys, overwrite=True,
        label="beta K",
    )  # fmt: skip
    strong, staged = at(desk.scaled, count * FULL), desk.scaled
    asm.emit("c_to_ub32", strong, desk.tile, size=count, label="strong keys")
    asm.emit("c_to_ub32", staged, desk.exponents, size=count, label="suffix")
    vector(asm, "exp32", staged, staged, repeats=4 * count, label="suffix")
    vector(asm, "mul32", staged, staged, strong, repeats=4 * count, label="suffix rows")
    size = keys * FRACTAL
    places = (
        Write(blocks.suffix, count * FRACTAL),
        Write(blocks.second, size, source=size, start=3 * size),
        Write(reads.end, size, source=3 * size, start=3 * size),
    )
    asm.emit("ub_to_c32", desk.tile, staged, size=count, label="suffix rows")
    rest = ((blocks.suffix.high, {"size": count}),)
    split_tile(asm, fractals.negative, desk.tile, count, places, rest, label="suffix rows")


def lower_prefix_rows(
    asm: Assembler, fractals: Fractals, desk: Desk, inputs: Inputs, blocks: BlockRows, reads: Reads, head: int
) -> None:
    """Map steps: keys and queries from the start of their block of 16 tokens. Fills the desk's rows."""
    asm.stage = MAP
    rows, keys, count = asm.dims.rows, asm.dims.keys, asm.dims.rows * asm.dims.keys
    source = _source(asm, inputs.keys, head, "K")
    multiply(asm, desk.tile, fractals.left_keys, source, n=count, overwrite=True, label="minus K")
    source = _source(asm, inputs.queries, head, "Q")
    multiply(asm, at(desk.tile, count * FULL), fractals.scale, source, n=count, overwrite=True, label="scale Q")
    asm.emit("c_to_ub32", desk.rows, desk.tile, size=2 * count, label="rows")
    staged = desk.scaled
    asm.emit("c_to_ub32", staged, desk.exponents, size=count, label="prefix")
    vector(asm, "exp32", staged, staged, repeats=4 * count, label="prefix")
    query = at(desk.rows, count * FULL)
    vector(asm, "mul32", at(staged, count * FULL), staged, query, repeats=4 * count, label="prefix Q")
    vector(asm, "mul32", staged, staged, desk.rows, repeats=4 * count, label="prefix K")
    asm.emit("ub_to_c32", desk.tile, staged, size=2 * count, label="prefix rows")
    size, gap = keys * FRACTAL, (rows - 1) * keys * FRACTAL
    places = (
        Write(blocks.prefix, 2 * count * FRACTAL),
        Write(reads.start, size, count=2, source_gap=gap, target_gap=gap),
    )
    rest = ((blocks.prefix.high, {"size": 2 * count}),)
    split_tile(asm, fractals.negative, desk.tile, 2 * count, places, rest, label="prefix rows")


def lower_middle_rows(
    asm: Assembler, fractals: Fractals, tile: Operand, factors: Parts, blocks: BlockRows, reads: Reads
) -> list[Parts]:
    """Map steps: block 1 from the chunk's start, 3 from its middle, 0 to its middle, 2 to its end.

    factors: diagonals of whole blocks in L1, [key block][slot]. Returns the keys of blocks 1 and 3 from their own start in L0A,
    and the queries.
    """
    asm.stage = MAP
    rows, keys = asm.dims.rows, asm.dims.keys
    size, gap = keys * FRACTAL, (rows - 1) * keys * FRACTAL
    near = []
    right = _diagonals(asm, factors, BLOCK_0, 2, 1)
    for kind in (0, 1):
        source = blocks.prefix.from_fractal((1 + kind * rows) * keys)
        near.append(load_parts(asm, "A", source, count=2, size=keys, group=2 * keys, label="near rows"))
        _scale(asm, at(tile, 2 * kind * keys * FULL), near[kind], right, "middle rows")
    left = load_parts(asm, "A", blocks.suffix, count=2, size=keys, group=2 * keys, label="near rows")
    _scale(asm, at(tile, 4 * keys * FULL), left, _diagonals(asm, factors, BLOCK_1, 2, 1), "middle rows")
    places = (
        Write(blocks.second, size, count=2, source=size, source_gap=size),
        Write(blocks.second, size, source=4 * size, start=2 * size),
        Write(reads.start, size, count=2, source_gap=size, start=size, target_gap=gap),
        Write(reads.end, size, source=5 * size, start=2 * size),
    )
    rest = (
        (at(reads.start.high, keys * HALF), {"size": keys}),
        (blocks.second.high, {"size": keys}),
        (at(reads.start.high, (rows + 1) * keys * HALF), {"size": keys}),
        (at(blocks.second.high, keys * HALF), {"size": 2 * keys}),
        (at(reads.end.high, 2 * keys * HALF), {"size": keys}),
    )
    split_tile(asm, fractals.negative, tile, 6 * keys, places, rest, label="middle rows")
    return near


def lower_far_rows(
    asm: Assembler, fractals: Fractals, tile: Operand, factors: Parts, blocks: BlockRows, reads: Reads
) -> list[Parts]:
    """Map steps: blocks 2 and 3 from the chunk's start, 0 and 1 to its end.

    Returns the keys of blocks 2 and 3 from the chunk's middle in L0A, and the queries.
    """
    asm.stage = MAP
    rows, keys = asm.dims.rows, asm.dims.keys
    half = 2 * keys * FRACTAL
    right = _diagonals(asm, factors, UPPER, 2, 0)
    late = []
    for kind in (0, 1):
        left = Parts(asm.buffer("late rows:A", "L0A", 4 * keys * HALF), 2 * keys)
        source = blocks.prefix.from_fractal((2 + kind * rows) * keys)
        load_parts(asm, "A", source, size=keys, target=left, label="late rows")
        source = blocks.second.from_fractal(kind * keys)
        load_parts(asm, "A", source, size=keys, target=left.from_fractal(keys), label="late rows")
        _scale(asm, at(tile, 2 * kind * keys * FULL), left, right, "far rows")
        late.append(left)
    left = load_parts(asm, "A", blocks.second.from_fractal(2 * keys), size=2 * keys, label="late rows")
    _scale(asm, at(tile, 4 * keys * FULL), left, _diagonals(asm, factors, LOWER, 2, 0), "far rows")
    places = (
        Write(reads.start, half, count=2, start=half, target_gap=half),
        Write(reads.end, half, source=2 * half),
    )
    rest = (
        (at(reads.start.high, 2 * keys * HALF), {"count": 2, "size": 2 * keys, "group": rows * keys}),
        (reads.end.high, {"size": 2 * keys}),
    )
    split_tile(asm, fractals.negative, tile, 6 * keys, places, rest, label="far rows")
    return late


def _diagonals(asm: Assembler, factors: Parts, slot: int, count: int, distance: int) -> Parts:
    """Of every key block the diagonals of `count` slots in L0B."""
    keys = asm.dims.keys
    return load_parts(asm, "B", factors.from_fractal(slot), count=count, size=keys, inner=SLOTS, group=distance, label="factors")


def _scale(asm: Assembler, tile: Operand, left: Parts, right: Parts, label: str) -> None:
    """Rows of two blocks times diagonals."""
    steps = {"count": 2 * asm.dims.keys, "move_tile": 1, "move_left": 1, "move_right": 1}
    multiply(asm, tile, left, right, overwrite=True, label=label, **steps)


@dataclass(frozen=True, slots=True)
class LevelRows:
    """Rows of one halving in L1, used again and again: keys, then queries, [row block][key block]; packed ones on their way."""

    rows: Parts
    packed: Operand


def place_level_rows(asm: Assembler) -> LevelRows:
    """Setup: room, with zeros where a first halving leaves rows out."""
    count = asm.dims.rows * asm.dims.keys
    rows = parts_in_l1(asm, "level rows", 2 * count, kept=True)
    staged = asm.buffer("zeros:UB", "UB", 4 * count * HALF)
    vector(asm, "dup16", staged, repeats=8 * count, scalar=asm.scalar(0.0), label="zeros")
    asm.emit("ub_to_l1", rows.high, staged, size=4 * count * FRACTAL, label="zeros")
    return LevelRows(rows, asm.buffer("packed rows", "L1", count * HALF))


def lower_level_rows(asm: Assembler, fractals: Fractals, desk: Desk, level: LevelRows, half: int) -> None:
    """Map steps: the rows of one halving. The one with halves of a token leaves the keys that it meets unscaled."""
    asm.stage = MAP
    assert half in LEVELS
    count = asm.dims.rows * asm.dims.keys
    name = f"level {half}"
    key, query, staged = desk.rows, at(desk.rows, count * FULL), desk.scaled
    if half == 1:
        # The exponents lie where packed queries come to lie, behind the packed factors, which keys are multiplied into.
        middle = at(staged, count // 2 * FULL)
        asm.emit("c_to_ub32", middle, desk.exponents, size=count, label=name)
        second_halves(asm, "exp32", half, staged, middle, fractals=count, label=name)
        second_halves(asm, "mul32", half, middle, query, staged, packed=True, fractals=count, label=f"{name} Q")
        second_halves(asm, "mul32", half, staged, key, staged, packed=True, fractals=count, label=f"{name} K")
        total, first = count, 0
        places = (
            Write(Parts(level.packed, 0), count * FRACTAL, low=False),
            scatter_halves(level.rows, half, 2 * count),
        )
    else:
        total, first = count + count // 2, count
        asm.emit("c_to_ub32", staged, desk.exponents, size=count, label=name)
        vector(asm, "exp32", staged, staged, repeats=4 * count, label=name)
        second_halves(asm, "mul32", half, at(staged, count * FULL), query, staged, fractals=count, label=f"{name} Q")
        vector(asm, "mul32", staged, staged, key, repeats=4 * count, label=f"{name} K")
        places = (
            Write(level.rows, count * FRACTAL),
            Write(Parts(level.packed, 0), count // 2 * FRACTAL, source=count * FRACTAL, low=False),
            scatter_halves(level.rows, half, count, start=count, source=count),
        )
    rest = (((level.rows.high, {"size": first}),) if first else ()) + ((level.packed, {"size": total - first}),)
    asm.emit("ub_to_c32", desk.tile, staged, size=total, label=f"{name} rows")
    split_tile(asm, fractals.negative, desk.tile, total, places, rest, label=f"{name} rows")
