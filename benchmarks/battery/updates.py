"""Updates at indices: every mode, places twice and places outside, and what sums over them."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from battery.case import (
    BF16,
    F16,
    F32,
    OUTSIDE,
    Program,
    normals,
    rounding,
    with_indices,
    with_kind,
)  # fmt: skip
from jax import lax


def _updates(how: str) -> Any:
    def update(x: Any, i: Any, v: Any) -> Any:
        found = []
        for mode in ("clip", "drop", None):
            found += [getattr(x.at[i], how)(v, mode=mode), getattr(x.at[:, i], how)(v.T, mode=mode)]
        return found

    return update


def _set_twice(x: Any, v: Any) -> Any:
    """XLA's last update of a place stays, wherever dropped ones stand."""
    before, after = jnp.array([9, 0, 0, 2, 0, -9, 2]), jnp.array([1, 3, 1, 9, 1, 3, 12])
    many = jnp.arange(3000) % 5 % 4
    return (
        x.at[before].set(v, mode="drop"), x.at[after].set(v), x.at[after, before].set(v[:, 0]), x.at[after[3:4]].set(v[:1]),
        x.at[many, 2].set(jnp.arange(3000.0)),
    )  # fmt: skip


def _set_once(x: Any, v: Any) -> Any:
    i, j = jnp.array([2, 0, 9, -1]), jnp.array([1, 5, 0, 2])
    return (
        x.at[i].set(v[:4], mode="drop"), x.at[jnp.array([3, 0])].set(1.5), x.at[i, j].set(v[:4, 0], mode="drop"),
        x.at[1:3, ::2].set(7.0), x.at[..., -1].set(0.0), x.at[jnp.array([[0, 1], [2, 3]]), 2].set(-1.0), x.at[1].set(v[0]),
    )  # fmt: skip


def _apply(x: Any, i: Any) -> Any:
    return x.at[i].apply(jnp.sin)


def _update_arguments(kind: Any) -> Any:
    """Updates of rows and of columns of [4, 4] at indices that repeat and leave it."""
    return lambda rng: (*with_kind(kind, 4, 4)(rng), OUTSIDE, *with_kind(kind, 9, 4)(rng))


_UPDATED = {
    "add": (F32, F16, BF16, np.int8, np.uint16, np.uint32),
    "multiply": (F32, np.int32, np.uint32),
    "max": (F32, F16, np.int8, np.uint32),
    "min": (F32, np.uint16),
    "subtract": (F32, np.uint32),
}


def _whole_updates(x: Any, y: Any) -> Any:
    numbers = lax.ScatterDimensionNumbers((0, 1), (), ())
    nowhere = np.zeros((0,), np.int32)
    return (
        [getattr(x.at[()], how)(3.0) for how in ("set", "add", "subtract", "multiply", "max", "min")],
        [scatter(y, nowhere, y * 2, numbers) for scatter in (lax.scatter, lax.scatter_add, lax.scatter_max)],
        lax.dynamic_slice(x, (), ()),
        lax.dynamic_update_slice(x, x * 2, ()),
    )


def _segments(v: Any, s: Any) -> Any:
    return (
        jax.ops.segment_sum(v, s, 5), jax.ops.segment_max(v, s, 5), jax.ops.segment_min(v, s, 5), jax.ops.segment_prod(v, s, 5),
    )  # fmt: skip


PROGRAMS = [
    *(
        Program(f"at {how} {np.dtype(kind)}", _updates(how), _update_arguments(kind), ulps=rounding(9), floor=None)
        for how, kinds in _UPDATED.items()
        for kind in kinds
    ),
    Program("at set of one place twice, and of none", _set_twice, normals(F32, (4, 6), (7, 6)), ulps=0),
    Program("at set", _set_once, normals(F32, (4, 6), (4, 6)), ulps=0),
    Program("at apply", _apply, with_indices((5, 3), np.array([3, 0], np.int32)), refuses="scatter"),
    Program(
        "updates of the whole", _whole_updates, lambda rng: (np.float32(2.5), rng.standard_normal((2, 3)).astype(F32)), ulps=1
    ),
    Program(
        "scatter of NaN",
        lambda x, i: (x.at[i].max(jnp.nan), x.at[i].min(-jnp.inf), x.at[i].add(jnp.inf)),
        with_indices((5,), np.array([3, 0], np.int32)),
        ulps=0,
    ),
    Program(
        "segments",
        _segments,
        lambda rng: (rng.standard_normal((9, 2)).astype(F32), np.array([0, 0, 3, 1, 9, -1, 3, 3, 0], np.int32)),
        ulps=rounding(4),
        floor=None,
    ),
    Program(
        "sorted segments",
        lambda v, s: jax.ops.segment_sum(v, s, 4, indices_are_sorted=True, mode="promise_in_bounds"),
        lambda rng: (rng.integers(0, 99, 6).astype(np.int32), np.array([0, 0, 1, 3, 3, 3], np.int32)),
    ),
]
