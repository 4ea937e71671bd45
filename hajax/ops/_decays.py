"""What a chunk of tokens forgets, in plain jnp: rows decayed from the chunk's start or to its end, decayed scores.

Every factor is exp of a sum of log decays, so at most 1; never a quotient. Shapes: B, Hk, R = Hv / Hk, C tokens.
"""

import dataclasses

import jax
import jax.numpy as jnp

from hajax.mechanisms import Mechanism

_COARSE = 1024.0
_EXACT = jax.lax.Precision.HIGHEST


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


def scores(decays: Decays, lefts: tuple[jax.Array, ...], right: jax.Array) -> tuple[jax.Array, ...]:
    """For each left, left_i . right_j, decayed over j < t <= i, [B, Hk, R, C, C]; 0 for j > i."""
    match decays:
        case ChannelDecay(log_decay=log_decay):
            return _scores_by_channel(log_decay, lefts, right)
        case ScalarDecay(ratio=factor) | NoDecay(mask=factor):
            return tuple(factor * product("bhik,bhjk->bhij", left, right)[:, :, None] for left in lefts)


def _scores_by_channel(log_decay: jax.Array, lefts: tuple[jax.Array, ...], right: jax.Array) -> tuple[jax.Array, ...]:
    """By binary halving: a block's second half against its first, both decayed to the boundary between them.

    C is a power of two. Arrays are [lefts, B Hk R, blocks, tokens, Dk], with few axes: XLA's CPU compiler (0.10.2) reads and
    writes out of bounds where it reduces some arrays of eight, and a transformation may add two.
    """
    shape = log_decay.shape
    rows, size, channels = shape[0] * shape[1], shape[3], shape[4]

    def for_each_value_head(x: jax.Array, count: int) -> jax.Array:
        x = jnp.broadcast_to(x.reshape(count, rows, 1, size * channels), (count, rows, shape[2], size * channels))
        return x.reshape(count, rows * shape[2], size, 1, channels)

    left, right = for_each_value_head(jnp.stack(lefts), len(lefts)), for_each_value_head(right, 1)
    blocks = jnp.sum(left * right, -1, keepdims=True)
    total = log_decay.reshape(1, rows * shape[2], size, 1, channels)
    before, after = total, jnp.zeros_like(total)  # sums of each token and those before it in its block, of those after it
    while blocks.shape[2] > 1:
        (before_first, before_second), (after_first, after_second) = _pairs(before), _pairs(after)
        (first, second), (total_first, total_second) = _pairs(blocks), _pairs(total)
        (left_first, left_second), (right_first, right_second) = _pairs(left), _pairs(right)
        lows, highs = left_second * jnp.exp(before_second), right_first * jnp.exp(after_first)
        cross = product("lbnik,bnjk->lbnij", lows, highs[0])
        blocks = _stacked(jnp.concatenate([first, jnp.zeros_like(first)], -1), jnp.concatenate([cross, second], -1))
        before = _stacked(before_first, before_second + total_first)
        after = _stacked(after_first + total_second, after_second)
        left, right, total = _stacked(left_first, left_second), _stacked(right_first, right_second), total_first + total_second
    return tuple(blocks.reshape(len(lefts), *shape[:4], size))


def _pairs(blocks: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Blocks [..., n, s, x] to the first and the second of each pair, [..., n / 2, s, x]."""
    return blocks[..., ::2, :, :], blocks[..., 1::2, :, :]


def _stacked(first: jax.Array, second: jax.Array) -> jax.Array:
    """One block of each pair, the tokens of the first before those of the second."""
    return jnp.concatenate([first, second], -2)
