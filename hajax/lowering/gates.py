"""Scalar gates of a chunk: decay ratios between its tokens and row factors, from segment sums on the cube.

D[i, j] = sum of log_decay over j < t <= i is a product of 0/1 matrices with the gates' high and low fp16 parts: terms of one
sign, so nothing cancels (numerics A2). beta joins as the logarithm of a column factor; what is above the diagonal gets -30000.
"""

from dataclasses import dataclass

import numpy as np

from hajax import abi
from hajax.lowering.assembler import FULL, HALF, UNIT, Assembler, at
from hajax.lowering.strengths import Strengths, split_strengths
from hajax.lowering.tiles import (
    K_GROWS,
    N_GROWS,
    RIGHT_MOVES,
    TRANSPOSE,
    Parts,
    Place,
    copy_out,
    load,
    load_parts,
    multiply,
    parts_in_l1,
    to_l1,
    vector,
)
from hajax.plans.program import LOAD, MAP, Operand

LOWEST_DECAY = -2000.0  # exp of it is 0, and sums of 64 of them stay finite
LOWEST_STRENGTH = -20000.0  # stands for the logarithm of 0
GATE_SCALE = 256.0  # scalar log decays are split times this: low parts of -1e-3 lie above fp16's subnormals (numerics A4)
LOWEST_LOG = -64000.0  # of scaled log decays and of ln beta: still fp16, and exp of a 256th of it is 0
MASKED = 30000.0
READ, WRITE, OUTPUT, CHUNK_DECAY, VALUE = 0, 4, 8, 12, 16  # blocks of 16 row factors of a head, 1 of the chunk's decay


@dataclass(frozen=True, slots=True)
class Basics:
    """Constants on the core: single fractals in L0A, composed right operands in L1."""

    negative: Operand  # minus the identity
    ones: Operand
    lower: Operand  # t <= i
    last_rows: Operand  # for row i: i times ones, then t > j; over GATE_SCALE, as the next and the one after next
    between: Operand  # for row i >= 1: [t > j] over earlier blocks; behind last_rows
    masks: Operand  # for row i: i times zero, then what is above the diagonal; behind between
    sums: Operand  # [t <= j], [t > j], ones
    selector: Operand  # spreads columns 2 f and 2 f + 1 of a fractal over eight lanes each
    one: Operand  # ones, in L1


