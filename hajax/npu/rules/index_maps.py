"""The index maps of gather and scatter as torch's advanced indices.

Two forms: rows, when indices choose along the leading axes and whole rows follow; elements, an index for each axis, otherwise.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import torch

Located = tuple[tuple[torch.Tensor, ...], torch.Tensor]


@dataclasses.dataclass(frozen=True, slots=True)
class IndexMap:
    """locate(indices, masked) gives one index tensor an axis, each with the indices' batch axes (then, for elements, those of the
    window), and which are in bounds, shaped to be broadcast against the values. result_order: of the values' axes, None as is.
    """

    locate: Callable[..., Located]
    result_order: tuple[int, ...] | None


def of_gather(equation: Any, device: torch.device) -> IndexMap:
    """The map of a gather equation; result_order turns [batch, window] into the result."""
    params = equation.params
    numbers, sizes = params["dimension_numbers"], tuple(params["slice_sizes"])
    operand, indices, out = equation.invars[0].aval, equation.invars[1].aval, equation.outvars[0].aval
    batch = indices.shape[:-1]
    hidden = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    locate = _map(
        operand.shape, batch, sizes, hidden, numbers.start_index_map, numbers.operand_batching_dims,
        numbers.start_indices_batching_dims, device,
    )  # fmt: skip
    window = iter(range(len(batch), out.ndim))
    rows = iter(range(len(batch)))
    order = tuple(next(window) if axis in numbers.offset_dims else next(rows) for axis in range(out.ndim))
    return IndexMap(locate, None if order == tuple(range(out.ndim)) else order)


def of_scatter(equation: Any, device: torch.device) -> IndexMap:
    """The map of a scatter equation; result_order turns the updates into [batch, window]."""
    numbers = equation.params["dimension_numbers"]
    operand, indices, updates = (atom.aval for atom in equation.invars)
    batch = indices.shape[:-1]
    hidden = (*numbers.inserted_window_dims, *numbers.operand_batching_dims)
    window = iter(numbers.update_window_dims)
    sizes = tuple(1 if axis in hidden else updates.shape[next(window)] for axis in range(operand.ndim))
    locate = _map(
        operand.shape, batch, sizes, hidden, numbers.scatter_dims_to_operand_dims, numbers.operand_batching_dims,
        numbers.scatter_indices_batching_dims, device,
    )  # fmt: skip
    rows = [axis for axis in range(updates.ndim) if axis not in numbers.update_window_dims]
    order = (*rows, *numbers.update_window_dims)
    return IndexMap(locate, None if order == tuple(range(updates.ndim)) else tuple(order))


def flat(found: tuple[torch.Tensor, ...], shape: torch.Size) -> torch.Tensor:
    """One index into the flattened operand, windows of the row form included."""
    rest = shape[len(found) :]
    rank = len(torch.broadcast_shapes(*(index.shape for index in found)))
    result: Any = 0
    for axis, size in enumerate(shape):
        if axis < len(found):
            index = found[axis].reshape((*found[axis].shape, *([1] * len(rest))))
        else:
            place = rank + axis - len(found)
            index = torch.arange(size, device=found[0].device).reshape((*([1] * place), size, *([1] * (len(shape) - axis - 1))))
        result = result * size + index
    return result


def _map(
    operand: tuple[int, ...],
    batch: tuple[int, ...],
    sizes: tuple[int, ...],
    hidden: tuple[int, ...],
    named: tuple[int, ...],
    batching: tuple[int, ...],
    batching_at: tuple[int, ...],
    device: torch.device,
) -> Callable[..., Located]:
    """hidden: axes of the operand that no window axis stands for. named: the axis that each index component is for."""
    rank = len(operand)
    leading = len(hidden)
    rows = (
        set(hidden) == set(range(leading)) and set(named) | set(batching) == set(hidden) and sizes[leading:] == operand[leading:]
    )
    windows = 0 if rows else rank - leading
    room = torch.tensor([operand[axis] - sizes[axis] for axis in named], dtype=torch.int64, device=device)
    across = len(batch) + windows
    constant: dict[int, torch.Tensor] = {}
    place = len(batch)
    for axis in range(leading if rows else rank):
        index = torch.zeros([1] * across, dtype=torch.int64, device=device)
        if axis in batching:
            index = index + _steps(batch[batching_at[batching.index(axis)]], batching_at[batching.index(axis)], across, device)
        if axis not in hidden:
            index = index + _steps(sizes[axis], place, across, device)
            place += 1
        constant[axis] = index
    tail = (1,) * windows

    def locate(indices: torch.Tensor, masked: bool = False) -> Located:
        wide = indices.to(torch.int64)
        held = torch.minimum(wide.clamp(min=0), room)
        found = []
        for axis, index in constant.items():
            if axis in named:
                moved = index + held[..., named.index(axis)].reshape((*batch, *tail))
                found.append(moved.expand((*batch, *([-1] * windows))))
            else:
                found.append(index)
        if not masked:
            return tuple(found), held
        inside = ((wide >= 0) & (wide <= room)).all(-1)
        return tuple(found), inside.reshape((*batch, *([1] * (rank - leading))))

    return locate


def _steps(size: int, axis: int, rank: int, device: torch.device) -> torch.Tensor:
    shape = [1] * rank
    shape[axis] = size
    return torch.arange(size, device=device).reshape(shape)
