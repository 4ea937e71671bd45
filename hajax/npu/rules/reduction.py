"""Sums, extremes, scans along an axis, and orders."""

import math
from typing import Any

import jax
import numpy as np
import torch
from jax.extend import core as jex

from hajax.npu.dtypes import wrap
from hajax.npu.rules.bits import total_order
from hajax.npu.rules.registry import Context, dtype_of, name_of, refuse, rule, shape_of


def _all(x: torch.Tensor, axes: tuple[int, ...]) -> torch.Tensor:
    return torch.all(x, dim=axes)


def _any(x: torch.Tensor, axes: tuple[int, ...]) -> torch.Tensor:
    return torch.any(x, dim=axes)


def _prod(x: torch.Tensor, axes: tuple[int, ...]) -> torch.Tensor:
    for axis in sorted(axes, reverse=True):
        x = torch.prod(x, axis, dtype=x.dtype)
    return x


def _sum(x: torch.Tensor, axes: tuple[int, ...]) -> torch.Tensor:
    return torch.sum(x, axes, dtype=x.dtype)


_REDUCTIONS = {
    "reduce_sum": _sum,
    "reduce_prod": _prod,
    "reduce_max": torch.amax,
    "reduce_min": torch.amin,
    "reduce_and": _all,
    "reduce_or": _any,
}
_BITWISE = {"reduce_and": torch.bitwise_and, "reduce_or": torch.bitwise_or, "reduce_xor": torch.bitwise_xor}


def _reduction(name: str, function: Any) -> Any:
    def build(equation: Any, context: Context) -> Any:
        axes, dtype = tuple(equation.params["axes"]), name_of(equation.invars[0])
        whole, shape = equation.invars[0].aval.shape, shape_of(equation.outvars[0])
        if not axes:
            return lambda x: x.clone()
        if name in ("reduce_max", "reduce_min"):
            if 0 in whole:
                none = least(dtype) if name == "reduce_max" else most(dtype)
                return lambda x: torch.full(shape, none, dtype=x.dtype, device=context.device)
            if dtype == "bool":
                found = _any if name == "reduce_max" else _all
                return lambda x: found(x, axes)
        return lambda x: wrap(function(x, axes), dtype)

    return build


def least(dtype: str) -> Any:
    """What any number of a dtype is at least."""
    if dtype.startswith(("float", "bfloat")):
        return -math.inf
    return False if dtype == "bool" else int(np.iinfo(dtype).min)


def most(dtype: str) -> Any:
    """What any number of a dtype is at most."""
    if dtype.startswith(("float", "bfloat")):
        return math.inf
    return True if dtype == "bool" else int(np.iinfo(dtype).max)


@rule("reduce_and", "reduce_or", "reduce_xor", fresh=True)
def _logical(equation: Any, context: Context) -> Any:
    axes, name = tuple(equation.params["axes"]), equation.primitive.name
    if name_of(equation.invars[0]) == "bool" and name != "reduce_xor":
        return _reduction(name, _REDUCTIONS[name])(equation, context)
    shape, function = shape_of(equation.outvars[0]), _BITWISE[name]
    none = -1 if name == "reduce_and" else 0

    def reduce(x: torch.Tensor) -> torch.Tensor:
        result = torch.full(shape, none, device=context.device).to(x.dtype)
        for row in first(x, axes):
            result = function(result, row)
        return wrap(result, name_of(equation.outvars[0]))

    return reduce


def first(x: torch.Tensor, axes: tuple[int, ...]) -> torch.Tensor:
    """Those axes as one, the first, and the others after it."""
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    return x.permute(*axes, *kept).reshape(math.prod(x.shape[axis] for axis in axes), *(x.shape[axis] for axis in kept))


