"""Windows that move over an array: reductions of each, and the element that each selects, with its gradient."""

import dataclasses
import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jax.extend import core as jex

from hajax.npu.dtypes import wrap
from hajax.npu.rules.reduction import least, most, pairwise
from hajax.npu.rules.registry import Context, dtype_of, is_literal, name_of, refuse, rule, shape_of


@dataclasses.dataclass(frozen=True, slots=True)
class _Windows:
    """sizes, strides, edges (low, high), distances of a window's elements and of the operand's, for each axis."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    edges: tuple[tuple[int, int], ...]
    window_steps: tuple[int, ...]
    base_steps: tuple[int, ...]

    def spread(self, x: torch.Tensor, value: Any) -> torch.Tensor:
        """The operand with its elements apart and its edges on, filled with a value."""
        if any(step != 1 for step in self.base_steps):
            shape = [max(0, (size - 1) * step + 1) for size, step in zip(x.shape, self.base_steps, strict=True)]
            stuffed = torch.full(shape, value, dtype=x.dtype, device=x.device)
            stuffed[tuple(slice(None, None, step) for step in self.base_steps)] = x
            x = stuffed
        edges = [edge for low_high in reversed(self.edges) for edge in low_high]
        return F.pad(x, edges, value=value) if any(edges) else x

    def views(self, x: torch.Tensor) -> torch.Tensor:
        """Of a spread operand: [windows, elements of each], without a copy."""
        for axis, (size, stride, step) in enumerate(zip(self.sizes, self.strides, self.window_steps, strict=True)):
            x = x.unfold(axis, (size - 1) * step + 1, stride)[..., ::step]
        return x


def _windows(equation: Any) -> _Windows:
    params = equation.params
    sizes, ones = tuple(params["window_dimensions"]), (1,) * len(params["window_dimensions"])
    edges = tuple((int(low), int(high)) for low, high in params["padding"])
    return _Windows(
        sizes, tuple(params["window_strides"]), edges, tuple(params.get("window_dilation") or ones),
        tuple(params.get("base_dilation") or ones),
    )  # fmt: skip


_REDUCED = {
    "reduce_window_max": (least, torch.amax),
    "reduce_window_min": (most, torch.amin),
    "reduce_window_sum": (lambda dtype: 0, lambda x, axes: torch.sum(x, axes, dtype=x.dtype)),
}


@rule(*_REDUCED, fresh=True)
def _reduce_window(equation: Any, context: Context) -> Any:
    neutral, reduce = _REDUCED[equation.primitive.name]
    windows, name = _windows(equation), name_of(equation.outvars[0])
    if name == "bool":
        raise refuse(equation, "booleans")
    start, shape = neutral(name), shape_of(equation.outvars[0])
    kind = dtype_of(equation.outvars[0])
    axes = tuple(range(len(shape), 2 * len(shape)))
    if 0 in shape or not axes:
        return lambda x: torch.full(shape, start, dtype=kind, device=context.device) if 0 in shape else x.clone()
    return lambda x: wrap(reduce(windows.views(windows.spread(x, start)), axes), name)


@rule("reduce_window", fresh=True)
def _reduce_window_by(equation: Any, context: Context) -> Any:
    """By a function of two: element after element of all windows at once."""
    windows, shape, count = _windows(equation), shape_of(equation.outvars[0]), len(equation.outvars)
    if any(not is_literal(atom) for atom in equation.invars[count:]):
        raise refuse(equation, "a start that is no constant")
    starts = [np.asarray(atom.val).item() for atom in equation.invars[count:]]
    merge = pairwise(_closed(equation), [v.aval.dtype for v in equation.outvars], context)(shape)

    def elements(x: torch.Tensor, start: Any) -> tuple[torch.Tensor, ...]:
        return windows.views(windows.spread(x, start)).flatten(len(shape)).unbind(-1)

    inside = [mask if not bool(mask.all()) else None for mask in _inside(windows, equation.invars[0], context).unbind(-1)]

    def reduce(*operands: torch.Tensor) -> tuple[torch.Tensor, ...]:
        results = tuple(start.expand(shape) for start in operands[count:])
        for row, mask in zip(zip(*map(elements, operands[:count], starts), strict=True), inside, strict=True):
            merged = merge(*results, *row)
            if mask is not None:  # what lies on an edge takes no part
                merged = tuple(torch.where(mask, new, old) for new, old in zip(merged, results, strict=True))
            results = merged
        return results

    return reduce


def _closed(equation: Any) -> Any:
    return jex.ClosedJaxpr(equation.params["jaxpr"], equation.params.get("consts", ()))


def _inside(windows: _Windows, operand: Any, context: Context) -> torch.Tensor:
    """Which elements of each window are the operand's."""
    shape = operand.aval.shape
    return windows.views(windows.spread(torch.ones(shape, device=context.device), 0)).flatten(len(shape)) != 0


def _selected(equation: Any, operand: Any, context: Context) -> Any:
    """A function from the operand to each window's chosen element: its place in the spread operand, and whether there is any.

    The first that is as large (or small) as any; what lies on an edge is never chosen. A comparison with NaN moves on.
    """
    windows, compare = _windows(equation), {"ge": torch.ge, "le": torch.le}.get(equation.params["select_prim"].name)
    if compare is None:
        raise refuse(equation, f"a selection by {equation.params['select_prim']}")
    shape = operand.aval.shape
    inside = _inside(windows, operand, context)
    spread = windows.spread(torch.ones(shape, device=context.device), 0).shape
    places = windows.views(torch.arange(math.prod(spread), device=context.device).reshape(spread)).flatten(len(shape))
    columns = list(zip(places.unbind(-1), inside.unbind(-1), strict=True))

    def choose(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        elements = windows.views(windows.spread(x, 0)).flatten(len(shape)).unbind(-1)
        (place, found), value = columns[0], elements[0]
        for (other, there), element in zip(columns[1:], elements[1:], strict=True):
            better = there & ~(found & compare(value, element))
            place, value = torch.where(better, other, place), torch.where(better, element, value)
            found = found | there
        return place, found

    return windows, spread, choose


@rule("select_and_scatter_add", fresh=True)
def _select_and_scatter_add(equation: Any, context: Context) -> Any:
    windows, spread, choose = _selected(equation, equation.invars[1], context)
    shape = shape_of(equation.outvars[0])
    crop = tuple(slice(max(low, 0), max(low, 0) + size) for (low, _), size in zip(windows.edges, shape, strict=True))
    if any(low < 0 or high < 0 for low, high in windows.edges) or any(step != 1 for step in windows.base_steps):
        raise refuse(equation, "negative edges")

    def scatter(source: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        place, found = choose(x)
        values = torch.where(found, source, 0)
        return x.new_zeros(math.prod(spread)).index_add_(0, place.flatten(), values.flatten()).reshape(spread)[crop].contiguous()

    return scatter


@rule("select_and_gather_add", fresh=True)
def _select_and_gather_add(equation: Any, context: Context) -> Any:
    windows, _, choose = _selected(equation, equation.invars[1], context)

    def gather(tangents: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        place, found = choose(x)
        chosen = torch.index_select(windows.spread(tangents, 0).reshape(-1), 0, place.flatten()).reshape(place.shape)
        return torch.where(found, chosen, 0)

    return gather
