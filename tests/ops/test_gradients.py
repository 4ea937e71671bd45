"""Gradients against jax.grad of the token recurrence in fp64: all five inputs and the state."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from problem import eps_of

from hajax import gated_delta_rule
from hajax.conformance import DECAYS, inputs, parse

NAMES = ("query", "key", "value", "log_decay", "beta", "initial_state")
NMSE = 1e-10  # the outputs' bound and one more fp32 chain as long: twice the error, four times its square; margin 2.5


def cotangents(case, seed=0):
    rng = np.random.default_rng(seed)
    output = rng.normal(size=(case.batch, case.tokens, case.value_heads, case.value_dim))
    return output, rng.normal(size=(case.batch, case.value_heads, case.key_dim, case.value_dim))


@functools.cache
def compiled_gradients(function, **options):
    """One program for all cases of a shape."""

    def loss(weights, *xs):
        output, state = function(*xs, **options)
        return (output * weights[0]).sum() + (state * weights[1]).sum()

    return jax.jit(jax.grad(loss, argnums=range(1, 7)))


def operator(*xs, **options):
    return gated_delta_rule(*xs[:5], initial_state=xs[5], **options)


def exact_gradients(case, arrays, weights):
    """In fp64, from the token recurrence."""
    with jax.enable_x64(True):
        wide = [jnp.asarray(np.asarray(arrays[n]), jnp.float64) for n in NAMES]
        return [np.asarray(g) for g in compiled_gradients(oracle.recurrence, l2norm_eps=eps_of(case))(weights, *wide)]


def gradients(case, arrays, weights, implementation=None):
    weights = tuple(w.astype(np.float32) for w in weights)
    call = compiled_gradients(operator, l2norm_eps=eps_of(case), implementation=implementation)
    return call(weights, *(jnp.asarray(arrays[n]) for n in NAMES))


def assert_gradients(case, implementation=None):
    arrays, weights = inputs(case), cotangents(case)
    expected = exact_gradients(case, arrays, weights)
    for name, got, exact in zip(NAMES, gradients(case, arrays, weights, implementation), expected, strict=True):
        assert np.isfinite(got).all(), name
        assert oracle.error(got, exact) <= NMSE, name


@pytest.mark.parametrize("decay", [d for d in DECAYS if d != "infinite"])
def test_every_input_at_every_decay(decay):
    assert_gradients(parse(f"T=70 Hk=1 Hv=2 Dk=16 Dv=24 decay={decay}"))


@pytest.mark.parametrize("text", [
    "T=1 Hk=2 Hv=2", "T=16 B=2 Hk=2 Hv=6 Dk=8 Dv=16 l2norm=1", "T=70 Hk=1 Hv=2 Dk=16 Dv=24 beta=edges keys=alike",
    "T=70 Hk=1 Hv=2 Dk=16 Dv=24 beta=one keys=repeated",
])  # fmt: skip
def test_other_shapes_strengths_and_keys(text):
    assert_gradients(parse(text))


@pytest.mark.parametrize("implementation", ["cpu", "xla"])
def test_either_implementation(implementation):
    assert_gradients(parse("T=16 Hk=1 Hv=2"), implementation)


def test_a_decay_of_minus_infinity_has_finite_gradients_that_match_a_very_strong_one():
    case = parse("T=70 Hk=1 Hv=2 Dk=16 Dv=24 decay=infinite")
    arrays, weights = inputs(case), cotangents(case)
    assert np.isinf(arrays["log_decay"]).any()
    strong = arrays | {"log_decay": np.maximum(arrays["log_decay"], -500)}
    for got, exact in zip(gradients(case, arrays, weights), exact_gradients(case, strong, weights), strict=True):
        assert oracle.error(got, exact) <= NMSE


def test_zero_queries_and_keys_under_l2norm_have_finite_gradients():
    case = parse("T=16 keys=zeros l2norm=1")
    arrays = inputs(case)
    assert not arrays["key"][:, ::3].any()
    assert_gradients(case)


def test_vmap_of_grad_equals_grad_of_each():
    arrays = inputs(parse("T=16 B=3 Hk=1 Hv=2"))
    xs = [jnp.asarray(arrays[n])[:, None] for n in NAMES]
    loss = lambda *xs: (gated_delta_rule(*xs[:5], initial_state=xs[5])[0] ** 2).sum()
    got = jax.vmap(jax.grad(loss, argnums=range(6)))(*xs)
    for row in range(3):
        expected = jax.grad(loss, argnums=range(6))(*(x[row] for x in xs))
        for a, b in zip(got, expected, strict=True):
            assert oracle.error(a[row], np.asarray(b).astype(np.float64)) <= oracle.NMSE


def test_grad_of_vmap_with_a_shared_key_sums_over_members():
    arrays = inputs(parse("T=16 B=3"))
    q, k, v, g, b, s = (jnp.asarray(arrays[n])[:, None] for n in NAMES)
    call = lambda q, k, v, g, b, s: (gated_delta_rule(q, k, v, g, b, initial_state=s)[0] ** 2).sum()
    shared = jax.grad(lambda k: jax.vmap(call, in_axes=(0, None, 0, 0, 0, 0))(q, k, v, g, b, s).sum())(k[0])
    each = sum(np.asarray(jax.grad(call, argnums=1)(q[i], k[0], v[i], g[i], b[i], s[i])).astype(np.float64) for i in range(3))
    assert oracle.error(shared, each) <= oracle.NMSE


def test_gradients_stop_at_the_cuts_of_packed_sequences():
    """The loss of one sequence has no gradient in another's tokens, and its own are those of the sequence alone."""
    arrays = inputs(parse("T=70 Hv=2 cu=0,20,20,21,70"))
    xs = [jnp.asarray(arrays[n]) for n in NAMES]
    inside = slice(21, 70)
    packed = jax.grad(
        lambda *xs: (gated_delta_rule(*xs[:5], initial_state=xs[5], cu_seqlens=arrays["cu_seqlens"])[0][:, inside] ** 2).sum(),
        argnums=range(6),
    )(*xs)
    alone = jax.grad(lambda *xs: (gated_delta_rule(*xs[:5], initial_state=xs[5])[0] ** 2).sum(), argnums=range(6))(
        *(x[:, inside] for x in xs[:5]), xs[5][3:]
    )
    for got, expected in zip(packed[:5], alone[:5], strict=True):
        assert not got[:, :21].any()
        assert oracle.error(got[:, inside], np.asarray(expected).astype(np.float64)) <= oracle.NMSE
    assert not packed[5][:3].any()
    assert oracle.error(packed[5][3:], np.asarray(alone[5]).astype(np.float64)) <= oracle.NMSE


