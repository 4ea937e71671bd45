"""`hajax sim`: arguments as text, results as files, tables and JSON; whatever is wrong is said, with exit code 2."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hajax import _sim_command, abi, cli
from hajax.backends import sim
from hajax.targets import npu

KERNELS = Path(__file__).parent / "kernels.cpp"
X = np.arange(100, dtype=np.int32)


@pytest.fixture
def hajax(monkeypatch, capsys, tmp_path):
    """Runs `hajax sim ARGUMENTS` in this process, in a folder with x.npy: (exit code, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", X)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["hajax", "sim", *map(str, arguments)])
        code = 0
        try:
            cli.main()
        except SystemExit as stop:
            code = stop.code or 0
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_a_kernel_runs_on_npy_files_and_its_outputs_are_saved(hajax):
    code, out, error = hajax("run", KERNELS, "--kernel", "add", "--args", "x.npy", "y.npy:int32[10,10]", 100, -3, "--blocks", 4)
    assert (code, error) == (0, "")
    np.testing.assert_array_equal(np.load("y.npy"), (X - 3).reshape(10, 10))
    for part in ("add on 4 cores of ascend310p1", "y.npy", "counted, exact", "gm_to_s", "modelled, not measured on a device"):
        assert part in out
    assert sorted(os.listdir(".")) == ["x.npy", "y.npy"]


def test_json_is_one_object_with_every_count(hajax):
    arguments = ("x.npy", "y:int32[110]", 0x64, 1)
    code, out, _ = hajax("run", KERNELS, *arguments, "--kernel", "add", "--json", "--target", "ascend310p3", "--threads", 1)
    report = json.loads(out)
    assert code == 0
    assert (report["kernel"], report["target"], report["blocks"]) == ("add", "ascend310p3", 1)
    assert report["counts"]["scalar_load"] == 100
    assert set(abi.names("counts")) | set(abi.names("paths")) | set(abi.names("instructions")) < set(report["counts"])
    assert set(report["timing"]) == set(abi.names("timing"))
    assert report["timing_and_busy_cycles_are"] == _sim_command.MODELLED
    assert [array["name"] for array in report["arrays"]] == ["x", "y"]
    assert report["arrays"][1] == {"name": "y", "dtype": "int32", "shape": [110], "file": None, "unwritten_bytes": 40}


def test_save_keeps_outputs_and_changed_inputs(hajax):
    np.save("same.npy", X)
    assert hajax("run", KERNELS, "--kernel", "add", "same.npy", "x.npy", 100, 5, "--save", "out/deep")[0] == 0
    assert os.listdir("out/deep") == ["x.npy"]
    np.testing.assert_array_equal(np.load("out/deep/x.npy"), X + 5)
    np.testing.assert_array_equal(np.load("x.npy"), X)
    assert hajax("run", KERNELS, "--kernel", "add", "x.npy", "z:int32[100]", 100, 5, "--save", "out")[0] == 0
    assert sorted(os.listdir("out")) == ["deep", "z.npy"]


def test_an_output_may_start_as_zeros(hajax):
    arguments = ("run", KERNELS, "--kernel", "add", "--json")
    assert hajax(*arguments, "a:int32[8]", "b:int32[8]", 8, 1)[0] == 2
    assert hajax(*arguments, "a:int32[8]=0", "b.npy:int32[8]", 8, 1)[0] == 0
    assert np.load("b.npy").tolist() == [1] * 8


def test_the_only_kernel_of_a_source_needs_no_name_and_a_macro_reaches_it(hajax):
    Path("own").mkdir()
    Path("own/own.h").write_text("#ifndef FINE\n#error not fine\n#endif\n")
    Path("one.cpp").write_text(KERNELS.read_text().split("// The halves")[0] + '\n#include "own.h"\n')
    arguments = ("run", "one.cpp", "x.npy", "y.npy:int32[100]", 100, 1, "-I", "own")
    assert hajax(*arguments, "-D", "FINE")[0] == 0
    code, _, error = hajax(*arguments)
    assert code == 2
    assert "one.cpp does not compile" in error
    assert "not fine" in error


def test_a_trace_is_written(hajax):
    assert hajax("run", KERNELS, "--kernel", "add", "x.npy", "y:int32[100]", 100, 1, "--trace", "t.json")[0] == 0
    assert json.loads(Path("t.json").read_text())["traceEvents"]
    assert sorted(os.listdir(".")) == ["t.json", "x.npy"]


@pytest.mark.parametrize("as_json", [False, True])
def test_a_fault_is_one_readable_block(hajax, as_json):
    code, out, error = hajax("run", KERNELS, "--kernel", "add", "x.npy", "y.npy:int32[8]", 100, 1, *["--json"] * as_json)
    assert code == 2
    lines = error.splitlines()
    assert lines[0].startswith("hajax: error: out_of_bounds: kernel add, core 0, S instruction ")
    assert "kernels.cpp:" in lines[0]
    assert lines[-1].startswith("  hint: ")
    assert "Traceback" not in error
    assert not Path("y.npy").exists()
    if as_json:
        assert json.loads(out)["error"] == {"check": "out_of_bounds", "text": error.removeprefix("hajax: error: ").rstrip("\n")}
    else:
        assert out == ""


def test_debug_shows_the_traceback(hajax):
    _, _, error = hajax("run", KERNELS, "--kernel", "wild", "x.npy", 8, "--debug")
    assert "Traceback" in error
    assert "SimFault" in error


def test_fast_leaves_checks_out(hajax):
    arguments = ("run", KERNELS, "--kernel", "add", "u:int32[100]", "y:int32[100]", 100, 1)
    code, _, error = hajax(*arguments)
    assert code == 2
    assert "uninitialized" in error
    assert hajax(*arguments, "--fast")[0] == 0


@pytest.mark.parametrize(("arguments", "part"), [
    (("run", "none.cpp"), "source: no file none.cpp"),
    (("run", KERNELS, "x.npy"), "found the kernels add, words, "),
    (("run", "x.npy"), 'found no extern "C" __global__ __aicore__ function'),
    (("run", KERNELS, "--kernel", "nothing"), "kernel: expected add, words, "),
    (("run", KERNELS, "--kernel", "add", "x.npy"), "arguments: add takes 4 (GM_ADDR x"),
    (("run", KERNELS, "--kernel", "add", "none.npy"), "arguments[0]: no file none.npy"),
    (("run", KERNELS, "--kernel", "add", "bad.npy"), "arguments[0]: bad.npy holds no array"),
    (("run", KERNELS, "--kernel", "add", "empty.npy"), "arguments[0]: expected an array of numbers in empty.npy"),
    (("run", KERNELS, "--kernel", "add", "objects.npy"), "arguments[0]: objects.npy holds no array"),
    (("run", KERNELS, "--kernel", "add", "x.npy", "1.5"), "arguments[1]: expected an integer, a .npy file, or NAME:DTYPE[SHAPE]"),
    (("run", KERNELS, "--kernel", "add", "x.npy", "--nonsense"), "arguments[1]: expected an integer"),
    (("run", KERNELS, "--kernel", "add", "y:int33[2]"), "arguments[0]: expected a dtype such as float16"),
    (("run", KERNELS, "--kernel", "add", "y:object[2]"), "arguments[0]: expected a dtype of numbers, got 'object'"),
    (("run", KERNELS, "--kernel", "add", "y:int32[2,]"), "arguments[0]: expected positive sizes"),
    (("run", KERNELS, "--kernel", "add", "y:int32[]"), "arguments[0]: expected positive sizes"),
    (("run", KERNELS, "--kernel", "add", "y:int32[0]"), "arguments[0]: expected positive sizes"),
    (("run", KERNELS, "--kernel", "words", "y:int8[99999999999999]", 0, 0), "arguments[0]: cannot allocate"),
    (("run", KERNELS, "--kernel", "words", "y:int8[16]", 1 << 64, 0), "arguments[1]: expected an integer of 64 bits"),
    (("run", KERNELS, "--kernel", "add", "--blocks", 11, "x.npy", "x.npy", 1, 1), "blocks: expected 1 to 10"),
    (("run", KERNELS, "--blocks", 0), "blocks"),
    (("run", KERNELS, "--kernel", "add", "--target", "ascend910"), "target: expected one of ascend310b1"),
    (("run", KERNELS, "--kernel", "words", "--compiler", "none", "y:int8[16]", 0, 0), "compiler: expected a C++ compiler"),
    (("run", KERNELS, "--kernel", "words", "no/y.npy:int8[16]", 0, 0), "arguments[0]: no folder no"),
    (("run", KERNELS, "--kernel", "words", "/proc/y.npy:int8[16]", 0, 0), "arguments[0]: cannot write /proc/y.npy (No such file"),
    (("run", KERNELS, "--kernel", "words", "y:int8[16]", 0, 0, "--save", "x.npy"), "--save: cannot write x.npy (File exists)"),
    (("run", KERNELS, "--kernel", "words", "y:int8[16]", 0, 0, "--save", "/proc"), "--save: cannot write /proc/y.npy (No such"),
    (("run", KERNELS, "--kernel", "words", "y:int8[16]", 0, 0, "--trace", "/proc/t.json"), "--trace: cannot write /proc/t.json"),
    (("header", KERNELS, "--into", "no"), "--into: cannot write no/aclrtlaunch_"),
    (("run", KERNELS, "--kernel", "words", "y:int8[16]", 0, 0, "--trace", "no/t.json"), "--trace: no folder no"),
    (("targets", "ascend910"), "target: expected one of ascend310b1"),
    (("header", "none.cpp"), "source: no file none.cpp"),
    (("header", "x.npy"), "source: expected a kernel in x.npy"),
    (("flags", "--target", "ascend910"), "target: expected one of ascend310b1"),
])  # fmt: skip
def test_what_is_wrong_is_said_in_one_line(hajax, arguments, part):
    Path("bad.npy").write_text("text")
    np.save("empty.npy", X[:0])
    np.save("objects.npy", np.array([None]), allow_pickle=True)
    code, out, error = hajax(*arguments)
    assert (code, out) == (2, ""), error
    assert error.startswith("hajax: error: ")
    assert len(error.splitlines()) == 1
    assert part.lower() in error.lower()
    assert not list(Path().glob(".*"))  # no temporary file is left


def test_the_chips_are_listed(hajax):
    code, out, _ = hajax("targets")
    assert code == 0
    assert all(name in out for name in npu.names())
    chips = json.loads(hajax("targets", "--json")[1])["targets"]
    assert [chip["name"] for chip in chips] == list(npu.names())
    assert {chip["name"]: chip["ai_cores"] for chip in chips}["ascend310p1"] == 10


def test_each_value_of_a_chip_has_its_source_and_whether_it_was_measured(hajax):
    report = json.loads(hajax("targets", "ascend310p1", "--json")[1])
    rows = {row["name"]: row for row in report["rows"]}
    assert set(rows) == set(npu.provenance("ascend310p1"))
    assert all(row["source"] and row["status"] for row in rows.values())
    assert rows["ai_cores"]["value"] == 10
    code, out, _ = hajax("targets", "ascend310p1")
    assert code == 0
    assert out.count("not measured on a device") == sum(not row["measured_on_a_device"] for row in rows.values()) > 0


def test_headers_and_flags_are_for_host_programs(hajax):
    code, out, _ = hajax("header", KERNELS)
    assert code == 0
    assert out.splitlines()[0] == "aclrtlaunch_add.h"
    assert "#define aclrtlaunch_add ACLRT_LAUNCH_KERNEL(add)" in Path("aclrtlaunch_add.h").read_text()
    assert set(out.split()) == {f"aclrtlaunch_{name}.h" for name in sim.kernels_in(KERNELS.read_text())}
    code, out, _ = hajax("flags", "--target", "ascend310b1")
    assert code == 0
    assert "-D__NPU_ARCH__=3002 -D__CCE_AICORE__=300" in out


def test_the_command_itself_ends_with_the_same_codes(hajax):
    """In a process of its own: nothing hangs, and standard output is a pipe."""
    program = shutil.which("hajax") or str(Path(sys.executable).parent / "hajax")
    arguments = ["sim", "run", KERNELS, "--kernel", "add", "x.npy", "y.npy:int32[100]", "100", "1"]
    done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert max(map(len, done.stdout.splitlines())) <= 125
    done = subprocess.run([program, *arguments[:3], "--kernel", "traps", "x.npy"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "illegal instruction" in done.stderr
