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
    """Buffers that the rows of one kind after the other, of one head after the other, use: they bound what is alive at once.

    Those in L0C are None where it is small: then tiles come and go, and the search for an order has more to choose from.
    """

    rows: Operand  # in UB, fp32: minus keys, then scaled queries, [row block][key block]
    scaled: Operand  # in UB: the rows at work
    exponents: Operand | None  # in L0C
    tile: Operand | None  # in L0C: the rows at work
    groups: tuple[tuple[int, ...], ...]  # of kinds of rows (keys, queries) that are in the tile together, one group after another


def place_desk(asm: Assembler, side_by_side: bool) -> Desk:
    """The buffers. For one head they are kept, so that what comes and goes beside them has one room of its own."""
    count, kept = asm.dims.rows * asm.dims.keys, asm.dims.heads == 1
    rows, scaled = (asm.buffer(f"{name}:UB", "UB", 2 * count * FULL, kept=kept) for name in ("rows", "scaled rows"))
    if not side_by_side:
        return Desk(rows, scaled, None, None, ((0,), (1,)))
    exponents, tile = (
        asm.buffer(name, "L0C", size * FULL, kept=kept) for name, size in (("exponents", count), ("scaled rows", 2 * count))
    )
    return Desk(rows, scaled, exponents, tile, ((0, 1),))


def tile_of(asm: Assembler, desk: Desk, fractals: int) -> Operand:
    """Room in L0C for so many fractals of rows at work."""
    return asm.buffer("scaled rows", "L0C", fractals * FULL) if desk.tile is None else desk.tile


def _source(asm: Assembler, tiles: tuple[Operand, ...], head: int, label: str) -> Operand:
    """Rows of a key head as right operand, [row block][key block]."""
    rows, keys = asm.dims.rows, asm.dims.keys
    tile = tiles[asm.dims.key_head(head)]
    return load(asm, "B", tile, count=rows, size=keys, inner=rows, group=1, flags=TRANSPOSE, label=label)


def lower_exponents(asm: Assembler, desk: Desk, decays: Parts, left: Operand) -> Operand:
    """Map steps: a 0/1 matrix times a head's decays, in L0C."""
    asm.stage = MAP
    rows, keys = asm.dims.rows, asm.dims.keys
    right = load_parts(asm, "B", decays, count=rows, size=keys, inner=rows, group=1, flags=TRANSPOSE, label="decays")
    count = rows * keys
    tile = asm.buffer("exponents", "L0C", count * FULL) if desk.exponents is None else desk.exponents
    multiply(asm, tile, left, right, n=count, overwrite=True, label="exponents")
    return tile


@dataclass(frozen=True, slots=True)
class Reads:
    """What the state stage reads of a head, in L1: minus keys then queries, from the chunk's start; strong keys to its end."""

    start: Parts  # [key block][minus K, Q][row block]
    end: Parts  # [key block][row block]


@dataclass(frozen=True, slots=True)
class BlockRows:
    """Rows from their block's start (keys, then queries) and strong keys to its end, in L1, [row block][key block]."""

    prefix: Parts
    suffix: Parts
    passing: Operand  # high parts on their way
    second: Parts  # keys of blocks 2 and 3 from the chunk's middle, the queries, strong keys of blocks 0 and 1 to it


def place_block_rows(asm: Assembler) -> BlockRows:
    """Room in L1; used by one head after the other."""
    rows, keys = asm.dims.rows, asm.dims.keys
    return BlockRows(
        parts_in_l1(asm, "prefix rows", 2 * rows * keys),
        parts_in_l1(asm, "suffix rows", rows * keys),
        asm.buffer("passing rows", "L1", 6 * keys * HALF),
        parts_in_l1(asm, "second rows", 6 * keys),
    )


