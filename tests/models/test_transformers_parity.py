"""The same weights through transformers: tiny random models with value heads 1, 2 and 3 to a key head, and odd shapes."""

import dataclasses
import functools
import json

import hajax.models
import jax
import numpy as np
import pytest
from hajax.models import qwen3_5
from hajax.models.qwen3_5.config import FULL, LINEAR
from tiny_models import TINY, draw, random_params

pytestmark = [pytest.mark.torch, pytest.mark.slow]
TOKENS = 70

CASES = {
    "one value head a key head": {"linear_num_value_heads": 2, "linear_key_head_dim": 16},
    "two value heads a key head": {"linear_num_value_heads": 4},
    "three value heads a key head": {"linear_num_value_heads": 6, "linear_key_head_dim": 24, "linear_value_head_dim": 8},
    "tied, attention first": {"tie_word_embeddings": True, "layer_types": (FULL, LINEAR, LINEAR, FULL)},
    "one key-value head, half rotary": {"num_key_value_heads": 1, "partial_rotary_factor": 0.5, "linear_conv_kernel_dim": 3},
}


@functools.cache
def libraries():
    torch = pytest.importorskip("torch", reason="needs torch (the extra hajax[torch])")
    transformers = pytest.importorskip("transformers", reason="needs transformers (the extra hajax[torch])")
    if not hasattr(transformers, "Qwen3_5ForCausalLM"):
        pytest.skip(f"needs transformers with Qwen3.5, got {transformers.__version__}")
    torch.set_num_threads(2)
    return torch, transformers


@pytest.mark.parametrize("case", CASES)
@pytest.mark.filterwarnings("ignore")  # of torch and transformers
def test_logits_and_greedy_tokens_equal_those_of_transformers(case, tmp_path):
    torch, transformers = libraries()
    config = dataclasses.replace(TINY, **CASES[case])
    qwen3_5.save(tmp_path, random_params(config, 3), config)
    theirs = transformers.Qwen3_5ForCausalLM.from_pretrained(tmp_path, dtype=torch.float32, attn_implementation="eager").eval()
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
    forward = jax.jit(functools.partial(qwen3_5.forward, config=config, implementation="xla"))
    model = hajax.models.load(tmp_path)
    for found in (model.logits(tokens), forward(model.params, tokens=tokens)):
        assert np.abs(found - expected).max() <= 1e-3
    assert model.generate(tokens, max_new_tokens=6).tolist() == greedy.tolist()


@pytest.mark.filterwarnings("ignore")
def test_a_folder_that_transformers_wrote_reads_the_same(tmp_path):
    torch, transformers = libraries()
    described = transformers.Qwen3_5TextConfig(**{k: v for k, v in TINY.to_dict().items() if k not in ("architectures", "dtype")})
    torch.manual_seed(0)
    theirs = transformers.Qwen3_5ForCausalLM(described).eval()
    theirs.save_pretrained(tmp_path)
    tokens = draw(4, 1, 17)
    with torch.no_grad():
        expected = theirs(torch.from_numpy(tokens).long()).logits.numpy()
    model = hajax.models.load(tmp_path)
    assert model.config.layer_types == TINY.layer_types, json.dumps(described.to_dict())
    assert np.abs(model.logits(tokens) - expected).max() <= 1e-3
