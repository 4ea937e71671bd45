"""Modelled cycles of the graph's vector operators on whole tiles in UB, in either layout, and of changing the layout.

Dense: row after row. Blocked: for each 16 columns, all rows of 16: what copies out of the accumulator give and products take.
"""

import math
from collections.abc import Mapping
from typing import Literal

from hajax import chip_cost
from hajax.graph import Elementwise, Operator, Tensor
from hajax.targets import NpuTarget

Layout = Literal["blocked", "dense"]
LAYOUTS: tuple[Layout, ...] = ("blocked", "dense")
LANES = 64  # fp32 of a repeat
REPEATS = 255  # of an instruction
BLOCK = 16


def is_tile(tensor: Tensor) -> bool:
    """Whether a tensor has a layout to choose."""
    return len(tensor.shape) == 2


def operator_cycles(target: NpuTarget, operator: Operator, tensors: Mapping[str, Tensor], layout: Layout) -> float:
    """Cycles of a vector operator's instructions. Factors of rows or columns exist, spread over a block, in either layout."""
    out = next((tensors[name] for name in operator.outputs if is_tile(tensors[name])), None)
    if out is None:
        return 0.0  # vectors of a chunk: the same whatever the tiles' layouts are
    widened = sum(tensors[name].dtype == "float16" for name in operator.inputs if is_tile(tensors[name]))
    cycles = widened * _run(target, "vconv", out) + (_run(target, "vconv", out) if out.dtype == "float16" else 0.0)
    match operator.kind:
        case "split":
            return 2 * _run(target, "vconv", out) + _run(target, "vaxpy", out)
        case "exp":
            return cycles + _run(target, "vexp", out)
        case "decays":
            return cycles + 2 * _run(target, "vexp", out)
        case "multiply" | "multiply_add" | "multiply_subtract":
            return cycles + _elementwise(target, operator, out, tensors, layout)
        case _:
            raise ValueError(f"{operator.name}: expected a vector operator, got kind {operator.kind!r}")


def transform_cycles(target: NpuTarget, tensor: Tensor) -> float:
    """One strided copy in UB for each 16 columns, either way; twice if the tensor is two parts."""
    parts = 2 if tensor.dtype == "float16x2" else 1
    blocks = math.ceil(tensor.shape[1] / BLOCK) * parts
    each = chip_cost.instruction_cycles(target, "copy_ubuf_to_ubuf", bytes=tensor.bytes // blocks, path="ub_to_ub")
    return blocks * each


def _run(target: NpuTarget, instruction: str, tensor: Tensor) -> float:
    """An instruction over a contiguous tile."""
    repeats = math.ceil(tensor.elements / LANES)
    cycles = 0.0
    while repeats > 0:
        cycles += chip_cost.instruction_cycles(target, instruction, units=min(repeats, REPEATS))
        repeats -= REPEATS
    return cycles


def _broadcast(target: NpuTarget, instruction: str, tensor: Tensor, layout: Layout) -> float:
    """With a factor for each row or column: dense, a repeat takes 64 columns of a row; blocked, four rows of 16 columns."""
    rows, columns = tensor.shape
    if layout == "dense":
        instructions, repeats = math.ceil(columns / LANES), rows
    else:
        instructions, repeats = math.ceil(columns / BLOCK), math.ceil(rows * BLOCK / LANES)
    return instructions * chip_cost.instruction_cycles(target, instruction, units=repeats)


def _elementwise(target: NpuTarget, operator: Operator, out: Tensor, tensors: Mapping[str, Tensor], layout: Layout) -> float:
    assert isinstance(operator.attributes, Elementwise)
    axes = operator.attributes.axes
    cycles = 0.0
    for axis in axes[1:] if operator.kind == "multiply" else axes[2:]:
        if axis in ("row", "column"):
            cycles += _broadcast(target, "vmul", out, layout)
        else:
            cycles += _run(target, "vmuls" if axis == "scalar" else "vmul", out)
    if operator.kind != "multiply":
        cycles += _run(target, "vadd" if operator.kind == "multiply_add" else "vsub", out)
    ratio = any(name == "ratio" for name in operator.inputs)  # zero above the diagonal already
    masked = operator.attributes.mask == "strictly_lower" or (operator.attributes.mask == "lower" and not ratio)
    return cycles + (_run(target, "vmul", out) if masked else 0.0)
