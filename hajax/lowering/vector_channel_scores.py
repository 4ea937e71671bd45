"""Scores of a chunk with a decay per channel, in the vector form: binary halvings, masked, times strengths, split, to L1.

Between blocks of 16 tokens every product of a halving counts. Inside, groups meet one another, too: lane masks pick what
counts. The diagonal is that of plain products.
"""

from dataclasses import dataclass

from hajax.lowering.assembler import FULL, HALF, Assembler, at
from hajax.lowering.system import System
from hajax.lowering.tiles import Matrix, copy_out, load, load_parts, multiply, vector
from hajax.lowering.vector_channel_rows import KEY_SCALE, NEAR, LevelRows, Piece
from hajax.lowering.vector_steps import Rows
from hajax.lowering.vector_tiles import Tile, split_tile
from hajax.plans.program import MAP, Operand


@dataclass(frozen=True, slots=True)
class Scores:
    """In L0C: what lies below the diagonal's blocks, of keys, then of queries; on it plain products of queries; each halving's,
    likewise. picked: in UB, blocks on the diagonal of keys, then of queries, with zeros where nothing counts.
    """

    tile: Operand
    picked: Operand

    def below(self, asm: Assembler, kind: int) -> Operand:
        """Row after row."""
        return at(self.tile, kind * _below(asm) * FULL)

    def near(self, asm: Assembler, half: int, kind: int = 0) -> Operand:
        """Of a halving inside blocks; 0: of the plain queries."""
        return at(self.tile, (_near(asm, half) + kind * asm.dims.rows) * FULL)


def _below(asm: Assembler) -> int:
    return asm.dims.triangle - asm.dims.rows


def _near(asm: Assembler, half: int) -> int:
    """The first fractal of a halving: the widest one is last, as its masks are never shifted beyond the end."""
    number = 2 * NEAR[::-1].index(half) + 1 if half else 0
    return 2 * _below(asm) + number * asm.dims.rows


