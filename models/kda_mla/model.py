"""Models of KDA, latent attention and experts as pure functions: forward, prefill, decode."""

from __future__ import annotations

import functools
from typing import Any, Literal

import jax
import jax.numpy as jnp
from hajax.models._config import FULL
from hajax.models.kda_mla.config import HybridConfig
from hajax.models.layers import decoder
from hajax.models.layers.decoder import Cache, Entry, Layers, Params, Span, expect
from hajax.models.layers.kimi_delta_attention import kda_layer
from hajax.models.layers.mla import LatentCache, MLAWeights, latent_attention
from hajax.models.layers.mlp import swiglu
from hajax.models.layers.moe import MoEWeights, mixture
from hajax.models.layers.norms import plain_rms_norm
from hajax.models.layers.recurrence import DeltaNetState
from hajax.models.layers.rotary import rotary_angles
from hajax.models.layers.rows import LastToken


def init_cache(config: HybridConfig, batch: int, capacity: int, dtype: jax.typing.DTypeLike = jnp.float32) -> Cache:
    """An empty cache for `batch` rows of at most `capacity` tokens. `dtype` is the model's; recurrent states are fp32."""
    decoder.check_cache_size(batch, capacity)
    entries = (batch, capacity, config.kv_lora_rank + config.qk_rope_head_dim)
    inputs = (batch, config.linear_conv_kernel_dim - 1, 3 * config.linear_dim)
    states = (batch, config.linear_num_heads, config.linear_head_dim, config.linear_head_dim)
    layers: list[Entry] = []
    for kind in config.layer_types:
        if kind == FULL:
            layers.append(LatentCache(jnp.zeros(entries, dtype)))
        else:
            layers.append(DeltaNetState(jnp.zeros(inputs, dtype), jnp.zeros(states, jnp.float32)))
    return Cache(layers, jnp.zeros((batch,), jnp.int32))


def forward(params: Params, config: HybridConfig, tokens: jax.Array, *, implementation: str | None = None) -> jax.Array:
    """Logits [B, T, vocab] fp32 of whole sequences tokens [B, T], without a cache. Differentiable in params."""
    return decoder.forward(functools.partial(_layers, config), params, tokens, implementation=implementation)


def prefill(
    params: Params,
    config: HybridConfig,
    tokens: jax.Array,
    cache: Cache,
    *,
    lengths: jax.Array | None = None,
    logits: Literal["last", "all"] = "last",
    implementation: str | None = None,
) -> tuple[jax.Array, Cache]:
    """Reads tokens [B, T] after what the cache holds: (logits fp32, next cache). Arguments as in `qwen3_5.prefill`."""
    layers = functools.partial(_layers, config)
    return decoder.prefill(layers, params, tokens, cache, lengths=lengths, logits=logits, implementation=implementation)


def decode(
    params: Params, config: HybridConfig, token: jax.Array, cache: Cache, *, implementation: str | None = None
) -> tuple[jax.Array, Cache]:
    """Reads one token [B] per row: (logits [B, vocab] fp32, next cache). NaN logits where the cache is full."""
    return decoder.decode(functools.partial(_layers, config), params, token, cache, implementation=implementation)


def _layers(config: HybridConfig, span: Span) -> Layers:
    angles = None
    if config.rope_theta is not None:
        angles = rotary_angles(span.positions, dims=config.qk_rope_head_dim, theta=config.rope_theta)

    def mix(weights: Any, x: jax.Array, entry: Entry | None, wanted: LastToken | None) -> tuple[jax.Array, Entry | None]:
        if isinstance(weights, MLAWeights):
            return latent_attention(
                weights,
                x,
                angles,
                heads=config.num_attention_heads,
                shared_dim=config.qk_rope_head_dim,
                value_dim=config.v_head_dim,
                cache=expect(entry, LatentCache, "latent-attention"),
                starts=span.starts,
                lengths=span.lengths,
                wanted=wanted,
            )
        return kda_layer(
            weights,
            x,
            eps=config.rms_norm_eps,
            lower_bound=config.kda_lower_bound,
            state=expect(entry, DeltaNetState, "linear-attention"),
            lengths=span.lengths,
            one_step=span.one_step,
            implementation=span.implementation,
        )

    def feed_forward(weights: Any, x: jax.Array) -> jax.Array:
        return mixture(weights, x, config.routing) if isinstance(weights, MoEWeights) else swiglu(weights, x)

    return Layers(functools.partial(plain_rms_norm, eps=config.rms_norm_eps), mix, feed_forward)
