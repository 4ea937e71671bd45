"""benchmarks/path_bandwidth.py: its JSON, and that the copy loops' modelled bandwidths are within 15 % of the profiled ones."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hajax.backends import LibraryError, sim

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "path_bandwidth.py"
TILE_BYTES = 192 * 1024


@pytest.fixture
def run():
    try:
        sim.open_sim_library()
    except LibraryError as error:
        pytest.skip(f"libhajax_sim: {error}")

    def start(*arguments):
        return subprocess.run([sys.executable, str(PROGRAM), *arguments], capture_output=True, text=True, timeout=300)

    return start


@pytest.mark.parametrize("target", ["ascend310p1", "ascend310p3"])
def test_the_modelled_bandwidths_are_within_15_percent(run, target):
    process = run("--json", "--rounds", "2", "--target", target)
    assert process.returncode == 0, process.stderr
    report = json.loads(process.stdout)
    assert set(report) == {"machine", "rows", "missing"}
    assert report["missing"] == []
    rows = {row["path"]: row for row in report["rows"]}
    assert {path: row["profiled_gb_per_s"] for path, row in rows.items()} == {
        "ub_to_l1": 205, "gm_to_l1": 95, "ub_to_gm_to_l1": 48,
    }  # fmt: skip
    for row in rows.values():
        assert set(row) == {"path", "target", "modelled_gb_per_s", "profiled_gb_per_s", "ratio", "bytes"}
        assert row["bytes"] == 2 * 5 * TILE_BYTES  # of the second half of the rounds
        assert 0.85 < row["ratio"] < 1.15
        assert row["ratio"] == pytest.approx(row["modelled_gb_per_s"] / row["profiled_gb_per_s"], abs=1e-3)


def test_the_table_says_that_nothing_was_measured(run):
    process = run("--rounds", "1")
    assert process.returncode == 0, process.stderr
    assert "Nothing here was measured on a device" in process.stdout


def test_bad_arguments(run):
    process = run("--rounds", "0")
    assert process.returncode == 2
    assert "--rounds: expected at least 1, got 0" in process.stderr
