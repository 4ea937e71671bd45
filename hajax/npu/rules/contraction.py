"""Products: dot_general as one matmul, convolutions as torch's."""

import functools
import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from hajax.npu.dtypes import wrap
from hajax.npu.rules.registry import Context, dtype_of, name_of, refuse, rule


@rule("dot_general", fresh=True, complex=True)
def _dot_general(equation: Any, context: Context) -> Any:
    (left_sum, right_sum), (left_batch, right_batch) = equation.params["dimension_numbers"]
    left, right, out = equation.invars[0].aval, equation.invars[1].aval, equation.outvars[0].aval
    left_free = [axis for axis in range(left.ndim) if axis not in (*left_sum, *left_batch)]
    right_free = [axis for axis in range(right.ndim) if axis not in (*right_sum, *right_batch)]

    def size(aval: Any, axes: Any) -> int:
        return math.prod(aval.shape[axis] for axis in axes)

    rows, inner, columns, count = size(left, left_free), size(left, left_sum), size(right, right_free), size(left, left_batch)
    left_order, right_order = (*left_batch, *left_free, *left_sum), (*right_batch, *right_sum, *right_free)
    batch = (count,) if left_batch else ()
    left_shape, right_shape = (*batch, rows, inner), (*batch, inner, columns)
    kinds = [dtype_of(equation.invars[0]), dtype_of(equation.invars[1]), dtype_of(equation.outvars[0])]
    kind, name = kinds[2], name_of(equation.outvars[0])
    if name == "bool":
        kinds.append(torch.int32)  # a sum of products is true where it is not 0
    widest = functools.reduce(torch.promote_types, kinds)
    widen = widest if len(set(kinds)) > 1 else None  # torch has no product with a wider or narrower result
    finish = _finish(name, kind if widest != kind else None)
    shape = tuple(out.shape)
    left_as_is, right_as_is = left_order == tuple(range(left.ndim)), right_order == tuple(range(right.ndim))
    if left_as_is and left.shape == left_shape and right.ndim == 2 and not batch:  # a weight stored [out, in], or [in, out]
        turned = not right_as_is

        def product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            if widen is not None:
                x, y = x.to(widen), y.to(widen)
            return F.linear(x, y) if turned else torch.mm(x, y)

        return _then(product, finish)

    def general(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if widen is not None:
            x, y = x.to(widen), y.to(widen)
        x = (x if left_as_is else x.permute(left_order)).reshape(left_shape)
        y = (y if right_as_is else y.permute(right_order)).reshape(right_shape)
        return torch.matmul(x, y).reshape(shape)

    return _then(general, finish)


def _then(product: Any, finish: Any) -> Any:
    return product if finish is None else lambda x, y: finish(product(x, y))


def _finish(name: str, kind: torch.dtype | None) -> Any:
    """What makes a product its result, or None: wrapped where it is held wider (modulo more than its size), converted."""
    if name == "bool":
        return lambda x: x != 0
    if name in ("uint16", "uint32"):
        return lambda x: wrap(x, name)
    return None if kind is None else lambda x: x.to(kind)


@rule("conv_general_dilated", fresh=True)
def _convolution(equation: Any, context: Context) -> Any:
    params = equation.params
    numbers = params["dimension_numbers"]
    spatial = len(numbers.lhs_spec) - 2
    if spatial not in (1, 2, 3):
        raise refuse(equation, f"{spatial} spatial axes")
    batch_groups = params["batch_group_count"]
    groups = params["feature_group_count"] * batch_groups
    convolve = (F.conv1d, F.conv2d, F.conv3d)[spatial - 1]
    back = tuple(int(axis) for axis in np.argsort(numbers.out_spec))
    edges = [edge for low, high in reversed(params["padding"]) for edge in (low, high)]
    spread, kind = params["lhs_dilation"], dtype_of(equation.outvars[0])
    if not kind.is_floating_point:
        raise refuse(equation, f"a convolution of {name_of(equation.outvars[0])}")
    shape = equation.outvars[0].aval.shape
    if 0 in (*shape, *equation.invars[0].aval.shape, *equation.invars[1].aval.shape):  # torch has none without elements
        return lambda x, weight: torch.zeros(shape, dtype=kind, device=context.device)

    widest = functools.reduce(torch.promote_types, map(dtype_of, equation.invars), kind)

    def run(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        x, weight = x.permute(numbers.lhs_spec).to(widest), weight.permute(numbers.rhs_spec).to(widest)
        if batch_groups != 1:  # batch groups become feature groups
            x = x.reshape(batch_groups, x.shape[0] // batch_groups, *x.shape[1:]).transpose(0, 1)
            x = x.reshape(x.shape[0], -1, *x.shape[3:])
        if any(step != 1 for step in spread):
            stuffed = x.new_zeros((*x.shape[:2], *((n - 1) * step + 1 for n, step in zip(x.shape[2:], spread, strict=True))))
            stuffed[(..., *(slice(None, None, step) for step in spread))] = x
            x = stuffed
        if any(edges):
            x = F.pad(x, edges)  # negative edges crop, as in XLA
        result = convolve(x, weight, None, params["window_strides"], 0, params["rhs_dilation"], groups)
        return result.permute(back).to(kind).contiguous()

    return run
