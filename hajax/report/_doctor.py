"""What this installation consists of and what of it works, as data and as text."""

import os
import platform
import sys
from importlib import metadata
from typing import Any

from hajax import abi, backends, cache
from hajax.backends import library, sim
from hajax.report._npu import diagnose_npu

_PACKAGES = ("jax", "jaxlib", "numpy", "cffi", "ml_dtypes", "safetensors", "tokenizers", "jinja2", "typer", "torch", "torch_npu")
_VARIABLES = (
    "HAJAX_LIBRARY",
    "HAJAX_CPU_ISA",
    "HAJAX_CPU_THREADS",
    "HAJAX_CPU_BF16_DOT",
    "HAJAX_SIM_LIBRARY",
    "HAJAX_SIM_TARGET",
    "HAJAX_SIM_THREADS",
    "HAJAX_SIM_FAST",
    "HAJAX_SIM_AUTO_BARRIERS",
    "HAJAX_SIM_INJECT",
    "HAJAX_ASCEND_LIBRARY",
    "HAJAX_ASCEND_TARGET",
    "ASCEND_HOME_PATH",
    "TORCH_DEVICE_BACKEND_AUTOLOAD",
    "CXX",
    "HAJAX_CACHE_DIR",
    "HAJAX_CACHE",
    "XLA_FLAGS",
    "JAX_PLATFORMS",
)


def diagnose() -> dict[str, Any]:
    """Versions, CPU, libraries (with the reason where one is not used), an NPU's software, JAX devices, cache and environment.

    `ok` is False when the default implementation on this machine would not be the fused kernels; an NPU is no part of it.
    """
    facts: dict[str, Any] = {
        "hajax": _version("hajax"),
        "python": f"{platform.python_version()} ({sys.executable})",
        "packages": {name: _version(name) for name in _PACKAGES},
        "machine": f"{platform.system()} {platform.machine()}, {_cpu_model()}",
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "cpu_features": _cpu_features(),
        "environment": {name: os.environ[name] for name in _VARIABLES if name in os.environ},
        "abi": abi.digest()[:12],
    }
    facts["libraries"] = {"libhajax_cpu": _cpu_library(), "libhajax_sim": sim.diagnose()}
    facts["npu"] = diagnose_npu()
    facts["jax_devices"] = _devices()
    folder = cache.folder()
    facts["plan_cache"] = "off (HAJAX_CACHE=0)" if folder is None else str(folder)
    facts["ok"] = facts["libraries"]["libhajax_cpu"]["loaded"] and bool(facts["jax_devices"].get("devices"))
    return facts


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _cpu_library() -> dict[str, Any]:
    path = str(library.library_path())
    try:
        opened = backends.open_library()
        target = backends.cpu_target()
    except (backends.LibraryError, ValueError) as error:
        return {"path": path, "loaded": False, "why": str(error)}
    return {
        "path": path,
        "loaded": True,
        "isas": list(backends.available_isas()),
        "bf16_dot": bool(opened.lib.hajax_cpu_bf16_dot()),
        "target": target.fingerprint,
    }


def _devices() -> dict[str, Any]:
    try:
        import jax

        return {"devices": [str(d) for d in jax.devices()], "default": jax.default_backend()}
    except (ImportError, RuntimeError) as error:
        return {"devices": [], "why": str(error)}


def _cpu_lines() -> list[str]:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            return file.read().split("\n\n")[0].splitlines()
    except OSError:
        return []


def _cpu_field(*names: str) -> str:
    for line in _cpu_lines():
        name, _, value = line.partition(":")
        if name.strip() in names:
            return value.strip()
    return ""


def _cpu_model() -> str:
    return _cpu_field("model name", "CPU part") or platform.processor() or "unknown CPU"


def _cpu_features() -> list[str]:
    wanted = (
        "sse2",
        "avx",
        "avx2",
        "fma",
        "f16c",
        "avx512f",
        "avx512bw",
        "avx512dq",
        "avx512vl",
        "avx512_bf16",
        "asimd",
        "bf16",
        "sve",
    )
    present = set(_cpu_field("flags", "Features").split())
    return [name for name in wanted if name in present]
