"""Keys and queries of a chunk times decays of each channel, split, as operands of scores and states.

Rows scaled from their block's start or to its end come from the vector unit; farther reaches multiply those by factors of
whole blocks on the cube. Inside a block of 16, each halving has a tile of its own: second halves from the middle of their
group (of keys and of queries), first halves to the middle (of keys). Keys have a minus sign, but for those of `suffix`,
which have the strength; queries the call's scale over the state's.
"""

from dataclasses import dataclass

from hajax.lowering.assembler import FULL, HALF, Assembler, at
from hajax.lowering.per_channel_gates import BLOCK_0, BLOCK_1, LEVELS, LOWER, SLOTS, UPPER, Fractals
from hajax.lowering.per_channel_tiles import FRACTAL, Write, scatter_halves, second_halves, split_tile
from hajax.lowering.system import Inputs
from hajax.lowering.tiles import TRANSPOSE, Parts, copy_out, load, load_parts, multiply, parts_in_l1, vector
from hajax.plans.program import MAP, Operand


@dataclass(frozen=True, slots=True)
class Sources:
    """fp32 rows of a head in UB, [row block][key block]: minus keys, then scaled queries; keys times strengths."""

    rows: Operand
    strong_keys: Operand


def lower_sources(asm: Assembler, fractals: Fractals, inputs: Inputs, strengths: Parts, head: int) -> Sources:
    """Map steps: products with diagonals of one fractal make fp32 of fp16."""
    asm.stage = MAP
    dims = asm.dims
    rows, keys, count = dims.rows, dims.keys, dims.rows * dims.keys
    key, query = (
        load(asm, "B", tiles[dims.key_head(head)], count=rows, size=keys, inner=rows, group=1, flags=TRANSPOSE, label=name)
        for name, tiles in (("K", inputs.keys), ("Q", inputs.queries))
    )
    tile = asm.buffer("rows", "L0C", 2 * count * FULL)
    multiply(asm, tile, fractals.negative, key, n=count, overwrite=True, label="minus K")
    multiply(asm, at(tile, count * FULL), fractals.scale, query, n=count, overwrite=True, label="scale Q")
    strong = asm.buffer("strong keys", "L0C", count * FULL)
    left = load_parts(asm, "A", strengths.from_fractal(head * rows), size=rows, label="strengths")
    multiply(
        asm, strong, left, key, count=rows, n=keys, move_tile=keys, move_left=1, move_right=keys, overwrite=True, label="beta K"
    )
    return Sources(
        copy_out(asm, tile, 2 * count, half=False, label="rows"), copy_out(asm, strong, count, half=False, label="strong keys")
    )


def load_decays(asm: Assembler, decays: Parts) -> Parts:
    """A head's decays in L0B, [row block][key block]."""
    rows, keys = asm.dims.rows, asm.dims.keys
    return load_parts(asm, "B", decays, count=rows, size=keys, inner=rows, group=1, flags=TRANSPOSE, label="decays")


def _exponents(asm: Assembler, left: Operand, decays: Parts, label: str) -> Operand:
    count = asm.dims.rows * asm.dims.keys
    tile = asm.buffer(f"{label} exponents", "L0C", count * FULL)
    multiply(asm, tile, left, decays, n=count, overwrite=True, label=f"{label} exponents")
    return tile


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


