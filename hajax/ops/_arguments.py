"""Argument checks that every operator shares: each error names the argument, what was expected and what came."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hajax import abi
from hajax.targets import npu

IMPLEMENTATIONS = ("cpu", "sim", "xla")
INPUT_DTYPES = abi.names("dtypes")


def check_implementation(name: str | None) -> str | None:
    if name is not None and name not in IMPLEMENTATIONS:
        raise ValueError(f"implementation: expected None or one of {IMPLEMENTATIONS}, got {name!r}")
    return name


def check_target(name: str) -> str:
    """A chip that can be emulated, and that the fused kernel is written for."""
    able = npu.kernel_names()
    if name in able:
        return name
    if name in npu.names():
        raise ValueError(f"target: expected one of {able}, which the fused kernel is written for, got {name!r}")
    raise ValueError(f"target: expected None or one of {able}, got {name!r}")


def as_array(name: str, value: Any) -> jax.Array:
    """`value` as a JAX array; anything that is not numeric is refused by name."""
    if isinstance(value, jax.Array):
        return value
    try:
        return jnp.asarray(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"{name}: expected an array, got {type(value).__name__} ({error})") from None


def check_rank(name: str, array: jax.Array, axes: str) -> None:
    """`axes` spells the expected axes, as "B T Hk Dk"."""
    if array.ndim != len(axes.split()):
        raise ValueError(f"{name}: expected rank {len(axes.split())} [{', '.join(axes.split())}], got shape {array.shape}")


def check_shape(name: str, array: jax.Array, expected: tuple[Any, ...], axes: str) -> None:
    if tuple(array.shape) != tuple(expected):
        raise ValueError(f"{name}: expected shape {tuple(expected)} [{', '.join(axes.split())}], got {tuple(array.shape)}")


def check_float(name: str, array: jax.Array) -> None:
    if not jnp.issubdtype(array.dtype, jnp.floating):
        raise TypeError(f"{name}: expected a floating-point dtype, got {array.dtype}")


def check_input_dtype(name: str, array: jax.Array, expected: Any = None) -> None:
    if expected is not None and array.dtype != expected:
        raise TypeError(f"{name}: expected dtype {jnp.dtype(expected).name} as the query has, got {array.dtype.name}")
    if array.dtype.name not in INPUT_DTYPES:
        raise TypeError(f"{name}: expected dtype float32, bfloat16 or float16, got {array.dtype.name}")


def check_integer(name: str, array: jax.Array) -> None:
    if not jnp.issubdtype(array.dtype, jnp.integer):
        raise TypeError(f"{name}: expected an integer dtype, got {array.dtype}")


def concrete(array: Any) -> np.ndarray | None:
    """The values when they are known while tracing, else None."""
    return None if isinstance(array, jax.core.Tracer) else np.asarray(array)


def nan_where_wrong(bounds: jax.Array, tokens: Any, output: jax.Array, final: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Output and final state, or NaN throughout when some bound [B, N + 1] is outside [0, T] or descends.

    Bounds may be known only when the program runs, where plain jnp cannot raise: NaN is loud, a plausible number is not.
    """
    good = (bounds[:, 0] >= 0).all() & (bounds[:, -1] <= tokens).all() & (bounds[:, 1:] >= bounds[:, :-1]).all()
    return jnp.where(good, output, jnp.full_like(output, jnp.nan)), jnp.where(good, final, jnp.full_like(final, jnp.nan))


def sequence_bounds(batch: Any, tokens: Any, lengths: Any, cu_seqlens: Any) -> tuple[jax.Array, Any]:
    """Bounds [B, N + 1] of the sequences in each row and N, from `lengths` [B], `cu_seqlens` [N + 1] or neither.

    Values that are known while tracing are checked here; of others the kernel raises, and plain jnp makes NaN, when they run.
    """
    if lengths is not None and cu_seqlens is not None:
        raise ValueError("lengths and cu_seqlens: expected at most one of them, got both")
    if lengths is not None:
        lengths = as_array("lengths", lengths)
        check_integer("lengths", lengths)
        check_shape("lengths", lengths, (batch,), "B")
        known = concrete(lengths)
        if known is not None and known.size and (known.min() < 0 or known.max() > tokens):
            bad = int(known.min()) if known.min() < 0 else int(known.max())
            raise ValueError(f"lengths: expected values in [0, T={tokens}], got {bad}")
        lengths = lengths.astype(jnp.int32)
        return jnp.stack([jnp.zeros_like(lengths), lengths], axis=1), 1
    if cu_seqlens is not None:
        cu_seqlens = as_array("cu_seqlens", cu_seqlens)
        check_integer("cu_seqlens", cu_seqlens)
        check_rank("cu_seqlens", cu_seqlens, "N+1")
        if cu_seqlens.shape[0] < 2:
            raise ValueError(f"cu_seqlens: expected at least 2 entries [0, ..., T], got shape {cu_seqlens.shape}")
        if batch != 1:
            raise ValueError(f"cu_seqlens: expected one packed row (batch 1), got batch {batch}")
        known = concrete(cu_seqlens)
        if known is not None:
            if known[0] != 0 or known[-1] != tokens:
                raise ValueError(f"cu_seqlens: expected to start at 0 and end at T={tokens}, got {known[0]} and {known[-1]}")
            if (known[1:] < known[:-1]).any():  # compared, not subtracted: unsigned differences wrap
                raise ValueError(f"cu_seqlens: expected ascending values, got {known.tolist()}")
        cu_seqlens = cu_seqlens.astype(jnp.int32)
        if known is None:  # ends that are wrong when it runs: bounds that no implementation takes for good
            cu_seqlens = jnp.where((cu_seqlens[0] == 0) & (cu_seqlens[-1] == tokens), cu_seqlens, -1)
        return cu_seqlens[None], cu_seqlens.shape[0] - 1
    zeros = jnp.zeros((batch, 1), jnp.int32)
    return jnp.concatenate([zeros, jnp.full((batch, 1), tokens, jnp.int32)], axis=1), 1
