"""Products: dot_general as one matmul, convolutions as torch's."""

import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from hajax.npu.rules.registry import Context, dtype_of, name_of, refuse, rule


@rule("dot_general", fresh=True)
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
    kinds = {dtype_of(equation.invars[0]), dtype_of(equation.invars[1]), dtype_of(equation.outvars[0])}
    kind = dtype_of(equation.outvars[0])
    widen = kind if len(kinds) > 1 else None  # torch has no product with a wider result
    if name_of(equation.outvars[0]) in ("bool", "uint16", "uint32"):
        raise refuse(equation, f"a product of {name_of(equation.outvars[0])}")
    shape = tuple(out.shape)
    left_as_is, right_as_is = left_order == tuple(range(left.ndim)), right_order == tuple(range(right.ndim))
    if left_as_is and left.shape == left_shape and right.ndim == 2 and not batch:  # a weight stored [out, in], or [in, out]
        turned = not right_as_is

        def product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            if widen is not None:
                x, y = x.to(widen), y.to(widen)
            return F.linear(x, y) if turned else torch.mm(x, y)

        return product

    def general(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if widen is not None:
            x, y = x.to(widen), y.to(widen)
        x = (x if left_as_is else x.permute(left_order)).reshape(left_shape)
        y = (y if right_as_is else y.permute(right_order)).reshape(right_shape)
        return torch.matmul(x, y).reshape(shape)

    return general


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

    def run(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        x, weight = x.permute(numbers.lhs_spec).to(kind), weight.permute(numbers.rhs_spec).to(kind)
        if batch_groups != 1:  # batch groups become feature groups
            x = x.reshape(batch_groups, x.shape[0] // batch_groups, *x.shape[1:]).transpose(0, 1)
            x = x.reshape(x.shape[0], -1, *x.shape[3:])
        if any(step != 1 for step in spread):
            stuffed = x.new_zeros((*x.shape[:2], *((n - 1) * step + 1 for n, step in zip(x.shape[2:], spread, strict=True))))
            stuffed[(..., *(slice(None, None, step) for step in spread))] = x
            x = stuffed
        if any(edges):
            x = F.pad(x, edges)  # negative edges crop, as in XLA
        return convolve(x, weight, None, params["window_strides"], 0, params["rhs_dilation"], groups).permute(back).contiguous()

    return run
