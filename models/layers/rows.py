"""Which tokens of a call's rows are still of interest: all of them, or one of each row."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp


@dataclasses.dataclass(frozen=True, slots=True)
class LastToken:
    """One token of each row: the last of T, or with lengths [B] the last of each row's first lengths[b] (token 0 if none)."""

    lengths: jax.Array | None = None

    def of(self, x: jax.Array) -> jax.Array:
        """x [B, T, ...] -> [B, 1, ...]."""
        if self.lengths is None:
            return x[:, -1:]
        index = jnp.maximum(self.lengths - 1, 0).reshape(-1, *(1,) * (x.ndim - 1))
        return jnp.take_along_axis(x, index, axis=1, mode="clip")

    def after(self, starts: jax.Array, tokens: int) -> jax.Array:
        """Where that token stands [B], in rows of T tokens of which the first stands at starts [B]."""
        return starts + (tokens - 1 if self.lengths is None else jnp.maximum(self.lengths - 1, 0))
