"""hajax.plan: the plan that a call would take, asked for by sizes instead of arrays."""

from hajax import abi, backends, planner
from hajax.mechanisms import MECHANISMS, Mechanism
from hajax.plans import Plan, Shape
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
    takes nothing else; schedule: the target's own when None.
    Raises ValueError naming the argument, what was expected and what came.
    """
    if isinstance(mechanism, str):
        if mechanism not in MECHANISMS:
            raise ValueError(f"mechanism: expected one of {sorted(MECHANISMS)}, got {mechanism!r}")
        mechanism = MECHANISMS[mechanism]
    sizes = {
        "tokens": tokens, "key_heads": key_heads, "value_heads": value_heads, "batch": batch,
        "sequences": sequences, "key_dim": key_dim, "value_dim": value_dim,
    }  # fmt: skip
    for name, size in sizes.items():
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise ValueError(f"{name}: expected a positive integer, got {size!r}")
    if isinstance(target, str):
        if target != "cpu" and target not in npu.names():
            raise ValueError(f"target: expected 'cpu', one of {npu.names()} or a target, got {target!r}")
        target = backends.cpu_target() if target == "cpu" else npu.load(target)
    if dtype is None:
        dtype = "float16" if isinstance(target, NpuTarget) else "float32"
    output_dtype = dtype if output_dtype is None else output_dtype
    for name, given in (("dtype", dtype), ("output_dtype", output_dtype)):
        if given not in abi.names("dtypes"):
            raise ValueError(f"{name}: expected one of {abi.names('dtypes')}, got {given!r}")
    if value_heads % key_heads:
        raise ValueError(f"value_heads: expected a multiple of key_heads={key_heads}, got {value_heads}")
    shape = Shape(
        batch=batch, tokens=tokens, sequences=sequences, key_heads=key_heads, value_heads=value_heads,
        key_dim=key_dim, value_dim=value_dim, input_dtype=dtype, output_dtype=output_dtype,
    )  # fmt: skip
    return planner.plan(mechanism, shape, target, schedule)
