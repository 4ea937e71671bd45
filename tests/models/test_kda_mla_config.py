"""Configs of Kimi Linear and Ling 3.0: what is read under which names, what is refused and with which words."""

import json

import pytest
from hajax.models import kimi_linear, ling3
from hajax.models.kda_mla.config import DENSE, SPARSE
from hajax.models.qwen3_5.config import FULL, LINEAR
from tiny_models import TINY_KIMI, TINY_LING

# The published files' own keys, with a published model's sizes.
KIMI = {
    "architectures": ["KimiLinearForCausalLM"],
    "model_type": "kimi_linear",
    "eos_token_id": 163586,
    "first_k_dense_replace": 1,
    "head_dim": 72,
    "hidden_act": "silu",
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "kv_lora_rank": 512,
    "linear_attn_config": {
        "full_attn_layers": [4, 8, 12, 16, 20, 24, 27],
        "head_dim": 128,
        "kda_layers": [number for number in range(1, 28) if number not in (4, 8, 12, 16, 20, 24, 27)],
        "num_heads": 32,
        "short_conv_kernel_size": 4,
    },
    "mla_use_nope": True,
    "model_max_length": 1048576,
    "moe_intermediate_size": 1024,
    "moe_layer_freq": 1,
    "moe_renormalize": True,
    "moe_router_activation_func": "sigmoid",
    "num_attention_heads": 32,
    "num_expert_group": 1,
    "num_experts": 256,
    "num_experts_per_token": 8,
    "num_hidden_layers": 27,
    "num_key_value_heads": 32,
    "num_nextn_predict_layers": 0,
    "num_shared_experts": 1,
    "q_lora_rank": None,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "rms_norm_eps": 1e-5,
    "routed_scaling_factor": 2.446,
    "tie_word_embeddings": False,
    "topk_group": 1,
    "use_grouped_topk": True,
    "v_head_dim": 128,
    "vocab_size": 163840,
}
LING = {
    "architectures": ["BailingMoeV3ForCausalLM"],
    "model_type": "bailing_hybrid",
    "eos_token_id": 156895,
    "first_k_dense_replace": 1,
    "gated_attention_proj_granularity_type": "head_wise",
    "head_dim": 128,
    "hidden_size": 1536,
    "intermediate_size": 4608,
    "kda_lower_bound": -5,
    "kda_safe_gate": True,
    "kv_lora_rank": 512,
    "layer_group_size": 4,
    "linear_attention": "kda",
    "max_position_embeddings": 262144,
    "moe_intermediate_size": 512,
    "n_group": 8,
    "no_kda_lora": True,
    "norm_topk_prob": True,
    "num_attention_heads": 16,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 24,
    "num_nextn_predict_layers": 1,
    "num_shared_experts": 1,
    "q_lora_rank": 256,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "rms_norm_eps": 1e-6,
    "rope_interleave": True,
    "rope_theta": 6000000,
    "routed_scaling_factor": 2.5,
    "score_function": "sigmoid",
    "short_conv_kernel_size": 4,
    "tie_word_embeddings": False,
    "topk_group": 4,
    "use_qkv_bias": False,
    "v_head_dim": 128,
    "vocab_size": 157184,
}


@pytest.mark.parametrize("config", [TINY_KIMI, TINY_LING], ids=["kimi_linear", "ling3"])
def test_a_written_config_reads_back_equal(config, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(config.to_dict()))
    assert type(config).from_json(tmp_path) == config
    assert hash(type(config).from_json(tmp_path / "config.json")) == hash(config)


def test_the_published_kimi_linear_config_is_read():
    config = kimi_linear.Config.from_dict(KIMI)
    assert [number for number, kind in enumerate(config.layer_types, 1) if kind == FULL] == [4, 8, 12, 16, 20, 24, 27]
    assert config.mlp_layer_types == (DENSE, *(SPARSE,) * 26)
    assert (config.linear_num_heads, config.linear_head_dim, config.gate_rank) == (32, 128, 128)
    assert (config.rope_theta, config.kda_lower_bound, config.head_gate) == (None, None, False)
    assert (config.routing.experts, config.routing.groups, config.routing.scaling) == (8, 1, 2.446)
    assert (config.max_position_embeddings, config.eos_token_ids) == (1048576, (163586,))


def test_the_published_ling_config_is_read():
    config = ling3.Config.from_dict(LING)
    assert config.layer_types == (LINEAR, LINEAR, LINEAR, FULL) * 6
    assert (config.linear_num_heads, config.linear_head_dim, config.gate_rank) == (16, 128, None)
    assert (config.rope_theta, config.kda_lower_bound, config.head_gate, config.q_lora_rank) == (6e6, -5, True, 256)
    assert (config.routing.groups, config.routing.chosen_groups) == (8, 4)
    assert ling3.Config.from_dict(LING | {"kda_safe_gate": False}).kda_lower_bound is None


@pytest.mark.parametrize(("family", "published"), [(kimi_linear, KIMI), (ling3, LING)])
def test_other_names_of_the_same_keys_are_read(family, published):
    others = {
        "num_experts": "num_local_experts",
        "num_experts_per_tok": "num_experts_per_token",
        "num_shared_experts": "n_shared_experts",
        "n_group": "num_expert_group",
        "norm_topk_prob": "moe_renormalize",
        "max_position_embeddings": "model_max_length",
    }
    others |= {value: key for key, value in others.items()}
    renamed = {others.get(key, key): value for key, value in published.items()}
    assert family.Config.from_dict(renamed) == family.Config.from_dict(published)


