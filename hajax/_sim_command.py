"""`hajax sim` without the command line: arguments as text, a kernel run on .npy files, tables for people."""

import contextlib
import dataclasses
import functools
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import ml_dtypes
import numpy as np
from rich.console import Console, RenderableType
from rich.markup import escape
from rich.table import Table

from hajax import abi
from hajax.backends import sim
from hajax.targets import npu

MODELLED = "modelled, not measured on a device"
_OUTPUT = re.compile(r"(?P<name>.+?):(?P<dtype>[A-Za-z]\w*)\[(?P<shape>[0-9, ]*)\](?P<zeros>=0)?")
_WIDTH = 120  # of tables that do not go to a terminal
_FORMS = "an integer, a .npy file, or NAME:DTYPE[SHAPE] for an output"


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """What the user asked for. `arguments` are in the kernel's order, as `parse` takes them."""

    source: Path
    arguments: Sequence[str] = ()
    kernel: str | None = None
    target: str = "ascend310p1"
    blocks: int = 1
    options: sim.SimOptions = dataclasses.field(default_factory=sim.SimOptions)
    flags: Sequence[str] = ()
    compiler: str | None = None
    trace: Path | None = None
    save: Path | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Argument:
    """One argument: its value for the run, its name, and the file that the result goes to, if any."""

    name: str
    value: np.ndarray | sim.Output | int
    file: Path | None = None


def parse(number: int, text: str) -> Argument:
    """The argument that a text stands for. Raises ValueError that names it.

    `12`, `-3`, `0x10`: an integer; `x.npy`: an array; `z.npy:float16[8,32]`: an output that goes to z.npy; `z:float16[8,32]`:
    one that --save puts into its folder; with `=0` behind it starts as zeros instead of unwritten.
    """
    where = f"arguments[{number}]"
    try:
        return Argument(text, int(text, 0))
    except ValueError:
        pass
    if match := _OUTPUT.fullmatch(text):
        name, shape = match["name"], _shape(match["shape"], where, text)
        output = sim.Output(shape, _dtype(match["dtype"], where))
        value = np.zeros(shape, output.dtype) if match["zeros"] else output
        return Argument(Path(name).stem, value, Path(name) if name.endswith(".npy") else None)
    if not text.endswith(".npy"):
        raise ValueError(f"{where}: expected {_FORMS}, got {text!r}")
    return Argument(Path(text).stem, _load(text, where))


def _dtype(name: str, where: str) -> np.dtype[Any]:
    try:
        dtype = np.dtype(getattr(ml_dtypes, name, name))
    except TypeError:
        raise ValueError(f"{where}: expected a dtype such as float16, float32 or int32, got {name!r}") from None
    if dtype.hasobject or dtype.itemsize == 0:
        raise ValueError(f"{where}: expected a dtype of numbers, got {name!r}")
    return dtype


def _shape(text: str, where: str, whole: str) -> tuple[int, ...]:
    sizes = [part.strip() for part in text.split(",")]
    if not all(part.isdigit() and int(part) > 0 for part in sizes):
        raise ValueError(f"{where}: expected positive sizes with commas between the brackets, got {whole!r}")
    return tuple(map(int, sizes))


def _load(text: str, where: str) -> np.ndarray:
    try:
        array = np.load(text, allow_pickle=False)
    except FileNotFoundError:
        raise ValueError(f"{where}: no file {text} (an output is NAME:DTYPE[SHAPE])") from None
    except OSError as error:
        raise ValueError(f"{where}: cannot read {text} ({error.strerror or error})") from None
    except (ValueError, EOFError, SyntaxError) as error:
        raise ValueError(f"{where}: {text} holds no array ({error})") from None
    if not isinstance(array, np.ndarray) or array.size == 0 or array.dtype.hasobject:
        raise ValueError(f"{where}: expected an array of numbers in {text}, with at least one element")
    return array


