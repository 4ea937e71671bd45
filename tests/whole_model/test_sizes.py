"""Models by name and from a config.json: what they hold, and what a config that is none is told."""

import dataclasses
import json
from pathlib import Path

import pytest

from hajax.whole_model import MODELS, PROMPTS, model_named, parameters
from hajax.whole_model.hub_config import model_from_config, model_from_file
from hajax.whole_model.kernels import Elementwise, Matmul
from hajax.whole_model.layers import embedding_kernels, head_kernels, layer_kernels
from hajax.whole_model.sizes import Attention, DeltaRule, Experts, LatentAttention, Mlp

DEMO = Path(__file__).parents[2] / "models" / "demo"

QWEN_9B = {
    "model_type": "qwen3_5_text", "architectures": ["Qwen3_5ForCausalLM"], "vocab_size": 248320, "hidden_size": 4096,
    "intermediate_size": 12288, "num_hidden_layers": 32, "full_attention_interval": 4, "num_attention_heads": 16,
    "num_key_value_heads": 4, "head_dim": 256, "linear_num_key_heads": 16, "linear_num_value_heads": 32,
    "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "max_position_embeddings": 262144,
    "rms_norm_eps": 1e-6, "rope_parameters": {"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25},
    "tie_word_embeddings": False,
}  # fmt: skip
KIMI = {
    "model_type": "kimi_linear", "vocab_size": 163840, "hidden_size": 2304, "num_hidden_layers": 27, "num_attention_heads": 32,
    "q_lora_rank": None, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
    "mla_use_nope": True, "num_experts": 256, "num_experts_per_token": 8, "num_shared_experts": 1,
    "moe_intermediate_size": 1024, "first_k_dense_replace": 1, "intermediate_size": 9216, "tie_word_embeddings": False,
    "linear_attn_config": {
        "num_heads": 32, "head_dim": 128, "short_conv_kernel_size": 4, "full_attn_layers": [4, 8, 12, 16, 20, 24, 27],
    },
}  # fmt: skip
LING = {
    "model_type": "bailing_hybrid", "vocab_size": 157184, "hidden_size": 1536, "num_hidden_layers": 24,
    "num_attention_heads": 16, "head_dim": 128, "q_lora_rank": 256, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64, "v_head_dim": 128, "num_experts": 128, "num_experts_per_tok": 8, "num_shared_experts": 1,
    "moe_intermediate_size": 512, "first_k_dense_replace": 1, "intermediate_size": 4608, "layer_group_size": 4,
    "short_conv_kernel_size": 4, "no_kda_lora": True, "kda_safe_gate": True, "tie_word_embeddings": False,
}  # fmt: skip
CONFIGS = {"Qwen3.5-9B": QWEN_9B, "Kimi-Linear-48B-A3B": KIMI, "Ling-3.0-tiny": LING}


@pytest.mark.parametrize(("name", "billions"), [
    ("Qwen3.5-0.8B", 0.8), ("Qwen3.5-2B", 2), ("Qwen3.5-4B", 4), ("Qwen3.5-9B", 9), ("Kimi-Linear-48B-A3B", 48),
    ("Ling-3.0-tiny", 8),
])  # fmt: skip
def test_parameters_add_up_to_what_the_name_says(name, billions):
    assert parameters(MODELS[name]) / 1e9 == pytest.approx(billions, rel=0.07)


def test_the_smallest_models_parameters_are_those_of_a_hand_count():
    hidden, width, keys, values = 1024, 3584, 16 * 128, 16 * 128
    linear = hidden * (2 * keys + values) + hidden * values + 2 * hidden * 16 + 4 * (2 * keys + values) + 2 * 16 + 128
    linear += values * hidden
    full = hidden * (2 * 8 * 256 + 2 * 2 * 256) + 8 * 256 * hidden + 2 * 256
    rest = 24 * (3 * hidden * width + 2 * hidden) + hidden + 248320 * hidden
    assert parameters(MODELS["Qwen3.5-0.8B"]) == 18 * linear + 6 * full + rest


@pytest.mark.parametrize("name", MODELS)
def test_kernels_read_every_matrix_once(name):
    """At 4096 tokens every expert is chosen. A tied embedding is the head's matrix, too; gates' biases are in no kernel."""
    model = MODELS[name]
    kernels = [*embedding_kernels(model, 4096), *head_kernels(model)]
    for layer in model.layers:
        kernels += layer_kernels(layer, model.hidden, 4096)
    read = sum(kernel.weights for kernel in kernels) - (model.vocabulary * model.hidden if model.tied else 0)
    small = 0
    for layer in model.layers:
        if isinstance(layer.mixer, DeltaRule):
            heads, values = layer.mixer.value_heads, layer.mixer.values
            small += 2 * heads if layer.mixer.mechanism == "gated_delta_rule" else heads + values
        if isinstance(layer.feed_forward, Experts):
            small += layer.feed_forward.count
    assert read + small == parameters(model)


def test_the_layer_patterns():
    def full(name):
        return [number for number, layer in enumerate(MODELS[name].layers) if not isinstance(layer.mixer, DeltaRule)]

    assert full("Qwen3.5-2B") == [3, 7, 11, 15, 19, 23]
    assert full("Kimi-Linear-48B-A3B") == [3, 7, 11, 15, 19, 23, 26]
    assert full("Ling-3.0-Flash") == [5, 11, 17, 23, 29, 35, 41]
    dense = [number for number, layer in enumerate(MODELS["Ling-3.0-Flash"].layers) if isinstance(layer.feed_forward, Mlp)]
    assert dense == [0, 1]


def test_the_prompts_are_those_of_the_published_runs():
    ends = {"TriviaQA": (9813, 13717), "HotpotQA": (11003, 13407), "MMLU-Pro": (2099, 2267), "MMMU": (2138, 5621)}
    assert ends == PROMPTS


@pytest.mark.parametrize("name", CONFIGS)
def test_a_config_file_gives_the_named_model(tmp_path, name):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIGS[name]))
    found = model_from_file(tmp_path)
    named = MODELS[name]
    assert dataclasses.replace(found, name=name, notes=named.notes) == named


