"""The emulated Ascend chip (libhajax_sim) with numpy arrays: compile a kernel, run it, read what it computed, did and would take.

Counts are exact; cycles, time and energy are modelled, never measured. HAJAX_SIM_LIBRARY names another library file.
"""

import dataclasses
import functools
import math
import weakref
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from hajax import abi
from hajax.backends._compiler import (
    LINE_FLAGS,
    VARIABLE,
    CompileError,
    compile_flags,
    compile_kernel,
    compiler_version,
    find_compiler,
    include_folders,
    kernels_in,
    library_path,
    link_flags,
    parameters,
)
from hajax.backends._runs import SimFault, SimOptions, SimRun, check_status, last_error, options_struct, run_of, timeline
from hajax.backends.library import Library, LibraryError, check_present
from hajax.targets import NpuTarget

__all__ = [
    "LINE_FLAGS", "CompileError", "Device", "Output", "SimFault", "SimOptions", "SimRun", "compile_flags", "compile_kernel",
    "diagnose", "include_folders", "kernels_in", "link_flags", "open_sim_library", "run", "target_names", "timeline",
]  # fmt: skip

_WORD = 1 << 64
# Whole-number types that a kernel's parameter may have, with their ranges.
_INTEGERS = {
    f"{sign}int{bits}_t": (-(1 << bits - 1), (1 << bits - 1) - 1) if not sign else (0, (1 << bits) - 1)
    for sign in ("", "u")
    for bits in (8, 16, 32, 64)
}


@dataclasses.dataclass(frozen=True, slots=True)
class Output:
    """An argument that the kernel writes: device memory of this shape and dtype that nothing has written yet."""

    shape: tuple[int, ...]
    dtype: Any

    def __post_init__(self) -> None:
        if any(n < 1 for n in self.shape):
            raise ValueError(f"Output.shape: expected positive sizes, got {self.shape!r}")

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


@dataclasses.dataclass(frozen=True, slots=True)
class Buffer:
    """An array in a device's memory."""

    address: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize


def open_sim_library() -> Library:
    """The emulator's library for this process. Raises LibraryError with the reason when it cannot be used."""
    return _open(library_path())


@functools.cache
def _open(path: Path) -> Library:
    check_present(path, VARIABLE)
    return Library(path, "hajax_sim_abi_digest")


def target_names() -> tuple[str, ...]:
    """The chips that the library has built in."""
    library = open_sim_library()
    names: list[str] = []
    while (name := library.lib.hajax_sim_target_name(len(names))) != library.ffi.NULL:
        names.append(library.ffi.string(name).decode())
    return tuple(names)


