"""The torch device of a backend's name, and what is missing when there is none."""

import functools
import importlib

import torch

from hajax.npu.capture import DeviceGraphs


class BackendError(RuntimeError):
    """A backend that cannot be used here, with the reason and the remedy."""


@functools.cache
def open_device(backend: str) -> torch.device:
    """The device of a backend: "torch" is torch's CPU, "npu" the current device of torch_npu.

    Raises BackendError when torch_npu or its device is missing.
    """
    if backend == "torch":
        return torch.device("cpu")
    try:
        importlib.import_module("torch_npu")
    except ImportError as error:
        raise BackendError(f"backend npu: torch_npu cannot be imported: {error} (hajax doctor says what is missing)") from error
    if not torch.npu.is_available():
        raise BackendError("backend npu: torch_npu sees no device (npu-smi info shows what the driver sees)")
    return torch.device("npu", torch.npu.current_device())


def graphs_of(device: torch.device) -> DeviceGraphs | None:
    """The device's graphs; None for the CPU, which has none."""
    return None if device.type == "cpu" else DeviceGraphs(getattr(torch, device.type))
