"""The chips of this folder's .def files as values: `load(name)`. Each row has a unit, a source, and how far to trust it."""

import ast
import dataclasses
import functools
import hashlib
import re
from collections.abc import Callable, Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from types import MappingProxyType
from typing import Literal, cast, get_args

from hajax import abi

Status = Literal["documented", "profiled", "borrowed", "assumed"]
KERNEL_ARCH = 2002  # the chips that the fused kernel (native/ascend) is written for: 310P
MEASURED_ON_THE_CHIP: tuple[Status, ...] = ("documented", "profiled")  # everything else is "not measured on a device"


@dataclasses.dataclass(frozen=True, slots=True)
class NpuTarget:
    """One Ascend chip as the emulator and the cost model know it: the fields of hj_target (hajax/abi/target.h has their meaning).

    costs: an instruction's name to (start, per_unit), in cycles.
    """

    name: str
    npu_arch: int
    ai_cores: int
    vector_cores: int
    clock_mhz: float
    l1_bytes: int
    l0a_bytes: int
    l0b_bytes: int
    l0c_bytes: int
    ub_bytes: int
    ub_reserved_bytes: int
    l2_bytes: int
    l2_line_bytes: int
    l2_ways: int
    gm_bytes: int
    gm_ddr_read_rate: float
    gm_ddr_write_rate: float
    gm_l2_read_rate: float
    gm_l2_write_rate: float
    l1_to_l0a_rate: float
    l1_to_l0b_rate: float
    l1_to_ub_rate: float
    ub_to_l1_rate: float
    l0c_to_ub_rate: float
    ub_to_l0c_rate: float
    ub_to_ub_rate: float
    sustained_share: float
    gm_read_latency: float
    gm_write_latency: float
    l1_latency: float
    cube_latency: float
    issue_cycles: float
    argument_cycles: float
    flag_cycles: float
    scalar_load_cycles: float
    scalar_gm_cycles: float
    sync_all_cycles: float
    launch_cycles: float
    queue_depth: int
    flags_per_pair: int
    first_reserved_flag: int
    cube_barrier_tiles: int
    pj_per_mac: float
    pj_per_vector_lane: float
    pj_per_ddr_byte: float
    pj_per_l2_byte: float
    pj_per_l1_byte: float
    pj_per_l0_byte: float
    pj_per_ub_byte: float
    static_watts: float
    costs: Mapping[str, tuple[float, float]] = dataclasses.field(hash=False)

    @property
    def fingerprint(self) -> str:
        """The name and a digest of all values: equal for equal chips on any machine."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        values["costs"] = sorted(self.costs.items())
        return f"{self.name}-{hashlib.sha256(repr(sorted(values.items())).encode()).hexdigest()[:8]}"


@dataclasses.dataclass(frozen=True, slots=True)
class Provenance:
    """Where a value comes from: documented and profiled are of this chip, borrowed of another, assumed is judged."""

    status: Status
    unit: str
    source: str

    @property
    def measured(self) -> bool:
        """Whether the value is the chip's own, documented or profiled; otherwise it was not measured on a device."""
        return self.status in MEASURED_ON_THE_CHIP


def names() -> tuple[str, ...]:
    """The chips that there are."""
    return tuple(
        sorted(file.name.removesuffix(".def") for file in _here().iterdir() if re.fullmatch(r"ascend\w+\.def", file.name))
    )


@functools.cache
def kernel_names() -> tuple[str, ...]:
    """Of the chips that there are, those that the fused kernel is written for."""
    return tuple(name for name in names() if load(name).npu_arch == KERNEL_ARCH)


@functools.cache
def load(name: str, folder: Traversable | None = None) -> NpuTarget:
    """The chip `name`, from its .def file (in `folder`, if one is given). Raises ValueError, naming file and line."""
    return _load(name, folder)[0]


def specialised(target: str | NpuTarget) -> NpuTarget:
    """The chip, or the one of this name, as a kernel made of a plan's programs sees it: its steps are code, so no scalar loads
    fetch them. To plan for. Raises ValueError for an unknown name, TypeError for what is neither."""
    return dataclasses.replace(_chip(target), scalar_load_cycles=0.0)


def as_kernel_chip(target: str | NpuTarget) -> NpuTarget:
    """The chip, or the one of this name, if the fused kernel is written for it; else a what-if, named `<chip>_as_2002`: the
    310P's instructions with this chip's sizes, rates, clock, flags and cores. Plan for and execute on this very value.

    No such chip exists: copies to and from L0C and flags, as the kernel has them, are the 310P's. Raises ValueError for an
    unknown name, TypeError for what is neither.
    """
    chip = _chip(target)
    if chip.npu_arch == KERNEL_ARCH:
        return chip
    return dataclasses.replace(chip, name=f"{chip.name}_as_{KERNEL_ARCH}", npu_arch=KERNEL_ARCH)


def _chip(target: str | NpuTarget) -> NpuTarget:
    if isinstance(target, str):
        return load(target)
    if not isinstance(target, NpuTarget):
        raise TypeError(f"target: expected one of {', '.join(names())} or an NpuTarget, got {type(target).__name__}")
    return target


