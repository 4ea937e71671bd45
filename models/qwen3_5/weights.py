"""The weights of a Qwen3.5 text model, as records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import jax
import jax.numpy as jnp
from hajax.models import _weights
from hajax.models._weights import Record, Start, conv_taps, log_rates, matrix, normal, ones, time_steps, vector, zeros
from hajax.models.layers.attention import AttentionWeights
from hajax.models.layers.decoder import LayerWeights, Params
from hajax.models.layers.delta_net import DeltaNetWeights
from hajax.models.layers.mlp import MLPWeights
from hajax.models.qwen3_5.config import FULL, Config

__all__ = ["Params", "from_leaves", "init", "record_leaves", "records"]


def records(config: Config) -> Params:
    """A Params whose leaves are Records."""
    spread = normal(config.initializer_range)
    hidden, vocab = config.hidden_size, config.vocab_size
    layers = [_layer(config, index, spread) for index in range(config.num_hidden_layers)]
    head = None if config.tie_word_embeddings else matrix("lm_head.weight", vocab, hidden, spread)
    tree: Any = Params(
        embed=matrix("embed_tokens.weight", vocab, hidden, spread),
        layers=layers,
        norm=vector("norm.weight", hidden, zeros),
        head=head,
    )
    return cast(Params, tree)


def init(config: Config, key: jax.Array, dtype: jax.typing.DTypeLike = jnp.float32) -> Params:
    """Random weights fit for training: small normal matrices, time steps from 1e-3 to 1e-1, decay rates from 1 to 16.

    `dtype` is that of matrices; norms and gate constants are fp32.
    """
    return _weights.draw(records(config), key, dtype)


def record_leaves(config: Config) -> list[Record]:
    """The records in the order of jax.tree.leaves(params)."""
    return _weights.leaves_of(records(config))


def from_leaves(config: Config, leaves: Sequence[Any]) -> Params:
    """The params that have these leaves, one for each record."""
    return _weights.fill(records(config), leaves)


def _layer(config: Config, index: int, spread: Start) -> Any:
    at = f"layers.{index}."
    hidden, inner = config.hidden_size, config.intermediate_size
    mixer = _attention if config.layer_types[index] == FULL else _delta_net
    return LayerWeights(
        input_norm=vector(at + "input_layernorm.weight", hidden, zeros),
        mixer=mixer(config, at, spread),
        mlp_norm=vector(at + "post_attention_layernorm.weight", hidden, zeros),
        mlp=MLPWeights(
            gate=matrix(at + "mlp.gate_proj.weight", inner, hidden, spread),
            up=matrix(at + "mlp.up_proj.weight", inner, hidden, spread),
            down=matrix(at + "mlp.down_proj.weight", hidden, inner, spread),
        ),
    )


def _attention(config: Config, at: str, spread: Start) -> Any:
    at += "self_attn."
    hidden, dim = config.hidden_size, config.head_dim
    heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
    return AttentionWeights(
        query=matrix(at + "q_proj.weight", heads * 2 * dim, hidden, spread),
        key=matrix(at + "k_proj.weight", kv_heads * dim, hidden, spread),
        value=matrix(at + "v_proj.weight", kv_heads * dim, hidden, spread),
        output=matrix(at + "o_proj.weight", hidden, heads * dim, spread),
        query_norm=vector(at + "q_norm.weight", dim, zeros),
        key_norm=vector(at + "k_norm.weight", dim, zeros),
    )


def _delta_net(config: Config, at: str, spread: Start) -> Any:
    at += "linear_attn."
    hidden, heads, taps = config.hidden_size, config.linear_num_value_heads, config.linear_conv_kernel_dim
    channels = config.conv_dim
    conv: Any = Record((at + "conv1d.weight",), (channels, taps), (channels, 1, taps), conv_taps)
    return DeltaNetWeights(
        qkv=matrix(at + "in_proj_qkv.weight", channels, hidden, spread),
        z=matrix(at + "in_proj_z.weight", config.value_dim, hidden, spread),
        a=matrix(at + "in_proj_a.weight", heads, hidden, spread),
        b=matrix(at + "in_proj_b.weight", heads, hidden, spread),
        conv=conv,
        log_a=vector(at + "A_log", heads, log_rates, pinned=True),
        dt_bias=vector(at + "dt_bias", heads, time_steps),
        norm=vector(at + "norm.weight", config.linear_value_head_dim, ones, pinned=True),
        output=matrix(at + "out_proj.weight", hidden, config.value_dim, spread),
    )
