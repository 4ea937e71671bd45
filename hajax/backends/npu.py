"""Plans for an Ascend chip, on the emulated one of libhajax_sim: with numpy arrays, and what calls through XLA did."""

import contextlib
import dataclasses
import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from hajax import abi
from hajax.backends._arrays import check_arrays, check_number
from hajax.backends._compiler import compile_text
from hajax.backends._runs import SimFault, SimOptions, SimRun, check_status, options_struct, run_of, timeline
from hajax.backends.library import Library, LibraryError
from hajax.backends.sim import LoadedKernel, open_sim_library, target_table
from hajax.plans import source
from hajax.plans.wire_programs import check_bytes
from hajax.targets import NpuTarget, npu

__all__ = [
    "KERNEL",
    "Call",
    "LibraryError",
    "SimFault",
    "SimOptions",
    "SimRun",
    "execute",
    "recording",
    "specialise",
    "take_calls",
    "timeline",
]

KERNEL = "hajax_delta_rule"
_SPECIAL_FLAGS = ("-O1",)  # half the time of -O2, and what a step does is in the library


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """A call that XLA made: the plan's bytes and what each of its launches did."""

    plan: bytes
    runs: tuple[SimRun, ...]

    @property
    def digest(self) -> str:
        """SHA-256 of the plan's bytes."""
        return hashlib.sha256(self.plan).hexdigest()


@contextlib.contextmanager
def recording(*, timelines: bool = False) -> Iterator[None]:
    """While it lasts, what calls through XLA do is kept, in this process and over all threads; `take_calls` gives it."""
    library = open_sim_library()
    library.lib.hajax_sim_record(2 if timelines else 1)
    try:
        yield
    finally:
        library.lib.hajax_sim_record(0)


def take_calls() -> tuple[Call, ...]:
    """The calls that were kept since the last time, the oldest first; within `recording`."""
    library = open_sim_library()
    ffi, lib = library.ffi, library.lib
    calls = []
    while (record := lib.hajax_sim_record_take()) != ffi.NULL:
        size = ffi.new("int64_t *")
        plan = bytes(ffi.buffer(lib.hajax_sim_record_plan(record, size), size[0]))
        handles = [lib.hajax_sim_record_result(record, i) for i in range(lib.hajax_sim_record_launches(record))]
        lib.hajax_sim_record_close(record)
        calls.append(Call(plan, _runs(library, handles, _target_name(library, plan))))
    return tuple(calls)


def execute(
    plan: bytes,
    arrays: Mapping[str, np.ndarray | None],
    *,
    scale: float,
    target: str | NpuTarget | None = None,
    options: SimOptions | None = None,
    specialised: bool = False,
) -> tuple[np.ndarray, np.ndarray, tuple[SimRun, ...]]:
    """Runs a plan and returns output, final states and what each of its launches did.

    `arrays` holds by name, for B rows of T tokens with N sequences each and the plan's heads and dims, all of them required:
    query and key float16[B, T, Hk, Dk]; value float16[B, T, Hv, Dv]; log_decay float32[B, T, Hv], per channel [B, T, Hv, Dk],
    without a decay None or left out; beta float32[B, T, Hv], [B, T, Hv, 2] of erase and write strengths that differ;
    state_in float32[B, N, Hv, Dk, Dv]; bounds int32[B, N + 1], where sequence n of row b is tokens bounds[b, n] up to
    bounds[b, n + 1]. Query and key are taken as they are: no l2norm. Output is [B, T, Hv, Dv], the states as state_in.

    `scale` multiplies the query. `options` None: all checks, and a result clamped to fp16's range is one. `target` None: the chip
    that the plan names. `specialised`: with a kernel made of this plan's
    programs, compiled here the first time, instead of the one that walks any plan. Launches of one plan find L2 as the one
    before left it. Raises SimFault when a check fails, ValueError for arrays that do not fit the plan or a refused call,
    TypeError for an argument of another type, LibraryError for a refused plan, CompileError.
    """
    check_bytes(plan)
    scale = check_number("scale", scale)
    library = open_sim_library()
    ffi, lib = library.ffi, library.lib
    table = ffi.NULL if target is None else target_table(library, target)
    struct = options_struct(library, SimOptions(fatal_saturation=True) if options is None else options)
    given, launches, output_dtype = _checked(library, plan, arrays)
    value, state_in = given["value"], given["state_in"]
    assert value is not None and state_in is not None  # checked above
    output = np.empty(value.shape, output_dtype)
    state_out = np.empty_like(state_in)
    call = _call(library, given, output, state_out)
    call.scale, call.l2norm_eps = scale, -1.0  # the kernel takes rows as they are
    results, count = ffi.new("hj_sim_result *[]", launches), ffi.new("int32_t *", launches)
    rest = (table, plan, len(plan), call, struct, ffi.NULL, results, count)
    kernel, loaded = KERNEL, None
    if specialised:
        loaded = specialise(plan)
        kernel = loaded.name
        check_status(library, lib.hajax_sim_execute_special(str(loaded.path).encode(), *rest))
    else:
        check_status(library, lib.hajax_sim_execute(*rest))
    name = target if isinstance(target, str) else target.name if target is not None else _target_name(library, plan)
    runs = _runs(library, [results[i] for i in range(count[0])], name, kernel, loaded)
    return output, state_out, runs