def test_a_nested_text_config_is_read():
    outer = {"model_type": "qwen3_5", "architectures": ["Qwen3_5ForConditionalGeneration"], "text_config": QWEN_9B}
    assert model_from_config(outer).layers == MODELS["Qwen3.5-9B"].layers
    assert model_from_config({"model_type": "other", "text_config": LING}).layers == MODELS["Ling-3.0-tiny"].layers


def test_configs_as_transformers_saves_them_are_read():
    """It writes layer_types, the experts under other names, and the rotated dims as head_dim."""
    saved = {key: value for key, value in LING.items() if key not in ("num_experts", "num_shared_experts", "layer_group_size")}
    kinds = ["full_attention" if number % 4 == 3 else "linear_attention" for number in range(24)]
    saved |= {"num_local_experts": 128, "n_shared_experts": 1, "layer_types": kinds, "head_dim": 64, "linear_head_dim": 128}
    assert model_from_config(saved).layers == MODELS["Ling-3.0-tiny"].layers
    flat = {key: value for key, value in KIMI.items() if key not in ("linear_attn_config", "first_k_dense_replace")}
    kinds = ["full_attention" if number in (4, 8, 12, 16, 20, 24, 27) else "linear_attention" for number in range(1, 28)]
    flat |= {"layer_types": kinds, "mlp_layer_types": ["dense"] + 26 * ["sparse"]}
    flat |= {"linear_num_heads": 32, "linear_head_dim": 128, "linear_conv_kernel_dim": 4}
    assert model_from_config(flat).layers == MODELS["Kimi-Linear-48B-A3B"].layers


def test_the_demo_is_read_from_its_folder():
    model = model_from_file(DEMO)
    assert any(isinstance(layer.mixer, Attention) for layer in model.layers)