def lower_suffix_rows(
    asm: Assembler,
    fractals: Fractals,
    desk: Desk,
    exponents: Operand,
    inputs: Inputs,
    strengths: Parts,
    blocks: BlockRows,
    reads: Reads,
    head: int,
) -> None:
    """Map steps: strong keys to the end of their block of 16 tokens. Products make fp32 of fp16."""
    asm.stage = MAP
    rows, keys, count = asm.dims.rows, asm.dims.keys, asm.dims.rows * asm.dims.keys
    source = _source(asm, inputs.keys, head, "K")
    left = load_parts(asm, "A", strengths.from_fractal(head * rows), size=rows, label="strengths")
    tile = tile_of(asm, desk, count)
    multiply(
        asm, tile, left, source, count=rows, n=keys, move_tile=keys, move_left=1, move_right=keys, overwrite=True,
        label="beta K",
    )  # fmt: skip
    strong, staged = at(desk.scaled, count * FULL), desk.scaled
    asm.emit("c_to_ub32", strong, tile, size=count, label="strong keys")
    asm.emit("c_to_ub32", staged, exponents, size=count, label="suffix")
    vector(asm, "exp32", staged, staged, repeats=4 * count, label="suffix")
    vector(asm, "mul32", staged, staged, strong, repeats=4 * count, label="suffix rows")
    size = keys * FRACTAL
    places = (
        Write(blocks.suffix, count * FRACTAL),
        Write(blocks.second, size, source=size, start=5 * size),
        _column(asm, reads.end, 3, rows, 3),
    )
    tile = tile_of(asm, desk, count)
    asm.emit("ub_to_c32", tile, staged, size=count, label="suffix rows")
    split_tile(asm, fractals.negative, tile, count, places, blocks.suffix.high, label="suffix rows")


def lower_rows(asm: Assembler, fractals: Fractals, desk: Desk, inputs: Inputs, head: int) -> None:
    """Map steps: keys and queries of a head to the desk."""
    asm.stage = MAP
    count = asm.dims.rows * asm.dims.keys
    kinds = ((inputs.keys, "K", fractals.left_keys, "minus K"), (inputs.queries, "Q", fractals.scale, "scale Q"))
    for group in desk.groups:
        tile = tile_of(asm, desk, len(group) * count)
        for number, kind in enumerate(group):
            tiles, name, left, label = kinds[kind]
            source = _source(asm, tiles, head, name)
            multiply(asm, at(tile, number * count * FULL), left, source, n=count, overwrite=True, label=label)
        asm.emit("c_to_ub32", at(desk.rows, group[0] * count * FULL), tile, size=len(group) * count, label="rows")


def lower_prefix_rows(
    asm: Assembler, fractals: Fractals, desk: Desk, exponents: Operand, blocks: BlockRows, reads: Reads
) -> None:
    """Map steps: keys and queries from the start of their block of 16 tokens."""
    asm.stage = MAP
    rows, keys, count = asm.dims.rows, asm.dims.keys, asm.dims.rows * asm.dims.keys
    staged = desk.scaled
    asm.emit("c_to_ub32", staged, exponents, size=count, label="prefix")
    vector(asm, "exp32", staged, staged, repeats=4 * count, label="prefix")
    query = at(desk.rows, count * FULL)
    vector(asm, "mul32", at(staged, count * FULL), staged, query, repeats=4 * count, label="prefix Q")
    vector(asm, "mul32", staged, staged, desk.rows, repeats=4 * count, label="prefix K")
    size, gap = keys * FRACTAL, (rows - 1) * keys * FRACTAL
    for group in desk.groups:
        first, several = group[0], len(group) > 1
        tile = tile_of(asm, desk, len(group) * count)
        asm.emit("ub_to_c32", tile, at(staged, first * count * FULL), size=len(group) * count, label="prefix rows")
        own = blocks.prefix.from_fractal(first * count)
        places = (
            Write(own, len(group) * count * FRACTAL),
            Write(
                blocks.second,
                size,
                count=len(group),
                start=2 * first * size,
                source=2 * size,
                source_gap=gap * several,
                target_gap=size * several,
            ),
            *(_column(asm, reads.start, number * rows, 2 * rows, kind * rows) for number, kind in enumerate(group)),
        )
        split_tile(asm, fractals.negative, tile, len(group) * count, places, own.high, label="prefix rows")