def lower_block_rows(
    asm: Assembler, fractals: Fractals, sources: Sources, decays: Parts, blocks: BlockRows, reads: Reads
) -> None:
    """Map steps: the rows of each block of 16 tokens, from its start and to its end."""
    asm.stage = MAP
    rows, keys, count = asm.dims.rows, asm.dims.keys, asm.dims.rows * asm.dims.keys
    tile = _exponents(asm, fractals.suffix, decays, "suffix")
    staged = copy_out(asm, tile, count, half=False, label="suffix")
    vector(asm, "exp32", staged, staged, repeats=4 * count, label="suffix")
    vector(asm, "mul32", staged, staged, sources.strong_keys, repeats=4 * count, label="suffix rows")
    size = keys * FRACTAL
    places = (
        Write(blocks.suffix, count * FRACTAL),
        Write(blocks.second, size, source=size, start=3 * size),
        Write(reads.end, size, source=3 * size, start=3 * size),
    )
    tile = asm.buffer("suffix rows", "L0C", count * FULL)
    asm.emit("ub_to_c32", tile, staged, size=count, label="suffix rows")
    split_tile(asm, fractals.negative, tile, count, places, ((blocks.suffix.high, {"size": count}),), label="suffix rows")

    tile = _exponents(asm, fractals.prefix, decays, "prefix")
    staged = asm.buffer("prefix:UB", "UB", 2 * count * FULL)
    asm.emit("c_to_ub32", staged, tile, size=count, label="prefix")
    vector(asm, "exp32", staged, staged, repeats=4 * count, label="prefix")
    query = at(sources.rows, count * FULL)
    vector(asm, "mul32", at(staged, count * FULL), staged, query, repeats=4 * count, label="prefix Q")
    vector(asm, "mul32", staged, staged, sources.rows, repeats=4 * count, label="prefix K")
    tile = asm.buffer("prefix rows", "L0C", 2 * count * FULL)
    asm.emit("ub_to_c32", tile, staged, size=2 * count, label="prefix rows")
    gap = (rows - 1) * size
    places = (
        Write(blocks.prefix, 2 * count * FRACTAL),
        Write(reads.start, size, count=2, source_gap=gap, target_gap=gap),
    )
    rest = ((blocks.prefix.high, {"size": 2 * count}),)
    split_tile(asm, fractals.negative, tile, 2 * count, places, rest, label="prefix rows")


def lower_far_rows(asm: Assembler, fractals: Fractals, factors: Parts, blocks: BlockRows, reads: Reads) -> tuple[Parts, Parts]:
    """Map steps: rows times factors of whole blocks: from and to the middle of the chunk, from its start, to its end.

    factors: diagonals in L1, [key block][slot]. Returns in L0A keys and queries of blocks 1 and 3 as lower_block_rows left
    them, and those of blocks 2 and 3 from the middle: [K, K, Q, Q] each.
    """
    asm.stage = MAP
    rows, keys = asm.dims.rows, asm.dims.keys
    size, gap = keys * FRACTAL, (rows - 1) * keys * FRACTAL
    odd = Parts(asm.buffer("odd rows:A", "L0A", 12 * keys * HALF), 6 * keys)
    shape = {"size": keys, "label": "odd rows"}
    load_parts(asm, "A", blocks.prefix.from_fractal(keys), count=4, group=2 * keys, target=odd, **shape)
    load_parts(asm, "A", blocks.suffix, count=2, group=2 * keys, target=odd.from_fractal(4 * keys), **shape)
    right = _diagonals(asm, factors, ((BLOCK_0, 2, 1), (BLOCK_0, 2, 1), (BLOCK_1, 2, 1)))
    tile = asm.buffer("middle rows", "L0C", 6 * keys * FULL)
    steps = {"count": 6 * keys, "move_tile": 1, "move_left": 1, "move_right": 1}
    multiply(asm, tile, odd, right, overwrite=True, label="middle rows", **steps)
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

    late = Parts(asm.buffer("late rows:A", "L0A", 12 * keys * HALF), 6 * keys)
    for start in (0, 1):
        source = blocks.prefix.from_fractal((2 + start * rows) * keys)
        load_parts(asm, "A", source, size=keys, target=late.from_fractal(2 * start * keys), label="late rows")
        source = blocks.second.from_fractal(start * keys)
        load_parts(asm, "A", source, size=keys, target=late.from_fractal((2 * start + 1) * keys), label="late rows")
    load_parts(asm, "A", blocks.second.from_fractal(2 * keys), size=2 * keys, target=late.from_fractal(4 * keys), label="late rows")
    right = _diagonals(asm, factors, ((UPPER, 4, 0), (LOWER, 2, 0)))
    tile = asm.buffer("far rows", "L0C", 6 * keys * FULL)
    multiply(asm, tile, late, right, overwrite=True, label="far rows", **steps)
    half = 2 * size
    places = (
        Write(reads.start, half, count=2, start=half, target_gap=half),
        Write(reads.end, half, source=2 * half),
    )
    rest = (
        (at(reads.start.high, 2 * keys * HALF), {"count": 2, "size": 2 * keys, "group": rows * keys}),
        (reads.end.high, {"size": 2 * keys}),
    )
    split_tile(asm, fractals.negative, tile, 6 * keys, places, rest, label="far rows")
    return odd, late


