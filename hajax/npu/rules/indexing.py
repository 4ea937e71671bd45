"""Slices at positions that only the running program knows, gather and scatter. No step waits for the device."""

import math
from typing import Any

import torch

from hajax.npu import _compat
from hajax.npu.dtypes import wrap
from hajax.npu.rules import index_maps
from hajax.npu.rules.registry import Context, Operation, dtype_of, is_literal, name_of, refuse, rule, shape_of


@rule("dynamic_slice", fresh=True, complex=True, keys=True)
def _dynamic_slice(equation: Any, context: Context) -> Any:
    whole, sizes = equation.invars[0].aval.shape, equation.params["slice_sizes"]
    fixed, moving = _axes(equation.invars[1:], whole, sizes)
    steps = {axis: torch.arange(sizes[axis], device=context.device) for axis in moving}

    def take(x: torch.Tensor, *starts: torch.Tensor) -> torch.Tensor:
        for axis, start in fixed.items():
            x = x.narrow(axis, start, sizes[axis])
        for axis in moving:
            x = x.index_select(axis, _clamped(starts[axis], whole[axis] - sizes[axis]) + steps[axis])
        return x if moving else x.clone()

    return take


@rule("dynamic_update_slice", fresh=True, complex=True, keys=True)
def _dynamic_update_slice(equation: Any, context: Context) -> Any:
    whole, sizes = equation.invars[0].aval.shape, equation.invars[1].aval.shape
    fixed, moving = _axes(equation.invars[2:], whole, sizes)
    steps = {axis: torch.arange(sizes[axis], device=context.device) for axis in moving}
    still = {axis: torch.arange(size, device=context.device) for axis, size in enumerate(sizes) if axis not in moving}
    rank = len(whole)

    def write(x: torch.Tensor, update: torch.Tensor, *starts: torch.Tensor) -> torch.Tensor:
        place = x
        for axis, start in fixed.items():
            place = place.narrow(axis, start, sizes[axis])
        where = {axis: _clamped(starts[axis], whole[axis] - sizes[axis]) + steps[axis] for axis in moving}
        if not moving:
            place.copy_(update)
        elif len(moving) == 1:
            place.index_copy_(moving[0], where[moving[0]], update)
        else:
            index = tuple((where[axis] if axis in where else still[axis]).reshape(_along(axis, rank)) for axis in range(rank))
            place.index_put_(index, update)
        return x

    def copy_and_write(x: torch.Tensor, update: torch.Tensor, *starts: torch.Tensor) -> torch.Tensor:
        return write(x.clone(memory_format=torch.contiguous_format), update, *starts)

    return Operation(copy_and_write, in_place=write)


def _axes(starts: Any, whole: tuple[int, ...], sizes: tuple[int, ...]) -> tuple[dict[int, int], tuple[int, ...]]:
    """Axes cut at a known place, with that place, and axes cut where the program says."""
    fixed: dict[int, int] = {}
    moving = []
    for axis, start in enumerate(starts):
        room = whole[axis] - sizes[axis]
        if room == 0:
            continue
        if is_literal(start):
            fixed[axis] = min(max(int(start.val), 0), room)
        else:
            moving.append(axis)
    return fixed, tuple(moving)


def _clamped(start: torch.Tensor, room: int) -> torch.Tensor:
    return start.to(torch.int64).clamp(0, room)


def _along(axis: int, rank: int) -> list[int]:
    return [-1 if other == axis else 1 for other in range(rank)]


