"""What a chunk of tokens forgets, in plain jnp: rows decayed from the chunk's start or to its end, decayed scores.

Every factor is exp of a sum of log decays, so at most 1; never a quotient. Shapes: B, Hk, R = Hv / Hk, C tokens.
"""

import dataclasses

import jax
import jax.numpy as jnp

from hajax.mechanisms import Mechanism

_COARSE = 1024.0
_EXACT = jax.lax.Precision.HIGHEST
_ELEMENTWISE = 4  # blocks of up to so many tokens are too small for a matrix product


@dataclasses.dataclass(frozen=True, slots=True)
class NoDecay:
    """mask [B, Hk, R, C, C]: 1 for j <= i, 0 elsewhere."""

    mask: jax.Array


@dataclasses.dataclass(frozen=True, slots=True)
class ScalarDecay:
    """from_start, to_end [B, Hk, R, C, 1]: exp of the sums over a token and those before it, and over those after it.

    ratio [B, Hk, R, C, C]: exp of the sums over j < t <= i, 0 for j > i.
    """

    from_start: jax.Array
    to_end: jax.Array
    ratio: jax.Array


@dataclasses.dataclass(frozen=True, slots=True)
class ChannelDecay:
    """log_decay, and as above from_start and to_end, all [B, Hk, R, C, Dk]."""

    log_decay: jax.Array
    from_start: jax.Array
    to_end: jax.Array


Decays = NoDecay | ScalarDecay | ChannelDecay


def product(spec: str, *xs: jax.Array) -> jax.Array:
    return jnp.einsum(spec, *xs, precision=_EXACT)


def of(mechanism: Mechanism, log_decay: jax.Array) -> Decays:
    """The decays of a chunk: log_decay [B, Hk, R, C], or [B, Hk, R, C, Dk] per channel."""
    size = log_decay.shape[3]
    lower = jnp.tril(jnp.ones((size, size), jnp.float32))
    lower_of_all = lower.reshape(1, 1, 1, size, size)
    if mechanism.decay == "none":
        return NoDecay(jnp.broadcast_to(lower_of_all, (*log_decay.shape, size)))
    strict = lower - jnp.eye(size, dtype=jnp.float32)
    # In two parts, as an exponent near -80 rounded once would put a relative 4e-6 on a state that nothing is written to.
    coarse = jnp.round(log_decay * _COARSE) / _COARSE  # sums of these are exact down to where exp of them is 0
    parts = (coarse, log_decay - coarse)
    masks = (("it,bhrt...->bhri...", lower), ("tj,bhrt...->bhrj...", strict))
    from_start, to_end = (jnp.multiply(*(jnp.exp(product(spec, mask, part)) for part in parts)) for spec, mask in masks)
    if mechanism.decay == "per_channel":
        return ChannelDecay(log_decay, from_start, to_end)
    between = product("it,bhrtj->bhrij", lower, log_decay[..., None] * strict.reshape(lower_of_all.shape))
    ratio = jnp.exp(jnp.where(lower_of_all > 0, between, -jnp.inf))
    return ScalarDecay(from_start[..., None], to_end[..., None], ratio)


def read(decays: Decays, rows: jax.Array, state: jax.Array) -> jax.Array:
    """What rows [B, Hk, C, Dk] find in the decayed state [B, Hk, R, Dk, Dv]."""
    match decays:
        case ChannelDecay(from_start=from_start):
            return product("bhrik,bhrkv->bhriv", rows[:, :, None] * from_start, state)
        case ScalarDecay(from_start=from_start):
            return from_start * product("bhik,bhrkv->bhriv", rows, state)
        case NoDecay():
            return product("bhik,bhrkv->bhriv", rows, state)


def advance(decays: Decays, state: jax.Array, key: jax.Array, update: jax.Array) -> jax.Array:
    """The state after the chunk: decayed, and what the keys wrote, [B, Hk, R, C, Dv], decayed since."""
    match decays:
        case ChannelDecay(from_start=from_start, to_end=to_end):
            return from_start[..., -1, :, None] * state + product("bhrjk,bhrjv->bhrkv", key[:, :, None] * to_end, update)
        case ScalarDecay(from_start=from_start, to_end=to_end):
            return from_start[..., -1, :, None] * state + product("bhjk,bhrjv->bhrkv", key, to_end * update)
        case NoDecay():
            return state + product("bhjk,bhrjv->bhrkv", key, update)


def scores(decays: Decays, left: jax.Array, right: jax.Array) -> jax.Array:
    """left_i . right_j, decayed over j < t <= i, [B, Hk, R, C, C]; 0 for j > i."""
    match decays:
        case ChannelDecay(log_decay=log_decay):
            return _scores_by_channel(log_decay, left[:, :, None], right[:, :, None])
        case ScalarDecay(ratio=factor) | NoDecay(mask=factor):
            return factor * product("bhik,bhjk->bhij", left, right)[:, :, None]


def _scores_by_channel(log_decay: jax.Array, left: jax.Array, right: jax.Array) -> jax.Array:
    """By binary halving: a block's second half against its first, both decayed to the boundary between them.

    C is a power of two. Kept of every block [..., n, s, Dk]: the sums up to each token, those after it, and their total.
    """
    blocks = jnp.broadcast_to(jnp.sum(left * right, -1), log_decay.shape[:-1])[..., None, None]
    before, after, total = log_decay[..., None, :], jnp.zeros_like(log_decay[..., None, :]), log_decay
    left, right = left[..., None, :], right[..., None, :]
    while blocks.shape[-3] > 1:
        (first, second), (left_first, left_second), (right_first, right_second) = map(_halves, (blocks, left, right))
        (before_first, before_second), (after_first, after_second) = map(_halves, (before, after))
        lows, highs = left_second * jnp.exp(before_second), right_first * jnp.exp(after_first)
        if blocks.shape[-1] <= _ELEMENTWISE:
            cross = jnp.sum(lows[..., :, None, :] * highs[..., None, :, :], -1)
        else:
            cross = product("...ik,...jk->...ij", lows, highs)
        blocks = jnp.concatenate([jnp.concatenate([first, jnp.zeros_like(first)], -1), jnp.concatenate([cross, second], -1)], -2)
        left, right = jnp.concatenate([left_first, left_second], -2), jnp.concatenate([right_first, right_second], -2)
        first_total, second_total = total[..., ::2, :], total[..., 1::2, :]
        before = jnp.concatenate([before_first, before_second + first_total[..., None, :]], -2)
        after = jnp.concatenate([after_first + second_total[..., None, :], after_second], -2)
        total = first_total + second_total
    return blocks[..., 0, :, :]


def _halves(blocks: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Blocks [..., n, s, x] to the first and the second of each pair, [..., n / 2, s, x]."""
    return blocks[..., ::2, :, :], blocks[..., 1::2, :, :]
