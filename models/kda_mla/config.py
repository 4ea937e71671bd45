"""The shape of a model of KDA, latent attention and experts, as a frozen value. Each family reads its own keys into it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from hajax.models._config import (
    FULL,
    LINEAR,
    check_counts,
    check_flags,
    check_kinds,
    check_numbers,
    layer_count,
    listed_kinds,
    refuse_others,
    token_ids,
)
from hajax.models.layers.moe import Routing

DENSE = "dense"
SPARSE = "sparse"

_COUNTS = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_attention_heads",
    "kv_lora_rank",
    "qk_nope_head_dim",
    "qk_rope_head_dim",
    "v_head_dim",
    "linear_num_heads",
    "linear_head_dim",
    "linear_conv_kernel_dim",
    "num_experts",
    "num_experts_per_token",
    "moe_intermediate_size",
    "num_expert_group",
    "topk_group",
    "max_position_embeddings",
)


@dataclasses.dataclass(frozen=True, slots=True)
class Names:
    """What a family calls its tensors. `head_shaped`: A_log is stored [1, 1, H, 1], not [H]. `experts`: gate, up, down."""

    embed: str
    mixer: str
    output: str
    dense: str
    sparse: str
    router_bias: str
    experts: tuple[str, str, str]
    head_shaped: bool


@dataclasses.dataclass(frozen=True, slots=True)
class HybridConfig:
    """One field a size. layer_types has LINEAR or FULL for each layer, mlp_layer_types DENSE or SPARSE.

    q_lora_rank None: queries come from one matrix. gate_rank None: KDA's gates do. rope_theta None: the shared key dims are not
    rotated. kda_lower_bound None: the decay is the unbounded one. num_shared_experts may be 0.
    """

    NAMES: ClassVar[Names]

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    layer_types: tuple[str, ...]
    mlp_layer_types: tuple[str, ...]
    num_attention_heads: int
    q_lora_rank: int | None
    kv_lora_rank: int
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    v_head_dim: int
    linear_num_heads: int
    linear_head_dim: int
    num_experts: int
    num_experts_per_token: int
    moe_intermediate_size: int
    num_shared_experts: int = 1
    num_expert_group: int = 1
    topk_group: int = 1
    routed_scaling_factor: float = 1.0
    moe_renormalize: bool = True
    linear_conv_kernel_dim: int = 4
    gate_rank: int | None = None
    kda_lower_bound: float | None = None
    rope_theta: float | None = None
    head_gate: bool = False
    max_position_embeddings: int = 262144
    rms_norm_eps: float = 1e-6
    tie_word_embeddings: bool = False
    eos_token_ids: tuple[int, ...] = ()
    initializer_range: float = 0.02

    def __post_init__(self) -> None:
        check_counts(self, [*_COUNTS, *(name for name in ("q_lora_rank", "gate_rank") if getattr(self, name) is not None)])
        check_numbers(self, ["rms_norm_eps", "routed_scaling_factor", "initializer_range"])
        if self.rope_theta is not None:
            check_numbers(self, ["rope_theta"])
        check_flags(self, ["moe_renormalize", "head_gate", "tie_word_embeddings"])
        check_kinds("layer_types", self.layer_types, (LINEAR, FULL))
        check_kinds("mlp_layer_types", self.mlp_layer_types, (DENSE, SPARSE))
        if len(self.mlp_layer_types) != len(self.layer_types):
            raise ValueError(f"config mlp_layer_types: expected {len(self.layer_types)} entries, got {len(self.mlp_layer_types)}")
        shared, bound = self.num_shared_experts, self.kda_lower_bound
        if isinstance(shared, bool) or not isinstance(shared, int) or shared < 0:
            raise ValueError(f"config num_shared_experts: expected an integer >= 0, got {shared!r}")
        if bound is not None and (isinstance(bound, bool) or not isinstance(bound, (int, float)) or not bound < 0):
            raise ValueError(f"config kda_lower_bound: expected a negative number, got {bound!r}")
        if self.rope_theta is not None and self.qk_rope_head_dim % 2:
            raise ValueError(f"config qk_rope_head_dim: expected an even number of rotated dims, got {self.qk_rope_head_dim}")
        self._check_groups()
        token_ids(self.eos_token_ids, "config eos_token_id")

    def _check_groups(self) -> None:
        experts, groups = self.num_experts, self.num_expert_group
        if experts % groups:
            raise ValueError(f"config num_experts: expected a multiple of num_expert_group={groups}, got {experts}")
        if self.topk_group > groups:
            raise ValueError(f"config topk_group: expected at most num_expert_group={groups}, got {self.topk_group}")
        most = experts // groups * self.topk_group
        if self.num_experts_per_token > most:
            raise ValueError(
                f"config num_experts_per_token: expected at most {most}, the experts of topk_group={self.topk_group} groups, "
                f"got {self.num_experts_per_token}"
            )

    @property
    def num_hidden_layers(self) -> int:
        return len(self.layer_types)

    @property
    def linear_dim(self) -> int:
        return self.linear_num_heads * self.linear_head_dim

    @property
    def routing(self) -> Routing:
        return Routing(
            self.num_experts_per_token,
            self.num_expert_group,
            self.topk_group,
            self.moe_renormalize,
            self.routed_scaling_factor,
        )

    def to_dict(self, dtype: str = "float32") -> dict[str, Any]:
        raise NotImplementedError("a family writes its own keys")


ALIASES = {
    "num_experts": ("num_experts", "num_local_experts", "n_routed_experts"),
    "num_experts_per_token": ("num_experts_per_token", "num_experts_per_tok"),
    "num_shared_experts": ("num_shared_experts", "n_shared_experts"),
    "num_expert_group": ("num_expert_group", "n_group"),
    "moe_renormalize": ("moe_renormalize", "norm_topk_prob"),
    "max_position_embeddings": ("max_position_embeddings", "model_max_length"),
}
_REQUIRED = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_attention_heads",
    "kv_lora_rank",
    "qk_nope_head_dim",
    "qk_rope_head_dim",
    "v_head_dim",
    "num_experts",
    "num_experts_per_token",
    "num_shared_experts",
    "moe_intermediate_size",
    "num_expert_group",
    "topk_group",
    "routed_scaling_factor",
    "moe_renormalize",
    "max_position_embeddings",
    "rms_norm_eps",
)


def check_family(data: Mapping[str, Any], model_type: str, architectures: tuple[str, ...]) -> None:
    if data.get("model_type") != model_type:
        raise ValueError(f"config model_type: expected {model_type!r}, got {data.get('model_type')!r}")
    named = data.get("architectures") or architectures
    if not isinstance(named, (list, tuple)) or not any(name in architectures for name in named):
        raise ValueError(f"config architectures: expected one of {', '.join(architectures)}, got {named!r}")


def common_fields(data: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that both families keep under the same keys, or under one of several names for the same."""
    found = {}
    for name in _REQUIRED:
        key = next((key for key in ALIASES.get(name, (name,)) if data.get(key) is not None), None)
        if key is None:
            raise ValueError(f"config {' or '.join(ALIASES.get(name, (name,)))}: missing")
        found[name] = data[key]
    refuse_others(
        data,
        {
            "hidden_act": "silu",
            "attention_bias": False,
            "moe_layer_freq": 1,
            "scoring_func": "sigmoid",
            "num_key_value_heads": found["num_attention_heads"],
        },
    )
    return {
        **found,
        "q_lora_rank": data.get("q_lora_rank"),
        "mlp_layer_types": _mlp_kinds(data),
        "tie_word_embeddings": data.get("tie_word_embeddings", False),
        "eos_token_ids": token_ids(data.get("eos_token_id"), "config eos_token_id"),
        "initializer_range": data.get("initializer_range", 0.02),
    }