class Device:
    """An emulated chip and its memory, for several launches in a row; a context manager. Use it from one thread at a time."""

    def __init__(self, target: str | NpuTarget = "ascend310p1") -> None:
        self.target = target if isinstance(target, str) else target.name
        self._library = open_sim_library()
        self._table = target_table(self._library, target)
        handle = self._library.lib.hajax_sim_device_open(self._table)
        if handle == self._library.ffi.NULL:
            raise LibraryError(f"target {self.target}: {last_error(self._library)}")
        self._handle = handle
        self._close = weakref.finalize(self, self._library.lib.hajax_sim_device_close, handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Frees the device's memory; the device is of no use afterwards."""
        self._close()

    def put(self, array: np.ndarray) -> Buffer:
        """Copies an array into device memory."""
        contiguous = np.ascontiguousarray(array)
        buffer = self.empty(Output(array.shape, array.dtype))
        data = self._library.ffi.cast("void *", contiguous.ctypes.data)
        self._check(self._library.lib.hajax_sim_write(self._live(), buffer.address, data, buffer.nbytes))
        return buffer

    def empty(self, output: Output) -> Buffer:
        """Device memory that nothing has written."""
        dtype = np.dtype(output.dtype)
        if dtype.hasobject or output.nbytes < 1:
            raise ValueError(f"expected an array of numbers with at least one element, got {dtype} of shape {output.shape}")
        address = self._library.lib.hajax_sim_allocate(self._live(), output.nbytes)
        if address == 0:
            raise MemoryError(last_error(self._library))
        return Buffer(int(address), output.shape, dtype)

    def get(self, buffer: Buffer) -> np.ndarray:
        """Copies an array out of device memory. Bytes that nothing ever wrote are 0xff."""
        array = np.empty(buffer.shape, buffer.dtype)
        data = self._library.ffi.cast("void *", array.ctypes.data)
        self._check(self._library.lib.hajax_sim_read(self._live(), buffer.address, data, buffer.nbytes))
        return array

    def unwritten(self, buffer: Buffer) -> int:
        """How many of its bytes nothing ever wrote."""
        return int(self._library.lib.hajax_sim_unwritten(self._live(), buffer.address, buffer.nbytes))

    def free(self, buffer: Buffer) -> None:
        """Gives the memory back."""
        self._check(self._library.lib.hajax_sim_free(self._live(), buffer.address))

    def launch(
        self, library: Path, kernel: str, arguments: Sequence[Buffer | int], *, blocks: int = 1, options: SimOptions | None = None
    ) -> SimRun:
        """Runs a kernel on arrays of this device; the run's `arrays` stay empty. Raises SimFault, ValueError, LibraryError."""
        words = [_word(n, argument) for n, argument in enumerate(arguments)]
        _check_parameters(Path(library), kernel, words)
        loaded = LoadedKernel(self._library, Path(library), kernel)
        handle = self._launch(loaded, kernel, words, blocks, options or SimOptions())
        return run_of(self._library, handle, kernel, self.target, loaded)

    def _launch(self, loaded: "LoadedKernel", kernel: str, words: list[int], blocks: int, options: SimOptions) -> Any:
        ffi, lib = self._library.ffi, self._library.lib
        if not 1 <= blocks <= self._table.ai_cores:
            raise ValueError(f"blocks: expected 1 to {self._table.ai_cores}, the AI cores of {self.target}, got {blocks!r}")
        result = ffi.new("hj_sim_result **")
        self._check(
            lib.hajax_sim_launch(
                self._live(), loaded.function, kernel.encode(), blocks, ffi.new("uint64_t[]", words), len(words),
                options_struct(self._library, options), result,
            )
        )  # fmt: skip
        return result[0]

    def _live(self) -> Any:
        if not self._close.alive:
            raise ValueError("this Device is closed")
        return self._handle

    def _check(self, status: int) -> None:
        check_status(self._library, status)


class LoadedKernel:
    """A kernel's library, open for as long as a run may ask for source lines in it."""

    def __init__(self, library: Library, path: Path, kernel: str) -> None:
        lib = library.lib
        if not path.is_file():
            raise FileNotFoundError(f"kernel library: no file {path}")
        self.path, self.name = path.absolute(), kernel
        handle = lib.hajax_sim_library_open(str(self.path).encode())
        if handle == library.ffi.NULL:
            raise LibraryError(f"kernel library: {last_error(library)}")
        self._close = weakref.finalize(self, lib.hajax_sim_library_close, handle)
        self.function = int(lib.hajax_sim_function(handle, kernel.encode()))
        if self.function == 0:
            known = ", ".join(parameters(path) or ()) or f'an extern "C" __global__ __aicore__ function in {path}'
            raise ValueError(f"kernel: expected {known}, got {kernel!r}")


def run(
    library: Path,
    kernel: str,
    arguments: Sequence[np.ndarray | Output | int],
    *,
    target: str | NpuTarget = "ascend310p1",
    blocks: int = 1,
    options: SimOptions | None = None,
) -> SimRun:
    """Runs a kernel once on an empty chip: arrays are copied to device memory and back, integers are passed as they are.

    Raises SimFault when a check fails, ValueError or TypeError for arguments that cannot be passed, LibraryError.
    """
    with Device(target) as device:
        buffers = [_place(device, n, argument) for n, argument in enumerate(arguments)]
        done = device.launch(Path(library), kernel, buffers, blocks=blocks, options=options)
        placed = [buffer for buffer in buffers if isinstance(buffer, Buffer)]
        arrays, unwritten = tuple(map(device.get, placed)), tuple(map(device.unwritten, placed))
    return dataclasses.replace(done, arrays=arrays, unwritten=unwritten)


def diagnose() -> dict[str, Any]:
    """For `hajax doctor`: the emulator's library and the compiler that kernels are built with, or why they cannot be used."""
    facts: dict[str, Any] = {"path": str(library_path())}
    try:
        open_sim_library()
        facts |= {"loaded": True, "targets": list(target_names())}
    except LibraryError as error:
        facts |= {"loaded": False, "why": str(error)}
    try:
        command = find_compiler()
        facts["compiler"] = f"{' '.join(command)} ({compiler_version(command)})"
    except CompileError as error:
        facts["compiler"] = str(error)
    return facts


def target_table(library: Library, target: str | NpuTarget) -> Any:
    """The hj_target of a name or of a value."""
    if isinstance(target, str):
        table = library.lib.hajax_sim_target(target.encode())
        if table == library.ffi.NULL:
            raise ValueError(f"target: expected one of {', '.join(target_names())}, got {target!r}")
        return table
    if not isinstance(target, NpuTarget):
        raise TypeError(f"target: expected one of {', '.join(target_names())} or an NpuTarget, got {type(target).__name__}")
    facts = {
        field.name: getattr(target, field.name) for field in dataclasses.fields(target) if field.name not in ("name", "costs")
    }
    table = library.ffi.new("hj_target *", facts)
    for row in abi.rows("instructions"):
        cost = table.cost[int(row[0])]
        cost.start, cost.per_unit = target.costs[str(row[1])]
    return table


def _place(device: Device, number: int, argument: np.ndarray | Output | int) -> Buffer | int:
    try:
        if isinstance(argument, np.ndarray):
            return device.put(argument)
        return device.empty(argument) if isinstance(argument, Output) else argument
    except (ValueError, MemoryError) as error:
        raise type(error)(f"arguments[{number}]: {error}") from None


def _word(number: int, argument: Buffer | int) -> int:
    if isinstance(argument, Buffer):
        return argument.address
    if not isinstance(argument, int | np.integer):
        raise TypeError(f"arguments[{number}]: expected an array, an Output or an integer, got {type(argument).__name__}")
    if not -_WORD // 2 <= argument < _WORD:
        raise ValueError(f"arguments[{number}]: expected an integer of 64 bits, got {argument}")
    return int(argument) % _WORD


def _check_parameters(library: Path, kernel: str, words: Sequence[int]) -> None:
    """What the source declares, when the library was built here: without it a wrong call would read garbage."""
    most = abi.constant("HJ_ARGUMENTS")
    if len(words) > most:
        raise ValueError(f"arguments: expected at most {most}, got {len(words)}")
    declared = (parameters(library) or {}).get(kernel)
    if declared is None:
        return
    if len(declared) != len(words):
        raise ValueError(f"arguments: {kernel} takes {len(declared)} ({', '.join(declared)}), got {len(words)}")
    for number, parameter in enumerate(declared):
        if "*" not in parameter and {"float", "double", "half"} & set(parameter.split()):
            raise ValueError(f"arguments[{number}]: {kernel} declares {parameter}; kernels take device addresses and integers")
        kind = next((word for word in parameter.split() if word in _INTEGERS), None)
        if kind is None or "*" in parameter:
            continue
        low, high = _INTEGERS[kind]
        value = words[number] - _WORD if words[number] >= _WORD >> 1 and low < 0 else words[number]
        if not low <= value <= high:
            shown = value if value <= high or value < _WORD >> 1 else value - _WORD
            raise ValueError(f"arguments[{number}]: {kernel} declares {parameter}: expected {low} to {high}, got {shown}")
