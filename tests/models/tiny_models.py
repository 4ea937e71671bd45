"""Small random models, and the programs that several tests share (compiling is what takes time here)."""

import functools
import os
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from hajax.models import _weights, kimi_linear, ling3, qwen3_5
from hajax.models.kda_mla.config import DENSE, SPARSE
from hajax.models.kda_mla.weights import records as kda_mla_records
from hajax.models.qwen3_5.config import FULL, LINEAR
from hajax.models.qwen3_5.weights import records as qwen_records

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = Path(os.environ.get("HAJAX_GOLDEN", ROOT.parent / "shared" / "golden"))

# Large initial weights: with the usual 0.02 a small random model's layers hardly matter, and a wrong one would not show.
TINY = qwen3_5.Config(
    vocab_size=61,
    hidden_size=32,
    intermediate_size=48,
    layer_types=(LINEAR, FULL, LINEAR),
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=16,
    linear_num_key_heads=2,
    linear_num_value_heads=6,
    linear_key_head_dim=8,
    linear_value_head_dim=16,
    max_position_embeddings=256,
    partial_rotary_factor=0.25,
    tie_word_embeddings=False,
    initializer_range=0.2,
)


HYBRID = {
    "vocab_size": 61,
    "hidden_size": 32,
    "intermediate_size": 48,
    "layer_types": (LINEAR, FULL, LINEAR),
    "mlp_layer_types": (DENSE, SPARSE, SPARSE),
    "num_attention_heads": 3,
    "kv_lora_rank": 24,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 4,
    "v_head_dim": 6,
    "linear_num_heads": 3,
    "linear_head_dim": 16,
    "num_experts": 8,
    "num_experts_per_token": 3,
    "moe_intermediate_size": 20,
    "max_position_embeddings": 256,
    "initializer_range": 0.2,
}
TINY_KIMI = kimi_linear.Config(
    **HYBRID, q_lora_rank=None, gate_rank=16, rms_norm_eps=1e-5, routed_scaling_factor=2.446, num_shared_experts=2
)
TINY_LING = ling3.Config(
    **HYBRID,
    q_lora_rank=10,
    num_expert_group=4,
    topk_group=2,
    routed_scaling_factor=2.5,
    kda_lower_bound=-5.0,
    rope_theta=1e4,
    head_gate=True,
)
TINIES = {"qwen3_5": TINY, "kimi_linear": TINY_KIMI, "ling3": TINY_LING}
_FAMILIES = {
    qwen3_5.Config: (qwen3_5, qwen_records),
    kimi_linear.Config: (kimi_linear, kda_mla_records),
    ling3.Config: (ling3, kda_mla_records),
}


def family_of(config):
    return _FAMILIES[type(config)][0]


def records_of(config):
    return _FAMILIES[type(config)][1](config)


def random_params(config, seed, dtype=np.float32):
    """Drawn by numpy (compiling `init` takes longer than most tests), norms off their start so that a missing 1 + w shows."""
    generator = np.random.default_rng(seed)
    leaves = []
    for record in _weights.leaves_of(records_of(config)):
        if record.name.endswith("A_log"):
            leaf = np.log(generator.uniform(1, 16, record.shape))
        elif record.name.endswith("dt_bias"):
            leaf = generator.uniform(-7, 0, record.shape)
        elif record.wide and len(record.shape) == 1:
            plain = not isinstance(config, qwen3_5.Config) and record.name.endswith("norm.weight")
            leaf = generator.uniform(-0.3, 0.3, record.shape) + (plain or record.name.endswith("linear_attn.norm.weight"))
        else:
            leaf = generator.normal(0, config.initializer_range * (2 if "conv1d" in record.name else 1), record.shape)
        leaves.append(jnp.asarray(leaf, np.float32 if record.wide else dtype))
    return _weights.fill(records_of(config), leaves)


def quick_jit(function):
    """For what a function means, not how fast it is: compiles in half the time or less. Models are tested as users run them."""
    return jax.jit(function, compiler_options={"xla_backend_optimization_level": 0})


@functools.cache
def programs(config, implementation=None):
    """(prefill of all logits, of last logits, decode), jitted, for a config."""
    chosen, family = {"implementation": implementation}, family_of(config)
    return (
        quick_jit(lambda p, t, c, n=None: family.prefill(p, config, t, c, lengths=n, logits="all", **chosen)),
        quick_jit(lambda p, t, c, n=None: family.prefill(p, config, t, c, lengths=n, **chosen)),
        quick_jit(lambda p, t, c: family.decode(p, config, t, c, **chosen)),
    )


def draw(seed, *shape, vocab=TINY.vocab_size):
    return np.random.default_rng(seed).integers(0, vocab, shape, dtype=np.int32)


def assert_same(found, expected, within=2e-4):
    """Per element and finite."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found, expected, rtol=within, atol=within)


def assert_same_cache(found, expected, rows=slice(None), within=2e-4):
    """Positions, conv inputs and recurrent states equal; keys and values equal where they are valid."""
    assert np.array_equal(found.lengths[rows], np.asarray(expected.lengths))
    for one, other in zip(found.layers, expected.layers, strict=True):
        if hasattr(one, "state"):
            assert_same(one.conv[rows], other.conv, within)
            assert_same(one.state[rows], other.state, within)
        else:
            for row, length in enumerate(np.asarray(expected.lengths)):
                for mine, theirs in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
                    assert_same(mine[rows][row, :length], theirs[row, :length], within)
