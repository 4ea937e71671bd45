"""libhajax_cpu on memory that a caller owns: plans found once a signature, calls with addresses, the library's own threads."""

import dataclasses
import functools
import struct
import threading
from collections.abc import Sequence
from typing import Any

from hajax import abi, planner
from hajax.backends.library import ALIGNMENT, Library, LibraryError, cpu_target, open_library
from hajax.mechanisms import Mechanism
from hajax.plans import Fused, Plan, Shape, to_bytes
from hajax.targets import CpuTarget

_MOST_THREADS = 512  # of the library's own


@dataclasses.dataclass(frozen=True, slots=True)
class Launch:
    """A plan ready to be run: its bytes, the scratch of all of its workers, the threads that share its work."""

    plan: bytes
    scratch_bytes: int
    parallel: Any
    library: Library
    layout: struct.Struct


@functools.lru_cache(maxsize=64)
def _target(threads: int) -> CpuTarget:
    return dataclasses.replace(cpu_target(), threads=min(threads, _MOST_THREADS))


def launch_of(mechanism: Mechanism, shape: Shape, threads: int) -> Launch:
    """The launch for a problem. One plan serves all lengths up to the next power of two, as callers come with any length."""
    return _launch_of(mechanism, _rounded(shape), threads)


def plan_of(mechanism: Mechanism, shape: Shape, threads: int) -> Plan:
    """The plan of `launch_of`."""
    return planner.plan(mechanism, _rounded(shape), _target(threads))


def _rounded(shape: Shape) -> Shape:
    tokens = None if shape.tokens is None else 1 << max(shape.tokens - 1, 0).bit_length()
    return dataclasses.replace(shape, tokens=tokens)


@functools.lru_cache(maxsize=4096)
def _launch_of(mechanism: Mechanism, shape: Shape, threads: int) -> Launch:
    return launch_of_plan(planner.plan(mechanism, shape, _target(threads)))


def launch_of_plan(plan: Plan) -> Launch:
    """A CPU plan ready to be run on the library's own threads."""
    assert isinstance(plan.launch, Fused), "a CPU plan is one fused launch"
    workers, library = plan.launch.workers, open_library()
    parallel = library.lib.hajax_cpu_parallel(workers)
    return Launch(to_bytes(plan), workers * plan.launch.scratch_bytes, parallel, library, _call_layout(library))


def _call_layout(library: Library) -> struct.Struct:
    """An hj_delta_call as one struct: writing it whole takes a tenth of what setting its fields does."""
    kinds = {"int64_t": "q", "float": "f"}
    fields = library.ffi.typeof("hj_delta_call").fields
    layout = struct.Struct("@" + "".join("P" if f.type.kind == "pointer" else kinds[f.type.cname] for _, f in fields))
    assert layout.size == library.ffi.sizeof("hj_delta_call"), "the struct has padding"
    return layout


class _Room:
    """What a thread's calls use again: the call itself and scratch, which as fresh memory would cost page faults."""

    def __init__(self, library: Library, scratch_bytes: int) -> None:
        ffi = library.ffi
        self.library = library
        self.call = ffi.new("hj_delta_call *")
        self.view = ffi.buffer(self.call)
        self.scratch_bytes = scratch_bytes
        self.scratch = ffi.new_allocator(should_clear_after_alloc=False)("char[]", scratch_bytes + ALIGNMENT)
        self.address = -(-int(ffi.cast("uintptr_t", self.scratch)) // ALIGNMENT) * ALIGNMENT


class _Rooms(threading.local):
    room: _Room | None = None


_rooms = _Rooms()


def run(launch: Launch, sizes: Sequence[int | None], addresses: Sequence[int], scale: float, l2norm_eps: float) -> None:
    """Runs a launch. sizes: B, T, N; addresses: of query, key, value, log_decay, beta, state, bounds, output and final state, all
    row-major; the final state may be the state. Raises LibraryError when the library refuses."""
    library, room = launch.library, _rooms.room
    if room is None or room.scratch_bytes < launch.scratch_bytes or room.library is not library:
        room = _rooms.room = _Room(library, launch.scratch_bytes)
    launch.layout.pack_into(room.view, 0, *sizes, *addresses, room.address, room.scratch_bytes, scale, l2norm_eps)
    status = library.lib.hajax_execute(launch.plan, len(launch.plan), room.call, launch.parallel, library.ffi.NULL)
    if status != 0:
        name = abi.table("statuses")(status).name
        raise LibraryError(f"{name}: {library.ffi.string(library.lib.hajax_last_error()).decode()}")
