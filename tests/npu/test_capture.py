"""Recording and replaying: decode steps never wait for the host, and a replay is the call it stands for."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_models import MODELS

import hajax

torch = pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.torch

from hajax.npu import capture  # noqa: E402 (needs torch)


class Again:
    """Graphs of no device: recording runs the function, a replay runs it again into the same results."""

    def __init__(self):
        self.recorded = self.replayed = 0

    def record(self, function):
        self.recorded += 1
        results = function()

        def replay():
            self.replayed += 1
            for mine, found in zip(results, function(), strict=True):
                if mine.data_ptr() != found.data_ptr():
                    mine.copy_(found)

        return replay, results


def decoder(name):
    family, config = MODELS[name]
    params = family.init(config, jax.random.key(0))
    cache = family.init_cache(config, 2, 16, jnp.float32)
    return lambda p, t, c: family.decode(p, config, t, c), params, cache


@pytest.mark.parametrize("name", MODELS)
def test_a_decode_step_never_waits_for_the_host(name):
    decode, params, cache = decoder(name)
    step = hajax.jit(decode, backend="torch", donate_argnums=2)
    found = step.launches(params, np.array([1, 2], np.int32), cache)
    assert "hajax.delta_rule_.default" in found.names and len(found) > 20


def test_a_step_that_reads_a_value_is_named():
    search = hajax.jit(lambda x: jax.lax.while_loop(lambda y: jnp.sum(y) < 10, lambda y: y * 2, x), backend="torch")
    with pytest.raises(capture.NotCapturable, match="expected steps that never wait for the host, got while"):
        search.launches(np.ones(2, np.float32))


def test_the_proof_can_fail(monkeypatch):
    from hajax.npu.rules import registry

    def build(equation, context):
        return lambda x: x + x.sum().item()

    monkeypatch.setitem(registry.RULES, "tanh", registry.Rule(build, True, False, False, False))
    with pytest.raises(capture.NotCapturable):
        hajax.jit(jnp.tanh, backend="torch").launches(np.ones(2, np.float32))


@pytest.mark.parametrize("name", MODELS)
def test_replays_equal_calls_and_caches_stay_where_they_are(name):
    decode, params, cache = decoder(name)
    graphs = Again()
    plain = hajax.jit(decode, backend="torch", donate_argnums=2)
    replayed = hajax.jit(decode, backend="torch", donate_argnums=2)
    replayed._graphs = graphs
    caches = [cache, cache]
    places = None
    for step in range(4):
        token = torch.tensor([step, 3], dtype=torch.int32)
        first, caches[0] = plain(params, token, caches[0])
        second, caches[1] = replayed(params, token, caches[1])
        assert torch.equal(first, second)
        now = [x.data_ptr() for x in jax.tree.leaves(caches[1]) if x.nbytes > 512]
        if step > 0:
            assert sum(a == b for a, b in zip(now, places, strict=True)) >= 1
        places = now
    assert graphs.recorded == 1 and graphs.replayed == 4
    for mine, wanted in zip(jax.tree.leaves(caches[1]), jax.tree.leaves(caches[0]), strict=True):
        assert torch.equal(mine, wanted)


def test_other_large_inputs_are_recorded_anew():
    graphs = Again()
    product = hajax.jit(lambda w, x: w @ x, backend="torch")
    product._graphs = graphs
    x = np.ones((256, 1), np.float32)
    for value, recorded in ((1.0, 1), (2.0, 2)):
        weights = torch.full((256, 256), value)
        for _ in range(2):
            assert (product(weights, x) == 256 * value).all()
        assert graphs.recorded == recorded


def test_results_of_one_replay_outlive_the_next():
    double = hajax.jit(lambda x: x * 2, backend="torch")
    double._graphs = Again()
    first = double(torch.ones(3))
    double(torch.zeros(3))
    assert first.tolist() == [2, 2, 2]
