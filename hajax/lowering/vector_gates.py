"""Row factors of a chunk for the vector unit: each one in all 16 columns of a column block, from segment sums on the cube."""

from dataclasses import dataclass

import numpy as np

from hajax.lowering.assembler import FULL, HALF, UNIT, Assembler, at
from hajax.lowering.gates import GATE_SCALE, Basics
from hajax.lowering.tiles import TRANSPOSE, Parts, copy_out, load, multiply, vector
from hajax.plans.program import MAP, Operand


@dataclass(frozen=True, slots=True)
class RowFactors:
    """Where a chunk's factors lie in UB: those of rows as a column block each, the chunk's decay all over a fractal."""

    read: Operand  # e^G times a scale
    write: Operand  # beta e^(G_C - G) times the state's scale
    decay: Operand  # e^G_C
    output: Operand  # e^G over the state's scale


def place_row_factors(asm: Assembler) -> RowFactors:
    """Setup: room for two chunks' factors."""
    rows = asm.dims.rows
    read = asm.buffer("row factors", "UB", (3 * rows + 1) * FULL, versions=2)
    return RowFactors(read, at(read, rows * FULL), at(read, 2 * rows * FULL), at(read, (2 * rows + 1) * FULL))


def place_sums(asm: Assembler) -> Operand:
    """Setup: rows of 0 and 1 / GATE_SCALE that add gates up: those up to each token, those behind it, all of them; a left
    operand in L1.
    """
    rows = asm.dims.rows
    one, zero = np.full((16, 16), 1 / GATE_SCALE, np.float16), np.zeros((16, 16), np.float16)
    until, behind = np.tril(one), np.triu(one, 1)
    fractals = [one if t < i else until if t == i else zero for i in range(rows) for t in range(rows)]
    fractals += [zero if t < i else behind if t == i else one for i in range(rows) for t in range(rows)]
    fractals += [one] * rows
    place = asm.buffer("row sums", "L1", len(fractals) * HALF, kept=True)
    constant = asm.constants.place(np.stack(fractals))
    asm.emit("constant_to_l1", place, constant=constant, size=len(fractals) * HALF // UNIT, first=True, label="row sums")
    return place


def lower_row_factors(
    asm: Assembler,
    basics: Basics,
    sums: Operand,
    diagonals: Operand,
    factors: RowFactors,
    *,
    state_scale: float,
    read_scale: float,
    wanted: tuple[str, ...] = ("output", "read", "write"),
) -> None:
    """Map steps, with the gates' diagonals in L1 (gates.lower_diagonals). The scales are powers of two.

    wanted: those of rows that get their scale; nobody must use the others.
    """
    asm.stage = MAP
    rows = asm.dims.rows
    assert asm.dims.heads == 1
    count = 2 * rows + 1
    ones = load(asm, "B", Operand(basics.selector.buffer, HALF), label="ones")
    left = load(asm, "A", diagonals, size=4 * rows, label="gate diagonals")  # high parts of both gates, then low ones
    gates = asm.buffer("gate rows", "L0C", 3 * rows * FULL)
    multiply(asm, gates, left, ones, count=3 * rows, move_tile=1, move_left=1, overwrite=True, label="gate rows")
    staged = asm.buffer("gate rows:UB", "UB", 2 * rows * HALF)
    asm.emit("c_to_ub16", staged, gates, count=2, size=rows, p=(rows, 0), label="gate rows")  # parts of fp16: exact
    in_l1 = asm.buffer("gate rows", "L1", 2 * rows * HALF)
    asm.emit("ub_to_l1", in_l1, staged, size=2 * rows * HALF // UNIT, label="gate rows")
    right = Parts(load(asm, "B", in_l1, size=2 * rows, flags=TRANSPOSE, label="gate rows"), rows)
    adders = load(asm, "A", sums, size=count * rows, label="row sums")
    tile = asm.buffer("row sums", "L0C", count * FULL)
    multiply(asm, tile, adders, right, m=count, k=rows, overwrite=True, label="row sums")
    log_beta = Parts(at(left, rows * HALF), 2 * rows)
    multiply(asm, at(tile, rows * FULL), log_beta, ones, count=rows, move_tile=1, move_left=1, label="row sums: ln beta")
    copied = copy_out(asm, tile, count, half=False, label="row sums")
    vector(asm, "exp32", factors.read, copied, repeats=count * 4, label="row factors")
    scaled = (
        (factors.output, factors.read, asm.scalar(1 / state_scale)),
        (factors.read, factors.read, asm.scalar(read_scale)),
        (factors.write, factors.write, asm.scalar(state_scale)),
    )
    for name, (target, source, scalar) in zip(("output", "read", "write"), scaled, strict=True):
        if name in wanted:
            vector(asm, "muls32", target, source, repeats=rows * 4, scalar=scalar, label="row factors")
