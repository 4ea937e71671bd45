"""Rotary embedding: partial and half-split (dims i and i + R/2 of the first R form a pair, the others pass), or interleaved."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from hajax.ops._named import named


def rotary_angles(positions: jax.Array, *, dims: int, theta: float) -> tuple[jax.Array, jax.Array]:
    """cos and sin of position * theta^(-2i/dims): positions [B, T] int -> two of [B, T, dims/2], fp32."""
    inverse = 1.0 / (theta ** (jnp.arange(0, dims, 2, dtype=jnp.float32) / dims))
    angles = positions.astype(jnp.float32)[..., None] * inverse[None, None, :]
    return jnp.cos(angles), jnp.sin(angles)


def rotate_interleaved(x: jax.Array, angles: tuple[jax.Array, jax.Array]) -> jax.Array:
    """Turns dims 2i and 2i + 1 of x [B, T, H, R] as a pair, in fp32; returned in x's dtype, all first members before all
    second ones. Queries and keys in that same order give the scores of the stored order."""
    return _rotate_interleaved(x, *angles)


@named("rotate_interleaved")
def _rotate_interleaved(x: jax.Array, cos: jax.Array, sin: jax.Array) -> jax.Array:
    cos, sin = (part[:, :, None, :] for part in (cos, sin))
    pairs = x.astype(jnp.float32).reshape(*x.shape[:-1], -1, 2)
    first, second = pairs[..., 0], pairs[..., 1]
    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1).astype(x.dtype)


def rotate(x: jax.Array, angles: tuple[jax.Array, jax.Array]) -> jax.Array:
    """Turns the first dims of x [B, T, H, D] by `rotary_angles`, in fp32; returned in x's dtype."""
    return _rotate(x, *angles)


@named("rotate")
def _rotate(x: jax.Array, cos: jax.Array, sin: jax.Array) -> jax.Array:
    cos, sin = (part[:, :, None, :] for part in (cos, sin))
    half = cos.shape[-1]
    first, second = x[..., :half].astype(jnp.float32), x[..., half : 2 * half].astype(jnp.float32)
    turned = jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1).astype(x.dtype)
    return jnp.concatenate([turned, x[..., 2 * half :]], axis=-1)
