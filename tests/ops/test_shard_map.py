"""shard_map over heads: equal to the unsharded call, gradients too, without a collective, check_vma on or off."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from hajax import gated_delta_rule
from hajax.conformance import inputs, parse

NAMES = ("query", "key", "value", "log_decay", "beta", "initial_state")
OVER_HEADS = (*[P(None, None, "heads")] * 5, P(None, "heads"))
OUT = (P(None, None, "heads"), P(None, "heads"))
COLLECTIVES = r"all-reduce|all-gather|all-to-all|reduce-scatter|collective-permute"


def problem(implementation):
    arrays = inputs(parse("T=16 B=2 Hk=4 Hv=8"))
    call = lambda *xs: gated_delta_rule(*xs[:5], initial_state=xs[5], implementation=implementation)
    return tuple(jnp.asarray(arrays[n]) for n in NAMES), call


def mesh_of(kind=AxisType.Auto):
    return jax.make_mesh((4,), ("heads",), axis_types=(kind,))


def sharded(call, check_vma, mesh=None):
    mesh = mesh or mesh_of()
    return jax.jit(jax.shard_map(call, mesh=mesh, in_specs=OVER_HEADS, out_specs=OUT, check_vma=check_vma))


@pytest.mark.parametrize("check_vma", [True, False])
@pytest.mark.parametrize("implementation", ["cpu", "xla"])
def test_it_equals_the_unsharded_call_without_collectives(implementation, check_vma):
    xs, call = problem(implementation)
    function = sharded(call, check_vma)
    assert jax.device_count() == 4
    for got, expected in zip(function(*xs), call(*xs), strict=True):
        assert len(got.sharding.device_set) == 4
        assert oracle.error(got, np.asarray(expected).astype(np.float64)) <= oracle.NMSE
    assert not re.search(COLLECTIVES, function.lower(*xs).compile().as_text())


def test_explicitly_sharded_arrays_are_taken():
    xs, call = problem("cpu")
    mesh = mesh_of(AxisType.Explicit)
    placed = [jax.device_put(x, NamedSharding(mesh, spec)) for x, spec in zip(xs, OVER_HEADS, strict=True)]
    for got, expected in zip(sharded(call, True, mesh)(*placed), call(*xs), strict=True):
        assert oracle.error(got, np.asarray(expected).astype(np.float64)) <= oracle.NMSE


@pytest.mark.parametrize("check_vma", [True, False])
def test_gradients_equal_the_unsharded_ones(check_vma):
    xs, call = problem(None)
    loss = lambda f, *xs: sum((y**2).sum() for y in f(*xs))
    got = jax.jit(jax.grad(functools.partial(loss, sharded(call, check_vma)), argnums=range(6)))(*xs)
    expected = jax.jit(jax.grad(functools.partial(loss, call), argnums=range(6)))(*xs)
    for a, b in zip(got, expected, strict=True):
        assert oracle.error(a, np.asarray(b).astype(np.float64)) <= oracle.NMSE


@pytest.mark.parametrize("implementation", ["cpu", "xla"])
def test_an_argument_that_every_device_shares_is_taken(implementation):
    """Replicated beta and lengths beside sharded heads: check_vma wants them marked, which the operator does."""
    arrays = inputs(parse("T=16 B=2 Hk=4 Hv=4"))
    q, k, v, g, _, _ = (jnp.asarray(arrays[n]) for n in NAMES)
    lengths = jnp.array([16, 3])
    call = lambda q, k, v, g, n: gated_delta_rule(
        q, k, v, g, jnp.full((2, 16, v.shape[2]), 0.5), lengths=n, implementation=implementation
    )
    heads = P(None, None, "heads")
    function = jax.shard_map(call, mesh=mesh_of(), in_specs=(heads, heads, heads, heads, P()), out_specs=OUT)
    for got, expected in zip(jax.jit(function)(q, k, v, g, lengths), call(q, k, v, g, lengths), strict=True):
        assert oracle.error(got, np.asarray(expected).astype(np.float64)) <= oracle.NMSE
