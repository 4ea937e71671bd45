"""Kernels from Python: built once, right results, exact counts, and whatever goes wrong is an error, never a crash."""

import dataclasses
import json
import subprocess
import sys
import threading
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from hajax import abi
from hajax.backends import LibraryError, _compiler, sim
from hajax.targets import npu

X = np.arange(100, dtype=np.int32)
Y = sim.Output((100,), np.int32)


def line(text):
    """Where a text stands in kernels.cpp, as messages say it."""
    source = (Path(__file__).parent / "kernels.cpp").read_text()
    assert source.count(text) == 1
    return f"kernels.cpp:{source[: source.index(text)].count(chr(10)) + 1}"


def add(kernels, x=X, y=Y, *, count=None, by=7, **options):
    return sim.run(kernels, "add", [x, y, x.size if count is None else count, by], **options)


# --- building


def test_a_kernel_is_built_once(tmp_path, monkeypatch):
    (tmp_path / "one.h").write_text("#define BY 1\n")
    source = tmp_path / "k.cpp"
    source.write_text('#include "one.h"\nextern "C" __global__ __aicore__ void k() { static_assert(BY); }\n')
    flags = ["-D__global__=", "-D__aicore__="]
    built = sim.compile_kernel(source, flags=flags)
    assert _compiler.parameters(built) == {"k": []}
    real, calls = _compiler._call, []
    monkeypatch.setattr(_compiler, "_call", lambda command: calls.append(command) or real(command))
    assert sim.compile_kernel(source, flags=flags) == built
    assert not calls
    changes = [
        lambda: (tmp_path / "one.h").write_text("#define BY 2\n"),  # a header
        lambda: source.write_text(source.read_text() + "\n"),  # the source
        lambda: flags.append("-DX"),
    ]
    seen = {built}
    for change in changes:
        change()
        seen.add(sim.compile_kernel(source, flags=flags))
    seen.add(sim.compile_kernel(source, "ascend310b1", flags=flags))
    assert len(seen) == 5
    assert len(calls) == 4


def test_the_chip_is_a_macro(tmp_path):
    source = tmp_path / "k.cpp"
    source.write_text("#if __NPU_ARCH__ != 3002 || __CCE_AICORE__ != 300\n#error other\n#endif\n")
    assert sim.compile_kernel(source, "ascend310b1").is_file()
    with pytest.raises(sim.CompileError, match="other"):
        sim.compile_kernel(source, "ascend310p3")


@pytest.mark.parametrize(("text", "parts"), [
    ("int f() { return x; }\nint g() { return y; }", ("k.cpp does not compile", "k.cpp:1", "'x' was not declared", "(1 more)")),
    ("void no_such_instruction(); void f() { no_such_instruction(); }", ("undefined reference", "no_such_instruction")),
    ('#include "no/such.h"\n', ("no/such.h",)),
])  # fmt: skip
def test_a_source_that_does_not_compile_says_where(tmp_path, monkeypatch, text, parts):
    monkeypatch.setenv("CXX", "g++")
    (tmp_path / "k.cpp").write_text(text)
    with pytest.raises(sim.CompileError) as caught:
        sim.compile_kernel(tmp_path / "k.cpp")
    for part in parts:
        assert part in str(caught.value).replace("‘", "'").replace("’", "'")
    assert not list(_compiler._folder().glob("*/"))  # no half-built rest


def test_a_compiler_that_is_not_there_is_named(kernels, monkeypatch, tmp_path):
    (tmp_path / "k.cpp").write_text("")
    with pytest.raises(sim.CompileError, match=r"got 'no-such-compiler', which is no program$"):
        sim.compile_kernel(tmp_path / "k.cpp", compiler="no-such-compiler")
    monkeypatch.setenv("CXX", "no-such-compiler -O2")
    with pytest.raises(sim.CompileError, match=r"'no-such-compiler -O2', which is no program \(from CXX\)"):
        sim.compile_kernel(tmp_path / "k.cpp")
    monkeypatch.setenv("CXX", "'")
    with pytest.raises(sim.CompileError, match="cannot split"):
        sim.compile_kernel(tmp_path / "k.cpp")
    with pytest.raises(sim.CompileError, match="false --version failed"):
        sim.compile_kernel(tmp_path / "k.cpp", compiler="false")
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(sim.CompileError, match=r"found none of c\+\+, g\+\+ and clang\+\+"):
        sim.compile_kernel(tmp_path / "k.cpp")


