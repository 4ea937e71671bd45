"""The demo model's shape: what config.json says, and how many parameters that is, by Hugging Face key."""

from math import prod
from typing import Any

END_TOKEN, TURN_END_TOKEN = 0, 2  # training/tokenizer.py numbers the special tokens first


def demo_config(vocab_size: int = 2048) -> dict[str, Any]:
    """Qwen3.5's architecture at about 3.7 million parameters: 6 Gated DeltaNet layers, 2 of gated attention."""
    period = ["linear_attention"] * 3 + ["full_attention"]
    return {
        "architectures": ["Qwen3_5ForCausalLM"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": None,
        "dtype": "bfloat16",
        "eos_token_id": END_TOKEN,
        "head_dim": 64,
        "hidden_act": "silu",
        "hidden_size": 224,
        "initializer_range": 0.02,
        "intermediate_size": 256,
        "layer_types": period * 2,
        "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 32,
        "linear_num_key_heads": 4,
        "linear_num_value_heads": 8,
        "linear_value_head_dim": 32,
        "max_position_embeddings": 4096,
        "model_type": "qwen3_5_text",
        "num_attention_heads": 4,
        "num_hidden_layers": 8,
        "num_key_value_heads": 2,
        "pad_token_id": END_TOKEN,
        "rms_norm_eps": 1e-06,
        "rope_parameters": {
            "mrope_interleaved": True,
            "mrope_section": [4, 2, 2],
            "partial_rotary_factor": 0.25,
            "rope_theta": 10000000.0,
            "rope_type": "default",
        },
        "tie_word_embeddings": True,
        "transformers_version": "5.24.0",
        "use_cache": True,
        "vocab_size": vocab_size,
    }


def generation_config() -> dict[str, Any]:
    """generation_config.json: how the model card's example samples."""
    return {
        "do_sample": True,
        "eos_token_id": [END_TOKEN, TURN_END_TOKEN],
        "pad_token_id": END_TOKEN,
        "temperature": 0.8,
        "top_k": 50,
        "top_p": 0.95,
        "transformers_version": "5.24.0",
    }


def _mixer_shapes(config: dict[str, Any], kind: str) -> dict[str, tuple[int, ...]]:
    hidden = config["hidden_size"]
    if kind == "linear_attention":
        heads, width = config["linear_num_value_heads"], config["linear_value_head_dim"]
        values = heads * width
        mixed = 2 * config["linear_num_key_heads"] * config["linear_key_head_dim"] + values
        return {
            "linear_attn.in_proj_qkv.weight": (mixed, hidden),
            "linear_attn.in_proj_z.weight": (values, hidden),
            "linear_attn.in_proj_b.weight": (heads, hidden),
            "linear_attn.in_proj_a.weight": (heads, hidden),
            "linear_attn.conv1d.weight": (mixed, 1, config["linear_conv_kernel_dim"]),
            "linear_attn.A_log": (heads,),
            "linear_attn.dt_bias": (heads,),
            "linear_attn.norm.weight": (width,),
            "linear_attn.out_proj.weight": (hidden, values),
        }
    width = config["head_dim"]
    queries, keys = config["num_attention_heads"] * width, config["num_key_value_heads"] * width
    return {
        "self_attn.q_proj.weight": (2 * queries, hidden),  # the query and its output gate
        "self_attn.k_proj.weight": (keys, hidden),
        "self_attn.v_proj.weight": (keys, hidden),
        "self_attn.o_proj.weight": (hidden, queries),
        "self_attn.q_norm.weight": (width,),
        "self_attn.k_norm.weight": (width,),
    }


def tensor_shapes(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Every tensor of model.safetensors by its Hugging Face key."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (config["vocab_size"], hidden)}
    for number, kind in enumerate(config["layer_types"]):
        layer = _mixer_shapes(config, kind) | {
            "mlp.gate_proj.weight": (inner, hidden),
            "mlp.up_proj.weight": (inner, hidden),
            "mlp.down_proj.weight": (hidden, inner),
            "input_layernorm.weight": (hidden,),
            "post_attention_layernorm.weight": (hidden,),
        }
        shapes |= {f"model.layers.{number}.{name}": shape for name, shape in layer.items()}
    shapes["model.norm.weight"] = (hidden,)
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (config["vocab_size"], hidden)
    return shapes


def parameter_count(config: dict[str, Any]) -> int:
    """How many numbers the checkpoint holds."""
    return sum(prod(shape) for shape in tensor_shapes(config).values())
