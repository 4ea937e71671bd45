"""The same weights through transformers: tiny random models of each family, in odd shapes and patterns."""

import dataclasses
import functools
import json

import hajax.models
import numpy as np
import pytest
from hajax.models.kda_mla.config import DENSE, SPARSE
from hajax.models.qwen3_5.config import FULL, LINEAR
from tiny_models import TINIES, draw, family_of, quick_jit, random_params

pytestmark = pytest.mark.torch
TOKENS = 70

QWEN = {
    "as it is": {},
    "one value head a key head": {"linear_num_value_heads": 2, "linear_key_head_dim": 16},
    "two value heads a key head": {"linear_num_value_heads": 4},
    "three value heads a key head": {"linear_num_value_heads": 6, "linear_key_head_dim": 24, "linear_value_head_dim": 8},
    "tied, attention first": {"tie_word_embeddings": True, "layer_types": (FULL, LINEAR, LINEAR, FULL)},
    "one key-value head, half rotary": {"num_key_value_heads": 1, "partial_rotary_factor": 0.5, "linear_conv_kernel_dim": 3},
}
S, D = SPARSE, DENSE
HYBRID = {
    "as it is": {},
    "attention first and last": {"layer_types": (FULL, LINEAR, FULL), "mlp_layer_types": (S, D, S)},
    "attention last": {"layer_types": (LINEAR, LINEAR, FULL), "mlp_layer_types": (D, S, S)},
    "no KDA": {"layer_types": (FULL, FULL), "mlp_layer_types": (S, S)},
    "one head": {"num_attention_heads": 1, "linear_num_heads": 1},
    "four heads of 32": {"num_attention_heads": 4, "linear_num_heads": 4, "linear_head_dim": 32, "gate_rank": 32},
    "three taps": {"linear_conv_kernel_dim": 3},
    "low-rank queries": {"q_lora_rank": 12},
    "whole queries": {"q_lora_rank": None},
    "a large latent": {"kv_lora_rank": 64, "v_head_dim": 16, "qk_rope_head_dim": 8},
    "many experts": {"num_experts": 32, "num_experts_per_token": 5},
    "all experts": {"num_experts": 4, "num_experts_per_token": 4, "num_expert_group": 2, "topk_group": 2},
    "one expert, its own weight": {"num_experts_per_token": 1, "moe_renormalize": False},
    "three shared experts": {"num_shared_experts": 3},
}
ONE = {
    ("ling3", "unbounded decay"): {"kda_lower_bound": None},
    ("ling3", "a closer bound"): {"kda_lower_bound": -1.5},
    ("ling3", "one group"): {"num_expert_group": 1, "topk_group": 1},
    ("kimi_linear", "two of four groups"): {"num_expert_group": 4, "topk_group": 2},
}
CASES = {
    **{("qwen3_5", case): change for case, change in QWEN.items()},
    **{(family, case): change for family in ("kimi_linear", "ling3") for case, change in HYBRID.items()},
    **ONE,
}
# Run with everything else; the others, of ten seconds and more each, where slow tests are.
QUICK = ("as it is", "attention first and last", "low-rank queries", "unbounded decay", "two of four groups", *QWEN)


def _marked(case):
    return pytest.param(*case, marks=[] if case[1] in QUICK else [pytest.mark.slow])


CLASSES = {"qwen3_5": "Qwen3_5ForCausalLM", "kimi_linear": "KimiLinearForCausalLM", "ling3": "BailingHybridForCausalLM"}


@functools.cache
def libraries():
    torch = pytest.importorskip("torch", reason="needs torch (the extra hajax[torch])")
    transformers = pytest.importorskip("transformers", reason="needs transformers (the extra hajax[torch])")
    if not hasattr(transformers, "Qwen3_5ForCausalLM"):
        pytest.skip(f"needs transformers with Qwen3.5, got {transformers.__version__}")
    torch.set_num_threads(2)
    return torch, transformers


def changed(name, change):
    """A family's tiny config with what of a change it has: Ling's gates are of full rank and its groups of at least two."""
    config = TINIES[name]
    if name == "ling3":
        change = {field: value for field, value in change.items() if field != "gate_rank"}
    return dataclasses.replace(config, **change)


@pytest.mark.parametrize(("name", "case"), [_marked(case) for case in CASES], ids=lambda part: part.replace(" ", "-"))
@pytest.mark.filterwarnings("ignore")  # of torch and transformers
def test_logits_and_greedy_tokens_equal_those_of_transformers(name, case, tmp_path):
    torch, transformers = libraries()
    config = changed(name, CASES[name, case])
    family = family_of(config)
    family.save(tmp_path, random_params(config, 3), config)
    theirs = getattr(transformers, CLASSES[name])
    theirs = theirs.from_pretrained(tmp_path, dtype=torch.float32, attn_implementation="eager").eval()
    tokens = draw(3, 2, TOKENS)
    with torch.no_grad():
        expected = theirs(torch.from_numpy(tokens).long()).logits.numpy()
        greedy = theirs.generate(
            torch.from_numpy(tokens).long(),
            attention_mask=torch.ones(tokens.shape, dtype=torch.long),
            max_new_tokens=6,
            do_sample=False,
            pad_token_id=0,
        ).numpy()[:, TOKENS:]
    model = hajax.models.load(tmp_path)
    assert np.abs(model.logits(tokens) - expected).max() <= 1e-3
    if case == "as it is":
        forward = quick_jit(functools.partial(family.forward, config=config, implementation="xla"))
        assert np.abs(forward(model.params, tokens=tokens) - expected).max() <= 1e-3
    assert model.generate(tokens, max_new_tokens=6).tolist() == greedy.tolist()


@pytest.mark.parametrize("name", TINIES)
@pytest.mark.filterwarnings("ignore")
def test_a_folder_that_transformers_wrote_reads_the_same(name, tmp_path):
    torch, transformers = libraries()
    config = TINIES[name]
    made = getattr(transformers, {"qwen3_5": "Qwen3_5TextConfig"}.get(name, CLASSES[name].replace("ForCausalLM", "Config")))
    described = made(**{k: v for k, v in config.to_dict().items() if k not in ("architectures", "dtype")})
    torch.manual_seed(0)
    theirs = getattr(transformers, CLASSES[name])(described).eval()
    theirs.save_pretrained(tmp_path)
    tokens = draw(4, 1, 17)
    with torch.no_grad():
        expected = theirs(torch.from_numpy(tokens).long()).logits.numpy()
    model = hajax.models.load(tmp_path)
    assert model.config.layer_types == config.layer_types, json.dumps(described.to_dict())
    assert np.abs(model.logits(tokens) - expected).max() <= 1e-3
