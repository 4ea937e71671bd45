"""libhajax_cpu through cffi: opening it, the handshake over the shared headers, its errors, a direct call with numpy arrays.

HAJAX_LIBRARY names another library file, HAJAX_CPU_ISA forces an instruction set, HAJAX_CPU_THREADS the number of threads,
HAJAX_CPU_BF16_DOT the use of the CPU's products of bf16.
"""

import functools
import os
from collections.abc import Mapping
from importlib import metadata, resources
from pathlib import Path
from typing import Any

import cffi
import numpy as np

from hajax import abi
from hajax.backends._arrays import check_arrays, check_number
from hajax.plans.verify import MOST_WORKERS
from hajax.plans.wire_programs import check_bytes
from hajax.targets import ON_TILES, CpuTarget

LIBRARY = "libhajax_cpu.so"
ALIGNMENT = 64


class LibraryError(RuntimeError):
    """The native library is absent, does not belong to this Python package, or refused a call."""


class Library:
    """An opened library and the cffi that knows its declarations. `digest` is its function that tells its hajax/abi."""

    def __init__(self, path: Path, digest: str = "hajax_abi_digest") -> None:
        self.path = path
        self.ffi = cffi.FFI()
        self.ffi.cdef(abi.header_text())
        try:
            self.lib: Any = self.ffi.dlopen(str(path))
            built_with = self.ffi.string(getattr(self.lib, digest)()).decode()
        except (OSError, AttributeError) as error:
            reason = str(error).split(".  Additionally")[0]  # cffi goes on about how it searched
            raise LibraryError(f"{path}: cannot be loaded ({reason})") from None
        if built_with != abi.digest():
            raise LibraryError(
                f"{path}: expected to be built with hajax/abi {abi.digest()[:12]} as this package has, got {built_with[:12]}; "
                "rebuild it"
            )

    def address(self, function: str) -> int:
        """Where a C function lies, for XLA's registration."""
        return int(self.ffi.cast("uintptr_t", self.ffi.addressof(self.lib, function)))


def library_path() -> Path:
    """The file that `open_library` opens."""
    return find_library(LIBRARY, "HAJAX_LIBRARY")


def find_library(name: str, variable: str) -> Path:
    """A library file: as the variable says, beside the package, or where an editable install keeps what it built."""
    if named := os.environ.get(variable):
        return Path(named)
    beside = Path(str(resources.files("hajax").joinpath("lib", name)))
    if not beside.is_file():
        try:
            built = Path(str(metadata.distribution("hajax").locate_file(f"hajax/lib/{name}")))
        except metadata.PackageNotFoundError:
            return beside
        if built.is_file():
            return built
    return beside


def open_library() -> Library:
    """The library for this process. Raises LibraryError with the reason when it cannot be used."""
    return _open(library_path())


@functools.cache
def _open(path: Path) -> Library:
    check_present(path, "HAJAX_LIBRARY")
    return Library(path)


def check_present(path: Path, variable: str) -> None:
    """Raises LibraryError when the file is not there."""
    if not path.is_file():
        remedy = f"{variable} names it" if os.environ.get(variable) else "install hajax with a C++ compiler at hand"
        raise LibraryError(f"{path}: no such file ({remedy})")


def available_isas() -> tuple[str, ...]:
    """Names of the instruction sets that the library has and this CPU runs, the preferred one last."""
    bits = int(open_library().lib.hajax_cpu_isas())
    return tuple(isa.name for isa in sorted(abi.table("isas")) if bits >> isa.value & 1)


def cpu_target() -> CpuTarget:
    """The CPU at hand, with the environment's choices applied. Raises ValueError when one of those cannot be met."""
    library = open_library()
    available = available_isas()
    isa = os.environ.get("HAJAX_CPU_ISA") or available[-1]
    if isa not in available:
        raise ValueError(f"HAJAX_CPU_ISA: expected one of {available} as this CPU runs, got {isa!r}")
    text = os.environ.get("HAJAX_CPU_THREADS")
    if text is not None and not (text.isascii() and text.isdigit() and 1 <= int(text) <= MOST_WORKERS):
        raise ValueError(f"HAJAX_CPU_THREADS: expected an integer from 1 to {MOST_WORKERS}, got {text!r}")
    return CpuTarget(
        isa=isa,
        panel=int(library.lib.hajax_cpu_panel(abi.table("isas")[isa])),
        bf16_dot=_bf16_dot(has_bf16_dot(isa), isa),
        threads=int(text) if text else usable_cpus(),
        l1_bytes=_cache_bytes(1, 32 << 10),
        l2_bytes=_cache_bytes(2, 512 << 10),
    )


def has_bf16_dot(isa: str) -> bool:
    """Whether this CPU's kernel of that name has products of bf16."""
    return isa in ON_TILES or (isa == "avx512" and bool(open_library().lib.hajax_cpu_bf16_dot()))