@pytest.mark.parametrize("garbage", [np.nan, np.inf, 1e30])
def test_gradients_ignore_what_padding_holds(garbage):
    arrays = inputs(parse("T=16 B=2 lengths=16,7 l2norm=1"))

    def grads(fill):
        xs = [jnp.asarray(arrays[n]) for n in NAMES]
        xs = [x.at[1, 7:].set(fill) for x in xs[:5]] + [xs[5]]
        loss = lambda *xs: (
            gated_delta_rule(*xs[:5], initial_state=xs[5], lengths=arrays["lengths"], l2norm_eps=1e-6)[0] ** 2
        ).sum()
        return jax.grad(loss, argnums=range(6))(*xs)

    for got, expected in zip(grads(garbage), grads(0.0), strict=True):
        assert np.asarray(got).tobytes() == np.asarray(expected).tobytes()


def test_sixteen_bit_gradients_have_their_inputs_dtype():
    arrays = inputs(parse("T=16 dtype=bfloat16"))
    loss = lambda q, k, v: gated_delta_rule(q, k, v, arrays["log_decay"], arrays["beta"])[0].astype(jnp.float32).sum()
    grads = jax.grad(loss, argnums=(0, 1, 2))(arrays["query"], arrays["key"], arrays["value"])
    assert {g.dtype for g in grads} == {jnp.dtype("bfloat16")}
    assert all(np.isfinite(np.asarray(g).astype(np.float32)).all() for g in grads)


def test_a_second_derivative_is_finite_and_symmetric():
    arrays = inputs(parse("T=4 Dk=8 Dv=8"))
    xs = [jnp.asarray(arrays[n]) for n in NAMES]

    def loss(beta):
        return (gated_delta_rule(*xs[:4], beta, initial_state=xs[5])[0] ** 2).sum()

    hessian = jax.jit(jax.jacrev(jax.grad(loss)))(xs[4]).reshape(4, 4)
    np.testing.assert_allclose(hessian, hessian.T, rtol=1e-4, atol=1e-5)
    assert np.abs(hessian).max() > 0
