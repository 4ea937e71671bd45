"""A decoder-only model around its layers: embedding, blocks of mixer and feed-forward, head; whole, in parts, token by token.

Each model hands in `Layers`, what its blocks compute. Layers are lists, unrolled. A cache is a value: keep it to come back.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal, TypeVar

import jax
import jax.numpy as jnp
from hajax.models.layers.attention import KeyValueCache
from hajax.models.layers.linear import linear
from hajax.models.layers.mla import LatentCache
from hajax.models.layers.recurrence import DeltaNetState
from hajax.models.layers.rows import LastToken

Entry = KeyValueCache | LatentCache | DeltaNetState


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, slots=True)
class LayerWeights:
    """One block: x + mixer(input_norm x), then x + mlp(mlp_norm x). mixer and mlp: weights of some layer of this package."""

    input_norm: jax.Array
    mixer: Any
    mlp_norm: jax.Array
    mlp: Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, slots=True)
class Params:
    """embed: [vocab, hidden]; head: [vocab, hidden], or None when tied to embed."""

    embed: jax.Array
    layers: list[LayerWeights]
    norm: jax.Array
    head: jax.Array | None


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, slots=True)
class Cache:
    """What a row has read so far: one entry a layer, and lengths [B] int32, the tokens read by each row."""

    layers: list[Entry]
    lengths: jax.Array


@dataclasses.dataclass(frozen=True, slots=True)
class Span:
    """Where the tokens of a call stand: positions [B or 1, T]; starts [B], None without a cache; lengths [B], None for all."""

    positions: jax.Array
    starts: jax.Array | None = None
    lengths: jax.Array | None = None
    one_step: bool = False
    implementation: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Layers:
    """norm(x, weight) -> x; mix(weights, x, entry or None, wanted) -> (x, next entry or None); feed_forward(weights, x) -> x.

    wanted: a mixer may return the output of that token alone, [B, 1, hidden], or all; the entry takes in all tokens always.
    """

    norm: Callable[[jax.Array, jax.Array], jax.Array]
    mix: Callable[[Any, jax.Array, Entry | None, LastToken | None], tuple[jax.Array, Entry | None]]
    feed_forward: Callable[[Any, jax.Array], jax.Array]


LayersAt = Callable[[Span], Layers]
Kind = TypeVar("Kind", KeyValueCache, LatentCache, DeltaNetState)


def expect(entry: Entry | None, kind: type[Kind], layer: str) -> Kind | None:
    """The cache's entry for a layer, which must be of its kind; raises ValueError otherwise."""
    if entry is None or isinstance(entry, kind):
        return entry
    article = "an" if layer[0] in "aeiou" else "a"
    raise ValueError(f"cache layers: expected a {kind.__name__} for {article} {layer} layer, got a {type(entry).__name__}")


def check_cache_size(batch: int, capacity: int) -> None:
    if batch < 1 or capacity < 1:
        raise ValueError(f"init_cache: expected batch and capacity of at least 1, got {batch} and {capacity}")


def capacity_of(cache: Cache) -> int | None:
    """Tokens that a row of the cache can hold; None when no layer keeps something of each token."""
    for layer in cache.layers:
        if isinstance(layer, KeyValueCache):
            return int(layer.key.shape[1])
        if isinstance(layer, LatentCache):
            return int(layer.entries.shape[1])
    return None


def forward(layers: LayersAt, params: Params, tokens: jax.Array, *, implementation: str | None) -> jax.Array:
    """Logits [B, T, vocab] fp32 of whole sequences tokens [B, T], without a cache."""
    _check_tokens(tokens, 2)
    span = Span(jnp.arange(tokens.shape[1], dtype=jnp.int32)[None], implementation=implementation)
    chosen = layers(span)
    x, _ = _blocks(chosen, params, tokens, None, None)
    return _logits(chosen, params, x)


def prefill(
    layers: LayersAt,
    params: Params,
    tokens: jax.Array,
    cache: Cache,
    *,
    lengths: jax.Array | None,
    logits: Literal["last", "all"],
    implementation: str | None,
) -> tuple[jax.Array, Cache]:
    """Reads tokens [B, T], or each row's first lengths[b] of them, after what the cache holds."""
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
    chosen = layers(Span(positions, cache.lengths, lengths, implementation=implementation))
    x, entries = _blocks(chosen, params, tokens, cache, LastToken(lengths) if logits == "last" else None)
    ends = cache.lengths + (count if lengths is None else lengths)
    result = _within(_logits(chosen, params, x), ends, capacity)
    return (result[:, 0] if logits == "last" else result), Cache(entries, ends)


def decode(
    layers: LayersAt, params: Params, token: jax.Array, cache: Cache, *, implementation: str | None
) -> tuple[jax.Array, Cache]:
    """Reads one token [B] a row."""
    _check_tokens(token, 1)
    _check_rows("token", token, cache)
    chosen = layers(Span(cache.lengths[:, None], cache.lengths, one_step=True, implementation=implementation))
    x, entries = _blocks(chosen, params, token[:, None], cache, None)
    ends = cache.lengths + 1
    return _within(_logits(chosen, params, x), ends, capacity_of(cache))[:, 0], Cache(entries, ends)


def _blocks(
    layers: Layers, params: Params, tokens: jax.Array, cache: Cache | None, wanted: LastToken | None
) -> tuple[jax.Array, list[Entry]]:
    """The last block's output, of all tokens or of the wanted one. Behind the last mixer no token reads another, so there the
    unwanted ones are dropped: a feed-forward layer less, and in softmax attention all queries but one."""
    x = params.embed.at[tokens].get(mode="clip")
    entries: list[Entry] = []
    for index, layer in enumerate(params.layers):
        entry = None if cache is None else cache.layers[index]
        last = wanted if index == len(params.layers) - 1 else None
        mixed, following = layers.mix(layer.mixer, layers.norm(x, layer.input_norm), entry, last)
        if last is not None:
            x = last.of(x)
            mixed = last.of(mixed) if mixed.shape[1] == tokens.shape[1] else mixed
        x = x + mixed
        x = x + layers.feed_forward(layer.mlp, layers.norm(x, layer.mlp_norm))
        if following is not None:
            entries.append(following)
    return x, entries


def _logits(layers: Layers, params: Params, x: jax.Array) -> jax.Array:
    head = params.embed if params.head is None else params.head
    return linear(layers.norm(x, params.norm), head, preferred_element_type=jnp.float32)


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
