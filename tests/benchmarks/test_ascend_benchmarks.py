"""The benchmark programs of the emulated chip on small problems, and what they count and compare with."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

PROGRAMS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(PROGRAMS))

import _instances  # noqa: E402
import _macs  # noqa: E402
import _recurrence  # noqa: E402

from hajax import conformance  # noqa: E402
from hajax.plans.program import Step  # noqa: E402

ACCURACY = {
    "mechanism", "B", "T", "Hk", "Hv", "Dk", "Dv", "decay", "output_nmse", "state_nmse", "saturations", "findings",
}  # fmt: skip
ABLATION = {
    "mechanism", "T", "switches", "gm_bytes", "l1_to_l0_bytes", "transform_bytes", "macs_useful", "macs_split",
    "macs_bookkeeping", "modelled_cycles",
}  # fmt: skip


def report(program, *arguments, codes=(0,)):
    command = [sys.executable, str(PROGRAMS / program), "--json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode in codes, done.stderr
    found = json.loads(done.stdout)
    assert set(found) >= {"machine", "rows", "missing"}
    return found


def small(mechanism, decay):
    """An instance of two rows with three sequences each and grouped heads, T no multiple of a chunk."""
    return _instances.Instance(7, mechanism, 2, 3, 1, 2, 16, 24, 150, decay, "half_alike", "sigmoid", True)


@pytest.mark.parametrize(("mechanism", "decay"), [(m, decay) for m, decays in _instances.DECAYS.items() for decay in decays])
def test_the_chunkwise_rule_is_the_token_recurrence(mechanism, decay):
    arrays = _instances.arrays_of(small(mechanism, decay))
    output, states = _recurrence.chunkwise(arrays)
    rest = {name: array for name, array in arrays.items() if name not in ("bounds", "state_in")}
    for row, bounds in enumerate(arrays["bounds"]):
        one = {name: array[row : row + 1] for name, array in rest.items()}
        expected, final = conformance.recurrence(one | {"initial_state": arrays["state_in"][row], "cu_seqlens": bounds})
        assert conformance.nmse(output[row : row + 1], expected) < 1e-26
        assert conformance.nmse(states[row], final) < 1e-26


@pytest.mark.parametrize("mechanism", _instances.MECHANISMS)
def test_instances_are_many_kinds_and_equal_every_time(mechanism):
    all_of_them = _instances.instances(mechanism, 360)
    assert all_of_them == _instances.instances(mechanism, 360)
    assert all_of_them[:20] == _instances.instances(mechanism, 20)
    assert {one.decay for one in all_of_them} == set(_instances.DECAYS[mechanism])
    assert {one.keys for one in all_of_them} == set(_instances.KEYS)
    tokens = [one.tokens for one in all_of_them]
    assert min(tokens) == 1 and max(tokens) == 4096 and sorted(tokens)[len(tokens) // 2] < 1024
    assert {one.value_heads // one.key_heads for one in all_of_them} >= {1, 2, 4}
    assert any(one.sequences > 1 for one in all_of_them) and any(not one.state for one in all_of_them)
    for one in all_of_them:
        assert one.batch * one.tokens * one.value_heads * one.value_dim >= 1024, str(one)
    first, again = (_instances.arrays_of(all_of_them[3]) for _ in range(2))
    assert all((first[name] == again[name]).all() for name in first)


@pytest.mark.parametrize("mechanism", _instances.MECHANISMS)
def test_rounding_the_output_alone_stays_below_the_bound(mechanism):
    """What no kernel with fp16 outputs can avoid leaves room: no instance's values are so few that it does not."""
    for one in _instances.instances(mechanism, 360):
        if one.tokens <= 16:
            expected, _ = _recurrence.chunkwise(_instances.arrays_of(one))
            assert conformance.nmse(expected.astype(np.float16), expected) < 5.1e-8, str(one)


def test_macs_of_a_step_by_purpose():
    fractal = 16**3
    plain = Step("mmad", count=3, p=(2, 4, 5, 0, 0, 0, 0, 0), label="Q S")
    assert _macs.of_step(plain) == _macs.Macs(3 * 40 * fractal)
    both = dataclasses.replace(plain, index=8, p=(2, 4, 5, 0, 0, 0, 0, 8))
    assert _macs.of_step(both) == _macs.Macs(3 * 40 * fractal, 2 * 3 * 40 * fractal)
    assert _macs.of_step(dataclasses.replace(both, label="sums")) == _macs.Macs(0, 0, 9 * 40 * fractal)
    triangle = Step("mmad", count=4, p=(1, 1, 8, 1, 8, 8, 16, 0), label="K K^T")
    assert _macs.of_step(triangle) == _macs.Macs(10 * 8 * fractal)
    deeper = Step("mmad", count=4, p=(1, 8, 1, 8, 4, 0, 2, 0), label="P x")
    assert _macs.of_step(deeper) == _macs.Macs((1 + 2 + 3 + 4) * 8 * fractal)


