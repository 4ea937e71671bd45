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
    batched = len(params["cond_jaxpr"].out_avals[0].shape)
    body = context.plan(params["body_jaxpr"], () if batched else range(bodies, bodies + carries))

    def loop_each(*operands: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Loops side by side: one that has ended keeps its carry until all have."""
        test_constants, body_constants = operands[:tests], operands[tests : tests + bodies]
        carry = operands[tests + bodies :]
        while bool((going := test(*test_constants, *carry)[0]).any()):
            moved = body(*body_constants, *carry)
            carry = tuple(
                torch.where(going.reshape((*going.shape, *([1] * (new.ndim - batched)))), new, old)
                for new, old in zip(moved, carry, strict=True)
            )
        return _own(carry)

    if batched:
        return Operation(loop_each, syncs=True)

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


@rule("custom_linear_solve", fresh=True)
def _linear_solve(equation: Any, context: Context) -> Any:
    """The solution as its author computes it; how it is differentiated has been settled before."""
    lengths, solve = equation.params["const_lengths"], context.plan(equation.params["jaxprs"].solve)
    first, last = lengths.matvec + lengths.vecmat, sum(lengths)
    constants = slice(first, first + lengths.solve)
    return Operation(lambda *xs: solve(*xs[constants], *xs[last:]), syncs=bool(solve.syncs))


def _own(carry: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """Copies: a body may write into its carry, and what a loop returns is nobody else's."""
    return tuple(x.clone(memory_format=torch.contiguous_format) for x in carry)
