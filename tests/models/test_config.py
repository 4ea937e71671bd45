"""Config: what is read, what is refused and with which words."""

import dataclasses
import json

import pytest
from hajax.models.qwen3_5.config import FULL, LINEAR, Config
from tiny_models import TINY


@pytest.fixture
def described():
    return TINY.to_dict()


def test_a_written_config_reads_back_equal(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(TINY.to_dict()))
    assert Config.from_json(tmp_path) == Config.from_json(tmp_path / "config.json") == TINY


def test_a_config_is_a_hashable_value():
    assert hash(dataclasses.replace(TINY)) == hash(TINY)
    with pytest.raises(dataclasses.FrozenInstanceError):
        TINY.hidden_size = 3


def test_the_nested_text_config_of_a_multimodal_checkpoint_reads_the_same(described):
    described.pop("architectures")
    whole = {
        "architectures": ["Qwen3_5ForConditionalGeneration"],
        "model_type": "qwen3_5",
        "text_config": described | {"tie_word_embeddings": True},
        "tie_word_embeddings": False,
        "vision_config": {"depth": 2},
        "image_token_id": 7,
    }
    assert Config.from_dict(whole) == TINY  # the outer tie_word_embeddings counts


def test_an_interval_stands_for_the_list_of_layer_types(described):
    del described["layer_types"]
    described |= {"num_hidden_layers": 6, "full_attention_interval": 3}
    assert Config.from_dict(described).layer_types == (LINEAR, LINEAR, FULL, LINEAR, LINEAR, FULL)


def test_older_rope_keys_are_read(described):
    rope = described.pop("rope_parameters")
    described |= {"rope_theta": rope["rope_theta"], "partial_rotary_factor": rope["partial_rotary_factor"]}
    assert Config.from_dict(described) == TINY


@pytest.mark.parametrize(("eos", "expected"), [(None, ()), (5, (5,)), ([5, 6], (5, 6))])
def test_end_tokens_are_absent_one_or_several(described, eos, expected):
    assert Config.from_dict(described | {"eos_token_id": eos}).eos_token_ids == expected


WRONG = [
    ({"model_type": "qwen3_5_moe"}, "model_type: expected one of qwen3_5, qwen3_5_text, got 'qwen3_5_moe'"),
    ({"model_type": None}, "model_type: expected one of .* got None"),
    ({"architectures": ["LlamaForCausalLM"]}, r"architectures: expected one of .* got \['LlamaForCausalLM'\]"),
    ({"architectures": 5}, r"architectures: expected one of .* got 5"),
    ({"hidden_size": 0}, "hidden_size: expected a positive integer, got 0"),
    ({"hidden_size": "32"}, "hidden_size: expected a positive integer, got '32'"),
    ({"vocab_size": True}, "vocab_size: expected a positive integer, got True"),
    ({"rms_norm_eps": -1}, "rms_norm_eps: expected a positive number, got -1"),
    ({"layer_types": [LINEAR, "sliding_attention", FULL]}, r"layer_types\[1\]: expected .* got 'sliding_attention'"),
    ({"layer_types": [LINEAR]}, "layer_types: expected num_hidden_layers=3 entries, got 1"),
    ({"layer_types": None, "full_attention_interval": 0}, "full_attention_interval: expected a positive integer, got 0"),
    ({"num_key_value_heads": 3}, "num_attention_heads: expected a multiple of num_key_value_heads=3, got 4"),
    ({"linear_num_key_heads": 4}, "linear_num_value_heads: expected a multiple of linear_num_key_heads=4, got 6"),
    ({"hidden_act": "gelu"}, "hidden_act: expected 'silu' .*, got 'gelu'"),
    ({"attention_bias": True}, "attention_bias: expected False .*, got True"),
    ({"attn_output_gate": False}, "attn_output_gate: expected True .*, got False"),
    ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1.0}}, "rope_type: expected 'default', got 'yarn'"),
    ({"rope_parameters": {"rope_theta": 1.0}}, "partial_rotary_factor: missing"),
    ({"text_config": 3}, "text_config: expected a mapping, got int"),
    ({"text_config": {"model_type": "llama"}}, "text_config.model_type: expected 'qwen3_5_text', got 'llama'"),
    ({"tie_word_embeddings": "no"}, "tie_word_embeddings: expected true or false, got 'no'"),
    ({"eos_token_id": "</s>"}, "eos_token_id: expected an integer or a list of them, got '</s>'"),
]


@pytest.mark.parametrize(("change", "message"), WRONG, ids=[next(iter(change)) + f"-{i}" for i, (change, _) in enumerate(WRONG)])
def test_a_wrong_value_is_named_with_what_was_expected(described, change, message):
    with pytest.raises(ValueError, match=message):
        Config.from_dict(described | change)


REQUIRED = ["vocab_size", "hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "head_dim"]
REQUIRED += ["linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim"]
REQUIRED += ["max_position_embeddings", "rms_norm_eps", "layer_types"]


@pytest.mark.parametrize("name", REQUIRED)
def test_a_missing_key_is_named(described, name):
    del described[name]
    with pytest.raises(ValueError, match=f"config {name}: missing"):
        Config.from_dict(described)


def test_a_multimodal_config_without_its_text_part_is_refused():
    with pytest.raises(ValueError, match="text_config: missing"):
        Config.from_dict({"model_type": "qwen3_5"})


@pytest.mark.parametrize(("text", "message"), [("{", "not valid JSON"), ("[]", "expected a JSON object, got list")])
def test_a_file_that_is_no_json_object_is_refused(tmp_path, text, message):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ValueError, match=message):
        Config.from_json(tmp_path)


def test_an_absent_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"config\.json: no such file"):
        Config.from_json(tmp_path)