def place_basics(asm: Assembler) -> Basics:
    """Setup steps: a few fractals from GM, the rest composed of windows over a row of them in UB."""
    rows = asm.dims.rows
    one, zero = np.ones((16, 16), np.float16), np.zeros((16, 16), np.float16)
    share = one / np.float16(GATE_SCALE)
    strict, upper = np.tril(share, -1), np.triu(share)
    window = [share] * (rows - 1) + [strict] + [zero] * (rows - 1) + [upper] + [share] * (rows - 1)
    window += [zero] * (rows - 1) + [np.triu(one, 1) * np.float16(MASKED)]
    staged = asm.buffer("constants:UB", "UB", len(window) * HALF)
    asm.emit(
        "constant_to_ub", staged, constant=asm.constants.place(np.stack(window)), size=len(window) * HALF // UNIT, first=True
    )
    start_strict, start_upper, start_mask = rows - 1, 2 * rows - 1, len(window) - 1
    last_rows = [(start_strict - i, i + 1) for i in range(rows)]
    between = [(start_strict - t, i + 1) for i in range(1, rows) for t in range(i)]
    masks = [(start_mask - i, i + 1) for i in range(rows)]
    exponents = _windows(asm, "exponents", staged, last_rows + between + masks)
    sums = [window for t in range(rows) for window in ((start_upper - t, rows), (start_strict - t, rows), (0, 1))]
    loose = [-np.eye(16, dtype=np.float16), one, np.tril(one), *selector_fractals()]
    source = asm.buffer("basics", "L1", len(loose) * HALF, kept=True)
    asm.emit("constant_to_l1", source, constant=asm.constants.place(np.stack(loose)), size=len(loose) * HALF // UNIT, first=True)
    left = asm.buffer("basics:A", "L0A", 3 * HALF, kept=True)
    load(asm, "A", source, size=3, target=left, label="basics")
    return Basics(
        left,
        at(left, HALF),
        at(left, 2 * HALF),
        exponents,
        at(exponents, asm.dims.triangle * HALF),
        at(exponents, (asm.dims.triangle + _between_size(rows)) * HALF),
        _windows(asm, "sums", staged, sums),
        at(source, 3 * HALF),
        at(source, HALF),
    )


@dataclass(frozen=True, slots=True)
class Ratios:
    """Decay ratios times strengths in UB, of the system and of the scores: packed lower triangles of every head in fp32."""

    system: Operand
    scores: Operand


def _between_size(rows: int) -> int:
    """Fractals of Basics.between."""
    return sum(i * (i + 1) for i in range(1, rows))


def _windows(asm: Assembler, name: str, staged: Operand, windows: list[tuple[int, int]]) -> Operand:
    target = asm.buffer(name, "L1", sum(size for _, size in windows) * HALF, kept=True)
    start = 0
    for first, size in windows:
        asm.emit("ub_to_l1", at(target, start * HALF), at(staged, first * HALF), size=size * HALF // UNIT, first=True, label=name)
        start += size
    return target


def selector_fractals() -> list[np.ndarray]:
    """Right operands: fractal f spreads columns 2 f and 2 f + 1 over eight lanes each."""
    fractals = []
    for f in range(8):
        fractal = np.zeros((16, 16), np.float16)
        fractal[2 * f, :8] = 1
        fractal[2 * f + 1, 8:] = 1
        fractals.append(fractal)
    return fractals


@dataclass(frozen=True, slots=True)
class GateBuffers:
    """What outlives a chunk: raw gates, diagonal fractals in UB whose other elements stay zero, the factors in L1."""

    raw: Operand
    diagonals: Operand
    strengths: int
    factor_diagonals: Operand
    factor_rows: Operand
    factor_scales: Operand
    factors: Parts


def place_raw(asm: Assembler, strengths: int = 1) -> tuple[Operand, Operand]:
    """Setup: room for raw gates, and for diagonals of their parts with zeros beside them."""
    heads, rows = asm.dims.heads, asm.dims.rows
    raw = asm.buffer("gates", "UB", (1 + strengths) * heads * asm.dims.chunk * 4, versions=2)
    size = 2 * (1 + strengths) * heads * rows * HALF
    diagonals = asm.buffer("gate diagonals:UB", "UB", size, kept=True)
    vector(asm, "dup16", diagonals, repeats=size // 256, scalar=asm.scalar(0.0), label="zeros")
    return raw, diagonals


def factor_blocks(strengths: int) -> int:
    """Blocks of 16 row factors of a head, some of them unused; those of values with two strengths only."""
    return 16 if strengths == 1 else 20


def place_gates(asm: Assembler, state_scale: float, strengths: int = 1) -> GateBuffers:
    """Setup: room for gates and factors, with zeros where only diagonals are written later.

    state_scale: a power of two that the state is kept times.
    """
    raw, diagonals = place_raw(asm, strengths)
    blocks = factor_blocks(strengths)
    fractals = asm.dims.heads * blocks
    factor_diagonals = asm.buffer("factor diagonals:UB", "UB", 2 * fractals * HALF, kept=True)
    factor_rows = asm.buffer("factors:UB", "UB", fractals * 64, kept=True)
    zero = asm.scalar(0.0)
    vector(asm, "dup16", factor_diagonals, repeats=2 * fractals * HALF // 256, scalar=zero, label="zeros")
    vector(asm, "dup32", factor_rows, repeats=fractals * 64 // 256, scalar=zero, label="zeros")
    scales = asm.buffer("factor scales", "UB", fractals * 64, kept=True)
    factors = [(READ, -1 / state_scale), (WRITE, state_scale), (OUTPUT, 1 / state_scale), (CHUNK_DECAY, 1.0)]
    for block, factor in factors if strengths == 1 else [*factors, (VALUE, 1.0)]:
        vector(
            asm, "dup32", at(scales, block * 64), repeats=asm.dims.heads, strides=(blocks * 2, 0, 0),
            scalar=asm.scalar(factor), label="factor scales",
        )  # fmt: skip
    return GateBuffers(raw, diagonals, strengths, factor_diagonals, factor_rows, scales, place_factors(asm, strengths))


def place_factors(asm: Assembler, strengths: int = 1) -> Parts:
    """Room in L1 for the factors as diagonal fractals, [head][factor block]."""
    return parts_in_l1(asm, "factors", asm.dims.heads * factor_blocks(strengths), versions=2)


def load_gates(asm: Assembler, raw: Operand, strengths: int = 1) -> None:
    """Log decays of each head, then strengths of each; of two, those that write and then those that erase."""
    tensors = abi.table("tensors")
    asm.stage = LOAD
    size = asm.dims.chunk * 4
    for place, tensor in enumerate(("log_decay", "beta", "erase")[: 1 + strengths]):
        for head in range(asm.dims.heads):
            offset = (place * asm.dims.heads + head) * size
            asm.emit("gate_to_ub", at(raw, offset), p=(tensors[tensor], head), label=tensor)


def diagonal_masks(asm: Assembler) -> tuple[int, int]:
    """Masks that pick the diagonal of rows 0 to 7 and of rows 8 to 15 of fp16 fractals."""
    bits = [sum(1 << (row * 16 + octet * 8 + row) for row in range(8)) for octet in (0, 1)]
    word = (1 << 64) - 1
    first, second = (asm.mask(b & word, b >> 64) for b in bits)
    return first, second


def high_and_low(asm: Assembler, values: Operand, repeats: int, label: str) -> Operand:
    """fp32 vectors to their high and then their low fp16 parts; the vectors are used up."""
    halves = asm.buffer(f"{label}:halves", "UB", 2 * repeats * 128)
    vector(asm, "to16", halves, values, repeats=repeats, strides=(4, 8, 0), label=f"{label} high")
    minus_one = asm.scalar(-1.0)
    vector(asm, "axpy16", values, halves, repeats=repeats, strides=(8, 4, 0), scalar=minus_one, label=f"{label} less high")
    vector(asm, "to16", at(halves, repeats * 128), values, repeats=repeats, strides=(4, 8, 0), label=f"{label} low")
    return halves


def build_diagonals(asm: Assembler, halves: Operand, target: Operand, blocks: int, label: str, factor: float = 1.0) -> None:
    """Vectors of fp16, 16 to a block, onto the diagonals of fractals, times a power of two."""
    scalar = asm.scalar(factor)
    for octet, mask in enumerate(diagonal_masks(asm)):
        vector(
            asm, "muls16", at(target, octet * 256), halves, repeats=blocks, blocks=(1, 0, 0), strides=(16, 1, 0),
            scalar=scalar, mask=mask, label=f"{label} diagonals",
        )  # fmt: skip


def lower_gates(asm: Assembler, basics: Basics, buffers: GateBuffers) -> Ratios:
    """Map steps: ratios exp(D) beta_j of every head, packed lower triangles in fp32 in UB; and row factors."""
    asm.stage = MAP
    size = asm.dims.heads * asm.dims.chunk * 4
    strengths = split_strengths(asm, at(buffers.raw, size), buffers.strengths, asm.dims.heads)
    diagonals = lower_diagonals(asm, buffers.raw, buffers.diagonals, strengths)
    blocks = 2 * (1 + buffers.strengths) * asm.dims.heads * asm.dims.rows
    right = load(asm, "B", diagonals, size=blocks, flags=TRANSPOSE, label="gate diagonals")
    segments, ratios = lower_ratios(asm, basics, right, diagonals, strengths)
    _factors(asm, basics, buffers, segments, strengths)
    return ratios


def lower_diagonals(asm: Assembler, raw: Operand, diagonals: Operand, strengths: Strengths) -> Operand:
    """Map steps: diagonal fractals in L1: high parts of scaled log decays and ln beta, every head's in turn, then low parts.

    With two strengths, ln of the erase share behind ln beta.
    """
    asm.stage = MAP
    dims = asm.dims
    heads, rows = dims.heads, dims.rows
    kinds = 2 if strengths.erase is None else 3
    logs = asm.buffer("logs", "UB", kinds * heads * dims.chunk * 4)
    size = heads * dims.chunk * 4
    vector(asm, "muls32", logs, raw, repeats=heads, scalar=asm.scalar(GATE_SCALE), label="log decay")
    vector(asm, "ln32", at(logs, size), strengths.column, repeats=heads, label="ln beta")
    if strengths.erase is not None:
        vector(asm, "ln32", at(logs, 2 * size), strengths.erase, repeats=heads, label="ln erase share")
    vector(asm, "maxs32", logs, logs, repeats=kinds * heads, scalar=asm.scalar(LOWEST_LOG), label="gates")
    halves = high_and_low(asm, logs, kinds * heads, "gates")
    blocks = 2 * kinds * heads * rows
    build_diagonals(asm, halves, diagonals, blocks, "gate")
    in_l1 = asm.buffer("gate diagonals", "L1", blocks * HALF)
    to_l1(asm, diagonals, Place(Parts(in_l1, 0), 1, blocks), in_l1, label="gate diagonals")
    return in_l1


def lower_ratios(
    asm: Assembler, basics: Basics, right: Operand, diagonals: Operand, strengths: Strengths
) -> tuple[Operand, Ratios]:
    """Map steps, with the diagonals in L0B and in L1: the segments in L0A, and the ratios in UB."""
    erased = strengths.erase is not None
    part_blocks = (3 if erased else 2) * asm.dims.heads * asm.dims.rows
    segments = _segments(asm, basics, right, part_blocks)
    return segments, _ratios(asm, basics, segments, right, Parts(diagonals, part_blocks) if erased else None, part_blocks)


def _segments(asm: Assembler, basics: Basics, right: Operand, part_blocks: int) -> Operand:
    """In L0A: rows that all hold a block's gates, both parts of them, then rows that hold those up to their own token."""
    count = asm.dims.heads * asm.dims.rows
    tile = asm.buffer("segments", "L0C", 4 * count * FULL)  # [part][block][kind]
    multiply(
        asm, tile, basics.ones, right, count=2, m=2, n=count, move_tile=2 * count, move_right=part_blocks, overwrite=True,
        label="segments",
    )  # fmt: skip
    staged = copy_out(asm, tile, 4 * count, half=True, label="segments")
    in_l1 = asm.buffer("segments", "L1", 4 * count * HALF)
    to_l1(asm, staged, Place(Parts(in_l1, 0), 1, 4 * count), in_l1, label="segments")
    return load(asm, "A", in_l1, count=2, size=2 * count, inner=2, group=1, label="segments")


def _ratios(
    asm: Assembler, basics: Basics, segments: Operand, right: Operand, diagonals: Parts | None, part_blocks: int
) -> Ratios:
    """diagonals: those of all gates in L1, when the last ones are logarithms of the system's row factors."""
    dims = asm.dims
    heads, rows, triangle = dims.heads, dims.rows, dims.triangle
    count = heads * rows
    between_size = _between_size(rows)
    last = load(asm, "B", basics.last_rows, size=2 * triangle + between_size, flags=TRANSPOSE, label="windows")
    between, masks = at(last, triangle * HALF), at(last, (triangle + between_size) * HALF)
    tile = asm.buffer("exponents", "L0C", heads * triangle * FULL)
    for head in range(heads):
        own = at(tile, head * triangle * FULL)
        full = Parts(at(segments, head * rows * HALF), count)
        log_beta = Parts(at(right, (count + head * rows) * HALF), part_blocks)
        multiply(
            asm, own, full.from_fractal(2 * count), last, count=rows, move_left=1, mode=N_GROWS | RIGHT_MOVES, overwrite=True,
            label="exponents: own block",
        )  # fmt: skip
        multiply(
            asm, at(own, FULL), full, between, count=rows - 1, n=2, mode=N_GROWS | K_GROWS | RIGHT_MOVES,
            label="exponents: earlier blocks",
        )  # fmt: skip
        multiply(asm, own, basics.ones, log_beta, count=rows, mode=N_GROWS, label="exponents: ln beta")
    multiply(asm, tile, basics.negative, masks, count=heads, n=triangle, move_tile=triangle, label="exponents: mask")
    ratios = _exponential(asm, tile, "ratios")
    if diagonals is None:
        return Ratios(ratios, ratios)
    ones = load(asm, "B", basics.one, count=rows, size=1, group=0, label="ones")
    for head in range(heads):
        shares = diagonals.from_fractal((2 * heads + head) * rows)
        left = load_parts(asm, "A", shares, size=rows, label="erase shares")
        own = at(tile, head * triangle * FULL)
        multiply(asm, own, left, ones, count=rows, move_left=1, mode=N_GROWS, label="exponents: ln erase share")
    return Ratios(_exponential(asm, tile, "system ratios"), ratios)


def _exponential(asm: Assembler, tile: Operand, label: str) -> Operand:
    """Of every head's triangle in L0C, in UB."""
    count = asm.dims.heads * asm.dims.triangle
    found = copy_out(asm, tile, count, half=False, label=label)
    vector(asm, "exp32", found, found, repeats=count * FULL // 256, label=label)
    return found


def _factors(asm: Assembler, basics: Basics, buffers: GateBuffers, segments: Operand, strengths: Strengths) -> None:
    """exp of the sums from the chunk's start (read, output), to its end with beta (write), and of all of it (chunk decay)."""
    dims = asm.dims
    heads, rows = dims.heads, dims.rows
    width = 2 * rows + 1
    sums = load(asm, "B", basics.sums, size=rows * width, flags=TRANSPOSE, label="sums")
    tile = asm.buffer("sums", "L0C", heads * width * FULL)  # [sum][head]
    multiply(
        asm, tile, Parts(segments, heads * rows), sums, m=heads, n=width, k=rows, overwrite=True, label="sums"
    )  # fmt: skip
    staged = copy_out(asm, tile, heads * width, half=False, label="sums")
    factors, pitch, blocks = buffers.factor_rows, FULL // UNIT, factor_blocks(buffers.strengths)
    for head in range(heads):  # all rows of a fractal are equal: the first one is taken, eight lanes of each at a time
        target, source = at(factors, head * blocks * 64), at(staged, head * FULL)
        vector(
            asm, "exp32", target, source, repeats=2, blocks=(2, heads * pitch, 0), strides=(1, 1, 0), label="row factors"
        )  # fmt: skip
    stride = blocks * 2
    read, write, output, decay = (at(factors, block * 64) for block in (READ, WRITE, OUTPUT, CHUNK_DECAY))
    vector(
        asm, "exp32", decay, at(staged, 2 * rows * heads * FULL), repeats=heads, strides=(stride, pitch, 0),
        mask=asm.mask((1 << 16) - 1), label="chunk decay",
    )  # fmt: skip
    vector(asm, "mul32", write, write, strengths.column, repeats=heads, strides=(stride, stride, 8), label="write factors")
    vector(asm, "muls32", output, read, repeats=heads, strides=(stride, stride, 0), scalar=0, label="output factors")
    if strengths.erase is not None and strengths.write is not None:
        value, one = at(factors, VALUE * 64), asm.scalar(1.0)
        vector(asm, "mul32", read, read, strengths.erase, repeats=heads, strides=(stride, stride, 8), label="read factors")
        vector(asm, "muls32", value, strengths.write, repeats=heads, strides=(stride, 8, 0), scalar=one, label="value factors")
    vector(asm, "mul32", factors, factors, buffers.factor_scales, repeats=blocks // 4 * heads, label="factor scales")
    count = heads * blocks
    halves = high_and_low(asm, factors, count * 16 // 64, "factors")
    build_diagonals(asm, halves, buffers.factor_diagonals, 2 * count, "factor")
    to_l1(asm, buffers.factor_diagonals, Place(buffers.factors, 1, 2 * count), buffers.factors.high, label="factors")
