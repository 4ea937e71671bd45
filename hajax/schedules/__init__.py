"""A schedule is a function that lists passes. CPU and ASCEND: those of either kind of target, by name."""

from collections.abc import Callable

from hajax.mechanisms import Mechanism
from hajax.plans import Plan, Shape
from hajax.schedules.cpu_fused import schedule_cpu_fused
from hajax.schedules.hajax_schedule import schedule_hajax
from hajax.schedules.hanpu import schedule_chunk_head, schedule_hanpu
from hajax.targets import CpuTarget, NpuTarget

CPU: dict[str, Callable[[Mechanism, Shape, CpuTarget, int], Plan]] = {"cpu_fused": schedule_cpu_fused}
ASCEND: dict[str, Callable[[Mechanism, Shape, NpuTarget, int], Plan]] = {
    "hajax": schedule_hajax,
    "hanpu": schedule_hanpu,
    "chunk_head": schedule_chunk_head,
}
COMPARED = ("hajax", "hanpu")  # of ASCEND, what "auto" chooses from; chunk_head is for ablations

__all__ = ["ASCEND", "COMPARED", "CPU", "schedule_chunk_head", "schedule_cpu_fused", "schedule_hajax", "schedule_hanpu"]
