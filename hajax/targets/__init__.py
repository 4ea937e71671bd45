"""What a plan is made for, as values: a target is handed to the planner, never looked up by it."""

from hajax.targets.cpu import CpuTarget
from hajax.targets.npu import NpuTarget

__all__ = ["CpuTarget", "NpuTarget"]
