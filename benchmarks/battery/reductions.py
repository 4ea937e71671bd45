"""Sums, extremes, scans along an axis, statistics, and windows with their gradients."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from battery.case import (
    BF16,
    F16,
    F32,
    FLOATS,
    Program,
    array,
    fixed,
    normal,
    normals,
    over,
    rounding,
    special,
    whole_edges,
)  # fmt: skip
from jax import lax


def _reduced(x: Any) -> Any:
    return (
        jnp.sum(x),
        jnp.sum(x, 0),
        jnp.sum(x, (0, 2), keepdims=True),
        jnp.max(x, 1),
        jnp.min(x, (1, 2)),
        jnp.max(x),
        jnp.mean(x, -1),
        jnp.prod(x, 2),
        jnp.any(x > 0, 1),
        jnp.all(x > -2, (0, 1)),
        jnp.sum(x, where=x > 0),
        jnp.max(x, 0, where=x > 0, initial=-1),
    )


def _raw(x: Any) -> Any:
    """Without the wider sums of jax.numpy."""
    return lax.reduce(x, x.dtype.type(0), lax.add, (0,))


def _whole_reductions(*xs: Any) -> Any:
    return [(jnp.sum(x), jnp.sum(x, dtype=x.dtype), jnp.prod(x, dtype=x.dtype), jnp.max(x), jnp.min(x), jnp.mean(x)) for x in xs]


def _bit_reductions(*xs: Any) -> Any:
    return [(jnp.bitwise_and.reduce(x), jnp.bitwise_or.reduce(x), jnp.bitwise_xor.reduce(x)) for x in xs]


def _cumulative(x: Any) -> Any:
    return (
        jnp.cumsum(x, 0), jnp.cumsum(x, 1), lax.cumsum(x, 1, reverse=True), jnp.cumprod(x, 0), lax.cumprod(x, 1, reverse=True),
        lax.cummax(x, 1), lax.cummin(x, 0, reverse=True), jnp.cumsum(x),
    )  # fmt: skip


def _logarithmic(x: Any) -> Any:
    return lax.cumlogsumexp(x, 1), lax.cumlogsumexp(x, 1, reverse=True)


def _spread(x: Any) -> Any:
    return (
        jnp.median(x), jnp.median(x, 1), jnp.quantile(x, jnp.array([0.1, 0.5]), axis=0), jnp.percentile(x, 30.0, method="lower"),
        jnp.percentile(x, 30.0, method="nearest"), jnp.var(x, 1), jnp.std(x, 0, ddof=1), jnp.ptp(x, 1),
        jnp.average(x, 1, weights=jnp.arange(1.0, 1 + x.shape[1])),
    )  # fmt: skip


def _nan_functions(x: Any) -> Any:
    return (
        jnp.nansum(x),
        jnp.nanmax(x, 1),
        jnp.nanmin(x, 0),
        jnp.nanmean(x, 1),
        jnp.nanstd(x),
        jnp.nanprod(x, 1),
        jnp.nanargmax(x, 1),
        jnp.nanmedian(x, 1),
        jnp.nancumsum(x, 1),
        jnp.nanquantile(x, 0.4, axis=1),
    )


def _custom(x: Any) -> Any:
    def larger_by_size(a: Any, b: Any) -> Any:
        return jnp.where(jnp.abs(a) >= jnp.abs(b), a, b)

    return lax.reduce(x, np.float32(0), larger_by_size, (1,)), lax.reduce(x, np.float32(0), larger_by_size, (0, 1))


def _custom_pairs(x: Any, i: Any) -> Any:
    def best(a: Any, b: Any) -> Any:
        take = (a[0] > b[0]) | ((a[0] == b[0]) & (a[1] < b[1]))
        return jnp.where(take, a[0], b[0]), jnp.where(take, a[1], b[1])

    return lax.reduce((x, i), (np.float32(-np.inf), np.int32(2**31 - 1)), best, (1,))


def _pool(kind: Any, window: Any, strides: Any, padding: Any, base: Any = None, window_dilation: Any = None) -> Any:
    start, merge = {"max": (-np.inf, lax.max), "min": (np.inf, lax.min), "sum": (0.0, lax.add)}[kind]

    def pool(x: Any) -> Any:
        return lax.reduce_window(
            x, np.asarray(start, x.dtype), merge, window, strides, padding, base_dilation=base, window_dilation=window_dilation
        )

    return pool


_WINDOWS = {
    "plain": ((1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
    "same": ((1, 3, 3, 1), (1, 2, 1, 1), "SAME"),
    "edges": ((1, 2, 3, 1), (1, 1, 2, 1), ((0, 0), (1, 2), (0, 1), (0, 0))),
    "over channels": ((1, 1, 2, 3), (1, 1, 1, 1), "VALID"),
    "overlapping": ((2, 3, 1, 1), (1, 1, 1, 1), "VALID"),
}
_DILATED = ((1, 2, 2, 1), (1, 1, 1, 1), ((0, 0), (0, 1), (1, 0), (0, 0)), (1, 2, 1, 1), (1, 1, 2, 1))


def _windows(kind: str) -> Any:
    return lambda x: [_pool(kind, *given)(x) for given in (*_WINDOWS.values(), _DILATED)]


def _window_gradients(kind: str) -> Any:
    def gradients(x: Any) -> Any:
        pools = [_pool(kind, *given) for given in _WINDOWS.values()]
        return [jax.grad(lambda v, pool=pool: jnp.sum(jnp.sin(pool(v))))(x) for pool in pools]

    return gradients


def _batched_windows(x: Any) -> Any:
    return jax.vmap(_pool("max", (2, 2), (1, 1), "VALID"))(x), jax.vmap(_pool("sum", (2, 2), (1, 1), "SAME"))(x)


def _window_product(x: Any) -> Any:
    return lax.reduce_window(x, np.float32(1), lax.mul, (2, 2), (1, 1), "VALID")


def _from_starts(x: Any) -> Any:
    """XLA leaves edges out; they are no further starts."""
    return (
        lax.reduce(x, np.float32(5), lax.add, (0,)),
        lax.reduce(x, np.float32(2), lax.mul, (1,)),
        lax.reduce_window(x, np.float32(3), lax.add, (2, 2), (1, 1), "SAME"),
        lax.reduce_window(x, np.float32(0), lax.max, (2, 2), (1, 1), "SAME"),
    )


def _smoothed(x: Any, k: Any) -> Any:
    return [jnp.convolve(x, k, mode=mode) for mode in ("full", "same", "valid")], jnp.correlate(x, k)


def _scales(x: Any) -> Any:
    return (
        jnp.linalg.norm(x),
        jnp.linalg.norm(x, axis=1),
        jnp.linalg.norm(x, 1, axis=0),
        jnp.linalg.norm(x, jnp.inf, axis=1),
        jnp.linalg.norm(x, "fro"),
        jnp.cov(x),
        jnp.corrcoef(x),
        jnp.trapezoid(x, axis=1),
        jnp.gradient(x, axis=1),
        jnp.diff(x, axis=0),
        jnp.ediff1d(x[0]),
        jnp.cross(x[:, :3], x[:, 1:4]),
    )


_EMPTY_ROWS = np.zeros((3, 0), F32)
_WITH_NAN = array([[1, np.nan, 3, -2], [np.inf, 0, -np.inf, 4], [2, 2, np.nan, -1]], F32)

PROGRAMS = [
    Program("reductions float32", _reduced, normal(F32, 3, 4, 5), ulps=rounding(60), floor=None),
    *over((F16, BF16), "reductions", _reduced, lambda kind: normal(kind, 3, 4, 5), ulps=4, floor=None),
    *over(FLOATS, "sum as it is", _raw, lambda kind: normal(kind, 30, 3), ulps=rounding(30), floor=None),
    Program(
        "reductions of whole numbers",
        _whole_reductions,
        fixed(*map(whole_edges, (np.int8, np.int32, np.uint8, np.uint16, np.uint32, np.int16))),
        ulps=rounding(20),
        floor=None,
    ),
    Program(
        "bit reductions",
        _bit_reductions,
        fixed(*(whole_edges(kind)[:6] for kind in (np.int8, np.int32, np.uint8, np.uint32)), np.array([True, False, True])),
    ),
    Program(
        "reductions of nothing",
        lambda x: (
            jnp.sum(x, 1),
            jnp.prod(x, 1),
            jnp.any(x > 0, 1),
            jnp.all(x > 0, 1),
            lax.reduce(x, np.float32(-np.inf), lax.max, (1,)),
            lax.reduce(x, np.float32(np.inf), lax.min, (1,)),
            jnp.mean(x, 1),
            jnp.max(x, 1, initial=-3.0),
            jax.nn.logsumexp(x, 0),
        ),
        fixed(_EMPTY_ROWS),
    ),
    Program(
        "reductions of nothing of whole numbers",
        lambda x: (jnp.sum(x, 1), jnp.max(x, 1, initial=-3), lax.reduce(x, np.int32(-(2**31)), lax.max, (1,))),
        fixed(np.zeros((3, 0), np.int32)),
    ),
    Program(
        "extremes with NaN",
        lambda x: (
            jnp.max(x, 1),
            jnp.min(x, 0),
            jnp.argmax(x, 1),
            jnp.argmin(x, 1),
            jnp.sum(x, 1),
            lax.cummax(x, 1),
            lax.cummin(x, 1),
            jnp.prod(x, 1),
        ),
        fixed(_WITH_NAN),
        ulps=2,
    ),
    *over(FLOATS, "cumulative", _cumulative, lambda kind: normal(kind, 4, 7), ulps=rounding(28), floor=None),
    *over(
        (np.int8, np.int32, np.uint8, np.uint16, np.uint32),
        "cumulative",
        _cumulative,
        lambda kind: lambda rng: (rng.integers(0, 100, (4, 7)).astype(kind),),
    ),
    Program("cumulative of booleans", lambda x: (jnp.cumsum(x), jnp.cumprod(x)), fixed(np.array([True, False, True, True]))),
    *over(
        FLOATS,
        "cumlogsumexp",
        _logarithmic,
        lambda kind: lambda rng: ((rng.standard_normal((3, 9)) * 8).astype(kind),),
        ulps=rounding(9),
        floor=8.0,
    ),
    Program(
        "cumlogsumexp of infinities",
        _logarithmic,
        fixed(array([[-np.inf, -np.inf, 1, 2], [0, np.inf, 1, -np.inf], [1, np.nan, 2, 3]], F32)),
        ulps=8,
    ),
    Program("statistics", _spread, normal(F32, 5, 8), ulps=rounding(40), floor=None),
    Program(
        "NaN functions",
        _nan_functions,
        fixed(array([[1, np.nan, 3, -2], [5, 0, -1, 4], [2, 2, np.nan, -1]], F32)),
        ulps=rounding(12),
        floor=None,
    ),
    Program("lax.reduce of a function", _custom, normal(F32, 4, 7), ulps=0),
    Program(
        "lax.reduce of pairs",
        _custom_pairs,
        lambda rng: (np.round(rng.standard_normal((4, 7)) * 2).astype(F32), np.tile(np.arange(7, dtype=np.int32), (4, 1))),
        ulps=0,
    ),
    *(
        Program(f"windows {kind} {dtype}", _windows(kind), normal(dtype, 2, 5, 6, 3), ulps=rounding(9), floor=None)
        for kind in ("max", "min", "sum")
        for dtype in (F32, F16)
    ),
    Program("windows sum bfloat16", _windows("sum"), normal(BF16, 2, 5, 6, 3), ulps=rounding(9), floor=None),
    Program(
        "windows of whole numbers",
        lambda x: (
            lax.reduce_window(x, np.int32(0), lax.add, (2, 2), (1, 1), "VALID"),
            lax.reduce_window(x, np.int32(-(2**31)), lax.max, (2, 2), (1, 1), "SAME"),
        ),
        lambda rng: (rng.integers(-99, 99, (4, 5)).astype(np.int32),),
    ),
    *(
        Program(f"window gradients {kind}", _window_gradients(kind), normal(F32, 2, 5, 6, 3), ulps=16 * rounding(9), floor=None)
        for kind in ("max", "min", "sum")
    ),
    Program(
        "window gradient at ties",
        jax.grad(lambda v: jnp.sum(_pool("max", (2, 2), (1, 1), "VALID")(v) * jnp.arange(12.0).reshape(3, 4))),
        fixed(array([[1, 1, 2, 2, 0], [1, 1, 2, 2, 0], [0, 0, 0, 0, 0], [3, 3, 3, 1, 1]], F32)),
        ulps=4,
        floor=None,
    ),
    Program(
        "windows with NaN",
        lambda x: (_pool("max", (1, 2), (1, 1), "VALID")(x), _pool("sum", (1, 2), (1, 1), "SAME")(x)),
        fixed(_WITH_NAN),
        ulps=2,
    ),
    Program("windows batched", _batched_windows, normal(F32, 3, 4, 5), ulps=rounding(4), floor=None),
    Program(
        "window second derivative",
        lambda x, t: jax.jvp(jax.grad(lambda v: jnp.sum(_pool("max", (2, 2), (2, 2), "VALID")(v) ** 3)), (x,), (t,)),
        normals(F32, (4, 6), (4, 6)),
        ulps=16,
        floor=None,
    ),
    Program("window products", _window_product, normal(F32, 4, 5), ulps=8),
    Program("reductions from a start", _from_starts, normal(F32, 3, 4), ulps=8, floor=None),
    Program("convolve", _smoothed, normals(F32, (9,), (4,)), ulps=rounding(4), floor=None),
    Program("norms and differences", _scales, normal(F32, 4, 6), ulps=rounding(24), floor=None),
    Program(
        "sums of large and small",
        lambda x: (jnp.sum(x), jnp.mean(x), jnp.var(x)),
        fixed(np.concatenate([np.full(2000, 0.25), [4096.0]]).astype(F32)),
        ulps=rounding(2001),
        floor=None,
    ),
    Program(
        "halves summed in float32",
        lambda x: jnp.sum(x, dtype=jnp.float32),
        lambda rng: (rng.standard_normal(4000).astype(F16),),
        ulps=rounding(4000),
        floor=None,
    ),
    Program("softmax of specials", jax.nn.softmax, fixed(np.stack([special(F32)[5:11], special(F32)[9:15]])), ulps=8),
]
