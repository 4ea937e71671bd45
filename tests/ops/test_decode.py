"""One token at a time: equal to the whole sequence, and the state is updated where it lies."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest

from hajax import gated_delta_rule, gated_delta_rule_step
from hajax.conformance import inputs, parse, recurrence

NAMES = ("query", "key", "value", "log_decay", "beta")


def token(arrays, t):
    return tuple(jnp.asarray(arrays[n][:, t]) for n in NAMES)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("implementation", ["cpu", "xla"])
def test_steps_equal_the_recurrence_with_the_state_in_fp32(implementation, dtype):
    """With bf16 inputs too: a state kept in bf16 would be off by 4e-3, not 1e-6."""
    arrays = inputs(parse(f"T=24 B=2 Hk=2 Hv=4 Dk=16 Dv=8 dtype={dtype} l2norm=1"))
    step = jax.jit(functools.partial(gated_delta_rule_step, l2norm_eps=1e-6, implementation=implementation))
    state, outputs = jnp.asarray(arrays["initial_state"]), []
    for t in range(24):
        output, state = step(*token(arrays, t), state)
        outputs.append(np.asarray(output))
    expected = recurrence(arrays, l2norm_eps=1e-6)
    assert state.dtype == jnp.float32
    assert oracle.error(state, expected[1]) <= oracle.NMSE
    rounding = 0 if dtype == "float32" else 2 * oracle.ROUNDING[dtype]
    assert oracle.error(np.stack(outputs, 1), expected[0]) ** 0.5 <= oracle.NMSE**0.5 + rounding


@pytest.mark.parametrize("implementation", ["cpu", "xla"])
def test_a_step_equals_the_operator_on_one_token(implementation):
    arrays = inputs(parse("T=1 B=2 Hk=1 Hv=3"))
    stepped = gated_delta_rule_step(*token(arrays, 0), arrays["initial_state"], implementation=implementation)
    whole = gated_delta_rule(*(arrays[n] for n in NAMES), initial_state=arrays["initial_state"], implementation=implementation)
    assert np.asarray(stepped[0]).tobytes() == np.asarray(whole[0][:, 0]).tobytes()
    assert np.asarray(stepped[1]).tobytes() == np.asarray(whole[1]).tobytes()


def test_a_donated_state_stays_where_it_is():
    arrays = inputs(parse("T=3 B=2 Hk=2 Hv=4 Dk=64 Dv=64"))
    step = jax.jit(functools.partial(gated_delta_rule_step, implementation="cpu"), donate_argnums=5)
    state = jnp.array(arrays["initial_state"], copy=True)
    for t in range(3):
        before = state.unsafe_buffer_pointer()
        given = state
        _, state = step(*token(arrays, t), state)
        assert given.is_deleted()
        assert state.unsafe_buffer_pointer() == before


def state_copies(text, shape):
    """Copies of arrays with the state's size in an optimised HLO module."""
    sizes = "|".join(re.escape(f"f32[{','.join(map(str, s))}]") for s in shape)
    return re.findall(rf"= (?:{sizes})\S* copy\(", text)


STATES = [(2, 4, 64, 64)]


def test_a_step_with_a_donated_state_copies_no_state():
    arrays = inputs(parse("T=1 B=2 Hk=2 Hv=4 Dk=64 Dv=64"))
    step = jax.jit(functools.partial(gated_delta_rule_step, implementation="cpu"), donate_argnums=5)
    text = step.lower(*token(arrays, 0), arrays["initial_state"]).compile().as_text()
    assert "hajax.delta_rule" in text
    assert not state_copies(text, STATES)


def test_copies_would_be_seen():
    """Without donation XLA must copy the state before a kernel that writes in place."""
    arrays = inputs(parse("T=1 B=2 Hk=2 Hv=4 Dk=64 Dv=64"))
    step = jax.jit(functools.partial(gated_delta_rule_step, implementation="cpu"))
    assert state_copies(step.lower(*token(arrays, 0), arrays["initial_state"]).compile().as_text(), STATES)


def scan_of_steps():
    def decode(state, tokens):
        def body(state, token):
            output, state = gated_delta_rule_step(*token, state, implementation="cpu")
            return state, output

        return jax.lax.scan(body, state, tokens)

    arrays = inputs(parse("T=12 B=2 Hk=2 Hv=4 Dk=64 Dv=64"))
    return jax.jit(decode, donate_argnums=0), arrays, tuple(jnp.moveaxis(jnp.asarray(arrays[n]), 1, 0) for n in NAMES)


def test_a_scan_carries_the_state_without_copying_it():
    decode, arrays, tokens = scan_of_steps()
    state = jnp.array(arrays["initial_state"], copy=True)
    compiled = decode.lower(state, tokens).compile()
    pointer = state.unsafe_buffer_pointer()
    final, outputs = compiled(state, tokens)
    expected = recurrence(arrays)
    assert oracle.error(jnp.moveaxis(outputs, 0, 1), expected[0]) <= oracle.NMSE
    assert oracle.error(final, expected[1]) <= oracle.NMSE
    assert final.unsafe_buffer_pointer() == pointer
    assert not state_copies(compiled.as_text(), STATES)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_state_of_any_float_dtype_advances(dtype):
    """It is converted to fp32 and comes back as fp32; none is silently left behind."""
    arrays = inputs(parse("T=1 Hk=1 Hv=2"))
    given = jnp.asarray(arrays["initial_state"], dtype)
    _, state = gated_delta_rule_step(*token(arrays, 0), given)
    expected = recurrence(arrays | {"initial_state": np.asarray(given).astype(np.float64)})
    assert state.dtype == jnp.float32
    assert oracle.error(state, expected[1]) <= oracle.NMSE
