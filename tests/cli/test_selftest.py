"""`hajax selftest` on the emulated chip and on torch's CPU: what it compares, prints and exits with; and without a device."""

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from hajax import _selftest, cli
from hajax._selftest import command, runners
from hajax.backends import ascend, ascend_device

ROOT = Path(__file__).parents[2]


@pytest.fixture
def hajax(monkeypatch, capsys):
    """Runs `hajax selftest ARGUMENTS` in this process: (exit code, standard output, standard error)."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["hajax", "selftest", *map(str, arguments)])
        code = 0
        try:
            cli.main()
        except SystemExit as stop:
            code = stop.code or 0
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def pasted(out):
    """The report in the block."""
    lines = out.splitlines()
    return json.loads(lines[lines.index("--- hajax selftest ---") + 1])


def test_the_emulated_chip_passes_and_says_that_it_is_one(hajax):
    code, out, error = hajax("--backend", "sim")
    assert code == 0, error
    assert "(EMULATED)" in out and "EMULATED by the model of the chip, not measured on a device" in out
    assert "FAIL" not in out and out.rstrip().endswith("--- end ---")
    shown = [line.split() for line in (ROOT / "docs/npu.md").read_text(encoding="utf-8").splitlines() if line.startswith("ok ")]
    ran = [line.split() for line in out.splitlines() if line.startswith("ok ")]
    assert [line[:-5] for line in shown] == [line[:-5] for line in ran]  # without errors and times
    report = pasted(out)
    assert report["ok"] and report["device"]["emulated"] and report["device"]["soc"] == "Ascend310P1"
    assert {"hajax", "jax", "torch", "torch_npu", "cann", "abi", "library", "selftest"} <= set(report)
    assert {row["op"] for row in report["rows"]} == {
        "gated_delta_rule", "kda", "delta_rule", "gated_linear_attention", "retention", "linear_attention", "gated_delta_rule_2",
    }  # fmt: skip
    for row in report["rows"]:
        assert row["path"] == "acl" and row["launches"] >= 1
        assert 0 < row["output_nmse"] < 1e-7 and 0 < row["state_nmse"] < 1e-11
        assert 0.5 < row["time_us"] / row["modelled_us"] < 1.5  # the emulator's clock beside the planner's
        assert row["modelled_cycles"] > 1000 and len(row["plan"]) == 12


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("wrong", [lambda x: x * 1.01, lambda x: np.where(x == x.max(), np.nan, x)], ids=["off", "nan"])
def test_a_wrong_result_fails(hajax, monkeypatch, which, wrong):
    right = ascend_device.Device.run

    def run(self, call, arrays, **options):
        results = list(right(self, call, arrays, **options))
        if arrays["query"].shape[1] == 1:
            results[which] = wrong(results[which])
        return tuple(results)

    monkeypatch.setattr(ascend_device.Device, "run", run)
    code, out, _ = hajax("--backend", "sim")
    assert code == 1 and "FAILED: 11 of 13 cases" in out
    assert [row["case"].split()[0] for row in pasted(out)["rows"] if not row["ok"]] == ["T=1", "T=1"]


def test_without_a_device_it_says_what_is_missing(hajax, monkeypatch, tmp_path):
    monkeypatch.setattr("hajax.report._npu.glob.glob", lambda pattern: [])
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path / "none"))
    monkeypatch.setenv("HAJAX_ASCEND_LIBRARY", str(tmp_path / "none.so"))
    code, out, error = hajax()
    assert code == 2 and not out
    assert "backend npu: device: no /dev/davinci*" in error and "cann: " in error and "library: " in error
    assert len(error.strip().splitlines()) == 1


def test_on_a_device_the_kernel_runs_without_torch_npu_and_the_rest_is_named(hajax, monkeypatch):
    if importlib.util.find_spec("torch_npu") is not None:
        pytest.skip("torch_npu is here")
    facts = {"cann": {"version": "9"}, "missing": {"torch_npu": "not installed"}}
    monkeypatch.setattr(command, "diagnose_npu", lambda: facts)
    monkeypatch.setattr(ascend, "open_ascend_library", ascend.open_emulated_library)
    code, out, error = hajax("--small", "--repeats", 2, "--backend", "npu")
    assert code == 1, error
    report = pasted(out)
    assert "NOT RUN: operators through torch_npu" in out and not report["ok"] and report["cann"] == "9"
    assert all(row["ok"] and row["path"] == "acl" for row in report["rows"]) and len(report["rows"]) == 13


def test_arguments_are_checked(hajax):
    code, _, error = hajax("--backend", "gpu")
    assert code == 2 and "backend: expected one of npu, torch, sim, got 'gpu'" in error


def test_long_cases_are_timed_and_only_looked_at():
    row = runners.Row("kda", "T=4096", "acl", None, None, True, 10.0)
    assert row.ok and not runners.Row("kda", "T=4096", "acl", None, None, False, 10.0).ok
    assert not runners.Row("kda", "T=1", "acl", 1.1e-6, 0.0, True, 1.0).ok
    assert not runners.Row("kda", "T=1", "acl", 0.0, 1.1e-8, True, 1.0).ok


@pytest.mark.torch
def test_torch_runs_every_operator():
    pytest.importorskip("torch", reason="needs torch")
    report = _selftest.run(_selftest.Request("torch", repeats=1))
    assert report["ok"], report
    assert {"causal_conv1d", "l2norm", "gated_rms_norm", "kda"} <= {row["op"] for row in report["rows"]}
    assert {row["path"] for row in report["rows"]} == {"torch"} and "device" not in report


@pytest.mark.parametrize(
    ("fault", "said"),
    [("launch:3", "launch_error"), ("device_lost:2", "device_lost"), ("malloc:2", "no_memory"), ("execute:2", "stream_error")],
)
def test_a_case_that_fails_on_the_device_is_told_and_the_others_still_run(hajax, fault, said):
    library = ascend.open_emulated_library().lib
    assert library.hajax_sim_inject(fault.encode()) == 0
    try:
        code, out, _ = hajax("--backend", "sim")
    finally:
        library.hajax_sim_inject(b"")
    rows = pasted(out)["rows"]
    failed = [row for row in rows if not row["ok"]]
    assert code == 1 and len(rows) == 13 and len(failed) == 1
    assert said in failed[0]["error"] and "FAILED: 12 of 13 cases" in out
