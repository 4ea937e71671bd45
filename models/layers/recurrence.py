"""What the delta-rule layers share: state, short convolution, and the choice between whole sequences and one decoding step."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from hajax.ops._causal_conv1d import causal_conv1d_split

_L2NORM_EPS = 1e-6


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, slots=True)
class DeltaNetState:
    """conv: [B, K-1, channels], the last inputs of the convolution; state: [B, Hv, Dk, Dv] fp32."""

    conv: jax.Array
    state: jax.Array


def convolve(
    projected: jax.Array,
    weights: jax.Array,
    sizes: tuple[int, int, int],
    state: DeltaNetState | None,
    *,
    lengths: jax.Array | None,
    implementation: str | None,
) -> tuple[tuple[jax.Array, ...], jax.Array]:
    """The short causal convolution of query, key and value [B, T, channels] after a state, with silu: (each of them, next
    inputs). sizes: their channels."""
    return causal_conv1d_split(
        projected,
        weights,
        sizes,
        initial_state=None if state is None else state.conv,
        lengths=lengths,
        activation="silu",
        implementation=implementation,
    )


def recur(
    sequences: Callable[..., tuple[jax.Array, jax.Array]],
    step: Callable[..., tuple[jax.Array, jax.Array]],
    operands: tuple[jax.Array, jax.Array, jax.Array, jax.Array, jax.Array],
    state: DeltaNetState | None,
    *,
    lengths: jax.Array | None,
    one_step: bool,
    implementation: str | None,
) -> tuple[jax.Array, jax.Array]:
    """A rule of hajax over (query, key, value, log_decay, beta) [B, T, ...] after a state: (readout fp32, next state).

    Query and key are l2-normalised. one_step takes the decoding form, for T = 1.
    """
    options: dict[str, Any] = {
        "l2norm_eps": _L2NORM_EPS,
        "preferred_element_type": jnp.float32,  # the readout is normalised next: rounding it first can overflow fp16
        "implementation": implementation,
    }
    if one_step and state is not None:
        output, recurrent = step(*(operand[:, 0] for operand in operands), state.state, **options)
        return output[:, None], recurrent
    initial = None if state is None else state.state
    return sequences(*operands, initial_state=initial, lengths=lengths, **options)
