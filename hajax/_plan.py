"""hajax.plan: the plan that a call would take, asked for by sizes instead of arrays."""

import operator
from typing import Any

from hajax import abi, backends, planner
from hajax.mechanisms import MECHANISMS, Mechanism
from hajax.plans import Plan, Shape
from hajax.plans.verify_shape import most
from hajax.targets import CpuTarget, NpuTarget, npu


def plan(
    mechanism: str | Mechanism = "gated_delta_rule",
    *,
    tokens: int,
    key_heads: int,
    value_heads: int,
    batch: int = 1,
    sequences: int = 1,
    key_dim: int = 128,
    value_dim: int = 128,
    dtype: str | None = None,
    output_dtype: str | None = None,
    target: str | CpuTarget | NpuTarget = "cpu",
    schedule: str | None = None,
) -> Plan:
    """The plan for `batch` rows of `tokens` tokens with `sequences` sequences each, on `target`.

    target: "cpu" is the machine at hand; "ascend310p1" and the like are chips; dtype: float32 on a CPU, float16 on a chip, which
    takes nothing else; schedule: the target's own when None; "auto" is the one of the least modelled time on it.
    Raises ValueError naming the argument, what was expected and what came.
    """
    if not isinstance(mechanism, Mechanism):
        if not isinstance(mechanism, str) or mechanism not in MECHANISMS:
            raise ValueError(f"mechanism: expected one of {sorted(MECHANISMS)}, got {mechanism!r}")
        mechanism = MECHANISMS[mechanism]
    given = {
        "tokens": tokens, "key_heads": key_heads, "value_heads": value_heads, "batch": batch,
        "sequences": sequences, "key_dim": key_dim, "value_dim": value_dim,
    }  # fmt: skip
    sizes = {name: _size(name, size) for name, size in given.items()}
    if not isinstance(target, CpuTarget | NpuTarget):
        if not isinstance(target, str) or (target != "cpu" and target not in npu.names()):
            raise ValueError(f"target: expected 'cpu', one of {npu.names()} or a target, got {target!r}")
        target = backends.cpu_target() if target == "cpu" else npu.load(target)
    if schedule is not None and not isinstance(schedule, str):
        raise ValueError(f"schedule: expected a name or None, got {schedule!r}")
    if dtype is None:
        dtype = "float16" if isinstance(target, NpuTarget) else "float32"
    output_dtype = dtype if output_dtype is None else output_dtype
    for name, one in (("dtype", dtype), ("output_dtype", output_dtype)):
        if one not in abi.names("dtypes"):
            raise ValueError(f"{name}: expected one of {abi.names('dtypes')}, got {one!r}")
        if isinstance(target, NpuTarget) and one != "float16":
            raise ValueError(f"{name}: expected None or 'float16' on a chip, got {one!r}")
    if sizes["value_heads"] % sizes["key_heads"]:
        raise ValueError(f"value_heads: expected a multiple of key_heads={sizes['key_heads']}, got {sizes['value_heads']}")
    return planner.plan(mechanism, Shape(**sizes, input_dtype=dtype, output_dtype=output_dtype), target, schedule)


def _size(name: str, size: Any) -> int:
    """A size as a plain integer, which numpy's are too."""
    try:
        number = 0 if isinstance(size, bool) else operator.index(size)
    except TypeError:
        number = 0
    if number < 1:
        raise ValueError(f"{name}: expected a positive integer, got {size!r}")
    if number > most(name):
        raise ValueError(f"{name}: expected at most {most(name)}, got {number}")
    return number
