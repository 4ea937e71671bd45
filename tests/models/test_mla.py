"""Latent attention: absorbed equals expanded equals a float64 sum, in one call or several, and only latents are kept."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hajax.models.layers import attention, mla
from hajax.models.layers.mla import LatentCache, LowRankQuery, MLAWeights
from hajax.models.layers.rotary import rotary_angles
from tiny_models import assert_same

HIDDEN, HEADS, NOPE, SHARED, VALUE, RANK = 20, 3, 8, 4, 6, 12
THETA = 50.0
SIZES = {"heads": HEADS, "shared_dim": SHARED, "value_dim": VALUE}


def weights(low_rank=False, gate=False, seed=0):
    generator = np.random.default_rng(seed)
    make = lambda *shape: jnp.asarray(generator.normal(0, 0.5, shape), jnp.float32)
    norm = lambda size: jnp.asarray(generator.uniform(0.5, 1.5, size), jnp.float32)
    wide = HEADS * (NOPE + SHARED)
    query = LowRankQuery(make(7, HIDDEN), norm(7), make(wide, 7)) if low_rank else make(wide, HIDDEN)
    return MLAWeights(
        query=query,
        latent=make(RANK + SHARED, HIDDEN),
        norm=norm(RANK),
        expand=make(HEADS * (NOPE + VALUE), RANK),
        gate=make(HEADS, HIDDEN) if gate else None,
        output=make(HIDDEN, HEADS * VALUE),
    )


def inputs(batch, tokens, seed=1):
    return np.random.default_rng(seed).normal(0, 1, (batch, tokens, HIDDEN)).astype(np.float32)


def turned(x, rotates):
    """Each pair of neighbouring dims of x [B, T, H, SHARED] turned as a complex number."""
    if not rotates:
        return x
    pairs = x[..., 0::2] + 1j * x[..., 1::2]
    angles = np.arange(x.shape[1])[:, None] * THETA ** (-np.arange(0, SHARED, 2) / SHARED)[None]
    pairs = pairs * np.exp(1j * angles)[None, :, None]
    return np.stack([pairs.real, pairs.imag], axis=-1).reshape(x.shape)


def exact(w, x, rotates):
    w = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), w)
    x = x.astype(np.float64)
    batch, tokens, _ = x.shape
    norm = lambda y, weight: weight * y / np.sqrt((y * y).mean(-1, keepdims=True) + 1e-6)
    query = norm(x @ w.query.down.T, w.query.norm) @ w.query.up.T if isinstance(w.query, LowRankQuery) else x @ w.query.T
    query = query.reshape(batch, tokens, HEADS, NOPE + SHARED)
    latent = x @ w.latent.T
    made = (norm(latent[..., :RANK], w.norm) @ w.expand.T).reshape(batch, tokens, HEADS, NOPE + VALUE)
    shared = turned(latent[:, :, None, RANK:], rotates)
    scores = np.einsum("bthd,bshd->bhts", query[..., :NOPE], made[..., :NOPE])
    scores = scores + np.einsum("bthd,bsd->bhts", turned(query[..., NOPE:], rotates), shared[:, :, 0])
    scores = np.where(np.tril(np.ones((tokens, tokens), bool)), scores / np.sqrt(NOPE + SHARED), -np.inf)
    parts = np.exp(scores - scores.max(-1, keepdims=True))
    mixed = np.einsum("bhts,bshd->bthd", parts / parts.sum(-1, keepdims=True), made[..., NOPE:])
    if w.gate is not None:
        mixed = mixed / (1 + np.exp(-(x @ w.gate.T)))[..., None]
    return mixed.reshape(batch, tokens, -1) @ w.output.T


@functools.partial(jax.jit, static_argnames=("rotates",))
def run(w, x, cache=None, starts=None, lengths=None, *, rotates):
    first = jnp.zeros(x.shape[0], jnp.int32) if starts is None else starts
    positions = first[:, None] + jnp.arange(x.shape[1])[None]
    angles = rotary_angles(positions, dims=SHARED, theta=THETA) if rotates else None
    return mla.latent_attention(w, x, angles, cache=cache, starts=starts, lengths=lengths, **SIZES)


def empty(batch, capacity):
    return LatentCache(jnp.full((batch, capacity, RANK + SHARED), 1e3))  # what was not written must not matter


KINDS = {
    "plain": ({}, False),
    "rotated": ({}, True),
    "low-rank query": ({"low_rank": True}, False),
    "rotated, gated, low-rank query": ({"low_rank": True, "gate": True}, True),
}


@pytest.fixture(params=KINDS)
def kind(request):
    options, rotates = KINDS[request.param]
    return weights(**options), rotates


def test_the_whole_sequence_form_equals_the_sum(kind):
    w, rotates = kind
    x = inputs(2, 40)
    found, cache = run(w, x, rotates=rotates)
    assert cache is None
    assert_same(found, exact(w, x, rotates), within=2e-5)


@pytest.mark.parametrize("pieces", [(40,), (1, 39), (17, 23), (39, 1), (8,) * 5])
@pytest.mark.parametrize("form", ["absorbed", "expanded"])
def test_pieces_over_a_cache_equal_the_sum_in_both_forms(kind, pieces, form, monkeypatch):
    w, rotates = kind
    x, cache, starts, found = inputs(2, 40), empty(2, 48), jnp.zeros(2, jnp.int32), []
    taken = {"absorbed": 0, "expanded": 0}
    if form == "absorbed":
        monkeypatch.setattr(mla, "_EXPANDED_KEYS", -1)
    for name in taken:
        function = getattr(mla, {"absorbed": "absorbed_attention", "expanded": "expanded"}[name])

        def counted(*arguments, name=name, function=function, **options):
            taken[name] += 1
            return function(*arguments, **options)

        monkeypatch.setattr(mla, function.__name__, counted)
    run.clear_cache()
    for count in pieces:
        part = x[:, int(starts[0]) :][:, :count]
        result, cache = run(w, part, cache, starts, rotates=rotates)
        found.append(result)
        starts = starts + count
    run.clear_cache()
    assert_same(np.concatenate(found, axis=1), exact(w, x, rotates), within=2e-5)
    assert taken["absorbed"] > 0 or form == "expanded"
    assert taken["expanded"] == 0 or form == "expanded"
    if form == "expanded" and max(pieces) > 17:  # 12 (8 + 6) / (2 x 12 - 8 - 6) = 16.8 queries pay for an expansion
        assert taken["expanded"] > 0
    assert (cache.entries[:, 40:] == 1e3).all()


def test_padded_rows_of_different_lengths_equal_each_row_alone(kind):
    w, rotates = kind
    x = inputs(3, 20)
    lengths = jnp.array([20, 7, 1], jnp.int32)
    found, cache = run(w, x, empty(3, 30), jnp.zeros(3, jnp.int32), lengths, rotates=rotates)
    following, _ = run(w, inputs(3, 1, seed=2), cache, lengths, rotates=rotates)
    for row, length in enumerate(lengths):
        both = np.concatenate([x[row : row + 1, :length], inputs(3, 1, seed=2)[row : row + 1]], axis=1)
        expected = exact(w, both, rotates)[0]
        assert_same(found[row, :length], expected[:length], within=2e-5)
        assert_same(following[row, 0], expected[length], within=2e-5)


def test_long_caches_go_in_blocks_and_stay_equal(monkeypatch):
    monkeypatch.setattr(attention, "_DENSE_SCORES", 1000)
    w, x = weights(gate=True), inputs(1, 700)
    run.clear_cache()
    cache = empty(1, 1024)
    first, cache = run(w, x[:, :300], cache, jnp.zeros(1, jnp.int32), rotates=True)
    second, cache = run(w, x[:, 300:], cache, jnp.full(1, 300, jnp.int32), rotates=True)
    whole, _ = run(w, x, rotates=True)
    run.clear_cache()
    expected = exact(w, x, True)
    assert_same(np.concatenate([first, second], axis=1), expected, within=5e-5)
    assert_same(whole, expected, within=5e-5)


def test_a_cache_without_positions_is_refused():
    with pytest.raises(ValueError, match=r"starts: expected \[B\] positions beside a cache, got None"):
        mla.latent_attention(weights(), jnp.zeros((1, 2, HIDDEN)), None, cache=empty(1, 4), **SIZES)
