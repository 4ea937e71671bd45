"""Gradients of every member against jax.grad of the token recurrence in fp64: all inputs and the state."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest

from hajax.conformance import inputs, operator, parse

NMSE = 1e-10  # as in test_gradients


def cotangents(case, dtype):
    rng = np.random.default_rng(0)
    output = rng.normal(size=(case.batch, case.tokens, case.value_heads, case.value_dim))
    state = rng.normal(size=(case.batch, case.value_heads, case.key_dim, case.value_dim))
    return output.astype(dtype), state.astype(dtype)


@functools.cache
def compiled(op, exact):
    """One program for all cases of an operator and a shape."""
    case = parse(f"T=1 op={op}")

    def loss(xs, weights):
        if exact:
            xs = {"log_decay": None, "erase": None} | xs
            output, state = oracle.recurrence(
                **{n.removeprefix("initial_"): x for n, x in xs.items()}, delta=case.mechanism.delta
            )
        else:
            output, state = operator(case)(**xs)
        return (output * weights[0]).sum() + (state * weights[1]).sum()

    return jax.jit(jax.grad(loss))


def both_gradients(case, arrays):
    got = compiled(case.op, False)({n: jnp.asarray(x) for n, x in arrays.items()}, cotangents(case, np.float32))
    with jax.enable_x64(True):
        wide = {n: jnp.asarray(np.asarray(x), jnp.float64) for n, x in arrays.items()}
        exact = compiled(case.op, True)(wide, cotangents(case, np.float64))
    return got, exact


def assert_gradients(case, arrays):
    got, exact = both_gradients(case, arrays)
    assert got.keys() == arrays.keys()
    for name in arrays:
        assert np.isfinite(got[name]).all(), name
        assert oracle.error(got[name], np.asarray(exact[name])) <= NMSE, name


@pytest.mark.parametrize("op", ["gdn2", "delta", "ret", "lin"])
def test_a_decay_of_the_head_or_none(op):
    for decay in ("mixed", "weak") if op in ("gdn2", "ret") else ("none",):
        case = parse(f"T=20 Hk=1 Hv=2 Dk=16 Dv=8 op={op} decay={decay}")
        assert_gradients(case, inputs(case))


@pytest.mark.parametrize("op", ["kda", "gla"])
def test_a_decay_of_each_channel(op):
    for decay in ("none", "weak", "usual", "strong", "mixed", "wide", "bounded", "resets"):
        case = parse(f"T=70 Hk=1 Hv=2 Dk=16 Dv=8 op={op} decay={decay}")
        assert_gradients(case, inputs(case))


def test_a_decay_of_minus_infinity_has_finite_gradients():
    case = parse("T=70 Hk=1 Hv=2 Dk=16 Dv=8 op=kda decay=infinite")
    arrays = inputs(case)
    assert np.isinf(arrays["log_decay"]).any()
    got, _ = both_gradients(case, arrays)
    _, exact = both_gradients(case, arrays | {"log_decay": np.maximum(arrays["log_decay"], -500)})
    for name in arrays:
        assert oracle.error(got[name], np.asarray(exact[name])) <= NMSE, name


def test_one_token():
    case = parse("T=1 Hk=1 Hv=2 op=kda")
    assert_gradients(case, inputs(case))


def test_a_second_derivative_over_packed_sequences_is_symmetric():
    """With as many axes as any transformation makes of it: XLA's CPU compiler once crashed at eight."""
    arrays = {n: jnp.asarray(x) for n, x in inputs(parse("T=8 Hk=1 Hv=3 Dk=128 Dv=8 op=kda cu=0,3,8")).items()}
    cuts = arrays.pop("cu_seqlens")
    loss = lambda beta: (operator(parse("T=8 op=kda"))(**(arrays | {"beta": beta}), cu_seqlens=cuts)[0] ** 2).sum()
    hessian = np.asarray(jax.jit(jax.jacrev(jax.grad(loss)))(arrays["beta"])).reshape(24, 24)
    np.testing.assert_allclose(hessian, hessian.T, atol=1e-6 * np.abs(hessian).max())  # fp32 sums in two orders
    assert np.abs(hessian).max() > 0
