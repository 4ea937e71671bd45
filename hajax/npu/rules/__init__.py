"""One rule a primitive, a file a family."""

from hajax.npu.rules import (  # noqa: F401 (each registers its rules)
    bits,
    contraction,
    control,
    delta_rule,
    elementwise,
    fused,
    indexing,
    integers,
    linear_algebra,
    random,
    reduction,
    structure,
    windows,
)
from hajax.npu.rules.registry import RULES

__all__ = ["RULES"]
