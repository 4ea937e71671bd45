"""libhajax_ascend through cffi: plans and calls that lie on a device, launches with addresses of its memory, and its errors.

No framework is needed. The same interface is in libhajax_sim, over the emulated chip. HAJAX_ASCEND_LIBRARY names another
library file, HAJAX_ASCEND_TARGET the chip that plans are made for, where a device's name is none of those that are known.
"""

import dataclasses
import functools
import os
import weakref
from pathlib import Path
from typing import Any

import numpy as np

from hajax import abi
from hajax.backends._arrays import check_number
from hajax.backends.library import Library, LibraryError, find_library
from hajax.backends.sim import open_sim_library, target_table
from hajax.plans.wire_programs import check_bytes
from hajax.targets import NpuTarget, npu

LIBRARY, VARIABLE, TARGET_VARIABLE = "libhajax_ascend.so", "HAJAX_ASCEND_LIBRARY", "HAJAX_ASCEND_TARGET"
_DIGEST = "hajax_ascend_abi_digest"
_INT32 = 1 << 31


class AscendError(RuntimeError):
    """The device, or ACL on its way to it, failed; the text is ACL's."""


class LaunchError(AscendError):
    """A kernel, or what goes with it, could not be queued. Its results are not there; the device can be used."""


class StreamError(AscendError):
    """What was queued on a stream failed on the device: results of that stream are not to be used."""


class DeviceLostError(AscendError):
    """The device no longer answers and what lay on it is gone: `reset`, then open it again; under torch_npu, a new process."""


class PlanVersionError(LibraryError):
    """The plan was made by another version of hajax than the library."""


