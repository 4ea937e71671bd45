"""What vector instructions compute, in numpy: the oracle of tests/emulator/test_vector_instructions.py.

Written from the rules, not from the emulator: fp16 through fp64 and one rounding, saturated, NaN to 0; fp32 in fp32; integers
in int64, clamped. `clamped` marks results that were changed beyond rounding although every operand was finite.
"""

import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

TYPES: dict[str, Any] = {
    "half": np.float16, "float": np.float32, "int8_t": np.int8, "uint8_t": np.uint8, "int16_t": np.int16, "uint16_t": np.uint16,
    "int32_t": np.int32, "uint32_t": np.uint32,
}  # fmt: skip
MOST_HALF = 65504.0
Array = np.ndarray


@dataclasses.dataclass(frozen=True)
class Lanes:
    """Results of lanes in the destination's type. ulps: how far from correctly rounded they may be."""

    values: Array
    clamped: Array
    ulps: int = 0


def to_half(exact: Array) -> tuple[Array, Array]:
    """fp64 values as fp16, and which of them were clamped or NaN."""
    rounded = exact.astype(np.float16)
    lost = ~np.isfinite(rounded)
    rounded = np.where(np.isnan(rounded), np.float16(0), np.clip(rounded, -np.float16(MOST_HALF), np.float16(MOST_HALF)))
    return rounded.astype(np.float16), lost


def to_integer(rounded: Array, dtype: Any) -> tuple[Array, Array]:
    """Whole fp64 or int64 values as integers of `dtype`, and which of them were clamped."""
    info = np.iinfo(dtype)
    lost = ~((rounded >= info.min) & (rounded <= info.max))
    return np.clip(np.where(np.isnan(rounded), 0, rounded), info.min, info.max).astype(dtype), lost


def convert(exact: Array, dtype: Any) -> tuple[Array, Array]:
    """Results before their last rounding as `dtype`, and which were clamped."""
    if dtype is np.float16:
        return to_half(exact.astype(np.float64))
    if dtype is np.float32:
        return exact.astype(np.float32), np.zeros(exact.shape, bool)
    return to_integer(exact, dtype)


def widen(values: Array) -> Array:
    """Operands in the type that arithmetic is done in: fp64 for fp16, int64 for integers, fp32 as it is."""
    if values.dtype == np.float32:
        return values
    return values.astype(np.float64 if values.dtype == np.float16 else np.int64)


def larger(a: Array, b: Array) -> Array:
    zero = np.where(np.signbit(a) & np.signbit(b), -0.0, 0.0).astype(a.dtype) if a.dtype.kind == "f" else a
    found = np.where((a == 0) & (b == 0), zero, np.where(a > b, a, b))
    return np.where(np.isnan(a), a, found) if a.dtype.kind == "f" else found


def smaller(a: Array, b: Array) -> Array:
    return -larger(-a, -b) if a.dtype.kind == "f" else np.where(a < b, a, b)


def relu(a: Array) -> Array:
    return np.where(a <= 0, np.zeros_like(a), a)


def step(exact: Array, dtype: Any) -> tuple[Array, Array]:
    """An intermediate result as `dtype` holds it, widened again."""
    rounded, lost = convert(exact, dtype)
    return widen(rounded), lost


def away(x: Array) -> Array:
    return np.where(x < 0, np.ceil(x - 0.5), np.floor(x + 0.5))


ROUNDINGS: dict[str, Callable[[Array], Array]] = {
    "": np.rint, "r": np.rint, "f": np.floor, "c": np.ceil, "a": away, "z": np.trunc,
}  # fmt: skip


def to_odd(x: Array) -> tuple[Array, Array]:
    """fp64 values as fp16 towards zero, the last bit set when bits were lost."""
    near, lost = to_half(x)
    inside = np.abs(x) < 65536
    beyond = inside & (np.abs(near.astype(np.float64)) > np.abs(x))
    near = np.where(beyond, np.nextafter(near, np.float16(0)), near).astype(np.float16)
    inexact = inside & (near.astype(np.float64) != x)
    odd = np.where(inexact, near.view(np.uint16) | 1, near.view(np.uint16)).astype(np.uint16)
    return odd.view(np.float16), lost & ~inside


SIMPLE: dict[str, Callable[..., Array]] = {
    "vadd": lambda a, b: a + b, "vsub": lambda a, b: a - b, "vmul": lambda a, b: a * b, "vdiv": lambda a, b: a / b,
    "vmax": larger, "vmin": smaller, "vand": lambda a, b: a & b, "vor": lambda a, b: a | b,
    "vaddrelu": lambda a, b: relu(a + b), "vsubrelu": lambda a, b: relu(a - b),
    "vadds": lambda a, s: a + s, "vmuls": lambda a, s: a * s, "vmaxs": larger, "vmins": smaller,
    "vlrelu": lambda a, s: np.where(np.signbit(a), a * s, a),
    "vabs": np.abs, "vrelu": relu, "vrec": lambda a: 1 / a,
    "vconv_f162f32": lambda a: a, "vconv_f322f16": lambda a: a, "vconv_s322f32": lambda a: a.astype(np.float64),
    "vconv_s82f16": lambda a: a, "vconv_u82f16": lambda a: a, "vconv_s162f16": lambda a: a, "vcbd_s322s16": lambda a: a,
}  # fmt: skip
TRANSCENDENTAL: dict[str, Callable[[Array], Array]] = {
    "vexp": np.exp, "vln": np.log, "vrsqrt": lambda a: 1 / np.sqrt(a), "vsqrt": np.sqrt,
}  # fmt: skip


