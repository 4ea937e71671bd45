"""Gated softmax attention with grouped heads, q/k norm, partial rotary, and a key/value cache.

Three forms of the same sum: over a whole sequence (differentiable), over a cache for many queries (blocks, no T x capacity
score matrix), over a cache for one query. Scores, softmax and sums are fp32.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
from hajax.models.layers.linear import linear
from hajax.models.layers.norms import rms_norm
from hajax.models.layers.rotary import rotate
from hajax.models.layers.rows import LastToken

from hajax.ops._compat import same_varying_axes
from hajax.ops._named import named

_DENSE_SCORES = 1 << 22  # at most this many fp32 scores at once (16 MiB) before queries go in blocks
_FEW_QUERIES = 16  # products with so few rows cost more in blocks than the masked scores that blocks leave out
_QUERY_BLOCK = 256
_KEY_BLOCK = 256
_MASKED = -1e30  # finite: a masked score never makes inf - inf


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, slots=True)
class AttentionWeights:
    """query: [heads * 2 * D, hidden], each head's rows being its query's, then its gate's; key, value: [kv_heads * D,
    hidden]; output: [hidden, heads * D]; query_norm, key_norm: [D], zero-centred."""

    query: jax.Array
    key: jax.Array
    value: jax.Array
    output: jax.Array
    query_norm: jax.Array
    key_norm: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, slots=True)
class KeyValueCache:
    """key, value: [B, capacity, kv_heads, D], keys after norm and rotary. How many are valid is the whole cache's count."""

    key: jax.Array
    value: jax.Array


def attention(
    weights: AttentionWeights,
    x: jax.Array,
    angles: tuple[jax.Array, jax.Array],
    *,
    head_dim: int,
    eps: float,
    cache: KeyValueCache | None = None,
    starts: jax.Array | None = None,
    lengths: jax.Array | None = None,
    wanted: LastToken | None = None,
) -> tuple[jax.Array, KeyValueCache | None]:
    """x [B, T, hidden] -> ([B, T, hidden], cache).

    Without a cache, tokens attend to those before them in x. With one, row b's x continues at position starts[b] and only its
    first lengths[b] tokens are kept (lengths None: all T). With `wanted` and a cache the output is that token's alone, [B, 1,
    hidden].
    """
    batch, tokens, _ = x.shape
    key = linear(x, weights.key).reshape(batch, tokens, -1, head_dim)
    value = linear(x, weights.value).reshape(batch, tokens, -1, head_dim)
    key = rotate(rms_norm(key, weights.key_norm, eps=eps), angles)
    asking = None if cache is None else wanted
    if asking is not None:
        x, angles = asking.of(x), (asking.of(angles[0]), asking.of(angles[1]))
    wide = linear(x, weights.query).reshape(*x.shape[:2], -1, 2 * head_dim)
    query, gate = wide[..., :head_dim], wide[..., head_dim:]
    query = rotate(rms_norm(query, weights.query_norm, eps=eps), angles)
    query = query * jnp.asarray(head_dim**-0.5, query.dtype)
    if cache is None:
        mixed = causal_attention(query, key, value)
    else:
        if starts is None:
            raise ValueError("attention starts: expected [B] positions beside a cache, got None")
        cache = write(cache, key, value, starts, lengths)
        ends = starts + (tokens if lengths is None else lengths)
        first = starts if asking is None else asking.after(starts, tokens)
        mixed = cached_attention(query, cache, first, ends)
    mixed = open_gate(gate, mixed)
    return linear(mixed.reshape(*x.shape[:2], -1), weights.output), cache


def open_gate(gate: jax.Array, x: jax.Array) -> jax.Array:
    """sigmoid(gate) * x, in fp32 and rounded once."""
    return (jax.nn.sigmoid(gate.astype(jnp.float32)) * x.astype(jnp.float32)).astype(x.dtype)


def write(cache: KeyValueCache, key: jax.Array, value: jax.Array, starts: jax.Array, lengths: jax.Array | None) -> KeyValueCache:
    """Puts row b's first lengths[b] of T new keys and values at starts[b]; entries past the capacity are dropped."""
    return KeyValueCache(put(cache.key, key, starts, lengths), put(cache.value, value, starts, lengths))