_KINDS: dict[str, type[Exception]] = {
    "bad_call": ValueError,
    "unsupported": NotImplementedError,
    "internal": AscendError,
    "no_memory": MemoryError,
    "launch_error": LaunchError,
    "stream_error": StreamError,
    "device_lost": DeviceLostError,
    "plan_version": PlanVersionError,
}
_ADVICE = {
    "device_lost": "what lay on the device is gone: hajax.backends.ascend.reset() and open it again, or, where torch_npu has "
    "opened it, start the process anew",
    "plan_version": "let this version of hajax make the plan, or rebuild the library",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Needs:
    """What the arrays of a call take in bytes, and what a launch does (hj_ascend_needs of hajax/abi/ascend.h)."""

    query_bytes: int
    value_bytes: int
    log_decay_bytes: int
    strength_bytes: int
    state_bytes: int
    output_bytes: int
    workspace_bytes: int
    gates: int
    chunk: int
    launches: int
    cores: int
    strengths: int
    in_place: bool


def library_path() -> Path:
    """The file that `open_ascend_library` opens."""
    return find_library(LIBRARY, VARIABLE)


def open_ascend_library() -> Library:
    """The library for a device. Raises LibraryError with the reason when it cannot be used."""
    return _open(library_path())


def open_emulated_library() -> Library:
    """The same interface over the emulated chip."""
    return _open(open_sim_library().path)


@functools.cache
def _open(path: Path) -> Library:
    if not path.is_file():
        named = os.environ.get(VARIABLE)
        remedy = f"{VARIABLE} names it" if named else "installing hajax where CANN is found builds it; docs/npu.md has the steps"
        raise LibraryError(f"{path}: no such file ({remedy})")
    return Library(path, _DIGEST)


def check(library: Library, status: int) -> None:
    """Raises the exception of a status but `ok`, with the library's text."""
    if status == 0:
        return
    name = abi.table("statuses")(status).name
    text = library.ffi.string(library.lib.hajax_ascend_last_error()).decode(errors="replace")
    advice = f" ({_ADVICE[name]})" if name in _ADVICE else ""
    raise _KINDS.get(name, LibraryError)(f"{name}: {text}{advice}")


def soc_name(library: Library) -> str:
    """The device's chip, as ACL calls it."""
    name = library.lib.hajax_ascend_soc_name()
    if name == library.ffi.NULL:
        text = library.ffi.string(library.lib.hajax_ascend_last_error()).decode(errors="replace")
        raise AscendError(f"the chip's name is not known: {text}")
    return str(library.ffi.string(name).decode(errors="replace"))


def target_of(name: str) -> NpuTarget:
    """The chip to plan for, by ACL's name of it. Raises NotImplementedError for one that the kernel is not written for."""
    wanted = os.environ.get(TARGET_VARIABLE, name).lower()
    if wanted not in npu.kernel_names():
        known = ", ".join(npu.kernel_names())
        raise NotImplementedError(
            f"device: expected one of {known}, as the fused kernel is written for the 310P, got {name} ({TARGET_VARIABLE} names "
            "the one to plan for)"
        )
    return npu.load(wanted)


def synchronize(library: Library, stream: int = 0) -> None:
    """Waits for a stream. Raises what went wrong on it since the last time."""
    check(library, library.lib.hajax_ascend_synchronize(stream))


def reset(library: Library | None = None) -> None:
    """Gives up what this process has on devices, also on one that is lost. Plans and calls from before are of no use then."""
    library = library or open_ascend_library()
    check(library, library.lib.hajax_ascend_reset())


class PlacedPlan:
    """A plan's bytes, every field checked, on the current device; they go when nothing refers to it or its calls any more."""

    def __init__(self, library: Library, plan: bytes, target: NpuTarget) -> None:
        check_bytes(plan)
        self.library = library
        self.bytes = plan
        opened = library.ffi.new("hj_ascend_plan **")
        check(library, library.lib.hajax_ascend_plan_open(target_table(library, target), plan, len(plan), opened))
        self.handle = opened[0]
        self._close = _close_with(self, library.lib.hajax_ascend_plan_close, self.handle)

    def prepare(self, tokens: int, bounds: np.ndarray, scale: float) -> "PreparedCall":
        """A call of rows of `tokens` tokens with these bounds int32[B, N + 1], in host memory. Raises ValueError."""
        return PreparedCall(self, tokens, bounds, scale)

    def close(self) -> None:
        """Gives the memory back now, or with the last of its calls."""
        self._close()


class PreparedCall:
    """A plan with sizes and bounds, the tables for them on the device: launched any number of times."""

    def __init__(self, plan: PlacedPlan, tokens: int, bounds: np.ndarray, scale: float) -> None:
        library = plan.library
        ffi = library.ffi
        if not isinstance(bounds, np.ndarray) or bounds.ndim != 2 or bounds.shape[1] < 2 or bounds.dtype != np.int32:
            got = f"{bounds.dtype}{list(bounds.shape)}" if isinstance(bounds, np.ndarray) else type(bounds).__name__
            raise ValueError(f"bounds: expected an array int32[B, N+1], got {got}")
        if not 0 <= tokens < _INT32:
            raise ValueError(f"tokens: expected 0 to {_INT32 - 1}, got {tokens}")
        self.plan, self.library = plan, library
        self.tokens, self.bounds, self.scale = tokens, np.ascontiguousarray(bounds), check_number("scale", scale)
        opened = ffi.new("hj_ascend_call **")
        batch, ends = self.bounds.shape
        pointer = ffi.cast("int32_t *", self.bounds.ctypes.data)
        status = library.lib.hajax_ascend_call_open(plan.handle, batch, tokens, ends - 1, pointer, self.scale, opened)
        check(library, status)
        self._handle = opened[0]
        self._close = _close_with(self, library.lib.hajax_ascend_call_close, self._handle)
        needs = ffi.new("hj_ascend_needs *")
        check(library, library.lib.hajax_ascend_call_needs(self._handle, needs))
        values = {field.name: getattr(needs, field.name) for field in dataclasses.fields(Needs)}
        self.needs = Needs(**{**values, "in_place": bool(needs.in_place)})

    def launch(
        self, *, query: int, key: int, value: int, log_decay: int, beta: int, erase: int = 0, state_in: int, output: int,
        state_out: int, workspace: int, stream: int,
    ) -> None:  # fmt: skip
        """Queues the call's kernels on a stream; the arrays are device addresses, laid out as hajax/abi/tensors.def says."""
        arrays = self.library.ffi.new("hj_ascend_arrays *")
        addresses = {
            "query": query, "key": key, "value": value, "log_decay": log_decay, "beta": beta, "erase": erase,
            "state_in": state_in, "output": output, "state_out": state_out, "workspace": workspace,
        }  # fmt: skip
        for name, address in addresses.items():
            setattr(arrays, name, self.library.ffi.cast("void *", address))
        check(self.library, self.library.lib.hajax_ascend_launch(self._handle, arrays, stream))

    def close(self) -> None:
        """Gives the memory of its tables back."""
        self._close()


def _close_with(owner: object, close: Any, handle: Any) -> Any:
    """Closes a handle when its owner goes; not at the end of the process, when the device may be closed already."""
    finalizer = weakref.finalize(owner, close, handle)
    finalizer.atexit = False
    return finalizer