@pytest.mark.parametrize(
    ("config", "change", "text"),
    [
        (QWEN_9B, {"model_type": "llama"}, "model_type: expected one of qwen3_5.*kimi_linear.*bailing_hybrid, got 'llama'"),
        (QWEN_9B, {"model_type": None}, "model_type: expected one of"),
        (QWEN_9B, {"model_type": ["qwen3_5"]}, "model_type: expected one of"),
        (QWEN_9B, {"text_config": 3}, "text_config: expected a mapping, got int"),
        (QWEN_9B, {"linear_key_head_dim": 192}, "DeltaRule.key_dim: expected head dims of at most 128 on a chip, got 192"),
        (QWEN_9B, {"hidden_size": -1}, "hidden_size: expected a positive integer, got -1"),
        (QWEN_9B, {"hidden_size": 1 << 40}, "hidden: expected a positive integer up to"),
        (QWEN_9B, {"head_dim": 4096}, "Attention.head_dim: expected at most 1024, got 4096"),
        (KIMI, {"num_experts": None}, "num_experts or num_local_experts: missing"),
        (KIMI, {"hidden_size": "2304"}, "hidden_size: expected an integer from 1 to .*, got '2304'"),
        (KIMI, {"linear_attn_config": []}, "linear_attn_config: expected a mapping, got list"),
        (KIMI, {"linear_attn_config": {"num_heads": 2, "head_dim": 128, "short_conv_kernel_size": 4,
                                       "full_attn_layers": [99]}}, "full_attn_layers: expected layers from 1 to 27"),
        (KIMI, {"linear_attn_config": KIMI["linear_attn_config"] | {"kda_layers": [1, 2, 3]}},
         r"kda_layers: expected \[1, 2, 3, 5.*got \[1, 2, 3\]"),
        (KIMI, {"linear_attn_config": KIMI["linear_attn_config"] | {"full_attn_layers": [4, 4]}},
         "full_attn_layers: expected layers"),
        (KIMI, {"moe_layer_freq": 2}, "moe_layer_freq: expected 1"),
        (KIMI, {"num_hidden_layers": 10**6}, "num_hidden_layers: expected at most 1024"),
        (QWEN_9B, {"num_hidden_layers": 10**9, "layer_types": None, "full_attention_interval": 4},
         "num_hidden_layers: expected at most 4096"),
        (KIMI, {"v_head_dim": None}, "v_head_dim: missing"),
        (KIMI, {"num_experts": 4}, "Experts.chosen: expected at most the 4 experts, got 8"),
        (LING, {"layer_types": ["linear_attention"]}, "layer_types: expected 24 entries"),
        (LING, {"no_kda_lora": False}, "no_kda_lora: expected true"),
        (LING, {"tie_word_embeddings": 1}, "tie_word_embeddings: expected true or false, got 1"),
        (LING, {"num_hidden_layers": True}, "num_hidden_layers: expected an integer"),
    ],
)  # fmt: skip
def test_a_config_that_is_none_is_refused_by_key(config, change, text):
    with pytest.raises(ValueError, match=text):
        model_from_config(config | change)


def test_a_files_name_is_in_its_error(tmp_path):
    path = tmp_path / "config.json"
    path.write_text("{")
    with pytest.raises(ValueError, match=r"config\.json: not valid JSON"):
        model_from_file(path)
    path.write_text("{}")
    with pytest.raises(ValueError, match=r"config\.json: config model_type"):
        model_from_file(path)


def test_names_are_found_in_any_case_and_others_are_told_the_known_ones():
    assert model_named("qwen3.5-0.8b") is MODELS["Qwen3.5-0.8B"]
    with pytest.raises(ValueError, match=r"--model-config: expected .* Ling-3\.0-Flash, got 'Qwen3\.5'"):
        model_named("Qwen3.5")


def test_every_layers_kernels_keep_the_hand_counted_sizes():
    """Of a Qwen3.5-0.8B delta-rule layer at 2048 tokens, and of an MLA layer with experts."""
    layer = MODELS["Qwen3.5-0.8B"].layers[0]
    kernels = {kernel.name: kernel for kernel in layer_kernels(layer, 1024, 2048)}
    project, conv, out = (
        kernels[name] for name in ("q, k, v, z, gates", "causal conv, SiLU, l2norm, gates", "output projection")
    )
    assert isinstance(project, Matmul) and isinstance(conv, Elementwise) and isinstance(out, Matmul)
    assert (project.m, project.n, project.k) == (2048, 6144 + 2048 + 32, 1024)
    assert project.written == 2 * 2048 * 8224
    assert conv.read == 2 * (2048 * 6144 + 4 * 6144 + 2 * 2048 * 16)
    assert conv.written == 2 * 2048 * 6144 + 2 * 4 * 2048 * 16
    assert (out.m, out.n, out.k, out.read) == (2048, 1024, 2048, 2 * 2048 * 1024)
    gate_up = kernels["MLP: gate, up, SwiGLU"]
    assert (gate_up.n, gate_up.written) == (2 * 3584, 2 * 2048 * 3584)

    sparse = MODELS["Kimi-Linear-48B-A3B"].layers[3]
    assert isinstance(sparse.mixer, LatentAttention)
    kernels = {kernel.name: kernel for kernel in layer_kernels(sparse, 2304, 2048)}
    experts = kernels["experts: gate, up, SwiGLU"]
    assert (experts.batch, experts.m, experts.n, experts.k) == (256, 2048 * 8 // 256, 2048, 2304)
    assert kernels["q and latent"].n == 32 * 192 + 512 + 64
    few = {kernel.name: kernel for kernel in layer_kernels(sparse, 2304, 3)}
    assert (few["experts: down"].batch, few["experts: down"].m) == (24, 1)