def common_entries(config: HybridConfig, dtype: str) -> dict[str, Any]:
    """The config.json entries that both families write under these names."""
    names = [name for name in _REQUIRED if name != "max_position_embeddings"]
    return {
        **{name: getattr(config, name) for name in names},
        "attention_bias": False,
        "bos_token_id": None,
        "dtype": dtype,
        "hidden_act": "silu",
        "initializer_range": config.initializer_range,
        "layer_types": list(config.layer_types),
        "mlp_layer_types": list(config.mlp_layer_types),
        "model_max_length": config.max_position_embeddings,
        "num_hidden_layers": config.num_hidden_layers,
        "num_key_value_heads": config.num_attention_heads,
        "pad_token_id": None,  # transformers would take the published model's, which a smaller vocabulary does not have
        "q_lora_rank": config.q_lora_rank,
        "tie_word_embeddings": config.tie_word_embeddings,
    }


def counted_layers(data: Mapping[str, Any]) -> int:
    count = layer_count(data)
    if count is None:
        raise ValueError("config num_hidden_layers: missing")
    return count


def _mlp_kinds(data: Mapping[str, Any]) -> tuple[str, ...]:
    count = counted_layers(data)
    listed = listed_kinds(data, "mlp_layer_types", count)
    if listed is not None:
        return listed
    first = data.get("first_k_dense_replace")
    if first is None:
        raise ValueError("config first_k_dense_replace: missing (or mlp_layer_types)")
    if isinstance(first, bool) or not isinstance(first, int) or first < 0:
        raise ValueError(f"config first_k_dense_replace: expected an integer >= 0, got {first!r}")
    return tuple(DENSE if index < first else SPARSE for index in range(count))
