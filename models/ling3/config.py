"""The shape of a Ling 3.0 model, from a published config.json or from one that transformers wrote."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any, ClassVar

from hajax.models._config import FULL, LINEAR, listed_kinds, positive, refuse_others, require, rope_of, token_entry
from hajax.models._json import read_json
from hajax.models.kda_mla.config import HybridConfig, Names, check_family, common_entries, common_fields, counted_layers

MODEL_TYPE = "bailing_hybrid"
ARCHITECTURES = ("BailingMoeV3ForCausalLM", "BailingHybridForCausalLM")
_CLAMPS = ("expert_swiglu_limit_list", "share_expert_swiglu_limit_list")


@dataclasses.dataclass(frozen=True, slots=True)
class Config(HybridConfig):
    """Gates of full rank, decays bounded or not, rotated and gated latent attention, as many KDA heads as attention heads."""

    NAMES: ClassVar[Names] = Names(
        embed="word_embeddings",
        mixer="attention",
        output="dense",
        dense="mlp",
        sparse="mlp",
        router_bias="expert_bias",
        experts=("gate_proj", "up_proj", "down_proj"),
        head_shaped=False,
    )

    @classmethod
    def from_json(cls, path: str | os.PathLike[str]) -> Config:
        """Reads a config.json, or the config.json of a folder."""
        return cls.from_dict(read_json(path))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Config:
        """Reads the mapping of a config.json; raises ValueError naming the key, what was expected and what came."""
        check_family(data, MODEL_TYPE, ARCHITECTURES)
        fields = common_fields(data)
        refuse_others(
            data,
            {
                "no_kda_lora": True,
                "linear_attention": "kda",
                "linear_num_heads": fields["num_attention_heads"],
                "score_function": "sigmoid",
                "moe_router_enable_expert_bias": True,
                "moe_shared_expert_intermediate_size": fields["moe_intermediate_size"],
                "gated_attention_proj_granularity_type": "head_wise",
                "rope_interleave": True,
                "use_qkv_bias": False,
                "use_bias": False,
                "allow_neg_eigval": False,
                "kda_allow_neg_eigval": False,
            },
        )
        for name in _CLAMPS:
            if any(data.get(name) or ()):
                raise ValueError(f"config {name}: expected no limits (clamped activations are not supported), got {data[name]!r}")
        # transformers saves the rotated dims under head_dim, and the heads' own under linear_head_dim
        head_dim = _first(data, "linear_head_dim", "head_dim")
        taps = _first(data, "linear_conv_kernel_dim", "short_conv_kernel_size")
        safe = _first(data, "kda_safe_gate")
        if not isinstance(safe, bool):
            raise ValueError(f"config kda_safe_gate: expected true or false, got {safe!r}")
        return cls(
            **fields,
            layer_types=_layer_types(data),
            linear_num_heads=fields["num_attention_heads"],
            linear_head_dim=head_dim,
            linear_conv_kernel_dim=taps,
            kda_lower_bound=_first(data, "kda_lower_bound") if safe else None,
            rope_theta=rope_of(data, ("default",))["rope_theta"],
            head_gate=True,
        )

    def to_dict(self, dtype: str = "float32") -> dict[str, Any]:
        """A config.json that `from_dict` and transformers read."""
        bound = self.kda_lower_bound
        return {
            **common_entries(self, dtype),
            "architectures": [ARCHITECTURES[1]],
            "model_type": MODEL_TYPE,
            "eos_token_id": token_entry(self.eos_token_ids),
            "head_dim": self.linear_head_dim,
            "kda_lower_bound": -5.0 if bound is None else bound,
            "kda_safe_gate": bound is not None,
            "no_kda_lora": True,
            "num_nextn_predict_layers": 0,
            "rope_parameters": {"rope_theta": self.rope_theta, "rope_type": "default"},
            "rope_theta": self.rope_theta,
            "short_conv_kernel_size": self.linear_conv_kernel_dim,
        }


def _first(data: Mapping[str, Any], *names: str) -> Any:
    """The value under the first of the names that has one."""
    for name in names:
        if data.get(name) is not None:
            return data[name]
    raise ValueError(f"config {' or '.join(names)}: missing")


def _layer_types(data: Mapping[str, Any]) -> tuple[str, ...]:
    count = counted_layers(data)
    listed = listed_kinds(data, "layer_types", count)
    if listed is not None:
        return listed
    require(data, ["layer_group_size"])
    group = positive(data, "layer_group_size")
    if count % group:  # readers differ on what a group that is cut short ends with
        raise ValueError(f"config num_hidden_layers: expected a multiple of layer_group_size={group}, got {count}")
    return tuple(LINEAR if (index + 1) % group else FULL for index in range(count))
