"""ONE primitive for the whole delta-rule family: its shapes, batching, differentiation and lowerings.

Operands are query, key, value, log_decay [B, T, Hv] (zeros that nobody reads without a decay; [B, T, Hv, Dk] per channel),
beta [B, T, Hv] ([B, T, Hv, 2] = erase, write with two strengths), state [B * N, Hv, Dk, Dv] and bounds [B, N + 1].
The state is what callers hand in, unreshaped: XLA copies a donated buffer that reaches an in-place call through a reshape.
Nothing is planned while Python traces: that happens in the CPU lowering.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core as jex
from jax.interpreters import batching, mlir

from hajax.ops import _gradient, _native, _sim
from hajax.ops._static import Static, bind_over_rows, reference_lowering

__all__ = ["Static", "delta_rule", "delta_rule_p", "reference_lowering"]

delta_rule_p = jex.Primitive("hajax_delta_rule")
delta_rule_p.multiple_results = True


@delta_rule_p.def_abstract_eval
def _shapes(query: Any, key: Any, value: Any, log_decay: Any, beta: Any, state: Any, bounds: Any, *, static: Static) -> Any:
    return value.update(dtype=jnp.dtype(static.output_dtype)), state  # `update` keeps sharding and varying axes


@functools.cache
def _compiled(static: Static) -> Any:
    return jax.jit(functools.partial(delta_rule_p.bind, static=static))


@delta_rule_p.def_impl
def _eager(*operands: jax.Array, static: Static) -> Any:
    return _compiled(static)(*operands)


_lower_reference = mlir.lower_fun(reference_lowering, multiple_results=True)
_lower_native = mlir.lower_fun(_native.call, multiple_results=True)
_lower_sim = mlir.lower_fun(_sim.call, multiple_results=True)


def _default_lowering(ctx: Any, *operands: Any, static: Static) -> Any:
    if static.implementation in ("cpu", "sim"):
        raise NotImplementedError(
            f"implementation: {static.implementation!r} runs on the CPU only; use None or 'xla' on other platforms"
        )
    return _lower_reference(ctx, *operands, static=static)


def _cpu_lowering(ctx: Any, *operands: Any, static: Static) -> Any:
    empty = any(size == 0 for size in ctx.avals_in[2].shape)  # vmap over nothing: no plan serves that
    if static.implementation == "sim" and not empty:
        return _lower_sim(ctx, *operands, static=static)
    if empty or static.implementation == "xla" or not _native.available(required=static.implementation == "cpu"):
        return _lower_reference(ctx, *operands, static=static)
    return _lower_native(ctx, *operands, static=static)


mlir.register_lowering(delta_rule_p, _default_lowering)
mlir.register_lowering(delta_rule_p, _cpu_lowering, platform="cpu")


def _batch(operands: tuple[jax.Array, ...], axes: tuple[int | None, ...], *, static: Static) -> tuple[list[jax.Array], list[int]]:
    value, state = 2, 5  # output and state have as many rows as these
    return bind_over_rows(delta_rule_p, operands, axes, (value, state), static)


batching.primitive_batchers[delta_rule_p] = _batch


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def delta_rule(static: Static, *operands: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Output [B, T, Hv, Dv] and final state [B * N, Hv, Dk, Dv]; differentiable in everything but the bounds."""
    output, state = delta_rule_p.bind(*operands, static=static)
    return output, state


def _forward(static: Static, *operands: jax.Array) -> tuple[tuple[jax.Array, jax.Array], tuple[jax.Array, ...]]:
    return delta_rule(static, *operands), operands


def _backward(static: Static, operands: tuple[jax.Array, ...], cotangents: Any) -> tuple[Any, ...]:
    arrays = _gradient.gradients(static, *operands, *cotangents)
    return *arrays, np.zeros(operands[-1].shape, jax.dtypes.float0)


delta_rule.defvjp(_forward, _backward)