def lower_middle_rows(
    asm: Assembler, fractals: Fractals, desk: Desk, factors: Parts, blocks: BlockRows, reads: Reads
) -> list[Parts]:
    """Map steps: block 1 from the chunk's start, 3 from its middle, 0 to its middle, 2 to its end.

    factors: diagonals of whole blocks in L1, [key block][slot]. Returns the keys of blocks 1 and 3 from their own start in L0A,
    and the queries.
    """
    asm.stage = MAP
    rows, keys = asm.dims.rows, asm.dims.keys
    size = keys * FRACTAL
    apart = len(desk.groups) > 1
    tile = tile_of(asm, desk, 4 * keys)
    near = []
    right = _diagonals(asm, factors, BLOCK_0, 2, 1)
    for kind in (0, 1):
        source = blocks.prefix.from_fractal((1 + kind * rows) * keys)
        near.append(load_parts(asm, "A", source, count=2, size=keys, group=2 * keys, label="near rows"))
        _scale(asm, at(tile, 2 * kind * keys * FULL), near[kind], right, "middle rows")
    starts = (
        Write(blocks.second, size, count=2, source=size, start=size, source_gap=size, target_gap=size),
        _column(asm, reads.start, 0, 2 * rows, 1),
        _column(asm, reads.start, 2, 2 * rows, rows + 1),
    )
    if apart:
        _split_passing(asm, fractals, tile, 4 * keys, starts, blocks, "middle rows")
        tile = tile_of(asm, desk, 2 * keys)
    behind = 0 if apart else 4  # the place of strong keys in the tile
    left = load_parts(asm, "A", blocks.suffix, count=2, size=keys, group=2 * keys, label="near rows")
    _scale(asm, at(tile, behind * keys * FULL), left, _diagonals(asm, factors, BLOCK_1, 2, 1), "middle rows")
    ends = (
        Write(blocks.second, size, source=behind * size, start=4 * size),
        _column(asm, reads.end, behind + 1, rows, 2),
    )
    if apart:
        _split_passing(asm, fractals, tile, 2 * keys, ends, blocks, "middle rows")
    else:
        places = (starts[0], ends[0], *starts[1:], ends[1])
        _split_passing(asm, fractals, tile, 6 * keys, places, blocks, "middle rows")
    return near


def _split_passing(
    asm: Assembler, fractals: Fractals, tile: Operand, count: int, places: tuple[Write, ...], blocks: BlockRows, label: str
) -> None:
    """Splits rows that no place takes as they are: their high parts pass through L1."""
    passing = Write(Parts(blocks.passing, 0), count * FRACTAL, low=False)
    split_tile(asm, fractals.negative, tile, count, (passing, *places), blocks.passing, label=label)


def _column(asm: Assembler, target: Parts, source: int, height: int, row: int) -> Write:
    """Block `source` of a tile of [block][key block] to row block `row` of one of [key block][row block], `height` of them."""
    keys = asm.dims.keys
    return Write(
        target, FRACTAL, count=keys, start=row * FRACTAL, source=source * keys * FRACTAL, target_gap=(height - 1) * FRACTAL
    )


def lower_far_rows(asm: Assembler, fractals: Fractals, desk: Desk, factors: Parts, blocks: BlockRows, reads: Reads) -> None:
    """Map steps: blocks 2 and 3 from the chunk's start, 0 and 1 to its end: a product for all rows that share a factor."""
    asm.stage = MAP
    keys = asm.dims.keys
    apart = len(desk.groups) > 1
    pair = 2 * FRACTAL
    places: list[Write] = []
    for start, height, slot in ((0, 4, UPPER), (4, 2, LOWER)):
        own = 0 if apart else start * keys  # their place in the tile
        tile = tile_of(asm, desk, height * keys)
        left = load_parts(
            asm, "A", blocks.second.from_fractal(start * keys), count=keys, size=height, inner=keys, group=1, label="late rows"
        )
        multiply(
            asm, at(tile, own * FULL), left, _diagonals(asm, factors, slot, 1, 0), count=keys, m=height,
            move_tile=height, move_left=height, move_right=1, overwrite=True, label="far rows",
        )  # fmt: skip
        if slot == UPPER:
            places.append(Write(reads.start, pair, count=2 * keys, start=pair, target_gap=pair))
        else:
            places.append(Write(reads.end, pair, count=keys, source=own * FRACTAL, target_gap=pair))
        if apart:
            _split_passing(asm, fractals, tile, height * keys, (places.pop(),), blocks, "far rows")
    if not apart:
        _split_passing(asm, fractals, tile, 6 * keys, tuple(places), blocks, "far rows")