def test_without_a_cache_on_disk_kernels_are_built_all_the_same(tmp_path, monkeypatch):
    (tmp_path / "k.cpp").write_text("")
    monkeypatch.setenv("HAJAX_CACHE", "0")
    assert sim.compile_kernel(tmp_path / "k.cpp").is_file()
    monkeypatch.delenv("HAJAX_CACHE")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HAJAX_CACHE_DIR", str(tmp_path / "file"))
    assert sim.compile_kernel(tmp_path / "k.cpp").is_file()


@pytest.mark.parametrize(("source", "found"), [
    ('extern "C" __global__ __aicore__ void f(GM_ADDR x, uint32_t n) {}', {"f": ["GM_ADDR x", "uint32_t n"]}),
    ('extern "C" __global__ __aicore__\nvoid f ( ) {}', {"f": []}),
    ("__global__ __aicore__ void f(__gm__ half* x,\n  __gm__ half *y)\n{", {"f": ["__gm__ half* x", "__gm__ half *y"]}),
    ('extern "C" __global__ __aicore__ void f(GM_ADDR x);', {}),
    ("// __global__ void f() {\n/* __global__ void g() { */ const char* s = \"__global__ void h() {\";", {}),
    ("#define __global__\nvoid f() {}", {}),
])  # fmt: skip
def test_kernels_are_found_in_a_source(source, found):
    assert sim.kernels_in(source) == found


def test_make_rules_are_read():
    assert _compiler._dependencies("x: a.h \\\n b\\ c.h \\\n d$$e.h\n") == ["a.h", "b c.h", "d$e.h"]


# --- results


def test_a_kernel_computes_and_its_work_is_counted(kernels):
    done = add(kernels, blocks=3)
    np.testing.assert_array_equal(done.arrays[0], X)
    np.testing.assert_array_equal(done.arrays[1], X + 7)
    assert (done.kernel, done.target, done.blocks, done.unwritten) == ("add", "ascend310p1", 3, (0, 0))
    assert (done.counts["gm_to_s"], done.counts["s_to_gm"]) == (400, 400)
    assert (done.counts["gm_to_s_transfers"], done.counts["scalar_load"], done.counts["S_instructions"]) == (100, 100, 200)
    assert [core["scalar_load"] for core in done.core_counts] == [36, 32, 32]
    assert set(done.counts) == set(done.core_counts[0])
    assert set(done.timing) == set(abi.names("timing"))
    assert done.timing["cycles"] > done.timing["launch_cycles"] > 0
    assert [set(core) for core in done.busy_cycles] == [set(abi.names("pipes"))] * 3
    assert all(core["S"] > 0 == core["V"] for core in done.busy_cycles)


def test_names_of_all_counts_differ(kernels):
    lists = [abi.names(name) for name in ("counts", "paths", "instructions", "pipes")]
    names = [*lists[0], *lists[1], *(f"{p}_transfers" for p in lists[1]), *lists[2], *(f"{p}_instructions" for p in lists[3])]
    assert len(names) == len(set(names)) == len(add(kernels).counts)


def test_nothing_depends_on_the_number_of_host_threads(kernels):
    runs = [add(kernels, blocks=10, options=sim.SimOptions(threads=n)) for n in (1, 2, 7, None)]
    for field in ("counts", "core_counts", "timing", "busy_cycles", "unwritten"):
        assert all(getattr(one, field) == getattr(runs[0], field) for one in runs), field
    assert len({sim.timeline(one) for one in runs}) == 1


