"""The three forms of attention against a float64 sum, around the block sizes of the blocked ones."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hajax.models.layers import attention
from hajax.models.layers.attention import KeyValueCache
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from tiny_models import assert_same

HEADS, KV_HEADS, DIM = 4, 2, 8
COLLECTIVES = r"all-reduce|all-gather|all-to-all|reduce-scatter|collective-permute"


def arrays(batch, queries, keys, seed=0, heads=HEADS, kv_heads=KV_HEADS, value_dim=DIM):
    generator = np.random.default_rng(seed)
    make = lambda *shape: generator.normal(0, 1, shape).astype(np.float32)
    return make(batch, queries, heads, DIM), make(batch, keys, kv_heads, DIM), make(batch, keys, kv_heads, value_dim)


def exact(query, key, value, starts):
    query, key, value = (x.astype(np.float64) for x in (query, key, value))
    key, value = (np.repeat(x, query.shape[2] // key.shape[2], axis=2) for x in (key, value))
    scores = np.einsum("bthd,bshd->bhts", query, key)
    seen = np.arange(key.shape[1])[None, None] <= (starts[:, None] + np.arange(query.shape[1]))[..., None]
    scores = np.where(seen[:, None], scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("bhts,bshd->bthd", weights / weights.sum(-1, keepdims=True), value)


def cached(query, key, value, starts, lengths=None):
    lengths = query.shape[1] if lengths is None else np.asarray(lengths, np.int32)
    form = jax.jit(lambda q, k, v, s: attention.cached_attention(q, KeyValueCache(k, v), s, s + lengths))
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
        (600, 1500, (700, 900)),  # some blocks of keys are seen by all queries of a block, some by a part, some by none
        (255, 600, (256, 256)),
        (256, 512, (255, 256)),
        (2, 256, (253, 254)),
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


@pytest.mark.parametrize(("heads", "kv_heads", "value_dim"), [(1, 1, 8), (6, 1, 8), (6, 2, 5), (3, 3, 12)])
def test_queries_of_a_group_share_their_keys(heads, kv_heads, value_dim, monkeypatch):
    monkeypatch.setattr(attention, "_DENSE_SCORES", 1000)
    query, key, value = arrays(2, 270, 600, heads=heads, kv_heads=kv_heads, value_dim=value_dim)
    starts = np.array([0, 330], np.int32)
    assert_same(cached(query, key, value, starts), exact(query, key, value, starts), within=2e-5)


@pytest.mark.parametrize("lengths", [(600, 1), (0, 600), (257, 3), (0, 0)])
def test_padding_behind_a_rows_tokens_changes_nothing_and_stays_finite(lengths, monkeypatch):
    monkeypatch.setattr(attention, "_DENSE_SCORES", 1000)
    query, key, value = arrays(2, 600, 1300)
    starts = np.array([5, 700], np.int32)
    for row, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        query[row, length:] = 7.0
        value[row, start + length :] = 1e4
    found = np.asarray(cached(query, key, value, starts, lengths))
    expected = exact(query, key, value, starts)
    assert np.isfinite(found).all()
    for row, length in enumerate(lengths):
        assert_same(found[row, :length], expected[row, :length], within=2e-5)


@pytest.mark.parametrize("cuts", [(300, 301, 555), (1, 2, 258), (256, 512, 599)])
def test_a_prompt_in_parts_equals_the_whole(cuts, monkeypatch):
    monkeypatch.setattr(attention, "_DENSE_SCORES", 1000)
    query, key, value = arrays(1, 600, 600)
    parts = [
        cached(query[:, first:stop], key, value, np.array([first], np.int32))
        for first, stop in zip((0, *cuts), (*cuts, 600), strict=True)
    ]
    assert_same(np.concatenate(parts, axis=1), exact(query, key, value, np.zeros(1, int)), within=2e-5)


@pytest.mark.parametrize("capacity", [600, 4096])
def test_unused_capacity_is_not_read(capacity, monkeypatch):
    """Blocks past the last token hold NaN here, which would poison any product that they were part of."""
    monkeypatch.setattr(attention, "_DENSE_SCORES", 1000)
    query, key, value = arrays(1, 300, capacity)
    key[:, 512:], value[:, 512:] = np.nan, np.nan  # 512: where the block ends that holds the last token
    starts = np.array([100], np.int32)
    assert_same(cached(query, key, value, starts), exact(query, key[:, :400], value[:, :400], starts), within=2e-5)


@pytest.mark.parametrize("axis", [0, 2], ids=["rows", "heads"])
@pytest.mark.parametrize("form", ["automatic", "shard_map", "shard_map, check_vma"])
def test_rows_or_heads_over_devices_need_no_word_from_one_another(axis, form, monkeypatch):
    monkeypatch.setattr(attention, "_DENSE_SCORES", 1000)
    query, key, value = arrays(4, 260, 520, heads=8, kv_heads=4)
    starts = np.array([0, 3, 100, 260], np.int32)
    mesh = jax.make_mesh((4,), ("parts",), axis_types=(AxisType.Auto,))
    spread, whole = P(*[None] * axis, "parts"), P("parts") if axis == 0 else P()
    call = lambda q, k, v, s: attention.cached_attention(q, KeyValueCache(k, v), s, s + 260)
    if form == "automatic":
        placed = [NamedSharding(mesh, spec) for spec in (spread, spread, spread, whole)]
        function = jax.jit(call, in_shardings=placed, out_shardings=placed[0])
    else:
        specs = {"in_specs": (spread, spread, spread, whole), "out_specs": spread, "check_vma": form != "shard_map"}
        function = jax.jit(jax.shard_map(call, mesh=mesh, **specs))
    found = function(query, key, value, starts)
    assert len(found.sharding.device_set) == 4
    assert_same(found, exact(query, key, value, starts), within=2e-5)
    if axis == 2 or form != "automatic":  # over rows, automatic devices agree on how many blocks there are
        assert not re.search(COLLECTIVES, function.lower(query, key, value, starts).compile().as_text())


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_narrow_operands_give_the_sum_of_what_they_hold(dtype, monkeypatch):
    monkeypatch.setattr(attention, "_DENSE_SCORES", 1000)
    query, key, value = (jnp.asarray(x, dtype) for x in arrays(1, 300, 600))
    starts = np.array([300], np.int32)
    found = cached(query, key, value, starts)
    assert found.dtype == dtype
    wide = (np.asarray(x, np.float32) for x in (query, key, value))
    # a weight and the output are rounded once each: 2 roundings of values up to about 4
    within = 8 * float(jnp.finfo(dtype).eps)
    assert_same(np.asarray(found, np.float32), exact(*wide, starts), within=within)


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
