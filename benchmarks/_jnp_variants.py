"""Formulations of the gated delta rule in plain jnp, as good as their forty lines allow: what hajax's kernel has to beat.

Each takes query, key [B, T, Hk, D], value [B, T, Hv, D], log_decay, beta [B, T, Hv] and returns the output in value's dtype
and the final state, with l2-normalised queries and keys, from a zero state. fp32 inside; XLA keeps fp32 products exact on CPUs.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

CHUNK = 64
EPS = 1e-6
Solve = Callable[[jax.Array, jax.Array], jax.Array]


def _heads_first(query: jax.Array, key: jax.Array, *rest: jax.Array) -> tuple[jax.Array, ...]:
    """All five in fp32 as [B, Hv, T, ...]; rows of query and key normalised, both repeated for the value heads."""
    shared = rest[0].shape[2] // query.shape[2]
    query, key = (x.astype(jnp.float32) for x in (query, key))
    query, key = (x * jax.lax.rsqrt(jnp.sum(x * x, -1, keepdims=True) + EPS) for x in (query, key))
    query, key = (jnp.repeat(x, shared, axis=2) for x in (query * query.shape[-1] ** -0.5, key))
    return tuple(jnp.swapaxes(x.astype(jnp.float32), 1, 2) for x in (query, key, *rest))


def _chunkwise(solve: Solve, *operands: jax.Array) -> tuple[jax.Array, jax.Array]:
    """A scan over chunks that carries the states of all heads; (I + A) X = beta (V - decay K S) by `solve`."""
    value = operands[2]
    batch, tokens, heads, dim = value.shape
    count = -(-tokens // CHUNK)
    padded = (jnp.pad(x, [(0, 0), (0, count * CHUNK - tokens)] + [(0, 0)] * (x.ndim - 2)) for x in operands)
    chunks = tuple(jnp.moveaxis(x.reshape(batch, heads, count, CHUNK, *x.shape[3:]), 2, 0) for x in _heads_first(*padded))
    lower = jnp.tril(jnp.ones((CHUNK, CHUNK), bool))
    strict = jnp.tril(jnp.ones((CHUNK, CHUNK), bool), -1)

    def step(state: jax.Array, chunk: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
        q, k, v, g, beta = chunk
        total = jnp.cumsum(g, -1)
        ratio = jnp.exp(jnp.where(lower, total[..., :, None] - total[..., None, :], -jnp.inf))
        decay = jnp.exp(total)[..., None]
        right = beta[..., None] * (v - decay * (k @ state))
        scores = jnp.concatenate([k, q], -2) @ jnp.swapaxes(k, -1, -2)
        update = solve(jnp.where(strict, beta[..., None] * ratio * scores[..., :CHUNK, :], 0.0), right)
        output = decay * (q @ state) + (ratio * scores[..., CHUNK:, :]) @ update
        kept = jnp.exp(total[..., -1:] - total)[..., None] * k
        return decay[..., -1:, :] * state + jnp.swapaxes(kept, -1, -2) @ update, output

    start = jnp.zeros((batch, heads, operands[0].shape[-1], dim), jnp.float32)
    final, output = jax.lax.scan(step, start, chunks)
    output = jnp.moveaxis(output, 0, 2).reshape(batch, heads, count * CHUNK, dim)[:, :, :tokens]
    return jnp.swapaxes(output, 1, 2).astype(value.dtype), final


def scan_solve(*operands: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Scan over chunks, one triangular solve each."""

    def solve(system: jax.Array, right: jax.Array) -> jax.Array:
        return jax.lax.linalg.triangular_solve(system, right, left_side=True, lower=True, unit_diagonal=True)

    return _chunkwise(solve, *operands)


def product_inverse(*operands: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Scan over chunks; (I + A)^-1 X as the product of (I + (-A)^(2^i)), which is finite as A is nilpotent."""

    def solve(system: jax.Array, right: jax.Array) -> jax.Array:
        power = -system
        for _ in range(CHUNK.bit_length() - 2):
            right = right + power @ right
            power = power @ power
        return right + power @ right

    return _chunkwise(solve, *operands)


def token_scan(*operands: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The definition, token after token."""
    value = operands[2]
    tokens = tuple(jnp.moveaxis(x, 2, 0) for x in _heads_first(*operands))

    def step(state: jax.Array, token: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
        q, k, v, g, beta = token
        state = jnp.exp(g)[..., None, None] * state
        update = beta[..., None] * (v - jnp.einsum("bhk,bhkv->bhv", k, state))
        state = state + k[..., :, None] * update[..., None, :]
        return state, jnp.einsum("bhk,bhkv->bhv", q, state)

    start = jnp.zeros((value.shape[0], value.shape[2], operands[0].shape[-1], value.shape[3]), jnp.float32)
    final, output = jax.lax.scan(step, start, tokens)
    return jnp.moveaxis(output, 0, 1).astype(value.dtype), final
