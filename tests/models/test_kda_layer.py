"""The KDA layer: its two decays, low-rank gates, and the whole layer against a float64 loop over tokens."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hajax.models.layers.kimi_delta_attention import KDAWeights, kda_layer, log_decay
from hajax.models.layers.linear import LowRank
from hajax.models.layers.recurrence import DeltaNetState
from tiny_models import assert_same, quick_jit

HIDDEN, HEADS, DIM, TAPS = 20, 3, 16, 4
RAW = np.array([-1e4, -200.0, -30.0, -1.0, 0.0, 1.0, 19.0, 21.0, 200.0, 1e4], np.float32)


def weights(low_rank=False, seed=0):
    generator = np.random.default_rng(seed)
    make = lambda *shape: jnp.asarray(generator.normal(0, 0.3, shape), jnp.float32)
    gate = lambda: LowRank(make(5, HIDDEN), make(HEADS * DIM, 5)) if low_rank else make(HEADS * DIM, HIDDEN)
    return KDAWeights(
        qkv=make(3 * HEADS * DIM, HIDDEN),
        conv=make(3 * HEADS * DIM, TAPS),
        decay=gate(),
        log_a=jnp.asarray(generator.uniform(0, 2, HEADS), jnp.float32),
        dt_bias=jnp.asarray(generator.uniform(-5, 0, (HEADS, DIM)), jnp.float32),
        beta=make(HEADS, HIDDEN),
        gate=gate(),
        norm=jnp.asarray(generator.uniform(0.5, 1.5, DIM), jnp.float32),
        output=make(HIDDEN, HEADS * DIM),
    )


def inputs(batch, tokens, seed=1):
    return np.random.default_rng(seed).normal(0, 1, (batch, tokens, HIDDEN)).astype(np.float32)


def softplus(x):
    return np.logaddexp(x, 0)


def sigmoid(x):
    return 0.5 * (1 + np.tanh(x / 2))


def exact(w, x, lower_bound):
    w = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), w)
    matrix = lambda part: part.up @ part.down if isinstance(part, LowRank) else part
    result = np.zeros(x.shape)
    for row, sequence in enumerate(x.astype(np.float64)):
        state = np.zeros((HEADS, DIM, DIM))
        history = np.zeros((TAPS, 3 * HEADS * DIM))
        for token, now in enumerate(sequence):
            history = np.concatenate([history[1:], (w.qkv @ now)[None]])
            mixed = (w.conv.T * history).sum(0)
            query, key, value = (mixed * sigmoid(mixed)).reshape(3, HEADS, DIM)
            query, key = (part / np.sqrt((part**2).sum(-1, keepdims=True) + 1e-6) for part in (query, key))
            shifted = (matrix(w.decay) @ now).reshape(HEADS, DIM) + w.dt_bias
            rate = np.exp(w.log_a)[:, None]
            decay = -rate * softplus(shifted) if lower_bound is None else lower_bound * sigmoid(rate * shifted)
            state = np.exp(decay)[..., None] * state
            error = sigmoid(w.beta @ now)[:, None] * (value - np.einsum("hkv,hk->hv", state, key))
            state = state + key[..., None] * error[:, None]
            output = np.einsum("hkv,hk->hv", state, query) / np.sqrt(DIM)
            output = w.norm * output / np.sqrt((output**2).mean(-1, keepdims=True) + 1e-5)
            output = output * sigmoid((matrix(w.gate) @ now).reshape(HEADS, DIM))
            result[row, token] = w.output @ output.reshape(-1)
    return result


@pytest.mark.parametrize("implementation", ["cpu", "xla"])
@pytest.mark.parametrize(("low_rank", "lower_bound"), [(True, None), (False, -5.0)])
def test_the_layer_equals_a_loop_over_tokens_whole_and_step_by_step(low_rank, lower_bound, implementation):
    w, x = weights(low_rank), inputs(2, 70)
    expected = exact(w, x, lower_bound)
    options = {"eps": 1e-5, "lower_bound": lower_bound, "implementation": implementation}
    layer = quick_jit(functools.partial(kda_layer, **options))
    step = quick_jit(functools.partial(kda_layer, one_step=True, **options))
    whole, after = layer(w, x)
    assert_same(whole, expected, within=1e-4)
    state = DeltaNetState(jnp.zeros((2, TAPS - 1, 3 * HEADS * DIM)), jnp.zeros((2, HEADS, DIM, DIM)))
    for token in range(70):
        one, state = step(w, x[:, token : token + 1], state=state)
        assert_same(one[:, 0], expected[:, token], within=1e-4)
    assert_same(state.state, after.state, within=1e-4)
    assert_same(state.conv, after.conv, within=1e-5)


@pytest.mark.parametrize("bound", [-5.0, -0.5])
def test_a_bounded_decay_keeps_its_bounds_and_its_formula(bound):
    raw = jnp.asarray(RAW).reshape(1, -1, 1, 1)
    log_a, bias = jnp.array([0.7]), jnp.array([[0.25]])
    found = np.asarray(log_decay(raw, log_a, bias, lower_bound=bound), np.float64).reshape(-1)
    assert (found <= 0).all()
    assert (found >= bound).all()
    np.testing.assert_allclose(found, bound * sigmoid(np.exp(0.7) * (RAW + 0.25)), rtol=1e-5, atol=1e-7)


def test_an_unbounded_decay_is_finite_and_follows_its_formula():
    raw = jnp.asarray(RAW).reshape(1, -1, 1, 1)
    log_a, bias = jnp.array([0.7]), jnp.array([[0.25]])
    found = np.asarray(log_decay(raw, log_a, bias, lower_bound=None), np.float64).reshape(-1)
    assert (found <= 0).all()
    np.testing.assert_allclose(found, -np.exp(0.7) * softplus(RAW + 0.25), rtol=1e-5, atol=1e-7)
    slope = jax.grad(lambda x: jnp.sum(log_decay(x, log_a, bias, lower_bound=None)))(raw)
    assert np.isfinite(slope).all()


def test_a_low_rank_gate_is_the_product_of_its_two_matrices():
    low, x = weights(low_rank=True), inputs(1, 9)
    full = dataclasses.replace(low, decay=low.decay.up @ low.decay.down, gate=low.gate.up @ low.gate.down)
    run = functools.partial(kda_layer, eps=1e-5, implementation="xla")
    assert_same(run(low, x)[0], run(full, x)[0], within=1e-4)


def test_gates_and_state_stay_wide_in_bfloat16():
    w = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16) if leaf.ndim == 2 and leaf.shape != (HEADS, DIM) else leaf, weights())
    output, state = jax.eval_shape(functools.partial(kda_layer, eps=1e-5), w, jnp.zeros((1, 5, HIDDEN), jnp.bfloat16))
    assert (output.dtype, state.conv.dtype, state.state.dtype) == (jnp.bfloat16, jnp.bfloat16, jnp.float32)