def _diagonals(asm: Assembler, factors: Parts, slot: int, count: int, distance: int) -> Parts:
    """Of every key block the diagonals of `count` slots in L0B."""
    keys = asm.dims.keys
    return load_parts(asm, "B", factors.from_fractal(slot), count=count, size=keys, inner=SLOTS, group=distance, label="factors")


def _scale(asm: Assembler, tile: Operand, left: Parts, right: Parts, label: str) -> None:
    """Rows of two blocks times diagonals."""
    count = 2 * asm.dims.keys
    multiply(asm, tile, left, right, count=count, move_tile=1, move_left=1, move_right=1, overwrite=True, label=label)


@dataclass(frozen=True, slots=True)
class LevelRows:
    """Rows of one halving in L1, used again and again: keys, then queries, [row block][key block]; and those on their way."""

    rows: Parts
    passing: Operand


def place_level_rows(asm: Assembler) -> LevelRows:
    """Setup: room, with zeros where a first halving leaves rows out."""
    count = asm.dims.rows * asm.dims.keys
    rows = parts_in_l1(asm, "level rows", 2 * count, kept=True)
    staged = asm.buffer("zeros:UB", "UB", 4 * count * HALF)
    vector(asm, "dup16", staged, repeats=8 * count, scalar=asm.scalar(0.0), label="zeros")
    asm.emit("ub_to_l1", rows.high, staged, size=4 * count * FRACTAL, label="zeros")
    return LevelRows(rows, asm.buffer("passing level rows", "L1", 3 * count // 2 * HALF))


def lower_level_rows(asm: Assembler, fractals: Fractals, desk: Desk, exponents: Operand, level: LevelRows, half: int) -> None:
    """Map steps: the rows of one halving. The one with halves of a token leaves the keys that it meets unscaled."""
    asm.stage = MAP
    assert half in LEVELS
    count = asm.dims.rows * asm.dims.keys
    name = f"level {half}"
    key, query, staged = desk.rows, at(desk.rows, count * FULL), desk.scaled
    places: tuple[Write, ...]
    if half == 1:
        # The exponents lie where packed queries come to lie, behind the packed factors, which keys are multiplied into.
        middle = at(staged, count // 2 * FULL)
        asm.emit("c_to_ub32", middle, exponents, size=count, label=name)
        second_halves(asm, "exp32", half, staged, middle, fractals=count, label=name)
        second_halves(asm, "mul32", half, middle, query, staged, packed=True, fractals=count, label=f"{name} Q")
        second_halves(asm, "mul32", half, staged, key, staged, packed=True, fractals=count, label=f"{name} K")
        groups: tuple[tuple[int, int, tuple[Write, ...]], ...] = ((0, count, (scatter_halves(level.rows, half, 2 * count),)),)
    else:
        asm.emit("c_to_ub32", staged, exponents, size=count, label=name)
        vector(asm, "exp32", staged, staged, repeats=4 * count, label=name)
        second_halves(asm, "mul32", half, at(staged, count * FULL), query, staged, fractals=count, label=f"{name} Q")
        vector(asm, "mul32", staged, staged, key, repeats=4 * count, label=f"{name} K")
        scaled = Write(level.rows, count * FRACTAL)
        if len(desk.groups) > 1:
            groups = (
                (0, count, (scaled,)),
                (count, count // 2, (scatter_halves(level.rows, half, count, start=count),)),
            )
        else:
            groups = ((0, count + count // 2, (scaled, scatter_halves(level.rows, half, count, start=count, source=count))),)
    for first, size, places in groups:
        passing = Write(Parts(level.passing, 0), size * FRACTAL, low=False)
        tile = tile_of(asm, desk, size)
        asm.emit("ub_to_c32", tile, at(staged, first * FULL), size=size, label=f"{name} rows")
        split_tile(asm, fractals.negative, tile, size, (passing, *places), level.passing, label=f"{name} rows")
