"""Whether a problem's sizes and dtypes are ones that the integer fields of abi/ hold, whatever runs it."""

from hajax import abi
from hajax.plans.model import Shape

MOST_SIZE = 2**31 - 1  # int32_t: the sizes in hj_cpu_plan and hj_npu_plan, and bounds, which count tokens
MOST_BATCH = 2**63 - 1  # int64_t: hj_delta_call.batch
_MAY_BE_UNKNOWN = ("batch", "tokens")


def most(name: str) -> int:
    """The largest size that a field of Shape may be."""
    return MOST_BATCH if name == "batch" else MOST_SIZE


def verify_shape(shape: Shape) -> None:
    """Raises ValueError naming the field, what it must be and what it is."""
    for name in ("batch", "tokens", "sequences", "key_heads", "value_heads", "key_dim", "value_dim"):
        size, unknown = getattr(shape, name), name in _MAY_BE_UNKNOWN
        if size is None and unknown:
            continue
        if not isinstance(size, int) or isinstance(size, bool) or not 1 <= size <= most(name):
            expected = f"an integer from 1 to {most(name)}{' or None' if unknown else ''}"
            raise ValueError(f"plan.shape.{name}: expected {expected}, got {size!r}")
    if shape.value_heads % shape.key_heads:
        expected = f"a multiple of key_heads={shape.key_heads}"
        raise ValueError(f"plan.shape.value_heads: expected {expected}, got {shape.value_heads}")
    for name in ("input_dtype", "output_dtype"):
        dtype = getattr(shape, name)
        if dtype not in abi.names("dtypes"):
            raise ValueError(f"plan.shape.{name}: expected one of {abi.names('dtypes')}, got {dtype!r}")
