"""The battery: JAX programs that an executor gets right or refuses by name; `check` says which of the two it did, or neither."""

import contextlib
import importlib.metadata
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import ml_dtypes
import numpy as np
from battery import arrays, control, elementwise, products, randomness, reductions, updates
from battery.case import Program

SEED = 20
PROGRAMS: tuple[Program, ...] = tuple(
    program
    for table in (elementwise, arrays, updates, reductions, products, control, randomness)
    for program in table.PROGRAMS
)  # fmt: skip

Run = Callable[[Callable[..., Any], tuple[Any, ...]], Any]


def check(program: Program, run: Run, options: Mapping[str, Any] | None = None) -> tuple[str, float, str]:
    """Status (right, refused or wrong), largest distance from XLA's floats, and a message. options: of XLA's compiler.

    `run(function, arguments)` gives results as torch tensors, numpy or JAX arrays. It refuses by raising `Unsupported`.
    """
    with surroundings(program):
        arguments = program.arguments(np.random.default_rng(SEED))
        wanted = jax.jit(program.function).lower(*arguments).compile(dict(options or {}))(*arguments)
        try:
            found = run(program.function, arguments)
        except NotImplementedError as error:
            if type(error).__name__ == "Unsupported":
                return "refused", 0.0, str(error)
            return "wrong", 0.0, f"raised when run: {_first_line(error)}"
        except Exception as error:
            return "wrong", 0.0, f"raised {type(error).__name__}: {_first_line(error)}"
        return compare(program, found, wanted)


def compare(program: Program, found: Any, wanted: Any) -> tuple[str, float, str]:
    """The same for results at hand; `wanted` are XLA's."""
    if jax.tree.structure(found) != jax.tree.structure(wanted):
        return "wrong", 0.0, f"structure: expected {jax.tree.structure(wanted)}, got {jax.tree.structure(found)}"
    furthest = 0.0
    for number, (one, other) in enumerate(zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True)):
        distance, message = _compare(program, _host(one), _host(other))
        if message:
            return "wrong", distance, f"result {number}: {message}"
        furthest = max(furthest, distance)
    return "right", furthest, ""


def _compare(program: Program, found: Any, wanted: Any) -> tuple[float, str]:
    if (found.shape, found.dtype) != (wanted.shape, wanted.dtype):
        return 0.0, f"expected {wanted.dtype}{list(wanted.shape)}, got {found.dtype}{list(found.shape)}"
    if wanted.dtype.kind in "biu":
        return 0.0, _worst(found != wanted, found, wanted)
    complex_numbers = wanted.dtype.kind == "c"
    real = np.finfo(wanted.dtype).dtype if complex_numbers else wanted.dtype
    wide = np.complex128 if complex_numbers else np.float64
    with np.errstate(invalid="ignore"):
        one, other = found.astype(wide), wanted.astype(wide)
        finite = np.isfinite(other)
        same = (one == other) | (np.isnan(one) & np.isnan(other))
        off = np.where(same, 0.0, np.abs(one - other))
        size = np.where(finite, np.abs(other), 0.0)
        if program.floor is None:
            size = np.maximum(size, size.max(initial=0.0))
        else:
            size = np.maximum(size, program.floor)
        # What is below the smallest normal number on the way may be flushed to zero, by XLA or by torch.
        bound = program.ulps * float(ml_dtypes.finfo(real).eps) * size + 2 * float(ml_dtypes.finfo(real).smallest_normal)
        bad = ~same & ~(finite & np.isfinite(one) & (off <= bound))
    if program.signs:
        bad |= (one == 0) & (other == 0) & (np.signbit(one) != np.signbit(other))
    return float(off[np.isfinite(off)].max(initial=0.0)), _worst(bad, found, wanted)


def _worst(bad: Any, found: Any, wanted: Any) -> str:
    if not bad.any():
        return ""
    places = np.argwhere(bad)
    shown = "; ".join(f"at {place.tolist()} {wanted[tuple(place)]!s}, got {found[tuple(place)]!s}" for place in places[:3])
    return f"{len(places)} of {bad.size} {wanted.dtype} differ: {shown}"


def _host(value: Any) -> Any:
    """numpy's view of a result; keys as their words."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().resolve_conj()
        name = str(value.dtype).removeprefix("torch.")
        if name == "bfloat16":
            return value.float().numpy().astype(ml_dtypes.bfloat16)
        return value.numpy()
    if isinstance(value, jax.Array) and jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        value = jax.random.key_data(value)
    return np.asarray(value)


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0][:200]


@contextlib.contextmanager
def surroundings(program: Program) -> Iterator[None]:
    """What a program is traced in, whatever the process has set."""
    if hasattr(jax, "enable_x64"):
        wide = jax.enable_x64(program.x64)
    else:
        from jax.experimental import enable_x64

        wide = enable_x64(program.x64)
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"), wide:
        yield


def versions() -> str:
    """What was compared, for a table's head."""
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("jax", "torch"))
