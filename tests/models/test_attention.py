"""The three forms of attention against a float64 sum, around the block sizes of the blocked ones."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hajax.models.layers import attention
from hajax.models.layers.attention import KeyValueCache
from tiny_models import assert_same

HEADS, KV_HEADS, DIM = 4, 2, 8


def arrays(batch, queries, keys, seed=0):
    generator = np.random.default_rng(seed)
    make = lambda *shape: generator.normal(0, 1, shape).astype(np.float32)
    return make(batch, queries, HEADS, DIM), make(batch, keys, KV_HEADS, DIM), make(batch, keys, KV_HEADS, DIM)


def exact(query, key, value, starts):
    query, key, value = (x.astype(np.float64) for x in (query, key, value))
    key, value = (np.repeat(x, HEADS // KV_HEADS, axis=2) for x in (key, value))
    scores = np.einsum("bthd,bshd->bhts", query, key)
    seen = np.arange(key.shape[1])[None, None] <= (starts[:, None] + np.arange(query.shape[1]))[..., None]
    scores = np.where(seen[:, None], scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("bhts,bshd->bthd", weights / weights.sum(-1, keepdims=True), value)


def cached(query, key, value, starts):
    tokens = query.shape[1]
    form = jax.jit(lambda q, k, v, s: attention.cached_attention(q, KeyValueCache(k, v), s, s + tokens))
    return form(query, key, value, starts)


@pytest.mark.parametrize("tokens", [1, 255, 256, 257, 600])
def test_a_long_sequence_in_blocks_equals_the_dense_sum(tokens, monkeypatch):
    monkeypatch.setattr(attention, "_DENSE_SCORES", 1000)
    query, key, value = arrays(2, tokens, tokens)
    found = jax.jit(functools.partial(attention.causal_attention))(query, key, value)
    assert_same(found, exact(query, key, value, np.zeros(2, int)), within=2e-5)


@pytest.mark.parametrize(
    ("tokens", "capacity", "starts"),
    [
        (1, 700, (0, 699)),
        (3, 512, (0, 509)),
        (300, 700, (0, 400)),
        (256, 513, (5, 257)),
        (257, 1024, (0, 767)),
        (40, 99, (0, 59)),
    ],
)
def test_queries_over_a_cache_in_blocks_equal_the_dense_sum(tokens, capacity, starts, monkeypatch):
    monkeypatch.setattr(attention, "_DENSE_SCORES", 1000)
    query, key, value = arrays(2, tokens, capacity)
    starts = np.asarray(starts, np.int32)
    for row, start in enumerate(starts):  # what lies behind the last token must not matter
        key[row, start + tokens :] = 1e4
        value[row, start + tokens :] = 1e4
    found = cached(query, key, value, starts)
    assert_same(found, exact(query, key, value, starts), within=2e-5)


def test_large_scores_do_not_overflow(monkeypatch):
    monkeypatch.setattr(attention, "_DENSE_SCORES", 1000)
    query, key, value = arrays(1, 300, 600)
    starts = np.array([300], np.int32)
    found = cached(30 * query, 30 * key, value, starts)
    assert_same(found, exact(30 * query, 30 * key, value, starts), within=1e-3)


@pytest.mark.parametrize("dtype", [np.float32, jnp.bfloat16])
def test_new_keys_land_at_each_rows_own_end_and_nowhere_else(dtype):
    new = np.arange(1, 3 * 4 + 1, dtype=np.float32).reshape(3, 4, 1, 1).astype(dtype)
    old = -np.ones((3, 6, 1, 1), dtype)
    write = functools.partial(jax.jit(attention.write), KeyValueCache(old, old))
    found = write(new, new, np.array([0, 3, 5], np.int32), np.array([4, 2, 0], np.int32))
    expected = [[1, 2, 3, 4, -1, -1], [-1, -1, -1, 5, 6, -1], [-1] * 6]
    assert found.key[..., 0, 0].tolist() == expected
    assert found.value[..., 0, 0].tolist() == expected
    spilling = write(new, new, np.array([0, 3, 5], np.int32), np.array([4, 4, 4], np.int32))
    assert spilling.key[..., 0, 0].tolist() == [[1, 2, 3, 4, -1, -1], [-1, -1, -1, 5, 6, 7], [-1, -1, -1, -1, -1, 9]]
    one = write(new[:, :1], new[:, :1], np.array([0, 5, 6], np.int32), None)
    assert one.key[..., 0, 0].tolist() == [[1, -1, -1, -1, -1, -1], [-1, -1, -1, -1, -1, 5], [-1] * 6]
