"""The native libraries: opening them, talking to them, registering them with XLA, and what the CPU at hand is.

`ascend`, plans on a device, and `npu` and `sim`, the emulated Ascend chip, are imported when they are first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

from hajax.backends.library import LibraryError, available_isas, cpu_target, execute, has_bf16_dot, open_library

if TYPE_CHECKING:
    from hajax.backends import ascend as ascend
    from hajax.backends import npu as npu
    from hajax.backends import sim as sim

_MODULES = ("ascend", "npu", "sim")

__all__ = ["LibraryError", "available_isas", "cpu_target", "execute", "has_bf16_dot", "open_library"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'hajax.backends' has no attribute {name!r}")
    return importlib.import_module(f"hajax.backends.{name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