def test_runs_side_by_side_do_not_disturb_one_another(kernels):
    alone, found = add(kernels, blocks=4), []

    def work(by):
        done = add(kernels, blocks=4, by=by)
        found.append((by, done.arrays[1].tolist() == (X + by).tolist(), done.counts == alone.counts, done.timing == alone.timing))

    threads = [threading.Thread(target=work, args=(by,)) for by in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [(by, True, True, True) for by in range(8)]


def test_bytes_that_were_never_written_are_told_and_read_as_nan(kernels):
    done = add(kernels, y=sim.Output((110,), np.float32), count=100)
    assert done.unwritten == (0, 40)
    assert np.isnan(done.arrays[1][100:]).all()
    assert not np.isnan(done.arrays[1][:100]).any()


def test_integers_arrive_as_words_of_64_bits(kernels):
    done = sim.run(kernels, "words", [sim.Output((4,), np.uint32), (1 << 64) - 2, np.int64(-3)])
    assert done.arrays[0].tolist() == [0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFD, 0xFFFFFFFF]


@pytest.mark.parametrize("dtype", ["int8", "bool", "float16", "float64", "complex64", ml_dtypes.bfloat16])
@pytest.mark.parametrize("shape", [(), (3, 5), (2, 1, 4)])
def test_arrays_of_every_dtype_and_layout_come_back_as_they_went(kernels, dtype, shape):
    array = np.arange(64).astype(dtype)[: int(np.prod(shape, dtype=int))].reshape(shape)
    for view in (array, array.T, array[::-1] if shape else array):
        done = sim.run(kernels, "words", [sim.Output((4,), np.uint32), 0, 0])
        assert done.arrays[0].tolist() == [0] * 4
        with sim.Device() as device:
            back = device.get(device.put(view))
        assert back.dtype == view.dtype
        assert back.shape == view.shape
        assert back.tobytes() == np.ascontiguousarray(view).tobytes()


def test_a_chip_may_be_given_as_a_value(kernels):
    chip = npu.load("ascend310p1")
    assert add(kernels, target=chip, blocks=2).timing == add(kernels, blocks=2).timing
    slower = dataclasses.replace(chip, scalar_gm_cycles=2 * chip.scalar_gm_cycles)
    assert add(kernels, target=slower).timing["cycles"] > add(kernels).timing["cycles"]
    assert add(kernels, target=slower).counts["gm_to_s"] == 400


def test_the_library_knows_the_chips_of_the_folder():
    assert sorted(sim.target_names()) == sorted(npu.names())


def test_a_device_keeps_arrays_and_l2_between_launches(kernels):
    warm = sim.SimOptions(warm_l2=True)
    with sim.Device("ascend310p3") as device:
        x, y = device.put(X), device.empty(Y)
        first = device.launch(kernels, "add", [x, y, 100, 1], options=warm)
        second = device.launch(kernels, "add", [y, y, 100, 1], options=warm)
        np.testing.assert_array_equal(device.get(y), X + 2)
        assert first.timing["ddr_read_bytes"] > second.timing["ddr_read_bytes"] == 0
        cold = device.launch(kernels, "add", [x, y, 100, 1])
        assert cold.timing == first.timing
        device.free(x)
        with pytest.raises(ValueError, match="not the start of a live allocation"):
            device.free(x)
        with pytest.raises(sim.SimFault, match="that was freed"):
            device.launch(kernels, "add", [x, y, 100, 1])
    with pytest.raises(ValueError, match="this Device is closed"):
        device.get(y)
    device.close()


def test_a_timeline_is_chrome_trace_json(kernels):
    events = json.loads(sim.timeline(add(kernels, blocks=2)))["traceEvents"]
    assert {event["pid"] for event in events} == {0, 1}
    with pytest.raises(ValueError, match=r"kept no timeline.*SimOptions\(timeline=True\)"):
        sim.timeline(add(kernels, options=sim.SimOptions(timeline=False)))


# --- errors


@pytest.mark.parametrize(("kernel", "arguments", "check", "parts"), [
    ("add", [X[:96], Y, 120, 0], "out_of_bounds", ("core 0", line("scalar_read"), "hint:")),
    ("add", [Y, X, 100, 0], "uninitialized", (line("scalar_read"),)),
    ("named", [X], "out_of_bounds", ("step second pass",)),
    ("wild", [X, 8], "out_of_bounds", (line("= *x;"), "0x8", "no memory of the chip")),
    ("deep", [X], "out_of_bounds", ("stack",)),
    ("divide", [X, 0], "launch", (line("one / zero"), "divided by zero")),
    ("waits", [X], "deadlock", ("MTE2", line("wait_flag(PIPE_MTE2"))),
    ("aborts", [X], "launch", ("aborted",)),
    ("traps", [X], "launch", ("illegal instruction",)),
    ("throws", [X], "launch", ("exception", "as said")),
])  # fmt: skip
@pytest.mark.parametrize("blocks", [1, 3])
def test_a_kernel_that_fails_a_check_or_crashes_is_a_fault(kernels, kernel, arguments, check, parts, blocks):
    with pytest.raises(sim.SimFault) as caught:
        sim.run(kernels, kernel, arguments, blocks=blocks)
    assert caught.value.check == check
    for part in (f"kernel {kernel}", *parts):
        assert part in caught.value.text
    assert str(caught.value) == caught.value.text
    np.testing.assert_array_equal(add(kernels, blocks=blocks).arrays[1], X + 7)  # and the process goes on


def test_cores_that_write_the_same_bytes_are_caught_unless_races_are_off(kernels):
    arguments = [sim.Output((8,), np.int32)]
    with pytest.raises(sim.SimFault) as caught:
        sim.run(kernels, "overlap", arguments, blocks=2)
    assert caught.value.check == "gm_overlap"
    sim.run(kernels, "overlap", arguments, blocks=2, options=sim.SimOptions(check_races=False))


def test_never_written_bytes_may_be_read_when_that_check_is_off(kernels):
    sim.run(kernels, "add", [Y, X, 100, 0], options=sim.SimOptions(check_written=False))


@pytest.mark.parametrize(("kernel", "arguments", "error", "match"), [
    ("nothing", [], ValueError, "kernel: expected add, words, .*, got 'nothing'"),
    ("add", [X, Y, 1], ValueError, "add takes 4 .*int32_t by.*, got 3"),
    ("add", [X, Y, 1.0, 2], TypeError, r"arguments\[2\]: expected an array, an Output or an integer, got float"),
    ("add", [X, None, 1, 2], TypeError, r"arguments\[1\]: .*NoneType"),
    ("add", [X, Y, 1 << 64, 2], ValueError, r"arguments\[2\]: expected an integer of 64 bits, got 18446744073709551616"),
    ("add", [X, Y, -(1 << 63) - 1, 2], ValueError, r"arguments\[2\]: expected an integer of 64 bits"),
    ("add", [X[:0], Y, 1, 2], ValueError, r"arguments\[0\]: expected positive|arguments\[0\]: Output.shape"),
    ("add", [np.array(["a", None]), Y, 1, 2], ValueError, r"arguments\[0\]: expected an array of numbers"),
    ("takes_float", [X, 1], ValueError, r"arguments\[1\]: takes_float declares float"),
    ("takes_float", [X] * 33, ValueError, "expected at most 32, got 33"),
])  # fmt: skip
def test_arguments_that_cannot_be_passed_are_named(kernels, kernel, arguments, error, match):
    with pytest.raises(error, match=match):
        sim.run(kernels, kernel, arguments)


@pytest.mark.parametrize("blocks", [0, -1, 11, 1 << 40])
def test_more_cores_than_the_chip_has_are_refused(kernels, blocks):
    with pytest.raises(ValueError, match=f"blocks: expected 1 to 10, the AI cores of ascend310p1, got {blocks}"):
        add(kernels, blocks=blocks)


def test_an_unknown_chip_is_named(kernels):
    match = "target: expected one of ascend310b1, .*, got 'ascend910'"
    with pytest.raises(ValueError, match=match):
        add(kernels, target="ascend910")
    with pytest.raises(ValueError, match=match):
        sim.compile_kernel(Path(__file__), "ascend910")


def test_memory_runs_out_as_an_error():
    small = dataclasses.replace(npu.load("ascend310p1"), gm_bytes=1 << 20)
    with sim.Device(small) as device, pytest.raises(MemoryError, match="cannot allocate 1048576 bytes of device memory: 0 of"):
        device.empty(sim.Output((1 << 20,), np.int8))
    with pytest.raises(LibraryError, match="gm_bytes"):
        sim.Device(dataclasses.replace(small, gm_bytes=0))


@pytest.mark.parametrize("options", [{"threads": 0}, {"threads": -1}, {"threads": 1 << 20}])
def test_options_are_checked(options):
    with pytest.raises(ValueError, match=r"SimOptions\.threads: expected"):
        sim.SimOptions(**options)
    with pytest.raises(ValueError, match=r"Output\.shape"):
        sim.Output((3, 0), np.int8)


def test_a_kernel_library_that_is_none_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"kernel library: no file .*none\.so"):
        sim.run(tmp_path / "none.so", "k", [])
    (tmp_path / "text.so").write_text("text")
    with pytest.raises(LibraryError, match=r"kernel library: .*text\.so"):
        sim.run(tmp_path / "text.so", "k", [])


