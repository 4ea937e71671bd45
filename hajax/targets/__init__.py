"""What a plan is made for, as values: a target is handed to the planner, never looked up by it."""

from hajax.targets.cpu import ON_TILES, CpuTarget
from hajax.targets.npu import NpuTarget

__all__ = ["ON_TILES", "CpuTarget", "NpuTarget"]
