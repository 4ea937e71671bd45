"""A model's weights as records, one a tensor of the model, from which loading, saving and initialisation follow."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, cast

import jax
import jax.numpy as jnp
from hajax.models.layers.decoder import Params

Start = Callable[[jax.Array, tuple[int, ...]], jax.Array]


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """One tensor. `names` are its checkpoint keys after the prefix (lm_head apart), of shape `stored` each; they are laid out
    one after another and read as `shape`.

    `wide` tensors stay fp32 whatever the model's dtype: they are small, and gates and norms are computed in fp32. `pinned` ones
    are fp32 in checkpoints of any dtype, too.
    """

    names: tuple[str, ...]
    shape: tuple[int, ...]
    stored: tuple[int, ...]
    start: Start
    wide: bool = False
    pinned: bool = False

    @property
    def name(self) -> str:
        return self.names[0]


def matrix(name: str, rows: int, columns: int, start: Start) -> Any:
    return Record((name,), (rows, columns), (rows, columns), start)


def vector(name: str, size: int, start: Start, *, pinned: bool = False) -> Any:
    return Record((name,), (size,), (size,), start, wide=True, pinned=pinned)


def leaves_of(records: Params) -> list[Record]:
    """The records of a tree of them, in the order of jax.tree.leaves(params)."""
    leaves: list[Record] = jax.tree.leaves(records, is_leaf=_is_record)
    return leaves


def fill(records: Params, leaves: Sequence[Any]) -> Params:
    """The params that have these leaves, one for each record."""
    return cast(Params, jax.tree.unflatten(jax.tree.structure(records, is_leaf=_is_record), leaves))


def draw(records: Params, key: jax.Array, dtype: jax.typing.DTypeLike) -> Params:
    """Random weights; `dtype` is that of matrices."""
    leaves = leaves_of(records)
    made = []
    for record, own in zip(leaves, jax.random.split(key, len(leaves)), strict=True):
        made.append(_draw(own, record.start, record.shape, jnp.dtype(jnp.float32 if record.wide else dtype)))
    return fill(records, made)


@functools.partial(jax.jit, static_argnums=(1, 2, 3))
def _draw(key: jax.Array, start: Start, shape: tuple[int, ...], dtype: jnp.dtype) -> jax.Array:
    return start(key, shape).astype(dtype)  # compiled once a shape: one program for all weights takes far longer


def _is_record(value: Any) -> bool:
    return isinstance(value, Record)


@functools.cache
def normal(scale: float) -> Start:
    return lambda key, shape: scale * jax.random.normal(key, shape)


def zeros(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    return jnp.zeros(shape)


def ones(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    return jnp.ones(shape)


def conv_taps(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    bound = shape[1] ** -0.5
    return jax.random.uniform(key, shape, minval=-bound, maxval=bound)


def log_rates(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    return jnp.log(jax.random.uniform(key, shape, minval=1.0, maxval=16.0))


def time_steps(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """The bias whose softplus is a step drawn log-uniformly from 1e-3 to 1e-1."""
    step = jnp.exp(jax.random.uniform(key, shape, minval=jnp.log(1e-3), maxval=jnp.log(1e-1)))
    return step + jnp.log(-jnp.expm1(-step))
