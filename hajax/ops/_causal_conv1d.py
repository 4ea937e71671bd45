"""Depthwise causal convolution with the state that lets a sequence go on: the short convolution of delta-rule layers."""

import functools
from typing import Any

import jax
import jax.numpy as jnp

from hajax.ops import _arguments as arguments
from hajax.ops._named import named


def causal_conv1d(
    x: Any,
    weight: Any,
    *,
    bias: Any = None,
    initial_state: Any = None,
    lengths: Any = None,
    cu_seqlens: Any = None,
    activation: str | None = None,
) -> tuple[jax.Array, jax.Array]:
    """y[t, c] = activation(bias[c] + sum over j of weight[c, j] x[t - K + 1 + j, c]), summed in fp32.

    x [B, T, C]; weight [C, K]; bias [C]; initial_state [B, K - 1, C] holds the K - 1 inputs before the first, oldest
    first (zeros when None; [N, K - 1, C] with cu_seqlens); lengths [B] and cu_seqlens [N + 1] as in
    `gated_delta_rule`; activation None or "silu".

    Returns y [B, T, C] in x's dtype, zero at padding, and the state after each sequence's last real token, in x's dtype.
    Raises ValueError or TypeError naming the argument.
    """
    x, weight = arguments.as_array("x", x), arguments.as_array("weight", weight)
    arguments.check_rank("x", x, "B T C")
    arguments.check_float("x", x)
    arguments.check_rank("weight", weight, "C K")
    arguments.check_float("weight", weight)
    batch, tokens, channels = x.shape
    taps = weight.shape[1]
    arguments.check_shape("weight", weight, (channels, taps), "C K")
    if taps < 1:
        raise ValueError(f"weight: expected K >= 1, got shape {weight.shape}")
    if activation not in (None, "silu"):
        raise ValueError(f"activation: expected None or 'silu', got {activation!r}")
    if isinstance(tokens, int) and tokens < 1:
        raise ValueError(f"x: expected T >= 1, got shape {x.shape}")
    bounds, sequences = arguments.sequence_bounds(batch, tokens, lengths, cu_seqlens)
    rows, axis = (batch, "B") if cu_seqlens is None else (sequences, "N")
    if initial_state is None:
        state = jnp.zeros((rows, taps - 1, channels), x.dtype)
    else:
        state = arguments.as_array("initial_state", initial_state)
        arguments.check_shape("initial_state", state, (rows, taps - 1, channels), f"{axis} K-1 C")
        state = state.astype(x.dtype)
    if bias is not None:
        bias = arguments.as_array("bias", bias)
        arguments.check_shape("bias", bias, (channels,), "C")
    if bias is None and cu_seqlens is None:
        given = () if lengths is None else (bounds[:, 1],)
        y, final = (_whole_rows if lengths is None else _padded_rows)(x, state, weight, *given, activation=activation)
    else:
        y, final = _any_rows(x, state, weight, bias, bounds, lengths is not None, cu_seqlens is not None, activation)
    y, final = arguments.nan_where_wrong(bounds, tokens, y, final)
    return y, final


@named("causal_conv1d")
def _whole_rows(x: jax.Array, state: jax.Array, weight: jax.Array, *, activation: str | None) -> tuple[jax.Array, jax.Array]:
    return _convolved(*_rows(x, state, None), x, weight, None, activation)


@named("causal_conv1d_padded")
def _padded_rows(
    x: jax.Array, state: jax.Array, weight: jax.Array, lengths: jax.Array, *, activation: str | None
) -> tuple[jax.Array, jax.Array]:
    inside = (jnp.arange(x.shape[1])[None] < lengths[:, None])[..., None]
    zero = jnp.zeros((), x.dtype)
    x = jnp.where(inside, x, zero)  # NaN at padding would come back through the weight's gradient
    y, final = _convolved(*_rows(x, state, lengths), x, weight, None, activation)
    return jnp.where(inside, y, zero), final


def _any_rows(
    x: jax.Array,
    state: jax.Array,
    weight: jax.Array,
    bias: jax.Array | None,
    bounds: jax.Array,
    padded: bool,
    packed: bool,
    activation: str | None,
) -> tuple[jax.Array, jax.Array]:
    inside = (jnp.arange(x.shape[1])[None] < bounds[:, 1:])[..., None] if padded else None
    zero = jnp.zeros((), x.dtype)
    if inside is not None:
        x = jnp.where(inside, x, zero)
    windows, final = _packed(x, state, bounds[0]) if packed else _rows(x, state, bounds[:, 1] if padded else None)
    y, final = _convolved(windows, final, x, weight, bias, activation)
    return y if inside is None else jnp.where(inside, y, zero), final


def _convolved(
    windows: list[jax.Array], final: jax.Array, x: jax.Array, weight: jax.Array, bias: jax.Array | None, activation: str | None
) -> tuple[jax.Array, jax.Array]:
    """The output from the inputs under each tap, and the state that goes with it."""
    terms = [weight[None, None, :, j].astype(jnp.float32) * window.astype(jnp.float32) for j, window in enumerate(windows)]
    y = functools.reduce(jnp.add, terms)
    if bias is not None:
        y = y + bias[None, None].astype(jnp.float32)
    if activation == "silu":
        y = jax.nn.silu(y)
    return y.astype(x.dtype), final


def _rows(x: jax.Array, state: jax.Array, lengths: jax.Array | None) -> tuple[list[jax.Array], jax.Array]:
    """The inputs under each tap, oldest first, and the last K - 1 inputs of each row."""
    tokens, memory = x.shape[1], state.shape[1]
    padded = jnp.concatenate([state, x], axis=1)
    windows = [padded[:, j : j + tokens] for j in range(memory + 1)]
    if lengths is None:
        return windows, padded[:, tokens:]
    last = lengths[:, None] + jnp.arange(memory, dtype=jnp.int32)[None]
    return windows, jnp.take_along_axis(padded, last[..., None], axis=1, mode="clip")


def _packed(x: jax.Array, state: jax.Array, bounds: jax.Array) -> tuple[list[jax.Array], jax.Array]:
    """As `_rows` for one packed row: a tap that reaches before its sequence reads that sequence's state."""
    memory, sequences = state.shape[1], state.shape[0]

    def read(sequence: jax.Array, position: jax.Array) -> jax.Array:
        """Input number `position` of a sequence; negative ones come from its state."""
        token = x[0].at[bounds[sequence] + position].get(mode="clip")
        if memory == 0:
            return token
        before = state.at[sequence, memory + position].get(mode="clip")
        return jnp.where((position >= 0)[..., None], token, before)

    token = jnp.arange(x.shape[1], dtype=jnp.int32)
    owner = jnp.clip(jnp.searchsorted(bounds, token, side="right") - 1, 0, sequences - 1)
    windows = [read(owner, token - bounds[owner] - memory + j)[None] for j in range(memory + 1)]
    length = bounds[1:] - bounds[:-1]
    final = read(jnp.arange(sequences)[:, None], length[:, None] - memory + jnp.arange(memory, dtype=jnp.int32)[None])
    return windows, final