def run(request: Request) -> dict[str, Any]:
    """Compiles, runs, saves. Returns the report, which `describe` turns into tables.

    Raises sim.CompileError, sim.SimFault, ValueError and OSError, each saying what and where.
    """
    if not request.source.is_file():
        raise ValueError(f"source: no file {request.source}")
    arguments = [parse(number, text) for number, text in enumerate(request.arguments)]
    kernel = request.kernel or only_kernel(request.source)
    for what, path in (*((f"arguments[{n}]", a.file) for n, a in enumerate(arguments)), ("--trace", request.trace)):
        if path is not None and not path.parent.is_dir():
            raise ValueError(f"{what}: no folder {path.parent} for {path.name}")
    if request.save is not None:
        with _named("--save", request.save):
            request.save.mkdir(parents=True, exist_ok=True)
    library = sim.compile_kernel(request.source, request.target, flags=request.flags, compiler=request.compiler)
    done = sim.run(
        library, kernel, [argument.value for argument in arguments], target=request.target, blocks=request.blocks,
        options=request.options,
    )  # fmt: skip
    arrays = []
    placed = ((n, argument) for n, argument in enumerate(arguments) if not isinstance(argument.value, int))
    for (number, argument), array, unwritten in zip(placed, done.arrays, done.unwritten, strict=True):
        file = None if request.options.counts_only else _target_file(argument, array, request.save)
        if file is not None:
            with _named("--save" if argument.file is None else f"arguments[{number}]", file):
                write(file, functools.partial(np.save, arr=array))
        arrays.append({
            "name": argument.name, "dtype": str(array.dtype), "shape": list(array.shape),
            "file": str(file) if file else None, "unwritten_bytes": unwritten,
        })  # fmt: skip
    if request.trace is not None:
        with _named("--trace", request.trace):
            write_text(request.trace, sim.timeline(done))
    return {
        "kernel": kernel, "target": request.target, "blocks": request.blocks, "arrays": arrays,
        "counts": done.counts, "core_counts": done.core_counts, "timing": done.timing, "busy_cycles": done.busy_cycles,
        "timing_and_busy_cycles_are": MODELLED,
    }  # fmt: skip


def only_kernel(source: Path) -> str:
    """The name of the one kernel that a source defines. Raises ValueError when there is none, or more than one."""
    found = list(sim.kernels_in(source.read_text(encoding="utf-8", errors="replace")))
    if len(found) == 1:
        return found[0]
    what = f"the kernels {', '.join(found)}; --kernel says which" if found else 'no extern "C" __global__ __aicore__ function'
    raise ValueError(f"source: expected one kernel in {source}, found {what}")


def _target_file(argument: Argument, array: np.ndarray, save: Path | None) -> Path | None:
    """Where an array goes after the run: an output to its file or to the --save folder, a changed input to the latter."""
    if argument.file is not None or save is None:
        return argument.file
    value = argument.value
    changed = not isinstance(value, np.ndarray) or np.ascontiguousarray(value).tobytes() != array.tobytes()
    return save / f"{argument.name}.npy" if changed else None


@contextlib.contextmanager
def _named(argument: str, path: Path) -> Iterator[None]:
    """Says of an OSError which argument it is about, and which file, whose temporary name says little."""
    try:
        yield
    except OSError as error:
        raise ValueError(f"{argument}: cannot write {path} ({error.strerror or error})") from error


def write(path: Path, fill: Callable[[IO[bytes]], Any]) -> None:
    """Writes a file under a temporary name and renames it, so that nobody sees half of it."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as out:
            fill(out)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    """A text file by `write`."""
    write(path, lambda out: out.write(text.encode()))


def launch_header(source: Path, folder: Path) -> list[Path]:
    """Writes aclrtlaunch_<kernel>.h for each kernel of a source, as CANN's build does for host programs; returns the files."""
    if not source.is_file():
        raise ValueError(f"source: no file {source}")
    kernels = sim.kernels_in(source.read_text(encoding="utf-8", errors="replace"))
    if not kernels:
        raise ValueError(f'source: expected a kernel in {source}, found no extern "C" __global__ __aicore__ function')
    written = []
    for name in kernels:
        text = f'#pragma once\n#include "acl/acl_launch.h"\n#define aclrtlaunch_{name} ACLRT_LAUNCH_KERNEL({name})\n'
        with _named("--into", folder / f"aclrtlaunch_{name}.h"):
            write_text(folder / f"aclrtlaunch_{name}.h", text)
        written.append(folder / f"aclrtlaunch_{name}.h")
    return written