def _diagonals(asm: Assembler, factors: Parts, groups: tuple[tuple[int, int, int], ...]) -> Parts:
    """Of every key block the diagonals of (slot, how many, next ones' distance) in L0B."""
    keys = asm.dims.keys
    total = sum(count for _, count, _ in groups) * keys
    target = Parts(asm.buffer("factors:B", "L0B", 2 * total * HALF), total)
    loaded = 0
    for slot, count, distance in groups:
        load_parts(
            asm, "B", factors.from_fractal(slot), count=count, size=keys, inner=SLOTS, group=distance,
            target=target.from_fractal(loaded), label="factors",
        )  # fmt: skip
        loaded += count * keys
    return target


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
    asm.emit("ub_to_l1", rows.high, staged, size=4 * count * FRACTAL, first=True, label="zeros")
    return LevelRows(rows, asm.buffer("packed rows", "L1", count * HALF))


def lower_level_rows(
    asm: Assembler, fractals: Fractals, sources: Sources, decays: Parts, level: LevelRows, half: int
) -> None:
    """Map steps: the rows of one halving. The one with halves of a token leaves the keys that it meets unscaled."""
    asm.stage = MAP
    assert half in LEVELS
    count = asm.dims.rows * asm.dims.keys
    name = f"level {half}"
    tile = _exponents(asm, fractals.levels[half], decays, name)
    query = at(sources.rows, count * FULL)
    if half == 1:
        exponents = copy_out(asm, tile, count, half=False, label=name)
        staged = asm.buffer(f"{name} rows:UB", "UB", count * FULL)
        middle = at(staged, count // 2 * FULL)
        second_halves(asm, "exp32", half, staged, exponents, fractals=count, label=name)
        second_halves(asm, "mul32", half, middle, query, staged, packed=True, fractals=count, label=f"{name} Q")
        second_halves(asm, "mul32", half, staged, sources.rows, staged, packed=True, fractals=count, label=f"{name} K")
        total, first = count, 0
        places = (
            Write(Parts(level.packed, 0), count * FRACTAL, low=False),
            scatter_halves(level.rows, half, 2 * count),
        )
    else:
        total, first = count + count // 2, count
        staged = asm.buffer(f"{name} rows:UB", "UB", total * FULL)
        asm.emit("c_to_ub32", staged, tile, size=count, label=name)
        vector(asm, "exp32", staged, staged, repeats=4 * count, label=name)
        second_halves(asm, "mul32", half, at(staged, count * FULL), query, staged, fractals=count, label=f"{name} Q")
        vector(asm, "mul32", staged, staged, sources.rows, repeats=4 * count, label=f"{name} K")
        places = (
            Write(level.rows, count * FRACTAL),
            Write(Parts(level.packed, 0), count // 2 * FRACTAL, source=count * FRACTAL, low=False),
            scatter_halves(level.rows, half, count, start=count, source=count),
        )
    rest = (((level.rows.high, {"size": first}),) if first else ()) + ((level.packed, {"size": total - first}),)
    tile = asm.buffer(f"{name} rows", "L0C", total * FULL)
    asm.emit("ub_to_c32", tile, staged, size=total, label=f"{name} rows")
    split_tile(asm, fractals.negative, tile, total, places, rest, label=f"{name} rows")
