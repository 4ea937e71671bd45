"""The Gated DeltaNet layer: short convolution, delta rule with a state, gated norm. Gates, readout and state are fp32."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from hajax.models.layers.linear import linear
from hajax.models.layers.norms import over_last
from hajax.models.layers.recurrence import DeltaNetState, convolve, recur

from hajax.ops import gated_delta_rule, gated_delta_rule_step, gated_rms_norm
from hajax.ops._named import named


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, slots=True)
class DeltaNetWeights:
    """qkv: [2 Hk Dk + Hv Dv, hidden]; z: [Hv Dv, hidden]; a, b: [Hv, hidden]; conv: [2 Hk Dk + Hv Dv, K]; log_a, dt_bias: [Hv]
    fp32; norm: [Dv] fp32, a plain factor; output: [hidden, Hv Dv]."""

    qkv: jax.Array
    z: jax.Array
    a: jax.Array
    b: jax.Array
    conv: jax.Array
    log_a: jax.Array
    dt_bias: jax.Array
    norm: jax.Array
    output: jax.Array


def delta_net(
    weights: DeltaNetWeights,
    x: jax.Array,
    *,
    key_heads: int,
    key_dim: int,
    value_dim: int,
    eps: float,
    state: DeltaNetState | None = None,
    lengths: jax.Array | None = None,
    one_step: bool = False,
    implementation: str | None = None,
) -> tuple[jax.Array, DeltaNetState]:
    """x [B, T, hidden] -> ([B, T, hidden], state after row b's first lengths[b] tokens). one_step is for T = 1 decoding.

    The decay is `log_decay` of a x, beta = sigmoid(b x), both fp32; query and key are l2-normalised.
    """
    batch, tokens, _ = x.shape
    value_heads = weights.log_a.shape[0]
    forms = ((key_heads, key_dim), (key_heads, key_dim), (value_heads, value_dim))
    sizes = (key_heads * key_dim, key_heads * key_dim, value_heads * value_dim)
    parts, conv = convolve(linear(x, weights.qkv), weights.conv, sizes, state, lengths=lengths, implementation=implementation)
    query, key, value = (part.reshape(batch, tokens, *form) for part, form in zip(parts, forms, strict=True))
    raw = linear(x, weights.a, preferred_element_type=jnp.float32)
    decay = log_decay(raw, weights.log_a, weights.dt_bias)
    beta = jax.nn.sigmoid(linear(x, weights.b, preferred_element_type=jnp.float32))
    output, recurrent = recur(
        gated_delta_rule,
        gated_delta_rule_step,
        (query, key, value, decay, beta),
        state,
        lengths=lengths,
        one_step=one_step,
        implementation=implementation,
    )
    gate = linear(x, weights.z).reshape(batch, tokens, value_heads, value_dim)
    output = gated_rms_norm(output, gate, weights.norm, eps=eps, implementation=implementation)
    return linear(output.reshape(batch, tokens, -1), weights.output), DeltaNetState(conv, recurrent)


@named("log_decay_per_head")
def log_decay(raw: jax.Array, log_a: jax.Array, dt_bias: jax.Array) -> jax.Array:
    """raw [B, T, Hv], log_a and dt_bias [Hv], all fp32 -> -exp(log_a) softplus(raw + dt_bias), <= 0."""
    return -over_last(jnp.exp(log_a), raw) * jax.nn.softplus(raw + over_last(dt_bias, raw))
