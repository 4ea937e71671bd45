"""Chips as data: the .def files, read by Python and compiled into C++, say the same; bad and missing rows are refused."""

import dataclasses
import random
import re
from pathlib import Path

import cffi
import clock_driver
import pytest

from hajax import abi, chip_cost
from hajax.backends import LibraryError, sim
from hajax.targets import NpuTarget, npu

FOLDER = Path(npu.__file__).parent
PATHS = abi.names("paths")


@pytest.fixture(scope="session")
def driver(tmp_path_factory):
    return clock_driver.build(tmp_path_factory.getbasetemp().parent)


def test_there_are_three_chips():
    assert npu.names() == ("ascend310b1", "ascend310p1", "ascend310p3")


def test_the_fields_are_those_of_the_c_struct_in_its_order():
    ffi = cffi.FFI()
    ffi.cdef(abi.header_text())
    fields = ffi.typeof("hj_target").fields
    python = {f.name: f.type for f in dataclasses.fields(NpuTarget)}
    assert list(python) == ["name", *(name for name, _ in fields[:-1]), "costs"]
    assert fields[-1][0] == "cost"
    kinds = {"int64_t": int, "double": float}
    assert {name: kinds[f.type.cname] for name, f in fields[:-1]} == {name: python[name] for name, _ in fields[:-1]}
    assert len(abi.names("instructions")) <= abi.constant("HJ_INSTRUCTIONS")


@pytest.mark.parametrize("name", npu.names())
def test_python_and_cpp_read_the_same_values(name, driver):
    target = npu.load(name)
    (found,) = clock_driver.ask(driver, f"target {name}\ndump\n")
    assert found.pop("names") == list(npu.names())
    assert {i: tuple(cost) for i, cost in found.pop("costs").items()} == dict(target.costs)
    assert found == {f.name: getattr(target, f.name) for f in dataclasses.fields(target) if f.name not in ("name", "costs")}


