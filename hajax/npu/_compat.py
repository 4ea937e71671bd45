"""Where the parameters of equations differ between the supported JAX versions, and nothing else."""

import dataclasses
import math
from typing import Any

import jax
from jax.extend import core as jex


@dataclasses.dataclass(frozen=True, slots=True)
class Scan:
    """A scan's body and how many of its operands are constants and carries; the others are sliced along their first axis."""

    body: Any
    constants: int
    carries: int
    length: int
    reverse: bool


def scan_of(params: dict[str, Any]) -> Scan:
    """The parameters of a scan equation."""
    if "num_consts" in params:
        constants, carries = params["num_consts"], params["num_carry"]
    else:  # from jax 0.11 on: trees of operands
        constants, carries = (len(tree) for tree in params["ft_in"].unpack()[:2])
    return Scan(params["jaxpr"], constants, carries, params["length"], params["reverse"])


def inner_jaxpr(params: dict[str, Any]) -> Any:
    """The closed jaxpr of a call equation (jit, custom_jvp_call, checkpoint, ...)."""
    for name in ("jaxpr", "call_jaxpr", "fun_jaxpr"):
        if name in params:
            found = params[name]
            return found if hasattr(found, "consts") else jex.ClosedJaxpr(found, ())
    raise KeyError(f"a call without a jaxpr among {sorted(params)}")


def is_key(dtype: Any) -> bool:
    """Whether a dtype is that of typed random keys."""
    return bool(jax.numpy.issubdtype(dtype, jax.dtypes.prng_key))


def key_name(dtype: Any) -> str:
    """The generator of a key dtype: "fry" for threefry2x32."""
    return str(dtype._impl.tag) if hasattr(dtype, "_impl") else str(dtype)


def default_platform(params: dict[str, Any]) -> int:
    """Which branch of jax.lax.platform_dependent is taken: the CPU's, as torch offers what XLA's CPU does, else the default."""
    wanted = [index for index, names in enumerate(params["platforms"]) if names is not None and "cpu" in names]
    return (wanted or [index for index, names in enumerate(params["platforms"]) if names is None])[0]


def _flag(name: str) -> bool:
    return bool(getattr(jax.config, name))


def wide_types() -> bool:
    """Whether 64-bit types are kept."""
    return _flag("jax_enable_x64")


def partitionable_threefry() -> bool:
    return _flag("jax_threefry_partitionable")


def expanded(equation: Any) -> Any:
    """The closed jaxpr of an equation whose primitive is an object that knows what it consists of (from jax 0.11 on), or None."""
    primitive = equation.params.get("_prim")
    if primitive is None or not hasattr(primitive, "expand"):
        return None

    def expand(*flat: Any) -> Any:
        return jax.tree.leaves(primitive.expand(*primitive.in_tree.unflatten(flat)))

    return jax.make_jaxpr(expand)(*(jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in equation.invars))


def digamma_pole() -> float:
    """What digamma is at 0: NaN, from jax 0.11 on the limit from above."""
    return -math.inf if jax.__version_info__ >= (0, 11) else math.nan