BOTH = [
    ({"model_type": "llama"}, "model_type: expected '.*', got 'llama'"),
    ({"architectures": ["LlamaForCausalLM"]}, r"architectures: expected one of .* got \['LlamaForCausalLM'\]"),
    ({"hidden_size": 0}, "hidden_size: expected a positive integer, got 0"),
    ({"vocab_size": True}, "vocab_size: expected a positive integer, got True"),
    ({"hidden_act": "gelu"}, "hidden_act: expected 'silu' .*, got 'gelu'"),
    ({"attention_bias": True}, "attention_bias: expected False .*, got True"),
    ({"num_key_value_heads": 4}, r"num_key_value_heads: expected \d+ .*, got 4"),
    ({"moe_layer_freq": 2}, "moe_layer_freq: expected 1 .*, got 2"),
    ({"rms_norm_eps": -1}, "rms_norm_eps: expected a positive number, got -1"),
    ({"num_hidden_layers": None}, "num_hidden_layers: missing"),
    ({"num_hidden_layers": 5000}, "num_hidden_layers: expected at most 4096, got 5000"),
    ({"first_k_dense_replace": None}, "first_k_dense_replace: missing"),
    ({"first_k_dense_replace": -1}, "first_k_dense_replace: expected an integer >= 0, got -1"),
    ({"mlp_layer_types": ["dense"]}, r"mlp_layer_types: expected num_hidden_layers=\d+ entries, got 1"),
    ({"layer_types": 3}, "layer_types: expected a list, got 3"),
    ({"num_shared_experts": -1}, "num_shared_experts: expected an integer >= 0, got -1"),
    ({"q_lora_rank": 0}, "q_lora_rank: expected a positive integer, got 0"),
    ({"topk_group": 99}, r"topk_group: expected at most num_expert_group=\d, got 99"),
    ({"num_experts": 7, "topk_group": 1, "num_expert_group": 2}, "num_experts: expected a multiple of num_expert_group=2, got 7"),
    ({"tie_word_embeddings": "no"}, "tie_word_embeddings: expected true or false, got 'no'"),
    ({"eos_token_id": "</s>"}, "eos_token_id: expected an integer or a list of them, got '</s>'"),
    ({"scoring_func": "softmax"}, "scoring_func: expected 'sigmoid' .*, got 'softmax'"),
    ({"kv_lora_rank": None}, "kv_lora_rank: missing"),
]


@pytest.mark.parametrize(("change", "message"), BOTH, ids=[f"{'-'.join(change)}-{i}" for i, (change, _) in enumerate(BOTH)])
@pytest.mark.parametrize(("family", "published"), [(kimi_linear, KIMI), (ling3, LING)], ids=["kimi_linear", "ling3"])
def test_a_wrong_value_is_named_with_what_was_expected(family, published, change, message):
    with pytest.raises(ValueError, match=f"config {message}"):
        family.Config.from_dict(published | change)


NESTED = KIMI["linear_attn_config"]
OWN = [
    (kimi_linear, KIMI, {"mla_use_nope": False}, "mla_use_nope: expected True .*, got False"),
    (kimi_linear, KIMI, {"moe_router_activation_func": "softmax"}, "moe_router_activation_func: expected 'sigmoid' .*'softmax'"),
    (kimi_linear, KIMI, {"linear_attn_config": None}, "linear_num_heads: missing"),
    (kimi_linear, KIMI, {"linear_attn_config": 3}, "linear_attn_config: expected a mapping, got 3"),
    (
        kimi_linear,
        KIMI,
        {"linear_attn_config": {**NESTED, "full_attn_layers": None}},
        r"layer_types: missing \(or linear_attn_config.full_attn_layers\)",
    ),
    (
        kimi_linear,
        KIMI,
        {"linear_attn_config": {**NESTED, "full_attn_layers": [0, 4]}},
        r"linear_attn_config.full_attn_layers: expected different layers from 1 to 27, got \[0, 4\]",
    ),
    (
        kimi_linear,
        KIMI,
        {"linear_attn_config": {**NESTED, "kda_layers": [1, 2]}},
        r"linear_attn_config.kda_layers: expected \[1, 2, 3, 5,.*, got \[1, 2\]",
    ),
    (ling3, LING, {"kda_safe_gate": None}, "kda_safe_gate: missing"),
    (ling3, LING, {"kda_safe_gate": 1}, "kda_safe_gate: expected true or false, got 1"),
    (ling3, LING, {"kda_lower_bound": None}, "kda_lower_bound: missing"),
    (ling3, LING, {"kda_lower_bound": 5}, "kda_lower_bound: expected a negative number, got 5"),
    (ling3, LING, {"no_kda_lora": False}, "no_kda_lora: expected True .*, got False"),
    (ling3, LING, {"num_hidden_layers": 22}, "num_hidden_layers: expected a multiple of layer_group_size=4, got 22"),
    (ling3, LING, {"rope_theta": None}, "rope_parameters.rope_theta: missing"),
    (ling3, LING, {"rope_scaling": {"type": "yarn"}}, "rope_parameters.rope_type: expected 'default', got 'yarn'"),
    (ling3, LING, {"expert_swiglu_limit_list": [0, 7.0]}, r"expert_swiglu_limit_list: expected no limits .* got \[0, 7.0\]"),
    (ling3, LING, {"gated_attention_proj_granularity_type": "element"}, "granularity_type: expected 'head_wise' .*'element'"),
    (ling3, LING, {"qk_rope_head_dim": 63}, "qk_rope_head_dim: expected an even number of rotated dims, got 63"),
]


@pytest.mark.parametrize(
    ("family", "published", "change", "message"), OWN, ids=[f"{next(iter(o[2]))}-{i}" for i, o in enumerate(OWN)]
)
def test_a_familys_own_keys_are_held_to_what_is_modelled(family, published, change, message):
    with pytest.raises(ValueError, match=message):
        family.Config.from_dict(published | change)
