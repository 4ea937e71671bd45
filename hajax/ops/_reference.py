"""The family in plain jnp, chunk by chunk: the default lowering on every platform and the meaning of the backward pass.

Decay exponents are segment sums (terms of one sign), never differences of a cumulative sum; the mask goes in before exp.
Algebra: Yang et al., "Gated Delta Networks" (2024), with X = (I + A)^-1 beta (V - e^G K S): the solve has Dv right-hand sides.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from hajax.mechanisms import Mechanism
from hajax.ops import _decays
from hajax.ops._arguments import nan_where_wrong
from hajax.ops._solve import solve_unit_lower

CHUNK = 64
_LOWEST_LOG_DECAY = -1000.0  # exp of it is 0 in fp32 and fp64, and sums of it stay finite where -inf would make NaN
_EXACT = jax.lax.Precision.HIGHEST


def delta_rule(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    log_decay: jax.Array,
    beta: jax.Array,
    state: jax.Array,
    bounds: jax.Array,
    *,
    mechanism: Mechanism,
    scale: float,
    l2norm_eps: float | None,
    output_dtype: Any,
) -> tuple[jax.Array, jax.Array]:
    """Output [B, T, Hv, Dv] and final state [B * N, Hv, Dk, Dv] fp32 of the sequences that `bounds` [B, N + 1] cuts."""
    key_heads, value_heads = query.shape[2], value.shape[2]
    heads = (key_heads, value_heads // key_heads)
    position = jnp.arange(query.shape[1], dtype=jnp.int32)[None]
    inside = (position >= bounds[:, :1]) & (position < bounds[:, -1:])
    # First and once more after the norm: NaN at padding must not come back through a gradient, nor out of a norm without eps.
    query, key, value, log_decay, beta = _masked((query, key, value, log_decay, beta), inside)
    query, key, value = (x.astype(jnp.float32) for x in (query, key, value))
    if l2norm_eps is not None:
        query, key = (x * jax.lax.rsqrt(jnp.sum(x * x, -1, keepdims=True) + l2norm_eps) for x in (query, key))
    log_decay = jnp.maximum(log_decay, _LOWEST_LOG_DECAY)
    query, key = _masked((query * scale, key), inside)
    tokens = (query, key, _split(value, heads, 2), _split(log_decay, heads, 2), _split(beta, heads, 2))
    state = _split(state, heads, 1)
    if bounds.shape[1] == 2:
        output, final = _rows(tokens, state, mechanism)
    else:
        states = state.reshape(bounds.shape[0], bounds.shape[1] - 1, *state.shape[1:])
        output, final = jax.vmap(functools.partial(_packed, mechanism=mechanism))(tokens, states, bounds)
        final = final.reshape(state.shape)
    output, final = _merge(output, 2).astype(output_dtype), _merge(final, 1)
    return nan_where_wrong(bounds, inside.shape[1], output, final)


def _split(x: jax.Array, heads: tuple[int, int], axis: int) -> jax.Array:
    return x.reshape(*x.shape[:axis], *heads, *x.shape[axis + 1 :])


def _merge(x: jax.Array, axis: int) -> jax.Array:
    return x.reshape(*x.shape[:axis], x.shape[axis] * x.shape[axis + 1], *x.shape[axis + 2 :])


def _masked(tokens: tuple[jax.Array, ...], inside: jax.Array) -> tuple[jax.Array, ...]:
    """Zero outside: such a token neither decays, writes nor reads, whatever garbage its row holds."""
    return tuple(jnp.where(inside.reshape(*inside.shape, *(1,) * (x.ndim - inside.ndim)), x, 0.0) for x in tokens)


def _rows(tokens: tuple[jax.Array, ...], state: jax.Array, mechanism: Mechanism) -> tuple[jax.Array, jax.Array]:
    """One sequence a row: a scan over chunks with all rows side by side."""
    total = tokens[0].shape[1]
    if isinstance(total, int) and total == 1:
        output, state = _one_token(tuple(x[:, 0] for x in tokens), state, mechanism)
        return output[:, None], state
    chunk = min(CHUNK, _short_chunk(total, mechanism)) if isinstance(total, int) else CHUNK
    count = -(-total // chunk)
    chunks = tuple(
        jnp.moveaxis(
            jnp.pad(x, [(0, 0), (0, count * chunk - total)] + [(0, 0)] * (x.ndim - 2)).reshape(
                x.shape[0], count, chunk, *x.shape[2:]
            ),
            1,
            0,
        )
        for x in tokens
    )
    final, output = jax.lax.scan(_chunk_of(mechanism), state, chunks)
    output = jnp.moveaxis(output, 0, 1)
    return output.reshape(output.shape[0], count * chunk, *output.shape[3:])[:, :total], final


def _packed(
    tokens: tuple[jax.Array, ...], state: jax.Array, bounds: jax.Array, mechanism: Mechanism
) -> tuple[jax.Array, jax.Array]:
    """Several sequences in one row: every sequence starts a chunk of its own, so at most T / chunk + N chunks exist."""
    total, sequences = tokens[0].shape[0], bounds.shape[0] - 1
    start, length = bounds[:-1], bounds[1:] - bounds[:-1]
    last_chunk = jnp.cumsum(-(-length // CHUNK))
    first_chunk = last_chunk - (-(-length // CHUNK))
    index = jnp.arange(total // CHUNK + sequences, dtype=jnp.int32)
    sequence = jnp.minimum(jnp.searchsorted(last_chunk, index, side="right"), sequences - 1)
    chunk_start = start[sequence] + (index - first_chunk[sequence]) * CHUNK
    position = chunk_start[:, None] + jnp.arange(CHUNK, dtype=jnp.int32)[None]
    inside = (position < bounds[sequence + 1][:, None]) & (index < last_chunk[-1])[:, None]
    gathered = _masked(tuple(x.at[position].get(mode="clip") for x in tokens), inside)
    step = _chunk_of(mechanism)

    def body(states: jax.Array, piece: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
        which, *chunk = piece
        new, output = step(states[which][None], tuple(x[None] for x in chunk))
        return states.at[which].set(new[0]), output[0]

    final, output = jax.lax.scan(body, state, (sequence, *gathered))
    token = jnp.arange(total, dtype=jnp.int32)
    owner = jnp.clip(jnp.searchsorted(bounds, token, side="right") - 1, 0, sequences - 1)
    offset = token - start[owner]
    output = output.at[first_chunk[owner] + offset // CHUNK, offset % CHUNK].get(mode="clip")
    return _masked((output,), (token >= bounds[0]) & (token < bounds[-1]))[0], final


def _one_token(tokens: tuple[jax.Array, ...], state: jax.Array, mechanism: Mechanism) -> tuple[jax.Array, jax.Array]:
    query, key, value, log_decay, beta = tokens
    if mechanism.decay != "none":
        decay = jnp.exp(log_decay)
        state = state * (decay[..., None] if mechanism.decay == "per_channel" else decay[..., None, None])
    known = jnp.einsum("bhk,bhrkv->bhrv", key, state, precision=_EXACT) if mechanism.delta else None
    update = _strengthened(value, known, beta, mechanism)
    state = state + key[:, :, None, :, None] * update[..., None, :]
    return jnp.einsum("bhk,bhrkv->bhrv", query, state, precision=_EXACT), state


def _strengthened(value: jax.Array, known: jax.Array | None, beta: jax.Array, mechanism: Mechanism) -> jax.Array:
    """write v - erase S^T k; `known` is S^T k, None without the correction."""
    if known is None:
        return beta[..., None] * value
    if mechanism.strengths == 2:
        return beta[..., 1:] * value - beta[..., :1] * known
    return beta[..., None] * (value - known)


def _short_chunk(total: int, mechanism: Mechanism) -> int:
    """The shortest chunk that holds so many tokens: whole blocks of the solve, a power of two where scores are halved."""
    return 1 << max(3, (total - 1).bit_length()) if mechanism.decay == "per_channel" else math.ceil(total / 8) * 8


def _chunk_of(mechanism: Mechanism) -> Callable[..., tuple[jax.Array, jax.Array]]:
    """`_chunk` for a scan. Per channel a backward pass forms the scaled rows again: kept, they are twenty arrays like the key."""
    step = functools.partial(_chunk, mechanism=mechanism)
    return jax.checkpoint(step) if mechanism.decay == "per_channel" else step


def _chunk(state: jax.Array, tokens: tuple[jax.Array, ...], mechanism: Mechanism) -> tuple[jax.Array, jax.Array]:
    """State [B, Hk, R, Dk, Dv] and one chunk of C tokens ([B, C, Hk, ...]) to the next state and the output [B, C, Hk, R, Dv]."""
    query, key = (jnp.swapaxes(x, 1, 2) for x in tokens[:2])  # [B, Hk, C, Dk]
    value, log_decay, beta = (jnp.moveaxis(x, 1, 3) for x in tokens[2:])  # [B, Hk, R, C, ...]
    decays = _decays.of(mechanism, log_decay)
    known = _decays.read(decays, key, state) if mechanism.delta else None
    update = _strengthened(value, known, beta, mechanism)
    if mechanism.delta:
        scores, system = _decays.scores(decays, (query, key), key)
        erase = beta[..., :1] if mechanism.strengths == 2 else beta[..., None]
        update = solve_unit_lower(jnp.tril(erase * system, -1), update)
    else:
        (scores,) = _decays.scores(decays, (query,), key)
    output = _decays.read(decays, query, state) + _decays.product("bhrij,bhrjv->bhriv", scores, update)
    return _decays.advance(decays, state, key, update), jnp.moveaxis(output, 3, 1)
