"""How long a function's work takes on a torch device: by the device's own events, on the CPU by its clock."""

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

_WARM_UPS = 2


def microseconds(backend: str, function: Callable[[], Any], repeats: int) -> float:
    """The median over `repeats` calls of `function` on the device of a backend of `hajax.npu.devices`."""
    for _ in range(_WARM_UPS):
        function()
    once = _on_device if backend == "npu" else _on_cpu
    return statistics.median(once(function) for _ in range(repeats))


def _on_device(function: Callable[[], Any]) -> float:
    start, end = (torch.npu.Event(enable_timing=True) for _ in range(2))
    start.record()
    function()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) * 1e3


def _on_cpu(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return (time.perf_counter() - start) * 1e6
