"""Inputs at the edge of what the arithmetic carries."""

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest

import hajax


@pytest.mark.parametrize("dim", [8, 72, 128, 256])
def test_a_first_token_keeps_a_small_overlap_of_query_and_key(dim):
    """A fresh state gives back (q . k) beta v: one number, however much smaller than the terms that it is a sum of."""
    rng = np.random.default_rng(dim)
    heads = 16
    key = rng.normal(size=(heads, dim))
    key /= np.linalg.norm(key, axis=-1, keepdims=True)
    query = rng.normal(size=(heads, dim))
    query += (1e-4 - (query * key).sum(-1, keepdims=True)) * key
    query, key = (x.astype(np.float32)[None, None] for x in (query, key))
    value = rng.normal(size=(1, 1, heads, 8)).astype(np.float32)
    ones, zeros = np.ones((1, 1, heads), np.float32), np.zeros((1, 1, heads), np.float32)
    output, _ = hajax.gated_delta_rule(query, key, value, zeros, ones, scale=1.0, implementation="cpu")
    expected = (query.astype(np.float64) * key).sum(-1, keepdims=True) * value
    assert oracle.error(output, expected) <= oracle.NMSE


@pytest.mark.parametrize("implementation", ["cpu", "xla", None])
def test_vmap_over_nothing_gives_nothing(implementation):
    tokens, gates = jnp.zeros((0, 1, 5, 2, 8)), jnp.zeros((0, 1, 5, 2))

    def run(query, key, value, log_decay, beta):
        return hajax.gated_delta_rule(query, key, value, log_decay, beta, implementation=implementation)

    output, state = jax.vmap(run)(tokens, tokens, tokens, gates, gates)
    assert output.shape == (0, 1, 5, 2, 8)
    assert state.shape == (0, 1, 2, 8, 8)


@pytest.mark.parametrize("implementation", ["cpu", "xla"])
@pytest.mark.parametrize(
    "bounds",
    [{"lengths": [7]}, {"lengths": [-2]}, {"cu_seqlens": [0, 4]}, {"cu_seqlens": [1, 6]}, {"cu_seqlens": [0, 4, 2, 6]}],
    ids=str,
)
def test_wrong_bounds_known_only_at_run_time_are_loud(bounds, implementation):
    """The kernel raises, naming the argument; plain jnp, which cannot, gives NaN and nothing else."""
    tokens, gates = jnp.ones((1, 6, 2, 8)), jnp.zeros((1, 6, 2))
    name, values = next(iter(bounds.items()))

    @jax.jit
    def run(values):
        return hajax.gated_delta_rule(tokens, tokens, tokens, gates, gates, implementation=implementation, **{name: values})

    if implementation == "cpu":
        with pytest.raises(RuntimeError, match="lengths or cu_seqlens"):
            jax.block_until_ready(run(jnp.array(values)))
    else:
        assert all(jnp.isnan(x).all() for x in run(jnp.array(values)))


@pytest.mark.parametrize("bounds", [{"lengths": [7]}, {"cu_seqlens": [0, 4]}, {"cu_seqlens": [0, 5, 3, 6]}], ids=str)
def test_wrong_bounds_of_a_convolution_are_loud(bounds):
    name, values = next(iter(bounds.items()))
    run = jax.jit(lambda values: hajax.causal_conv1d(jnp.ones((1, 6, 8)), jnp.ones((8, 4)), **{name: values}))
    assert all(jnp.isnan(x).all() for x in run(jnp.array(values)))
