"""RMSNorm as Qwen3.5 has it: the weight is an offset from one."""

from __future__ import annotations

import jax
import jax.numpy as jnp


def rms_norm(x: jax.Array, weight: jax.Array, *, eps: float) -> jax.Array:
    """(1 + weight) * x / sqrt(mean(x^2) + eps) over the last axis, in fp32, returned in x's dtype.

    x: [..., D]; weight: [D], zero-centred.
    """
    wide = x.astype(jnp.float32)
    scale = jax.lax.rsqrt(jnp.mean(jnp.square(wide), axis=-1, keepdims=True) + eps)
    return (wide * scale * over_last(1.0 + weight.astype(jnp.float32), x)).astype(x.dtype)


def over_last(vector: jax.Array, x: jax.Array) -> jax.Array:
    """vector [D] with x's rank, for arithmetic with x [..., D]: ranks are never promoted silently."""
    return vector.reshape((1,) * (x.ndim - 1) + vector.shape)