@rule("reduce", fresh=True)
def _reduce(equation: Any, context: Context) -> Any:
    """A reduction by a function: neighbours are merged in parallel until one is left, then with what is given to start from."""
    axes, count = tuple(equation.params["dimensions"]), len(equation.invars) // 2
    merge = pairwise(equation.params["jaxpr"], [v.aval.dtype for v in equation.outvars], context)
    shape = equation.outvars[0].aval.shape
    size = math.prod(equation.invars[0].aval.shape[axis] for axis in axes)
    levels, left = {}, size
    while left > 1:
        levels[left // 2] = merge((left // 2, *shape))
        left = (left + 1) // 2
    final = merge(shape)

    def reduce(*operands: torch.Tensor) -> tuple[torch.Tensor, ...]:
        rows, starts = [first(x, axes) for x in operands[:count]], [x.expand(shape) for x in operands[count:]]
        if not size:
            return tuple(x.clone() for x in starts)
        while rows[0].shape[0] > 1:
            half = rows[0].shape[0] // 2
            merged = levels[half](*(x[: 2 * half : 2] for x in rows), *(x[1 : 2 * half : 2] for x in rows))
            odd = [x[2 * half :] for x in rows]
            rows = [torch.cat((x, rest)) for x, rest in zip(merged, odd, strict=True)]
        return final(*starts, *(x[0] for x in rows))

    return reduce


def pairwise(body: Any, dtypes: Any, context: Context) -> Any:
    """From a jaxpr that merges two groups of scalars to programs that merge arrays of a shape."""

    def merge(shape: tuple[int, ...]) -> Any:
        function = jex.jaxpr_as_fun(body)
        for _ in shape:
            function = jax.vmap(function)
        avals = [jax.ShapeDtypeStruct(shape, dtype) for dtype in dtypes]
        return context.plan(jax.make_jaxpr(function)(*avals, *avals))

    return merge


for _name in ("reduce_sum", "reduce_prod"):
    rule(_name, fresh=True, complex=True)(_reduction(_name, _REDUCTIONS[_name]))
for _name in ("reduce_max", "reduce_min"):
    rule(_name, fresh=True)(_reduction(_name, _REDUCTIONS[_name]))


@rule("argmax", fresh=True)
def _argmax(equation: Any, context: Context) -> Any:
    return _argument(equation, torch.argmax)


@rule("argmin", fresh=True)
def _argmin(equation: Any, context: Context) -> Any:
    return _argument(equation, torch.argmin)


def _argument(equation: Any, function: Any) -> Any:
    (axis,) = equation.params["axes"]
    kind, boolean = dtype_of(equation.outvars[0]), name_of(equation.invars[0]) == "bool"
    return lambda x: function(x.to(torch.uint8) if boolean else x, axis).to(kind)


_CUMULATIVE = {
    "cumsum": lambda x, axis: torch.cumsum(x, axis, dtype=x.dtype),
    "cumprod": lambda x, axis: torch.cumprod(x, axis, dtype=x.dtype),
    "cummax": lambda x, axis: torch.cummax(x, axis).values,
    "cummin": lambda x, axis: torch.cummin(x, axis).values,
    "cumlogsumexp": torch.logcumsumexp,
}


def _cumulative(function: Any) -> Any:
    def build(equation: Any, context: Context) -> Any:
        axis, dtype = equation.params["axis"], name_of(equation.outvars[0])
        if not equation.params["reverse"]:
            return lambda x: wrap(function(x, axis), dtype)
        return lambda x: wrap(torch.flip(function(torch.flip(x, (axis,)), axis), (axis,)), dtype)

    return build


for _name, _function in _CUMULATIVE.items():
    rule(_name, fresh=True)(_cumulative(_function))


@rule("top_k", fresh=True)
def _top_k(equation: Any, context: Context) -> Any:
    count, kind = equation.params["k"], dtype_of(equation.outvars[1])
    axis = equation.params.get("axis", -1)
    if axis not in (-1, equation.invars[0].aval.ndim - 1):
        raise refuse(equation, f"axis {axis}")

    place = total_order(name_of(equation.invars[0]))  # XLA's order; torch.topk takes any of equal elements

    def top(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        indices = torch.sort(place(x), dim=-1, descending=True, stable=True).indices[..., :count]
        return torch.gather(x, -1, indices), indices.to(kind)

    return top


@rule("sort", fresh=True)
def _sort(equation: Any, context: Context) -> Any:
    axis, keys = equation.params["dimension"], equation.params["num_keys"]

    def sort(*xs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        order: Any = None
        for key in reversed(xs[:keys]):  # the least significant first; each later sort keeps the order of equal elements
            seen = key if order is None else torch.gather(key, axis, order)
            found = torch.sort(seen.to(torch.uint8) if seen.dtype == torch.bool else seen, dim=axis, stable=True).indices
            order = found if order is None else torch.gather(order, axis, found)
        return tuple(torch.gather(x, axis, order) for x in xs)

    return sort
