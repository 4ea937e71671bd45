"""What there is of an Ascend NPU's software here, and what is missing, without importing torch or torch_npu: either may fail."""

import glob
import os
from importlib import metadata
from pathlib import Path
from typing import Any

from hajax.backends import ascend
from hajax.backends.ascend_device import Device
from hajax.backends.library import LibraryError

_INSTALLS = ("/usr/local/Ascend", "~/Ascend")
_TOOLKITS = ("ascend-toolkit/latest", "cann")
_AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"
_GUIDE = "docs/npu.md has the steps"


def diagnose_npu() -> dict[str, Any]:
    """CANN, torch with torch_npu, libhajax_ascend, the device; `missing`: by part, what to do; `ready` when nothing is."""
    facts: dict[str, Any] = {"cann": _cann(), "driver": _driver(), "torch": _version("torch"), "torch_npu": _version("torch-npu")}
    facts["library"] = _library()
    facts["device"] = _device() if facts["library"]["loaded"] else {"open": False, "why": "no libhajax_ascend"}
    facts["missing"] = _missing(facts)
    facts["ready"] = not facts["missing"]
    return facts


def cann_root() -> Path | None:
    """Where CANN's toolkit is: as ASCEND_HOME_PATH says, else in one of its usual places."""
    named = os.environ.get("ASCEND_HOME_PATH")
    usual = (Path(install).expanduser() / toolkit for install in _INSTALLS for toolkit in _TOOLKITS)
    return next((root for root in ([Path(named)] if named else usual) if root.is_dir()), None)


def _cann() -> dict[str, Any]:
    root = cann_root()
    if root is None:
        return {"root": None}
    return {"root": str(root), "sourced": "ASCEND_HOME_PATH" in os.environ, "version": _cann_version(root)}


def _cann_version(root: Path) -> str | None:
    """The first version that CANN's own notes of its install name."""
    for pattern in ("*/ascend_toolkit_install.info", "ascend_toolkit_install.info", "version.cfg", "compiler/version.info"):
        for path in sorted(root.glob(pattern)):
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                name, _, value = line.partition("=")
                if "version" in name.lower() and value.strip():
                    return value.strip().strip("[]").split(":")[-1]
    return None


def _driver() -> dict[str, Any]:
    return {"devices": sorted(path for path in glob.glob("/dev/davinci*") if path.removeprefix("/dev/davinci").isdigit())}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _library() -> dict[str, Any]:
    facts: dict[str, Any] = {"path": str(ascend.library_path())}
    try:
        ascend.open_ascend_library()
    except LibraryError as error:
        return facts | {"loaded": False, "why": str(error)}
    return facts | {"loaded": True}


def _device() -> dict[str, Any]:
    try:
        with Device() as device:
            free, total = device.memory()
            facts = {"open": True, "soc": device.soc_name, "cores": device.cores, "memory_free": free, "memory": total}
            try:
                return facts | {"target": device.target.name}
            except NotImplementedError as error:
                return facts | {"target": None, "why": str(error)}
    except (ascend.AscendError, LibraryError, MemoryError, ValueError, NotImplementedError) as error:
        return {"open": False, "why": str(error)}


def _missing(facts: dict[str, Any]) -> dict[str, str]:
    missing: dict[str, str] = {}
    if not facts["driver"]["devices"]:
        missing["device"] = f"no /dev/davinci* here: a 310P's driver and firmware, and in a container --device; {_GUIDE}"
    elif not facts["device"]["open"] and facts["library"]["loaded"]:
        missing["device"] = f"ACL cannot open it: {facts['device']['why']}"
    elif facts["device"]["open"] and facts["device"]["target"] is None:
        missing["kernel"] = facts["device"]["why"]
    if facts["cann"]["root"] is None:
        missing["cann"] = f"CANN's toolkit is in none of its usual places, and ASCEND_HOME_PATH names none; {_GUIDE}"
    elif not facts["cann"]["sourced"]:
        missing["cann_environment"] = (
            f"run `source {facts['cann']['root']}/../set_env.sh` (or the set_env.sh beside it) in this shell"
        )
    if not facts["library"]["loaded"]:
        missing["library"] = facts["library"]["why"]
    missing |= _missing_torch(facts)
    return missing


def _missing_torch(facts: dict[str, Any]) -> dict[str, str]:
    """torch and torch_npu go together version by version; and the latter may break the import of the former."""
    torch, torch_npu = facts["torch"], facts["torch_npu"]
    missing: dict[str, str] = {}
    if torch is None or torch_npu is None:
        absent = " and ".join(name for name, version in (("torch", torch), ("torch_npu", torch_npu)) if version is None)
        missing["torch_npu"] = f"{absent} not installed: pip install 'hajax[npu]' (hajax's kernel runs without it, models do not)"
    elif _release(torch) != _release(torch_npu):
        missing["torch_npu"] = f"torch_npu {torch_npu} is for torch {_release(torch_npu)}, but torch is {torch}: install a pair"
    if torch_npu is not None and not _acl_in_reach() and os.environ.get(_AUTOLOAD) != "0":
        missing["import_torch"] = (
            "with torch_npu installed `import torch` fails as long as CANN's libraries are not found: source CANN's set_env.sh, "
            f"or set {_AUTOLOAD}=0 to use torch without the NPU"
        )
    return missing


def _release(version: str) -> str:
    """1.2.3 of 1.2.3.post1+cpu."""
    return ".".join(version.split("+")[0].split(".")[:3])


def _acl_in_reach() -> bool:
    """Whether the loader's path has CANN's libascendcl."""
    return any(Path(folder, "libascendcl.so").exists() for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder)