def target_report(name: str | None) -> dict[str, Any]:
    """The chips there are, or the whole table of one with the source of each value."""
    if name is None:
        chips = [npu.load(one) for one in npu.names()]
        fields = ("npu_arch", "ai_cores", "clock_mhz", "ub_bytes", "l1_bytes", "l0c_bytes", "l2_bytes")
        return {"targets": [{"name": chip.name, **{field: getattr(chip, field) for field in fields}} for chip in chips]}
    chip, notes = npu.load(name), npu.provenance(name)
    rows = []
    for key, note in notes.items():
        value = chip.costs[key.removeprefix("cost.")] if key.startswith("cost.") else getattr(chip, key)
        rows.append({
            "name": key, "value": value, "unit": note.unit, "status": note.status, "measured_on_a_device": note.measured,
            "source": note.source,
        })  # fmt: skip
    return {"target": name, "rows": rows}


def show(parts: Sequence[RenderableType]) -> None:
    """Prints tables, as wide as the terminal, or of a fixed width into a file."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_WIDTH, soft_wrap=True)
    for part in parts:
        console.print(part)


def describe(report: Mapping[str, Any]) -> list[RenderableType]:
    """A run's report as tables: counts apart from what is modelled."""
    counts: Mapping[str, int] = report["counts"]
    parts: list[RenderableType] = [f"{report['kernel']} on {report['blocks']} cores of {report['target']}"]
    for array in report["arrays"]:
        line = f"  {array['name']}: {array['dtype']}{array['shape']}" + (f" -> {array['file']}" if array["file"] else "")
        lost = array["unwritten_bytes"]
        parts.append(escape(line + (f"  ({lost} bytes were never written)" if lost else "")))
    table = _table("counted, exact", "path", "bytes", "transfers")
    for path in abi.names("paths"):
        if counts[f"{path}_transfers"]:
            table.add_row(path, f"{counts[path]:,}", f"{counts[f'{path}_transfers']:,}")
    parts.append(table)
    table = _table(f"instructions counted, cycles {MODELLED}", "pipe", "instructions", "busiest core's busy cycles")
    for pipe in abi.names("pipes"):
        if counts[f"{pipe}_instructions"]:
            busiest = max(core[pipe] for core in report["busy_cycles"])
            table.add_row(pipe, f"{counts[f'{pipe}_instructions']:,}", f"{busiest:,.0f}")
    parts.append(table)
    table = _table("counted, exact", "count", "value", "")
    for _, name, unit, meaning in abi.rows("counts"):
        if counts[str(name)]:
            table.add_row(str(name), f"{counts[str(name)]:,} {unit}", escape(str(meaning)))
    parts.append(table)
    table = _table(MODELLED, "time and energy", "value", "")
    for _, name, unit, meaning in abi.rows("timing"):
        table.add_row(str(name), f"{report['timing'][str(name)]:,.6g} {unit}", escape(str(meaning)))
    return [*parts, table]


def describe_targets(report: Mapping[str, Any]) -> list[RenderableType]:
    """The chips, or one chip's table."""
    if "targets" in report:
        chips = report["targets"]
        table = _table(None, *chips[0], numbers=len(chips[0]))
        for chip in chips:
            table.add_row(*(f"{value:g}" if isinstance(value, float) else str(value) for value in chip.values()))
        return [table]
    table = _table(report["target"], "name", "value", "status", "source", numbers=1)
    table.columns[2].no_wrap = True
    for row in sorted(report["rows"], key=lambda row: row["name"].startswith("cost.")):
        value = row["value"]
        shown = f"{value[0]:g} + {value[1]:g} n" if isinstance(value, tuple) else f"{value:g}" if value < 1e6 else f"{value:,}"
        status = row["status"] + ("" if row["measured_on_a_device"] else ", not measured on a device")
        table.add_row(row["name"], f"{shown} {row['unit']}", status, escape(row["source"]))
    return [table]


def _table(title: str | None, *columns: str, numbers: int = 2) -> Table:
    """The first column is a name; so many after it are numbers, aligned at the right; an empty heading is none of them."""
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for n, column in enumerate(columns):
        table.add_column(column, justify="right" if 0 < n <= numbers and column else "left", overflow="fold")
    return table