def place_picked(asm: Assembler) -> Operand:
    """Setup: zeros; a unit more, into which shifted masks reach."""
    size = 2 * asm.dims.rows * FULL + 256
    picked = asm.buffer("picked scores", "UB", size, kept=True)
    vector(asm, "dup32", picked, repeats=size // 256, scalar=asm.scalar(0.0), label="zeros")
    return picked


def place_scores(asm: Assembler, picked: Operand) -> Scores:
    """Room for a chunk."""
    fractals = 2 * _below(asm) + (2 * len(NEAR) + 1) * asm.dims.rows
    return Scores(asm.buffer("scores", "L0C", fractals * FULL), picked)


def lower_far_scores(asm: Assembler, scores: Scores, level: LevelRows, half: int) -> None:
    """Map steps: a halving of all four blocks, or of each two; what a piece adds."""
    asm.stage = MAP
    keys = level.piece.keys
    assert asm.dims.rows == 4, "places of blocks are written for chunks of 64"
    wide = half == 32
    if wide:
        right = load_parts(asm, "B", level.keys, count=keys, size=2, inner=keys, group=1, label="first halves")
    else:
        right = load_parts(asm, "B", level.keys, count=2, size=keys, group=2 * keys, label="first halves")
    second, distance = (2, 1) if wide else (1, 2)  # blocks of second halves
    sources = ((level.keys.from_fractal(second * keys), distance * keys), (level.queries, keys))
    for kind, (source, group) in enumerate(sources):
        left = load_parts(asm, "A", source, count=2, size=keys, group=group, label="second halves")
        place, move, width = (1, 2, 2) if wide else (0, 5, 1)
        multiply(
            asm, at(scores.below(asm, kind), place * FULL), left, right, count=2, n=width, k=keys, move_tile=move,
            move_left=keys, move_right=0 if wide else keys, overwrite=level.piece.first == 0, label=f"level {half}",
        )  # fmt: skip


def lower_plain_scores(asm: Assembler, scores: Scores, rows: Rows, piece: Piece) -> None:
    """Map steps: queries and keys as they came, for the diagonal; what a piece adds."""
    asm.stage = MAP
    blocks, keys = asm.dims.rows, piece.keys
    source = at(rows.query, piece.first * blocks * HALF)
    left = load(asm, "A", source, count=blocks, size=keys, inner=blocks, group=1, label="Q")
    multiply(
        asm, scores.near(asm, 0), left, _plain_keys(asm, rows, piece), count=blocks, k=keys, move_tile=1, move_left=keys,
        move_right=keys, overwrite=piece.first == 0, label="diagonal",
    )  # fmt: skip


def _plain_keys(asm: Assembler, rows: Rows, piece: Piece) -> Operand:
    """In L0B, block after block."""
    blocks = asm.dims.rows
    source = at(rows.key, piece.first * blocks * HALF)
    return load(asm, "B", source, count=blocks, size=piece.keys, inner=blocks, group=1, label="K^T")


def lower_near_scores(asm: Assembler, scores: Scores, level: LevelRows, rows: Rows, half: int) -> None:
    """Map steps: one halving inside blocks; what a piece adds. Halves of one token meet keys as they came."""
    asm.stage = MAP
    blocks, piece = asm.dims.rows, level.piece
    count = blocks * piece.keys
    right: Matrix
    if half == 1:
        right = _plain_keys(asm, rows, piece)
    else:
        right = load_parts(asm, "B", level.keys, size=count, label="level rows")
    for kind, parts in enumerate((level.keys, level.queries)):
        left = load_parts(asm, "A", parts, size=count, label="level rows")
        multiply(
            asm, scores.near(asm, half, kind), left, right, count=blocks, k=piece.keys, move_tile=1, move_left=piece.keys,
            move_right=piece.keys, overwrite=piece.first == 0, label=f"level {half}",
        )  # fmt: skip


def lower_triangles(asm: Assembler, scores: Scores, strengths: Operand, system: System) -> None:
    """Map steps: N and P of all halvings as packed triangles in L1."""
    scaled = scale_triangles(asm, scores, strengths)
    split_tile(asm, Tile(scaled, 2 * asm.dims.triangle, 1, "blocked"), system.triangles, label="triangles")


def scale_triangles(asm: Assembler, scores: Scores, strengths: Operand) -> Operand:
    """Map steps: the same as fp32 in UB. P keeps the keys' scale, which the state has, too."""
    asm.stage = MAP
    rows, below = asm.dims.rows, _below(asm)
    staged = copy_out(asm, scores.tile, 2 * below + (2 * len(NEAR) + 1) * rows, half=False, label="scores")
    for half in (*NEAR, 0):
        source = at(staged, _near(asm, half) * FULL)
        target = scores.picked if half else at(scores.picked, rows * FULL)
        scalar = asm.scalar(KEY_SCALE if half in (0, 1) else 1.0)  # one of the two factors was not scaled
        for start, mask in _windows(asm, half):
            vector(
                asm, "muls32", at(target, start), at(source, start), repeats=2 * rows if half else rows, strides=(32, 32, 0),
                scalar=scalar, mask=mask, label="picked scores",
            )  # fmt: skip
    negative = asm.buffer("minus strengths:UB", "UB", rows * FULL)
    minus = asm.scalar(-1 / KEY_SCALE**2)
    vector(asm, "muls32", negative, strengths, repeats=4 * rows, scalar=minus, label="minus strengths")
    scaled = asm.buffer("triangles:UB", "UB", 2 * asm.dims.triangle * FULL)
    for kind, factors in enumerate((negative, strengths)):
        for row in range(rows):
            place = at(scaled, (kind * asm.dims.triangle + row * (row + 1) // 2) * FULL)
            if row:
                source = at(staged, (kind * below + row * (row - 1) // 2) * FULL)
                vector(asm, "mul32", place, source, factors, repeats=4 * row, label="triangles")
            source = at(scores.picked, (kind * rows + row) * FULL)
            vector(asm, "mul32", at(place, row * FULL), source, at(factors, row * FULL), repeats=4, label="triangles")
    return scaled


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
