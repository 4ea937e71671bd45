"""The fake ACL runtime: a host program as for a device, the device and its contexts, memory and its misuse as codes."""

import ctypes
import re
import shutil
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest
from acl_runtime import (
    ANY,
    BAD_HANDLE,
    D2D,
    D2H,
    EXCEPTION,
    H2D,
    H2H,
    INVALID_PARAM,
    NO_CONTEXT,
    NO_MEMORY,
    OK,
    RT_PARAM_INVALID,
    Acl,
    X,
)

from hajax import _sim_command
from hajax.backends import sim

HERE = Path(__file__).parent

# --- a whole program


def build(folder, compiler, *flags):
    """acl_program.cpp with kernels.cpp linked in, every warning an error."""
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler} on this machine")
    _sim_command.launch_header(HERE / "kernels.cpp", folder)
    command = [
        compiler, "-std=c++17", "-g1", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", *flags, f"-I{folder}",
        *sim.compile_flags("ascend310p1"), str(HERE / "acl_program.cpp"), str(HERE / "kernels.cpp"), *sim.link_flags(),
        "-o", str(folder / "program"),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "program"


@pytest.fixture(scope="module", params=["g++", "clang++"])
def program(request, tmp_path_factory):
    """The host program, by each compiler."""
    return build(tmp_path_factory.mktemp("program"), request.param)


def test_a_host_program_for_the_device_runs_as_it_is(program, kernels):
    done = subprocess.run([program, kernels], capture_output=True, text=True, timeout=60)
    lines = done.stdout.splitlines()
    assert lines[0] == f"linked {X.sum() + 2 * 64}"
    assert lines[1] == f"library {X.sum() - 3 * 64}"
    assert lines[2].startswith(f"aclrtSynchronizeStream(stream): {EXCEPTION}: aclrtSynchronizeStream: out_of_bounds: kernel add")
    assert "kernels.cpp:" in lines[2]
    assert done.returncode == 1


def test_cpu_debug_sources_run_too(tmp_path):
    done = subprocess.run([build(tmp_path, "g++", "-DASCENDC_CPU_DEBUG")], capture_output=True, text=True, timeout=60)
    assert done.stdout == f"cpu {3 * 64}\n"
    assert "out_of_bounds: kernel add" in done.stderr
    assert "freed" in done.stderr
    assert done.returncode == 1


def test_the_headers_are_c_too(tmp_path):
    (tmp_path / "c.c").write_text('#include "acl/acl.h"\nint main(void) { return aclInit(0) == ACL_SUCCESS ? 0 : 1; }\n')
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler on this machine")
    command = [compiler, "-std=c99", "-Wall", "-Wextra", "-Werror", *sim.compile_flags("ascend310p1"), str(tmp_path / "c.c")]
    done = subprocess.run([*command, *sim.link_flags(), "-o", str(tmp_path / "c")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert subprocess.run([tmp_path / "c"]).returncode == 0


@pytest.mark.parametrize(("variable", "value", "part"), [
    ("HAJAX_SIM_TARGET", "ascend910", "HAJAX_SIM_TARGET: expected one of ascend310b1, "),
    ("HAJAX_SIM_INJECT", "malloc", "HAJAX_SIM_INJECT: expected malloc, memcpy"),
    ("HAJAX_SIM_THREADS", "0", "HAJAX_SIM_THREADS: expected 1 to 256"),
    ("HAJAX_SIM_THREADS", "x", "HAJAX_SIM_THREADS: expected 1 to 256"),
    ("HAJAX_SIM_FAST", "yes", "HAJAX_SIM_FAST: expected 0 or 1"),
    ("HAJAX_SIM_INJECT", "malloc:2", "aclrtMalloc(&y, kBytes, ACL_MEM_MALLOC_HUGE_FIRST): 207001: aclrtMalloc: 256 bytes: inj"),
    ("HAJAX_SIM_INJECT", "device_lost:2", "aclrtSynchronizeStream(stream): 507010"),
])  # fmt: skip
def test_settings_of_the_environment_reach_a_program(program, variable, value, part, monkeypatch):
    monkeypatch.setenv(variable, value)
    done = subprocess.run([program], capture_output=True, text=True, timeout=60)
    assert part in done.stdout
    assert done.returncode == 1


# --- device, contexts, threads


def test_the_device_is_the_targets(acl):
    assert acl.lib.aclrtGetSocName() == b"Ascend310P1"
    count, value, free, total = ctypes.c_uint32(), ctypes.c_int64(), ctypes.c_size_t(), ctypes.c_size_t()
    assert acl.rtGetDeviceCount(ctypes.byref(count)) == OK
    assert count.value == 1
    for attribute, expected in {101: 10, 102: 10, 201: 8, 302: 16 << 20}.items():
        assert acl.rtGetDeviceInfo(0, attribute, ctypes.byref(value)) == OK
        assert value.value == expected
    assert acl.rtGetDeviceInfo(0, 999, ctypes.byref(value)) != OK
    assert acl.GetDeviceCapability(0, 0, ctypes.byref(value)) == OK
    assert value.value == 10
    assert acl.rtGetMemInfo(0, ctypes.byref(free), ctypes.byref(total)) == OK
    used = acl.make("rtMalloc", 1000, 0)
    before = free.value
    assert acl.rtGetMemInfo(0, ctypes.byref(free), ctypes.byref(total)) == OK
    assert before - free.value == 1024
    assert acl.rtFree(used) == OK
    assert acl.rtSetDevice(1) == 107001
    assert "expected 0, the only device, got 1" in acl.text()


def test_initialising_and_finalising_pair(unset_acl):
    acl = unset_acl
    assert acl.Init(0) == OK
    assert acl.Init(0) == 100002
    assert acl.Finalize() == OK
    assert acl.Finalize() == 100037
    assert acl.Init(b"/no/such/file.json") == 100003
    assert acl.rtSetDevice(0) == OK  # aclInit is not needed for the runtime
    assert acl.rtResetDevice(0) == OK
    assert acl.rtResetDevice(0) == NO_CONTEXT


def test_the_device_is_given_back_with_the_last_reset(acl):
    assert acl.rtSetDevice(0) == OK
    address = acl.put(X)
    assert acl.rtResetDevice(0) == OK
    np.testing.assert_array_equal(acl.get(address, 64), X)
    assert acl.rtResetDevice(0) == OK
    assert acl.rtMalloc(ctypes.byref(ctypes.c_uint64()), 8, 0) == NO_CONTEXT
    assert acl.rtSetDevice(0) == OK
    assert acl.rtFree(address) == RT_PARAM_INVALID


def test_contexts_are_the_threads_own(acl):
    stream = acl.make("rtCreateStream")
    first = acl.make("rtGetCurrentContext")
    second = acl.make("rtCreateContext", 0)
    assert acl.make("rtGetCurrentContext") == second
    assert acl.rtSynchronizeStream(stream) == 107003
    assert acl.rtSetCurrentContext(first) == OK
    assert acl.rtSynchronizeStream(stream) == OK
    found = []

    def elsewhere():
        found.append(acl.rtSynchronizeStream(stream))
        found.append(acl.text())
        found.append(acl.rtSetCurrentContext(second))
        found.append(acl.rtDestroyContext(second))
        found.append(acl.rtSynchronizeStream(0))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert found[0] == NO_CONTEXT
    assert "aclrtSetDevice" in found[1]
    assert found[2:] == [OK, OK, NO_CONTEXT]
    assert acl.rtDestroyContext(second) == NO_CONTEXT
    assert acl.rtDestroyContext(first) == INVALID_PARAM


def test_threads_may_use_it_at_once(acl, add):
    context, results = acl.make("rtGetCurrentContext"), []

    def work(by):
        assert acl.rtSetCurrentContext(context) == OK
        stream, x, y = acl.make("rtCreateStream"), acl.put(X), acl.make("rtMalloc", X.nbytes, 0)
        for _ in range(5):
            assert acl.launch(add, [x, y, 64, by], stream) == OK
            assert acl.rtSynchronizeStream(stream) == OK, acl.text()
            results.append((acl.get(y, 64) == X + by).all())
        assert acl.rtFree(x) == acl.rtFree(y) == acl.rtDestroyStream(stream) == OK

    threads = [threading.Thread(target=work, args=(by,)) for by in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 30


# --- memory


def test_copies_go_where_their_kind_says(acl):
    x = acl.put(X)
    y = acl.make("rtMalloc", X.nbytes, 0)
    assert acl.rtMemcpy(y, X.nbytes, x, X.nbytes, D2D) == OK
    np.testing.assert_array_equal(acl.get(y, 64), X)
    host = np.zeros(64, np.int32)
    assert acl.rtMemcpy(host.ctypes.data, 256, X.ctypes.data, 256, H2H) == OK
    np.testing.assert_array_equal(host, X)
    assert acl.rtMemcpy(y, 256, (X + 1).ctypes.data, 256, ANY) == OK
    assert acl.rtMemcpy(host.ctypes.data, 256, y, 256, ANY) == OK
    np.testing.assert_array_equal(host, X + 1)
    assert acl.rtMemset(y, 256, -1, 128) == OK
    assert (acl.get(y, 64) == np.r_[np.full(32, -1), (X + 1)[32:]]).all()


def test_memory_that_was_never_written_reads_as_nan_and_copies_as_unwritten(acl, add):
    x, y, z = (acl.make("rtMalloc", 256, 0) for _ in range(3))
    assert acl.rtMemset(x, 256, 0, 128) == OK
    assert acl.rtMemcpy(y, 256, x, 256, D2D) == OK
    read = acl.get(y, 64, np.float32)
    assert (read[:32] == 0).all()
    assert np.isnan(read[32:]).all()
    assert acl.launch(add, [y, z, 64, 0]) == OK
    assert acl.rtSynchronizeStream(0) == EXCEPTION
    assert "uninitialized" in acl.text()
    assert acl.launch(add, [y, z, 32, 0]) == OK
    assert acl.rtSynchronizeStream(0) == OK


def test_misuse_of_memory_is_a_code_with_a_text(acl):
    x = acl.put(X)
    host = np.zeros(64, np.int32)
    h = host.ctypes.data
    pinned = acl.make("rtMallocHost", 256)
    freed = acl.put(X)
    assert acl.rtFree(freed) == OK
    place = ctypes.byref(ctypes.c_uint64())
    cases = [
        (acl.rtMalloc, (0, 8, 0), INVALID_PARAM, "devPtr: expected an address, got null"),
        (acl.rtMalloc, (place, 0, 0), INVALID_PARAM, "size: expected"),
        (acl.rtMalloc, (place, 1 << 60, 0), INVALID_PARAM, "size: expected"),
        (acl.rtMalloc, (place, 1 << 40, 0), NO_MEMORY, "out of device memory"),
        (acl.rtMallocHost, (place, 0), INVALID_PARAM, "size: expected"),
        (acl.rtFree, (0,), INVALID_PARAM, "devPtr"),
        (acl.rtFree, (freed,), RT_PARAM_INVALID, "that was freed"),
        (acl.rtFree, (x + 32,), RT_PARAM_INVALID, "not the start of its allocation"),
        (acl.rtFree, (h,), RT_PARAM_INVALID, "not device memory"),
        (acl.rtFree, (pinned,), RT_PARAM_INVALID, "not device memory"),
        (acl.rtFreeHost, (x,), RT_PARAM_INVALID, "no memory of aclrtMallocHost"),
        (acl.rtFreeHost, (0,), INVALID_PARAM, "hostPtr"),
        (acl.rtMemcpy, (x, 255, h, 256, H2D), RT_PARAM_INVALID, "destMax: expected at least the 256 bytes"),
        (acl.rtMemcpy, (x, 512, h, 257, H2D), RT_PARAM_INVALID, "256 bytes to the end of its allocation"),
        (acl.rtMemcpy, (x, 256, h, 0, H2D), INVALID_PARAM, "count"),
        (acl.rtMemcpy, (0, 256, h, 256, H2D), INVALID_PARAM, "dst"),
        (acl.rtMemcpy, (x, 256, 0, 256, H2D), INVALID_PARAM, "src"),
        (acl.rtMemcpy, (x, 256, h, 256, 5), INVALID_PARAM, "kind"),
        (acl.rtMemcpy, (x, 256, h, 256, D2H), RT_PARAM_INVALID, "dst: the kind says host memory"),
        (acl.rtMemcpy, (h, 256, x, 256, H2D), RT_PARAM_INVALID, "not device memory"),
        (acl.rtMemcpy, (h, 256, x, 256, H2H), RT_PARAM_INVALID, "src: the kind says host memory"),
        (acl.rtMemcpy, (x, 256, h, 256, D2D), RT_PARAM_INVALID, "src: expected 256 bytes of device memory"),
        (acl.rtMemcpy, (freed, 256, h, 256, H2D), RT_PARAM_INVALID, "that was freed"),
        (acl.rtMemcpy, (x + 250, 256, h, 16, H2D), RT_PARAM_INVALID, "6 bytes to the end"),
        (acl.rtMemcpy, (pinned + 200, 256, x, 64, D2H), RT_PARAM_INVALID, "56 to the end of its aclrtMallocHost memory"),
        (acl.rtMemset, (freed, 256, 0, 256), RT_PARAM_INVALID, "that was freed"),
        (acl.rtMemset, (x, 8, 0, 9), RT_PARAM_INVALID, "maxCount"),
        (acl.rtMemsetAsync, (h, 8, 0, 8, 0), RT_PARAM_INVALID, "not device memory"),
        (acl.rtMemcpyAsync, (x, 256, h, 256, H2D, 0x77), BAD_HANDLE, "is no stream"),
    ]  # fmt: skip
    for call, arguments, code, part in cases:
        assert call(*arguments) == code, (arguments, acl.text())
        assert part in acl.text()
        assert acl.text() is None  # once
    assert acl.rtFreeHost(pinned) == OK
    assert acl.rtFreeHost(pinned) == RT_PARAM_INVALID
    assert "freed already" in acl.text()
    assert acl.rtMemcpy(pinned + 8, 8, x, 8, D2H) == RT_PARAM_INVALID
    assert "that was freed" in acl.text()
    blocks = [acl.make("rtMallocHost", 10) for _ in range(600)]
    assert all(acl.rtFreeHost(block) == OK for block in blocks)
    assert all(acl.rtFreeHost(block) == RT_PARAM_INVALID for block in blocks)
    np.testing.assert_array_equal(acl.get(x, 64), X)


def test_every_function_of_the_headers_is_in_the_library():
    folder = sim.include_folders()[1] / "acl"
    header = "".join((folder / name).read_text() for name in ("acl_base.h", "acl_rt.h", "acl_launch.h"))
    functions = re.findall(r"ACL_FUNC_VISIBILITY[^;(]*?\b(acl\w+|hajax\w+)\(", header)
    assert len(functions) > 55
    library = Acl().lib
    for name in functions:
        assert getattr(library, name)


def test_fp16_converts_as_the_device_does(acl):
    to_float, to_half = acl.lib.aclFloat16ToFloat, acl.lib.aclFloatToFloat16
    to_float.restype, to_float.argtypes = ctypes.c_float, [ctypes.c_uint16]
    to_half.restype, to_half.argtypes = ctypes.c_uint16, [ctypes.c_float]
    for value in (0.0, 1.0, -2.5, 65504.0, 1e-7, 0.1):
        half = np.float32(value).astype(np.float16)
        assert to_half(value) == half.view(np.uint16)
        assert to_float(int(half.view(np.uint16))) == float(half)
