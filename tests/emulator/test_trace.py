"""Timelines of hand-built event streams as Chrome trace JSON."""

import itertools
import json

import clock_driver
import pytest
from clock_driver import Core

from hajax import abi

CHIP = [
    "target ascend310p1", "fact clock_mhz 1000", "fact launch_cycles 1000", "fact argument_cycles 0", "fact gm_read_latency 100",
    "fact queue_depth 2",
]  # fmt: skip


@pytest.fixture
def trace(tmp_path_factory):
    """The trace of these cores."""
    driver = clock_driver.build(tmp_path_factory.getbasetemp().parent)

    def run(*cores):
        return json.loads(clock_driver.ask_text(driver, clock_driver.script(CHIP, cores, "trace")))

    return run


def test_the_trace_holds_every_instruction_and_an_arrow_a_flag(trace):
    core = Core().load(0, 320).set("MTE2", "V", 3).wait("MTE2", "V", 3).event("vadd", "V", units=4).barrier("ALL")
    found = trace(core, core)
    assert "modelled" in found["otherData"]["times"]
    assert found["otherData"]["kernel"] == 'a "kernel"'
    events = found["traceEvents"]
    by_phase = {phase: [e for e in events if e["ph"] == phase] for phase in "MXsf"}
    assert sum(map(len, by_phase.values())) == len(events)
    assert {(e["pid"], e["tid"]): e["args"]["name"] for e in by_phase["M"] if e["name"] == "thread_name"} == {
        (core, tid): name for core in (0, 1) for tid, name in enumerate(abi.names("pipes"))
    }
    mine = {e["name"]: e for e in by_phase["X"] if e["pid"] == 0}
    assert set(mine) == {"launch", "copy_gm_to_ubuf", "SetFlag MTE2 to V #3", "WaitFlag MTE2 to V #3", "vadd", "PipeBarrier ALL"}
    load = mine["copy_gm_to_ubuf"]
    assert (load["ts"], load["args"]["bytes"], load["args"]["path"], load["args"]["number"]) == (1.001, 320, "gm_to_ub", 1)
    assert mine["vadd"]["args"]["units"] == 4
    assert mine["launch"]["dur"] == 1.0
    assert mine["WaitFlag MTE2 to V #3"]["cat"] == "waiting"
    assert sorted(e["id"] for e in by_phase["s"]) == sorted(e["id"] for e in by_phase["f"]) == [1, 2]
    start, end = (next(e for e in by_phase[phase] if e["pid"] == 0) for phase in "sf")
    wait, set_ = mine["WaitFlag MTE2 to V #3"], mine["SetFlag MTE2 to V #3"]
    assert start["id"] == end["id"]
    assert (start["tid"], end["tid"]) == (set_["tid"], wait["tid"])
    assert start["ts"] == set_["ts"] < end["ts"] < wait["ts"] + wait["dur"]
    assert end["bp"] == "e"


def slices(found, **wanted):
    return [e for e in found["traceEvents"] if e["ph"] == "X" and all(e[key] == value for key, value in wanted.items())]


def test_scalar_work_and_a_full_queue_are_on_the_scalar_track(trace):
    core = Core().event("vadd", "V", scalar=25)
    for _ in range(3):
        core.event("vadd", "V", units=100)
    found = trace(core)
    (scalar,) = slices(found, name="scalar work")
    assert (scalar["tid"], scalar["ts"], scalar["dur"]) == (0, 1.0, 0.025)
    (full,) = slices(found, name="queue of V is full")
    assert (full["tid"], full["cat"]) == (0, "waiting")
    first, second = slices(found, name="vadd")[:2]
    assert full["ts"] + full["dur"] == pytest.approx(second["ts"])
    assert first["ts"] < second["ts"]


def test_instructions_of_a_pipe_do_not_overlap(trace):
    core = Core()
    for i in range(6):
        core.load(4096 * i, 4096).set("MTE2", "V", i % 3).wait("MTE2", "V", i % 3).event("vadd", "V", units=i)
    found = trace(core)
    for tid in range(6):
        times = sorted((e["ts"], e["dur"]) for e in slices(found, tid=tid))
        assert all(a + d <= b + 2e-4 for (a, d), (b, _) in itertools.pairwise(times))


def test_an_instruction_from_a_known_place_names_its_line(trace):
    found = trace(Core().load(0, 4096).event("vadd", "V"))  # the program knows an address of vadd only
    assert {e["name"] for e in slices(found) if "line" in e.get("args", {})} == {"vadd"}
    assert slices(found, name="vadd")[0]["args"]["line"] == "here.cpp:1"


def test_equal_runs_give_equal_text(trace):
    core = Core().load(0, 4096).set("MTE2", "V").wait("MTE2", "V").event("vadd", "V", units=3).event("sync_all", "S")
    found = trace(core, core)
    assert found == trace(core, core)
    assert len(slices(found, name="SyncAll")) == 2
