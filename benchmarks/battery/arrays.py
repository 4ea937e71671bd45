"""Shapes, gathers, scatters, slices and orders, with indices that go wrong: outside, negative, twice the same, none at all."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from battery.case import (
    BF16,
    F16,
    F32,
    INTEGERS,
    OUTSIDE,
    Program,
    all_pairs,
    array,
    fixed,
    normal,
    normals,
    over,
    rounding,
    special,
    whole_edges,
    with_indices,
    with_kind,
)  # fmt: skip
from jax import lax

_I32 = np.dtype(np.int32)
_MODES = ("clip", "fill", "drop", "promise_in_bounds", "wrap")


def _whole(*shape: int, high: int = 50) -> Any:
    return lambda rng: (rng.integers(-high, high, shape).astype(np.int32),)


def _takes(x: Any, i: Any) -> Any:
    return [jnp.take(x, i, axis=axis, mode=mode) for axis in (0, 1) for mode in ("clip", "fill", "wrap", None)]


def _gets(x: Any, i: Any) -> Any:
    return [x.at[i].get(mode=mode, fill_value=fill) for mode in _MODES[:3] for fill in (None, 3)]


def _fills(*xs: Any) -> Any:
    return [x.at[jnp.array([0, 99, -99])].get(mode="fill") for x in xs]


def _window_scatter(mode: str) -> Any:
    numbers = lax.ScatterDimensionNumbers((1, 2), (), (0, 1))

    def write(x: Any, i: Any, v: Any) -> Any:
        return lax.scatter(x, i, v, numbers, mode=mode), lax.scatter_add(x, i, v, numbers, mode=mode)

    return write


def _window_gather(x: Any, i: Any) -> Any:
    found = []
    for mode in ("clip", "fill"):
        numbers = lax.GatherDimensionNumbers((0, 2), (), (0, 1))
        found.append(lax.gather(x, i, numbers, (2, 3), mode=mode))
        found.append(lax.gather(x, i, lax.GatherDimensionNumbers((1,), (0,), (1, 0)), (1, 2), mode=mode))
    return found


def _batched_indices(x: Any, i: Any, v: Any) -> Any:
    take = jax.vmap(lambda a, k: a[k])
    return (
        take(x, i), jax.vmap(lambda a, k: a.at[k].add(1.0))(x, i), jax.vmap(lambda a, k, w: a.at[k[0]].set(w))(x, i, v[:, 0]),
        jnp.take_along_axis(x, i[:, :, None], 1), jax.vmap(lambda a, k: lax.dynamic_slice(a, (k[0], 0), (2, 3)))(x, i),
        jax.vmap(lambda a, k, w: lax.dynamic_update_slice(a, w, (k[0], k[1])))(x, i, v[:, :2, :2]),
    )  # fmt: skip


def _dynamic(x: Any, i: Any, j: Any) -> Any:
    return (
        lax.dynamic_slice(x, (i, j), (2, 3)), lax.dynamic_slice(x, (0, j), (4, 2)), lax.dynamic_slice(x, (i, 2), (2, 3)),
        lax.dynamic_index_in_dim(x, i, 0), x[i], x[:, j], lax.dynamic_slice(x, (99, -99), (1, 1)), x[i, j],
    )  # fmt: skip


def _dynamic_updates(x: Any, u: Any, i: Any, j: Any) -> Any:
    return (
        lax.dynamic_update_slice(x, u, (i, j)), lax.dynamic_update_slice(x, u, (0, j)), lax.dynamic_update_slice(x, u, (i, 1)),
        lax.dynamic_update_slice(x, u, (1, 1)), lax.dynamic_update_slice(x, x * 2, (i, j)), x.at[i].set(u[0, 0]),
        lax.dynamic_update_slice(x, u[:0], (i, j)), lax.dynamic_update_index_in_dim(x, x[0] + 1, i, 0),
    )  # fmt: skip


def _pads(x: Any) -> Any:
    found = [
        lax.pad(x, jnp.zeros((), x.dtype), c)
        for c in (
            ((1, 2, 0), (0, 3, 0)),
            ((-1, 2, 0), (1, -2, 0)),
            ((1, 0, 2), (0, -1, 1)),
            ((-2, -1, 1), (-1, 3, 2)),
            ((0, 0, 0), (0, 0, 0)),
            ((-1, 0, 0), (0, 0, 0)),
            ((-4, 0, 0), (0, 0, 0)),
            ((-5, 3, 1), (2, 2, 0)),
        )
    ]
    return [*found, lax.pad(x, jnp.asarray(7, x.dtype), ((1, 1, 1), (-1, 2, 0)))]


def _pad_modes(x: Any) -> Any:
    modes = ("constant", "edge", "reflect", "symmetric", "wrap", "maximum", "mean", "linear_ramp", "empty")
    return [jnp.pad(x, ((1, 2), (2, 1)), mode=mode) for mode in modes[:-1]]


def _shapes(x: Any) -> Any:
    return (
        x.T, x.reshape(2, -1), x.ravel(), jnp.expand_dims(x, 1), jnp.squeeze(x[None]), jnp.swapaxes(x[None], 0, 2),
        jnp.broadcast_to(x[:, None], (4, 3, 6)), jnp.tile(x, (2, 3)), jnp.repeat(x, 3, 1), jnp.roll(x, 2, 1), jnp.rot90(x),
        jnp.flip(x, 0), x[::2, ::-1], x[1:3, 2], jnp.concatenate([x, x * 2], 1), jnp.stack([x, x], 1), jnp.split(x, 2, 1),
        jnp.array_split(x, 4, 1), jnp.moveaxis(x[None], 0, -1), jnp.atleast_3d(x), jnp.hstack([x, x]), jnp.block([[x], [x]]),
        x.T.reshape(3, 8), jnp.broadcast_to(x[0], (3, 6)).T.reshape(-1),
    )  # fmt: skip


def _made() -> Any:
    return (
        jnp.arange(7),
        jnp.arange(2.0, 9.0, 0.5),
        jnp.linspace(0, 1, 9),
        jnp.eye(4, k=1),
        jnp.zeros((2, 3)),
        jnp.full((2,), jnp.nan),
        jnp.ones((0, 2)),
        lax.broadcasted_iota(jnp.uint32, (3, 4), 1),
        lax.broadcasted_iota(jnp.bfloat16, (3, 4), 0),
        jnp.tri(3, 5, -1),
        jnp.identity(3, jnp.int8),
        jnp.indices((2, 3)),
        jnp.logspace(0, 2, 5),
        jnp.hanning(7),
        jnp.arange(5, dtype=jnp.float16),
    )


def _orders(x: Any) -> Any:
    return (
        jnp.sort(x, 0), jnp.sort(x, 1, descending=True), jnp.argsort(x, 1), jnp.argsort(x, 0, descending=True, stable=True),
        jnp.argmax(x, 1), jnp.argmin(x, 0), jnp.argmax(x), jnp.max(x, 1), jnp.min(x), lax.top_k(x, 4), jnp.partition(x, 2),
    )  # fmt: skip


def _ties(kind: Any) -> Any:
    values = [3, 1, 3, 2, 1, 3, 0, 2, 2, 1, 0, 3]
    return fixed(array(values, kind).reshape(2, 6))


def _nan_ties() -> Any:
    return array([[np.nan, 1, np.inf, 1, np.nan, -np.inf], [-0.0, 0.0, 2, 2, -0.0, 0.0], [5, 4, 3, 2, 1, np.nan]], F32)


def _several_keys(x: Any, y: Any, z: Any) -> Any:
    return (
        lax.sort((x, y, z), num_keys=2),
        lax.sort((y, z), dimension=0, num_keys=1),
        jnp.lexsort((x, y)),
        lax.sort((x, z), num_keys=1),
    )


def _counts(x: Any) -> Any:
    return (
        jnp.bincount(x, length=8), jnp.nonzero(x > 2, size=5, fill_value=-1), jnp.unique(x, size=6, fill_value=-9),
        jnp.unique(x, size=8, return_inverse=True, return_counts=True, return_index=True), jnp.where(x > 2, size=3),
        jnp.flatnonzero(x == 99, size=2), jnp.count_nonzero(x), jnp.isin(x, jnp.array([1, 5])), jnp.argwhere(x > 3, size=4),
    )  # fmt: skip


def _searches(a: Any, v: Any) -> Any:
    return (
        [
            jnp.searchsorted(a, v, side=side, method=method)
            for side in ("left", "right")
            for method in ("scan", "sort", "compare_all")
        ],
        jnp.digitize(v, a),
        jnp.interp(v, a, a * 2),
        jnp.histogram(v, bins=5, range=(-2.0, 2.0)),
        jnp.histogram(v, a),
    )


def _embedding_gradient(w: Any, i: Any) -> Any:
    return jax.grad(lambda w: jnp.sum(jnp.sin(w[i]) ** 2))(w), jax.grad(
        lambda w: jnp.sum(jnp.take_along_axis(w, i[:, None], 1) ** 3)
    )(w)


def _cache_step(cache: Any, row: Any, at: Any) -> Any:
    cache = lax.dynamic_update_slice(cache, row[:, None], (0, at, 0))
    mask = jnp.arange(cache.shape[1]) <= at
    return cache, jnp.where(mask[None, :, None], cache, 0).sum(1)


def _triangles(x: Any) -> Any:
    return jnp.tril(x), jnp.triu(x, 1), jnp.diag(x), jnp.diag(x[0]), jnp.trace(x), jnp.diagonal(x, 1), jnp.tril_indices(3)


def _bytes(x: Any) -> Any:
    return jnp.unpackbits(x), jnp.packbits(x > 7, axis=1), jnp.unpackbits(x, axis=0, bitorder="little")


def _order_gradients(x: Any) -> Any:
    return (
        jax.grad(lambda v: jnp.sum(jnp.sort(v, 0) * jnp.arange(12.0).reshape(4, 3)))(x),
        jax.grad(lambda v: jnp.sum(lax.top_k(v, 2)[0]))(x),
        jax.jacfwd(lambda v: jnp.cumprod(v, 0))(x),
        jax.grad(lambda v: jnp.sum(lax.cummax(v, 0)))(x),
        jax.grad(lambda v: jnp.sum(lax.cumlogsumexp(v, 0)))(x),
        jax.grad(jnp.prod)(x),
    )


def _placed(x: Any) -> Any:
    device = jax.devices()[0]
    return jax.device_put(x, device), lax.with_sharding_constraint(x * 2, jax.sharding.SingleDeviceSharding(device))


PROGRAMS = [
    Program("shapes", _shapes, _whole(4, 6)),
    Program("shapes of halves", _shapes, normal(BF16, 4, 6), ulps=0),
    Program("made from nothing", _made, fixed(), ulps=4, floor=1.0),
    Program(
        "meshgrid kron outer",
        lambda x, y: (jnp.meshgrid(x, y), jnp.kron(x, y), jnp.outer(x, y), jnp.vander(x, 3)),
        normals(F32, (3,), (4,)),
        ulps=2,
    ),
    Program("triangles", _triangles, normal(F32, 5, 5), ulps=4),
    Program(
        "zero-size shapes",
        lambda x: (
            x.T,
            jnp.concatenate([x, x], 1),
            x.reshape(0),
            jnp.sum(x, 0),
            jnp.prod(x),
            x[:, :1],
            jnp.any(x > 0),
            jnp.all(x > 0),
            jnp.sort(x, 0),
            jnp.cumsum(x, 0),
            jnp.max(x, 1),
            jnp.argmax(x, 1),
            jnp.flip(x),
            jnp.pad(x, 1),
        ),
        fixed(np.zeros((0, 3), F32)),
    ),
    *over((F32, F16, np.int8, np.uint32, np.bool_), "pad", _pads, lambda kind: with_kind(kind, 4, 5)),
    Program("pad modes", _pad_modes, normal(F32, 4, 5), ulps=8),
    *over((F32, BF16), "take", _takes, lambda kind: with_indices((4, 4), OUTSIDE, kind), ulps=0),
    Program(
        "take by a table",
        lambda x, i: (x[i], x[:, i], jnp.take(x, i, axis=1), x[i, i], x[..., i]),
        with_indices((4, 4, 3), np.array([[0, 3], [-1, 2]], np.int32)),
        ulps=0,
    ),
    *over(
        (np.int8, np.uint8, np.int16, np.uint32),
        "indices of other dtypes",
        lambda x, i: (x[i], x.at[i].set(2.0), jnp.take(x, i, mode="clip", axis=0)),
        lambda kind: with_indices((4, 3), np.array([3, 0, 2], kind)),
        ulps=0,
    ),
    Program("get", _gets, with_indices((4, 3), OUTSIDE), ulps=0),
    Program(
        "fill values",
        _fills,
        fixed(
            *(whole_edges(kind)[:5] for kind in INTEGERS),
            *(special(kind)[5:9] for kind in (F32, F16, BF16)),
            np.array([True, False]),
        ),
        ulps=0,
    ),
    Program(
        "take_along_axis",
        lambda x, i: (
            jnp.take_along_axis(x, i, 1),
            jnp.take_along_axis(x, i, 1, mode="clip"),
            jnp.take_along_axis(x, i.T[:4, :1], 0),
        ),
        lambda rng: (rng.standard_normal((4, 6)).astype(F32), rng.integers(-8, 8, (4, 5)).astype(np.int32)),
        ulps=0,
    ),
    Program(
        "windows gathered",
        _window_gather,
        lambda rng: (rng.standard_normal((4, 5)).astype(F32), np.array([[0, 0], [3, 3], [-2, 1], [2, 2], [1, 4]], np.int32)),
        ulps=0,
    ),
    *(
        Program(
            f"windows scattered {mode}",
            _window_scatter(mode),
            lambda rng: (
                rng.standard_normal((5, 6)).astype(F32),
                np.array([[0, 0], [3, 4], [-2, 1], [2, 2]], np.int32),
                rng.standard_normal((4, 2, 2)).astype(F32),
            ),
            ulps=2,
        )
        for mode in ("drop",)
    ),
    Program(
        "batched indices",
        _batched_indices,
        lambda rng: (
            rng.standard_normal((3, 4, 5)).astype(F32),
            np.array([[0, 3], [-1, 2], [1, 1]], np.int32),
            rng.standard_normal((3, 4, 5)).astype(F32),
        ),
        ulps=2,
    ),
    Program(
        "gather without an index",
        lambda x, i: (lax.gather(x, i, lax.GatherDimensionNumbers((0, 1), (), ()), (3, 4), mode="clip"), x),
        lambda rng: (rng.standard_normal((3, 4)).astype(F32), np.zeros((0,), np.int32)),
        ulps=0,
    ),
    Program("dynamic_slice", _dynamic, lambda rng: (rng.standard_normal((4, 5)).astype(F32), np.int32(3), np.int32(-1)), ulps=0),
    Program(
        "dynamic_slice out of range",
        _dynamic,
        lambda rng: (rng.standard_normal((4, 5)).astype(F32), np.int32(-99), np.int32(2**31 - 1)),
        ulps=0,
    ),
    Program(
        "dynamic_slice of unsigned starts",
        lambda x, i: lax.dynamic_slice(x, (i, i), (2, 2)),
        lambda rng: (rng.standard_normal((4, 5)).astype(F32), np.uint32(2**32 - 1)),
        ulps=0,
    ),
    Program(
        "dynamic_update_slice",
        _dynamic_updates,
        lambda rng: (rng.standard_normal((4, 5)).astype(F32), rng.standard_normal((2, 2)).astype(F32), np.int32(3), np.int32(-7)),
        ulps=0,
    ),
    Program(
        "dynamic_update_slice of words",
        lambda x, i: lax.dynamic_update_slice(x, x[:2] - 1, (i,)),
        lambda rng: (whole_edges(np.uint32), np.int32(3)),
    ),
    Program(
        "cache step",
        _cache_step,
        lambda rng: (rng.standard_normal((2, 5, 3)).astype(F32), rng.standard_normal((2, 3)).astype(F32), np.int32(2)),
        ulps=rounding(5),
        floor=None,
    ),
    Program(
        "embedding gradient",
        _embedding_gradient,
        lambda rng: (rng.standard_normal((4, 6)).astype(F32), np.array([1, 1, 3, 0], np.int32)),
        ulps=16,
        floor=None,
    ),
    *over((F32, F16, BF16, np.int8, np.uint8, np.uint16, np.uint32, np.int32), "orders", _orders, _ties),
    Program("orders with NaN", _orders, fixed(_nan_ties()), ulps=0),
    Program(
        "orders of booleans",
        lambda x: (jnp.sort(x), jnp.argsort(x), jnp.argmax(x), jnp.argmin(x), jnp.max(x), jnp.min(x)),
        fixed(np.array([True, False, True, False])),
    ),
    Program(
        "sort by several keys",
        _several_keys,
        lambda rng: (
            np.array([2, 1, 2, 1, 2, 0, 0], np.int32),
            array([0, 1, 0, 0, -0.0, np.nan, 1], F32),
            np.arange(7, dtype=np.int32),
        ),
    ),
    Program(
        "top_k along an axis",
        lambda x: (lax.top_k(x, 2), jax.vmap(lambda r: lax.top_k(r, 3))(x), jnp.sort(x, 0)[:2]),
        normal(F32, 5, 7),
        ulps=0,
    ),
    Program("counts", _counts, fixed(np.array([3, 1, 3, 0, 5, 7, 3, 1], np.int32))),
    Program(
        "searches",
        _searches,
        lambda rng: (
            array([-1.5, -0.5, 0, 0.5, 0.5, 2], F32),
            np.concatenate([rng.standard_normal(9).astype(F32), array([0.5, -1.5, 9, -9], F32)]),
        ),
        ulps=8,
        floor=1.0,
    ),
    Program("bytes", _bytes, lambda rng: (rng.integers(0, 256, (3, 4), dtype=np.uint8),)),
    Program("one_hot", lambda i: (jax.nn.one_hot(i, 4), jax.nn.one_hot(i, 4, dtype=jnp.int8)), fixed(OUTSIDE)),
    Program(
        "keys of arrays",
        lambda k, i: jax.random.key_data(jnp.concatenate([k[::2], k[1:][:1], k[i][None], jnp.roll(k, 1)])),
        lambda rng: (jax.random.split(jax.random.key(3), 5), np.int32(3)),
    ),
    Program(
        "select among keys",
        lambda k, c: jax.random.key_data(jnp.where(c, k[0], k[1])),
        lambda rng: (jax.random.split(jax.random.key(3), 2), np.bool_(True)),
    ),
    Program("unstack", lambda x: jnp.unstack(x, axis=1), normal(F32, 3, 4), ulps=0),
    Program(
        "memory of its own",
        lambda x: (lax.full_like(x, 2), lax.dynamic_update_slice(lax.empty((3, 4), x.dtype), x, (0, 0))),
        normal(F32, 3, 4),
        ulps=0,
    ),
    Program("placed on a device", _placed, normal(F32, 3), ulps=0),
    Program(
        "places in total order",
        lambda x, y: (lax.eq_to_p.bind(x, y), lax.le_to_p.bind(x, y), lax.lt_to_p.bind(x, y)),
        lambda rng: all_pairs(special(F32)[:8]),
    ),
    *over(
        (F32, F16, BF16),
        "top_k of specials",
        lambda x: (lax.top_k(x, 9), lax.top_k(-x, 9), jnp.sort(-x)),
        lambda kind: fixed(special(kind)),
        ulps=0,
    ),
    Program("gradients of orders", _order_gradients, normal(F32, 4, 3), ulps=rounding(16), floor=None),
]
