"""Random numbers from typed and from raw keys: the same bits as JAX's, so integers and choices are equal."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from battery.case import BF16, F16, F32, Program
from jax import random

_SHAPE = (5, 7)


def _key(rng: np.random.Generator) -> tuple[Any, ...]:
    return (random.key(int(rng.integers(2**31))),)


def _logits(rng: np.random.Generator) -> tuple[Any, ...]:
    return (*_key(rng), (rng.standard_normal((5, 9)) * 2).astype(F32))


def _bits(key: Any) -> Any:
    return [random.bits(key, _SHAPE, dtype) for dtype in (jnp.uint8, jnp.uint16, jnp.uint32)], random.bits(key)


def _splits(key: Any) -> Any:
    return (
        random.split(key), random.split(key, (2, 3)), random.fold_in(key, 7), random.key_data(key), random.clone(key),
        jax.vmap(random.fold_in, (None, 0))(key, jnp.arange(4)), jax.vmap(random.split)(random.split(key, 3)),
        random.wrap_key_data(jnp.array([1, 2], jnp.uint32)), jax.vmap(lambda k: random.bits(k, (3,)))(random.split(key, 3)),
    )  # fmt: skip


def _uniforms(key: Any) -> Any:
    return [random.uniform(key, _SHAPE, kind, minval=-2, maxval=3) for kind in (F32, F16, BF16)]


def _whole(key: Any) -> Any:
    return (
        random.randint(key, _SHAPE, -3, 9), random.randint(key, _SHAPE, 0, 255, jnp.uint8), random.bernoulli(key, 0.3, _SHAPE),
        random.permutation(key, 11), random.permutation(key, jnp.arange(12.0).reshape(4, 3), axis=1, independent=True),
        random.choice(key, 9, (4,), replace=False), random.choice(key, jnp.arange(5) * 2, (6,)),
        random.choice(key, 4, (6,), p=jnp.array([0.1, 0.2, 0.3, 0.4])), random.rademacher(key, (4,)),
    )  # fmt: skip


def _samplers(key: Any, logits: Any) -> Any:
    scaled = logits / 0.7
    values, indices = jax.lax.top_k(scaled, 4)
    ordered = jnp.sort(scaled, -1, descending=True)
    cut = jnp.sum(jnp.cumsum(jax.nn.softmax(ordered), -1) < 0.8, -1, keepdims=True)
    nucleus = jnp.where(scaled >= jnp.take_along_axis(ordered, cut, -1), scaled, -jnp.inf)
    chosen = random.categorical(key, values)
    return (
        random.categorical(key, scaled), jnp.take_along_axis(indices, chosen[:, None], 1), random.categorical(key, nucleus),
        jnp.argmax(logits, -1), random.categorical(key, scaled, shape=(3, 5)),
    )  # fmt: skip


def _rarer(key: Any) -> Any:
    return (
        random.maxwell(key, (3,)), random.pareto(key, 2.0, (3,)), random.weibull_min(key, 1.0, 2.0, (3,)),
        random.geometric(key, 0.3, (3,)), random.lognormal(key, 1.0, (3,)), random.triangular(key, 0.0, 0.5, 1.0, (3,)),
        random.wald(key, 1.0, (3,)),
    )  # fmt: skip


PROGRAMS = [
    Program("bits", _bits, _key),
    Program("keys", _splits, _key),
    Program(
        "raw keys", lambda k: (random.bits(k, (4,)), random.split(k), random.fold_in(k, 3)), lambda rng: (random.PRNGKey(4),)
    ),
    Program("key from a seed", lambda s: (random.key_data(random.key(s)), random.PRNGKey(s)), lambda rng: (np.int32(-5),)),
    Program("key from a wide seed", lambda s: random.key_data(random.key(s)), lambda rng: (np.int64(2**40 + 5),), x64=True),
    Program("key from a fixed seed", lambda: random.normal(random.key(1701), (4,)), lambda rng: (), ulps=8),
    Program("uniform", _uniforms, _key, ulps=2, floor=3.0),
    Program("whole draws", _whole, _key),
    Program("normal", lambda k: [random.normal(k, _SHAPE, kind) for kind in (F32, F16, BF16)], _key, ulps=8),
    Program("truncated_normal", lambda k: random.truncated_normal(k, -1.0, 2.0, _SHAPE), _key, ulps=16, floor=1.0),
    Program(
        "gumbel exponential",
        lambda k: (
            random.gumbel(k, _SHAPE),
            random.exponential(k, _SHAPE),
            random.laplace(k, _SHAPE),
            random.logistic(k, _SHAPE),
            random.cauchy(k, _SHAPE),
            random.rayleigh(k, 1.0, _SHAPE),
        ),
        _key,
        ulps=32,
        floor=1.0,
    ),
    Program("samplers", _samplers, _logits),
    Program("gamma", lambda k: (random.gamma(k, 2.5, (4,)), random.gamma(k, jnp.array([0.3, 4.0]))), _key, ulps=64),
    Program(
        "beta dirichlet t",
        lambda k: (random.beta(k, 2.0, 3.0, (3,)), random.dirichlet(k, jnp.array([1.0, 2.0, 0.5])), random.t(k, 3.0, (3,))),
        _key,
        ulps=64,
        floor=1.0,
    ),
    Program("poisson", lambda k: random.poisson(k, 3.0, (6,)), _key),
    Program(
        "multivariate",
        lambda k: (
            random.multivariate_normal(k, jnp.zeros(2), jnp.array([[2.0, 0.5], [0.5, 1.0]])),
            random.ball(k, 3),
            random.orthogonal(k, 1),
        ),
        _key,
        ulps=32,
        floor=1.0,
    ),
    Program("another generator", lambda: random.bits(random.key(1, impl="rbg"), (3,)), lambda rng: (), refuses="random"),
    Program("bits of 64", lambda k: random.bits(k, (3,), jnp.uint64), _key, x64=True, refuses="dtype"),
    Program("double normal", lambda k: random.normal(k, (3,), jnp.float64), _key, x64=True, refuses="dtype"),
    Program("rarer draws", _rarer, _key, ulps=64, floor=1.0),
]
