"""A schedule is a function that lists passes. CPU and ASCEND: those of either kind of target, by name.

COMPARED: the systems of the comparison (docs/schedules), which "auto" chooses from; all run the same kernel and routines.
"""

from collections.abc import Callable

from hajax.mechanisms import Mechanism
from hajax.plans import Plan, Shape
from hajax.schedules.cpu_backward import schedule_cpu_backward
from hajax.schedules.cpu_fused import schedule_cpu_choice, schedule_cpu_fused
from hajax.schedules.fla import schedule_fla, schedule_fla_megakernel
from hajax.schedules.flashqla import schedule_flashqla
from hajax.schedules.hajax_schedule import schedule_hajax
from hajax.schedules.hanpu import schedule_chunk_head, schedule_hanpu
from hajax.schedules.vllm_ascend import schedule_vllm_ascend
from hajax.targets import CpuTarget, NpuTarget

CPU: dict[str, Callable[[Mechanism, Shape, CpuTarget, int], Plan]] = {
    "cpu_fused": schedule_cpu_fused,
    "cpu_backward": schedule_cpu_backward,
}
ASCEND: dict[str, Callable[[Mechanism, Shape, NpuTarget, int], Plan]] = {
    "hajax": schedule_hajax,
    "hanpu": schedule_hanpu,
    "fla": schedule_fla,
    "fla_megakernel": schedule_fla_megakernel,
    "flashqla": schedule_flashqla,
    "vllm_ascend": schedule_vllm_ascend,
    "chunk_head": schedule_chunk_head,
}
COMPARED = ("hajax", "hanpu", "fla", "fla_megakernel", "flashqla", "vllm_ascend")

__all__ = [
    "ASCEND",
    "COMPARED",
    "CPU",
    "schedule_chunk_head",
    "schedule_cpu_backward",
    "schedule_cpu_choice",
    "schedule_cpu_fused",
    "schedule_fla",
    "schedule_fla_megakernel",
    "schedule_flashqla",
    "schedule_hajax",
    "schedule_hanpu",
    "schedule_vllm_ascend",
]
