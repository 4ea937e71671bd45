"""Sums, extremes, scans along an axis, and orders."""

from typing import Any

import torch

from hajax.npu.dtypes import wrap
from hajax.npu.rules.registry import Context, dtype_of, name_of, refuse, rule


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
_EXTREMES = {"reduce_max": (torch.finfo, "min"), "reduce_min": (torch.finfo, "max")}


def _reduction(name: str, function: Any) -> Any:
    def build(equation: Any, context: Context) -> Any:
        axes, dtype = tuple(equation.params["axes"]), name_of(equation.invars[0])
        if not axes:
            return lambda x: x.clone()
        if dtype != "bool" and name in ("reduce_and", "reduce_or"):
            raise refuse(equation, f"bits of {dtype}")
        if name in _EXTREMES and 0 in equation.invars[0].aval.shape:
            raise refuse(equation, "the extreme of no elements")
        if dtype == "bool" and name in _EXTREMES:
            whole = _any if name == "reduce_max" else _all
            return lambda x: whole(x, axes)
        return lambda x: wrap(function(x, axes), dtype)

    return build


for _name, _function in _REDUCTIONS.items():
    rule(_name, fresh=True)(_reduction(_name, _function))


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
        if dtype in ("uint16", "uint32") and equation.primitive.name == "cumprod":
            raise refuse(equation, dtype)
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

    def top(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:  # torch.topk takes any of equal elements, XLA the first
        values, indices = torch.sort(x, dim=-1, descending=True, stable=True)
        return values[..., :count].contiguous(), indices[..., :count].to(kind).contiguous()

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
