"""The Kimi delta attention layer: short convolution, delta rule with a decay a channel, norm and sigmoid gate.

Gates, readout and state are fp32. Kimi Team, "Kimi Linear" (2025); the bounded gate is that of Ling 3.0.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from hajax.models.layers.linear import LowRank, linear, project
from hajax.models.layers.recurrence import DeltaNetState, convolve, recur

from hajax.ops import gated_rms_norm, kda, kda_step
from hajax.ops._named import named


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, slots=True)
class KDAWeights:
    """qkv: [3 H D, hidden], queries then keys then values; conv: [3 H D, K]; decay, gate: [H D, hidden]; beta: [H, hidden];
    log_a [H], dt_bias [H, D], norm [D]: fp32, norm a plain factor; output: [hidden, H D]."""

    qkv: jax.Array
    conv: jax.Array
    decay: jax.Array | LowRank
    log_a: jax.Array
    dt_bias: jax.Array
    beta: jax.Array
    gate: jax.Array | LowRank
    norm: jax.Array
    output: jax.Array


def kda_layer(
    weights: KDAWeights,
    x: jax.Array,
    *,
    eps: float,
    lower_bound: float | None = None,
    state: DeltaNetState | None = None,
    lengths: jax.Array | None = None,
    one_step: bool = False,
    implementation: str | None = None,
) -> tuple[jax.Array, DeltaNetState]:
    """x [B, T, hidden] -> ([B, T, hidden], state after row b's first lengths[b] tokens). one_step is for T = 1 decoding.

    The decay is `log_decay` of decay x, beta = sigmoid(beta x), both fp32; query and key are l2-normalised.
    """
    form = (*x.shape[:2], *weights.dt_bias.shape)
    size = form[2] * form[3]
    parts, conv = convolve(
        linear(x, weights.qkv), weights.conv, (size, size, size), state, lengths=lengths, implementation=implementation
    )
    query, key, value = (part.reshape(form) for part in parts)
    raw = project(x, weights.decay, preferred_element_type=jnp.float32).reshape(form)
    decay = log_decay(raw, weights.log_a, weights.dt_bias, lower_bound=lower_bound)
    beta = jax.nn.sigmoid(linear(x, weights.beta, preferred_element_type=jnp.float32))
    output, recurrent = recur(
        kda,
        kda_step,
        (query, key, value, decay, beta),
        state,
        lengths=lengths,
        one_step=one_step,
        implementation=implementation,
    )
    gate = project(x, weights.gate).reshape(form)
    output = gated_rms_norm(output, gate, weights.norm, eps=eps, activation="sigmoid", implementation=implementation)
    return linear(output.reshape(*x.shape[:2], -1), weights.output), DeltaNetState(conv, recurrent)


@named("log_decay_per_channel")
def log_decay(raw: jax.Array, log_a: jax.Array, dt_bias: jax.Array, *, lower_bound: float | None) -> jax.Array:
    """raw [B, T, H, D], log_a [H], dt_bias [H, D], all fp32 -> logarithms of decays, <= 0.

    -exp(log_a) softplus(raw + dt_bias); with a lower bound, lower_bound sigmoid(exp(log_a) (raw + dt_bias)), never below it.
    """
    shifted = raw + dt_bias[None, None]
    rate = jnp.exp(log_a)[None, None, :, None]
    if lower_bound is None:
        return -rate * jax.nn.softplus(shifted)
    return lower_bound * jax.nn.sigmoid(rate * shifted)
