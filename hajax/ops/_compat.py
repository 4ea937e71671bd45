"""Differences between the supported JAX versions, and nothing else."""

import jax


def varying_axes(x: jax.Array) -> frozenset[str]:
    """The mesh axes of the surrounding shard_map over which this array varies."""
    kind = jax.typeof(x)
    if hasattr(kind, "vma"):  # up to jax 0.9
        return frozenset(kind.vma)
    return frozenset(kind.manual_axis_type.varying)


def same_varying_axes(arrays: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
    """Inside shard_map: all arrays marked as varying over every mesh axis that any of them varies over; else as they are."""
    union: frozenset[str] = frozenset().union(*(varying_axes(x) for x in arrays))
    return tuple(_vary(x, tuple(sorted(union - varying_axes(x)))) for x in arrays)


def _vary(x: jax.Array, axes: tuple[str, ...]) -> jax.Array:
    return jax.lax.pcast(x, axes, to="varying") if axes else x
