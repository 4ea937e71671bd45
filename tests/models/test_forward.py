"""Prefill, decode and forward agree with one another however a text is cut, padded or batched."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hajax.models import _weights, qwen3_5
from hajax.models.qwen3_5.config import FULL, LINEAR
from tiny_models import (
    TINIES,
    TINY,
    assert_same,
    assert_same_cache,
    draw,
    family_of,
    programs,
    quick_jit,
    random_params,
    records_of,
)

WIDTH = 80  # one program for everything up to it, over a chunk of the kernels
CAPACITY = 96
ROWS = 6


def padded(tokens, width=WIDTH):
    return np.pad(tokens, ((0, 0), (0, width - tokens.shape[1])), constant_values=TINY.vocab_size - 1)


def empty(config, *sizes):
    return family_of(config).init_cache(config, *sizes)


@pytest.fixture(scope="module", params=TINIES)
def config(request):
    return TINIES[request.param]


@pytest.fixture(scope="module")
def params(config):
    return random_params(config, 0)


@pytest.fixture(scope="module")
def whole(config, params):
    """[1, 70] tokens, all their logits and the cache after them, read in one piece without padding."""
    tokens = draw(1, 1, 70)
    logits, cache = programs(config)[0](params, tokens, empty(config, 1, CAPACITY))
    return tokens, logits, cache


def test_forward_equals_prefill(config, params, whole):
    tokens, logits, _ = whole
    assert_same(quick_jit(lambda p, t: family_of(config).forward(p, config, t))(params, tokens), logits)


def test_the_plain_path_equals_the_native_one(config, params, whole):
    tokens, logits, cache = whole
    plain, plain_cache = programs(config, "xla")[0](params, tokens, empty(config, 1, CAPACITY))
    assert_same(plain, logits)
    assert_same_cache(plain_cache, cache)


@pytest.mark.parametrize("split", [1, 2, 3, 4, 5, 31, 63, 64, 65, 67, 68, 69])
def test_a_prompt_in_two_calls_equals_one_call(config, params, whole, split):
    tokens, logits, cache = whole
    read = programs(config)[0]
    first, half = read(params, padded(tokens[:, :split]), empty(config, 1, CAPACITY), np.array([split]))
    second, both = read(params, padded(tokens[:, split:]), half, np.array([70 - split]))
    assert_same(jnp.concatenate([first[:, :split], second[:, : 70 - split]], axis=1), logits)
    assert_same_cache(both, cache)


def test_unpadded_calls_of_two_tokens_equal_one_call(config, params, whole):
    tokens, logits, cache = whole
    state, found = empty(config, 1, CAPACITY), []
    for start in range(0, tokens.shape[1], 2):
        part, state = programs(config)[0](params, tokens[:, start : start + 2], state)
        found.append(part)
    assert_same(np.concatenate(found, axis=1), logits)
    assert_same_cache(state, cache)


def test_decoding_token_by_token_equals_prefill(config, params, whole):
    tokens, logits, cache = whole
    decode = programs(config)[2]
    state = empty(config, 1, CAPACITY)
    for step in range(tokens.shape[1]):
        found, state = decode(params, tokens[:, step], state)
        assert_same(found, logits[:, step])
    assert_same_cache(state, cache)


def test_padding_to_a_bucket_leaves_no_trace(config, params, whole):
    tokens, logits, cache = whole
    found, state = programs(config)[0](params, padded(tokens), empty(config, 1, CAPACITY), np.array([70]))
    assert_same(found[:, :70], logits)
    assert_same_cache(state, cache)
    for entry, nothing in zip(state.layers, empty(config, 1, CAPACITY).layers, strict=True):
        if not hasattr(entry, "state"):  # the padded tail was not written
            for mine, theirs in zip(jax.tree.leaves(entry), jax.tree.leaves(nothing), strict=True):
                assert np.array_equal(mine[:, 70:], theirs[:, 70:])


def test_a_row_of_a_batch_equals_the_row_alone(config, params):
    lengths = np.array([1, 2, 3, 17, 64, 80], np.int32)
    tokens = draw(2, ROWS, WIDTH)
    read, last, decode = programs(config)
    together, cache = read(params, tokens, empty(config, ROWS, CAPACITY), lengths)
    short, _ = last(params, tokens, empty(config, ROWS, CAPACITY), lengths)
    following, _ = decode(params, tokens[:, 0], cache)
    for row, length in enumerate(lengths):
        alone, own = read(params, tokens[row : row + 1], empty(config, 1, CAPACITY), lengths[row : row + 1])
        assert_same(together[row, :length], alone[0, :length])
        assert_same(short[row], alone[0, length - 1])
        assert_same_cache(cache, own, slice(row, row + 1))
        assert_same(following[row], decode(params, tokens[row : row + 1, 0], own)[0][0])


@pytest.mark.parametrize("kinds", [(LINEAR, FULL), (FULL, LINEAR)], ids=["attention last", "delta rule last"])
def test_logits_of_the_last_token_alone_are_those_of_all(config, kinds):
    """The last block then reads all tokens but answers for one: its cache must be as full, its answer the same."""
    config = dataclasses.replace(config, layer_types=kinds, **FEWER[type(config)])
    weights = random_params(config, 6)
    read, last, _ = programs(config)
    lengths = np.array([0, 1, 2, 17, 64, 80], np.int32)
    tokens = draw(6, ROWS, WIDTH)
    _, cache = read(weights, draw(7, ROWS, 3), empty(config, ROWS, CAPACITY))
    for counts in (None, lengths):
        every, expected = read(weights, tokens, cache, counts)
        found, after = last(weights, tokens, cache, counts)
        assert_same_cache(after, expected)
        for row in range(ROWS):
            if counts is None or counts[row]:
                assert_same(found[row], every[row, -1 if counts is None else counts[row] - 1])


def test_a_row_without_tokens_keeps_its_cache(config, params, whole):
    _, _, cache = whole
    _, after = programs(config)[0](params, draw(3, 1, WIDTH), cache, np.array([0]))
    jax.tree.map(np.testing.assert_array_equal, after, cache)


def test_a_kept_cache_resumes_as_if_nothing_had_come_after_it(config, params, whole):
    tokens, logits, _ = whole
    read, _, decode = programs(config)
    _, kept = read(params, padded(tokens[:, :64]), empty(config, 1, CAPACITY), np.array([64]))
    copy = jax.tree.map(np.array, kept)
    state = kept
    for token in draw(4, 5, 1):  # a speculation that will be thrown away
        _, state = decode(params, token, state)
    jax.tree.map(np.testing.assert_array_equal, kept, copy)
    again, _ = read(params, padded(tokens[:, 64:]), kept, np.array([6]))
    assert_same(again[:, :6], logits[:, 64:])


def test_logits_past_the_capacity_are_nan_not_plausible(config, params):
    tokens = draw(2, ROWS, WIDTH)
    _, last, decode = programs(config)
    cache = empty(config, ROWS, CAPACITY)
    _, cache = last(params, tokens, cache, np.full(ROWS, WIDTH, np.int32))
    rest = CAPACITY - WIDTH
    filled, cache = last(params, tokens, cache, np.array([rest, rest - 1, rest + 1, 0, 1, WIDTH], np.int32))
    assert np.isfinite(filled).all(axis=1).tolist() == [True, True, False, True, True, False]
    found, cache = decode(params, tokens[:, 0], cache)
    assert np.isfinite(found).all(axis=1).tolist() == [False, True, False, True, True, False]
    assert np.isnan(found[0]).all()
    with pytest.raises(ValueError, match="at most the cache's capacity of 96 tokens, got 97"):
        family_of(config).prefill(params, config, jnp.zeros((ROWS, 97), jnp.int32), cache)


def test_bfloat16_stays_near_float32_and_keeps_states_wide(config):
    if config is not TINY:  # every expert reads every token: a choice that rounding turns over is no matter of this test
        config = dataclasses.replace(config, num_experts_per_token=config.num_experts, topk_group=config.num_expert_group)
    params, tokens = random_params(config, 0), draw(1, 1, 70)
    logits, cache = programs(config)[0](params, tokens, empty(config, 1, CAPACITY))
    leaves = zip(_weights.leaves_of(records_of(config)), jax.tree.leaves(params), strict=True)
    narrow = _weights.fill(records_of(config), [leaf if record.wide else leaf.astype(jnp.bfloat16) for record, leaf in leaves])
    found, state = programs(config)[0](narrow, tokens, empty(config, 1, CAPACITY, jnp.bfloat16))
    assert found.dtype == jnp.float32
    error = np.linalg.norm(np.asarray(found - logits)) / np.linalg.norm(np.asarray(logits))
    assert error < 0.15, error  # three layers of large random weights, 2^-8 a rounding
    assert [leaf.dtype.name for leaf in jax.tree.leaves(state.layers[0])] == ["bfloat16", "float32"]
    stepped = empty(config, 1, CAPACITY, jnp.bfloat16)
    for index in range(8):
        one, stepped = programs(config)[2](narrow, tokens[:, index], stepped)
        np.testing.assert_allclose(one, found[:, index], atol=0.15 * float(jnp.abs(logits).max()))
    assert not np.array_equal(stepped.layers[0].state, cache.layers[0].state)


FEWER = {type(config): {} if config is TINY else {"mlp_layer_types": config.mlp_layer_types[1:]} for config in TINIES.values()}


def test_gradients_reach_every_weight_and_are_finite(config, params):
    tied = dataclasses.replace(config, tie_word_embeddings=True, layer_types=(LINEAR, FULL), **FEWER[type(config)])
    weights = random_params(tied, 5)
    tokens = draw(5, 2, 20)

    def loss(weights):
        logits = jax.nn.log_softmax(family_of(config).forward(weights, tied, tokens))
        return -jnp.mean(jnp.take_along_axis(logits[:, :-1], tokens[:, 1:, None], axis=-1))

    for path, leaf in jax.tree_util.tree_leaves_with_path(quick_jit(jax.grad(loss))(weights)):
        assert np.isfinite(leaf).all(), path
        assert np.abs(leaf).max() > 0 or ".bias" in jax.tree_util.keystr(path), path  # a bias that only ranks has none


WRONG = [
    (lambda p, c: qwen3_5.prefill(p, TINY, np.zeros(3, np.int32), c), r"tokens: expected integers \[B, T\], got int32\[3\]"),
    (lambda p, c: qwen3_5.prefill(p, TINY, np.zeros((1, 3)), c), r"tokens: expected integers \[B, T\], got float64"),
    (lambda p, c: qwen3_5.prefill(p, TINY, np.zeros((1, 0), np.int32), c), "at least one token in each row"),
    (lambda p, c: qwen3_5.prefill(p, TINY, np.zeros((2, 3), np.int32), c), "tokens: expected 1 rows as in the cache, got 2"),
    (lambda p, c: qwen3_5.decode(p, TINY, np.zeros((1, 1), np.int32), c), r"tokens: expected integers \[B\], got int32\[1, 1\]"),
    (lambda p, c: qwen3_5.prefill(p, TINY, np.zeros((1, 3), np.int32), c, logits="first"), "logits: expected 'last' or 'all'"),
    (
        lambda p, c: qwen3_5.prefill(p, TINY, np.zeros((1, 3), np.int32), c, lengths=np.zeros((1, 1), np.int32)),
        r"lengths: expected integers \[1\], got int32\[1, 1\]",
    ),
    (lambda p, c: qwen3_5.init_cache(TINY, 0, 4), "batch and capacity of at least 1, got 0 and 4"),
]


@pytest.mark.parametrize(("call", "message"), WRONG)
def test_wrong_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call(random_params(TINY, 0), qwen3_5.init_cache(TINY, 1, 8))


def test_an_unknown_implementation_is_named():
    params = random_params(TINY, 0)
    with pytest.raises(ValueError, match="implementation: expected None or one of"):
        jax.eval_shape(lambda: qwen3_5.forward(params, TINY, jnp.zeros((1, 3), jnp.int32), implementation="gpu"))


def test_a_cache_of_another_layer_pattern_is_refused(config, params):
    shifted = {"layer_types": config.layer_types[1:] * 2}
    if config is not TINY:
        shifted["mlp_layer_types"] = config.mlp_layer_types[1:] * 2
    other = empty(dataclasses.replace(config, **shifted), 1, 8)
    kept = "KeyValueCache" if config is TINY else "LatentCache"
    with pytest.raises(ValueError, match=f"expected a DeltaNetState for a linear-attention layer, got a {kept}"):
        jax.eval_shape(lambda: family_of(config).decode(params, config, jnp.zeros(1, jnp.int32), other))
    other = dataclasses.replace(other, layers=[other.layers[1]] * 3)
    with pytest.raises(ValueError, match=f"expected a {kept} for an? [a-z]*-?attention layer, got a DeltaNetState"):
        jax.eval_shape(lambda: family_of(config).decode(params, config, jnp.zeros(1, jnp.int32), other))
