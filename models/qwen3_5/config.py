"""The shape of a Qwen3.5 text model, as a frozen value.

Built from a Hugging Face config.json: of the text model alone, or of the multimodal model with its nested text_config.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

from hajax.models._config import (
    FULL,
    LINEAR,
    check_counts,
    check_flags,
    check_kinds,
    check_numbers,
    layer_count,
    listed_kinds,
    positive,
    refuse_others,
    require,
    rope_of,
    token_entry,
    token_ids,
)
from hajax.models._json import read_json

__all__ = ["FULL", "LINEAR", "Config"]

MODEL_TYPES = ("qwen3_5", "qwen3_5_text")
ARCHITECTURES = ("Qwen3_5ForCausalLM", "Qwen3_5ForConditionalGeneration")

_COUNTS = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "linear_num_key_heads",
    "linear_num_value_heads",
    "linear_key_head_dim",
    "linear_value_head_dim",
    "linear_conv_kernel_dim",
    "max_position_embeddings",
)
_NUMBERS = ("rms_norm_eps", "rope_theta", "partial_rotary_factor")


@dataclasses.dataclass(frozen=True, slots=True)
class Config:
    """One field a size, under its config.json name. `layer_types` has one of LINEAR, FULL for each layer."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    layer_types: tuple[str, ...]
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    linear_num_key_heads: int
    linear_num_value_heads: int
    linear_key_head_dim: int
    linear_value_head_dim: int
    linear_conv_kernel_dim: int = 4
    max_position_embeddings: int = 262144
    rms_norm_eps: float = 1e-6
    rope_theta: float = 1e7
    partial_rotary_factor: float = 0.25
    tie_word_embeddings: bool = False
    eos_token_ids: tuple[int, ...] = ()
    initializer_range: float = 0.02

    def __post_init__(self) -> None:
        check_counts(self, _COUNTS)
        check_numbers(self, (*_NUMBERS, "initializer_range"))
        check_flags(self, ("tie_word_embeddings",))
        check_kinds("layer_types", self.layer_types, (LINEAR, FULL))
        for many, few in (
            ("num_attention_heads", "num_key_value_heads"),
            ("linear_num_value_heads", "linear_num_key_heads"),
        ):
            if getattr(self, many) % getattr(self, few):
                raise ValueError(f"config {many}: expected a multiple of {few}={getattr(self, few)}, got {getattr(self, many)}")
        if self.rotary_dim % 2 or not 0 < self.rotary_dim <= self.head_dim:
            raise ValueError(
                f"config partial_rotary_factor: expected an even number of rotated dims within head_dim="
                f"{self.head_dim}, got {self.partial_rotary_factor} x {self.head_dim} = {self.rotary_dim}"
            )
        token_ids(self.eos_token_ids, "config eos_token_id")

    @property
    def num_hidden_layers(self) -> int:
        return len(self.layer_types)

    @property
    def key_dim(self) -> int:
        return self.linear_num_key_heads * self.linear_key_head_dim

    @property
    def value_dim(self) -> int:
        return self.linear_num_value_heads * self.linear_value_head_dim

    @property
    def conv_dim(self) -> int:
        return 2 * self.key_dim + self.value_dim

    @property
    def rotary_dim(self) -> int:
        return int(self.head_dim * self.partial_rotary_factor)

    @classmethod
    def from_json(cls, path: str | os.PathLike[str]) -> Config:
        """Reads a config.json, or the config.json of a folder."""
        return cls.from_dict(read_json(path))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Config:
        """Reads the mapping of a config.json; raises ValueError naming the key, what was expected and what came."""
        model_type = data.get("model_type")
        if model_type not in MODEL_TYPES:
            raise ValueError(f"config model_type: expected one of {', '.join(MODEL_TYPES)}, got {model_type!r}")
        named = data.get("architectures") or ARCHITECTURES
        if not isinstance(named, (list, tuple)) or not any(name in ARCHITECTURES for name in named):
            raise ValueError(f"config architectures: expected one of {', '.join(ARCHITECTURES)}, got {named!r}")
        text = data
        if "text_config" in data:
            text = data["text_config"]
            if not isinstance(text, Mapping):
                raise ValueError(f"config text_config: expected a mapping, got {type(text).__name__}")
            if text.get("model_type", "qwen3_5_text") not in MODEL_TYPES:
                raise ValueError(f"config text_config.model_type: expected 'qwen3_5_text', got {text.get('model_type')!r}")
        elif model_type == "qwen3_5" and "vocab_size" not in data:
            raise ValueError("config text_config: missing (a qwen3_5 config nests the text model's keys there)")
        refuse_others(text, {"hidden_act": "silu", "attention_bias": False, "attn_output_gate": True})
        rope = rope_of(text, ("default", "mrope"))  # text positions are equal on all three axes, so mrope is plain rotary
        rotated = rope.get("partial_rotary_factor", text.get("partial_rotary_factor"))
        if rotated is None:
            raise ValueError("config rope_parameters.partial_rotary_factor: missing")
        tied = text.get("tie_word_embeddings", data.get("tie_word_embeddings", False))
        if text is not data and "tie_word_embeddings" in data:
            tied = data["tie_word_embeddings"]  # the whole model's class ties by its own, outer key
        needed = [name for name in _COUNTS if name not in ("linear_conv_kernel_dim", "max_position_embeddings")]
        require(text, (*needed, "max_position_embeddings", "rms_norm_eps"))
        eos = text.get("eos_token_id", data.get("eos_token_id"))
        return cls(
            **{name: text[name] for name in needed},
            layer_types=_layer_types(text),
            linear_conv_kernel_dim=text.get("linear_conv_kernel_dim", 4),
            max_position_embeddings=text["max_position_embeddings"],
            rms_norm_eps=text["rms_norm_eps"],
            rope_theta=rope["rope_theta"],
            partial_rotary_factor=rotated,
            tie_word_embeddings=tied,
            eos_token_ids=token_ids(eos, "config eos_token_id"),
            initializer_range=text.get("initializer_range", 0.02),
        )

    def to_dict(self, dtype: str = "float32") -> dict[str, Any]:
        """The config.json of the text-only layout, readable by `from_dict` and by transformers."""
        sizes = {name: getattr(self, name) for name in _COUNTS}
        section = [self.rotary_dim // 2 - 2 * (self.rotary_dim // 6), self.rotary_dim // 6, self.rotary_dim // 6]
        return {
            "architectures": ["Qwen3_5ForCausalLM"],
            "model_type": "qwen3_5_text",
            "attention_bias": False,
            "dtype": dtype,
            "eos_token_id": token_entry(self.eos_token_ids),
            "hidden_act": "silu",
            "initializer_range": self.initializer_range,
            "layer_types": list(self.layer_types),
            "num_hidden_layers": self.num_hidden_layers,
            "rms_norm_eps": self.rms_norm_eps,
            "rope_parameters": {
                "mrope_interleaved": True,
                "mrope_section": section,
                "partial_rotary_factor": self.partial_rotary_factor,
                "rope_theta": self.rope_theta,
                "rope_type": "default",
            },
            "tie_word_embeddings": self.tie_word_embeddings,
            **sizes,
        }


def _layer_types(text: Mapping[str, Any]) -> tuple[str, ...]:
    count = layer_count(text)
    listed = listed_kinds(text, "layer_types", count)
    if listed is not None:
        return listed
    if count is None or text.get("full_attention_interval") is None:
        name = "num_hidden_layers" if count is None else "layer_types"
        raise ValueError(f"config {name}: missing (layer_types, or num_hidden_layers and full_attention_interval)")
    interval = positive(text, "full_attention_interval")
    return tuple(LINEAR if (index + 1) % interval else FULL for index in range(count))
