"""Qwen3.5 text models as pure functions: forward, prefill, decode.

Three GDN layers to one of gated softmax attention; zero-centred RMSNorms; SwiGLU.
"""

from __future__ import annotations

import functools
from typing import Any, Literal

import jax
import jax.numpy as jnp
from hajax.models.layers import decoder
from hajax.models.layers.attention import AttentionWeights, KeyValueCache, attention
from hajax.models.layers.decoder import Cache, Entry, Layers, Params, Span, capacity_of, expect
from hajax.models.layers.delta_net import delta_net
from hajax.models.layers.mlp import swiglu
from hajax.models.layers.norms import rms_norm
from hajax.models.layers.recurrence import DeltaNetState
from hajax.models.layers.rotary import rotary_angles
from hajax.models.layers.rows import LastToken
from hajax.models.qwen3_5.config import FULL, Config

__all__ = ["Cache", "capacity_of", "decode", "forward", "init_cache", "prefill"]


def init_cache(config: Config, batch: int, capacity: int, dtype: jax.typing.DTypeLike = jnp.float32) -> Cache:
    """An empty cache for `batch` rows of at most `capacity` tokens. `dtype` is the model's; recurrent states are fp32."""
    decoder.check_cache_size(batch, capacity)
    keys = (batch, capacity, config.num_key_value_heads, config.head_dim)
    inputs = (batch, config.linear_conv_kernel_dim - 1, config.conv_dim)
    states = (batch, config.linear_num_value_heads, config.linear_key_head_dim, config.linear_value_head_dim)
    layers: list[Entry] = []
    for kind in config.layer_types:
        if kind == FULL:
            layers.append(KeyValueCache(jnp.zeros(keys, dtype), jnp.zeros(keys, dtype)))
        else:
            layers.append(DeltaNetState(jnp.zeros(inputs, dtype), jnp.zeros(states, jnp.float32)))
    return Cache(layers, jnp.zeros((batch,), jnp.int32))


def forward(params: Params, config: Config, tokens: jax.Array, *, implementation: str | None = None) -> jax.Array:
    """Logits [B, T, vocab] fp32 of whole sequences tokens [B, T], without a cache. Differentiable in params."""
    return decoder.forward(functools.partial(_layers, config), params, tokens, implementation=implementation)


def prefill(
    params: Params,
    config: Config,
    tokens: jax.Array,
    cache: Cache,
    *,
    lengths: jax.Array | None = None,
    logits: Literal["last", "all"] = "last",
    implementation: str | None = None,
) -> tuple[jax.Array, Cache]:
    """Reads tokens [B, T] after what the cache holds: (logits fp32, next cache).

    lengths [B]: row b's tokens are its first lengths[b], from 0 to T; the rest is padding and leaves no trace in the cache.
    logits "last": [B, vocab], after each row's last token (meaningless for a row of length 0); "all": [B, T, vocab].
    Logits of a row that outgrows the cache's capacity are NaN.
    """
    layers = functools.partial(_layers, config)
    return decoder.prefill(layers, params, tokens, cache, lengths=lengths, logits=logits, implementation=implementation)


def decode(
    params: Params, config: Config, token: jax.Array, cache: Cache, *, implementation: str | None = None
) -> tuple[jax.Array, Cache]:
    """Reads one token [B] per row: (logits [B, vocab] fp32, next cache). NaN logits where the cache is full."""
    return decoder.decode(functools.partial(_layers, config), params, token, cache, implementation=implementation)


def _layers(config: Config, span: Span) -> Layers:
    angles = rotary_angles(span.positions, dims=config.rotary_dim, theta=config.rope_theta)

    def mix(weights: Any, x: jax.Array, entry: Entry | None, wanted: LastToken | None) -> tuple[jax.Array, Entry | None]:
        if isinstance(weights, AttentionWeights):
            return attention(
                weights,
                x,
                angles,
                head_dim=config.head_dim,
                eps=config.rms_norm_eps,
                cache=expect(entry, KeyValueCache, "attention"),
                starts=span.starts,
                lengths=span.lengths,
                wanted=wanted,
            )
        return delta_net(
            weights,
            x,
            key_heads=config.linear_num_key_heads,
            key_dim=config.linear_key_head_dim,
            value_dim=config.linear_value_head_dim,
            eps=config.rms_norm_eps,
            state=expect(entry, DeltaNetState, "linear-attention"),
            lengths=span.lengths,
            one_step=span.one_step,
            implementation=span.implementation,
        )

    return Layers(functools.partial(rms_norm, eps=config.rms_norm_eps), mix, swiglu)
