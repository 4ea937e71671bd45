"""The comparison of six systems on small problems: rows, claims, what is extended, the published table, sensitivity."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

PROGRAMS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(PROGRAMS))

import _cells  # noqa: E402
import _claims  # noqa: E402
import _macs  # noqa: E402
import _published  # noqa: E402
import ascend_core  # noqa: E402
import sensitivity  # noqa: E402

os.environ.pop("HAJAX_CACHE", None)  # the programs turn the cache of plans off for themselves
pytestmark = pytest.mark.slow

ROW = {
    "system", "mechanism", "target", "model", "T", "Hk", "Hv", "operands", "gm_bytes", "l1_to_l0_bytes", "macs", "macs_split",
    "macs_bookkeeping", "transform_bytes", "launches", "gm_workspace_bytes", "gm_memory_bytes", "peak_kernel_bytes", "peaks",
    "modelled_cycles", "modelled_ms", "modelled_mj", "matrix_utilisation", "output_nmse", "state_nmse", "saturated",
    "checked_tokens", "extended",
}  # fmt: skip
SMALL = _cells.Place("gdn", "ascend310p1", 2, 2)


def row(system, tokens=4096, mechanism="gdn", operands="split", **figures):
    """One of made-up figures."""
    usual = {"gm_bytes": 100, "modelled_cycles": 100, "output_nmse": 4.4e-8, "state_nmse": 1e-12, "saturated": 0}
    place = {"mechanism": mechanism, "target": "ascend310p1", "Hk": 16, "Hv": 16, "T": tokens}
    return {"system": system, **place, "operands": operands, **usual, **figures}


def holds(rows, auto=(), agreement=(), extension=()):
    """Which claims hold, by a word of each."""
    found = _claims.claims(list(rows), list(auto), list(agreement), list(extension))
    words = ("GM bytes", "modelled time of the six at", "than hanpu", "fp64", "one another", "auto", "extended")
    return {word: [claim["holds"] for claim in found if word in claim["claim"]] for word in words}


def test_claims_follow_the_rows():
    good = [row("hajax", gm_bytes=90, modelled_cycles=50), row("hanpu")]
    assert holds(good) == {
        "GM bytes": [True], "modelled time of the six at": [True], "than hanpu": [True], "fp64": [True], "one another": [],
        "auto": [], "extended": [],
    }  # fmt: skip
    assert holds([row("hajax", gm_bytes=101), row("hanpu")])["GM bytes"] == [False]
    assert holds([row("hajax", modelled_cycles=101), row("hanpu")])["modelled time of the six at"] == [False]
    assert holds([row("hajax", modelled_cycles=70), row("hanpu")])["than hanpu"] == [False]
    assert holds([row("hajax", tokens=512, modelled_cycles=101), row("hanpu", tokens=512)])["modelled time of the six at"] == []
    for wrong in ({"output_nmse": 6e-8}, {"state_nmse": 1e-11}, {"saturated": 1}):
        assert holds([row("hajax"), row("hanpu", **wrong)])["fp64"] == [False]
    assert holds([row("hanpu", operands="single", output_nmse=1e-6, state_nmse=1e-6)])["fp64"] == [True]


def test_claims_of_agreement_auto_and_extension():
    place = {"mechanism": "gdn", "target": "ascend310p1", "Hk": 16, "Hv": 16, "T": 512}
    apart = {**place, "operands": "split", "most_apart_nmse": 1e-9}
    assert holds([], agreement=[apart])["one another"] == [True]
    assert holds([], agreement=[apart, {**apart, "most_apart_nmse": 1e-7}])["one another"] == [False]
    rows = [row("hajax", tokens=512, modelled_cycles=102), row("fla", tokens=512)]
    assert holds(rows, auto=[{**place, "schedule": "fla"}])["auto"] == [True]
    assert holds(rows, auto=[{**place, "schedule": "hajax"}])["auto"] == [False]
    (claim,) = [c for c in _claims.claims(rows, [{**place, "schedule": "fla"}], [], []) if "auto" in c["claim"]]
    (other,) = claim["figures"]["hajax_does_not_lead"]
    assert (other["best"], other["auto"], other["hajax_over_best"]) == ("fla", "fla", 1.02)
    off = {"gm_bytes": 1e-4, "modelled_cycles": -5e-3}
    assert holds([], extension=[{**place, "system": "fla", "off": off}])["extended"] == [True]
    assert holds([], extension=[{**place, "system": "fla", "off": off | {"gm_bytes": 2e-3}}])["extended"] == [False]
    assert holds([], extension=[{**place, "system": "fla", "off": off | {"modelled_cycles": -2e-2}}])["extended"] == [False]


def test_inside_and_outside_of_what_was_published():
    assert _published.outside((0.30, 0.40), (0.25, 0.45), 3) == (0, 0)
    assert _published.outside((0.30, 0.40), (0.35, 0.45), 3) == (pytest.approx(0.05), 0)
    assert _published.outside((0.30, 0.50), (0.35, 0.45), 3) == (pytest.approx(0.05), pytest.approx(0.05))
    assert _published.outside((0.1747, 0.1754), (0.175, 0.175), 3) == (0, 0)
    assert _published.outside((0.174, 0.175), (0.175, 0.175), 3) == (pytest.approx(0.001), 0)


def test_reductions_are_of_like_cells():
    counted = {"l1_to_l0_bytes": 1, "macs": 1, "macs_split": 1, "macs_bookkeeping": 1, "gm_memory_bytes": 1}
    rows = [
        row("hanpu", gm_bytes=30), row("fla", gm_bytes=100), row("hanpu", tokens=512, gm_bytes=40),
        row("fla", tokens=512, gm_bytes=80), row("hanpu", tokens=1024, gm_bytes=1),
    ]  # fmt: skip
    rows = [counted | one for one in rows]
    (one,) = [found for found in _published.compare(rows) if found["figure"] == "gm_bytes_reduction_vs_fla"]
    assert one["ours"] == [0.5, 0.7] and one["published"] == [0.655, 0.848] and not one["inside"]
    assert (one["below_by"], one["above_by"]) == (0.155, 0)
    assert one["ours_at"][0].endswith("T=512") and one["system"] == "hanpu" and one["operands"] == "split"


def test_every_published_figure_says_why_ours_may_differ():
    for figure in _published.FIGURES:
        assert figure.about and len(figure.reasons) > 80, figure.name


@pytest.mark.parametrize("mechanism", ["gdn", "kda"])
@pytest.mark.parametrize("operands", list(_cells.PARTS))
@pytest.mark.parametrize("system", _cells.SYSTEMS)
def test_macs_of_the_plan_are_those_counted(mechanism, operands, system):
    if _cells.lacking(system, operands):
        pytest.skip("no such form")
    place = _cells.Place(mechanism, "ascend310p1", 1, 2)
    macs = _cells.macs(place, 128, system, operands)
    assert macs.total == _cells.count(place, 128, system, operands)["executed_macs"]
    assert macs.useful > 0 and macs.bookkeeping > 0


def test_useful_macs_are_one_round_of_each_product():
    """Of 16 heads side by side no product is repeated: what needs no state in whole rows, triangles of 10 blocks of 16."""
    place = _cells.Place("gdn", "ascend310p1", 10, 10)
    unit = 10 * 64 * 128 * 128 * 2
    triangle = 10 / 32
    expected = {"hanpu": 3 + 4 * triangle, "flashqla": 3 + 4 * triangle, "fla": 3 + 5 * triangle, "vllm_ascend": 3 + 5 * triangle}
    for system, products in expected.items():
        for operands in _cells.PARTS:
            assert _cells.macs(place, 128, system, operands).useful == products * unit, (system, operands)
    assert _cells.macs(place, 128, "fla", "single").split < _cells.macs(place, 128, "fla", "split").split


def test_twice_marks_products_done_for_another():
    assert not _macs.TWICE & _macs.USEFUL


@pytest.mark.native
@pytest.mark.parametrize("system", ["hajax", "fla", "flashqla"])
def test_counts_that_are_extended_are_those_of_a_run(system):
    place = _cells.Place("gdn", "ascend310p1", 1, 1)
    got, lengths = _cells.counted(place, 2560, system, "split", 1280)
    assert lengths == [640, 1280]
    run = _cells.count(place, 2560, system, "split")
    for name in ("gm_bytes", "l1_to_l0_bytes", "executed_macs", "transform_bytes", "launches"):
        assert got[name] == run[name], name
    assert got["modelled_cycles"] == pytest.approx(run["modelled_cycles"], rel=0.02)
    assert _cells.counted(place, 640, system, "split", 1280) == (_cells.count(place, 640, system, "split"), None)


def test_lines_go_through_both_lengths():
    sums = dict.fromkeys(_cells.ADDED, 10) | {"launches": 4, "peak_kernel_bytes": 7}
    more = {name: 30.0 if name.startswith("modelled") else 30 for name in _cells.ADDED} | {"launches": 4, "peak_kernel_bytes": 8}
    found = _cells.extend(sums, more, (64, 128), 256)
    assert all(found[name] == 70 for name in _cells.ADDED)
    assert found["launches"] == 4 and found["peak_kernel_bytes"] == 8


@pytest.mark.native
def test_runs_are_shared_only_where_plans_do_the_same():
    checker = _cells.Checker(SMALL)
    long, longer = (checker.check(tokens, "hajax", "split") for tokens in (640, 704))
    assert long is longer
    assert checker.check(128, "hajax", "split") is not long
    assert checker.check(640, "hanpu", "split") is not long
    single = checker.check(640, "hanpu", "single")
    assert single.output_nmse > 2 * checker.check(640, "hanpu", "split").output_nmse


def test_most_apart():
    one = np.ones((4, 4), np.float16)
    assert _cells.most_apart([one, one]) == 0
    assert _cells.most_apart([one, one, 3 * one]) == pytest.approx(4 / 9)


def report(program, *arguments, codes=(0,)):
    command = [sys.executable, str(PROGRAMS / program), "--json", "--jobs", "1", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode in codes, done.stderr
    return json.loads(done.stdout)


@pytest.mark.native
def test_ascend_core_json():
    found = report("ascend_core.py", "--mechanism", "gdn", "--lengths", "64", "--heads", "1x1", "--targets", "ascend310p1")
    assert all(set(one) == ROW for one in found["rows"])
    told = {(one["system"], one["operands"]) for one in found["rows"]}
    assert told == {(system, kind) for system in _cells.SYSTEMS for kind in _cells.PARTS} - {("hajax", "single")}
    assert [absent["system"] for absent in found["missing"]] == ["hajax"]
    for one in found["rows"]:
        assert one["peak_kernel_bytes"] == sum(one["peaks"].values()) and one["extended"] is None
        assert (one["gm_workspace_bytes"] == 0) == (one["system"] in ("hajax", "hanpu"))
        assert one["output_nmse"] < (5.23e-8 if one["operands"] == "split" else 1e-5)
    assert {claim["holds"] for claim in found["claims"]} == {True}
    assert {one["system"] for one in found["beside"]} == {"flashqla_segments"}
    assert found["auto"][0]["schedule"] in _cells.SYSTEMS and found["published"]


def test_equal_problems_stand_for_each_model():
    names = [one["model"] for one in ascend_core.for_models(row("fla"))]
    assert names == ["Qwen3.5-0.8B", "Qwen3.5-2B"]
    (one,) = ascend_core.for_models(row("fla") | {"Hv": 48})
    assert one["model"] == "16x48"


def test_constants_are_dearer_as_costs_rates_shares_and_depths():
    chip = _cells.target_of("ascend310p1")
    slower = {"launch_cycles": 2, "gm_ddr_read_rate": 0.5, "queue_depth": 0.5, "sustained_share": 0.5}
    for name, factor in slower.items():
        constant = sensitivity.Constant(name)
        assert constant.dearer == factor
        assert getattr(constant.on(chip, factor), name) == getattr(chip, name) * factor
    assert sensitivity.Constant("sustained_share").on(chip, 2).sustained_share == 1
    changed = sensitivity.Constant("cost.vadd").on(chip, 2)
    assert changed.costs["vadd"] == tuple(2 * cost for cost in chip.costs["vadd"]) and changed.costs["vmul"] == chip.costs["vmul"]
    assert {name for name in sensitivity.FACTS if not hasattr(chip, name)} == set()


def test_cheaper_chips_are_left_out_only_where_they_change_nothing():
    base = {"a": 100.0, "b": 110.0, "c": 300.0}
    floor = sensitivity.floor_of(base, {"a": 120.0, "b": 116.0, "c": 320.0})
    assert floor == {"a": 90, "b": 107, "c": 290}
    assert sensitivity.undecided(base, floor) == ()
    assert sensitivity.undecided(base, floor | {"b": 99.0}) == ("a", "b")
    assert sensitivity.undecided(base, floor | {"b": 99.0}, frozenset("ab")) == ()


def test_claims_of_sensitivity():
    usual = {"constant": "mad", "factor": 2, "ranking": ["hajax", "fla"], "changed": False, "measured": False}
    base = {SMALL: {"hajax": 1.0, "fla": 2.0, "vllm_ascend": 9.0}}

    def told(*rows, of=base):
        return [claim["holds"] for claim in sensitivity.claims([usual | one for one in rows], of)]

    assert told({"over_bound": 0.01}) == [True, True, True, True]
    assert told({"ranking": ["fla", "hajax"], "changed": True}) == [False, False, True, True]
    assert told({"ranking": ["fla", "hajax"], "changed": True, "measured": True}) == [False, True, True, True]
    assert told({"over_bound": -0.01}) == [True, True, True, False]
    assert told({}, of={SMALL: {"hajax": 1.0, "vllm_ascend": 1.9}}) == [True, True, False, True]


@pytest.mark.native
def test_sensitivity_json():
    found = report("sensitivity.py", "--quick", "--mechanism", "gdn", "--length", "64", "--heads", "1x1", codes=(0, 1))
    assert len(found["rows"]) == 2 * sensitivity.QUICK and len(found["base"]) == 1
    for one in found["rows"]:
        assert one["status"] in ("documented", "profiled", "borrowed", "assumed")
        assert set(one["ranking"]) == set(_cells.SYSTEMS) - {"vllm_ascend"}
        assert all((one["cycles"][system] is None) == (system in one["bounded"]) for system in one["cycles"])
    assert found["slight"] and found["not_run"] and len(found["claims"]) == 4


@pytest.mark.parametrize(
    ("program", "arguments", "named"),
    [
        ("ascend_core.py", ("--lengths", "0"), "--lengths"), ("ascend_core.py", ("--heads", "3x4"), "--heads"),
        ("ascend_core.py", ("--targets", "ascend999"), "--targets"), ("sensitivity.py", ("--length", "x"), "--length"),
    ],
)  # fmt: skip
def test_wrong_settings_are_named(program, arguments, named):
    done = subprocess.run([sys.executable, str(PROGRAMS / program), *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert f"{named}: expected" in done.stderr
