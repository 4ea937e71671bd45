"""What a call of the family's operator is besides its arrays, its meaning in plain jnp, and how a mapped axis joins its rows."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from hajax.mechanisms import Mechanism
from hajax.ops import _reference


@dataclasses.dataclass(frozen=True, slots=True)
class Static:
    """What a call of the operator is besides its arrays."""

    mechanism: Mechanism
    scale: float
    l2norm_eps: float | None
    output_dtype: str
    implementation: str | None
    target: str | None = None  # the chip that "sim" emulates


def reference_lowering(*operands: jax.Array, static: Static) -> tuple[jax.Array, jax.Array]:
    return _reference.delta_rule(
        *operands,
        mechanism=static.mechanism,
        scale=static.scale,
        l2norm_eps=static.l2norm_eps,
        output_dtype=static.output_dtype,
    )


def bind_over_rows(
    primitive: Any, operands: Sequence[jax.Array], axes: Sequence[int | None], like: Sequence[int], static: Static
) -> tuple[list[jax.Array], list[int]]:
    """A mapped axis joins the rows: B becomes size * B. Result i has as many rows as operand like[i]."""
    size = next(x.shape[axis] for x, axis in zip(operands, axes, strict=True) if axis is not None)
    rows = [
        jnp.broadcast_to(x, (size, *x.shape)) if axis is None else jnp.moveaxis(x, axis, 0)
        for x, axis in zip(operands, axes, strict=True)
    ]
    results = primitive.bind(*(x.reshape(size * x.shape[1], *x.shape[2:]) for x in rows), static=static)
    joined = [y.reshape(size, rows[i].shape[1], *y.shape[1:]) for y, i in zip(results, like, strict=True)]
    return joined, [0] * len(joined)
