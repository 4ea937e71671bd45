"""Whole models on torch: what the pure functions give on XLA, prefill in parts, padded rows, samples, gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hajax.models import _sampling
from small_models import MODELS

import hajax

torch = pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.torch

WITHIN = 1e-4  # of logits whose size is about one


def model(name):
    family, config = MODELS[name]
    params = family.init(config, jax.random.key(1))
    return family, config, jax.tree.map(lambda x: 3 * x if x.ndim > 1 else x, params)  # so that each layer matters


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("name", MODELS)
def test_prefill_in_parts_of_padded_rows_and_decoding(name):
    family, config, params = model(name)

    def read(params, tokens, lengths, cache):
        return family.prefill(params, config, tokens, cache, lengths=lengths, logits="all")

    def step(params, token, cache):
        return family.decode(params, config, token, cache)

    rng = np.random.default_rng(2)
    parts = [rng.integers(0, config.vocab_size, (2, 9)).astype(np.int32) for _ in range(2)]
    counts = [np.array([9, 4], np.int32), np.array([3, 9], np.int32)]
    results = {}
    for backend in (None, "torch"):
        reads = hajax.jit(read, backend=backend, donate_argnums=3)
        steps = hajax.jit(step, backend=backend, donate_argnums=2)
        cache, logits = family.init_cache(config, 2, 32, jnp.float32), []
        for part, count in zip(parts, counts, strict=True):
            found, cache = reads(params, part, count, cache)
            logits += [np.asarray(found)[row, : count[row]] for row in range(2)]
        for token in (3, 5):
            found, cache = steps(params, np.full(2, token, np.int32), cache)
            logits.append(np.asarray(found))
        results[backend] = np.concatenate(logits)
    assert np.abs(results[None]).max() > 0.5
    assert np.abs(results["torch"] - results[None]).max() <= WITHIN


@pytest.mark.parametrize("name", MODELS)
def test_gradients_of_a_loss_in_every_parameter(name):
    family, config, params = model(name)
    tokens = np.random.default_rng(3).integers(0, config.vocab_size, (2, 11)).astype(np.int32)

    def loss(params):
        logits = jax.nn.log_softmax(family.forward(params, config, tokens[:, :-1]))
        return -jnp.mean(jnp.take_along_axis(logits, tokens[:, 1:, None], axis=-1))

    wanted = jax.jit(jax.grad(loss))(params)
    found = hajax.jit(jax.grad(loss), backend="torch")(params)
    for (path, reference), mine in zip(jax.tree_util.tree_leaves_with_path(wanted), jax.tree.leaves(found), strict=True):
        size = float(jnp.abs(reference).max())
        assert np.abs(mine.numpy() - reference).max() <= 1e-4 * size + 1e-7, jax.tree_util.keystr(path)


@pytest.mark.parametrize(("top_k", "top_p"), [(50, 1.0), (3, 0.9), (50, 0.4)])
def test_seeded_samples_are_those_of_xla(top_k, top_p):
    logits = np.random.default_rng(4).normal(size=(4, 50)).astype(np.float32)
    given = (np.uint32(2**32 - 5), np.int32(0), np.float32(0.8), np.int32(top_k), np.float32(top_p))
    draw = hajax.jit(_sampling.sampled_tokens, backend="torch")
    drawn = {tuple(draw(logits, given[0], np.int32(step), *given[2:]).tolist()) for step in range(12)}
    wanted = {
        tuple(np.asarray(_sampling.sampled_tokens(logits, given[0], np.int32(step), *given[2:])).tolist()) for step in range(12)
    }
    assert drawn == wanted and len(drawn) > 1
