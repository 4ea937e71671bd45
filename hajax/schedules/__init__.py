"""A schedule is a function that lists passes."""

from collections.abc import Callable

from hajax.mechanisms import Mechanism
from hajax.plans import Plan, Shape
from hajax.schedules.cpu_fused import schedule_cpu_fused
from hajax.targets import CpuTarget

SCHEDULES: dict[str, Callable[[Mechanism, Shape, CpuTarget, int], Plan]] = {"cpu_fused": schedule_cpu_fused}

__all__ = ["SCHEDULES", "schedule_cpu_fused"]
