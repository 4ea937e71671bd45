"""Cores that wait at SyncAll for one that never comes are all let go, however few host threads play them."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """With sanitizers."""
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    made = tmp_path_factory.mktemp("barrier") / "barrier_program"
    sources = [ROOT / "tests/emulator/barrier_program.cpp", ROOT / "native/emulator/core/barrier.cpp"]
    flags = ["-std=c++17", "-O1", "-pthread", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-I", ROOT]
    subprocess.run([compiler, *flags, *sources, "-o", made], check=True)
    return made


def told(program, *arguments):
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=True, timeout=20)
    return done.stdout.splitlines()


@pytest.mark.parametrize("threads", [1, 2, 3, 16])
@pytest.mark.parametrize(("cores", "absent"), [(2, 0), (3, 2), (10, 0), (10, 4), (10, 9)])
@pytest.mark.parametrize(("how", "others"), [("fails", "aborted"), ("ends", "waited for {}")])
def test_one_that_never_comes_ends_the_wait_of_all_others(program, how, others, cores, absent, threads):
    """And each is told the same, whichever of them wakes first."""
    wanted = [others.format(absent)] * cores
    wanted[absent] = "absent"
    for _ in range(5):
        assert told(program, cores, threads, absent, how) == wanted


@pytest.mark.parametrize("threads", [1, 2, 16])
def test_cores_that_all_come_go_on(program, threads):
    assert told(program, 10, threads, -1, "ends") == ["came"] * 10
