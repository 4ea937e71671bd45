"""The weights of a KDA, latent-attention and experts model, as records under the family's names."""

from __future__ import annotations

from typing import Any, cast

import jax
import jax.numpy as jnp
from hajax.models import _weights
from hajax.models._config import FULL
from hajax.models._weights import Record, Start, conv_taps, log_rates, matrix, normal, ones, time_steps, vector, zeros
from hajax.models.kda_mla.config import SPARSE, HybridConfig
from hajax.models.layers.decoder import LayerWeights, Params
from hajax.models.layers.kimi_delta_attention import KDAWeights
from hajax.models.layers.linear import LowRank
from hajax.models.layers.mla import LowRankQuery, MLAWeights
from hajax.models.layers.mlp import MLPWeights
from hajax.models.layers.moe import MoEWeights


def records(config: HybridConfig) -> Params:
    """A Params whose leaves are Records."""
    spread = normal(config.initializer_range)
    hidden, vocab = config.hidden_size, config.vocab_size
    layers = [_layer(config, index, spread) for index in range(config.num_hidden_layers)]
    head = None if config.tie_word_embeddings else matrix("lm_head.weight", vocab, hidden, spread)
    tree: Any = Params(
        embed=matrix(f"{config.NAMES.embed}.weight", vocab, hidden, spread),
        layers=layers,
        norm=vector("norm.weight", hidden, ones),
        head=head,
    )
    return cast(Params, tree)


def init(config: HybridConfig, key: jax.Array, dtype: jax.typing.DTypeLike = jnp.float32) -> Params:
    """Random weights fit for training: small normal matrices, time steps from 1e-3 to 1e-1, decay rates from 1 to 16.

    `dtype` is that of matrices; norms, gate constants, convolutions and routers are fp32.
    """
    return _weights.draw(records(config), key, dtype)


def _layer(config: HybridConfig, index: int, spread: Start) -> Any:
    at, names = f"layers.{index}.", config.NAMES
    hidden = config.hidden_size
    mixer = _latent_attention if config.layer_types[index] == FULL else _kda
    mlp: Any
    if config.mlp_layer_types[index] == SPARSE:
        mlp = _experts(config, f"{at}{names.sparse}.", spread)
    else:
        mlp = _mlp(f"{at}{names.dense}.", hidden, config.intermediate_size, spread)
    return LayerWeights(
        input_norm=vector(at + "input_layernorm.weight", hidden, ones),
        mixer=mixer(config, f"{at}{names.mixer}.", spread),
        mlp_norm=vector(at + "post_attention_layernorm.weight", hidden, ones),
        mlp=mlp,
    )


def _kda(config: HybridConfig, at: str, spread: Start) -> Any:
    hidden, heads, dim, taps = config.hidden_size, config.linear_num_heads, config.linear_head_dim, config.linear_conv_kernel_dim
    width = config.linear_dim

    def gate(name: str) -> Any:
        if config.gate_rank is None:
            return matrix(f"{at}{name}_proj.weight", width, hidden, spread)
        return LowRank(
            down=matrix(f"{at}{name}_a_proj.weight", config.gate_rank, hidden, spread),
            up=matrix(f"{at}{name}_b_proj.weight", width, config.gate_rank, spread),
        )

    qkv: Any = Record(tuple(f"{at}{name}_proj.weight" for name in "qkv"), (3 * width, hidden), (width, hidden), spread)
    convs = tuple(f"{at}{name}_conv1d.weight" for name in "qkv")
    conv: Any = Record(convs, (3 * width, taps), (width, 1, taps), conv_taps, wide=True, pinned=True)
    rates = (1, 1, heads, 1) if config.NAMES.head_shaped else (heads,)
    log_a: Any = Record((at + "A_log",), (heads,), rates, log_rates, wide=True, pinned=True)
    dt_bias: Any = Record((at + "dt_bias",), (heads, dim), (width,), time_steps, wide=True, pinned=True)
    return KDAWeights(
        qkv=qkv,
        conv=conv,
        decay=gate("f"),
        log_a=log_a,
        dt_bias=dt_bias,
        beta=matrix(at + "b_proj.weight", heads, hidden, spread),
        gate=gate("g"),
        norm=vector(at + "o_norm.weight", dim, ones),
        output=matrix(f"{at}{config.NAMES.output}.weight", hidden, width, spread),
    )


def _latent_attention(config: HybridConfig, at: str, spread: Start) -> Any:
    hidden, heads, shared, rank = config.hidden_size, config.num_attention_heads, config.qk_rope_head_dim, config.kv_lora_rank
    nope, value, query_rank = config.qk_nope_head_dim, config.v_head_dim, config.q_lora_rank
    query: Any
    if query_rank is None:
        query = matrix(at + "q_proj.weight", heads * (nope + shared), hidden, spread)
    else:
        query = LowRankQuery(
            down=matrix(at + "q_a_proj.weight", query_rank, hidden, spread),
            norm=vector(at + "q_a_layernorm.weight", query_rank, ones),
            up=matrix(at + "q_b_proj.weight", heads * (nope + shared), query_rank, spread),
        )
    return MLAWeights(
        query=query,
        latent=matrix(at + "kv_a_proj_with_mqa.weight", rank + shared, hidden, spread),
        norm=vector(at + "kv_a_layernorm.weight", rank, ones),
        expand=matrix(at + "kv_b_proj.weight", heads * (nope + value), rank, spread),
        gate=matrix(at + "g_proj.weight", heads, hidden, spread) if config.head_gate else None,
        output=matrix(f"{at}{config.NAMES.output}.weight", hidden, heads * value, spread),
    )


def _mlp(at: str, hidden: int, inner: int, spread: Start) -> Any:
    return MLPWeights(
        gate=matrix(at + "gate_proj.weight", inner, hidden, spread),
        up=matrix(at + "up_proj.weight", inner, hidden, spread),
        down=matrix(at + "down_proj.weight", hidden, inner, spread),
    )


def _experts(config: HybridConfig, at: str, spread: Start) -> Any:
    hidden, count, inner = config.hidden_size, config.num_experts, config.moe_intermediate_size
    gate, up, down = config.NAMES.experts
    pairs = tuple(f"{at}experts.{expert}.{name}.weight" for expert in range(count) for name in (gate, up))
    downs = tuple(f"{at}experts.{expert}.{down}.weight" for expert in range(count))
    router: Any = Record((at + "gate.weight",), (count, hidden), (count, hidden), spread, wide=True, pinned=True)
    gate_up: Any = Record(pairs, (count, 2 * inner, hidden), (inner, hidden), spread)
    down_up: Any = Record(downs, (count, hidden, inner), (hidden, inner), spread)
    shared = config.num_shared_experts
    return MoEWeights(
        router=router,
        bias=vector(f"{at}gate.{config.NAMES.router_bias}", count, zeros, pinned=True),
        gate_up=gate_up,
        down=down_up,
        shared=_mlp(at + "shared_experts.", hidden, shared * inner, spread) if shared else None,
    )
