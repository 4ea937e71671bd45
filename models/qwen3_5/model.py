"""Qwen3.5 text models as pure functions: forward, prefill, decode. Layers are lists, unrolled.

Three GDN layers to one of gated softmax attention; zero-centred RMSNorms; SwiGLU. A cache is a value: keep it to come back.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

import jax
import jax.numpy as jnp
from hajax.models.layers.attention import AttentionWeights, KeyValueCache, attention
from hajax.models.layers.delta_net import DeltaNetState, delta_net
from hajax.models.layers.linear import linear
from hajax.models.layers.mlp import swiglu
from hajax.models.layers.norms import rms_norm
from hajax.models.layers.rotary import rotary_angles
from hajax.models.qwen3_5.config import FULL, Config
from hajax.models.qwen3_5.weights import LayerWeights, Params


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, slots=True)
class Cache:
    """What a row has read so far: one entry a layer, and lengths [B] int32, the tokens read by each row."""

    layers: list[KeyValueCache | DeltaNetState]
    lengths: jax.Array


def init_cache(config: Config, batch: int, capacity: int, dtype: jax.typing.DTypeLike = jnp.float32) -> Cache:
    """An empty cache for `batch` rows of at most `capacity` tokens. `dtype` is the model's; recurrent states are fp32."""
    if batch < 1 or capacity < 1:
        raise ValueError(f"init_cache: expected batch and capacity of at least 1, got {batch} and {capacity}")
    keys = (batch, capacity, config.num_key_value_heads, config.head_dim)
    inputs = (batch, config.linear_conv_kernel_dim - 1, config.conv_dim)
    states = (batch, config.linear_num_value_heads, config.linear_key_head_dim, config.linear_value_head_dim)
    layers: list[KeyValueCache | DeltaNetState] = []
    for kind in config.layer_types:
        if kind == FULL:
            layers.append(KeyValueCache(jnp.zeros(keys, dtype), jnp.zeros(keys, dtype)))
        else:
            layers.append(DeltaNetState(jnp.zeros(inputs, dtype), jnp.zeros(states, jnp.float32)))
    return Cache(layers, jnp.zeros((batch,), jnp.int32))


def capacity_of(cache: Cache) -> int | None:
    """Tokens that a row of the cache can hold; None when no layer keeps keys and values."""
    for layer in cache.layers:
        if isinstance(layer, KeyValueCache):
            return int(layer.key.shape[1])
    return None


def forward(params: Params, config: Config, tokens: jax.Array, *, implementation: str | None = None) -> jax.Array:
    """Logits [B, T, vocab] fp32 of whole sequences tokens [B, T], without a cache. Differentiable in params."""
    _check_tokens(tokens, 2)
    positions = jnp.arange(tokens.shape[1], dtype=jnp.int32)[None]
    x, _ = _layers(params, config, tokens, None, positions, implementation=implementation)
    return _logits(params, config, x)


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
    _check_tokens(tokens, 2)
    _check_rows("tokens", tokens, cache)
    if logits not in ("last", "all"):
        raise ValueError(f"prefill logits: expected 'last' or 'all', got {logits!r}")
    count = tokens.shape[1]
    capacity = capacity_of(cache)
    if lengths is None and capacity is not None and count > capacity:
        raise ValueError(f"prefill tokens: expected at most the cache's capacity of {capacity} tokens, got {count}")
    if lengths is not None:
        lengths = _checked_lengths(lengths, tokens.shape)
    positions = cache.lengths[:, None] + jnp.arange(count, dtype=jnp.int32)[None]
    x, entries = _layers(params, config, tokens, cache, positions, lengths=lengths, implementation=implementation)
    ends = cache.lengths + (count if lengths is None else lengths)
    if logits == "last":
        last = x[:, -1:] if lengths is None else _row_at(x, jnp.maximum(lengths - 1, 0))
        x = last
    result = _within(_logits(params, config, x), ends, capacity)
    return (result[:, 0] if logits == "last" else result), Cache(entries, ends)


def decode(
    params: Params, config: Config, token: jax.Array, cache: Cache, *, implementation: str | None = None
) -> tuple[jax.Array, Cache]:
    """Reads one token [B] per row: (logits [B, vocab] fp32, next cache). NaN logits where the cache is full."""
    _check_tokens(token, 1)
    _check_rows("token", token, cache)
    positions = cache.lengths[:, None]
    x, entries = _layers(params, config, token[:, None], cache, positions, one_step=True, implementation=implementation)
    ends = cache.lengths + 1
    return _within(_logits(params, config, x), ends, capacity_of(cache))[:, 0], Cache(entries, ends)


