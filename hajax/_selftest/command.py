"""`hajax selftest` without the command line: operators against fp64 on the CPU, times beside the model's, one block to paste."""

import dataclasses
import hashlib
import json
import platform
from collections.abc import Mapping
from importlib import metadata
from typing import Any

from rich.console import RenderableType
from rich.table import Table

from hajax import abi
from hajax._selftest import runners
from hajax.backends import ascend
from hajax.backends.ascend_device import Device
from hajax.backends.library import LibraryError
from hajax.report import diagnose_npu

BACKENDS = ("npu", "torch", "sim")
FORMAT = 1
_REPEATS = {"npu": 20, "torch": 5, "sim": 1}
_TIMES = {
    "npu": "by the device's own events",
    "torch": "by the CPU's clock, of the whole program",
    "sim": "EMULATED by the model of the chip, not measured on a device",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """What the user asked for. `large`: also sizes of whole models; None: on a device."""

    backend: str = "npu"
    large: bool | None = None
    repeats: int | None = None


def run(request: Request) -> dict[str, Any]:
    """The report, whose `ok` says whether all passed. Raises LibraryError naming what is missing, ValueError."""
    if request.backend not in BACKENDS:
        raise ValueError(f"backend: expected one of {', '.join(BACKENDS)}, got {request.backend!r}")
    if request.repeats is not None and request.repeats < 1:
        raise ValueError(f"repeats: expected 1 or more, got {request.repeats}")
    large = request.backend == "npu" if request.large is None else request.large
    repeats = request.repeats or _REPEATS[request.backend]
    facts: dict[str, Any] = {"selftest": FORMAT, "backend": request.backend, "times": _TIMES[request.backend], **_versions()}
    rows: list[runners.Row] = []
    if request.backend != "torch":
        rows += _through_acl(request.backend, facts, large, repeats)
    if request.backend != "sim":
        rows += _through_torch(request.backend, facts, large, repeats)
    facts["rows"] = [{**dataclasses.asdict(row), "ok": row.ok} for row in rows]
    facts["ok"] = all(row.ok for row in rows) and bool(rows) and not facts.get("not_run")
    return facts


def _through_acl(backend: str, facts: dict[str, Any], large: bool, repeats: int) -> list[runners.Row]:
    emulated = backend == "sim"
    if not emulated:
        missing = diagnose_npu()["missing"]
        needed = {name: why for name, why in missing.items() if name not in ("torch_npu", "import_torch")}
        if needed:
            raise LibraryError(f"backend npu: {'; '.join(f'{name}: {why}' for name, why in needed.items())}")
    rows: list[runners.Row] = []
    try:
        _fill(rows, facts, emulated, large, repeats)
    except ascend.AscendError as error:
        if not rows:
            raise
        facts["not_run"] = f"the rest of the kernel alone: {' '.join(str(error).split())}"
    return rows


def _fill(rows: list[runners.Row], facts: dict[str, Any], emulated: bool, large: bool, repeats: int) -> None:
    with Device(emulated=emulated) as device:
        free, total = device.memory()
        path = device.library.path
        facts["device"] = {
            "soc": device.soc_name, "cores": device.cores, "target": device.target.fingerprint, "memory": total,
            "memory_free": free, "emulated": emulated,
        }  # fmt: skip
        facts["library"] = {"file": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()[:12]}
        for row in runners.kernel_rows(device, large=large, repeats=repeats):
            rows.append(row)  # kept when a later one ends it all


def _through_torch(backend: str, facts: dict[str, Any], large: bool, repeats: int) -> list[runners.Row]:
    """On "npu" what cannot be run is said in the report, as the kernel alone has run."""
    try:
        return list(runners.torch_rows(backend, large=large, repeats=repeats))
    except (ImportError, RuntimeError, NotImplementedError) as error:
        if backend == "torch" and isinstance(error, ImportError):
            raise LibraryError(f"backend torch: {error.name} is not installed: pip install {error.name}") from error
        if backend != "npu" or isinstance(error, ascend.AscendError):
            raise
        facts["not_run"] = f"operators through torch_npu: {' '.join(str(error).split())}"
        return []


def _versions() -> dict[str, Any]:
    def version(package: str) -> str | None:
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            return None

    facts: dict[str, Any] = {name: version(name) for name in ("hajax", "jax", "numpy", "torch", "torch_npu")}
    facts["cann"] = diagnose_npu()["cann"].get("version")
    return facts | {"python": platform.python_version(), "machine": platform.machine(), "abi": abi.digest()[:12]}


def paste(report: Mapping[str, Any]) -> str:
    """The block for an issue: everything in one line of JSON between two marks."""
    return f"--- hajax selftest ---\n{json.dumps(report, separators=(',', ':'))}\n--- end ---"


def describe(report: Mapping[str, Any]) -> list[RenderableType]:
    """The report for people."""
    device = report.get("device")
    chip = f", {device['soc']} with {device['cores']} cores{' (EMULATED)' if device['emulated'] else ''}" if device else ""
    title = f"backend {report['backend']}{chip}; errors as NMSE; times {report['times']}"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for column in ("", "operator", "case", "path", "output", "states", "us", "model us", "ratio"):
        words = column in ("", "operator", "case", "path")
        table.add_column(column, justify="left" if words else "right", no_wrap=True)
    for row in report["rows"]:
        time, modelled = row["time_us"], row["modelled_us"]
        table.add_row(
            "ok" if row["ok"] else "FAIL", row["op"], _words(row["case"]), row["path"],
            _number(row["output_nmse"], ".1e"), _number(row["state_nmse"], ".1e"), _number(time, ".1f"), _number(modelled, ".1f"),
            _number(time / modelled if time and modelled else None, ".2f"),
        )  # fmt: skip
    failed = sum(not row["ok"] for row in report["rows"])
    parts: list[RenderableType] = [table]
    parts += [f"{row['op']} {_words(row['case'])}: {row['error']}" for row in report["rows"] if row["error"]]
    if report.get("not_run"):
        parts.append(f"NOT RUN: {report['not_run']}")
    parts.append(f"{'passed' if report['ok'] else 'FAILED'}: {len(report['rows']) - failed} of {len(report['rows'])} cases")
    return parts


def _words(case: str) -> str:
    """Without what the operator's name says."""
    return " ".join(word for word in case.split() if not word.startswith(("dtype=", "op=")))


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
