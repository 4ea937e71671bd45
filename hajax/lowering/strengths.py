"""Erase and write strengths as one strength and two shares, so that one strength's forms serve two.

u = w v - e S^T k with b = max(|e|, |w|) is b x, x = (w / b) v - (e / b) S^T k: b stands where beta does, as a column factor of
the system and of the scores; the shares, from -1 to 1, are row factors of values, of the system and of what is read of the state.
"""

from dataclasses import dataclass

from hajax.lowering.assembler import Assembler, at
from hajax.lowering.tiles import vector
from hajax.plans.program import Operand

LEAST = 1e-30  # stands for b where both strengths are 0


@dataclass(frozen=True, slots=True)
class Strengths:
    """Vectors in UB, one a head: b, and of two strengths the shares that erase and that write."""

    column: Operand
    erase: Operand | None = None
    write: Operand | None = None


def split_strengths(asm: Assembler, raw: Operand, strengths: int, repeats: int) -> Strengths:
    """Vector steps: from the strengths of each head as they came, and those that erase behind those that write."""
    if strengths == 1:
        return Strengths(raw)
    size = repeats * 256
    erase = at(raw, size)
    amounts = asm.buffer("amounts", "UB", 2 * size)  # a strength may be below 0
    vector(asm, "muls32", amounts, raw, repeats=2 * repeats, scalar=asm.scalar(-1.0), label="amounts")
    vector(asm, "max32", amounts, amounts, raw, repeats=2 * repeats, label="amounts")
    place = asm.buffer("strengths", "UB", 3 * size)
    column, erased, written = (at(place, number * size) for number in range(3))
    vector(asm, "max32", column, amounts, at(amounts, size), repeats=repeats, label="strengths")
    vector(asm, "maxs32", column, column, repeats=repeats, scalar=asm.scalar(LEAST), label="strengths")
    vector(asm, "div32", erased, erase, column, repeats=repeats, label="erase share")
    vector(asm, "div32", written, raw, column, repeats=repeats, label="write share")
    return Strengths(column, erased, written)