def _two_steps(function: str, dtype: Any, wide: Sequence[Array]) -> tuple[Array, Array]:
    """Instructions that round in between. Returns the result before its last rounding and what the first step clamped."""
    if function in ("vmla", "vaxpy"):
        a, b, c = wide
    elif function in ("vmadd", "vmaddrelu"):
        a, c, b = wide
    elif function.startswith("vmulconv"):
        product, lost = step(wide[0] * wide[1], np.float16)
        return np.rint(product), lost
    elif "reluconv" in function:
        between = {"f162s8": np.float16, "f322f16": np.float32, "s162s8": np.int16}[function.split("_")[1]]
        sign = -1 if function.startswith("vsub") else 1
        total, lost = step(wide[0] + wide[1] if sign > 0 else wide[0] - wide[1], between)
        return (relu(total) if between is not np.float16 else np.rint(relu(total))), lost
    else:
        raise KeyError(function)
    if dtype is np.float32 and a.dtype == np.float64:  # fp16 factors, fp32 sum: the product is exact in fp32
        a, b = a.astype(np.float32), b.astype(np.float32)
    product, lost = step(a * b, dtype)
    return (relu(product + c) if function == "vmaddrelu" else product + c), lost


def lanes(function: str, dtype: Any, operands: Sequence[Array], scale: float = 1.0) -> Lanes:
    """The element-wise instructions. operands: sources in order, the old destination where it counts, a scalar last."""
    if function == "vnot":
        return Lanes(~operands[0], np.zeros(operands[0].shape, bool))
    wide = [widen(o) for o in operands]
    finite = np.all([np.isfinite(o) if o.dtype.kind == "f" else np.ones(o.shape, bool) for o in operands], axis=0)
    between: Array = np.zeros(finite.shape, bool)
    ulps = 0
    with np.errstate(all="ignore"):
        if function in SIMPLE:
            exact = SIMPLE[function](*wide)
        elif function in TRANSCENDENTAL:
            exact = TRANSCENDENTAL[function](wide[0].astype(np.float64))
            ulps = 0 if function == "vsqrt" else 2
        elif function == "vconv_f322f16o":
            values, lost = to_odd(wide[0].astype(np.float64))
            return Lanes(values, lost & finite)
        elif function == "vconv_deq":
            exact = wide[0].astype(np.float64) * scale
            finite = finite & np.isfinite(scale)
        elif function == "vadddeqrelu":
            total, between = step(wide[0] + wide[1], np.int32)
            exact = relu(total.astype(np.float64) * scale)
            finite = finite & np.isfinite(scale)
        elif found := re.fullmatch(r"vconv_f(?:16|32)2[su]\d+([rfcaz]?)", function):
            exact = ROUNDINGS[found[1]](wide[0].astype(np.float64))
        else:
            exact, between = _two_steps(function, dtype, wide)
        values, lost = convert(exact, dtype)
    return Lanes(values, (lost | between) & finite, ulps)


def add_neighbours(values: Array, left: int, dtype: Any) -> tuple[Array, int]:
    """Neighbours added until `left` values are left along the last axis, each sum rounded; and how many were clamped."""
    clamped = 0
    with np.errstate(all="ignore"):
        while values.shape[-1] > left:
            exact = widen(values[..., 0::2]) + widen(values[..., 1::2])
            values, lost = convert(exact, dtype)
            clamped += int(lost.sum())
    return values, clamped


def first_extreme(values: Array, active: Array, largest: bool) -> int:
    """The lane of the first extreme among active lanes; a NaN is the extreme."""
    where = np.flatnonzero(active)
    chosen = values[where].astype(np.float64)
    if np.isnan(chosen).any():
        return int(where[np.flatnonzero(np.isnan(chosen))[0]])
    return int(where[np.argmax(chosen) if largest else np.argmin(chosen)])


def saturated(values: Array) -> Array:
    """Elements as an instruction that only chooses among them writes them."""
    return convert(widen(values), values.dtype.type)[0]


def ulps_apart(a: Array, b: Array) -> Array:
    """Distance in representable values; 0 for two NaN."""
    integer = np.int16 if a.dtype == np.float16 else np.int32

    def ordered(x: Array) -> Array:
        bits = x.view(integer).astype(np.int64)
        return np.where(bits < 0, np.int64(np.iinfo(integer).min) - bits, bits)

    return np.where(np.isnan(a) & np.isnan(b), 0, np.abs(ordered(a) - ordered(b)))
