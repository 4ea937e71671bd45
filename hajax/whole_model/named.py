"""Models by name, and the prompt lengths of the published end-to-end runs.

Sizes are those of public config.json files and of transformers 5.24's config classes; notes say which where it matters.
"""

from hajax.whole_model.sizes import Attention, DeltaRule, Experts, FeedForward, LatentAttention, Layer, Mixer, Mlp, Model

# Shortest and longest input of each task, in tokens.
PROMPTS: dict[str, tuple[int, int]] = {
    "TriviaQA": (9813, 13717),
    "HotpotQA": (11003, 13407),
    "MMLU-Pro": (2099, 2267),
    "MMMU": (2138, 5621),
}

QWEN_VOCABULARY = 248320
TEXT_ONLY = "text model only: neither the vision tower nor the layer that predicts further tokens is counted"
NO_MTP = "the layer that predicts further tokens is not counted"
ROUTER = "the router's product is counted in fp16, as the cube takes nothing else; the model asks for fp32"


def _qwen(name: str, hidden: int, layers: int, width: int, heads: int, kv_heads: int, value_heads: int, tied: bool) -> Model:
    linear: Mixer = DeltaRule("gated_delta_rule", 16, value_heads, 128, 128, conv_taps=4)
    full: Mixer = Attention(heads, kv_heads, head_dim=256, rotated=64)
    pattern = tuple(Layer(full if number % 4 == 3 else linear, Mlp(width)) for number in range(layers))
    return Model(name, hidden, QWEN_VOCABULARY, tied, pattern, (TEXT_ONLY,))


def _kimi_linear() -> Model:
    linear: Mixer = DeltaRule("kda", 32, 32, 128, 128, conv_taps=4, gate_rank=128)
    full: Mixer = LatentAttention(32, None, 512, 128, 64, 128, rotates=False, head_gate=False)
    dense: FeedForward = Mlp(9216)
    sparse: FeedForward = Experts(256, 8, shared=1, width=1024)
    full_layers = (4, 8, 12, 16, 20, 24, 27)  # from one; the last breaks the period
    pattern = tuple(Layer(full if number in full_layers else linear, dense if number == 1 else sparse) for number in range(1, 28))
    return Model("Kimi-Linear-48B-A3B", 2304, 163840, False, pattern)


def _ling(
    name: str, hidden: int, layers: int, group: int, heads: int, query_rank: int | None, experts: Experts, dense_width: int,
    dense_layers: int, notes: tuple[str, ...],
) -> Model:  # fmt: skip
    linear: Mixer = DeltaRule("kda", heads, heads, 128, 128, conv_taps=4, bounded=True)
    full: Mixer = LatentAttention(heads, query_rank, 512, 128, 64, 128, rotates=True, head_gate=True)
    dense: FeedForward = Mlp(dense_width)
    pattern = tuple(
        Layer(full if (number + 1) % group == 0 else linear, dense if number < dense_layers else experts)
        for number in range(layers)
    )
    return Model(name, hidden, 157184, False, pattern, notes)


MODELS: dict[str, Model] = {
    model.name: model
    for model in (
        _qwen("Qwen3.5-0.8B", 1024, 24, 3584, 8, 2, 16, tied=True),
        _qwen("Qwen3.5-2B", 2048, 24, 6144, 8, 2, 16, tied=True),
        _qwen("Qwen3.5-4B", 2560, 32, 9216, 16, 4, 32, tied=True),
        _qwen("Qwen3.5-9B", 4096, 32, 12288, 16, 4, 32, tied=False),
        _kimi_linear(),
        _ling(
            "Ling-3.0-tiny", 1536, 24, 4, 16, 256, Experts(128, 8, shared=1, width=512), 4608, 1,
            (NO_MTP, ROUTER, "sizes as mlx-lm has them; no config.json of the checkpoint was at hand"),
        ),
        _ling(
            "Ling-3.0-Flash", 2560, 42, 6, 32, None, Experts(512, 8, shared=1, width=768), 6144, 2,
            (NO_MTP, ROUTER, "sizes are the defaults of transformers 5.24's config class, which is written for this model; no "
             "config.json of the checkpoint was at hand"),
        ),
    )
}  # fmt: skip


def model_named(name: str) -> Model:
    """The model of this name, in any case. Raises ValueError listing the names that there are."""
    for known, model in MODELS.items():
        if known.lower() == name.lower():
            return model
    raise ValueError(f"--model-config: expected a config.json, a folder with one, or one of {', '.join(MODELS)}, got {name!r}")
