"""The gated feed-forward layer."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from hajax.models.layers.linear import linear

from hajax.ops._named import named


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, slots=True)
class MLPWeights:
    """gate, up: [intermediate, hidden]; down: [hidden, intermediate]."""

    gate: jax.Array
    up: jax.Array
    down: jax.Array


def swiglu(weights: MLPWeights, x: jax.Array) -> jax.Array:
    """down(silu(gate x) * up x): [..., hidden] -> [..., hidden]."""
    return linear(silu_gate(linear(x, weights.gate), linear(x, weights.up)), weights.down)


@named("silu_gate")
def silu_gate(gate: jax.Array, x: jax.Array) -> jax.Array:
    """silu(gate) * x, in fp32 and rounded once: narrow arithmetic rounds after each operation, which takes longer than both."""
    return (jax.nn.silu(gate.astype(jnp.float32)) * x.astype(jnp.float32)).astype(x.dtype)
