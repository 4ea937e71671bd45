"""Unit lower triangular systems in plain jnp, by blocked forward substitution.

Not jax.lax.linalg.triangular_solve: on the CPU its batched form hands work to XLA's own thread pool and blocks one of its
threads until that is done, so that two at once (a backward pass runs several) can wait for each other for ever.
"""

import jax
import jax.numpy as jnp

_BLOCK = 16


def solve_unit_lower(strict: jax.Array, right: jax.Array) -> jax.Array:
    """X of (I + strict) X = right: `strict` [..., C, C] strictly lower triangular, right [..., C, V], C 1 or a multiple of 8.

    Diagonal blocks are inverted by doubling (every intermediate is an inverse itself, so its entries stay small), the rest is
    substituted block by block; no power of `strict` is formed, which would blow up for repeated keys.
    """
    size = strict.shape[-1]
    block = next(b for b in (_BLOCK, 8, 1) if size % b == 0)
    starts = range(0, size, block)
    diagonal = jnp.stack([strict[..., i : i + block, i : i + block] for i in starts], axis=-3)
    inverse = _invert_unit_lower(diagonal)
    done: list[jax.Array] = []
    for number, i in enumerate(starts):
        rest = right[..., i : i + block, :]
        if done:
            rest = rest - _matmul(strict[..., i : i + block, :i], jnp.concatenate(done, axis=-2))
        done.append(_matmul(inverse[..., number, :, :], rest))
    return jnp.concatenate(done, axis=-2)


def _invert_unit_lower(strict: jax.Array) -> jax.Array:
    """(I + strict)^-1 of small blocks by doubling: with T the inverses of all diagonal blocks of size s, and L what `strict`
    holds between two neighbours of them, T - T L T holds those of size 2 s."""
    size = strict.shape[-1]
    index = jnp.arange(size)
    inverse = jnp.broadcast_to(jnp.eye(size, dtype=strict.dtype), strict.shape)
    reach = 1
    while reach < size:
        own = index // reach
        neighbours = (own[:, None] == own[None] + 1) & (own[:, None] % 2 == 1)
        inverse = inverse - _matmul(_matmul(inverse, jnp.where(neighbours, strict, 0.0)), inverse)
        reach *= 2
    return inverse


def _matmul(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.matmul(a, b, precision=jax.lax.Precision.HIGHEST)