@pytest.mark.native
def test_accuracy_json():
    found = report("accuracy.py", "--instances", "4", "--mechanism", "gdn")
    assert len(found["rows"]) == 4 and found["missing"] == []
    for row in found["rows"]:
        assert set(row) == ACCURACY
        assert row["findings"] == row["saturations"] == 0
        assert 0 < row["output_nmse"] < 5.23e-8 and row["state_nmse"] < 9.38e-12
    (summary,) = found["summary"]
    assert summary["worst_output"]["nmse"] == max(row["output_nmse"] for row in found["rows"])
    assert sum(of["instances"] for of in summary["by_decay"].values()) == 4


@pytest.mark.native
def test_core_bytes_json():
    found = report("core_bytes.py", "--mechanism", "gdn", "--lengths", "512", "--heads", "16x16")
    (row,) = found["rows"]
    assert row["launches"] == 1 and row["within"]
    assert 1 <= row["ratio"] <= 1.02
    assert row["gm_bytes"] == row["item_bytes"] + row["plan_bytes"]


def test_planning_json():
    settings = ("--mechanism", "gdn", "--schedules", "hajax,no_such", "--heads", "1x1", "--lengths", "64", "--runs", "1")
    found = report("planning_time.py", *settings)
    (row,) = found["rows"]
    assert set(row) == {"mechanism", "schedule", "T", "Hk", "Hv", "programs", "runs", "cold_ms", "hit_ms", "within"}
    assert row["programs"] >= 1 and 0 < row["hit_ms"] < row["cold_ms"]
    (absent,) = found["missing"]
    assert absent["schedule"] == "no_such" and "no_such" in absent["reason"]


@pytest.mark.native
def test_tails_json():
    found = report("tails.py", "--mechanism", "gdn", "--cases", "2x1,2x2", "--lengths", "128", codes=(0, 1))
    one, two = found["rows"]
    assert len(one["core_macs"]) == 1 and len(two["core_macs"]) == 2
    assert sum(one["core_macs"]) > 0 and one["imbalance_macs"] == 1
    assert one["over_unsplit"] == pytest.approx(1, abs=0.02) == one["over_executed"]


@pytest.mark.native
def test_utilisation_json():
    found = report("utilisation.py", "--mechanism", "gdn", "--length", "128", "--heads", "2x2", "--no-sensitivity")
    (row,) = found["rows"]
    assert row["useful_macs"] == 2 * 2 * 5 * 64 * 128 * 128
    assert 0 < row["utilisation"] < row["bounds"][row["critical"]] < 1
    for pipe, busy in row["busy_cycles"].items():
        assert busy + row["waiting_cycles"][pipe] == pytest.approx(row["cycles"], abs=2)


@pytest.mark.native
def test_ablation_json():
    found = report("ablation.py", "--mechanism", "gdn", "--length", "128", "--heads", "20x20")
    rows = {row["switches"]: row for row in found["rows"]}
    assert all(set(row) >= ABLATION for row in found["rows"])
    last = rows["mapping, order, layouts, dataflow"]
    assert last["macs_useful"] > 0 and last["macs_split"] > 0 and last["macs_bookkeeping"] > 0
    told = set(rows) | {absent["switches"] for absent in found["missing"]}
    assert told >= {"none", "mapping", "mapping, order", "mapping, order, layouts"}
    assert found["rows"][0]["helps"] is None and rows["none"]["launches"] == 2
    assert all(absent["reason"] for absent in found["missing"])


@pytest.mark.native
@pytest.mark.parametrize(("program", "arguments", "named"), [
    ("accuracy.py", ("--instances", "0"), "--instances"), ("accuracy.py", ("--instances", "3", "--only", "3"), "--only"),
    ("core_bytes.py", ("--heads", "3x4"), "--heads"), ("tails.py", ("--lengths", "x"), "--lengths"),
    ("utilisation.py", ("--length", "0"), "--length"), ("planning_time.py", ("--runs", "0"), "--runs"),
])  # fmt: skip
def test_wrong_settings_are_named(program, arguments, named):
    done = subprocess.run([sys.executable, str(PROGRAMS / program), *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert f"{named}: expected" in done.stderr
