"""Which implementation a call takes: named, by the innermost `use`, or by hajax.jit; always part of jit's cache key."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hajax
from hajax import gated_delta_rule, planner
from hajax.conformance import inputs, parse
from hajax.plans import Plan

NAMES = ("query", "key", "value", "log_decay", "beta")


def tokens_of(text):
    arrays = inputs(parse(text))
    return tuple(jnp.asarray(arrays[n]) for n in NAMES)


def lowered(function, *xs):
    return "hajax.delta_rule" in function.lower(*xs).as_text()


def counting():
    traces = []

    def call(*xs):
        traces.append(1)
        return gated_delta_rule(*xs)

    return call, traces


def test_use_retraces_and_leaving_it_does_not():
    tokens = tokens_of("T=8")
    call, traces = counting()
    call = jax.jit(call)
    call(*tokens)
    with hajax.use(implementation="xla"):
        call(*tokens)
        call(*tokens)
    call(*tokens)
    assert len(traces) == 2


def test_the_innermost_use_decides_and_a_named_one_above_all():
    tokens = tokens_of("T=8")
    fresh = lambda **kwargs: jax.jit(partial(gated_delta_rule, **kwargs))
    assert lowered(fresh(), *tokens)
    with hajax.use(implementation="xla"):
        assert not lowered(fresh(), *tokens)
        assert lowered(fresh(implementation="cpu"), *tokens)
        with hajax.use(implementation="cpu"):
            assert lowered(fresh(), *tokens)
        assert not lowered(fresh(), *tokens)
    assert lowered(fresh(), *tokens)


def test_use_is_left_when_its_body_raises():
    with pytest.raises(KeyError), hajax.use(implementation="xla"):
        raise KeyError
    assert lowered(jax.jit(partial(gated_delta_rule)), *tokens_of("T=8"))


def test_jit_has_the_implementation_in_its_cache_key():
    tokens = tokens_of("T=8")
    call, traces = counting()
    call = hajax.jit(call)
    call(*tokens)
    with hajax.use(implementation="xla"):
        call(*tokens)
    call(*tokens)
    assert len(traces) == 2


def test_jit_names_an_implementation_for_what_is_inside():
    tokens = tokens_of("T=8")
    assert lowered(hajax.jit(gated_delta_rule, implementation="cpu"), *tokens)
    assert not lowered(hajax.jit(gated_delta_rule, implementation="xla"), *tokens)


def test_plans_are_those_that_lowering_took_once_each():
    call = hajax.jit(lambda *xs: gated_delta_rule(*xs)[0])
    assert call.plans() == ()
    for text in ("T=8", "T=8", "T=16 Hv=2"):
        call(*tokens_of(text))
    plans = call.plans()
    assert all(isinstance(plan, Plan) for plan in plans)
    assert [(p.shape.tokens, p.shape.value_heads) for p in plans] == [(8, 1), (16, 2)]
    assert plans[0] == hajax.plan(tokens=8, key_heads=1, value_heads=1, key_dim=16, value_dim=16)


def test_a_second_function_on_the_same_shapes_has_its_plans_too():
    first, second = (hajax.jit(lambda *xs, i=i: gated_delta_rule(*xs)[0] + i) for i in range(2))
    for call in (first, second):
        call(*tokens_of("T=8"))
        assert len(call.plans()) == 1


def test_two_wrappers_of_one_function_each_have_their_plans():
    shared = lambda *xs: gated_delta_rule(*xs)[0]
    for call in (hajax.jit(shared), hajax.jit(shared)):
        call(*tokens_of("T=8"))
        assert len(call.plans()) == 1


def test_the_reference_takes_no_plan():
    call = hajax.jit(lambda *xs: gated_delta_rule(*xs)[0], implementation="xla")
    call(*tokens_of("T=8"))
    assert call.plans() == ()


def test_nothing_is_planned_while_python_traces(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("planned while tracing")

    monkeypatch.setattr(planner, "plan", refuse)
    jax.make_jaxpr(gated_delta_rule)(*tokens_of("T=8 Dk=24"))
    jax.eval_shape(gated_delta_rule, *tokens_of("T=8 Dk=24"))


def test_jit_is_a_decorator_with_options_and_keeps_the_name():
    @hajax.jit(static_argnums=1, implementation="cpu")
    def power(x, n):
        """Docs."""
        return x**n

    assert power(jnp.float32(3), 2) == 9
    assert (power.__name__, power.__doc__) == ("power", "Docs.")
    assert hajax.jit(lambda x: x + 1)(1) == 2


def test_jit_donates_as_jax_jit_does():
    x = jnp.ones(5)
    hajax.jit(lambda x: x + 1, donate_argnums=0)(x)
    assert x.is_deleted()


def test_jit_lowers_and_compiles_ahead_of_time():
    call = hajax.jit(lambda *xs: gated_delta_rule(*xs)[0])
    tokens = tokens_of("T=8")
    np.testing.assert_array_equal(call.lower(*tokens).compile()(*tokens), call(*tokens))


@pytest.mark.parametrize("call", [
    lambda: hajax.jit(lambda x: x, implementation="gpu"),
    lambda: hajax.use(implementation="gpu").__enter__(),
    lambda: gated_delta_rule(*tokens_of("T=1"), implementation="gpu"),
])  # fmt: skip
def test_an_unknown_implementation_is_refused_by_name(call):
    with pytest.raises(ValueError, match=r"implementation: expected None or one of \('cpu', 'sim', 'xla'\), got 'gpu'"):
        call()


def test_jit_of_what_cannot_be_called_is_refused():
    with pytest.raises(TypeError, match="function: expected a callable, got int"):
        hajax.jit(3)
