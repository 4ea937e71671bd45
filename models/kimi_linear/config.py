"""The shape of a Kimi Linear model, from a published config.json or from one that transformers wrote."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any, ClassVar

from hajax.models._config import FULL, LINEAR, listed_kinds, refuse_others, require, token_entry
from hajax.models._json import read_json
from hajax.models.kda_mla.config import HybridConfig, Names, check_family, common_entries, common_fields, counted_layers

MODEL_TYPE = "kimi_linear"
ARCHITECTURES = ("KimiLinearForCausalLM",)
_LINEAR_KEYS = {
    "linear_num_heads": "num_heads",
    "linear_head_dim": "head_dim",
    "linear_conv_kernel_dim": "short_conv_kernel_size",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Config(HybridConfig):
    """Gates of the head dim's rank, decays without a lower bound, latent attention without rotation."""

    NAMES: ClassVar[Names] = Names(
        embed="embed_tokens",
        mixer="self_attn",
        output="o_proj",
        dense="mlp",
        sparse="block_sparse_moe",
        router_bias="e_score_correction_bias",
        experts=("w1", "w3", "w2"),
        head_shaped=True,
    )

    @classmethod
    def from_json(cls, path: str | os.PathLike[str]) -> Config:
        """Reads a config.json, or the config.json of a folder."""
        return cls.from_dict(read_json(path))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Config:
        """Reads the mapping of a config.json; raises ValueError naming the key, what was expected and what came."""
        check_family(data, MODEL_TYPE, ARCHITECTURES)
        nested = data.get("linear_attn_config") or {}
        if not isinstance(nested, Mapping):
            raise ValueError(f"config linear_attn_config: expected a mapping, got {nested!r}")
        refuse_others(data, {"mla_use_nope": True, "moe_router_activation_func": "sigmoid", "num_nextn_predict_layers": 0})
        sizes = {name: nested.get(key, data.get(name)) for name, key in _LINEAR_KEYS.items()}
        require({name: size for name, size in sizes.items() if size is not None}, list(_LINEAR_KEYS))
        return cls(**common_fields(data), **sizes, gate_rank=sizes["linear_head_dim"], layer_types=_layer_types(data, nested))

    def to_dict(self, dtype: str = "float32") -> dict[str, Any]:
        """A config.json that `from_dict` and transformers read."""
        numbered = range(1, self.num_hidden_layers + 1)
        kinds = dict(zip(numbered, self.layer_types, strict=True))
        return {
            **common_entries(self, dtype),
            "architectures": list(ARCHITECTURES),
            "model_type": MODEL_TYPE,
            "eos_token_id": token_entry(self.eos_token_ids),
            "linear_attn_config": {
                **{key: getattr(self, name) for name, key in _LINEAR_KEYS.items()},
                "full_attn_layers": [number for number in numbered if kinds[number] == FULL],
                "kda_layers": [number for number in numbered if kinds[number] == LINEAR],
            },
            "mla_use_nope": True,
            "moe_router_activation_func": "sigmoid",
        }


def _layer_types(data: Mapping[str, Any], nested: Mapping[str, Any]) -> tuple[str, ...]:
    """transformers' list, or the published numbers, which begin at 1. There is no default: the published pattern has none."""
    count = counted_layers(data)
    listed = listed_kinds(data, "layer_types", count)
    if listed is not None:
        return listed
    if nested.get("full_attn_layers") is None:
        raise ValueError("config layer_types: missing (or linear_attn_config.full_attn_layers)")
    full = _numbers(nested, "full_attn_layers", count)
    if nested.get("kda_layers") is not None:
        rest = sorted(set(range(1, count + 1)) - full)
        given = sorted(_numbers(nested, "kda_layers", count))
        if given != rest:
            raise ValueError(f"config linear_attn_config.kda_layers: expected {rest}, those without full attention, got {given}")
    return tuple(FULL if number in full else LINEAR for number in range(1, count + 1))


def _numbers(nested: Mapping[str, Any], name: str, count: int) -> set[int]:
    given = nested[name]
    whole = isinstance(given, (list, tuple)) and all(type(one) is int and 1 <= one <= count for one in given)
    if not whole or len(set(given)) != len(given):
        raise ValueError(f"config linear_attn_config.{name}: expected different layers from 1 to {count}, got {given!r}")
    return set(given)
