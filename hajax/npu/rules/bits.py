"""Floats and integers as bits: bitcasts between any widths, and fewer bits of a float."""

from typing import Any

import numpy as np
import torch

from hajax.npu.dtypes import HELD, wrap
from hajax.npu.rules.registry import Context, Operation, dtype_of, name_of, refuse, rule, shape_of

_WORDS = {"uint16": torch.int16, "uint32": torch.int32}  # of the same size, to look at bits
_FLOATS = {"float16": (5, 10, torch.int16), "bfloat16": (8, 7, torch.int16), "float32": (8, 23, torch.int32)}
_FLOATS |= {"float64": (11, 52, torch.int64)}


@rule("bitcast_convert_type")
def _bitcast(equation: Any, context: Context) -> Any:
    before, after = name_of(equation.invars[0]), name_of(equation.outvars[0])
    if "bool" in (before, after):
        raise refuse(equation, f"{before} as {after}")
    sizes, shape = (np.dtype(before).itemsize, np.dtype(after).itemsize), shape_of(equation.outvars[0])
    seen_as = _WORDS.get(after, HELD[after])

    def cast(x: torch.Tensor) -> torch.Tensor:
        plain = x.to(_WORDS[before]) if before in _WORDS else x
        if sizes[0] != sizes[1]:  # the last axis holds the parts
            plain = (plain.unsqueeze(-1) if sizes[0] > sizes[1] else plain).contiguous()
        seen = plain.view(seen_as).reshape(shape)
        return wrap(seen.to(HELD[after]), after) if after in _WORDS else seen

    return Operation(cast, fresh=before in _WORDS or after in _WORDS, view=sizes[0] == sizes[1])


@rule("reduce_precision", fresh=True)
def _reduce_precision(equation: Any, context: Context) -> Any:
    name, kind = name_of(equation.invars[0]), dtype_of(equation.invars[0])
    own_exponent, own_mantissa, whole = _FLOATS[name]
    exponent, mantissa = equation.params["exponent_bits"], equation.params["mantissa_bits"]
    if mantissa < 1 or exponent < 2:
        raise refuse(equation, f"{exponent} exponent and {mantissa} mantissa bits")
    dropped = own_mantissa - mantissa
    bias, own_bias = (1 << exponent - 1) - 1, (1 << own_exponent - 1) - 1
    most, least = (own_bias + bias) << own_mantissa, (own_bias - bias + 1) << own_mantissa  # bits of exponents that remain
    sign = -1 << own_mantissa + own_exponent

    def reduce(x: torch.Tensor) -> torch.Tensor:
        bits = x.view(whole) & ~sign
        kept = bits
        if dropped > 0:  # to the nearest, ties to even
            kept = (bits + ((1 << dropped - 1) - 1) + ((bits >> dropped) & 1)) & (-1 << dropped)
        if exponent < own_exponent:  # too large is infinite, too small is zero
            infinite = ((1 << own_exponent) - 1) << own_mantissa
            kept = torch.where(kept >= most + (1 << own_mantissa), infinite, torch.where(kept < least, 0, kept))
        result = (kept | (x.view(whole) & sign)).view(kind)
        return torch.where(torch.isnan(x), x, result)

    return reduce


def total_order(name: str) -> Any:
    """A function to numbers that compare as floats do where each has a place: -NaN, -infinity, ..., -0, 0, ..., infinity, NaN."""
    if name not in _FLOATS:
        return lambda x: x
    whole = _FLOATS[name][2]
    last, magnitude = torch.iinfo(whole).bits - 1, torch.iinfo(whole).max

    def place(x: torch.Tensor) -> torch.Tensor:
        bits = x.view(whole)
        return bits ^ ((bits >> last) & magnitude)

    return place


@rule("eq_to", "le_to", "lt_to", fresh=True)
def _total_order(equation: Any, context: Context) -> Any:
    compare = {"eq_to": torch.eq, "le_to": torch.le, "lt_to": torch.lt}[equation.primitive.name]
    place = total_order(name_of(equation.invars[0]))
    return lambda x, y: compare(place(x), place(y))
