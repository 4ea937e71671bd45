"""The short convolution: values, its state over every split, padding and packing."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest

from hajax import causal_conv1d

CHANNELS, TAPS = 6, 4


def problem(tokens, batch=1, taps=TAPS, dtype=np.float32, seed=0):
    rng = np.random.default_rng([tokens, batch, taps, seed])
    x = rng.normal(size=(batch, tokens, CHANNELS)).astype(dtype)
    weight, bias = rng.normal(size=(CHANNELS, taps)).astype(np.float32), rng.normal(size=CHANNELS).astype(np.float32)
    return x, weight, bias, rng.normal(size=(batch, taps - 1, CHANNELS)).astype(dtype)


def assert_near(got, expected):
    np.testing.assert_allclose(np.asarray(got, np.float64), expected, rtol=1e-5, atol=2e-6)  # TAPS + 1 fp32 terms of size 1 to 10


@pytest.mark.parametrize("taps", [1, 2, 4, 5])
@pytest.mark.parametrize("tokens", [1, 2, 3, 4, 9])
def test_it_equals_tap_by_tap_sums(tokens, taps):
    x, weight, bias, state = problem(tokens, 2, taps)
    y, final = causal_conv1d(x, weight, bias=bias, initial_state=state)
    for row in range(2):
        expected, last = oracle.convolution(x[row], weight, bias, state[row])
        assert_near(y[row], expected)
        np.testing.assert_array_equal(final[row], last.astype(np.float32))


def test_without_a_state_the_first_token_sees_zeros():
    x, weight, _, state = problem(5)
    for a, b in zip(causal_conv1d(x, weight), causal_conv1d(x, weight, initial_state=np.zeros_like(state)), strict=True):
        np.testing.assert_array_equal(a, b)


def test_silu_comes_last():
    x, weight, bias, state = problem(7)
    plain, _ = causal_conv1d(x, weight, bias=bias, initial_state=state)
    y, _ = causal_conv1d(x, weight, bias=bias, initial_state=state, activation="silu")
    np.testing.assert_allclose(y, jax.nn.silu(plain), rtol=1e-6)


@pytest.mark.parametrize("cut", range(1, 9))
def test_a_split_at_every_token_equals_the_whole(cut):
    """Also before K - 1 tokens have been seen, where the state still holds some of its own inputs."""
    x, weight, bias, state = problem(9)
    whole, last = causal_conv1d(x, weight, bias=bias, initial_state=state)
    first, between = causal_conv1d(x[:, :cut], weight, bias=bias, initial_state=state)
    second, final = causal_conv1d(x[:, cut:], weight, bias=bias, initial_state=between)
    np.testing.assert_allclose(np.concatenate([first, second], 1), whole, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(final, last)


@pytest.mark.parametrize("garbage", [np.nan, np.inf, 1e38])
def test_padding_of_any_content_is_ignored(garbage):
    x, weight, bias, state = problem(8, 4)
    lengths = np.array([8, 5, 1, 0])
    padded = x.copy()
    for row, n in enumerate(lengths):
        padded[row, n:] = garbage
    y, final = causal_conv1d(padded, weight, bias=bias, initial_state=state, lengths=lengths)
    for row, n in enumerate(lengths):
        expected, last = oracle.convolution(x[row, :n], weight, bias, state[row])
        assert_near(y[row, :n], expected)
        assert not np.asarray(y[row, n:]).any()
        np.testing.assert_array_equal(final[row], last.astype(np.float32))


@pytest.mark.parametrize("cuts", [(0, 9), (0, 0, 1, 2, 9), (0, 4, 4, 9, 9), (0, 2, 5, 9)])
def test_packed_sequences_equal_each_alone(cuts):
    x, weight, bias, _ = problem(9)
    states = problem(3, len(cuts) - 1, seed=1)[3]
    y, final = causal_conv1d(x, weight, bias=bias, initial_state=states, cu_seqlens=np.array(cuts))
    for n, (start, end) in enumerate(pairwise(cuts)):
        expected, last = oracle.convolution(x[0, start:end], weight, bias, states[n])
        assert_near(y[0, start:end], expected)
        np.testing.assert_array_equal(final[n], last.astype(np.float32))


def test_nothing_leaks_from_one_packed_sequence_to_another():
    x, weight, _, _ = problem(9)
    cuts = np.array([0, 4, 5, 9])
    clean = causal_conv1d(x, weight, cu_seqlens=cuts)
    x[:, 4] = np.nan
    dirty = causal_conv1d(x, weight, cu_seqlens=cuts)
    for a, b in ((clean[0][:, :4], dirty[0][:, :4]), (clean[0][:, 5:], dirty[0][:, 5:]), (clean[1][::2], dirty[1][::2])):
        np.testing.assert_array_equal(a, b)


def test_gradients_ignore_what_padding_holds():
    x, weight, bias, state = problem(6, 2)

    def grads(fill):
        filled = jnp.asarray(x).at[1, 2:].set(fill)
        loss = lambda x, w, b, s: (causal_conv1d(x, w, bias=b, initial_state=s, lengths=jnp.array([6, 2]))[0] ** 2).sum()
        return jax.grad(loss, argnums=range(4))(filled, weight, bias, state)

    for a, b in zip(grads(np.nan), grads(0.0), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_sixteen_bit_inputs_are_summed_in_fp32_and_rounded_once(dtype):
    x, weight, bias, state = problem(20, dtype=jnp.dtype(dtype))
    y, final = causal_conv1d(x, weight, bias=bias, initial_state=state)
    expected, last = oracle.convolution(x[0].astype(np.float64), weight, bias, state[0].astype(np.float64))
    assert y.dtype == final.dtype == jnp.dtype(dtype)
    assert oracle.error(y[0], expected, dtype) ** 0.5 <= 2 * oracle.ROUNDING[dtype]
    np.testing.assert_array_equal(np.asarray(final[0], np.float64), last)


def test_under_jit_and_vmap_with_lengths_known_only_then():
    x, weight, bias, state = problem(8, 3)
    lengths = jnp.array([8, 3, 0])
    call = lambda x, s, n: causal_conv1d(x[None], weight, bias=bias, initial_state=s[None], lengths=n[None])
    got = jax.jit(jax.vmap(call))(x, state, lengths)
    expected = causal_conv1d(x, weight, bias=bias, initial_state=state, lengths=lengths)
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a[:, 0], b, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("changes", "error", "message"), [
    ({"x": np.ones((5, 6), np.float32)}, ValueError, r"x: expected rank 3 \[B, T, C\], got shape \(5, 6\)"),
    ({"x": np.ones((1, 5, 6), np.int32)}, TypeError, "x: expected a floating-point dtype, got int32"),
    ({"x": np.ones((1, 0, 6), np.float32)}, ValueError, r"x: expected T >= 1, got shape \(1, 0, 6\)"),
    ({"weight": np.ones((4, 6), np.float32)}, ValueError, r"weight: expected shape \(6, 6\) \[C, K\], got \(4, 6\)"),
    ({"weight": np.ones((6, 0), np.float32)}, ValueError, r"weight: expected K >= 1, got shape \(6, 0\)"),
    ({"weight": np.ones((6, 1, 4), np.float32)}, ValueError, r"weight: expected rank 2 \[C, K\], got shape \(6, 1, 4\)"),
    ({"bias": np.ones(5, np.float32)}, ValueError, r"bias: expected shape \(6,\) \[C\], got \(5,\)"),
    ({"initial_state": np.ones((1, 4, 6), np.float32)}, ValueError,
     r"initial_state: expected shape \(1, 3, 6\) \[B, K-1, C\], got \(1, 4, 6\)"),
    ({"activation": "relu"}, ValueError, "activation: expected None or 'silu', got 'relu'"),
    ({"lengths": np.array([6])}, ValueError, r"lengths: expected values in \[0, T=5\], got 6"),
    ({"cu_seqlens": np.array([0, 4])}, ValueError, "cu_seqlens: expected to start at 0 and end at T=5, got 0 and 4"),
])  # fmt: skip
def test_a_wrong_argument_is_refused_by_name(changes, error, message):
    good = {"x": np.ones((1, 5, 6), np.float32), "weight": np.ones((6, 4), np.float32)}
    with pytest.raises(error, match=message):
        causal_conv1d(**(good | changes))
