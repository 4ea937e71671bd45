"""Fixed targets and shapes for planner tests: plans of these are equal on every machine."""

from hajax import planner
from hajax.mechanisms import GATED_DELTA_RULE
from hajax.plans import Shape
from hajax.targets import CpuTarget

AVX512 = CpuTarget(isa="avx512", panel=32, bf16_dot=True, threads=4, l1_bytes=32 << 10, l2_bytes=1 << 20)
AVX2 = CpuTarget(isa="avx2", panel=16, bf16_dot=False, threads=2, l1_bytes=32 << 10, l2_bytes=512 << 10)


def shape_of(tokens, heads=(16, 16), dims=(128, 128), dtype="float32", batch=1, sequences=1, output=None):
    return Shape(batch, tokens, sequences, *heads, *dims, dtype, output or dtype)


def schedule(shape, target=AVX512):
    """A plan made now: no cache."""
    from hajax import schedules

    return schedules.CPU["cpu_fused"](GATED_DELTA_RULE, shape, target, planner.VERSION)
