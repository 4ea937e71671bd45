"""RMSNorms: with a weight that is an offset from one (Qwen3.5), and with a plain factor."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from hajax.ops._named import named


@named("rms_norm")
def rms_norm(x: jax.Array, weight: jax.Array, *, eps: float) -> jax.Array:
    """(1 + weight) * x / sqrt(mean(x^2) + eps) over the last axis, in fp32, returned in x's dtype.

    x: [..., D]; weight: [D], zero-centred.
    """
    return (_normalised(x, eps) * over_last(1.0 + weight.astype(jnp.float32), x)).astype(x.dtype)


@named("plain_rms_norm")
def plain_rms_norm(x: jax.Array, weight: jax.Array, *, eps: float) -> jax.Array:
    """`rms_norm` with the weight as the factor itself."""
    return (_normalised(x, eps) * over_last(weight.astype(jnp.float32), x)).astype(x.dtype)


def over_last(vector: jax.Array, x: jax.Array) -> jax.Array:
    """vector [D] with x's rank, for arithmetic with x [..., D]: ranks are never promoted silently."""
    return vector.reshape((1,) * (x.ndim - 1) + vector.shape)


def _normalised(x: jax.Array, eps: float) -> jax.Array:
    wide = x.astype(jnp.float32)
    return wide * jax.lax.rsqrt(jnp.mean(jnp.square(wide), axis=-1, keepdims=True) + eps)
