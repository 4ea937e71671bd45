"""The norms of a delta-rule layer. Sums in fp32, result in the input's dtype."""

from typing import Any

import jax
import jax.numpy as jnp

from hajax.ops import _arguments as arguments
from hajax.ops._named import named


def l2norm(x: Any, *, eps: float = 1e-6) -> jax.Array:
    """x / sqrt(sum of squares over the last axis + eps). Finite, value and gradient, for a zero row."""
    x = arguments.as_array("x", x)
    arguments.check_float("x", x)
    return _l2norm(x, eps=float(eps))


@named("l2norm")
def _l2norm(x: jax.Array, *, eps: float) -> jax.Array:
    wide = x.astype(jnp.float32)
    return (wide * jax.lax.rsqrt(jnp.sum(wide * wide, -1, keepdims=True) + eps)).astype(x.dtype)


def gated_rms_norm(x: Any, gate: Any, weight: Any, *, eps: float = 1e-6) -> jax.Array:
    """weight * x / sqrt(mean of squares over the last axis + eps) * silu(gate), in gate's dtype.

    x and gate [..., D], weight [D]. x may be wider than gate: an fp32 readout is normalised before it is rounded, so
    that a large state cannot overflow fp16.
    """
    x, gate, weight = (arguments.as_array(n, a) for n, a in (("x", x), ("gate", gate), ("weight", weight)))
    for name, array in (("x", x), ("gate", gate), ("weight", weight)):
        arguments.check_float(name, array)
    arguments.check_shape("gate", gate, x.shape, "... D" if x.ndim < 2 else " ".join(["..."] * (x.ndim - 1) + ["D"]))
    arguments.check_shape("weight", weight, x.shape[-1:], "D")
    return _gated_rms_norm(x, gate, weight, eps=float(eps))


@named("gated_rms_norm")
def _gated_rms_norm(x: jax.Array, gate: jax.Array, weight: jax.Array, *, eps: float) -> jax.Array:
    wide = x.astype(jnp.float32)
    wide = wide * jax.lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + eps)
    weight = weight.reshape(*(1,) * (x.ndim - 1), -1)
    return (weight.astype(jnp.float32) * wide * jax.nn.silu(gate.astype(jnp.float32))).astype(gate.dtype)
