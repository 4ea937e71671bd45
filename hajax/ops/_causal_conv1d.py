"""Depthwise causal convolution with the state that lets a sequence go on: the short convolution of delta-rule layers."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hajax.backends import xla
from hajax.ops import _arguments as arguments
from hajax.ops import _native as _native_calls
from hajax.ops._fused import Kernel, fused
from hajax.ops._named import named

_MOST_TAPS = 32  # of the kernel


def causal_conv1d(
    x: Any,
    weight: Any,
    *,
    bias: Any = None,
    initial_state: Any = None,
    lengths: Any = None,
    cu_seqlens: Any = None,
    activation: str | None = None,
    implementation: str | None = None,
) -> tuple[jax.Array, jax.Array]:
    """y[t, c] = activation(bias[c] + sum over j of weight[c, j] x[t - K + 1 + j, c]), summed in fp32.

    x [B, T, C]; weight [C, K]; bias [C]; initial_state [B, K - 1, C] holds the K - 1 inputs before the first, oldest
    first (zeros when None; [N, K - 1, C] with cu_seqlens); lengths [B] and cu_seqlens [N + 1] as in
    `gated_delta_rule`; activation None or "silu"; implementation None, "cpu" (the kernel) or "xla" (plain jnp).

    Returns y [B, T, C] in x's dtype, zero at padding, and the state after each sequence's last real token, in x's dtype.
    Raises ValueError or TypeError naming the argument.
    """
    (y,), final = causal_conv1d_split(
        x,
        weight,
        None,
        bias=bias,
        initial_state=initial_state,
        lengths=lengths,
        cu_seqlens=cu_seqlens,
        activation=activation,
        implementation=implementation,
    )
    return y, final


def causal_conv1d_split(
    x: Any,
    weight: Any,
    sizes: tuple[int, ...] | None,
    *,
    bias: Any = None,
    initial_state: Any = None,
    lengths: Any = None,
    cu_seqlens: Any = None,
    activation: str | None = None,
    implementation: str | None = None,
) -> tuple[tuple[jax.Array, ...], jax.Array]:
    """`causal_conv1d` whose channels come as arrays of their own, [B, T, size] each: x is read once and no slice is copied.

    sizes are C in all; None for one array. Returns those arrays and the state [B, K - 1, C].
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
    sizes = (channels,) if sizes is None else tuple(sizes)
    if not sizes or min(sizes) < 1 or sum(sizes) != channels:
        raise ValueError(f"sizes: expected positive numbers of channels, C={channels} in all, got {sizes}")
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
    options = {"activation": activation, "sizes": sizes, "implementation": arguments.check_implementation(implementation)}
    if bias is not None:
        bias = arguments.as_array("bias", bias)
        arguments.check_shape("bias", bias, (channels,), "C")
    if bias is None and cu_seqlens is None:
        results = (
            _whole_rows(x, state, weight, **options)
            if lengths is None
            else _padded_rows(x, state, weight, bounds[:, 1], **options)
        )
    else:
        form = "packed" if cu_seqlens is not None else "whole" if lengths is None else "padded"
        given = jnp.zeros((channels,), jnp.float32) if bias is None else bias
        results = _convolution(x, state, weight, given, bounds, form=form, biased=bias is not None, **options)
    return tuple(results[:-1]), results[-1]


@named("causal_conv1d")
def _whole_rows(x: jax.Array, state: jax.Array, weight: jax.Array, **options: Any) -> tuple[jax.Array, ...]:
    ends = jnp.full((x.shape[0],), x.shape[1], jnp.int32)
    return _without_bias(x, state, weight, ends, form="whole", **options)


@named("causal_conv1d_padded")
def _padded_rows(x: jax.Array, state: jax.Array, weight: jax.Array, lengths: jax.Array, **options: Any) -> tuple[jax.Array, ...]:
    return _without_bias(x, state, weight, lengths, form="padded", **options)


def _without_bias(x: jax.Array, state: jax.Array, weight: jax.Array, ends: jax.Array, **options: Any) -> tuple[jax.Array, ...]:
    bounds = jnp.stack([jnp.zeros_like(ends), ends], axis=1)
    return _convolution(x, state, weight, jnp.zeros((x.shape[2],), jnp.float32), bounds, biased=False, **options)


