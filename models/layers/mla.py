"""Multi-head latent attention: keys and values of all heads are made of one small latent, and that is what is cached.

Beside the latent a key has a few dims that all heads share, rotated or not. Two forms of the same sum: expanded (each head's
keys and values are made, few products a score) and absorbed (a query is taken to the latent's space instead; nothing is made).
DeepSeek-AI, "DeepSeek-V2" (2024).
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from hajax.models.layers.attention import KeyValueCache, cached_attention, causal_attention, put
from hajax.models.layers.linear import linear
from hajax.models.layers.norms import plain_rms_norm
from hajax.models.layers.rotary import rotate_interleaved
from hajax.models.layers.rows import LastToken

_LATENT_EPS = 1e-6  # of the norms of latents, whatever the model's own is
_EXPANDED_KEYS = 1 << 28  # at most this many numbers of expanded keys and values; a longer cache is never expanded


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, slots=True)
class LowRankQuery:
    """down: [rank, hidden]; norm: [rank], a plain factor; up: [H (nope + shared), rank]."""

    down: jax.Array
    norm: jax.Array
    up: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, slots=True)
class MLAWeights:
    """query: [H (nope + shared), hidden]; latent: [rank + shared, hidden]; norm: [rank], a plain factor; expand: [H (nope + Dv),
    rank], each head's rows being its key's, then its value's; gate: [H, hidden] or None; output: [hidden, H Dv]."""

    query: jax.Array | LowRankQuery
    latent: jax.Array
    norm: jax.Array
    expand: jax.Array
    gate: jax.Array | None
    output: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, slots=True)
class LatentCache:
    """entries: [B, capacity, rank + shared], a token's latent after its norm, then its shared key dims after rotation."""

    entries: jax.Array


def latent_attention(
    weights: MLAWeights,
    x: jax.Array,
    angles: tuple[jax.Array, jax.Array] | None,
    *,
    heads: int,
    shared_dim: int,
    value_dim: int,
    cache: LatentCache | None = None,
    starts: jax.Array | None = None,
    lengths: jax.Array | None = None,
    wanted: LastToken | None = None,
) -> tuple[jax.Array, LatentCache | None]:
    """x [B, T, hidden] -> ([B, T, hidden], cache); cache, starts, lengths and wanted as in `attention.attention`.

    angles: turn the shared dims, pairs interleaved; None leaves them. With a gate, head h's sum is multiplied by
    sigmoid(gate x)[h].
    """
    batch, tokens, _ = x.shape
    rank = weights.norm.shape[0]
    wide = linear(x, weights.latent)
    latent = plain_rms_norm(wide[..., :rank], weights.norm, eps=_LATENT_EPS)
    shared = wide[..., rank:]
    if angles is not None:
        shared = rotate_interleaved(shared[:, :, None], angles)[:, :, 0]
    entries = jnp.concatenate([latent, shared], axis=-1)
    asking = None if cache is None else wanted
    if asking is not None:
        x = asking.of(x)
        angles = None if angles is None else (asking.of(angles[0]), asking.of(angles[1]))
    query = _query(weights.query, x).reshape(*x.shape[:2], heads, -1)
    nope = query.shape[-1] - shared_dim
    query = query * jnp.asarray(query.shape[-1] ** -0.5, query.dtype)
    if angles is not None:
        query = jnp.concatenate([query[..., :nope], rotate_interleaved(query[..., nope:], angles)], axis=-1)
    if cache is None:
        mixed = causal_attention(query, *expanded(weights.expand, entries, heads=heads, value_dim=value_dim))
    else:
        if starts is None:
            raise ValueError("latent_attention starts: expected [B] positions beside a cache, got None")
        cache = LatentCache(put(cache.entries, entries, starts, lengths))
        ends = starts + (tokens if lengths is None else lengths)
        first = starts if asking is None else asking.after(starts, tokens)
        capacity = cache.entries.shape[1]
        numbers = batch * capacity * heads * (nope + shared_dim + value_dim)
        # expanding costs rank (nope + Dv) products an entry; it saves 2 rank - nope - Dv for each query that meets the entry
        cheaper = x.shape[1] * (2 * rank - nope - value_dim) > rank * (nope + value_dim)
        if cheaper and numbers <= _EXPANDED_KEYS:
            key, value = expanded(weights.expand, cache.entries, heads=heads, value_dim=value_dim)
            mixed = cached_attention(query, KeyValueCache(key, value), first, ends)
        else:
            mixed = absorbed_attention(weights.expand, query, cache, first, ends, value_dim=value_dim)
    if weights.gate is not None:
        gate = jax.nn.sigmoid(linear(x, weights.gate, preferred_element_type=jnp.float32))
        mixed = mixed * gate[..., None].astype(mixed.dtype)
    return linear(mixed.reshape(*x.shape[:2], -1), weights.output), cache


def expanded(expand: jax.Array, entries: jax.Array, *, heads: int, value_dim: int) -> tuple[jax.Array, jax.Array]:
    """entries [B, S, rank + shared] -> keys [B, S, H, nope + shared] and values [B, S, H, Dv]."""
    batch, count, _ = entries.shape
    rank = expand.shape[1]
    made = linear(entries[..., :rank], expand).reshape(batch, count, heads, -1)
    nope = made.shape[-1] - value_dim
    shared = jnp.broadcast_to(entries[:, :, None, rank:], (batch, count, heads, entries.shape[-1] - rank))
    return jnp.concatenate([made[..., :nope], shared.astype(made.dtype)], axis=-1), made[..., nope:]


def absorbed_attention(
    expand: jax.Array, query: jax.Array, cache: LatentCache, starts: jax.Array, ends: jax.Array, *, value_dim: int
) -> jax.Array:
    """query [B, T, H, nope + shared], already scaled, over the cache's entries as one key-value head -> [B, T, H, Dv]."""
    heads, rank = query.shape[2], expand.shape[1]
    parts = expand.astype(query.dtype).reshape(heads, -1, rank)
    nope = parts.shape[1] - value_dim
    taken = jnp.einsum("bthn,hnr->bthr", query[..., :nope], parts[:, :nope])
    query = jnp.concatenate([taken, query[..., nope:]], axis=-1)
    entries = cache.entries[:, :, None].astype(query.dtype)
    # the shared dims ride along as values: dropping them after the sum is cheaper than copying the latents out of the cache
    mixed = cached_attention(query, KeyValueCache(entries, entries), starts, ends)[..., :rank]
    return jnp.einsum("bthr,hvr->bthv", mixed, parts[:, nope:])


def _query(weights: jax.Array | LowRankQuery, x: jax.Array) -> jax.Array:
    if not isinstance(weights, LowRankQuery):
        return linear(x, weights)
    return linear(plain_rms_norm(linear(x, weights.down), weights.norm, eps=_LATENT_EPS), weights.up)
