"""Functions of hajax that are one torch call on the inference path (hajax/ops/_named.py), recognised by name and by jaxpr."""

import math
from collections.abc import Callable
from typing import Any

from hajax.npu import fused_calls as calls
from hajax.npu.rules.registry import Context, Operation, Rule
from hajax.ops import _named

_MOST_COPIED = 1 << 22  # numbers

# name -> (torch function of the tensors and the options, the same in place of operand 0 where there is one)
_FUNCTIONS = (
    calls.causal_attention, calls.cached_attention, calls.causal_conv1d, calls.causal_conv1d_padded, calls.experts,
    calls.gated_rms_norm, calls.l2norm, calls.log_decay_per_channel, calls.log_decay_per_head, calls.plain_rms_norm,
    calls.rms_norm, calls.rotate, calls.rotate_interleaved, calls.rounded_product, calls.route, calls.silu_gate,
)  # fmt: skip
FUSED: dict[str, tuple[Callable[..., Any], Callable[..., Any] | None]] = {
    **{function.__name__: (function, None) for function in _FUNCTIONS},
    "cache_put": (calls.cache_put, calls.cache_put_in_place),
}


def find(equation: Any) -> tuple[Rule, str] | None:
    """The rule for a call that is exactly one of those functions: no transformation has changed what it does."""
    if equation.primitive.name not in ("jit", "pjit"):
        return None
    call = _named.original(equation)
    if call is None or call.name not in FUSED or (call.name == "experts" and not _few(equation)):
        return None
    function, in_place = FUSED[call.name]
    options, many = dict(call.options), len(equation.outvars) > 1
    options.pop("implementation", None)  # of XLA's CPU

    def results(found: Any) -> Any:  # a jit equation's results are a tuple, even one
        return found if many else (found,)

    def build(_: Any, context: Context) -> Operation:
        return Operation(
            lambda *xs: results(function(*xs, **options)),
            in_place=None if in_place is None else lambda *xs: results(in_place(*xs, **options)),
        )

    return Rule(build, fresh=True, scalars=False, complex=False, keys=False), call.name


def _few(equation: Any) -> bool:
    """Whether a copy of an expert's weights for each choice is small; else the function's own blocks are right."""
    _, chosen, _, gate_up, down = (atom.aval for atom in equation.invars)
    return math.prod(chosen.shape) * (math.prod(gate_up.shape[1:]) + math.prod(down.shape[1:])) <= _MOST_COPIED
