"""AdamW (Loshchilov and Hutter, 2019), with gradient clipping and a moving average of the parameters."""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, slots=True)
class State:
    """What a step carries on: params, their moving average, the two moments (all like params, fp32), and steps done."""

    params: Any
    average: Any
    mean: Any
    square: Any
    steps: jax.Array


def start(params: Any) -> State:
    """Fresh buffers throughout: a donated state shares none with `params` or within itself."""

    def copies() -> Any:
        return jax.tree.map(lambda p: jnp.array(p, jnp.float32, copy=True), params)

    def zeros() -> Any:
        return jax.tree.map(lambda p: jnp.zeros(p.shape, jnp.float32), params)

    return State(copies(), copies(), zeros(), zeros(), jnp.zeros((), jnp.int32))


def update(
    state: State,
    grads: Any,
    rate: jax.Array,
    *,
    decay: float = 0.1,
    betas: tuple[float, float] = (0.9, 0.95),
    eps: float = 1e-8,
    clip: float = 1.0,
    average_decay: float = 0.999,
) -> tuple[State, jax.Array]:
    """One step at learning rate `rate`; returns the state and the gradients' norm before clipping.

    Only matrices decay: norms, biases, gates' scalars and convolution taps do not.
    """
    norm = jnp.sqrt(sum(jnp.sum(jnp.square(g)) for g in jax.tree.leaves(grads)))
    grads = jax.tree.map(lambda g: g * jnp.minimum(1.0, clip / (norm + 1e-6)), grads)
    steps = state.steps + 1
    first, second = betas
    mean = jax.tree.map(lambda m, g: first * m + (1 - first) * g, state.mean, grads)
    square = jax.tree.map(lambda s, g: second * s + (1 - second) * g * g, state.square, grads)
    unbias_mean, unbias_square = 1 - first**steps, 1 - second**steps

    def moved(p: jax.Array, m: jax.Array, s: jax.Array) -> jax.Array:
        direction = (m / unbias_mean) / (jnp.sqrt(s / unbias_square) + eps)
        return p - rate * (direction + (decay * p if decays(p) else 0.0))

    params = jax.tree.map(moved, state.params, mean, square)
    kept = jnp.minimum(average_decay, (1.0 + steps) / (10.0 + steps))  # short memory while everything still moves
    average = jax.tree.map(lambda a, p: kept * a + (1 - kept) * p, state.average, params)
    return State(params, average, mean, square, steps), norm


def decays(parameter: jax.Array) -> bool:
    """Matrices with more than a few columns: a convolution's [channels, taps] is no matrix of this kind."""
    return parameter.ndim == 2 and min(parameter.shape) > 4


def cosine(progress: float, peak: float, *, warmup: float = 0.04, floor: float = 0.05) -> float:
    """Learning rate at `progress` in [0, 1]: linear to `peak`, then half a cosine down to `floor` of it."""
    if progress < warmup:
        return peak * progress / warmup
    along = min(1.0, (progress - warmup) / (1 - warmup))
    return peak * (floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * along)))