@functools.cache
def provenance(name: str, folder: Traversable | None = None) -> Mapping[str, Provenance]:
    """The source of every value: by field, and by `cost.<instruction>`."""
    return _load(name, folder)[1]


@dataclasses.dataclass(frozen=True, slots=True)
class _Row:
    key: str
    value: int | float | tuple[float, float]
    provenance: Provenance
    file: str
    place: str


def _here() -> Traversable:
    return resources.files("hajax.targets")


def _load(name: str, folder: Traversable | None) -> tuple[NpuTarget, Mapping[str, Provenance]]:
    if folder is None and name not in names():
        raise ValueError(f"target: expected one of {', '.join(names())}, got {name!r}")
    place = folder or _here()

    def read(file: str) -> str:
        return place.joinpath(file).read_text(encoding="utf-8")

    rows: dict[str, _Row] = {}
    for row in _rows(f"{name}.def", read, ()):
        before = rows.get(row.key)
        if before is not None and before.file == row.file:
            raise ValueError(f"{row.place}: {row.key} stands at {before.place} already; only another file's row is replaced")
        rows[row.key] = row
    missing = [key for key in (*_types(), *(f"cost.{i}" for i in abi.names("instructions"))) if key not in rows]
    if missing:
        raise ValueError(f"{name}.def: no row for {', '.join(missing)}")
    facts = {key: row.value for key, row in rows.items() if not key.startswith("cost.")}
    costs = {i: cast(tuple[float, float], rows[f"cost.{i}"].value) for i in abi.names("instructions")}
    target = NpuTarget(name=name, **facts, costs=MappingProxyType(costs))  # type: ignore[arg-type]
    return target, MappingProxyType({key: row.provenance for key, row in rows.items()})


@functools.cache
def _types() -> Mapping[str, type]:
    """int or float for every field that a FACT sets."""
    return {f.name: cast(type, f.type) for f in dataclasses.fields(NpuTarget) if f.name not in ("name", "costs")}


def _rows(file: str, read: Callable[[str], str], including: tuple[str, ...]) -> list[_Row]:
    """The rows of a file in order, those of files that it includes where it includes them."""
    if file in including:
        raise ValueError(f"{including[-1]}: includes {file}, which includes it")
    try:
        text = read(file)
    except OSError as error:
        raise ValueError(f"{(*including, file)[0]}: no file {file} to include") from error
    text = re.sub(r"/\*.*?\*/", lambda comment: "\n" * comment[0].count("\n"), text, flags=re.DOTALL)
    found: list[_Row] = []
    for number, line in enumerate(text.splitlines(), 1):
        place = f"{file}:{number}"
        if include := re.fullmatch(r'\s*#include\s+"([^"/]+)"\s*', line):
            found += _rows(include[1], read, (*including, file))
        elif line.strip():
            found.append(_row(line.strip(), file, place))
    return found


def _row(line: str, file: str, place: str) -> _Row:
    match = re.fullmatch(r"(FACT|COST)\((.*)\)", line)
    try:
        call = ast.parse(f"f({match[2]})", mode="eval").body if match else None
    except SyntaxError:
        call = None
    expected = {"FACT": 5, "COST": 6}
    if match is None or not isinstance(call, ast.Call) or call.keywords or len(call.args) != expected[match[1]]:
        raise ValueError(
            f'{place}: expected FACT(field, value, status, "unit", "source"), COST(instruction, start, per_unit, status, '
            f'"unit", "source") or #include "file", got {line!r}'
        )
    name, *values, status, unit, source = call.args
    note = Provenance(cast(Status, _word(status, place, get_args(Status))), _text(unit, place), _text(source, place))
    if not note.source:
        raise ValueError(f"{place}: expected a source, got an empty string")
    numbers = [_number(value, place) for value in values]
    if match[1] == "COST":
        return _Row(
            f"cost.{_word(name, place, abi.names('instructions'))}", (float(numbers[0]), float(numbers[1])), note, file, place
        )
    field = _word(name, place, tuple(_types()))
    if _types()[field] is float:
        return _Row(field, float(numbers[0]), note, file, place)
    if not isinstance(numbers[0], int):
        raise ValueError(f"{place}: {field}: expected an integer, got {numbers[0]!r}")
    return _Row(field, numbers[0], note, file, place)


def _word(node: ast.expr, place: str, allowed: tuple[str, ...]) -> str:
    if not isinstance(node, ast.Name) or node.id not in allowed:
        raise ValueError(f"{place}: expected one of {', '.join(allowed)}, got {ast.unparse(node)}")
    return node.id


def _text(node: ast.expr, place: str) -> str:
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        raise ValueError(f"{place}: expected a string, got {ast.unparse(node)}")
    return node.value


def _number(node: ast.expr, place: str) -> int | float:
    """A literal, or a product of literals. Negative ones have no meaning in any row."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return _number(node.left, place) * _number(node.right, place)
    if not isinstance(node, ast.Constant) or type(node.value) not in (int, float):
        raise ValueError(f"{place}: expected a number or a product of numbers, got {ast.unparse(node)}")
    return cast(int | float, node.value)
