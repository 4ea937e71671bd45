"""Scores of a chunk with a decay per channel: binary halvings, 64 and 32 between blocks of 16 tokens, 16 to 2 inside them.

Between blocks every product counts. Inside, the products of a halving also pair groups with one another: lane masks pick
what counts on its way into one tile. The diagonal is that of plain products.
"""

from dataclasses import dataclass

from hajax.lowering.assembler import FULL, Assembler, at
from hajax.lowering.per_channel_gates import LEVELS, Fractals, picked_bytes
from hajax.lowering.per_channel_rows import BlockRows, LevelRows
from hajax.lowering.per_channel_tiles import FRACTAL, Write, Zeros, split_tile
from hajax.lowering.system import Inputs, rows_left
from hajax.lowering.tiles import Matrix, Parts, copy_out, load, load_parts, multiply, parts_in_l1, vector
from hajax.plans.program import MAP, STATE, Operand

_PLACES = {half: number for number, half in enumerate((0, *reversed(LEVELS)))}  # 0: the diagonal; 8 last: its mask never shifts


@dataclass(frozen=True, slots=True)
class ScoreTiles:
    """In L0C. triangles: [head][system, scores] as packed lower triangles; inside: by halving, [row block][head][K, Q], and 0:
    the diagonal, which has queries only.

    picked: in UB, what counts of halvings that are picked one after the other; None: all are when they are all there.
    """

    triangles: Operand
    inside: dict[int, Operand]
    picked: Operand | None

    def halving(self, half: int, head: int) -> Operand:
        """A head's tile of block 0."""
        return at(self.inside[half], (2 * head if half else head) * FULL)


def place_tiles(asm: Assembler, side_by_side: bool) -> ScoreTiles:
    """Room for a chunk; of halvings side by side, or of one after the other."""
    heads, blocks = asm.dims.heads, asm.dims.rows * asm.dims.heads
    picked = None
    if side_by_side:
        every = asm.buffer("inside scores", "L0C", (1 + 2 * len(LEVELS)) * blocks * FULL)
        inside = {half: at(every, (blocks + (place - 1) * 2 * blocks) * FULL if half else 0) for half, place in _PLACES.items()}
    else:
        assert heads == 1, "halvings of several heads are picked together"
        inside = {half: asm.buffer(f"level {half} scores", "L0C", _tiles(asm, half) * FULL) for half in _PLACES}
        picked = asm.buffer("picked scores:UB", "UB", picked_bytes(asm))
    return ScoreTiles(asm.buffer("triangles", "L0C", 2 * heads * asm.dims.triangle * FULL), inside, picked)


def _tiles(asm: Assembler, half: int) -> int:
    """Of a halving of all heads; 0: of the diagonal."""
    return (2 if half else 1) * asm.dims.rows * asm.dims.heads


def _triangle(asm: Assembler, tiles: ScoreTiles, head: int, kind: int, row: int, column: int) -> Operand:
    number = (2 * head + kind) * asm.dims.triangle + row * (row + 1) // 2 + column
    return at(tiles.triangles, number * FULL)


def lower_near_blocks(asm: Assembler, tiles: ScoreTiles, near: list[Parts], blocks: BlockRows, head: int) -> None:
    """Map steps: blocks 1 and 3 against the ones before them. near: keys and queries of blocks 1 and 3 in L0A."""
    asm.stage = MAP
    keys = asm.dims.keys
    right = load_parts(asm, "B", blocks.suffix, count=2, size=keys, group=2 * keys, label="suffix rows")
    for kind in (0, 1):
        multiply(
            asm, _triangle(asm, tiles, head, kind, 1, 0), near[kind], right, count=2, k=keys,
            move_tile=7, move_left=keys, move_right=keys, overwrite=True, label="near blocks",
        )  # fmt: skip


def lower_far_blocks(asm: Assembler, tiles: ScoreTiles, blocks: BlockRows, head: int) -> None:
    """Map steps: blocks 2 and 3 against 0 and 1."""
    asm.stage = MAP
    keys = asm.dims.keys
    source = blocks.second.from_fractal(4 * keys)
    right = load_parts(asm, "B", source, count=keys, size=2, inner=keys, group=1, label="rows to the middle")
    for kind in (0, 1):
        left = load_parts(asm, "A", blocks.second.from_fractal(2 * kind * keys), size=2 * keys, label="rows from the middle")
        multiply(
            asm, _triangle(asm, tiles, head, kind, 2, 0), left, right, count=2, n=2, k=keys,
            move_tile=3, move_left=keys, overwrite=True, label="far blocks",
        )  # fmt: skip


def _plain_columns(asm: Assembler, inputs: Inputs, head: int) -> Operand:
    """Keys as they came as right operand, a block of 16 tokens after the other."""
    rows, keys = asm.dims.rows, asm.dims.keys
    return load(asm, "B", inputs.keys[asm.dims.key_head(head)], count=rows, size=keys, inner=rows, group=1, label="K^T")


def lower_diagonal(asm: Assembler, tiles: ScoreTiles, inputs: Inputs, head: int) -> None:
    """Map steps: plain products of queries and keys inside blocks, of which the diagonal counts."""
    keys, heads = asm.dims.keys, asm.dims.heads
    left = rows_left(asm, inputs.queries[asm.dims.key_head(head)], "Q")
    multiply(
        asm, tiles.halving(0, head), left, _plain_columns(asm, inputs, head), count=asm.dims.rows, k=keys,
        move_tile=heads, move_left=keys, move_right=keys, overwrite=True, label="diagonal",
    )  # fmt: skip


