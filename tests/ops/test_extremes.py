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