def test_the_emulators_library_may_be_absent_or_another(monkeypatch, tmp_path):
    monkeypatch.setenv("HAJAX_SIM_LIBRARY", str(tmp_path / "none.so"))
    with pytest.raises(LibraryError, match=r"none\.so: no such file \(HAJAX_SIM_LIBRARY names it\)"):
        sim.Device()
    with pytest.raises(LibraryError, match="no such file"):
        sim.compile_kernel(Path(__file__))
    facts = sim.diagnose()
    assert not facts["loaded"]
    assert "no such file" in facts["why"]
    (tmp_path / "text.so").write_text("text")
    monkeypatch.setenv("HAJAX_SIM_LIBRARY", str(tmp_path / "text.so"))
    with pytest.raises(LibraryError, match="cannot be loaded"):
        sim.target_names()


def test_a_library_of_another_abi_is_refused(monkeypatch):
    monkeypatch.setattr(abi, "digest", lambda: "0" * 64)
    with pytest.raises(LibraryError, match="expected to be built with hajax/abi 000000000000"):
        sim.Library(sim.open_sim_library().path, "hajax_sim_abi_digest")


def test_doctor_has_the_emulator_and_a_compiler():
    facts = sim.diagnose()
    assert facts["loaded"]
    assert facts["targets"]
    assert "(" in facts["compiler"]


