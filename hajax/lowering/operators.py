"""Tensor operators of a chunk, each a program of its own, as a framework without fusion launches them: fp32 in, fp32 out.

Square matrices lie in the slot as packed lower triangles of fractals. The system is solved row by row, two operators a row: row i
of T = (I - N)^-1 - I gets the sum over j < i of N[i, j] T[j], where T takes the place of N from the top.
"""

from dataclasses import dataclass

import numpy as np

from hajax.lowering import gates
from hajax.lowering.assembler import FULL, HALF, UNIT, Assembler, Constants, Dims, at
from hajax.lowering.exchange import two_stages
from hajax.lowering.slots import Field, put_tile, take
from hajax.lowering.staged_scalar import lower_factors, lower_gates, lower_ratios, place_gates
from hajax.lowering.tiles import (
    K_GROWS,
    LEFT_MOVES,
    TRANSPOSE,
    TRIANGLE,
    Matrix,
    Parts,
    copy_out,
    load,
    load_parts,
    multiply,
    parts_in_l1,
    vector,
)
from hajax.lowering.vector_scalar import KEY_SCALE
from hajax.lowering.vector_state import right_parts
from hajax.lowering.vector_steps import tensor
from hajax.lowering.vector_tiles import Tile, fetch, new_tile, scale_rows, split_tile
from hajax.plans.program import LOAD, MAP, Operand, Program

Slot = dict[str, Field]
ROW = 64  # bytes of 16 fp32: a row of a fractal
REPEAT = 256  # bytes of a vector repeat, all lanes
FACTOR_SCALE = 256.0  # a row's factors are split times this, so that low parts stay above fp16's subnormals


