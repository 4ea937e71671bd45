"""hajax's own primitive: one fused kernel, by the custom operator of `hajax.npu.torch_ops`."""

from typing import Any

import torch

from hajax.npu import torch_ops
from hajax.npu.rules.registry import Context, Operation, refuse, rule

_STATE_OPERAND, _STATE_RESULT = 5, 1


@rule("hajax_delta_rule", fresh=True)
def _delta_rule(equation: Any, context: Context) -> Any:
    static = equation.params["static"]
    if static.implementation not in (None, "cpu"):
        raise refuse(equation, f"implementation {static.implementation!r}")
    eps = -1.0 if static.l2norm_eps is None else static.l2norm_eps
    rest = (torch_ops.mechanism_name(static.mechanism), static.scale, eps, static.output_dtype)

    def run(*operands: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.ops.hajax.delta_rule(*operands, *rest)

    def run_in_place(*operands: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        output = torch.ops.hajax.delta_rule_(*operands, *rest)
        return output, operands[_STATE_OPERAND]

    return Operation(run, in_place=run_in_place, target=_STATE_OPERAND, result=_STATE_RESULT)
