"""The torch engine of cpu_core.py: transformers' chunked reference, the code that its Qwen3.5 runs on a CPU."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from _problem import arrays_of


def start(threads: int) -> None:
    torch.set_num_threads(threads)


def tensors(case: str) -> dict[str, torch.Tensor]:
    """The inputs; bf16 arrays as torch.bfloat16."""
    arrays = arrays_of(case)
    made = {}
    for name, x in arrays.items():
        bf16 = x.dtype.name == "bfloat16"
        tensor = torch.from_numpy(x.view(np.int16).copy() if bf16 else x.copy())
        made[name] = tensor.view(torch.bfloat16) if bf16 else tensor
    return made


def _transformers(problem: dict[str, Any]) -> Callable[[], Any]:
    from transformers.models.qwen3_5.modeling_qwen3_5 import torch_chunk_gated_delta_rule

    x = tensors(problem["case"])

    @torch.inference_mode()
    def call() -> Any:
        return torch_chunk_gated_delta_rule(
            x["query"],
            x["key"],
            x["value"],
            g=x["log_decay"],
            beta=x["beta"],
            output_final_state=True,
            use_qk_l2norm_in_kernel=True,
        )

    return call


PEERS = {"transformers": _transformers}


def to_numpy(result: Any) -> np.ndarray:
    output: np.ndarray = result[0].float().numpy()
    return output