def _packed(asm: Assembler, name: str, blocks: int, versions: int = 2) -> Operand:
    """Setup: room in UB for the first rows of blocks of a packed triangle, and for what masked lanes leave out behind it."""
    return asm.buffer(name, "UB", blocks * (blocks + 1) // 2 * FULL + REPEAT, versions=versions)


def _take_tile(asm: Assembler, field: Field, name: str) -> Tile:
    """Setup: room in UB for a whole tile of two chunks."""
    return Tile(asm.buffer(name, "UB", field.bytes, versions=2), field.rows, field.columns, "blocked")


def _constant(asm: Assembler, name: str, fractal: np.ndarray) -> Operand:
    """Setup: a fractal of fp32 in UB."""
    target = asm.buffer(name, "UB", FULL, kept=True)
    asm.emit(
        "constant_to_ub", target, constant=asm.constants.place(fractal), size=FULL // UNIT, first=True, label=name
    )  # fmt: skip
    return target


def _put_packed(asm: Assembler, source: Operand, field: Field, fractals: int, label: str) -> None:
    asm.emit("workspace_from_ub", src0=source, size=fractals * FULL // UNIT, constant=field.place // UNIT, label=label)


def build_rows(dims: Dims, constants: Constants, slot: Slot, parts: int, source: str, target: str) -> Program:
    """Keys or values (`source` names the tensor) as fp32."""
    asm = Assembler(dims, constants, parts)
    field = slot[target]
    size = field.rows * field.columns
    halves = asm.buffer(source, "UB", size * HALF, versions=2)
    asm.section = "body"
    asm.stage = MAP
    tile = new_tile(asm, target, field.rows, field.columns, "blocked")
    vector(asm, "to32", tile.place, halves, repeats=tile.repeats, strides=(8, 4, 0), label=target)
    put_tile(asm, tile, field, target)
    asm.stage = LOAD
    asm.emit("rows_to_ub", halves, count=field.columns, p=(tensor(source), 0, 0, 1), label=source)
    return two_stages(asm.program())


def build_decays(dims: Dims, constants: Constants, slot: Slot, parts: int) -> Program:
    """Decay ratios times strengths of a scalar decay."""
    asm = Assembler(dims, constants, parts)
    given = place_gates(asm, rows=False)
    asm.section = "body"
    ratios = lower_ratios(given, lower_gates(given))
    _put_packed(asm, ratios, slot["decay"], dims.triangle, "ratios out")
    gates.load_gates(asm, given.raw)
    return two_stages(asm.program())


def build_products(dims: Dims, constants: Constants, slot: Slot, parts: int) -> Program:
    """K K^T of fp32 keys, which are exact in fp16."""
    asm = Assembler(dims, constants, parts)
    rows, keys = dims.rows, dims.keys
    key = _take_tile(asm, slot["key"], "key")
    asm.section = "body"
    asm.stage = MAP
    in_l1 = _to_l1(asm, key, 1, "key")
    columns = load(asm, "B", in_l1.high, count=rows, size=keys, inner=rows, group=1, label="K^T")
    left = load(asm, "A", in_l1.high, count=rows, size=keys, inner=rows, group=1, label="K")
    tile = asm.buffer("K K^T", "L0C", dims.triangle * FULL)
    multiply(
        asm, tile, left, columns, count=rows, k=keys, move_tile=1, move_left=keys, move_right=keys, mode=TRIANGLE,
        overwrite=True, label="K K^T",
    )  # fmt: skip
    _put_packed(asm, copy_out(asm, tile, dims.triangle, half=False, label="K K^T"), slot["T"], dims.triangle, "K K^T out")
    asm.stage = LOAD
    take(asm, slot["key"], "workspace_to_ub", key.place, 0, slot["key"].bytes, "key")
    return two_stages(asm.program())


def build_system(dims: Dims, constants: Constants, slot: Slot, parts: int) -> Program:
    """N = -(ratios o K K^T) below the diagonal, zero on it."""
    asm = Assembler(dims, constants, parts)
    below = _constant(asm, "below the diagonal", np.tril(np.ones((16, 16), np.float32), -1))
    scores, ratios = _packed(asm, "K K^T", dims.rows), _packed(asm, "ratios", dims.rows)
    repeats, size = dims.triangle * 4, dims.triangle * FULL
    asm.section = "body"
    asm.stage = MAP
    made = asm.buffer("system:UB", "UB", size)
    vector(asm, "muls32", made, scores, repeats=repeats, scalar=asm.scalar(-1.0), label="system")
    vector(asm, "mul32", made, made, ratios, repeats=repeats, label="system")
    for row in range(dims.rows):
        place = at(made, (row * (row + 3) // 2) * FULL)
        vector(asm, "mul32", place, place, below, repeats=4, label="below the diagonal")
    _put_packed(asm, made, slot["T"], dims.triangle, "system out")
    asm.stage = LOAD
    take(asm, slot["T"], "workspace_to_ub", scores, 0, size, "K K^T")
    take(asm, slot["decay"], "workspace_to_ub", ratios, 0, size, "ratios")
    return two_stages(asm.program())


def build_row_products(dims: Dims, constants: Constants, slot: Slot, parts: int, row: int) -> Program:
    """N[row, j] T[j] of all j < row."""
    asm = Assembler(dims, constants, parts)
    blocks = row // 16 + 1
    last = blocks - 1
    basics = _place_spread(asm)
    solved = _packed(asm, "T", blocks)
    asm.section = "body"
    asm.stage = MAP
    values = asm.buffer("row", "UB", blocks * ROW + REPEAT)
    own = at(solved, blocks * last // 2 * FULL + row % 16 * ROW)
    mask = asm.mask((1 << 16) - 1)
    vector(
        asm, "muls32", values, own, repeats=blocks, strides=(ROW // UNIT, FULL // UNIT, 0), scalar=asm.scalar(FACTOR_SCALE),
        mask=mask, label="row",
    )  # fmt: skip
    factors = _spread(asm, basics, values, blocks)
    made = asm.buffer("products:UB", "UB", blocks * (blocks + 1) // 2 * FULL)
    for block in range(blocks):
        first = block * (block + 1) // 2 * FULL
        for quarter in range(0, FULL, 256):
            place = first + quarter
            vector(
                asm, "mul32", at(made, place), at(solved, place), at(factors, block * FULL + quarter), repeats=block + 1,
                strides=(FULL // UNIT, FULL // UNIT, 0), label="row times T",
            )  # fmt: skip
    _put_packed(asm, made, slot["product"], blocks * (blocks + 1) // 2, "products out")
    asm.stage = LOAD
    take(asm, slot["T"], "workspace_to_ub", solved, 0, blocks * (blocks + 1) // 2 * FULL, "T")
    return two_stages(asm.program())


def build_row_sum(dims: Dims, constants: Constants, slot: Slot, parts: int, row: int) -> Program:
    """T[row] = N[row] + the sum of those products."""
    asm = Assembler(dims, constants, parts)
    blocks = row // 16 + 1
    start = blocks * (blocks - 1) // 2 * FULL
    products = _packed(asm, "products", blocks)
    own = asm.buffer("row block", "UB", blocks * FULL + REPEAT, versions=2)
    asm.section = "body"
    asm.stage = MAP
    sums = asm.buffer("sums:UB", "UB", blocks * FULL)
    vector(asm, "muls32", sums, at(products, start), repeats=4 * blocks, scalar=asm.scalar(1.0), label="sum")
    for block in range(blocks - 1):
        place = block * (block + 1) // 2 * FULL
        vector(asm, "add32", sums, sums, at(products, place), repeats=4 * (block + 1), label="sum over blocks")
    for half in (8, 4, 2, 1):
        mask = asm.mask((1 << (16 * half)) - 1) if half < 4 else 0
        for quarter in range(0, half * ROW, 256):
            vector(
                asm, "add32", at(sums, quarter), at(sums, quarter), at(sums, quarter + half * ROW), repeats=blocks,
                strides=(FULL // UNIT,) * 3, mask=mask, label="sum over rows",
            )  # fmt: skip
    place = row % 16 * ROW
    vector(
        asm, "add32", at(own, place), at(own, place), sums, repeats=blocks, strides=(FULL // UNIT,) * 3,
        mask=asm.mask((1 << 16) - 1), label="row and sum",
    )  # fmt: skip
    for block in range(blocks):
        asm.emit(
            "workspace_from_ub", src0=at(own, block * FULL + place), size=ROW // UNIT,
            constant=(slot["T"].place + start + block * FULL + place) // UNIT, label="row out",
        )  # fmt: skip
    asm.stage = LOAD
    take(asm, slot["product"], "workspace_to_ub", products, 0, start + blocks * FULL, "products")
    take(asm, slot["T"], "workspace_to_ub", own, start, blocks * FULL, "row block")
    return two_stages(asm.program())


def build_with_identity(dims: Dims, constants: Constants, slot: Slot, parts: int) -> Program:
    """A = T and ones on its diagonal."""
    asm = Assembler(dims, constants, parts)
    solved = _packed(asm, "T", dims.rows)
    identity = _constant(asm, "identity", np.eye(16, dtype=np.float32))
    asm.section = "body"
    asm.stage = MAP
    made = asm.buffer("A:UB", "UB", dims.triangle * FULL)
    vector(asm, "muls32", made, solved, repeats=4 * dims.triangle, scalar=asm.scalar(1.0), label="A")
    for row in range(dims.rows):
        place = at(made, (row * (row + 3) // 2) * FULL)
        vector(asm, "add32", place, place, identity, repeats=4, label="A")
    _put_packed(asm, made, slot["T"], dims.triangle, "A out")
    asm.stage = LOAD
    take(asm, slot["T"], "workspace_to_ub", solved, 0, dims.triangle * FULL, "T")
    return two_stages(asm.program())


def build_solved(dims: Dims, constants: Constants, slot: Slot, parts: int, source: str, target: str, exact: bool) -> Program:
    """A times a tile. exact: what is in it is exact in fp16."""
    asm = Assembler(dims, constants, parts)
    rows, field = dims.rows, slot[source]
    inverse = _packed(asm, "A", rows)
    tile = _take_tile(asm, field, source)
    asm.section = "body"
    asm.stage = MAP
    right = _to_l1(asm, tile, 1 if exact else asm.parts, source)
    loaded: Matrix
    if exact:
        loaded = load(asm, "B", right.high, count=rows, size=field.columns, inner=rows, group=1, flags=TRANSPOSE, label=source)
    else:
        loaded = right_parts(asm, right, rows, field.columns, source)
    product = solve_packed(asm, inverse, loaded, field.columns, target)
    put_tile(asm, fetch(asm, product, rows, field.columns, "blocked", by_rows=True, label=target), slot[target], target)
    asm.stage = LOAD
    take(asm, slot["T"], "workspace_to_ub", inverse, 0, dims.triangle * FULL, "A")
    take(asm, field, "workspace_to_ub", tile.place, 0, field.bytes, source)
    return two_stages(asm.program())


def solve_packed(asm: Assembler, inverse: Operand, right: Matrix, columns: int, label: str) -> Operand:
    """A packed triangle of fp32 in UB times a right operand, in L0C row block by row block."""
    triangle = asm.dims.triangle
    parts = parts_in_l1(asm, "A", triangle)
    split_tile(asm, Tile(inverse, triangle, 1, "blocked"), parts, label="A")
    left = load_parts(asm, "A", parts, size=triangle, label="A")
    tile = asm.buffer(label, "L0C", asm.dims.rows * columns * FULL)
    multiply(
        asm, tile, left, right, count=asm.dims.rows, n=columns, move_tile=columns, mode=K_GROWS | LEFT_MOVES, overwrite=True,
        label=label,
    )  # fmt: skip
    return tile


def build_scaled_keys(dims: Dims, constants: Constants, slot: Slot, parts: int) -> Program:
    """diag(e^G) K of a scalar decay, times the scale that w has in staged_scalar."""
    asm = Assembler(dims, constants, parts)
    given = place_gates(asm, rows=True)
    key = _take_tile(asm, slot["key"], "key")
    asm.section = "body"
    factors = lower_factors(given, lower_gates(given), ("read",), -KEY_SCALE)
    asm.stage = MAP
    made = new_tile(asm, "scaled keys", dims.rows, dims.keys, "blocked")
    scale_rows(asm, "mul32", made, key, factors.read, label="scaled keys")
    put_tile(asm, made, slot["scaled"], "scaled keys")
    asm.stage = LOAD
    take(asm, slot["key"], "workspace_to_ub", key.place, 0, slot["key"].bytes, "key")
    gates.load_gates(asm, given.raw)
    return two_stages(asm.program())


def build_cast(dims: Dims, constants: Constants, slot: Slot, parts: int, source: str, target: str) -> Program:
    """A tile of fp32 as parts of fp16."""
    asm = Assembler(dims, constants, parts)
    tile = _take_tile(asm, slot[source], source)
    asm.section = "body"
    asm.stage = MAP
    put_tile(asm, tile, slot[target], target)
    asm.stage = LOAD
    take(asm, slot[source], "workspace_to_ub", tile.place, 0, slot[source].bytes, source)
    return two_stages(asm.program())


def _to_l1(asm: Assembler, tile: Tile, number: int, label: str) -> Parts:
    """A tile of UB as parts in L1."""
    found = parts_in_l1(asm, label, tile.rows * tile.columns, number=number)
    split_tile(asm, tile, found, label=label)
    return found


@dataclass(frozen=True, slots=True)
class _Spread:
    """What a row needs to become a column: ones over FACTOR_SCALE in L1, and room for diagonals with zeros beside them."""

    ones: Operand
    diagonals: Operand


def _place_spread(asm: Assembler) -> _Spread:
    """Setup."""
    ones = asm.buffer("ones", "L1", HALF, kept=True)
    constant = asm.constants.place(np.full((16, 16), 1 / FACTOR_SCALE, np.float16))
    asm.emit("constant_to_l1", ones, constant=constant, size=HALF // UNIT, first=True, label="ones")
    diagonals = asm.buffer("row diagonals:UB", "UB", 2 * asm.dims.rows * HALF, kept=True)
    vector(asm, "dup16", diagonals, repeats=4 * asm.dims.rows, scalar=asm.scalar(0.0), label="zeros")
    return _Spread(ones, diagonals)


def _spread(asm: Assembler, basics: _Spread, values: Operand, blocks: int) -> Operand:
    """A row of fp32 in UB, 16 to a block, times FACTOR_SCALE: as a column that stands in all 16 columns of a tile."""
    halves = gates.high_and_low(asm, values, 1, "row") if blocks == 4 else _few_halves(asm, values, blocks)
    gates.build_diagonals(asm, halves, basics.diagonals, 2 * blocks, "row")
    in_l1 = parts_in_l1(asm, "row diagonals", blocks, number=2)
    asm.emit("ub_to_l1", in_l1.high, basics.diagonals, size=2 * blocks * HALF // UNIT, label="row diagonals")
    left = load(asm, "A", in_l1.high, size=2 * blocks, label="row diagonals")
    ones = load(asm, "B", basics.ones, label="ones")
    tile = asm.buffer("column", "L0C", blocks * FULL)
    multiply(
        asm, tile, Parts(left, blocks), ones, count=blocks, move_tile=1, move_left=1, overwrite=True, label="column"
    )  # fmt: skip
    return copy_out(asm, tile, blocks, half=False, label="column")


def _few_halves(asm: Assembler, values: Operand, blocks: int) -> Operand:
    """Both parts of fewer than 64 numbers, one behind the other."""
    halves = asm.buffer("row:halves", "UB", 2 * blocks * UNIT + REPEAT)
    mask = asm.mask((1 << (16 * blocks)) - 1)
    vector(asm, "to16", halves, values, repeats=1, strides=(4, 8, 0), mask=mask, label="row high")
    minus = asm.scalar(-1.0)
    vector(asm, "axpy16", values, halves, repeats=1, strides=(8, 4, 0), scalar=minus, mask=mask, label="row less high")
    vector(asm, "to16", at(halves, blocks * UNIT), values, repeats=1, strides=(4, 8, 0), mask=mask, label="row low")
    return halves