def test_the_c_interface_takes_nonsense_without_a_crash(kernels):
    library = sim.open_sim_library()
    lib, null = library.lib, library.ffi.NULL
    result, options = library.ffi.new("hj_sim_result **"), library.ffi.new("hj_sim_options *", {"threads": 1})
    device = lib.hajax_sim_device_open(lib.hajax_sim_target(b"ascend310p1"))
    address = lib.hajax_sim_allocate(device, 64)
    counts, data = library.ffi.new("hj_sim_counts *"), library.ffi.new("char[64]")
    bad = [
        lambda: lib.hajax_sim_device_open(null) == null,
        lambda: lib.hajax_sim_target(null) == null and lib.hajax_sim_target(b"") == null,
        lambda: lib.hajax_sim_target_name(-1) == null and lib.hajax_sim_target_name(1 << 30) == null,
        lambda: not any(lib.hajax_sim_allocate(device, n) for n in (0, -1, 1 << 62)) and not lib.hajax_sim_allocate(null, 1),
        lambda: lib.hajax_sim_free(device, 8) and lib.hajax_sim_free(null, address) and lib.hajax_sim_free(device, address + 32),
        lambda: all(lib.hajax_sim_write(device, address, data, n) for n in (-1, 65, 1 << 62)),
        lambda: lib.hajax_sim_write(device, 8, data, 8) and lib.hajax_sim_write(device, address, null, 8),
        lambda: lib.hajax_sim_read(device, address, null, 8) and lib.hajax_sim_read(null, address, data, 8),
        lambda: lib.hajax_sim_unwritten(device, address, 65) == -1 and lib.hajax_sim_unwritten(device, address, 64) == 64,
        lambda: lib.hajax_sim_library_open(null) == null and lib.hajax_sim_function(null, b"add") == 0,
        lambda: lib.hajax_sim_launch(device, 0, b"k", 1, null, 0, options, result),
        lambda: lib.hajax_sim_launch(device, 8, null, 1, null, 0, options, result),
        lambda: lib.hajax_sim_launch(device, 8, b"k", 1, null, 1, options, result),
        lambda: lib.hajax_sim_launch(device, 8, b"k", 1, null, -1, options, result),
        lambda: lib.hajax_sim_launch(device, 8, b"k", 1, null, 0, null, result),
        lambda: lib.hajax_sim_launch(device, 8, b"k", 1, null, 0, options, null),
        lambda: lib.hajax_sim_launch(null, 8, b"k", 1, null, 0, options, result),
        lambda: lib.hajax_sim_result_check(null) == null and lib.hajax_sim_result_fault(null) == null,
        lambda: lib.hajax_sim_result_counts(null, 0, counts) and lib.hajax_sim_result_timing(null, null),
        lambda: lib.hajax_sim_result_trace(null) == null and lib.hajax_sim_result_blocks(null) == 0,
        lambda: all(lib.hajax_sim_inject(text) for text in (b"malloc", b"malloc:0", b"malloc:x", b"disk:1", b"malloc:1,", b",")),
        lambda: lib.hajax_sim_inject(null),
    ]  # fmt: skip
    for number, call in enumerate(bad):
        assert call(), number
        assert number == 1 or number == 2 or lib.hajax_sim_last_error() != null
    cycles, chip = lib.hajax_sim_instruction_cycles, lib.hajax_sim_target(b"ascend310p1")
    good = {"instruction": 0, "units": 1, "bytes": 4, "path": -1, "missed": 4}
    assert cycles(chip, *good.values()) > 0
    assert cycles(null, *good.values()) == -1
    out = [("instruction", -1), ("instruction", 96), ("units", -1), ("bytes", -1), ("path", -2), ("path", 14), ("missed", 5)]
    for name, value in out:
        assert cycles(chip, *(good | {name: value}).values()) == -1, name
    lib.hajax_sim_library_close(null)
    lib.hajax_sim_device_close(device)
    lib.hajax_sim_result_close(null)


def test_a_process_may_end_in_the_middle(kernels):
    """Handles that are still open at exit are no reason to crash."""
    code = """
import sys
from pathlib import Path
import numpy as np
from hajax.backends import sim
device = sim.Device()
x = device.put(np.ones(8, np.int32))
run = device.launch(Path(sys.argv[1]), "add", [x, x, 8, 1])
print(run.counts["scalar_load"])
"""
    done = subprocess.run([sys.executable, "-c", code, str(kernels)], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "8\n", "")
