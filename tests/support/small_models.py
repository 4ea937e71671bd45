"""A small random model of each family, as (module, config)."""

from hajax.models import kimi_linear, ling3, qwen3_5

SIZES = {
    "vocab_size": 32, "hidden_size": 32, "intermediate_size": 48, "layer_types": ("linear_attention", "full_attention"),
    "num_attention_heads": 2, "max_position_embeddings": 64,
}  # fmt: skip
LATENT = {
    "mlp_layer_types": ("dense", "sparse"), "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8,
    "linear_num_heads": 2, "linear_head_dim": 16, "num_experts": 4, "num_experts_per_token": 2, "moe_intermediate_size": 16,
    "q_lora_rank": None,
}  # fmt: skip
MODELS = {
    "qwen3_5": (qwen3_5, qwen3_5.Config(
        **SIZES, num_key_value_heads=1, head_dim=16, linear_num_key_heads=1, linear_num_value_heads=2, linear_key_head_dim=16,
        linear_value_head_dim=16,
    )),
    "kimi_linear": (kimi_linear, kimi_linear.Config(**SIZES, **LATENT, gate_rank=8)),
    "ling3": (ling3, ling3.Config(**SIZES, **LATENT, kda_lower_bound=-5.0, head_gate=True, rope_theta=1e4)),
}  # fmt: skip
