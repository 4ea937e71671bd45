"""The operator under jit, eval_shape, ahead-of-time lowering, vmap of every kind, and remat."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from jax import eval_shape, jit, vmap

from hajax import gated_delta_rule
from hajax.conformance import inputs, parse

NAMES = ("query", "key", "value", "log_decay", "beta")
IMPLEMENTATIONS = ("cpu", "xla")


def arrays_of(text):
    arrays = inputs(parse(text))
    return tuple(jnp.asarray(arrays[n]) for n in NAMES), jnp.asarray(arrays["initial_state"])


def assert_close(got, expected):
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        assert a.shape == b.shape
        assert oracle.error(a, np.asarray(b).astype(np.float64)) <= oracle.NMSE


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_jit_equals_eager(implementation):
    tokens, state = arrays_of("T=16 B=2 Hk=1 Hv=2")
    call = functools.partial(gated_delta_rule, implementation=implementation)
    assert_close(jit(call)(*tokens, initial_state=state), call(*tokens, initial_state=state))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_eval_shape_says_what_comes_out(dtype):
    tokens, state = arrays_of(f"T=40 B=2 Hk=1 Hv=2 Dk=16 Dv=24 dtype={dtype}")
    output, final = eval_shape(lambda *xs: gated_delta_rule(*xs[:5], initial_state=xs[5]), *tokens, state)
    assert (output.shape, output.dtype) == ((2, 40, 2, 24), jnp.dtype(dtype))
    assert (final.shape, final.dtype) == ((2, 2, 16, 24), jnp.float32)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("wanted", ["float32", "bfloat16", "float16"])
def test_preferred_element_type_is_the_outputs(wanted, implementation):
    tokens, _ = arrays_of("T=16 dtype=bfloat16")
    output, state = gated_delta_rule(*tokens, preferred_element_type=wanted, implementation=implementation)
    full, _ = gated_delta_rule(*tokens, preferred_element_type=jnp.float32, implementation=implementation)
    assert output.dtype == jnp.dtype(wanted)
    assert state.dtype == jnp.float32
    assert output.astype(jnp.float32).tolist() == full.astype(wanted).astype(jnp.float32).tolist()


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_ahead_of_time_lowering_and_compiling(implementation):
    tokens, state = arrays_of("T=16 Hk=1 Hv=2")
    shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in (*tokens, state)]
    call = lambda *xs: gated_delta_rule(*xs[:5], initial_state=xs[5], implementation=implementation)
    compiled = jit(call).lower(*shapes).compile()
    assert_close(compiled(*tokens, state), call(*tokens, state))


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_vmap_over_odd_axes_equals_a_loop(implementation):
    tokens, state = arrays_of("T=16 B=6 Hk=1 Hv=2")
    tokens, state = (jnp.reshape(x, (2, 3, *x.shape[1:])) for x in tokens), state.reshape(2, 3, *state.shape[1:])
    q, k, v, g, b = tokens
    call = lambda q, k, v, g, b, s: gated_delta_rule(q, k, v, g, b, initial_state=s, implementation=implementation)
    one_by_one = [call(*(x[:, i] for x in (q, k, v, g, b, state))) for i in range(3)]
    expected = [jnp.stack(xs, axis) for xs, axis in zip(zip(*one_by_one, strict=True), (2, 0), strict=True)]
    moved = (jnp.moveaxis(q, 1, 4), jnp.moveaxis(k, 1, 0), v, jnp.moveaxis(g, 1, 3), b, jnp.moveaxis(state, 1, 2))
    got = vmap(call, in_axes=(4, 0, 1, 3, 1, 2), out_axes=(2, 0))(*moved)
    assert_close(got, expected)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_vmap_with_shared_arguments_equals_a_loop(implementation):
    """None axes: the key, and the state, are the same for every member."""
    tokens, state = arrays_of("T=16 B=3 Hk=1 Hv=2")
    q, k, v, g, b = tokens
    call = lambda q, k, v, g, b, s: gated_delta_rule(
        q[None], k, v[None], g[None], b[None], initial_state=s, implementation=implementation
    )
    got = vmap(call, in_axes=(0, None, 0, 0, 0, None))(q, k[:1], v, g, b, state[:1])
    expected = gated_delta_rule(
        q, jnp.repeat(k[:1], 3, 0), v, g, b, initial_state=jnp.repeat(state[:1], 3, 0), implementation=implementation
    )
    assert_close([x[:, 0] for x in got], expected)


def test_vmap_over_the_decay_alone():
    tokens, _ = arrays_of("T=8")
    q, k, v, g, b = tokens
    rates = jnp.array([0.0, 0.5, 2.0])
    outputs, states = vmap(lambda r: gated_delta_rule(q, k, v, g * r, b))(rates)
    for i, rate in enumerate(rates):
        assert_close((outputs[i], states[i]), gated_delta_rule(q, k, v, g * rate, b))


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_nested_vmap_equals_one_batch(implementation):
    tokens, state = arrays_of("T=8 B=6 Hk=1 Hv=2")
    nested = [x.reshape(2, 3, 1, *x.shape[1:]) for x in (*tokens, state)]
    call = lambda *xs: gated_delta_rule(*xs[:5], initial_state=xs[5], implementation=implementation)
    got = vmap(vmap(call))(*nested)
    assert_close([x.reshape(6, *x.shape[3:]) for x in got], call(*tokens, state))


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_vmap_over_packed_rows_with_cuts_of_their_own(implementation):
    tokens, _ = arrays_of("T=90 B=3 Hk=1 Hv=2")
    cuts = jnp.array([[0, 0, 40, 90], [0, 1, 2, 90], [0, 64, 90, 90]], jnp.int32)
    states = jnp.asarray(np.random.default_rng(0).normal(size=(3, 3, 2, 16, 16)), jnp.float32)
    call = lambda q, k, v, g, b, cu, s: gated_delta_rule(
        q[None], k[None], v[None], g[None], b[None], cu_seqlens=cu, initial_state=s, implementation=implementation
    )
    got = vmap(call)(*tokens, cuts, states)
    for row in range(3):
        assert_close([x[row] for x in got], call(*(x[row] for x in (*tokens, cuts, states))))


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_vmap_with_lengths(implementation):
    tokens, _ = arrays_of("T=16 B=4")
    lengths = jnp.array([0, 1, 9, 16])
    call = lambda q, k, v, g, b, n: gated_delta_rule(
        q[None], k[None], v[None], g[None], b[None], lengths=n[None], implementation=implementation
    )
    got = vmap(call)(*tokens, lengths)
    assert_close([x[:, 0] for x in got], gated_delta_rule(*tokens, lengths=lengths, implementation=implementation))


def test_remat_gives_the_same_gradient():
    tokens, _ = arrays_of("T=16")
    loss = lambda q: gated_delta_rule(q, *tokens[1:])[0].sum()
    assert_close(jax.grad(jax.checkpoint(loss))(tokens[0]), jax.grad(loss)(tokens[0]))


def test_numpy_arrays_and_lists_are_taken():
    tokens, _ = arrays_of("T=3 Dk=8 Dv=8")
    assert_close(gated_delta_rule(*(np.asarray(x).tolist() for x in tokens)), gated_delta_rule(*tokens))


def test_without_a_state_it_starts_from_zeros():
    tokens, state = arrays_of("T=70 Hv=2")
    assert_close(gated_delta_rule(*tokens), gated_delta_rule(*tokens, initial_state=jnp.zeros_like(state)))


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_scale_multiplies_the_output_and_leaves_the_state(implementation):
    tokens, state = arrays_of("T=16 Dk=16")
    output, final = gated_delta_rule(*tokens, initial_state=state, implementation=implementation)
    scaled, same = gated_delta_rule(*tokens, initial_state=state, scale=1.0, implementation=implementation)
    assert_close((scaled, same), (output * 4, final))