def lower_inside(asm: Assembler, tiles: ScoreTiles, level: LevelRows, inputs: Inputs, half: int, head: int) -> None:
    """Map steps: one halving inside blocks; halves of one token meet plain keys."""
    asm.stage = MAP
    rows, keys, heads = asm.dims.rows, asm.dims.keys, asm.dims.heads
    count = rows * keys
    right: Matrix
    if half == 1:
        right = _plain_columns(asm, inputs, head)
    else:
        right = load_parts(asm, "B", level.rows, size=count, label="level rows")
    for kind in (0, 1):
        left = load_parts(asm, "A", level.rows.from_fractal(kind * count), size=count, label="level rows")
        tile = at(tiles.halving(half, head), kind * FULL)
        multiply(
            asm, tile, left, right, count=rows, k=keys, move_tile=2 * heads, move_left=keys, move_right=keys, overwrite=True,
            label=f"level {half}",
        )  # fmt: skip


def pick_inside(
    asm: Assembler, fractals: Fractals, tiles: ScoreTiles, zeros: Zeros, strengths: Operand, state_scale: float
) -> None:
    """State steps: what counts inside the blocks of all heads, times each column's strength, to the triangles in L0C."""
    asm.stage = STATE
    heads, rows = asm.dims.heads, asm.dims.rows
    blocks = rows * heads
    picked = tiles.picked
    if picked is None:
        staged = copy_out(asm, tiles.inside[0], (1 + 2 * len(LEVELS)) * blocks, half=False, label="inside scores")
        picked = zeros.to_ub(asm, "picked scores", picked_bytes(asm))
        for half in _PLACES:
            source = at(staged, tiles.inside[half].offset)
            _pick(asm, fractals, picked, source, half, state_scale)
    strong = asm.buffer("strong scores:UB", "UB", 2 * blocks * FULL)
    vector(asm, "mul32", strong, picked, strengths, repeats=8 * blocks, label="strong scores")
    for row in range(rows):
        target = _triangle(asm, tiles, 0, 0, row, row)
        source = at(strong, row * 2 * heads * FULL)
        asm.emit("ub_to_c32", target, source, count=2 * heads, size=1, p=(0, asm.dims.triangle - 1), label="diagonal blocks")


def pick_halving(asm: Assembler, fractals: Fractals, tiles: ScoreTiles, half: int, state_scale: float) -> None:
    """Map steps: of halvings one after the other, what counts of one; 0: of the diagonal."""
    assert tiles.picked is not None
    asm.stage = MAP
    count = _tiles(asm, half)
    staged = asm.buffer(f"level {half} scores:UB", "UB", count * FULL + 256)
    asm.emit("c_to_ub32", staged, tiles.inside[half], size=count, label=f"level {half} scores")
    _pick(asm, fractals, tiles.picked, staged, half, state_scale)


def _pick(asm: Assembler, fractals: Fractals, picked: Operand, source: Operand, half: int, state_scale: float) -> None:
    """What counts of a halving in UB, or of the diagonal."""
    for start, mask in _windows(asm, half):
        if half:
            # Left rows are over the state's scale; right ones too and with a minus, but for halves of one token.
            factor = asm.scalar(state_scale if half == 1 else -(state_scale**2))
            vector(
                asm, "muls32", at(picked, start), at(source, start), repeats=_tiles(asm, half), strides=(32, 32, 0),
                scalar=factor, mask=mask, label=f"picked {half}",
            )  # fmt: skip
        else:
            vector(
                asm, "mul32", at(picked, FULL + start), at(source, start), fractals.scale_lanes, repeats=_tiles(asm, half),
                strides=(64, 32, 0), mask=mask, label="picked diagonal",
            )  # fmt: skip


def _windows(asm: Assembler, half: int) -> list[tuple[int, int]]:
    """Where in a fractal of fp32 instructions of four rows start, and their masks; in the right half by a shift of 8 lanes."""
    found = []
    for quarter in range(4):
        shift = 0 if half == 8 else 8 * (quarter // 2)
        lanes = 0
        for row in range(4):
            i = 4 * quarter + row
            if half == 0:
                columns = range(i, i + 1)
            elif i % (2 * half) >= half:
                columns = range(i - i % (2 * half), i - i % half)
            else:
                continue
            lanes |= sum(1 << (16 * row + column - shift) for column in columns)
        if lanes:
            found.append((quarter * 256 + shift * 4, asm.mask(lanes)))
    return found


def split_triangles(asm: Assembler, fractals: Fractals, tiles: ScoreTiles, system: Parts, scores: Parts) -> None:
    """State steps: the systems of all heads to L1 as packed triangles, the scores as squares, where zeros lie above."""
    asm.stage = STATE
    heads, rows, triangle = asm.dims.heads, asm.dims.rows, asm.dims.triangle
    count = 2 * heads * triangle
    between = parts_in_l1(asm, "triangles", count)
    size = triangle * FRACTAL
    places = [Write(between, count * FRACTAL, low=False), Write(system, size, count=heads, source_gap=size)]
    for row in range(rows):
        width = (row + 1) * FRACTAL
        places.append(
            Write(
                scores,
                width,
                count=heads,
                start=row * rows * FRACTAL,
                source=size + row * (row + 1) // 2 * FRACTAL,
                source_gap=2 * size - width,
                target_gap=rows * rows * FRACTAL - width,
            )
        )
    split_tile(asm, fractals.negative, tiles.triangles, count, tuple(places), between.high, label="triangles")