def put(old: jax.Array, new: jax.Array, starts: jax.Array, lengths: jax.Array | None) -> jax.Array:
    """old [B, capacity, ...] with row b's first lengths[b] of new [B, T, ...] at starts[b]; what would spill is dropped."""
    batch, tokens = new.shape[:2]
    capacity = old.shape[1]
    new = new.astype(old.dtype)
    if tokens == 1 and lengths is None:
        return _put_one(old, new, starts)
    # a gather and a select over the capacity: rows may start anywhere, and nothing clamps where a padded tail would spill
    source = jnp.arange(capacity)[None, :] - starts[:, None]
    counts = jnp.full((batch,), tokens) if lengths is None else lengths
    deep = (batch, capacity) + (1,) * (old.ndim - 2)
    fresh = ((source >= 0) & (source < counts[:, None])).reshape(deep)
    source = jnp.clip(source, 0, tokens - 1).reshape(deep)
    return jnp.where(fresh, jnp.take_along_axis(new, source, axis=1, mode="promise_in_bounds"), old)


@named("cache_put")
def _put_one(old: jax.Array, new: jax.Array, starts: jax.Array) -> jax.Array:
    return old.at[jnp.arange(old.shape[0]), starts].set(new[:, 0], mode="drop", unique_indices=True)


