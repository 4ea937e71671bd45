"""The delta rule in plain jnp, chunk by chunk: the default lowering on every platform and the meaning of the backward pass.

Decay exponents are segment sums (terms of one sign), never differences of a cumulative sum; the mask goes in before exp.
Algebra: Yang et al., "Gated Delta Networks" (2024), with X = (I + A)^-1 beta (V - e^G K S): the solve has Dv right-hand sides.
"""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp

from hajax.mechanisms import Mechanism
from hajax.ops._arguments import nan_where_wrong
from hajax.ops._solve import solve_unit_lower

CHUNK = 64
_LOWEST_LOG_DECAY = -1000.0  # exp of it is 0 in fp32 and fp64, and sums of it stay finite where -inf would make NaN
_COARSE = 1024.0
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
    chunk = min(CHUNK, math.ceil(total / 8) * 8) if isinstance(total, int) else CHUNK
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
    final, output = jax.lax.scan(lambda s, c: _chunk(s, c, mechanism), state, chunks)
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

    def body(states: jax.Array, step: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
        which, *chunk = step
        new, output = _chunk(states[which][None], tuple(x[None] for x in chunk), mechanism)
        return states.at[which].set(new[0]), output[0]

    final, output = jax.lax.scan(body, state, (sequence, *gathered))
    token = jnp.arange(total, dtype=jnp.int32)
    owner = jnp.clip(jnp.searchsorted(bounds, token, side="right") - 1, 0, sequences - 1)
    offset = token - start[owner]
    output = output.at[first_chunk[owner] + offset // CHUNK, offset % CHUNK].get(mode="clip")
    return _masked((output,), (token >= bounds[0]) & (token < bounds[-1]))[0], final


def _one_token(tokens: tuple[jax.Array, ...], state: jax.Array, mechanism: Mechanism) -> tuple[jax.Array, jax.Array]:
    query, key, value, log_decay, beta = tokens
    state = state * jnp.exp(log_decay)[..., None, None]
    if mechanism.delta:
        value = value - jnp.einsum("bhk,bhrkv->bhrv", key, state, precision=_EXACT)
    update = beta[..., None] * value
    state = state + key[:, :, None, :, None] * update[..., None, :]
    return jnp.einsum("bhk,bhrkv->bhrv", query, state, precision=_EXACT), state


def _chunk(state: jax.Array, tokens: tuple[jax.Array, ...], mechanism: Mechanism) -> tuple[jax.Array, jax.Array]:
    """State [B, Hk, R, Dk, Dv] and one chunk of C tokens ([B, C, Hk, ...]) to the next state and the output [B, C, Hk, R, Dv]."""
    query, key = (jnp.swapaxes(x, 1, 2) for x in tokens[:2])  # [B, Hk, C, Dk]
    value, log_decay, beta = (jnp.moveaxis(x, 1, 3) for x in tokens[2:])  # [B, Hk, R, C, ...]
    size = query.shape[2]
    lower = jnp.tril(jnp.ones((size, size), jnp.float32))
    strict = lower - jnp.eye(size, dtype=jnp.float32)

    def product(spec: str, *xs: jax.Array) -> jax.Array:
        return jnp.einsum(spec, *xs, precision=_EXACT)

    lower_of_all, strict_of_all = (x.reshape(1, 1, 1, size, size) for x in (lower, strict))
    between = product("it,bhrtj->bhrij", lower, log_decay[..., None] * strict_of_all)  # sums of g over j < t <= i
    ratio = jnp.exp(jnp.where(lower_of_all > 0, between, -jnp.inf))
    # In two parts, as an exponent near -80 rounded once would put a relative 4e-6 on a state that nothing is written to.
    coarse = jnp.round(log_decay * _COARSE) / _COARSE  # sums of these are exact down to where exp of them is 0
    parts = (coarse, log_decay - coarse)
    from_start, to_end = (
        jnp.multiply(*(jnp.exp(product(spec, mask, part)) for part in parts))[..., None]
        for spec, mask in (("it,bhrt->bhri", lower), ("tj,bhrt->bhrj", strict))
    )
    update = value
    if mechanism.delta:
        update = update - from_start * product("bhik,bhrkv->bhriv", key, state)
    update = beta[..., None] * update
    if mechanism.delta:
        system = strict_of_all * beta[..., None] * ratio * product("bhik,bhjk->bhij", key, key)[:, :, None]
        update = solve_unit_lower(system, update)
    scores = ratio * product("bhik,bhjk->bhij", query, key)[:, :, None]
    output = from_start * product("bhik,bhrkv->bhriv", query, state) + product("bhrij,bhrjv->bhriv", scores, update)
    state = from_start[..., -1:, :] * state + product("bhjk,bhrjv->bhrkv", key, to_end * update)
    return state, jnp.moveaxis(output, 3, 1)