@rule("gather", fresh=True, complex=True, keys=True)
def _gather(equation: Any, context: Context) -> Any:
    mode = _mode(equation)
    there = index_maps.of_gather(equation, context.device)
    order = there.result_order
    kind = dtype_of(equation.outvars[0])
    fill = _fill(equation) if mode == "fill" else None
    words = _compat.is_key(equation.outvars[0].aval.dtype)  # a last axis that no index is for
    if words:
        order = None if order is None else (*order, len(order))

    def take(x: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
        found, inside = there.locate(indices, masked=fill is not None)
        result = x[found] if found else x.clone()
        if fill is not None:
            result = torch.where(inside[..., None] if words else inside, result, fill).to(kind)
        return result if order is None else result.permute(order).contiguous()

    return take


def _fill(equation: Any) -> Any:
    """What FILL gives where an index is out of bounds: NaN, the least integer, the largest unsigned one, True."""
    given, name = equation.params["fill_value"], name_of(equation.outvars[0])
    if _compat.is_key(equation.outvars[0].aval.dtype):
        return 0xFFFFFFFF if given is None else given
    if given is not None:
        return given
    if name.startswith(("float", "bfloat", "complex")):
        return math.nan
    if name.startswith("uint"):
        return (1 << int(name[4:])) - 1
    return True if name == "bool" else -(1 << int(name[3:]) - 1)


def _mode(equation: Any) -> str:
    name = str(getattr(equation.params["mode"], "name", equation.params["mode"]))
    found = {"CLIP": "clip", "FILL_OR_DROP": "fill", "PROMISE_IN_BOUNDS": "clip"}.get(name)
    if found is None:
        raise refuse(equation, f"mode {name}")
    return found


@rule("scatter", "scatter-add", "scatter-sub", "scatter-mul", "scatter-max", "scatter-min", fresh=True)
def _scatter(equation: Any, context: Context) -> Any:
    how = equation.primitive.name.removeprefix("scatter").removeprefix("-")
    update = equation.params["update_jaxpr"]
    if not how and update is not None and update.eqns:  # x.at[i].apply
        raise refuse(equation, "a function of its own")
    there = index_maps.of_scatter(equation, context.device)
    drop, name = _mode(equation) == "fill", name_of(equation.invars[0])
    size, order = math.prod(shape_of(equation.invars[0])), there.result_order
    if name == "bool" and how:
        raise refuse(equation, "booleans")
    neutral = _neutral(how, dtype_of(equation.invars[0]))
    numbers = equation.params["dimension_numbers"]
    unique = equation.params["unique_indices"] or math.prod(equation.invars[1].aval.shape[:-1]) == 1
    placed = (*numbers.inserted_window_dims, *numbers.operand_batching_dims, *numbers.scatter_dims_to_operand_dims)
    if not placed and len(equation.invars[1].aval.shape) > 1:
        raise refuse(equation, "several updates of all axes")

    def write(x: torch.Tensor, indices: torch.Tensor, updates: torch.Tensor) -> torch.Tensor:
        if size == 0 or updates.numel() == 0:
            return x
        found, inside = there.locate(indices, masked=drop)
        values = updates if order is None else updates.permute(order)
        if not found:  # an update of the whole
            return _wrapped(_WHOLE[how](x, values), name)
        if not how:
            if drop:
                found, values = _dropped(x, found, values, inside)
            if not unique:
                found, values = _last_of_equals(x, found, values)
            return x.index_put_(found, values)
        if drop:
            values = torch.where(inside, values, neutral)
        if how == "sub":
            values = -values
        if how in ("add", "sub"):
            return _wrapped(x.index_put_(found, values, accumulate=True), name)
        flat = index_maps.flat(found, x.shape)
        if x.is_contiguous():
            return _wrapped(_reduced(x, flat, values, how), name)
        return _wrapped(x.copy_(_reduced(x.contiguous(), flat, values, how)), name)

    def copy_and_write(x: torch.Tensor, indices: torch.Tensor, updates: torch.Tensor) -> torch.Tensor:
        return write(x.clone(memory_format=torch.contiguous_format), indices, updates)

    return Operation(copy_and_write, in_place=write)


_WHOLE = {
    "": lambda x, values: x.copy_(values),
    "add": lambda x, values: x.add_(values),
    "sub": lambda x, values: x.sub_(values),
    "mul": lambda x, values: x.mul_(values),
    "max": lambda x, values: torch.maximum(x, values, out=x),
    "min": lambda x, values: torch.minimum(x, values, out=x),
}


def _wrapped(x: torch.Tensor, name: str) -> torch.Tensor:
    return x.copy_(wrap(x, name)) if name in ("uint16", "uint32") else x


def _dropped(x: torch.Tensor, found: Any, values: torch.Tensor, inside: torch.Tensor) -> tuple[Any, torch.Tensor]:
    """Updates out of bounds become copies of the last that is not, or of what is there already: writing them changes nothing."""
    shape = torch.broadcast_shapes(*(index.shape for index in found))
    rows = inside.reshape(inside.shape[: len(shape)]).expand(shape).reshape(-1)
    flat = [index.expand(shape).reshape(-1) for index in found]
    values = values.expand((*shape, *values.shape[len(shape) :])).reshape((rows.numel(), *values.shape[len(shape) :]))
    last = torch.where(rows, torch.arange(rows.numel(), device=x.device), 0).amax(0, keepdim=True)
    flat = [torch.where(rows, index, index.index_select(0, last)) for index in flat]
    there = x[tuple(index.index_select(0, last) for index in flat)]
    instead = torch.where(rows.any(), values.index_select(0, last), there)
    tail = (1,) * (values.ndim - 1)
    return tuple(flat), torch.where(rows.reshape(-1, *tail), values, instead)


def _last_of_equals(x: torch.Tensor, found: Any, values: torch.Tensor) -> tuple[Any, torch.Tensor]:
    """Updates of one place all become the last of them, which is XLA's: torch writes them in any order, from several threads."""
    shape = torch.broadcast_shapes(*(index.shape for index in found))
    flat = [index.expand(shape).reshape(-1) for index in found]
    values = values.expand((*shape, *values.shape[len(shape) :])).reshape((-1, *values.shape[len(shape) :]))
    place, size = torch.zeros_like(flat[0]), 1
    for index, length in zip(flat, x.shape, strict=False):
        place, size = place * length + index, size * length
    order = torch.arange(place.numel(), device=x.device)
    last = torch.zeros(size, dtype=torch.int64, device=x.device).scatter_reduce_(0, place, order, "amax", include_self=False)
    return tuple(flat), values.index_select(0, last.index_select(0, place))


def _neutral(how: str, kind: torch.dtype) -> Any:
    """What changes nothing when it is added, multiplied, or taken as an extreme."""
    if how not in ("max", "min"):
        return 1 if how == "mul" else 0
    if kind.is_floating_point:
        return -math.inf if how == "max" else math.inf
    return torch.iinfo(kind).min if how == "max" else torch.iinfo(kind).max


def _reduced(x: torch.Tensor, flat: torch.Tensor, values: torch.Tensor, how: str) -> torch.Tensor:
    place = x.view(-1)
    place.scatter_reduce_(
        0, flat.reshape(-1), values.expand(flat.shape).reshape(-1), {"mul": "prod", "max": "amax", "min": "amin"}[how]
    )
    return x
