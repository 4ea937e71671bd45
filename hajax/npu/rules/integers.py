"""Division, bits and conversions: where torch leaves open, or raises at, what XLA defines."""

import operator
from typing import Any

import numpy as np
import torch

from hajax.npu.dtypes import HELD, wrap
from hajax.npu.rules.elementwise import wrapped
from hajax.npu.rules.registry import Context, Operation, name_of, refuse, rule

_WHOLE = ("int", "uint")
_WORDS = {"uint16": torch.int16, "uint32": torch.int32}  # of the same size, to look at bits


def _is_whole(atom: Any) -> bool:
    return name_of(atom).startswith(_WHOLE)


def _bits(name: str) -> int:
    return 8 * np.dtype(name).itemsize


@rule("div", fresh=True, complex=True)
def _div(equation: Any, context: Context) -> Any:
    if not _is_whole(equation.outvars[0]):
        return torch.div
    name = name_of(equation.outvars[0])
    signed = not name.startswith("uint")

    def divide(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        quotient = torch.div(x, _harmless(y), rounding_mode="trunc")
        if signed:
            quotient = torch.where(y == -1, -x, quotient)
        return wrap(torch.where(y == 0, -1, quotient).to(x.dtype), name)

    return divide


@rule("rem", fresh=True)
def _rem(equation: Any, context: Context) -> Any:
    name = name_of(equation.outvars[0])
    if not _is_whole(equation.outvars[0]):
        steps = _REMAINDER_STEPS.get(name, ())

        def remainder(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            for step in steps:
                x = torch.fmod(x, y * step)
            return torch.fmod(x, y)

        return remainder
    return lambda x, y: torch.where(y == 0, x, torch.fmod(x, _harmless(y)))


# torch's vectors give NaN where the quotient is too large; multiples of the divisor leave the remainder what it is.
_REMAINDER_STEPS = {"float32": (2.0**126, 2.0**63), "bfloat16": (2.0**126, 2.0**63), "float64": (2.0**1022, 2.0**511)}


def _harmless(x: torch.Tensor) -> torch.Tensor:
    """Divisors with 1 for 0 and -1: the least integer divided by -1 stops the processor."""
    return torch.where((x == 0) | (x == -1), torch.ones_like(x), x) if x.dtype != torch.uint8 else torch.where(x == 0, 1, x)


@rule("and", fresh=True, scalars=True)
def _and(equation: Any, context: Context) -> Any:
    return operator.and_


@rule("or", fresh=True, scalars=True)
def _or(equation: Any, context: Context) -> Any:
    return operator.or_


@rule("xor", fresh=True, scalars=True)
def _xor(equation: Any, context: Context) -> Any:
    return operator.xor


@rule("not", fresh=True)
def _not(equation: Any, context: Context) -> Any:
    return wrapped(torch.bitwise_not, equation)


@rule("shift_left", fresh=True)
def _shift_left(equation: Any, context: Context) -> Any:
    bits = _bits(name_of(equation.invars[0]))
    return wrapped(lambda x, n: torch.where(_inside(n, bits), x << _held_back(n, bits), 0).to(x.dtype), equation)


@rule("shift_right_arithmetic", fresh=True)
def _shift_right_arithmetic(equation: Any, context: Context) -> Any:
    name = name_of(equation.invars[0])
    bits = _bits(name)
    own = {**_WORDS, "uint8": torch.int8}.get(name)  # unsigned ones shift as if they had a sign

    def shift(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        places = torch.where(_inside(n, bits), n, bits - 1)
        if own is None:
            return x >> places
        return wrap((x.to(own) >> places.to(own)).to(x.dtype), name)

    return shift


@rule("shift_right_logical", fresh=True)
def _shift_right_logical(equation: Any, context: Context) -> Any:
    name = name_of(equation.invars[0])
    bits = _bits(name)
    if bits == 64:

        def shift_wide(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
            places = _held_back(n, bits)
            kept = torch.bitwise_not(torch.full_like(x, -1) << (bits - places).clamp(max=bits - 1))
            return torch.where(_inside(n, bits), torch.where(n == 0, x, (x >> places) & kept), 0)

        return shift_wide
    mask = (1 << bits) - 1

    def shift(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        wide = (x.to(torch.int64) & mask) >> _held_back(n, bits).to(torch.int64)
        return torch.where(_inside(n, bits), wide, 0).to(x.dtype)

    return shift


def _inside(n: torch.Tensor, bits: int) -> torch.Tensor:
    return (n >= 0) & (n < bits)


def _held_back(n: torch.Tensor, bits: int) -> torch.Tensor:
    return torch.clamp(n, 0, bits - 1)


@rule("population_count", fresh=True)
def _population_count(equation: Any, context: Context) -> Any:
    bits = _bits(name_of(equation.invars[0]))

    def count(x: torch.Tensor) -> torch.Tensor:
        wide = x.to(torch.int64)
        return sum(((wide >> i) & 1 for i in range(bits)), torch.zeros_like(wide)).to(x.dtype)

    return count


@rule("clz", fresh=True)
def _clz(equation: Any, context: Context) -> Any:
    bits = _bits(name_of(equation.invars[0]))

    def leading_zeros(x: torch.Tensor) -> torch.Tensor:
        wide = x.to(torch.int64) if bits == 64 else x.to(torch.int64) & ((1 << bits) - 1)
        if bits == 64:
            return sum((((wide >> i) == 0) & (wide >= 0) for i in range(bits)), torch.zeros_like(wide))
        return sum(((wide >> i) == 0 for i in range(bits)), torch.zeros_like(wide)).to(x.dtype)

    return leading_zeros


@rule("convert_element_type", complex=True)
def _convert(equation: Any, context: Context) -> Any:
    before, after = name_of(equation.invars[0]), name_of(equation.outvars[0])
    kind = HELD[after]
    if before.startswith("complex") and after == "bool":
        raise refuse(equation, f"{before} as {after}")
    if before.startswith("complex") and not after.startswith("complex"):
        return Operation(lambda x: torch.real(x).to(kind), fresh=False)
    if before.startswith(("float", "bfloat")) and after.startswith(_WHOLE):
        return Operation(_saturating(after, kind), fresh=True)
    if after == "bool" and before != "bool":
        return Operation(lambda x: x != 0, fresh=True)
    if after in _WORDS:
        return Operation(lambda x: wrap(x.to(kind), after), fresh=True)
    if HELD[before] == kind:
        return Operation(lambda x: x, view=True, identity=before == after)
    return Operation(lambda x: x.to(kind), fresh=True)


def _saturating(name: str, kind: torch.dtype) -> Any:
    """Floats to integers as XLA has it: towards zero, clamped to the range, NaN to 0."""
    limits = np.iinfo(name)

    def convert(x: torch.Tensor) -> torch.Tensor:
        wide = x if x.dtype == torch.float64 else x.float()
        real = np.float64 if x.dtype == torch.float64 else np.float32
        top = float(real(limits.max))
        below = top if top <= limits.max else float(np.nextafter(real(top), real(0)))
        whole = torch.nan_to_num(wide, nan=0.0).clamp(float(limits.min), below).to(kind)
        return torch.where(wide >= top, limits.max, whole).to(kind) if below < top else whole

    return convert


@rule("mulhi", fresh=True)
def _mulhi(equation: Any, context: Context) -> Any:
    name = name_of(equation.invars[0])
    bits = _bits(name)
    if bits == 64:
        raise refuse(equation, name)

    def high(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return ((x.to(torch.int64) * y.to(torch.int64)) >> bits).to(x.dtype)

    def high_of_words(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:  # in halves: a product of two may be no int64
        x_high, x_low, y_high, y_low = x >> 16, x & 0xFFFF, y >> 16, y & 0xFFFF
        middle = ((x_low * y_low) >> 16) + ((x_high * y_low) & 0xFFFF) + ((x_low * y_high) & 0xFFFF)
        return x_high * y_high + ((x_high * y_low) >> 16) + ((x_low * y_high) >> 16) + (middle >> 16)

    return high_of_words if name == "uint32" else high
