"""Shapes: what moves or repeats elements without computing."""

from typing import Any

import torch
import torch.nn.functional as F

from hajax.npu import _compat
from hajax.npu.rules.registry import Context, Operation, dtype_of, rule, shape_of


@rule("broadcast_in_dim", complex=True, keys=True)
def _broadcast(equation: Any, context: Context) -> Any:
    before, after = shape_of(equation.invars[0]), shape_of(equation.outvars[0])
    places = tuple(equation.params["broadcast_dimensions"])
    if len(before) > len(places):  # a key's words
        places = (*places, len(after) - 1)
    ones = [1] * len(after)
    for size, place in zip(before, places, strict=True):
        ones[place] = size
    placed = tuple(ones)
    if placed == after:
        return Operation(lambda x: x.reshape(placed), view=True, reshape=True)
    if placed == before:
        return lambda x: x.expand(after)
    return lambda x: x.reshape(placed).expand(after)


@rule("reshape", "squeeze", complex=True, keys=True)
def _reshape(equation: Any, context: Context) -> Any:
    shape, turned = shape_of(equation.outvars[0]), equation.params.get("dimensions")
    if equation.primitive.name == "reshape" and turned is not None:
        order = _with_words(equation, turned)
        return Operation(lambda x: x.permute(order).reshape(shape), view=True)
    return Operation(lambda x: x.reshape(shape), view=True, reshape=True, identity=shape == shape_of(equation.invars[0]))


@rule("transpose", complex=True, keys=True)
def _transpose(equation: Any, context: Context) -> Any:
    order = _with_words(equation, equation.params["permutation"])
    return Operation(lambda x: x.permute(order), view=True)


def _with_words(equation: Any, axes: Any) -> tuple[int, ...]:
    rank = len(shape_of(equation.invars[0]))
    return (*axes, rank - 1) if _compat.is_key(equation.invars[0].aval.dtype) else tuple(axes)


@rule("concatenate", fresh=True, complex=True, keys=True)
def _concatenate(equation: Any, context: Context) -> Any:
    axis = equation.params["dimension"]
    return lambda *xs: torch.cat(xs, axis)


@rule("stack", fresh=True, complex=True, keys=True)
def _stack(equation: Any, context: Context) -> Any:
    axis = equation.params.get("axis", equation.params.get("dimension", 0))
    return lambda *xs: torch.stack(xs, axis)


@rule("unstack", complex=True, keys=True)
def _unstack(equation: Any, context: Context) -> Any:
    axis = equation.params.get("axis", equation.params.get("dimension", 0))
    return lambda x: torch.unbind(x, axis)


@rule("slice", complex=True, keys=True)
def _slice(equation: Any, context: Context) -> Any:
    starts, limits = equation.params["start_indices"], equation.params["limit_indices"]
    steps = equation.params["strides"] or (1,) * len(starts)
    index = tuple(slice(*cut) for cut in zip(starts, limits, steps, strict=True))
    full = equation.invars[0].aval.shape
    cut = [axis for axis, one in enumerate(index) if (one.start, one.stop, one.step) != (0, full[axis], 1)]
    if len(cut) == 1 and index[cut[0]].step == 1:
        axis = cut[0]
        start, size = index[axis].start, index[axis].stop - index[axis].start
        return Operation(lambda x: x.narrow(axis, start, size), view=True)
    return Operation(lambda x: x[index], view=True)


@rule("split", complex=True, keys=True)
def _split(equation: Any, context: Context) -> Any:
    sizes, axis = list(equation.params["sizes"]), equation.params["axis"]
    return lambda x: torch.split(x, sizes, axis)


@rule("tile", fresh=True, complex=True)
def _tile(equation: Any, context: Context) -> Any:
    repeats = tuple(equation.params["reps"])
    return lambda x: x.repeat(repeats)


@rule("rev", fresh=True, complex=True)
def _rev(equation: Any, context: Context) -> Any:
    axes = equation.params["dimensions"]
    return lambda x: torch.flip(x, axes)


@rule("pad", fresh=True, complex=True)
def _pad(equation: Any, context: Context) -> Any:
    config = equation.params["padding_config"]
    shape, kind = shape_of(equation.outvars[0]), dtype_of(equation.outvars[0])
    source = equation.invars[0].aval.shape
    windows = [_window(low, high, inner, size) for (low, high, inner), size in zip(config, source, strict=True)]
    places = tuple(slice(*into) for into, _ in windows)
    taken = tuple(slice(*outof) for _, outof in windows)

    def pad(x: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        result = value.expand(shape).clone(memory_format=torch.contiguous_format) if shape else value.clone()
        result[places] = x[taken]
        return result

    literal = getattr(equation.invars[1], "val", None)
    plain = not kind.is_complex and all(inner == 0 for _, _, inner in config)
    if plain and literal is not None and float(literal) == 0:
        edges = [edge for low, high, _ in reversed(config) for edge in (low, high)]
        return lambda x, value: F.pad(x, edges)  # negative edges crop, as in XLA
    return pad


def _window(low: int, high: int, inner: int, size: int) -> tuple[tuple[int, int, int], tuple[int, int]]:
    """Where elements of an axis go, as a slice of the result, and which of them do: those that no negative edge cuts off."""
    step = inner + 1
    total = low + high + max(0, (size - 1) * step + 1 if size else 0)
    first = max(0, -(low // step)) if low < 0 else 0
    kept = [i for i in range(first, size) if 0 <= low + i * step < total]
    if not kept:
        return (0, 0, 1), (0, 0)
    start = low + kept[0] * step
    return (start, low + kept[-1] * step + 1, step), (kept[0], kept[-1] + 1)


@rule("empty", "empty2", fresh=True)
def _empty(equation: Any, context: Context) -> Any:
    shape, kind = shape_of(equation.outvars[0]), dtype_of(equation.outvars[0])
    return lambda: torch.zeros(shape, dtype=kind, device=context.device)


@rule("iota", fresh=True)
def _iota(equation: Any, context: Context) -> Any:
    shape, axis, kind = equation.params["shape"], equation.params["dimension"], dtype_of(equation.outvars[0])
    ones = [1] * len(shape)
    ones[axis] = shape[axis]

    def count() -> torch.Tensor:
        return torch.arange(shape[axis], device=context.device).to(kind).reshape(ones).expand(shape).contiguous()

    return count