def _bf16_dot(there: bool, isa: str) -> bool:
    """Whether to use the CPU's products of bf16: as HAJAX_CPU_BF16_DOT=0|1 says, else where they are there and pay."""
    named = os.environ.get("HAJAX_CPU_BF16_DOT")
    if named is None:
        return there and (isa in ON_TILES or _bf16_dot_pays())
    if named not in ("0", "1"):
        raise ValueError(f"HAJAX_CPU_BF16_DOT: expected 0 or 1, got {named!r}")
    if named == "1" and not there:
        raise ValueError(f"HAJAX_CPU_BF16_DOT: expected 0, as this CPU has no bf16 dot product with {isa}, got {named!r}")
    return named == "1"


@functools.cache
def _bf16_dot_pays() -> bool:
    """Whether the bf16 dot product is worth taking where it exists.

    It runs at twice the fp32 rate on AMD's cores, but at the fp32 rate on Intel's, where the whole kernel was measured a few
    per cent slower with it.
    """
    try:
        return "AuthenticAMD" in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False


def usable_cpus() -> int:
    """CPUs that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@functools.cache
def _cache_bytes(level: int, otherwise: int) -> int:
    """Data cache of the first core as the kernel reports it; a common size where it does not."""
    for index in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        try:
            if int((index / "level").read_text()) == level and (index / "type").read_text().strip() != "Instruction":
                size = (index / "size").read_text().strip()
                return int(size[:-1]) << {"K": 10, "M": 20}[size[-1]]
        except (OSError, ValueError, KeyError):
            continue
    return otherwise


def execute(
    plan: bytes,
    arrays: Mapping[str, np.ndarray | None],
    *,
    scale: float,
    l2norm_eps: float | None,
    output_dtype: Any,
    scratch_bytes: int,
) -> tuple[np.ndarray, np.ndarray, dict[str, int]]:
    """Runs a plan on numpy arrays on the calling thread, without XLA; for tests and tools.

    `arrays` holds by name, for B rows of T tokens with N sequences each and the plan's heads and dims, all of them required:
    query and key [B, T, Hk, Dk] and value [B, T, Hv, Dv] of the plan's input dtype; log_decay float32[B, T, Hv], per channel
    [B, T, Hv, Dk], without a decay None or left out; beta float32[B, T, Hv], [B, T, Hv, 2] with two strengths;
    state_in float32[B, N, Hv, Dk, Dv]; bounds int32[B, N + 1].
    `output_dtype` is the plan's; `scratch_bytes` is workers times the plan's own. Returns output, final state and the counters
    by name. Raises ValueError for arrays that do not fit the plan, TypeError for an argument of another type, LibraryError when
    the library refuses.
    """
    check_bytes(plan)
    scale, eps = check_number("scale", scale), -1.0 if l2norm_eps is None else check_number("l2norm_eps", l2norm_eps)
    library = open_library()
    ffi, dtypes = library.ffi, abi.table("dtypes")
    header = ffi.new("hj_cpu_plan *")
    ffi.memmove(header, plan, min(len(plan), ffi.sizeof("hj_cpu_plan")))
    if not {header.input_dtype, header.output_dtype} <= set(dtypes) or len(plan) != ffi.sizeof("hj_cpu_plan"):
        raise LibraryError(f"bad_plan: plan: expected the bytes of an hj_cpu_plan, got {len(plan)} others")
    written = dtypes(header.output_dtype).name
    if np.dtype(output_dtype).name != written:
        raise ValueError(f"output_dtype: expected {written} as the plan says, got {np.dtype(output_dtype).name}")
    given = check_arrays(header, arrays, dtypes(header.input_dtype).name)
    value, state_in, bounds = given["value"], given["state_in"], given["bounds"]
    assert value is not None and state_in is not None and bounds is not None  # checked above
    output, state_out = np.empty(value.shape, output_dtype), np.empty_like(state_in)
    scratch = np.empty(scratch_bytes + ALIGNMENT, np.uint8)
    counters = np.zeros(abi.constant("HJ_COUNTERS"), np.int64)
    call = ffi.new("hj_delta_call *")
    call.batch, call.tokens, call.sequences = *value.shape[:2], bounds.shape[1] - 1
    for name, array in given.items():
        if array is not None:
            setattr(call, name, ffi.cast(ffi.typeof(getattr(call, name)), array.ctypes.data))
    call.output = ffi.cast("void *", output.ctypes.data)
    call.state_out = ffi.cast("float *", state_out.ctypes.data)
    call.scratch = ffi.cast("void *", -(-scratch.ctypes.data // ALIGNMENT) * ALIGNMENT)
    call.scratch_bytes = scratch_bytes
    call.scale, call.l2norm_eps = scale, eps
    status = library.lib.hajax_execute(plan, len(plan), call, ffi.NULL, ffi.cast("int64_t *", counters.ctypes.data))
    if status != 0:
        name = abi.table("statuses")(status).name
        raise LibraryError(f"{name}: {ffi.string(library.lib.hajax_last_error()).decode()}")
    return output, state_out, {str(row[1]): int(counters[int(row[0])]) for row in abi.rows("counters")}
