"""What a launch on the emulated chip did: options, results and faults as values, read from libhajax_sim."""

import dataclasses
import json
import weakref
from collections.abc import Mapping
from typing import Any

import numpy as np

from hajax import abi
from hajax.backends.library import Library, LibraryError, usable_cpus


class SimFault(RuntimeError):
    """A check of the emulator failed: `check` is its name in checks.def, `text` the whole message."""

    def __init__(self, check: str, text: str) -> None:
        super().__init__(text)
        self.check = check
        self.text = text


@dataclasses.dataclass(frozen=True, slots=True)
class SimOptions:
    """How a kernel is run. Neither results nor counts depend on `threads` (None: one for each CPU).

    counts_only: no arithmetic, no data moved. auto_barriers: barriers between dependent vector instructions, as the device
    compiler can put them. warm_l2: L2 keeps what earlier launches on the same `Device` left. timeline: keep what
    `timeline(run)` needs, some 64 bytes an instruction.
    """

    threads: int | None = None
    check_races: bool = True
    check_written: bool = True
    counts_only: bool = False
    fatal_saturation: bool = False
    auto_barriers: bool = False
    warm_l2: bool = False
    timeline: bool = True

    def __post_init__(self) -> None:
        if self.threads is not None and not 1 <= self.threads <= 1 << 16:
            raise ValueError(f"SimOptions.threads: expected None or a positive integer, got {self.threads!r}")


@dataclasses.dataclass(frozen=True, slots=True)
class SimRun:
    """What a run did.

    arrays: the array arguments after it, in order; unwritten: for each, how many bytes nothing ever wrote (they read 0xff).
    counts: exact, over all cores: names of counts.def, bytes by path, `<path>_transfers`, instructions by name,
    `<pipe>_instructions`. core_counts: the same for each core. timing: modelled, by timing.def.
    busy_cycles: modelled, for each core by pipe.
    """

    kernel: str
    target: str
    blocks: int
    arrays: tuple[np.ndarray, ...]
    unwritten: tuple[int, ...]
    counts: Mapping[str, int]
    core_counts: tuple[Mapping[str, int], ...]
    timing: Mapping[str, float]
    busy_cycles: tuple[Mapping[str, float], ...]
    _result: Any = dataclasses.field(repr=False, compare=False)


def options_struct(library: Library, options: SimOptions) -> Any:
    """The hj_sim_options of a value."""
    if not isinstance(options, SimOptions):
        raise TypeError(f"options: expected SimOptions or None, got {type(options).__name__}")
    settings = dataclasses.asdict(options)
    settings["threads"] = options.threads or usable_cpus()
    return library.ffi.new("hj_sim_options *", settings)


def run_of(library: Library, handle: Any, kernel: str, target: str, loaded: Any = None) -> SimRun:
    """What a launch did, from its hj_sim_result, which belongs to the run from now on. Raises SimFault when a check failed.

    `loaded` is kept for as long as the run: the library of the kernel, in which source lines are looked up.
    """
    ffi, lib = library.ffi, library.lib
    result = _Result(library, handle, loaded)
    if (check := lib.hajax_sim_result_check(handle)) != ffi.NULL:
        raise SimFault(ffi.string(check).decode(), ffi.string(lib.hajax_sim_result_fault(handle)).decode(errors="replace"))
    blocks = int(lib.hajax_sim_result_blocks(handle))
    structs = [ffi.new("hj_sim_counts *") for _ in range(blocks + 1)]
    for core, struct in enumerate(structs, -1):
        check_status(library, lib.hajax_sim_result_counts(handle, core, struct))
    timing = ffi.new("double[]", abi.constant("HJ_TIMINGS"))
    check_status(library, lib.hajax_sim_result_timing(handle, timing))
    total, *cores = map(_counts, structs)
    return SimRun(
        kernel=kernel, target=target, blocks=blocks, arrays=(), unwritten=(), counts=total, core_counts=tuple(cores),
        timing={str(row[1]): float(timing[int(row[0])]) for row in abi.rows("timing")},
        busy_cycles=tuple({str(p[1]): float(s.busy_cycles[int(p[0])]) for p in abi.rows("pipes")} for s in structs[1:]),
        _result=result,
    )  # fmt: skip


def timeline(run: SimRun) -> str:
    """A run as Chrome trace JSON, for Perfetto: one track a pipe a core, flags as arrows, modelled times."""
    result = run._result
    trace = result.library.lib.hajax_sim_result_trace(result.handle)
    if trace == result.library.ffi.NULL:
        raise ValueError(f"timeline: {last_error(result.library)}; SimOptions(timeline=True) keeps it")
    text = result.library.ffi.string(trace).decode(errors="replace")
    json.loads(text)  # what leaves here is JSON
    return str(text)


def last_error(library: Library) -> str:
    """Why the calling thread's last call of libhajax_sim failed."""
    return str(library.ffi.string(library.lib.hajax_sim_last_error()).decode(errors="replace"))


def check_status(library: Library, status: int) -> None:
    """Raises ValueError for a bad call, LibraryError for anything else but `ok`."""
    if status != 0:
        name = abi.table("statuses")(status).name
        kind = ValueError if name == "bad_call" else LibraryError
        raise kind(f"{name}: {last_error(library)}")


class _Result:
    """A launch's record in the library."""

    def __init__(self, library: Library, handle: Any, loaded: Any) -> None:
        self.library, self.handle, self.loaded = library, handle, loaded
        weakref.finalize(self, library.lib.hajax_sim_result_close, handle)


def _counts(struct: Any) -> dict[str, int]:
    found = {str(row[1]): int(struct.counts[int(row[0])]) for row in abi.rows("counts")}
    for row in abi.rows("paths"):
        found[str(row[1])] = int(struct.path_bytes[int(row[0])])
        found[f"{row[1]}_transfers"] = int(struct.path_transfers[int(row[0])])
    found |= {str(row[1]): int(struct.instructions[int(row[0])]) for row in abi.rows("instructions")}
    return found | {f"{row[1]}_instructions": int(struct.pipe_instructions[int(row[0])]) for row in abi.rows("pipes")}
