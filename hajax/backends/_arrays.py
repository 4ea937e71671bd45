"""Arguments of a direct call with numpy arrays, held against the plan's header, as no library can see an array's size."""

import numbers
from collections.abc import Mapping
from typing import Any

import ml_dtypes  # noqa: F401 (numpy learns bfloat16 from it)
import numpy as np

from hajax import abi

ARRAYS = ("query", "key", "value", "log_decay", "beta", "state_in", "bounds")


def check_number(name: str, value: Any) -> float:
    """Raises TypeError for what is no real number."""
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        raise TypeError(f"{name}: expected a number, got {value!r}")
    return float(value)


def check_arrays(header: Any, arrays: Mapping[str, Any], input_dtype: str) -> dict[str, np.ndarray | None]:
    """The arrays, contiguous, that `header`, an hj_cpu_plan or hj_npu_plan, is for. log_decay may be absent where none is read.

    `input_dtype` is that of query, key and value.

    Raises ValueError naming the array, its dtype and shape as the plan says, and those that came.
    """
    if not isinstance(arrays, Mapping):
        raise TypeError(f"arrays: expected arrays by name, got {type(arrays).__name__}")
    if unknown := sorted(set(arrays) - set(ARRAYS)):
        raise ValueError(f"arrays: expected names among {', '.join(ARRAYS)}, got {', '.join(map(str, unknown))}")
    given = {name: None if arrays.get(name) is None else np.ascontiguousarray(arrays[name]) for name in ARRAYS}
    value, bounds = given["value"], given["bounds"]
    batch, tokens = value.shape[:2] if value is not None and value.ndim == 4 else ("B", "T")
    sequences = max(bounds.shape[1] - 1, 1) if bounds is not None and bounds.ndim == 2 else "N"
    key_heads, value_heads, key_dim, value_dim = header.key_heads, header.value_heads, header.key_dim, header.value_dim
    decay, decays = header.header.decay, abi.table("decays")
    gates = (batch, tokens, value_heads)
    expected: dict[str, tuple[tuple[int | str, ...], str]] = {
        "value": ((batch, tokens, value_heads, value_dim), input_dtype),
        "query": ((batch, tokens, key_heads, key_dim), input_dtype),
        "key": ((batch, tokens, key_heads, key_dim), input_dtype),
        "log_decay": ((*gates, key_dim) if decay == decays["per_channel"] else gates, "float32"),
        "beta": ((*gates, 2) if header.header.strengths == 2 else gates, "float32"),
        "bounds": ((batch, sequences + 1 if isinstance(sequences, int) else "N+1"), "int32"),
        "state_in": ((batch, sequences, value_heads, key_dim, value_dim), "float32"),
    }
    for name, (shape, dtype) in expected.items():
        array = given[name]
        if array is None and name == "log_decay" and decay == decays["none"]:
            continue
        if array is None or array.shape != shape or array.dtype.name != dtype or not array.dtype.isnative:
            swapped = "" if array is None or array.dtype.isnative else "byte-swapped "
            absent = "None" if name in arrays else "none of that name"
            got = absent if array is None else swapped + _text(array.shape, array.dtype.name)
            raise ValueError(f"{name}: expected {_text(shape, dtype)} as the plan says, got {got}")
    return given


def _text(shape: tuple[int | str, ...], dtype: str) -> str:
    return f"{dtype}[{', '.join(map(str, shape))}]"
