"""Element by element, in the dtype of the operands. Integers that are held wider are wrapped."""

import operator
from typing import Any

import torch
from jax import lax

from hajax.npu import _compat
from hajax.npu.dtypes import wrap
from hajax.npu.rules.registry import Context, Operation, dtype_of, name_of, refuse, rule

_UNARY = {
    "acos": torch.acos,
    "acosh": torch.acosh,
    "asin": torch.asin,
    "asinh": torch.asinh,
    "atan": torch.atan,
    "atanh": torch.atanh,
    "bessel_i0e": torch.special.i0e,
    "bessel_i1e": torch.special.i1e,
    "ceil": torch.ceil,
    "cos": torch.cos,
    "cosh": torch.cosh,
    "erf": torch.erf,
    "erf_inv": torch.erfinv,
    "erfc": torch.erfc,
    "exp": torch.exp,
    "exp2": torch.exp2,
    "expm1": torch.expm1,
    "floor": torch.floor,
    "is_finite": torch.isfinite,
    "lgamma": torch.lgamma,
    "log": torch.log,
    "log1p": torch.log1p,
    "log2": torch.log2,
    "logistic": torch.sigmoid,
    "rsqrt": torch.rsqrt,
    "sin": torch.sin,
    "sinh": torch.sinh,
    "sqrt": torch.sqrt,
    "tan": torch.tan,
    "tanh": torch.tanh,
}
_COMPARISONS = {"eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge}
_ARITHMETIC = {"add": operator.add, "add_any": operator.add, "sub": operator.sub, "mul": operator.mul}
_TENSORS = {"atan2": torch.atan2, "nextafter": torch.nextafter, "max": torch.maximum, "min": torch.minimum}
_GAMMAS = {"igamma": torch.special.gammainc, "igammac": torch.special.gammaincc, "zeta": torch.special.zeta}


def _constant_rule(function: Any) -> Any:
    return lambda equation, context: function


for _name, _function in _UNARY.items():
    rule(_name, fresh=True)(_constant_rule(_function))
for _name, _function in {**_TENSORS, **_GAMMAS}.items():
    rule(_name, fresh=True)(_constant_rule(_function))
for _name, _function in _COMPARISONS.items():
    rule(_name, fresh=True, scalars=True, complex=_name in ("eq", "ne"))(_constant_rule(_function))


def wrapped(function: Any, equation: Any) -> Any:
    """The function, its result wrapped where the dtype is held wider than it is."""
    name = name_of(equation.outvars[0])
    return (lambda *xs: wrap(function(*xs), name)) if name in ("uint16", "uint32") else function


def _arithmetic(function: Any) -> Any:
    def build(equation: Any, context: Context) -> Any:
        if name_of(equation.outvars[0]) == "bool":
            raise refuse(equation, "arithmetic on booleans")
        return wrapped(function, equation)

    return build


for _name, _function in _ARITHMETIC.items():
    rule(_name, fresh=True, scalars=True, complex=True)(_arithmetic(_function))


@rule("neg", fresh=True, complex=True)
def _neg(equation: Any, context: Context) -> Any:
    return wrapped(torch.neg, equation)


@rule("one_minus_square", fresh=True)
def _one_minus_square(equation: Any, context: Context) -> Any:
    return lambda x: (1 - x) * (1 + x)


@rule("square", fresh=True)
def _square(equation: Any, context: Context) -> Any:
    return wrapped(lambda x: x * x, equation)


@rule("abs", fresh=True, complex=True)
def _abs(equation: Any, context: Context) -> Any:
    return (lambda x: x.clone()) if name_of(equation.invars[0]).startswith("uint") else torch.abs


@rule("sign", fresh=True)
def _sign(equation: Any, context: Context) -> Any:
    if not name_of(equation.invars[0]).startswith(("float", "bfloat")):
        return torch.sign
    return lambda x: torch.where(torch.isnan(x) | (x == 0), x, torch.sign(x))  # NaN and -0 stay what they are


@rule("cbrt", fresh=True)
def _cbrt(equation: Any, context: Context) -> Any:
    return lambda x: torch.copysign(torch.pow(torch.abs(x), 1 / 3), x)


@rule("digamma", fresh=True)
def _digamma(equation: Any, context: Context) -> Any:
    pole = _compat.digamma_pole()
    return lambda x: torch.where(x == 0, pole, torch.digamma(x))


@rule("name", "copy", "device_put", "sharding_constraint", "stop_gradient", complex=True, keys=True)
def _same(equation: Any, context: Context) -> Any:
    return Operation(lambda x: x, view=True, identity=True)


@rule("optimization_barrier", complex=True, keys=True)
def _barrier(equation: Any, context: Context) -> Any:
    return lambda *xs: xs


@rule("pow", fresh=True)
def _pow(equation: Any, context: Context) -> Any:
    if not name_of(equation.outvars[0]).startswith(("float", "bfloat")):
        raise refuse(equation, "an integer base")
    return torch.pow


@rule("polygamma", fresh=True)
def _polygamma(equation: Any, context: Context) -> Any:
    def derivative(order: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        sign = torch.where(torch.fmod(order, 2) == 0, -1.0, 1.0).to(x.dtype)
        found = sign * torch.exp(torch.lgamma(order + 1)) * torch.special.zeta(order + 1, x)
        return torch.where(order == 0, torch.digamma(x), found)

    return derivative


@rule("polynomial", fresh=True)
def _polynomial(equation: Any, context: Context) -> Any:
    def horner(x: torch.Tensor, *coefficients: torch.Tensor) -> torch.Tensor:
        result = coefficients[-1]
        for coefficient in reversed(coefficients[:-1]):
            result = result * x + coefficient
        return result

    return wrapped(horner, equation)


@rule("integer_pow", fresh=True)
def _integer_pow(equation: Any, context: Context) -> Any:
    power = equation.params["y"]
    if name_of(equation.outvars[0]).startswith(("float", "bfloat")):
        special = {2: lambda x: x * x, -1: torch.reciprocal}
        return special.get(power, lambda x: torch.pow(x, power))
    if power < 0:
        raise refuse(equation, "a negative power of an integer")

    def multiply(x: torch.Tensor) -> torch.Tensor:  # each product wrapped, so that none leaves what holds it
        result, factor, left = torch.ones_like(x), x, power
        while left:
            if left & 1:
                result = wrap(result * factor, name_of(equation.outvars[0]))
            left >>= 1
            if left:
                factor = wrap(factor * factor, name_of(equation.outvars[0]))
        return result

    return multiply


@rule("round", fresh=True)
def _round(equation: Any, context: Context) -> Any:
    if equation.params["rounding_method"] == lax.RoundingMethod.TO_NEAREST_EVEN:
        return torch.round

    def away(x: torch.Tensor) -> torch.Tensor:
        whole = torch.trunc(x)
        return torch.where(torch.abs(x - whole) >= 0.5, whole + torch.sign(x), whole)

    return away


@rule("select_n", fresh=True, complex=True, keys=True)
def _select(equation: Any, context: Context) -> Any:
    keys = _compat.is_key(equation.outvars[0].aval.dtype)
    if len(equation.invars) == 3 and name_of(equation.invars[0]) == "bool":
        return lambda chosen, no, yes: torch.where(chosen[..., None] if keys else chosen, yes, no)

    def pick(which: torch.Tensor, *cases: torch.Tensor) -> torch.Tensor:
        which = which[..., None] if keys else which
        result = cases[0].clone()
        for number, case in enumerate(cases[1:], 1):
            result = torch.where(which == number, case, result)
        return result

    return pick


@rule("clamp", fresh=True)
def _clamp(equation: Any, context: Context) -> Any:
    return lambda low, x, high: torch.minimum(torch.maximum(x, low), high)


@rule("real", complex=True)
def _real(equation: Any, context: Context) -> Any:
    return torch.real


@rule("imag", complex=True)
def _imag(equation: Any, context: Context) -> Any:
    return torch.imag


@rule("complex", fresh=True, complex=True)
def _complex(equation: Any, context: Context) -> Any:
    return torch.complex


@rule("conj", fresh=True, complex=True)
def _conj(equation: Any, context: Context) -> Any:
    kind = dtype_of(equation.outvars[0])
    return lambda x: torch.conj(x).resolve_conj().to(kind)
