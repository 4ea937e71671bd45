"""hajax's own primitive: one fused kernel, by the custom operator of `hajax.npu.torch_ops`; or plain operations where asked."""

import functools
from typing import Any

import jax
import torch

from hajax.backends import cpu
from hajax.npu import torch_ops  # noqa: F401 (registers the operators)
from hajax.npu.rules.registry import Context, Operation, refuse, rule
from hajax.ops import _gradient, _observers, _primitive
from hajax.plans import Shape

_STATE_OPERAND, _BOUNDS_OPERAND, _STATE_RESULT = 5, 6, 1


@rule("hajax_delta_rule", fresh=True, host=(_BOUNDS_OPERAND,))
def _delta_rule(equation: Any, context: Context) -> Any:
    static = equation.params["static"]
    if static.implementation == "xla":
        plain = functools.partial(_primitive.reference_lowering, static=static)
        return context.plan(jax.make_jaxpr(plain)(*(atom.aval for atom in equation.invars)))
    if static.implementation not in (None, "cpu") or (static.implementation == "cpu" and context.device.type != "cpu"):
        raise refuse(equation, f"implementation {static.implementation!r} on {context.device.type}")
    eps = -1.0 if static.l2norm_eps is None else static.l2norm_eps
    rest = (static.mechanism.name, static.scale, eps, static.output_dtype)
    if context.device.type == "cpu" and 0 not in equation.invars[2].aval.shape:
        _observers.notify(cpu.plan_of(static.mechanism, _shape(equation, static), torch.get_num_threads()))
    functional, in_place = torch.ops.hajax.delta_rule.default, torch.ops.hajax.delta_rule_.default

    def run(*operands: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return functional(*operands, *rest)

    def run_in_place(*operands: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return in_place(*operands, *rest), operands[_STATE_OPERAND]

    return Operation(run, in_place=run_in_place, target=_STATE_OPERAND, result=_STATE_RESULT)


@rule("hajax_delta_rule_backward")
def _delta_rule_backward(equation: Any, context: Context) -> Any:
    plain = functools.partial(_gradient.reference_gradients, static=equation.params["static"])
    return context.plan(jax.make_jaxpr(plain)(*(atom.aval for atom in equation.invars)))


def _shape(equation: Any, static: Any) -> Shape:
    query, _, value, _, _, _, bounds = (atom.aval for atom in equation.invars)
    return Shape(
        batch=query.shape[0],
        tokens=query.shape[1],
        sequences=bounds.shape[1] - 1,
        key_heads=query.shape[2],
        value_heads=value.shape[2],
        key_dim=query.shape[3],
        value_dim=value.shape[3],
        input_dtype=query.dtype.name,
        output_dtype=static.output_dtype,
    )
