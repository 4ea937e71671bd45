"""`python _model_weights.py FOLDER LAYERS DTYPE SIZE` writes random weights in Hugging Face layout and ends, memory and all."""

import sys

import jax
import jax.numpy as jnp
from hajax.models import qwen3_5
from hajax.models.qwen3_5.config import FULL, LINEAR

_SIZES = {
    "0.8B": {
        "vocab_size": 248320, "hidden_size": 1024, "intermediate_size": 3584, "num_attention_heads": 8, "num_key_value_heads": 2,
        "head_dim": 256, "linear_num_key_heads": 16, "linear_num_value_heads": 16, "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
    },
    "tiny": {
        "vocab_size": 320, "hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 32, "linear_num_key_heads": 4, "linear_num_value_heads": 4, "linear_key_head_dim": 16,
        "linear_value_head_dim": 16,
    },
}  # fmt: skip


def config_of(size: str, layers: int) -> qwen3_5.Config:
    kinds = tuple(LINEAR if (index + 1) % 4 else FULL for index in range(layers))
    return qwen3_5.Config(layer_types=kinds, tie_word_embeddings=True, **_SIZES[size])


def main() -> None:
    folder, layers, dtype, size = sys.argv[1:]
    config = config_of(size, int(layers))
    params = qwen3_5.init(config, jax.random.key(0), jnp.dtype(dtype))
    qwen3_5.save(folder, params, config)


if __name__ == "__main__":
    main()
