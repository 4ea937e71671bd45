"""l2norm and gated RMSNorm: values in fp64, zero rows with their gradients, eps, dtypes."""

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest

from hajax import gated_rms_norm, l2norm


def rows(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def test_l2norm_divides_by_the_norm():
    x = rows(3, 5, 16)
    wide = x.astype(np.float64)
    assert oracle.error(l2norm(x), wide / np.sqrt((wide**2).sum(-1, keepdims=True) + 1e-6)) <= oracle.NMSE


def test_l2norms_eps_is_1e_6_unless_given():
    """A row of norm 1e-3 has length 0.7071 afterwards; with 1e-5 it would have 0.30."""
    x = np.full((1, 4), 5e-4, np.float32)
    assert np.linalg.norm(l2norm(x)) == pytest.approx(0.5**0.5, rel=1e-5)
    assert np.linalg.norm(l2norm(x, eps=1e-5)) == pytest.approx((1 / 11) ** 0.5, rel=1e-5)


def test_l2norm_of_a_zero_row_is_zero_with_a_finite_gradient():
    x = jnp.zeros((2, 8))
    gradient = jax.grad(lambda x: (l2norm(x) * jnp.arange(8.0)[None]).sum())(x)
    assert not np.asarray(l2norm(x)).any()
    np.testing.assert_allclose(gradient, np.broadcast_to(np.arange(8) * 1e3, (2, 8)), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_l2norm_of_sixteen_bits_is_formed_in_fp32(dtype):
    """The sum of squares of these would be infinite in fp16, and lose everything in bf16."""
    x = jnp.full((1, 64), 3e4 if dtype == "float16" else 1e18, dtype)
    got = l2norm(x)
    assert got.dtype == jnp.dtype(dtype)
    np.testing.assert_allclose(np.asarray(got, np.float64), 1 / 8, rtol=2 * oracle.ROUNDING[dtype])


def test_gated_rms_norm_is_norm_then_weight_then_gate():
    x, gate, weight = rows(2, 3, 16), rows(2, 3, 16, seed=1), rows(16, seed=2)
    wide = x.astype(np.float64)
    silu = gate / (1 + np.exp(-gate.astype(np.float64)))
    expected = weight * wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-6) * silu
    assert oracle.error(gated_rms_norm(x, gate, weight), expected) <= oracle.NMSE


def test_gated_rms_norm_takes_its_eps():
    x, gate = np.full((1, 4), 1e-3, np.float32), np.full((1, 4), 20, np.float32)
    for eps in (1e-6, 1e-5):
        expected = 20 * 1e-3 / np.sqrt(1e-6 + eps)
        np.testing.assert_allclose(gated_rms_norm(x, gate, np.ones(4, np.float32), eps=eps), expected, rtol=1e-5)


def test_gated_rms_norm_of_zero_rows_is_zero_with_finite_gradients():
    xs = jnp.zeros((1, 8)), jnp.zeros((1, 8)), jnp.ones(8)
    assert not np.asarray(gated_rms_norm(*xs)).any()
    for gradient in jax.grad(lambda *xs: gated_rms_norm(*xs).sum(), argnums=(0, 1, 2))(*xs):
        assert np.isfinite(np.asarray(gradient)).all()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_gated_rms_norm_comes_in_the_gates_dtype(dtype):
    """x in fp32 past what fp16 holds is normalised before it is rounded."""
    x = rows(1, 64) * 1e6
    got = gated_rms_norm(x, jnp.ones((1, 64), dtype), jnp.ones(64))
    wide = x.astype(np.float64)
    expected = wide / np.sqrt((wide**2).mean(-1, keepdims=True)) / (1 + np.exp(-1))
    assert got.dtype == jnp.dtype(dtype)
    assert oracle.error(got, expected) ** 0.5 <= 2 * oracle.ROUNDING[dtype]


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: l2norm(np.ones(3, np.int32)), TypeError, "x: expected a floating-point dtype, got int32"),
    (lambda: l2norm("row"), TypeError, "x: expected an array, got str"),
    (lambda: gated_rms_norm(np.ones((2, 4)), np.ones((2, 5)), np.ones(4)), ValueError,
     r"gate: expected shape \(2, 4\) \[..., D\], got \(2, 5\)"),
    (lambda: gated_rms_norm(np.ones((2, 4)), np.ones((2, 4)), np.ones(5)), ValueError,
     r"weight: expected shape \(4,\) \[D\], got \(5,\)"),
    (lambda: gated_rms_norm(np.ones((2, 4)), np.ones((2, 4), int), np.ones(4)), TypeError,
     "gate: expected a floating-point dtype, got int"),
])  # fmt: skip
def test_a_wrong_argument_is_refused_by_name(call, error, message):
    with pytest.raises(error, match=message):
        call()
