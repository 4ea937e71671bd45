"""Erase and write strengths as one strength and two shares, so that one strength's forms serve two.

u = w v - e S^T k with b = max(e, w) is b x, x = (w / b) v - (e / b) S^T k: b stands where beta does, as a column factor of the
system and of the scores; the shares, at most 1, are row factors of values and of what is read of the state and of the system.
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


def lower_strengths(asm: Assembler, write: Operand, erase: Operand | None, repeats: int) -> Strengths:
    """Vector steps: from the strengths of each head, as they came."""
    if erase is None:
        return Strengths(write)
    size = repeats * 256
    place = asm.buffer("strengths", "UB", 3 * size)
    column, erased, written = (at(place, number * size) for number in range(3))
    vector(asm, "max32", column, write, erase, repeats=repeats, label="strengths")
    vector(asm, "maxs32", column, column, repeats=repeats, scalar=asm.scalar(LEAST), label="strengths")
    vector(asm, "div32", erased, erase, column, repeats=repeats, label="erase share")
    vector(asm, "div32", written, write, column, repeats=repeats, label="write share")
    return Strengths(column, erased, written)
