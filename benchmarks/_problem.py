"""What every peer of cpu_core.py is given: arrays that a conformance case draws, l2norm still to be done."""

import functools
from typing import Any

import numpy as np

from hajax import conformance

EPS = 1e-6
KEY_HEADS, DIM = 16, 128
DTYPES = {"fp32": "float32", "bf16": "bfloat16"}


MECHANISMS = {"gated_delta_rule": "gdn", "kda": "kda"}  # by conformance's names of operators


def case_of(tokens: int, value_heads: int, dtype: str, mechanism: str = "gated_delta_rule") -> conformance.Case:
    return conformance.Case(
        tokens,
        key_heads=KEY_HEADS,
        value_heads=value_heads,
        key_dim=DIM,
        value_dim=DIM,
        dtype=DTYPES[dtype],
        state=False,
        l2norm=True,
        op=MECHANISMS[mechanism],
    )


@functools.lru_cache(maxsize=1)
def arrays_of(case: str) -> dict[str, np.ndarray]:
    """query, key, value, log_decay and beta of a case string; the last one asked for is kept."""
    return conformance.inputs(conformance.parse(case))


def some_heads(arrays: dict[str, np.ndarray], heads: list[int]) -> dict[str, np.ndarray]:
    """The problem of these value heads alone, each with its key head."""
    shared = arrays["value"].shape[2] // arrays["query"].shape[2]
    keys = [head // shared for head in heads]
    return {name: x[:, :, keys if name in ("query", "key") else heads] for name, x in arrays.items()}


def expected(case: str, heads: list[int]) -> np.ndarray:
    """The fp64 recurrence's output for some of the value heads."""
    return conformance.recurrence(some_heads(arrays_of(case), heads), l2norm_eps=EPS)[0]


def useful_flops(tokens: int, value_heads: int) -> float:
    """Floating-point operations of the recurrence: decay, k S, rank-one update and q S, 7 D^2 a token and head."""
    return 7.0 * DIM * DIM * tokens * value_heads


def largest_error(got: np.ndarray, wanted: np.ndarray) -> float:
    error: Any = np.abs(got.astype(np.float64) - wanted).max()
    return float(error) if np.isfinite(error) else float("inf")
