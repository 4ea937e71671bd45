"""A device that this process opens by itself, with numpy arrays: for the self-test and for tests, without a framework."""

import contextlib
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Self

import numpy as np

from hajax import abi
from hajax.backends import ascend
from hajax.backends._arrays import check_arrays
from hajax.backends._gates import LEAST_LOG_DECAY, by_head, gate_tokens
from hajax.backends.library import Library, LibraryError
from hajax.targets import NpuTarget


class Device:
    """A device, current in this thread while it is open; a context manager. `emulated`: the chip of libhajax_sim."""

    def __init__(self, number: int = 0, *, emulated: bool = False) -> None:
        self.library: Library = ascend.open_emulated_library() if emulated else ascend.open_ascend_library()
        self.number = number
        self._open()
        try:
            self.soc_name = ascend.soc_name(self.library)
        except ascend.AscendError:
            self.close()
            raise

    def _open(self) -> None:
        self._check("device_open", self.number)
        stream = self.library.ffi.new("uint64_t *")
        try:
            self._check("stream_open", stream)
        except (ascend.AscendError, MemoryError):
            self.library.lib.hajax_ascend_device_close(self.number)
            raise
        self.stream = int(stream[0])  # one for all, as times between marks of a stream are from its last work on

    @property
    def target(self) -> NpuTarget:
        """The chip to plan for. Raises NotImplementedError for one that the kernel is not written for."""
        return ascend.target_of(self.soc_name)

    def memory(self) -> tuple[int, int]:
        """Bytes that are free, and all there are."""
        free, total = self.library.ffi.new("int64_t *"), self.library.ffi.new("int64_t *")
        self._check("memory", free, total)
        return int(free[0]), int(total[0])

    @property
    def cores(self) -> int:
        """Its AI cores."""
        count = self.library.ffi.new("int32_t *")
        self._check("cores", count)
        return int(count[0])

    def place(self, plan: bytes) -> ascend.PlacedPlan:
        """A plan, checked and on this device."""
        return ascend.PlacedPlan(self.library, plan, self.target)

    @contextlib.contextmanager
    def arrays(self) -> Iterator["Arrays"]:
        """Device memory that is given back at the end, when the stream has been waited for."""
        arrays = Arrays(self.library, self.stream)
        try:
            yield arrays
            arrays.finish()
        finally:
            arrays.free()

    def run(
        self, call: ascend.PreparedCall, arrays: Mapping[str, np.ndarray | None], *, in_place: bool = False
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Output, final states and the device's own microseconds of a prepared call.

        `arrays` as `hajax.backends.npu.execute` takes them, with the bounds that the call was prepared with. `in_place`: the
        states are written where they were read.
        """
        header = self._header(call.plan.bytes)
        given = check_arrays(header, arrays, "float16")
        value, states, bounds = given["value"], given["state_in"], given["bounds"]
        assert value is not None and states is not None and bounds is not None  # checked above
        if not np.array_equal(bounds, call.bounds):
            raise ValueError("bounds: expected those that the call was prepared with, got others")
        output = np.empty(value.shape, abi.table("dtypes")(header.output_dtype).name)
        state_out = np.empty_like(states)
        with self.arrays() as held, self._timer() as timer:
            addresses = {name: held.put(array) for name, array in kernel_arrays(call, given).items()}
            addresses["output"] = held.allocate(output.nbytes)
            addresses["state_out"] = addresses["state_in"] if in_place else held.allocate(states.nbytes)
            addresses["workspace"] = held.allocate(call.needs.workspace_bytes)
            timer.start(self.stream)
            call.launch(**addresses, stream=self.stream)
            timer.stop(self.stream)
            held.finish()
            held.get(addresses["output"], output)
            held.get(addresses["state_out"], state_out)
            return output, state_out, timer.microseconds()

    def close(self) -> None:
        """Gives the device up; its memory goes."""
        self.library.lib.hajax_ascend_stream_close(self.stream)
        self._check("device_close", self.number)

    def reopen(self) -> None:
        """After a loss: gives up all that was on it, plans and calls too, and opens it anew."""
        ascend.reset(self.library)
        self._open()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self.close()
        except ascend.AscendError:
            if kind is None:  # else the first error says more
                raise

    def _check(self, function: str, *arguments: Any) -> None:
        ascend.check(self.library, getattr(self.library.lib, f"hajax_ascend_{function}")(*arguments))

    def _header(self, plan: bytes) -> Any:
        header = self.library.ffi.new("hj_npu_plan *")
        if len(plan) < self.library.ffi.sizeof("hj_npu_plan"):
            raise LibraryError(f"bad_plan: plan: expected the bytes of an hj_npu_plan, got {len(plan)} others")
        self.library.ffi.memmove(header, plan, self.library.ffi.sizeof("hj_npu_plan"))
        return header

    @contextlib.contextmanager
    def _timer(self) -> Iterator["_Timer"]:
        timer = _Timer(self.library)
        try:
            yield timer
        finally:
            timer.close()


class Arrays:
    """Device memory with one owner, for what runs on a stream."""

    def __init__(self, library: Library, stream: int) -> None:
        self._library, self._stream = library, stream
        self._addresses: list[int] = []

    def allocate(self, size: int) -> int:
        """Memory that nothing has written. Raises MemoryError."""
        address = self._library.ffi.new("uint64_t *")
        ascend.check(self._library, self._library.lib.hajax_ascend_allocate(size, address))
        self._addresses.append(int(address[0]))
        return self._addresses[-1]

    def put(self, array: np.ndarray | None) -> int:
        """A copy of an array; 0 for none."""
        if array is None:
            return 0
        address = self.allocate(array.nbytes)
        pointer = self._library.ffi.cast("void *", array.ctypes.data)
        ascend.check(self._library, self._library.lib.hajax_ascend_write(address, pointer, array.nbytes))
        return address

    def get(self, address: int, into: np.ndarray) -> None:
        """Fills an array from device memory."""
        pointer = self._library.ffi.cast("void *", into.ctypes.data)
        ascend.check(self._library, self._library.lib.hajax_ascend_read(address, pointer, into.nbytes))

    def finish(self) -> None:
        """Waits for the stream. Raises what went wrong on it."""
        ascend.synchronize(self._library, self._stream)

    def free(self) -> None:
        """Gives everything back, after the device has done with it; errors are `finish`'s to tell."""
        self._library.lib.hajax_ascend_synchronize(self._stream)
        for address in self._addresses:
            self._library.lib.hajax_ascend_free(address)
        self._addresses = []


class _Timer:
    """The device's time between two marks of a stream."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._events: list[int] = []
        for _ in range(2):
            event = library.ffi.new("uint64_t *")
            ascend.check(library, library.lib.hajax_ascend_event_open(event))
            self._events.append(int(event[0]))

    def start(self, stream: int) -> None:
        ascend.check(self._library, self._library.lib.hajax_ascend_event_record(self._events[0], stream))

    def stop(self, stream: int) -> None:
        ascend.check(self._library, self._library.lib.hajax_ascend_event_record(self._events[1], stream))

    def microseconds(self) -> float:
        time = self._library.ffi.new("double *")
        ascend.check(self._library, self._library.lib.hajax_ascend_event_elapsed(*self._events, time))
        return float(time[0])

    def close(self) -> None:
        for event in self._events:
            self._library.lib.hajax_ascend_event_close(event)


def kernel_arrays(call: ascend.PreparedCall, arrays: Mapping[str, np.ndarray | None]) -> dict[str, np.ndarray | None]:
    """What a launch reads, laid out as the kernel has it (hajax/abi/tensors.def); `log_decay` None: there is no decay."""
    needs, value, log_decay, beta = call.needs, arrays["value"], arrays["log_decay"], arrays["beta"]
    assert value is not None and beta is not None
    batch, tokens, heads = value.shape[:3]
    entries = gate_tokens(call.bounds, tokens, needs.chunk)
    if log_decay is None:
        decays = np.zeros((heads, needs.gates), np.float32)
    else:
        held = np.maximum(log_decay, np.float32(LEAST_LOG_DECAY))
        decays = held if held.ndim == value.ndim else by_head(held, entries)
    strengths = beta.reshape(batch, tokens, heads, -1)
    return {
        "query": arrays["query"],
        "key": arrays["key"],
        "value": value,
        "log_decay": decays,
        "beta": by_head(strengths[..., -1], entries),
        "erase": by_head(strengths[..., 0], entries) if needs.strengths == 2 else None,
        "state_in": arrays["state_in"],
    }
