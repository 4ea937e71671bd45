"""What the operators of the delta-rule family share: checks of their arguments, and the call of the one primitive."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hajax.mechanisms import Mechanism
from hajax.ops import _arguments as arguments
from hajax.ops import _compat
from hajax.ops._options import chosen
from hajax.ops._primitive import Static, delta_rule

MAX_HEAD_DIM = 256

Tokens = dict[str, Any]  # query, key, value, log_decay, beta and, with two strengths, erase; in the order of the signature


def sequences(
    mechanism: Mechanism, tokens: Tokens, *, initial_state: Any, lengths: Any, cu_seqlens: Any, **options: Any
) -> tuple[jax.Array, jax.Array]:
    """An operator over whole sequences: tokens [B, T, ...]; `options` are those of `_static`."""
    query, key, value, log_decay, beta = _checked_tokens(mechanism, tokens, "B T")
    batch, length, value_heads = value.shape[:3]
    bounds, count = arguments.sequence_bounds(batch, length, lengths, cu_seqlens)
    if mechanism.decay != "none":
        _check_log_decay(log_decay, bounds)
    rows, axis = (batch, "B") if cu_seqlens is None else (count, "N")
    state = _checked_state("initial_state", initial_state, (rows, value_heads, query.shape[-1], value.shape[-1]), axis)
    static = _static(mechanism, query, value, **options)
    return delta_rule(static, *_compat.same_varying_axes((query, key, value, log_decay, beta, state, bounds)))


def step(mechanism: Mechanism, tokens: Tokens, *, state: Any, **options: Any) -> tuple[jax.Array, jax.Array]:
    """An operator on one token: tokens [B, ...]; output [B, Hv, Dv] and the next state."""
    query, key, value, log_decay, beta = _checked_tokens(mechanism, tokens, "B")
    batch, value_heads, value_dim = value.shape
    if state is None:
        raise TypeError("state: expected an array [B, Hv, Dk, Dv], got None")
    state = _checked_state("state", state, (batch, value_heads, query.shape[-1], value_dim), "B")
    static = _static(mechanism, query, value, **options)
    bounds, _ = arguments.sequence_bounds(batch, 1, None, None)
    row = tuple(x[:, None] for x in (query, key, value, log_decay, beta))
    if mechanism.decay != "none":
        _check_log_decay(row[3], bounds)
    output, state = delta_rule(static, *_compat.same_varying_axes((*row, state, bounds)))
    return output[:, 0], state


def _checked_tokens(mechanism: Mechanism, tokens: Tokens, leading: str) -> tuple[jax.Array, ...]:
    """The primitive's five token operands, their shapes held against the query's and the value's; `leading` is "B T" or "B"."""
    arrays = {name: arguments.as_array(name, x) for name, x in tokens.items()}
    query, key, value = arrays["query"], arrays["key"], arrays["value"]
    arguments.check_rank("query", query, f"{leading} Hk Dk")
    arguments.check_rank("value", value, f"{leading} Hv Dv")
    arguments.check_input_dtype("query", query)
    arguments.check_input_dtype("key", key, query.dtype)
    arguments.check_input_dtype("value", value, query.dtype)
    arguments.check_shape("key", key, query.shape, f"{leading} Hk Dk")
    lead = query.shape[:-2]
    key_heads, key_dim = query.shape[-2:]
    value_heads, value_dim = value.shape[-2:]
    arguments.check_shape("value", value, (*lead, value_heads, value_dim), f"{leading} Hv Dv")
    if key_heads < 1 or value_heads < 1 or value_heads % key_heads:
        raise ValueError(f"value: expected Hv to be a positive multiple of the query's Hk={key_heads}, got Hv={value_heads}")
    for name, dim in (("query", key_dim), ("value", value_dim)):
        if dim % 8 or not 8 <= dim <= MAX_HEAD_DIM:
            raise ValueError(f"{name}: expected a head dim that is a multiple of 8 from 8 to {MAX_HEAD_DIM}, got {dim}")
    for axis, size in zip(leading.split(), lead, strict=True):
        if isinstance(size, int) and size < 1:
            raise ValueError(f"query: expected {axis} >= 1, got shape {query.shape}")
    heads, axes = (*lead, value_heads), f"{leading} Hv"
    for name in ("log_decay", "beta", "erase"):
        if name in arrays:
            channels = name == "log_decay" and mechanism.decay == "per_channel"
            arguments.check_float(name, arrays[name])
            shape = (*heads, key_dim) if channels else heads
            arguments.check_shape(name, arrays[name], shape, f"{axes} Dk" if channels else axes)
    # Without a decay or a strength the primitive still has its operands: zeros that nobody reads, and ones.
    log_decay = arrays["log_decay"] if "log_decay" in arrays else jnp.zeros(heads, jnp.float32)
    beta = arrays["beta"] if "beta" in arrays else jnp.ones(heads, jnp.float32)
    log_decay, beta = log_decay.astype(jnp.float32), beta.astype(jnp.float32)
    if mechanism.strengths == 2:
        beta = jnp.stack([arrays["erase"].astype(jnp.float32), beta], axis=-1)
    return query, key, value, log_decay, beta


def _check_log_decay(log_decay: jax.Array, bounds: jax.Array) -> None:
    """Refuses a value above 0, or NaN, among the tokens of the sequences; padding may hold anything."""
    known, ends = arguments.concrete(log_decay), arguments.concrete(bounds)
    if known is None or ends is None:
        return
    inside = known[np.arange(known.shape[1]) < ends[:, -1:]]
    wrong = inside[~(inside <= 0)].astype(np.float32)
    if wrong.size:
        raise ValueError(f"log_decay: expected values <= 0, got {wrong.max():g}")


def _checked_state(name: str, state: Any, shape: tuple[Any, ...], rows: str) -> jax.Array:
    if state is None:
        return jnp.zeros(shape, jnp.float32)
    state = arguments.as_array(name, state)
    arguments.check_float(name, state)
    arguments.check_shape(name, state, shape, f"{rows} Hv Dk Dv")
    return state.astype(jnp.float32)


def _static(
    mechanism: Mechanism,
    query: jax.Array,
    value: jax.Array,
    *,
    scale: float | None,
    l2norm_eps: float | None,
    preferred_element_type: Any,
    implementation: str | None,
    target: str | None,
) -> Static:
    if scale is not None and not isinstance(scale, int | float | np.number):
        raise TypeError(f"scale: expected a number or None, got {type(scale).__name__}")
    if scale is not None and not math.isfinite(scale):
        raise ValueError(f"scale: expected a finite number or None, got {scale}")
    if l2norm_eps is not None and not (isinstance(l2norm_eps, int | float | np.number) and l2norm_eps >= 0):
        raise ValueError(f"l2norm_eps: expected a number >= 0 or None, got {l2norm_eps!r}")
    try:
        dtype = jnp.dtype(value.dtype if preferred_element_type is None else preferred_element_type).name
    except TypeError:
        dtype = repr(preferred_element_type)
    if dtype not in arguments.INPUT_DTYPES:
        raise TypeError(f"preferred_element_type: expected float32, bfloat16 or float16, got {dtype}")
    implementation, target = chosen(implementation, target)
    return Static(
        mechanism=mechanism,
        scale=float(query.shape[-1] ** -0.5 if scale is None else scale),
        l2norm_eps=None if l2norm_eps is None else float(l2norm_eps),
        output_dtype=dtype,
        implementation=implementation,
        target=target,
    )