def _layers(
    params: Params,
    config: Config,
    tokens: jax.Array,
    cache: Cache | None,
    positions: jax.Array,
    *,
    lengths: jax.Array | None = None,
    one_step: bool = False,
    implementation: str | None = None,
) -> tuple[jax.Array, list[KeyValueCache | DeltaNetState]]:
    angles = rotary_angles(positions, dims=config.rotary_dim, theta=config.rope_theta)
    x = params.embed.at[tokens].get(mode="clip")
    entries: list[KeyValueCache | DeltaNetState] = []
    for index, layer in enumerate(params.layers):
        entry = None if cache is None else cache.layers[index]
        normed = rms_norm(x, layer.input_norm, eps=config.rms_norm_eps)
        mixed, entry = _mix(layer, config, normed, angles, entry, cache, lengths, one_step, implementation)
        x = x + mixed
        x = x + swiglu(layer.mlp, rms_norm(x, layer.mlp_norm, eps=config.rms_norm_eps))
        if entry is not None:
            entries.append(entry)
    return x, entries


def _mix(
    layer: LayerWeights,
    config: Config,
    x: jax.Array,
    angles: tuple[jax.Array, jax.Array],
    entry: KeyValueCache | DeltaNetState | None,
    cache: Cache | None,
    lengths: jax.Array | None,
    one_step: bool,
    implementation: str | None,
) -> tuple[jax.Array, KeyValueCache | DeltaNetState | None]:
    if isinstance(layer.mixer, AttentionWeights):
        if isinstance(entry, DeltaNetState):
            raise ValueError("cache layers: expected a KeyValueCache for an attention layer, got a DeltaNetState")
        return attention(
            layer.mixer,
            x,
            angles,
            head_dim=config.head_dim,
            eps=config.rms_norm_eps,
            cache=entry,
            starts=None if cache is None else cache.lengths,
            lengths=lengths,
        )
    if isinstance(entry, KeyValueCache):
        raise ValueError("cache layers: expected a DeltaNetState for a linear-attention layer, got a KeyValueCache")
    return delta_net(
        layer.mixer,
        x,
        key_heads=config.linear_num_key_heads,
        key_dim=config.linear_key_head_dim,
        value_dim=config.linear_value_head_dim,
        eps=config.rms_norm_eps,
        state=entry,
        lengths=lengths,
        one_step=one_step,
        implementation=implementation,
    )


def _logits(params: Params, config: Config, x: jax.Array) -> jax.Array:
    head = params.embed if params.head is None else params.head
    return linear(rms_norm(x, params.norm, eps=config.rms_norm_eps), head, preferred_element_type=jnp.float32)


def _row_at(x: jax.Array, index: jax.Array) -> jax.Array:
    """x [B, T, ...], index [B] -> [B, 1, ...]."""
    return jnp.take_along_axis(x, index[:, None, None], axis=1, mode="clip")


def _within(logits: jax.Array, ends: jax.Array, capacity: int | None) -> jax.Array:
    """An overflow cannot raise inside jit; NaN is loud where stale keys would give plausible words."""
    if capacity is None:
        return logits
    return jnp.where((ends <= capacity)[:, None, None], logits, jnp.nan)


def _check_tokens(tokens: jax.Array, rank: int) -> None:
    form = "[B, T]" if rank == 2 else "[B]"
    if tokens.ndim != rank or not jnp.issubdtype(tokens.dtype, jnp.integer):
        raise ValueError(f"tokens: expected integers {form}, got {tokens.dtype}{list(tokens.shape)}")
    if tokens.size == 0:
        raise ValueError(f"tokens: expected at least one token in each row, got shape {list(tokens.shape)}")


def _check_rows(name: str, tokens: jax.Array, cache: Cache) -> None:
    if tokens.shape[0] != cache.lengths.shape[0]:
        raise ValueError(f"{name}: expected {cache.lengths.shape[0]} rows as in the cache, got {tokens.shape[0]}")


def _checked_lengths(lengths: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    lengths = jnp.asarray(lengths)
    if lengths.shape != shape[:1] or not jnp.issubdtype(lengths.dtype, jnp.integer):
        raise ValueError(f"lengths: expected integers [{shape[0]}], got {lengths.dtype}{list(lengths.shape)}")
    return lengths.astype(jnp.int32)
