"""The onnxruntime engine of cpu_core.py: com.microsoft LinearAttention, fp32, outputs bound to memory of their own."""

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
from _problem import EPS, arrays_of
from onnx import TensorProto, helper


def _model(value_heads: int) -> bytes:
    names = ("query", "key", "value", "past_state", "decay", "beta")
    node = helper.make_node(
        "LinearAttention",
        names,
        ("output", "present_state"),
        domain="com.microsoft",
        q_num_heads=value_heads,
        kv_num_heads=value_heads,
        update_rule="gated_delta",
    )
    ranks = dict.fromkeys((*names, "output", "present_state"), 3) | {"past_state": 4, "present_state": 4}
    infos = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [None] * rank) for name, rank in ranks.items()}
    graph = helper.make_graph([node], "g", [infos[n] for n in names], [infos[n] for n in ("output", "present_state")])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
    return model


def _linear_attention(problem: dict[str, Any]) -> Callable[[], Any]:
    arrays = arrays_of(problem["case"])
    batch, tokens, heads, dim = arrays["value"].shape
    feeds = {"value": arrays["value"], "decay": arrays["log_decay"], "beta": arrays["beta"]}
    for name in ("query", "key"):
        x = arrays[name].astype(np.float32)
        x = x / np.sqrt((x * x).sum(-1, keepdims=True) + EPS)
        feeds[name] = np.repeat(x, heads // x.shape[2], axis=2)
    feeds = {name: np.ascontiguousarray(x.reshape(batch, tokens, -1)) for name, x in feeds.items()}
    feeds["past_state"] = np.zeros((batch, heads, arrays["query"].shape[-1], dim), np.float32)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(os.environ["NPROC"])
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(_model(heads), options, providers=["CPUExecutionProvider"])
    output, state = np.empty((batch, tokens, heads * dim), np.float32), np.empty_like(feeds["past_state"])
    binding = session.io_binding()
    for name, x in feeds.items():
        binding.bind_cpu_input(name, x)
    for name, x in (("output", output), ("present_state", state)):
        binding.bind_output(name, "cpu", 0, np.float32, x.shape, x.ctypes.data)

    def call(bound: Any = (feeds, state)) -> np.ndarray:  # the binding holds addresses only, so this keeps the arrays
        session.run_with_iobinding(binding)
        return output.reshape(batch, tokens, heads, dim)

    return call


PEERS = {"onnxruntime": _linear_attention}


def to_numpy(result: np.ndarray) -> np.ndarray:
    return result