def specialise(plan: bytes) -> LoadedKernel:
    """The kernel made of a plan's programs, compiled against the emulator's headers, or found compiled. Raises CompileError."""
    check_bytes(plan)
    name, text = source.kernel_name(plan), source.source_of(plan)
    library = open_sim_library()
    chip = npu.kernel_names()[0]  # its headers are those of all chips that the kernel is written for, what-ifs included
    return LoadedKernel(library, compile_text(name, text, chip, flags=_SPECIAL_FLAGS), name)


def _runs(
    library: Library, handles: list[Any], target: str, kernel: str = KERNEL, loaded: LoadedKernel | None = None
) -> tuple[SimRun, ...]:
    """The runs of these results, all of which are given away, also when one is a fault."""
    runs, fault = [], None
    for handle in handles:
        try:
            runs.append(run_of(library, handle, kernel, target, loaded))
        except SimFault as error:
            fault = error
    if fault is not None:
        raise fault
    return tuple(runs)


def _header(library: Library, plan: bytes) -> Any:
    """The hj_npu_plan at the start of the bytes, or None when they are too few."""
    header = library.ffi.new("hj_npu_plan *")
    size = library.ffi.sizeof("hj_npu_plan")
    if len(plan) < size:
        return None
    library.ffi.memmove(header, plan, size)
    return header


def _target_name(library: Library, plan: bytes) -> str:
    header = _header(library, plan)  # must outlive what is read from it
    return str(library.ffi.string(header.target).decode(errors="replace"))


def _checked(
    library: Library, plan: bytes, arrays: Mapping[str, np.ndarray | None]
) -> tuple[dict[str, np.ndarray | None], int, Any]:
    """Arrays that fit the plan's header, its launches and its output dtype."""
    header, dtypes = _header(library, plan), abi.table("dtypes")
    if header is None or header.output_dtype not in tuple(dtypes):
        raise LibraryError(f"bad_plan: plan: expected the bytes of an hj_npu_plan, got {len(plan)} others")
    launches = max(0, min(header.launches, len(plan)))
    return check_arrays(header, arrays, "float16"), launches, np.dtype(dtypes(header.output_dtype).name)


def _call(library: Library, arrays: Mapping[str, np.ndarray | None], output: np.ndarray, state_out: np.ndarray) -> Any:
    """An hj_delta_call on arrays that outlive it."""
    ffi = library.ffi
    call = ffi.new("hj_delta_call *")
    assert arrays["bounds"] is not None
    call.batch, call.tokens, call.sequences = *output.shape[:2], arrays["bounds"].shape[1] - 1
    fields = {**arrays, "output": output, "state_out": state_out}
    for name, array in fields.items():
        if array is not None:
            setattr(call, name, ffi.cast(ffi.typeof(getattr(call, name)), array.ctypes.data))
    return call
