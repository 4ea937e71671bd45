"""The gradient of the family's operator as a primitive of its own: shapes, batching, differentiation, lowerings.

Operands are those of the operator (_primitive.py) and the cotangents of its output and final state; results are the gradients of
its first six operands. On the CPU it is one fused call, elsewhere the pullback of the jnp formulation, which is also what is
differentiated once more.
"""

import functools
from typing import Any

import jax
import numpy as np
from jax.extend import core as jex
from jax.interpreters import batching, mlir

from hajax.ops import _native, _native_backward
from hajax.ops._static import Static, bind_over_rows, reference_lowering

_BOUNDS, _ARRAYS = 6, 6  # the bounds' place, and the operands before them

delta_rule_backward_p = jex.Primitive("hajax_delta_rule_backward")
delta_rule_backward_p.multiple_results = True


@delta_rule_backward_p.def_abstract_eval
def _shapes(*operands: Any, static: Static) -> Any:
    return operands[:_ARRAYS]


@functools.cache
def _compiled(static: Static) -> Any:
    return jax.jit(functools.partial(delta_rule_backward_p.bind, static=static))


@delta_rule_backward_p.def_impl
def _eager(*operands: jax.Array, static: Static) -> Any:
    return _compiled(static)(*operands)


def reference_gradients(*operands: jax.Array, static: Static) -> tuple[jax.Array, ...]:
    """The pullback of the jnp formulation."""
    arrays, bounds, cotangents = operands[:_ARRAYS], operands[_BOUNDS], operands[_BOUNDS + 1 :]
    _, pullback = jax.vjp(lambda *xs: reference_lowering(*xs, bounds, static=static), *arrays)
    return tuple(pullback(tuple(cotangents)))


_lower_reference = mlir.lower_fun(reference_gradients, multiple_results=True)
_lower_native = mlir.lower_fun(_native_backward.call, multiple_results=True)


def _cpu_lowering(ctx: Any, *operands: Any, static: Static) -> Any:
    native = (
        static.implementation in (None, "cpu")
        and _native_backward.covers(ctx.avals_in)
        and _native.available(required=static.implementation == "cpu")
    )
    return (_lower_native if native else _lower_reference)(ctx, *operands, static=static)


mlir.register_lowering(delta_rule_backward_p, _lower_reference)
mlir.register_lowering(delta_rule_backward_p, _cpu_lowering, platform="cpu")


def _batch(operands: tuple[jax.Array, ...], axes: tuple[int | None, ...], *, static: Static) -> tuple[list[jax.Array], list[int]]:
    return bind_over_rows(delta_rule_backward_p, operands, axes, range(_ARRAYS), static)


batching.primitive_batchers[delta_rule_backward_p] = _batch


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def gradients(static: Static, *operands: jax.Array) -> tuple[jax.Array, ...]:
    """Gradients of query, key, value, log_decay, beta and state, each of its operand's shape and dtype; differentiable."""
    return tuple(delta_rule_backward_p.bind(*operands, static=static))


def _forward(static: Static, *operands: jax.Array) -> tuple[tuple[jax.Array, ...], tuple[jax.Array, ...]]:
    return gradients(static, *operands), operands


@functools.partial(jax.jit, static_argnums=0)  # outside of any jit, too, one program instead of hundreds of small ones
def _pull_back(static: Static, operands: tuple[jax.Array, ...], cotangents: Any) -> tuple[jax.Array, ...]:
    bounds = operands[_BOUNDS]
    arrays = (*operands[:_BOUNDS], *operands[_BOUNDS + 1 :])

    def without_bounds(*xs: jax.Array) -> tuple[jax.Array, ...]:
        return reference_gradients(*xs[:_BOUNDS], bounds, *xs[_BOUNDS:], static=static)

    return tuple(jax.vjp(without_bounds, *arrays)[1](cotangents))


def _backward(static: Static, operands: tuple[jax.Array, ...], cotangents: Any) -> tuple[Any, ...]:
    arrays = _pull_back(static, operands, cotangents)
    return *arrays[:_BOUNDS], np.zeros(operands[_BOUNDS].shape, jax.dtypes.float0), *arrays[_BOUNDS:]


gradients.defvjp(_forward, _backward)
