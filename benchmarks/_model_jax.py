"""The JAX engine of model_prefill.py: hajax.models.qwen3_5, whole and with less of its delta-rule layers."""

import functools
from collections.abc import Callable
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from hajax.models import qwen3_5
from hajax.models.layers import delta_net as layer
from hajax.models.layers.linear import linear
from hajax.models.layers.recurrence import DeltaNetState
from hajax.models.qwen3_5 import model


@functools.cache
def _loaded(folder: str, dtype: str) -> tuple[Any, Any]:
    config = qwen3_5.Config.from_json(folder)
    return config, qwen3_5.load_params(folder, config, jnp.dtype(dtype), progress=False)


def _no_rule(query: Any, key: Any, value: Any, log_decay: Any, beta: Any, **options: Any) -> Any:
    """Stands in for the operator: as good as no work, but every input is needed."""
    output = value * (beta + log_decay)[..., None] + query + key
    return output.astype(options["preferred_element_type"]), options["initial_state"]


def _no_layer(weights: Any, x: Any, **options: Any) -> Any:
    return x, options["state"]


def _only_products(weights: Any, x: Any, **options: Any) -> Any:
    """Stands in for the layer: its projections, all of them, and nothing between them."""
    wide = {"preferred_element_type": jnp.float32}
    products = linear(x, weights.qkv), linear(x, weights.a, **wide), linear(x, weights.b, **wide), linear(x, weights.z)
    mixed, a, b, gate = jax.lax.optimization_barrier(products)
    state: DeltaNetState = options["state"]
    last = (a[:, -1] + b[:, -1])[..., None, None]  # something of each is needed, so that all of them are computed
    return linear(gate, weights.output), DeltaNetState(mixed[:, -state.conv.shape[1] :], state.state + last)


def _prefill(implementation: str, left_out: str = "") -> Callable[[dict[str, Any]], Callable[[], Any]]:
    def build(problem: dict[str, Any]) -> Callable[[], Any]:
        config, params = _loaded(problem["folder"], problem["dtype"])
        tokens = jnp.asarray(np.array(problem["tokens"], np.int32)[None])

        def run(params: Any, tokens: Any) -> Any:
            cache = qwen3_5.init_cache(config, 1, tokens.shape[1], jnp.dtype(problem["dtype"]))
            return qwen3_5.prefill(params, config, tokens, cache, implementation=implementation)

        with (
            mock.patch.object(layer, "gated_delta_rule", _no_rule if left_out == "rule" else layer.gated_delta_rule),
            mock.patch.object(model, "delta_net", _LAYERS.get(left_out, model.delta_net)),
        ):
            compiled = jax.jit(run).lower(params, tokens).compile()
        return lambda: jax.block_until_ready(compiled(params, tokens))

    return build


_LAYERS = {"layers": _no_layer, "all but products": _only_products}

PEERS = {
    "hajax": _prefill("cpu"),
    "hajax without rule": _prefill("cpu", "rule"),
    "hajax without layers": _prefill("cpu", "layers"),
    "hajax without all but products": _prefill("cpu", "all but products"),
    "hajax_xla": _prefill("xla"),
}


def to_numpy(result: Any) -> np.ndarray:
    return np.asarray(result[0][0], np.float32)
