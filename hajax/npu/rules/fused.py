"""Functions of hajax that are one torch call on the inference path (hajax/ops/_named.py), recognised by name and by jaxpr."""

from collections.abc import Callable
from typing import Any

from hajax.npu import fused_calls as calls
from hajax.npu.rules.registry import Context, Operation, Rule
from hajax.ops import _named

# name -> (torch function of the tensors and the options, the same in place of operand 0 where there is one)
FUSED: dict[str, tuple[Callable[..., Any], Callable[..., Any] | None]] = {
    "l2norm": (calls.l2norm, None),
    "gated_rms_norm": (calls.gated_rms_norm, None),
    "causal_conv1d": (calls.causal_conv1d, None),
    "causal_conv1d_padded": (calls.causal_conv1d_padded, None),
}


def find(equation: Any) -> tuple[Rule, str] | None:
    """The rule for a call that is exactly one of those functions: no transformation has changed what it does."""
    if equation.primitive.name not in ("jit", "pjit"):
        return None
    call = _named.original(equation)
    if call is None or call.name not in FUSED:
        return None
    function, in_place = FUSED[call.name]
    options, many = dict(call.options), len(equation.outvars) > 1

    def results(found: Any) -> Any:  # a jit equation's results are a tuple, even one
        return found if many else (found,)

    def build(_: Any, context: Context) -> Operation:
        return Operation(
            lambda *xs: results(function(*xs, **options)),
            in_place=None if in_place is None else lambda *xs: results(in_place(*xs, **options)),
        )

    return Rule(build, fresh=True, scalars=False, complex=False, keys=False), call.name
