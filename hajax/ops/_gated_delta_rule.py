"""The gated delta rule (Gated DeltaNet): signature, checks, call. Yang, Kautz, Hatamizadeh, "Gated Delta Networks" (2024)."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hajax.mechanisms import GATED_DELTA_RULE
from hajax.ops import _arguments as arguments
from hajax.ops import _compat
from hajax.ops._options import chosen_implementation
from hajax.ops._primitive import Static, delta_rule

MAX_HEAD_DIM = 256


def gated_delta_rule(
    query: Any,
    key: Any,
    value: Any,
    log_decay: Any,
    beta: Any,
    *,
    initial_state: Any = None,
    scale: float | None = None,
    lengths: Any = None,
    cu_seqlens: Any = None,
    l2norm_eps: float | None = None,
    preferred_element_type: Any = None,
    implementation: str | None = None,
) -> tuple[jax.Array, jax.Array]:
    r"""Gated delta rule over whole sequences.

    For each value head, with the state S [Dk, Dv] in fp32, token after token::

        S <- exp(log_decay) S;   u = beta (v - S^T k);   S <- S + k u^T;   o = scale S^T q

    ===============  =======================  ==========================================================
    argument         shape                    dtype
    ===============  =======================  ==========================================================
    query, key       [B, T, Hk, Dk]           float32, bfloat16 or float16
    value            [B, T, Hv, Dv]           as query; Hv a multiple of Hk, value head h reads key head h // (Hv / Hk)
    log_decay        [B, T, Hv]               floating point, natural logarithm, <= 0 (-inf forgets everything)
    beta             [B, T, Hv]               floating point, write strength
    initial_state    [B, Hv, Dk, Dv]          converted to float32; [N, Hv, Dk, Dv] with cu_seqlens; zeros when None
    lengths          [B]                      integers: row b ends after lengths[b] tokens, the rest is padding
    cu_seqlens       [N + 1]                  integers 0 .. T, ascending: N sequences packed into one row (B = 1)
    ===============  =======================  ==========================================================

    Head dims are multiples of 8 up to 256; Dk and Dv may differ.

    Args:
      scale: multiplies the query; Dk ** -0.5 when None.
      l2norm_eps: when given, query and key rows are divided by sqrt(sum of squares + l2norm_eps) first, in fp32.
      preferred_element_type: dtype of the output (float32, bfloat16 or float16); value's dtype when None.
      implementation: "cpu" (the fused native kernel), "xla" (plain jnp, wherever JAX runs), or None: the best that runs.

    Returns:
      output [B, T, Hv, Dv], zero at padding, and the final state [B, Hv, Dk, Dv] ([N, ...] with cu_seqlens) in float32.

    Raises:
      ValueError, TypeError: while tracing, naming the argument, what was expected and what came. Values of `lengths`,
        `cu_seqlens` and `log_decay` are checked when they are concrete; of wrong lengths that only the running program
        knows the kernel raises RuntimeError, and plain jnp makes NaN.
    """
    query, key, value, log_decay, beta = _checked_tokens(query, key, value, log_decay, beta, "B T")
    batch, tokens, value_heads = value.shape[:3]
    bounds, sequences = arguments.sequence_bounds(batch, tokens, lengths, cu_seqlens)
    _check_log_decay(log_decay, bounds)
    rows, axis = (batch, "B") if cu_seqlens is None else (sequences, "N")
    state = _checked_state("initial_state", initial_state, (rows, value_heads, query.shape[-1], value.shape[-1]), axis)
    static = _static(query, value, scale, l2norm_eps, preferred_element_type, implementation)
    return delta_rule(static, *_compat.same_varying_axes((query, key, value, log_decay, beta, state, bounds)))


def gated_delta_rule_step(
    query: Any,
    key: Any,
    value: Any,
    log_decay: Any,
    beta: Any,
    state: Any,
    *,
    scale: float | None = None,
    l2norm_eps: float | None = None,
    preferred_element_type: Any = None,
    implementation: str | None = None,
) -> tuple[jax.Array, jax.Array]:
    """One token of `gated_delta_rule`, for decoding.

    query, key [B, Hk, Dk]; value [B, Hv, Dv]; log_decay, beta [B, Hv]; state [B, Hv, Dk, Dv] float32. The state is
    updated in place when its buffer is donated to the surrounding jit (or carried by a scan).

    Returns the output [B, Hv, Dv] and the next state. Keywords and errors as in `gated_delta_rule`.
    """
    query, key, value, log_decay, beta = _checked_tokens(query, key, value, log_decay, beta, "B")
    batch, value_heads, value_dim = value.shape
    if state is None:
        raise TypeError("state: expected an array [B, Hv, Dk, Dv], got None")
    state = _checked_state("state", state, (batch, value_heads, query.shape[-1], value_dim), "B")
    static = _static(query, value, scale, l2norm_eps, preferred_element_type, implementation)
    bounds, _ = arguments.sequence_bounds(batch, 1, None, None)
    tokens = tuple(x[:, None] for x in (query, key, value, log_decay, beta))
    _check_log_decay(tokens[3], bounds)
    output, state = delta_rule(static, *_compat.same_varying_axes((*tokens, state, bounds)))
    return output[:, 0], state


def _checked_tokens(query: Any, key: Any, value: Any, log_decay: Any, beta: Any, leading: str) -> tuple[jax.Array, ...]:
    """The five token arrays, their shapes held against the query's and the value's; `leading` is "B T" or "B"."""
    query, key, value, log_decay, beta = (
        arguments.as_array(name, x)
        for name, x in zip(("query", "key", "value", "log_decay", "beta"), (query, key, value, log_decay, beta), strict=True)
    )
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
    for name, x in (("log_decay", log_decay), ("beta", beta)):
        arguments.check_float(name, x)
        arguments.check_shape(name, x, (*lead, value_heads), f"{leading} Hv")
    return query, key, value, log_decay.astype(jnp.float32), beta.astype(jnp.float32)


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
    query: jax.Array, value: jax.Array, scale: float | None, l2norm_eps: float | None, output: Any, implementation: str | None
) -> Static:
    if scale is not None and not isinstance(scale, int | float | np.number):
        raise TypeError(f"scale: expected a number or None, got {type(scale).__name__}")
    if scale is not None and not math.isfinite(scale):
        raise ValueError(f"scale: expected a finite number or None, got {scale}")
    if l2norm_eps is not None and not (isinstance(l2norm_eps, int | float | np.number) and l2norm_eps >= 0):
        raise ValueError(f"l2norm_eps: expected a number >= 0 or None, got {l2norm_eps!r}")
    try:
        dtype = jnp.dtype(value.dtype if output is None else output).name
    except TypeError:
        dtype = repr(output)
    if dtype not in arguments.INPUT_DTYPES:
        raise TypeError(f"preferred_element_type: expected float32, bfloat16 or float16, got {dtype}")
    return Static(
        mechanism=GATED_DELTA_RULE,
        scale=float(query.shape[-1] ** -0.5 if scale is None else scale),
        l2norm_eps=None if l2norm_eps is None else float(l2norm_eps),
        output_dtype=dtype,
        implementation=chosen_implementation(implementation),
    )
