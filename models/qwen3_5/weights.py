"""The weights of a Qwen3.5 text model: one record a tensor, from which loading, saving and initialisation follow."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, cast

import jax
import jax.numpy as jnp
from hajax.models.layers.attention import AttentionWeights
from hajax.models.layers.delta_net import DeltaNetWeights
from hajax.models.layers.mlp import MLPWeights
from hajax.models.qwen3_5.config import FULL, Config


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, slots=True)
class LayerWeights:
    """One block: x + mixer(input_norm x), then x + mlp(mlp_norm x)."""

    input_norm: jax.Array
    mixer: AttentionWeights | DeltaNetWeights
    mlp_norm: jax.Array
    mlp: MLPWeights


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, slots=True)
class Params:
    """embed: [vocab, hidden]; head: [vocab, hidden], or None when tied to embed."""

    embed: jax.Array
    layers: list[LayerWeights]
    norm: jax.Array
    head: jax.Array | None


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """One tensor. `name` is its checkpoint key after "model." (lm_head apart); `stored` its shape there, `shape` its shape here.

    `wide` tensors stay fp32 whatever the model's dtype: they are small, and gates and norms are computed in fp32.
    """

    name: str
    shape: tuple[int, ...]
    stored: tuple[int, ...]
    start: Callable[[jax.Array, tuple[int, ...]], jax.Array]
    wide: bool = False


def records(config: Config) -> Params:
    """A Params whose leaves are Records."""
    spread = _normal(config.initializer_range)
    hidden, vocab = config.hidden_size, config.vocab_size
    layers = [_layer(config, index, spread) for index in range(config.num_hidden_layers)]
    head = None if config.tie_word_embeddings else _matrix("lm_head.weight", vocab, hidden, spread)
    tree: Any = Params(
        embed=_matrix("embed_tokens.weight", vocab, hidden, spread),
        layers=layers,
        norm=_vector("norm.weight", hidden, _zeros),
        head=head,
    )
    return cast(Params, tree)


def init(config: Config, key: jax.Array, dtype: jax.typing.DTypeLike = jnp.float32) -> Params:
    """Random weights fit for training: small normal matrices, time steps from 1e-3 to 1e-1, decay rates from 1 to 16.

    `dtype` is that of matrices; norms and gate constants are fp32.
    """
    leaves = record_leaves(config)
    made = []
    for record, own in zip(leaves, jax.random.split(key, len(leaves)), strict=True):
        made.append(_draw(own, record.start, record.shape, jnp.dtype(jnp.float32 if record.wide else dtype)))
    return from_leaves(config, made)


@functools.partial(jax.jit, static_argnums=(1, 2, 3))
def _draw(key: jax.Array, start: Callable[..., jax.Array], shape: tuple[int, ...], dtype: jnp.dtype) -> jax.Array:
    return start(key, shape).astype(dtype)  # compiled once a shape: one program for all weights takes far longer


def record_leaves(config: Config) -> list[Record]:
    """The records in the order of jax.tree.leaves(params)."""
    leaves: list[Record] = jax.tree.leaves(records(config), is_leaf=_is_record)
    return leaves


def from_leaves(config: Config, leaves: Sequence[Any]) -> Params:
    """The params that have these leaves, one for each record."""
    params: Params = jax.tree.unflatten(jax.tree.structure(records(config), is_leaf=_is_record), leaves)
    return params


def _is_record(value: Any) -> bool:
    return isinstance(value, Record)


def _layer(config: Config, index: int, spread: Callable[..., jax.Array]) -> Any:
    at = f"layers.{index}."
    hidden, inner = config.hidden_size, config.intermediate_size
    mixer = _attention if config.layer_types[index] == FULL else _delta_net
    return LayerWeights(
        input_norm=_vector(at + "input_layernorm.weight", hidden, _zeros),
        mixer=mixer(config, at, spread),
        mlp_norm=_vector(at + "post_attention_layernorm.weight", hidden, _zeros),
        mlp=MLPWeights(
            gate=_matrix(at + "mlp.gate_proj.weight", inner, hidden, spread),
            up=_matrix(at + "mlp.up_proj.weight", inner, hidden, spread),
            down=_matrix(at + "mlp.down_proj.weight", hidden, inner, spread),
        ),
    )


def _attention(config: Config, at: str, spread: Callable[..., jax.Array]) -> Any:
    at += "self_attn."
    hidden, dim = config.hidden_size, config.head_dim
    heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
    return AttentionWeights(
        query=_matrix(at + "q_proj.weight", heads * 2 * dim, hidden, spread),
        key=_matrix(at + "k_proj.weight", kv_heads * dim, hidden, spread),
        value=_matrix(at + "v_proj.weight", kv_heads * dim, hidden, spread),
        output=_matrix(at + "o_proj.weight", hidden, heads * dim, spread),
        query_norm=_vector(at + "q_norm.weight", dim, _zeros),
        key_norm=_vector(at + "k_norm.weight", dim, _zeros),
    )


def _delta_net(config: Config, at: str, spread: Callable[..., jax.Array]) -> Any:
    at += "linear_attn."
    hidden, heads, taps = config.hidden_size, config.linear_num_value_heads, config.linear_conv_kernel_dim
    channels = config.conv_dim
    conv: Any = Record(at + "conv1d.weight", (channels, taps), (channels, 1, taps), _conv)
    return DeltaNetWeights(
        qkv=_matrix(at + "in_proj_qkv.weight", channels, hidden, spread),
        z=_matrix(at + "in_proj_z.weight", config.value_dim, hidden, spread),
        a=_matrix(at + "in_proj_a.weight", heads, hidden, spread),
        b=_matrix(at + "in_proj_b.weight", heads, hidden, spread),
        conv=conv,
        log_a=_vector(at + "A_log", heads, _log_rates),
        dt_bias=_vector(at + "dt_bias", heads, _time_steps),
        norm=_vector(at + "norm.weight", config.linear_value_head_dim, _ones),
        output=_matrix(at + "out_proj.weight", hidden, config.value_dim, spread),
    )


def _matrix(name: str, rows: int, columns: int, spread: Callable[..., jax.Array]) -> Any:
    return Record(name, (rows, columns), (rows, columns), spread)


def _vector(name: str, size: int, start: Callable[..., jax.Array]) -> Any:
    return Record(name, (size,), (size,), start, wide=True)


@functools.cache
def _normal(scale: float) -> Callable[[jax.Array, tuple[int, ...]], jax.Array]:
    return lambda key, shape: scale * jax.random.normal(key, shape)


def _zeros(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    return jnp.zeros(shape)


def _ones(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    return jnp.ones(shape)


def _conv(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    bound = shape[1] ** -0.5
    return jax.random.uniform(key, shape, minval=-bound, maxval=bound)


def _log_rates(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    return jnp.log(jax.random.uniform(key, shape, minval=1.0, maxval=16.0))


def _time_steps(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """The bias whose softplus is a step drawn log-uniformly from 1e-3 to 1e-1."""
    step = jnp.exp(jax.random.uniform(key, shape, minval=jnp.log(1e-3), maxval=jnp.log(1e-1)))
    return step + jnp.log(-jnp.expm1(-step))