@pytest.mark.parametrize("name", npu.names())
def test_python_and_cpp_cost_every_instruction_alike(name, driver):
    target = npu.load(name)
    draw = random.Random(name)
    asked, expected = [f"target {name}"], []
    for instruction in target.costs:
        for path in (None, *PATHS):
            units, size = draw.randrange(256), 32 * draw.randrange(1 << 16)
            missed = 32 * draw.randrange(size // 32 + 1) if path in chip_cost.GM_READS + chip_cost.GM_WRITES else 0
            asked.append(f"cycles {instruction} {units} {size} {path or 'none'} {missed}")
            cycles = chip_cost.instruction_cycles(target, instruction, units=units, bytes=size, path=path, missed=missed)
            expected.append([cycles, chip_cost.instruction_latency(target, instruction, path=path)])
    assert clock_driver.ask(driver, "\n".join(asked) + "\n") == expected
    assert len(expected) == len(abi.names("instructions")) * (1 + len(PATHS))


@pytest.fixture(scope="module")
def library():
    try:
        return sim.open_sim_library()
    except LibraryError as error:
        pytest.skip(f"libhajax_sim: {error}")


@pytest.mark.parametrize("name", npu.names())
def test_the_library_has_the_same_chips(name, library):
    assert sim.target_names() == npu.names()
    table, target = library.lib.hajax_sim_target(name.encode()), npu.load(name)
    found = {field: getattr(table, field) for field, _ in library.ffi.typeof("hj_target").fields if field != "cost"}
    assert found == {f.name: getattr(target, f.name) for f in dataclasses.fields(target) if f.name not in ("name", "costs")}
    for number, instruction in enumerate(abi.names("instructions")):
        assert (table.cost[number].start, table.cost[number].per_unit) == target.costs[instruction]
        for index, path in [(-1, None), *enumerate(PATHS)]:
            missed = 1024 if path in chip_cost.GM_READS + chip_cost.GM_WRITES else 0
            cycles = library.lib.hajax_sim_instruction_cycles(table, number, 7, 4096, index, missed)
            assert cycles == chip_cost.instruction_cycles(target, instruction, units=7, bytes=4096, path=path, missed=missed)
    assert library.lib.hajax_sim_target(b"ascend910") == library.ffi.NULL


def test_an_unknown_chip_instruction_or_path_is_named():
    with pytest.raises(ValueError, match="ascend310b1, ascend310p1, ascend310p3, got 'ascend910'"):
        npu.load("ascend910")
    target = npu.load("ascend310p1")
    with pytest.raises(ValueError, match="got 'vfly'"):
        chip_cost.instruction_cycles(target, "vfly")
    with pytest.raises(ValueError, match="got 'gm_to_moon'"):
        chip_cost.instruction_cycles(target, "copy_gm_to_ubuf", bytes=32, path="gm_to_moon")


@pytest.mark.parametrize("name", npu.names())
def test_every_value_names_its_source(name):
    notes = npu.provenance(name)
    fields = {f.name for f in dataclasses.fields(NpuTarget)} - {"name", "costs"}
    assert set(notes) == fields | {f"cost.{i}" for i in abi.names("instructions")}
    assert all(note.source for note in notes.values())
    assert {note.measured for note in notes.values()} == {True, False}
    assert not notes["cost.vadd"].measured  # measured, but on another chip
    assert notes["l1_bytes"].measured


@pytest.mark.parametrize("name", npu.names())
def test_costs_that_are_charged_by_a_field_agree_with_their_row(name):
    """The core charges loads, and the clock flags and SyncAll, by the fields; reports list the rows."""
    target = npu.load(name)
    for instruction, cycles in {
        "scalar_load": target.scalar_load_cycles, "scalar_store": target.scalar_load_cycles, "set_flag": target.flag_cycles,
        "wait_flag": target.flag_cycles, "pipe_barrier": target.flag_cycles, "sync_all": target.sync_all_cycles,
    }.items():  # fmt: skip
        assert target.costs[instruction] == (cycles, 0)


@pytest.mark.parametrize("name", npu.names())
def test_the_numbers_make_a_chip(name):
    target = npu.load(name)
    assert target.ub_reserved_bytes < target.ub_bytes
    assert target.l2_bytes % (target.l2_line_bytes * target.l2_ways) == 0
    assert 0 < target.sustained_share <= 1
    assert target.first_reserved_flag <= target.flags_per_pair
    assert target.costs["mad"][1] > 0
    zero = {"ub_reserved_bytes"}
    assert all(getattr(target, f.name) for f in dataclasses.fields(target) if f.name not in zero)


def test_the_peaks_are_those_of_the_facts():
    """Teraflops of the cubes, and GB/s of DDR: what the platform description files' numbers amount to."""
    peaks = {}
    for name in npu.names():
        target = npu.load(name)
        flops = 2 * 4096 / target.costs["mad"][1] * target.ai_cores * target.clock_mhz * 1e6
        peaks[name] = (round(flops / 1e12, 1), round(target.gm_ddr_read_rate * target.ai_cores * target.clock_mhz / 1e3, 1))
    assert peaks == {"ascend310p1": (86.8, 180.2), "ascend310p3": (69.5, 144.2), "ascend310b1": (10.0, 20.8)}


def chip(tmp_path, extra="", *, drop=None):
    """A copy of the folder in which ascend310p1 has other rows."""
    for path in FOLDER.glob("*.def"):
        text = path.read_text(encoding="utf-8")
        if drop is not None:
            text = re.sub(rf"^(FACT|COST)\({drop},.*\n", "", text, flags=re.MULTILINE)
        (tmp_path / path.name).write_text(text, encoding="utf-8")
    with (tmp_path / "ascend310p1.def").open("a", encoding="utf-8") as file:
        file.write(extra)
    return tmp_path


def test_a_later_row_of_another_file_counts(tmp_path):
    folder = chip(tmp_path, 'FACT(clock_mhz, 2 * 500, assumed, "MHz", "a what-if")\nCOST(vadd, 1, 2, assumed, "cycles", "too")\n')
    target = npu.load("ascend310p1", folder)
    assert (target.clock_mhz, target.costs["vadd"]) == (1000.0, (1.0, 2.0))
    assert npu.provenance("ascend310p1", folder)["clock_mhz"] == npu.Provenance("assumed", "MHz", "a what-if")
    assert npu.load("ascend310p1").clock_mhz == 1060.0


@pytest.mark.parametrize(("row", "message"), [
    ('FACT(clock, 1, assumed, "MHz", "s")', r"ascend310p1.def:\d+: expected one of npu_arch, .* got clock$"),
    ('COST(vfly, 1, 1, assumed, "cycles", "s")', "expected one of scalar_load, .* got vfly$"),
    ('FACT(clock_mhz, 1, guessed, "MHz", "s")', "expected one of documented, profiled, borrowed, assumed, got guessed$"),
    ('FACT(clock_mhz, fast, assumed, "MHz", "s")', "expected a number or a product of numbers, got fast$"),
    ('FACT(clock_mhz, -1, assumed, "MHz", "s")', "expected a number or a product of numbers, got -1$"),
    ('FACT(clock_mhz, True, assumed, "MHz", "s")', "expected a number or a product of numbers, got True$"),
    ('FACT(l1_bytes, 1.5, assumed, "bytes", "s")', "l1_bytes: expected an integer, got 1.5$"),
    ('FACT(clock_mhz, 1, assumed, "MHz", "")', "expected a source, got an empty string$"),
    ('FACT(clock_mhz, 1, assumed, MHz, "s")', "expected a string, got MHz$"),
    ('FACT(clock_mhz, 1, assumed, "MHz")', 'expected FACT.field, value, status, "unit", "source"., .* got \'FACT'),
    ('FACT(clock_mhz, 1, assumed, "MHz", "s"', "expected FACT"),
    ('FACT(clock_mhz, 1, assumed, "MHz", "s)', "expected FACT"),
    ("clock_mhz = 5", "expected FACT"),
    ("#define FACT", "expected FACT"),
    ('FACT(ai_cores, 9, assumed, "cores", "s")', r"ai_cores stands at ascend310p1.def:4 already"),
    ('#include "no_such.def"', "ascend310p1.def: no file no_such.def to include"),
    ('#include "ascend310p1.def"', "ascend310p1.def: includes ascend310p1.def, which includes it"),
])  # fmt: skip
def test_a_bad_row_is_refused_with_its_place(tmp_path, row, message):
    with pytest.raises(ValueError, match=message):
        npu.load("ascend310p1", chip(tmp_path, row + "\n"))


@pytest.mark.parametrize(("row", "named"), [("queue_depth", "queue_depth"), ("vsel", "cost.vsel")])
def test_a_missing_row_is_refused(tmp_path, row, named):
    with pytest.raises(ValueError, match=rf"ascend310p1.def: no row for {named}$"):
        npu.load("ascend310p1", chip(tmp_path, drop=row))


def test_every_def_file_belongs_to_a_chip():
    reached = set()

    def visit(file):
        reached.add(file)
        for included in re.findall(r'#include "(.*)"', (FOLDER / file).read_text(encoding="utf-8")):
            visit(included)

    for name in npu.names():
        visit(f"{name}.def")
    assert reached == {path.name for path in FOLDER.glob("*.def")}


@pytest.mark.parametrize(("row", "word"), [
    ('FACT(clock, 1, assumed, "MHz", "s")', "clock"), ('COST(vfly, 1, 1, assumed, "cycles", "s")', "vfly"),
    ('FACT(clock_mhz, 1, guessed, "MHz", "s")', "guessed"), ('FACT(l1_bytes, 1.5, assumed, "bytes", "s")', "l1_bytes|1.5"),
    ('FACT(clock_mhz, 1, assumed, "MHz", "")', "where its value comes from"),
])  # fmt: skip
def test_a_bad_row_does_not_compile(tmp_path, row, word):
    folder = tmp_path / "hajax/targets"
    folder.mkdir(parents=True)
    assert clock_driver.compile_errors("native/emulator/timing/targets.cpp", chip(folder).parents[1]) == ""
    assert re.search(word, clock_driver.compile_errors("native/emulator/timing/targets.cpp", chip(folder, row + "\n").parents[1]))


def test_an_instruction_without_a_row_does_not_compile(tmp_path):
    folder = tmp_path / "hajax/targets"
    folder.mkdir(parents=True)
    errors = clock_driver.compile_errors("native/emulator/timing/targets.cpp", chip(folder, drop="vsel").parents[1])
    assert "an instruction has no COST row" in errors


def test_a_chip_is_specialised_by_its_value_or_its_name():
    made = npu.specialised("ascend310p1")
    assert made == npu.specialised(npu.load("ascend310p1"))
    assert made == dataclasses.replace(npu.load("ascend310p1"), scalar_load_cycles=0.0)
    with pytest.raises(ValueError, match=r"^target: expected one of ascend310b1, ascend310p1, ascend310p3, got 'ascend910'$"):
        npu.specialised("ascend910")
    with pytest.raises(TypeError, match=r"^target: expected one of ascend310b1, .* or an NpuTarget, got int$"):
        npu.specialised(3)
