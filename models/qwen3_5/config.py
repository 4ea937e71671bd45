"""The shape of a Qwen3.5 text model, as a frozen value.

Built from a Hugging Face config.json: of the text model alone, or of the multimodal model with its nested text_config.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

from hajax.models._json import read_json

LINEAR = "linear_attention"
FULL = "full_attention"
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
        for name in _COUNTS:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"config {name}: expected a positive integer, got {value!r}")
        for name in (*_NUMBERS, "initializer_range"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
                raise ValueError(f"config {name}: expected a positive number, got {value!r}")
        if not isinstance(self.tie_word_embeddings, bool):
            raise ValueError(f"config tie_word_embeddings: expected true or false, got {self.tie_word_embeddings!r}")
        if not self.layer_types:
            raise ValueError("config layer_types: expected at least one layer, got none")
        for index, kind in enumerate(self.layer_types):
            if kind not in (LINEAR, FULL):
                raise ValueError(f"config layer_types[{index}]: expected {LINEAR!r} or {FULL!r}, got {kind!r}")
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
        _refuse_unsupported(text)
        rope = _rope(text)
        tied = text.get("tie_word_embeddings", data.get("tie_word_embeddings", False))
        if text is not data and "tie_word_embeddings" in data:
            tied = data["tie_word_embeddings"]  # the whole model's class ties by its own, outer key
        needed = [name for name in _COUNTS if name not in ("linear_conv_kernel_dim", "max_position_embeddings")]
        missing = [name for name in (*needed, "max_position_embeddings", "rms_norm_eps") if name not in text]
        if missing:
            raise ValueError(f"config {missing[0]}: missing (all missing keys: {', '.join(missing)})")
        eos = text.get("eos_token_id", data.get("eos_token_id"))
        return cls(
            **{name: text[name] for name in needed},
            layer_types=_layer_types(text),
            linear_conv_kernel_dim=text.get("linear_conv_kernel_dim", 4),
            max_position_embeddings=text["max_position_embeddings"],
            rms_norm_eps=text["rms_norm_eps"],
            rope_theta=rope["rope_theta"],
            partial_rotary_factor=rope["partial_rotary_factor"],
            tie_word_embeddings=tied,
            eos_token_ids=token_ids(eos, "config eos_token_id"),
            initializer_range=text.get("initializer_range", 0.02),
        )

    def to_dict(self, dtype: str = "float32") -> dict[str, Any]:
        """The config.json of the text-only layout, readable by `from_dict` and by transformers."""
        eos: int | list[int] | None = list(self.eos_token_ids) or None
        if len(self.eos_token_ids) == 1:
            eos = self.eos_token_ids[0]
        sizes = {name: getattr(self, name) for name in _COUNTS}
        section = [self.rotary_dim // 2 - 2 * (self.rotary_dim // 6), self.rotary_dim // 6, self.rotary_dim // 6]
        return {
            "architectures": ["Qwen3_5ForCausalLM"],
            "model_type": "qwen3_5_text",
            "attention_bias": False,
            "dtype": dtype,
            "eos_token_id": eos,
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


def token_ids(value: Any, name: str) -> tuple[int, ...]:
    """An eos_token_id entry (absent, one id, or a list) as a tuple. Raises ValueError that begins with `name`."""
    if value is None:
        return ()
    found = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    for token in found:
        if isinstance(token, bool) or not isinstance(token, int):
            raise ValueError(f"{name}: expected an integer or a list of them, got {token!r}")
    return found


_MOST_LAYERS = 4096  # a list is made of them


def _layer_types(text: Mapping[str, Any]) -> tuple[str, ...]:
    count = text.get("num_hidden_layers")
    if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 1):
        raise ValueError(f"config num_hidden_layers: expected a positive integer, got {count!r}")
    if text.get("layer_types") is not None:
        kinds = text["layer_types"]
        if not isinstance(kinds, (list, tuple)):
            raise ValueError(f"config layer_types: expected a list, got {kinds!r}")
        if count is not None and len(kinds) != count:
            raise ValueError(f"config layer_types: expected num_hidden_layers={count} entries, got {len(kinds)}")
        return tuple(kinds)
    interval = text.get("full_attention_interval")
    if count is None or interval is None:
        name = "num_hidden_layers" if count is None else "layer_types"
        raise ValueError(f"config {name}: missing (layer_types, or num_hidden_layers and full_attention_interval)")
    if isinstance(interval, bool) or not isinstance(interval, int) or interval < 1:
        raise ValueError(f"config full_attention_interval: expected a positive integer, got {interval!r}")
    if count > _MOST_LAYERS:
        raise ValueError(f"config num_hidden_layers: expected at most {_MOST_LAYERS}, got {count}")
    return tuple(LINEAR if (index + 1) % interval else FULL for index in range(count))


def _rope(text: Mapping[str, Any]) -> dict[str, Any]:
    rope = text.get("rope_parameters") or text.get("rope_scaling") or {}
    if not isinstance(rope, Mapping):
        raise ValueError(f"config rope_parameters: expected a mapping, got {rope!r}")
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind not in ("default", "mrope"):  # text positions are equal on all three axes, so mrope is plain rotary
        raise ValueError(f"config rope_parameters.rope_type: expected 'default', got {kind!r}")
    theta = rope.get("rope_theta", text.get("rope_theta"))
    if theta is None:
        raise ValueError("config rope_parameters.rope_theta: missing")
    factor = rope.get("partial_rotary_factor", text.get("partial_rotary_factor"))
    if factor is None:
        raise ValueError("config rope_parameters.partial_rotary_factor: missing")
    return {"rope_theta": theta, "partial_rotary_factor": factor}


def _refuse_unsupported(text: Mapping[str, Any]) -> None:
    for name, expected in (("hidden_act", "silu"), ("attention_bias", False), ("attn_output_gate", True)):
        if text.get(name, expected) != expected:
            raise ValueError(f"config {name}: expected {expected!r} (nothing else is supported), got {text[name]!r}")
