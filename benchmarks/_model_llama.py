"""The llama.cpp engine of model_prefill.py, through llama-cpp-python: the same weights, written as GGUF beside the checkpoint.

Flash attention, micro-batches and threading are llama.cpp's defaults for the number of threads.
"""

import ctypes
import functools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import llama_cpp
import numpy as np
from hajax.models import _safetensors

_THREADS = [1]
_OUTER = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight"}
_INNER = {
    "input_layernorm.weight": "attn_norm.weight", "post_attention_layernorm.weight": "post_attention_norm.weight",
    "linear_attn.in_proj_qkv.weight": "attn_qkv.weight", "linear_attn.in_proj_z.weight": "attn_gate.weight",
    "linear_attn.in_proj_a.weight": "ssm_alpha.weight", "linear_attn.in_proj_b.weight": "ssm_beta.weight",
    "linear_attn.conv1d.weight": "ssm_conv1d.weight", "linear_attn.A_log": "ssm_a", "linear_attn.dt_bias": "ssm_dt.bias",
    "linear_attn.norm.weight": "ssm_norm.weight", "linear_attn.out_proj.weight": "ssm_out.weight",
    "self_attn.q_proj.weight": "attn_q.weight", "self_attn.k_proj.weight": "attn_k.weight",
    "self_attn.v_proj.weight": "attn_v.weight", "self_attn.o_proj.weight": "attn_output.weight",
    "self_attn.q_norm.weight": "attn_q_norm.weight", "self_attn.k_norm.weight": "attn_k_norm.weight",
    "mlp.gate_proj.weight": "ffn_gate.weight", "mlp.up_proj.weight": "ffn_up.weight", "mlp.down_proj.weight": "ffn_down.weight",
}  # fmt: skip


def start(threads: int) -> None:
    _THREADS[0] = threads
    llama_cpp.llama_log_set(_silent, ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()


@llama_cpp.llama_log_callback
def _silent(level: int, text: bytes, data: Any) -> None:
    pass


def _name(name: str) -> str:
    found = re.fullmatch(r"model\.layers\.(\d+)\.(.*)", name)
    return _OUTER[name] if found is None else f"blk.{found[1]}.{_INNER[found[2]]}"


def _tensor(name: str, array: np.ndarray) -> np.ndarray:
    """As that format has it: a decay's rate instead of its logarithm, norms' weights as factors, vectors in fp32."""
    if array.ndim > 1 and "conv1d" not in name:
        return array
    wide = array.squeeze().astype(np.float32)
    if name.endswith("A_log"):
        return -np.exp(wide)
    return wide + 1 if name.endswith("norm.weight") and "linear_attn" not in name else wide


def _write(folder: Path, to: Path) -> None:
    given = json.loads((folder / "config.json").read_text())
    given = given.get("text_config", given)
    rope = given["rope_parameters"]
    if given["linear_num_key_heads"] != given["linear_num_value_heads"]:
        raise ValueError("llama.cpp orders value heads differently where they are more than key heads: not written here")
    rotated = int(given["head_dim"] * rope["partial_rotary_factor"])
    section = -(-rotated // 6)  # text has one position: any split of the pairs in three is the same
    writer = gguf.GGUFWriter(str(to), "qwen35")
    writer.add_block_count(given["num_hidden_layers"])
    writer.add_context_length(1 << 18)
    writer.add_embedding_length(given["hidden_size"])
    writer.add_feed_forward_length(given["intermediate_size"])
    writer.add_head_count(given["num_attention_heads"])
    writer.add_head_count_kv(given["num_key_value_heads"])
    writer.add_key_length(given["head_dim"])
    writer.add_value_length(given["head_dim"])
    writer.add_layer_norm_rms_eps(given["rms_norm_eps"])
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_rope_dimension_count(rotated)
    writer.add_rope_dimension_sections([section, section, rotated // 2 - 2 * section, 0])
    writer.add_ssm_conv_kernel(given["linear_conv_kernel_dim"])
    writer.add_ssm_state_size(given["linear_key_head_dim"])
    writer.add_ssm_group_count(given["linear_num_key_heads"])
    writer.add_ssm_time_step_rank(given["linear_num_value_heads"])
    writer.add_ssm_inner_size(given["linear_value_head_dim"] * given["linear_num_value_heads"])
    writer.add_uint32("qwen35.full_attention_interval", 4)
    writer.add_vocab_size(given["vocab_size"])
    writer.add_tokenizer_model("none")
    for name, entry in _safetensors.find(folder).items():
        array = np.ascontiguousarray(_tensor(name, _safetensors.read(entry)))
        if array.dtype == np.float32:
            writer.add_tensor(_name(name), array)
        else:
            writer.add_tensor(_name(name), array.view(np.uint8), raw_dtype=gguf.GGMLQuantizationType.BF16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@functools.cache
def _loaded(folder: str) -> Any:
    file = Path(folder) / "model.gguf"
    _write(Path(folder), file)
    model = llama_cpp.llama_model_load_from_file(str(file).encode(), llama_cpp.llama_model_default_params())
    if not model:
        raise RuntimeError("llama.cpp does not load the model")
    return model


def _prefill(problem: dict[str, Any]) -> Callable[[], Any]:
    model, tokens = _loaded(problem["folder"]), problem["tokens"]
    options = llama_cpp.llama_context_default_params()
    options.n_ctx = options.n_batch = len(tokens)
    options.n_threads = options.n_threads_batch = _THREADS[0]
    context = llama_cpp.llama_init_from_model(model, options)
    if not context:
        raise RuntimeError("llama.cpp makes no context")
    given = (llama_cpp.llama_token * len(tokens))(*tokens)
    vocabulary = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))

    def call() -> Any:
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(context), True)
        status = llama_cpp.llama_decode(context, llama_cpp.llama_batch_get_one(given, len(tokens)))
        if status != 0:
            raise RuntimeError(f"llama_decode: status {status}")
        return np.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(context, -1), (vocabulary,)).copy()

    return call


PEERS = {"llama.cpp": _prefill}


def to_numpy(result: Any) -> np.ndarray:
    return np.asarray(result, np.float32)
