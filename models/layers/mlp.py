"""The gated feed-forward layer."""

from __future__ import annotations

import dataclasses

import jax
from hajax.models.layers.linear import linear


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, slots=True)
class MLPWeights:
    """gate, up: [intermediate, hidden]; down: [hidden, intermediate]."""

    gate: jax.Array
    up: jax.Array
    down: jax.Array


def swiglu(weights: MLPWeights, x: jax.Array) -> jax.Array:
    """down(silu(gate x) * up x): [..., hidden] -> [..., hidden]."""
    return linear(jax.nn.silu(linear(x, weights.gate)) * linear(x, weights.up), weights.down)
