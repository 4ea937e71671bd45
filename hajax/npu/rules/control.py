"""Loops and branches: their bodies are programs. A loop that runs until a value says so waits for the device each time."""

from collections.abc import Sequence
from typing import Any

import torch

from hajax.npu import _compat
from hajax.npu.rules.registry import Context, Operation, dtype_of, rule, shape_of


@rule("cond", fresh=True, complex=True, keys=True)
def _cond(equation: Any, context: Context) -> Any:
    branches = [context.plan(branch) for branch in equation.params["branches"]]
    last = len(branches) - 1

    def choose(index: torch.Tensor, *operands: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return branches[min(max(int(index), 0), last)](*operands)

    return Operation(choose, syncs=True)


@rule("while", fresh=True, complex=True, keys=True)
def _while(equation: Any, context: Context) -> Any:
    params = equation.params
    tests, bodies = params["cond_nconsts"], params["body_nconsts"]
    carries = len(equation.invars) - tests - bodies
    test = context.plan(params["cond_jaxpr"])
    body = context.plan(params["body_jaxpr"], range(bodies, bodies + carries))

    def loop(*operands: torch.Tensor) -> tuple[torch.Tensor, ...]:
        test_constants, body_constants = operands[:tests], operands[tests : tests + bodies]
        carry = _own(operands[tests + bodies :])
        while bool(test(*test_constants, *carry)[0]):
            carry = body(*body_constants, *carry)
        return tuple(carry)

    return Operation(loop, syncs=True)


@rule("scan", fresh=True, complex=True, keys=True)
def _scan(equation: Any, context: Context) -> Any:
    scan = _compat.scan_of(equation.params)
    first_slice = scan.constants + scan.carries
    body = context.plan(scan.body, range(scan.constants, first_slice))
    stacked = [(shape_of(v), dtype_of(v)) for v in equation.outvars[scan.carries :]]
    order = range(scan.length - 1, -1, -1) if scan.reverse else range(scan.length)

    def loop(*operands: torch.Tensor) -> tuple[torch.Tensor, ...]:
        constants, carry = operands[: scan.constants], _own(operands[scan.constants : first_slice])
        slices = [x.unbind(0) for x in operands[first_slice:]]
        rows: list[Any] = [None] * scan.length
        for index in order:
            results = body(*constants, *carry, *(x[index] for x in slices))
            carry, rows[index] = results[: scan.carries], results[scan.carries :]
        if not scan.length:
            return (*carry, *(torch.empty(shape, dtype=kind, device=context.device) for shape, kind in stacked))
        return (*carry, *(torch.stack(column) for column in zip(*rows, strict=True)))

    return Operation(loop, syncs=bool(body.syncs))


def _own(carry: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """Copies: a body may write into its carry, and what a loop returns is nobody else's."""
    return tuple(x.clone(memory_format=torch.contiguous_format) for x in carry)
