"""The transformers engine of model_prefill.py: Qwen3_5ForCausalLM, whole and with less of its delta-rule layers."""

import functools
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import torch
from transformers import AutoModelForCausalLM
from transformers.models.qwen3_5 import modeling_qwen3_5 as modeling


def start(threads: int) -> None:
    torch.set_num_threads(threads)


@functools.cache
def _loaded(folder: str, dtype: str) -> Any:
    return AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype)).eval()


def _no_rule(query: Any, key: Any, value: Any, g: Any, beta: Any, **_: Any) -> Any:
    """Stands in for the operator: as good as no work, but every input is needed."""
    state = torch.zeros(value.shape[0], value.shape[2], query.shape[-1], value.shape[-1])
    return (value * (beta + g)[..., None] + query + key).to(value.dtype), state


def _no_layer(_: Any, hidden_states: Any, **__: Any) -> Any:
    return hidden_states


def _only_products(layer: Any, hidden_states: Any, **_: Any) -> Any:
    """Stands in for the layer: its projections, all of them, and nothing between them."""
    layer.in_proj_qkv(hidden_states), layer.in_proj_a(hidden_states), layer.in_proj_b(hidden_states)
    return layer.out_proj(layer.in_proj_z(hidden_states))


def _prefill(left_out: str = "") -> Callable[[dict[str, Any]], Callable[[], Any]]:
    def build(problem: dict[str, Any]) -> Callable[[], Any]:
        model = _loaded(problem["folder"], problem["dtype"])
        tokens = torch.tensor([problem["tokens"]])
        rule = _no_rule if left_out == "rule" else modeling.torch_chunk_gated_delta_rule
        layer = modeling.Qwen3_5GatedDeltaNet
        forward = _LAYERS.get(left_out, layer.forward)

        @torch.inference_mode()
        def call() -> Any:
            with mock.patch.object(modeling, "torch_chunk_gated_delta_rule", rule), mock.patch.object(layer, "forward", forward):
                return model(tokens, use_cache=True, logits_to_keep=1).logits

        return call

    return build


_LAYERS = {"layers": _no_layer, "all but products": _only_products}

PEERS = {
    "transformers": _prefill(),
    "transformers without rule": _prefill("rule"),
    "transformers without layers": _prefill("layers"),
    "transformers without all but products": _prefill("all but products"),
}


def to_numpy(result: Any) -> np.ndarray:
    logits: np.ndarray = result[0, -1].float().numpy()
    return logits
