"""The next token from logits: the most likely one, or a draw under temperature, top-k and top-p.

No sort: both cuts are thresholds on the probabilities, found by bisection on their bits (floats >= 0 order as integers do),
so k and p are ordinary arguments (no recompilation) and 30 passes replace a sort of a large vocabulary.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Callable

import jax
import jax.numpy as jnp

NO_TOKEN = -1  # in place of a token when there is none to choose
_PROBABILITY_BITS = 30  # float32 bits of a number in [0, 1] stay below 2^30


@dataclasses.dataclass(frozen=True, slots=True)
class Sampling:
    """temperature 0 is greedy; top_k None and top_p None cut nothing. Cuts apply in the order temperature, top-k, top-p."""

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        _number("temperature", self.temperature, "a number >= 0", lambda x: x >= 0)
        if self.top_k is not None:
            _integer("top_k", self.top_k, "an integer >= 1 or None", 1)
        if self.top_p is not None:
            _number("top_p", self.top_p, "a number in (0, 1] or None", lambda x: 0 < x <= 1)
        _integer("seed", self.seed, "an integer from 0 to 2^32 - 1", 0)
        if self.seed >= 1 << 32:
            raise ValueError(f"seed: expected an integer from 0 to 2^32 - 1, got {self.seed!r}")

    @property
    def greedy(self) -> bool:
        return self.temperature == 0


def greedy_tokens(logits: jax.Array) -> jax.Array:
    """logits [B, V] -> [B] int32; NO_TOKEN where a logit is NaN."""
    return _unless_nan(logits, jnp.argmax(logits, axis=-1))


def sampled_tokens(
    logits: jax.Array, seed: jax.Array, step: jax.Array, temperature: jax.Array, top_k: jax.Array, top_p: jax.Array
) -> jax.Array:
    """logits [B, V] fp32 and scalars -> [B] int32; NO_TOKEN where a logit is NaN.

    A draw depends on (seed, step, row) and the row's logits alone.
    """
    kept = kept_probabilities(logits, temperature, top_k, top_p)
    key = jax.random.fold_in(jax.random.key(seed), step)
    keys = jax.vmap(lambda row: jax.random.fold_in(key, row))(jnp.arange(logits.shape[0]))
    return _unless_nan(logits, jax.vmap(jax.random.categorical)(keys, jnp.log(kept)))


def _unless_nan(logits: jax.Array, token: jax.Array) -> jax.Array:
    return jnp.where(jnp.isnan(logits).any(axis=-1), NO_TOKEN, token).astype(jnp.int32)


def kept_probabilities(logits: jax.Array, temperature: jax.Array, top_k: jax.Array, top_p: jax.Array) -> jax.Array:
    """Probabilities [B, V], zero where cut, not renormalised. Equal probabilities at a cut all stay.

    Top-k keeps the k most likely; top-p the smallest set of most likely tokens that holds a share top_p of what top-k kept.
    """
    probabilities = jax.nn.softmax(logits.astype(jnp.float32) / temperature, axis=-1)
    count = jnp.minimum(top_k, logits.shape[-1])
    probabilities = _cut(probabilities, lambda kept: jnp.sum(kept > 0, axis=-1) >= count)
    # infinite where nothing is to be cut: the least likely tokens do not change a rounded sum
    share = jnp.where(top_p < 1, top_p * jnp.sum(probabilities, axis=-1), jnp.inf)
    return _cut(probabilities, lambda kept: jnp.sum(kept, axis=-1) >= share)


def _cut(probabilities: jax.Array, enough: Callable[[jax.Array], jax.Array]) -> jax.Array:
    """Zeroes what lies below the highest threshold at which `enough` (of the rest) still holds; keeps all if it never does."""
    bits = jax.lax.bitcast_convert_type(probabilities, jnp.int32)

    def above(threshold: jax.Array) -> jax.Array:
        return jnp.where(bits >= threshold[:, None], probabilities, 0.0)

    def halve(_: int, bounds: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = bounds
        middle = low + (high - low) // 2
        holds = enough(above(middle))
        return jnp.where(holds, middle, low), jnp.where(holds, high, middle)

    none = jnp.zeros(probabilities.shape[:1], jnp.int32)
    low, _ = jax.lax.fori_loop(0, _PROBABILITY_BITS + 1, halve, (none, jnp.max(bits, axis=-1) + 1))
    return above(low)


def _number(name: str, value: object, expected: str, accepts: Callable[[float], bool]) -> None:
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not math.isfinite(value) or not accepts(float(value)):
        raise ValueError(f"{name}: expected {expected}, got {value!r}")


def _integer(name: str, value: object, expected: str, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or int(value) < least:
        raise ValueError(f"{name}: expected {expected}, got {value!r}")
