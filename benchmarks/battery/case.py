"""One program of the battery: a JAX function, its arguments from a seed, and how far from XLA its results may be.

Integers, booleans, keys, shapes, dtypes and the places of NaN are exact. A float may be off by `ulps` epsilons of its dtype,
times its own size or `floor` if that is larger: what an algorithm adds up on the way, when its result may be smaller.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

BF16 = np.dtype(ml_dtypes.bfloat16)
F16, F32, F64 = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)
FLOATS = (F32, F16, BF16)
SIGNED = tuple(np.dtype(f"int{bits}") for bits in (8, 16, 32))
UNSIGNED = tuple(np.dtype(f"uint{bits}") for bits in (8, 16, 32))
INTEGERS = (*SIGNED, *UNSIGNED)

Arguments = Callable[[np.random.Generator], tuple[Any, ...]]


@dataclasses.dataclass(frozen=True, slots=True)
class Program:
    """floor: see above; None for the largest result. refuses: the primitive that is refused, where no torch program is right.

    x64: with jax_enable_x64. signs: zeros keep theirs.
    """

    name: str
    function: Callable[..., Any]
    arguments: Arguments
    ulps: float = 4.0
    floor: float | None = 0.0
    refuses: str = ""
    x64: bool = False
    signs: bool = False


def rounding(terms: float) -> float:
    """Ulps of a sum of so many terms, added up in any order: each of both sums walks at random by half an ulp a term."""
    return 2.0 + 2.0 * math.sqrt(terms)


def limits(dtype: Any) -> Any:
    return ml_dtypes.finfo(dtype) if np.dtype(dtype).kind in "fV" else np.iinfo(dtype)


def normal(dtype: Any, *shape: int) -> Arguments:
    """One array of normally distributed numbers."""
    return lambda rng: (rng.standard_normal(shape).astype(dtype),)


def normals(dtype: Any, *shapes: tuple[int, ...]) -> Arguments:
    return lambda rng: tuple(rng.standard_normal(shape).astype(dtype) for shape in shapes)


def fixed(*values: Any) -> Arguments:
    """Arguments that no seed changes."""
    return lambda rng: values


def array(values: Any, dtype: Any) -> Any:
    """Those numbers rounded to a dtype; too large ones are infinite."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(values, np.float64).astype(dtype) if np.dtype(dtype).kind in "fV" else np.asarray(values, dtype)


def special(dtype: Any) -> Any:
    """Floats at the edges: NaN, infinities, both zeros, halves, the largest, the smallest normal, and some between."""
    top, least = float(limits(dtype).max), float(limits(dtype).smallest_normal)
    edges = [math.nan, math.inf, -math.inf, 0.0, -0.0, 0.5, -0.5, 1.5, -1.5, 2.5, 3.5, -2.5, 1.0, -1.0, top, -top, least, -least]
    between = [0.3, -0.7, 2.0, -3.0, 7.25, -11.0, 1e-3, -1e-3, 10.1, -20.7, 50.0, -88.5, 0.9921875, -0.9921875, 300.0]
    return array(edges + between, dtype)


def whole_edges(dtype: Any) -> Any:
    """Integers at the edges."""
    low, high = int(limits(dtype).min), int(limits(dtype).max)
    found = [low, low + 1, high, high - 1, 0, 1, 2, 3, 5, 7, 64, 100, high // 2, high // 2 + 1]
    return np.array(found + ([-1, -2, -3, -7, -64] if low < 0 else [8, 9, 31, 33, 63]), dtype)


def all_pairs(values: Any, others: Any = None) -> tuple[Any, Any]:
    """Every value with every other."""
    others = values if others is None else others
    left, right = np.meshgrid(values, others, indexing="ij")
    return np.ascontiguousarray(left), np.ascontiguousarray(right)


def over(kinds: Any, name: str, function: Any, maker: Callable[[Any], Arguments], **more: Any) -> list[Program]:
    """A program for each dtype."""
    return [Program(f"{name} {np.dtype(kind)}", function, maker(kind), **more) for kind in kinds]


def with_indices(shape: tuple[int, ...], indices: Any, kind: Any = F32) -> Any:
    return lambda rng: (rng.standard_normal(shape).astype(kind), indices)


OUTSIDE = np.array([0, 2, -1, -4, -5, 4, 7, 1, 1], np.int32)  # for an axis of 4


def with_kind(kind: Any, *shape: int) -> Any:
    return lambda rng: (
        (rng.standard_normal(shape) * 3).astype(kind)
        if np.dtype(kind).kind in "fVib"
        else rng.integers(0, 90, shape).astype(kind),
    )
