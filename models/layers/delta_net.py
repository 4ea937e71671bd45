"""The Gated DeltaNet layer: short convolution, delta rule with a state, gated norm. Gates, readout and state are fp32."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from hajax.models.layers.linear import linear
from hajax.models.layers.norms import over_last

from hajax.ops import causal_conv1d, gated_delta_rule, gated_delta_rule_step, gated_rms_norm

_L2NORM_EPS = 1e-6


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


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, slots=True)
class DeltaNetState:
    """conv: [B, K-1, channels], the last inputs of the convolution; state: [B, Hv, Dk, Dv] fp32."""

    conv: jax.Array
    state: jax.Array


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

    log_decay = -exp(log_a) softplus(a x + dt_bias), beta = sigmoid(b x), both fp32; query and key are l2-normalised.
    """
    batch, tokens, _ = x.shape
    value_heads = weights.log_a.shape[0]
    mixed, conv = causal_conv1d(
        linear(x, weights.qkv),
        weights.conv,
        initial_state=None if state is None else state.conv,
        lengths=lengths,
        activation="silu",
    )
    split = key_heads * key_dim
    query = mixed[..., :split].reshape(batch, tokens, key_heads, key_dim)
    key = mixed[..., split : 2 * split].reshape(batch, tokens, key_heads, key_dim)
    value = mixed[..., 2 * split :].reshape(batch, tokens, value_heads, value_dim)
    raw = linear(x, weights.a, preferred_element_type=jnp.float32)
    log_decay = -over_last(jnp.exp(weights.log_a), raw) * jax.nn.softplus(raw + over_last(weights.dt_bias, raw))
    beta = jax.nn.sigmoid(linear(x, weights.b, preferred_element_type=jnp.float32))
    options = {
        "l2norm_eps": _L2NORM_EPS,
        "preferred_element_type": jnp.float32,  # the readout is normalised next: rounding it first can overflow fp16
        "implementation": implementation,
    }
    if one_step and state is not None:
        step = (query[:, 0], key[:, 0], value[:, 0], log_decay[:, 0], beta[:, 0])
        output, recurrent = gated_delta_rule_step(*step, state.state, **options)
        output = output[:, None]
    else:
        initial = None if state is None else state.state
        output, recurrent = gated_delta_rule(
            query, key, value, log_decay, beta, initial_state=initial, lengths=lengths, **options
        )
    gate = linear(x, weights.z).reshape(batch, tokens, value_heads, value_dim)
    output = gated_rms_norm(output, gate, weights.norm, eps=eps)
    return linear(output.reshape(batch, tokens, -1), weights.output), DeltaNetState(conv, recurrent)