def _plain(
    x: jax.Array,
    state: jax.Array,
    weight: jax.Array,
    bias: jax.Array,
    bounds: jax.Array,
    *,
    activation: str | None,
    sizes: tuple[int, ...],
    form: str,
    biased: bool,
) -> tuple[jax.Array, ...]:
    """The jnp form. form: "whole" rows of T tokens, "padded" ones that end at their bound, or "packed" sequences."""
    inside = (jnp.arange(x.shape[1])[None] < bounds[:, 1:])[..., None] if form == "padded" else None
    zero = jnp.zeros((), x.dtype)
    if inside is not None:
        x = jnp.where(inside, x, zero)  # NaN at padding would come back through the weight's gradient
    if form == "packed":
        windows, final = _packed_rows(x, state, bounds)
    else:
        windows, final = _rows(x, state, bounds[:, 1] if form == "padded" else None)
    y = _convolved(windows, weight, bias if biased else None, activation).astype(x.dtype)
    if inside is not None:
        y = jnp.where(inside, y, zero)
    if form != "whole":
        y, final = arguments.nan_where_wrong(bounds, x.shape[1], y, final)
    ends = np.cumsum(sizes).tolist()
    return *(y[..., end - size : end] for size, end in zip(sizes, ends, strict=True)), final


def _native(
    x: jax.Array, state: jax.Array, weight: jax.Array, bias: jax.Array, bounds: jax.Array, **options: Any
) -> tuple[jax.Array, ...]:
    kind = jax.typeof(x)
    results = (jax.typeof(state), *(kind.update(shape=(*x.shape[:2], size)) for size in options["sizes"]))
    kernel = jax.ffi.ffi_call(xla.register_convolution(), results)
    final, *parts = kernel(
        x,
        state,
        weight.T.astype(jnp.float32),
        bias.astype(jnp.float32),
        bounds,
        **_native_calls.attributes(),
        silu=np.int32(options["activation"] == "silu"),
    )
    return *parts, final


def _results(x: Any, state: Any, *_: Any, sizes: tuple[int, ...], **__: Any) -> tuple[Any, ...]:
    return *(x.update(shape=(*x.shape[:2], size)) for size in sizes), state


def _serves(x: Any, _: Any, weight: Any, *__: Any, **___: Any) -> bool:
    return x.dtype.name in arguments.INPUT_DTYPES and weight.shape[1] <= _MOST_TAPS


_convolution = fused(Kernel("causal_conv1d", _plain, _native, _results, _serves, shared=frozenset({2, 3})))


def _convolved(windows: list[jax.Array], weight: jax.Array, bias: jax.Array | None, activation: str | None) -> jax.Array:
    """The output in fp32 from the inputs under each tap."""
    terms = [weight[None, None, :, j].astype(jnp.float32) * window.astype(jnp.float32) for j, window in enumerate(windows)]
    y = functools.reduce(jnp.add, terms)
    if bias is not None:
        y = y + bias[None, None].astype(jnp.float32)
    return jax.nn.silu(y) if activation == "silu" else y


def _rows(x: jax.Array, state: jax.Array, lengths: jax.Array | None) -> tuple[list[jax.Array], jax.Array]:
    """The inputs under each tap, oldest first, and the last K - 1 inputs of each row."""
    tokens, memory = x.shape[1], state.shape[1]
    padded = jnp.concatenate([state, x], axis=1)
    windows = [padded[:, j : j + tokens] for j in range(memory + 1)]
    if lengths is None:
        return windows, padded[:, tokens:]
    last = lengths[:, None] + jnp.arange(memory, dtype=jnp.int32)[None]
    return windows, jnp.take_along_axis(padded, last[..., None], axis=1, mode="clip")


def _packed_rows(x: jax.Array, state: jax.Array, bounds: jax.Array) -> tuple[list[jax.Array], jax.Array]:
    """As `_rows` for packed rows: a tap that reaches before its sequence reads that sequence's state."""
    if x.shape[0] == 1:
        windows, final = _packed(x[0], state, bounds[0])
        return [window[None] for window in windows], final
    states = state.reshape(x.shape[0], bounds.shape[1] - 1, *state.shape[1:])
    windows, final = jax.vmap(_packed)(x, states, bounds)
    return windows, final.reshape(state.shape)


def _packed(x: jax.Array, state: jax.Array, bounds: jax.Array) -> tuple[list[jax.Array], jax.Array]:
    """One row: x [T, C], state [N, K - 1, C], bounds [N + 1]."""
    memory, sequences = state.shape[1], state.shape[0]

    def read(sequence: jax.Array, position: jax.Array) -> jax.Array:
        """Input number `position` of a sequence; negative ones come from its state."""
        token = x.at[bounds[sequence] + position].get(mode="clip")
        if memory == 0:
            return token
        before = state.at[sequence, memory + position].get(mode="clip")
        return jnp.where((position >= 0)[..., None], token, before)

    token = jnp.arange(x.shape[0], dtype=jnp.int32)
    owner = jnp.clip(jnp.searchsorted(bounds, token, side="right") - 1, 0, sequences - 1)
    windows = [read(owner, token - bounds[owner] - memory + j) for j in range(memory + 1)]
    length = bounds[1:] - bounds[:-1]
    final = read(jnp.arange(sequences)[:, None], length[:, None] - memory + jnp.arange(memory, dtype=jnp.int32)[None])
    return windows, final
