"""The mixture of experts equals a loop over tokens in float64, however choices fall and in either form."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hajax.models.layers import moe
from hajax.models.layers.mlp import MLPWeights
from hajax.models.layers.moe import MoEWeights, Routing
from tiny_models import assert_same, quick_jit

HIDDEN, INNER = 12, 10


def weights(experts, seed=0, shared=True):
    generator = np.random.default_rng(seed)
    make = lambda *shape: jnp.asarray(generator.normal(0, 0.4, shape), jnp.float32)
    return MoEWeights(
        router=make(experts, HIDDEN),
        bias=make(experts),
        gate_up=make(experts, 2 * INNER, HIDDEN),
        down=make(experts, HIDDEN, INNER),
        shared=MLPWeights(make(7, HIDDEN), make(7, HIDDEN), make(HIDDEN, 7)) if shared else None,
    )


def rows(count, seed=1):
    return np.random.default_rng(seed).normal(0, 1, (count, HIDDEN)).astype(np.float32)


def silu(x):
    return x / (1 + np.exp(-x))


def by_token(w, x, routing):
    """One token and one expert at a time, experts by sorting whole score lists."""
    w = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), w)
    found = np.zeros(x.shape)
    for token, row in enumerate(x.astype(np.float64)):
        scores = 1 / (1 + np.exp(-(w.router @ row)))
        ranked = scores + w.bias
        size = len(scores) // routing.groups
        best = [np.sort(ranked[group * size :][:size])[::-1][:2].sum() for group in range(routing.groups)]
        allowed = np.argsort(best)[::-1][: routing.chosen_groups]
        inside = [expert for expert in np.argsort(ranked)[::-1] if expert // size in allowed]
        chosen = inside[: routing.experts]
        total = scores[chosen].sum() if routing.renormalise else 1.0
        for expert in chosen:
            gate, up = w.gate_up[expert][:INNER] @ row, w.gate_up[expert][INNER:] @ row
            found[token] += routing.scaling * scores[expert] / total * (w.down[expert] @ (silu(gate) * up))
        if w.shared is not None:
            found[token] += w.shared.down @ (silu(w.shared.gate @ row) * (w.shared.up @ row))
    return found


COUNTS = (1, 5, 33, 200)
ROUTINGS = {
    "one of four": (4, Routing(1)),
    "all of four": (4, Routing(4, renormalise=False, scaling=0.7)),
    "three of eight": (8, Routing(3, scaling=2.446)),
    "one of two groups": (8, Routing(2, groups=2, chosen_groups=1, scaling=2.5)),
    "two of four groups of two": (8, Routing(3, groups=4, chosen_groups=2)),
    "groups of one": (6, Routing(2, groups=6, chosen_groups=3)),
    "many experts": (64, Routing(5, groups=8, chosen_groups=4)),
}


@pytest.fixture(params=["side by side", "in turn"])
def form(request, monkeypatch):
    if request.param == "in turn":
        monkeypatch.setattr(moe, "_GATHERED", 0)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("case", ROUTINGS)
@pytest.mark.usefixtures("form")
def test_a_mixture_equals_a_loop_over_tokens(case, count):
    experts, routing = ROUTINGS[case]
    w, x = weights(experts), rows(count)
    found = quick_jit(functools.partial(moe.mixture, routing=routing))(w, x)
    assert_same(found, by_token(w, x, routing), within=2e-5)


@pytest.mark.parametrize("favourite", [0, 3, 7])
@pytest.mark.usefixtures("form")
def test_no_token_is_dropped_when_all_choose_the_same_experts(favourite):
    w = weights(8, shared=False)
    w = dataclasses.replace(w, bias=w.bias.at[favourite].set(50.0).at[5].set(40.0))
    x, routing = rows(150), Routing(2)
    chosen, _ = moe.route(w, jnp.asarray(x), routing)
    assert (np.sort(chosen, axis=1) == sorted((favourite, 5))).all()
    assert_same(quick_jit(functools.partial(moe.mixture, routing=routing))(w, x), by_token(w, x, routing), within=2e-5)


def test_every_form_is_taken_by_these_sizes():
    """Single choices, small blocks and larger ones, so that the test above covers them."""
    cases = [(count * routing.experts, experts) for count in COUNTS for experts, routing in ROUTINGS.values()]
    assert {1, 2, 4, 8, 32, 64} <= {moe.rows_in_block(*case) for case in cases}
    assert moe.rows_in_block(1 << 20, 8) == 128


@pytest.mark.parametrize(("experts", "size", "each", "count"), [(1, 2, 1, 7), (5, 4, 3, 20), (8, 16, 2, 30), (8, 2, 1, 3)])
def test_blocks_hold_each_expert_apart_and_suffice(experts, size, each, count):
    layout = quick_jit(functools.partial(moe._blocks, each=each, experts=experts, size=size))
    for seed in range(20):
        generator = np.random.default_rng(seed)
        choices = count * each
        chosen = generator.choice(experts, choices, p=generator.dirichlet(np.full(experts, 0.3))).astype(np.int32)
        owners, places, sources = (np.asarray(part) for part in layout(chosen))
        assert len(sources) == len(owners) * size <= choices * size
        assert len(set(places)) == choices, f"seed {seed}: two choices share a row"
        assert places.max() < len(sources)
        assert (owners[places // size] == chosen).all(), f"seed {seed}: a choice stands in another expert's block"
        assert (sources[places] == np.arange(choices) // each).all()


@pytest.mark.usefixtures("form")
def test_a_row_does_not_depend_on_its_neighbours():
    w, x, routing = weights(8), rows(90), Routing(3, groups=2, chosen_groups=1)
    run = quick_jit(functools.partial(moe.mixture, routing=routing))
    beside = np.concatenate([x[:40], 1e4 * rows(50, seed=5)])
    assert_same(run(w, beside)[:40], run(w, x)[:40], within=1e-6)


@pytest.mark.parametrize("count", [3, 70])
@pytest.mark.usefixtures("form")
def test_batching_and_gradients_are_those_of_plain_sums(count):
    w, routing = weights(8), Routing(3, groups=2, chosen_groups=2, scaling=1.7)
    x = rows(2 * count).reshape(2, count, HIDDEN)
    layer = functools.partial(moe.mixture, routing=routing)
    assert_same(quick_jit(jax.vmap(layer, (None, 0)))(w, x), quick_jit(layer)(w, x), within=1e-5)

    def dense(w, x):
        """Every expert on every token, weighed by zero where it was not chosen."""
        chosen, factors = moe.route(w, x, routing)
        each = jnp.einsum("th,eih->tei", x, w.gate_up)
        outputs = jnp.einsum("tei,ehi->teh", jax.nn.silu(each[..., :INNER]) * each[..., INNER:], w.down)
        spread = jnp.sum(jax.nn.one_hot(chosen, 8) * factors[:, :, None], axis=1)
        return jnp.einsum("teh,te->th", outputs, spread) + moe.swiglu(w.shared, x)

    def loss(function):
        return lambda w, x: jnp.sum(jnp.sin(function(w, x)))

    found = quick_jit(jax.grad(loss(layer), (0, 1)))(w, x[0])
    expected = quick_jit(jax.grad(loss(dense), (0, 1)))(w, x[0])
    jax.tree.map(functools.partial(assert_same, within=2e-5), found, expected)


def test_the_bias_ranks_and_does_not_weigh():
    w, x = weights(4, shared=False), jnp.asarray(rows(9))
    plain = dataclasses.replace(w, bias=jnp.zeros(4))
    everyone = Routing(4, renormalise=False)
    assert_same(moe.mixture(w, x, everyone), moe.mixture(plain, x, everyone), within=1e-6)
    assert not np.array_equal(moe.route(w, x, Routing(1))[0], moe.route(plain, x, Routing(1))[0])