@named("causal_attention")
def causal_attention(query: jax.Array, key: jax.Array, value: jax.Array) -> jax.Array:
    """query [B, T, H, D], key [B, T, Hkv, D], value [B, T, Hkv, Dv] -> [B, T, H, Dv]; differentiable, queries in blocks when
    T is long."""
    batch, tokens, heads, _ = query.shape
    positions = jnp.arange(tokens)
    if batch * heads * tokens * tokens <= _DENSE_SCORES or tokens <= _QUERY_BLOCK:
        return _dense(query, key, value, (positions[None, :] <= positions[:, None])[None])
    blocks = -(-tokens // _QUERY_BLOCK)
    padded = _pad_tokens(query, blocks * _QUERY_BLOCK)

    @jax.checkpoint
    def one(block: jax.Array) -> jax.Array:
        part = jax.lax.dynamic_slice_in_dim(padded, block * _QUERY_BLOCK, _QUERY_BLOCK, axis=1)
        rows = block * _QUERY_BLOCK + jnp.arange(_QUERY_BLOCK)
        return _dense(part, key, value, (positions[None, :] <= rows[:, None])[None])

    return _join_blocks(jax.lax.map(one, jnp.arange(blocks)), tokens)


def cached_attention(query: jax.Array, cache: KeyValueCache, starts: jax.Array, ends: jax.Array) -> jax.Array:
    """Row b's query t stands at position starts[b] + t and sees the cache up to itself; ends[b] is the row's valid count."""
    return _cached_attention(query, cache.key, cache.value, starts, ends)


@named("cached_attention")
def _cached_attention(query: jax.Array, key: jax.Array, value: jax.Array, starts: jax.Array, ends: jax.Array) -> jax.Array:
    cache = KeyValueCache(key, value)
    batch, tokens, heads, _ = query.shape
    capacity = cache.key.shape[1]
    positions = starts[:, None] + jnp.arange(tokens)[None, :]
    few = tokens == 1 or (tokens < _FEW_QUERIES and batch * heads * tokens * capacity <= _DENSE_SCORES)
    if few or capacity < _KEY_BLOCK:
        mask = jnp.arange(capacity)[None, None, :] <= positions[:, :, None]
        return _dense(query, cache.key, cache.value, mask)
    size = min(_QUERY_BLOCK, tokens)
    blocks = _grouped_blocks(query, cache.key.shape[2], size)
    last = jnp.max(ends)

    def one(numbered: tuple[jax.Array, jax.Array]) -> jax.Array:
        number, part = numbered
        first = starts + number * size
        rows = first[:, None] + jnp.arange(size)[None, :]
        below = jnp.minimum(jnp.max(rows) + 1, last)  # keys from here on are seen by none of the block's queries
        below = jnp.where(jnp.any(first < ends), below, 1)  # all padding: nobody reads it, one block of keys keeps it finite
        return _online(part, cache, rows, jnp.min(first) + 1, below)

    mixed = jax.lax.map(one, (jnp.arange(blocks.shape[0]), blocks))
    joined = jnp.transpose(mixed, (1, 0, 4, 2, 3, 5)).reshape(batch, -1, heads, mixed.shape[-1])
    return joined[:, :tokens].astype(query.dtype)


def _dense(query: jax.Array, key: jax.Array, value: jax.Array, mask: jax.Array) -> jax.Array:
    """All scores at once; mask [B or 1, T, S] is true where a query sees a key."""
    scores = jnp.where(mask[:, None, None], _scores(query, key), _MASKED)
    weights = jax.nn.softmax(scores, axis=-1)
    mixed = jnp.einsum("bkgts,bskd->btkgd", weights.astype(value.dtype), value, preferred_element_type=jnp.float32)
    return mixed.reshape(*query.shape[:3], value.shape[3]).astype(query.dtype)


def _grouped_blocks(query: jax.Array, kv_heads: int, size: int) -> jax.Array:
    """[B, T, H, D] -> [blocks, B, Hkv, H/Hkv, size, D], the last block padded: products then read each key head once, without
    repeating it, and the queries of all steps are laid out in one pass."""
    batch, tokens, heads, dim = query.shape
    count = -(-tokens // size)
    padded = _pad_tokens(query, count * size).reshape(batch, count, size, kv_heads, heads // kv_heads, dim)
    return jnp.transpose(padded, (1, 0, 3, 4, 2, 5))


def _online(query: jax.Array, cache: KeyValueCache, positions: jax.Array, seen: jax.Array, end: jax.Array) -> jax.Array:
    """One block of queries [B, Hkv, G, T, D] over the cache's blocks below `end`, keeping a running maximum and sum: fp32
    [B, Hkv, G, T, Dv]. All queries see all keys below `seen`: blocks before it need no mask, which is most of a long prompt."""
    capacity = cache.key.shape[1]
    rows = query.shape[:4]

    def step(block: jax.Array, carry: tuple[jax.Array, jax.Array, jax.Array], masked: bool) -> tuple[jax.Array, ...]:
        peak, total, mixed = carry
        wanted = block * _KEY_BLOCK
        first = jnp.minimum(wanted, capacity - _KEY_BLOCK)  # the last block may reach back: what it repeats is masked
        key = jax.lax.dynamic_slice_in_dim(cache.key, first, _KEY_BLOCK, axis=1)
        value = jax.lax.dynamic_slice_in_dim(cache.value, first, _KEY_BLOCK, axis=1)
        scores = jnp.einsum("bkgtd,bskd->bkgts", query, key, preferred_element_type=jnp.float32)
        if masked:
            index = first + jnp.arange(_KEY_BLOCK)
            mask = (index[None, None, :] <= positions[:, :, None]) & (index >= wanted)[None, None, :]
            scores = jnp.where(mask[:, None, None], scores, _MASKED)
        # key 0 is seen by every query and comes first, so a peak is a true score and what is masked weighs exactly nothing
        new_peak = jnp.maximum(peak, jnp.max(scores, axis=-1))
        weights = jnp.exp(scores - new_peak[..., None])
        shrink = jnp.exp(peak - new_peak)
        part = jnp.einsum("bkgts,bskd->bkgtd", weights.astype(value.dtype), value, preferred_element_type=jnp.float32)
        return new_peak, total * shrink + jnp.sum(weights, axis=-1), mixed * shrink[..., None] + part

    count = jnp.clip((end + _KEY_BLOCK - 1) // _KEY_BLOCK, 1, -(-capacity // _KEY_BLOCK))
    plain = jnp.minimum(count, jnp.minimum(seen, capacity) // _KEY_BLOCK)
    zero = jnp.zeros(rows, jnp.float32)
    start = (zero + _MASKED, zero, jnp.zeros((*rows, cache.value.shape[3]), jnp.float32))
    carry = same_varying_axes((*start, query, cache.key, cache.value, positions))[:3]  # inside shard_map loops insist on it
    carry = jax.lax.fori_loop(0, plain, functools.partial(step, masked=False), carry)
    _, total, mixed = jax.lax.fori_loop(plain, count, functools.partial(step, masked=True), carry)
    return mixed / total[..., None]


def _scores(query: jax.Array, key: jax.Array) -> jax.Array:
    """query [B, T, H, D] (already scaled), key [B, S, Hkv, D] -> [B, Hkv, H/Hkv, T, S] fp32."""
    batch, tokens, heads, dim = query.shape
    kv_heads = key.shape[2]
    grouped = query.reshape(batch, tokens, kv_heads, heads // kv_heads, dim)
    return jnp.einsum("btkgd,bskd->bkgts", grouped, key, preferred_element_type=jnp.float32)


def _pad_tokens(x: jax.Array, tokens: int) -> jax.Array:
    return jnp.pad(x, ((0, 0), (0, tokens - x.shape[1]), (0, 0), (0, 0)))


def _join_blocks(blocks: jax.Array, tokens: int) -> jax.Array:
    """[blocks, B, size, H, D] -> [B, tokens, H, D]."""
    count, batch, size, heads, dim = blocks.shape
    return jnp.transpose(blocks, (1, 0, 2, 3, 4)).reshape(batch, count * size, heads, dim)[:, :tokens]
