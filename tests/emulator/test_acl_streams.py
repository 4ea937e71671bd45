"""Streams, events and launches of the fake ACL runtime, and faults on request."""

import ctypes
from pathlib import Path

import numpy as np
import pytest
from acl_runtime import (
    BAD_HANDLE,
    CIRCLE,
    D2D,
    D2H,
    EVENT_TIMEOUT,
    EXCEPTION,
    H2D,
    INVALID_PARAM,
    LOST,
    NO_MEMORY,
    OK,
    RT_PARAM_INVALID,
    TIMEOUT,
    X,
    function_of,
)

from hajax.backends import sim

HERE = Path(__file__).parent

# --- streams and events


def test_a_stream_runs_in_order_and_only_when_something_waits(acl, add):
    stream, x, y = acl.make("rtCreateStream"), acl.put(X), acl.make("rtMalloc", 256, 0)
    pinned = acl.make("rtMallocHost", 256)
    seen = np.ctypeslib.as_array((ctypes.c_int32 * 64).from_address(pinned))
    seen[:] = 5
    assert acl.launch(add, [x, y, 64, 1], stream) == OK
    assert acl.launch(add, [y, y, 64, 1], stream) == OK
    assert acl.rtMemcpyAsync(pinned, 256, y, 256, D2H, stream) == OK
    assert (seen == 5).all()
    assert acl.rtSynchronizeStream(stream) == OK
    np.testing.assert_array_equal(seen, X + 2)


def test_unpinned_host_memory_may_go_right_after_an_asynchronous_copy(acl, add):
    stream, y = acl.make("rtCreateStream"), acl.make("rtMalloc", 256, 0)
    x = acl.make("rtMalloc", 256, 0)
    source = X.copy()
    assert acl.rtMemcpyAsync(x, 256, source.ctypes.data, 256, H2D, stream) == OK
    source[:] = -1
    assert acl.launch(add, [x, y, 64, 1], stream) == OK
    back = np.zeros(64, np.int32)
    assert acl.rtMemcpyAsync(back.ctypes.data, 256, y, 256, D2H, stream) == OK
    np.testing.assert_array_equal(back, X + 1)  # it waited for its turn
    assert acl.rtMemsetAsync(y, 256, 0, 256, stream) == OK
    assert acl.rtSynchronizeDevice() == OK
    assert not acl.get(y, 64).any()


def test_memory_freed_under_queued_work_is_an_error_of_the_wait(acl, add):
    stream, x, y = acl.make("rtCreateStream"), acl.put(X), acl.put(X)
    pinned = acl.make("rtMallocHost", 256)
    assert acl.rtMemcpyAsync(pinned, 256, y, 256, D2H, stream) == OK
    assert acl.rtFreeHost(pinned) == OK
    assert acl.rtSynchronizeStream(stream) == RT_PARAM_INVALID
    assert acl.launch(add, [x, y, 64, 1], stream) == OK
    assert acl.rtMemsetAsync(x, 256, 0, 256, stream) == OK
    assert acl.rtFree(x) == OK
    assert acl.rtSynchronizeStream(stream) == EXCEPTION
    assert "freed" in acl.text()
    assert acl.rtSynchronizeStream(stream) == OK  # told once


def test_an_event_orders_streams_and_takes_modelled_time(acl, add):
    one, two = acl.make("rtCreateStream"), acl.make("rtCreateStream")
    start, end = acl.make("rtCreateEvent"), acl.make("rtCreateEventWithFlag", 8)
    x, y = acl.put(X), acl.make("rtMalloc", 256, 0)
    assert acl.rtRecordEvent(start, one) == OK
    assert acl.launch(add, [x, y, 64, 1], one) == OK
    assert acl.rtRecordEvent(end, one) == OK
    assert acl.rtStreamWaitEvent(two, end) == OK
    assert acl.launch(add, [y, y, 64, 1], two) == OK
    elapsed = ctypes.c_float()
    assert acl.rtEventElapsedTime(ctypes.byref(elapsed), start, end) == 107006
    assert acl.rtSynchronizeStream(two) == OK, acl.text()  # runs what it waits for
    np.testing.assert_array_equal(acl.get(y, 64), X + 2)
    assert acl.rtEventElapsedTime(ctypes.byref(elapsed), start, end) == OK
    expected = sim.run(sim.compile_kernel(HERE / "kernels.cpp"), "add", [X, sim.Output((64,), np.int32), 64, 1])
    assert elapsed.value == pytest.approx(expected.timing["microseconds"] / 1e3, rel=1e-6)
    assert acl.rtEventElapsedTime(ctypes.byref(elapsed), end, start) == 107007
    assert acl.rtSynchronizeEvent(end) == OK


def test_a_query_lets_the_device_work(acl, add):
    stream, event = acl.make("rtCreateStream"), acl.make("rtCreateEvent")
    x, y = acl.put(X), acl.make("rtMalloc", 256, 0)
    status = ctypes.c_int32(-1)
    assert acl.rtQueryEventStatus(event, ctypes.byref(status)) == OK
    assert status.value == 0  # not recorded
    assert acl.launch(add, [x, y, 64, 1], stream) == OK
    assert acl.rtRecordEvent(event, stream) == OK
    assert acl.launch(add, [y, y, 64, 1], stream) == OK
    assert acl.rtQueryEventStatus(event, ctypes.byref(status)) == OK
    assert status.value == 1
    np.testing.assert_array_equal(acl.get(y, 64), X + 1)  # up to the event, no further
    assert acl.rtStreamQuery(stream, ctypes.byref(status)) == OK
    assert status.value == 0
    np.testing.assert_array_equal(acl.get(y, 64), X + 2)
    assert acl.rtResetEvent(event, stream) == OK
    assert acl.rtQueryEvent(event, ctypes.byref(status)) == OK
    assert status.value == 1
    assert acl.rtSynchronizeEvent(event) == EVENT_TIMEOUT


def test_waits_that_never_end_are_errors(acl):
    one, two = acl.make("rtCreateStream"), acl.make("rtCreateStream")
    a, b = acl.make("rtCreateEvent"), acl.make("rtCreateEvent")
    assert acl.rtStreamWaitEvent(one, a) == OK
    assert acl.rtSynchronizeStream(one) == EVENT_TIMEOUT
    assert "nothing records" in acl.text()
    # one waits for b and records a, two waits for a and records b
    assert acl.rtStreamWaitEvent(one, b) == OK
    assert acl.rtRecordEvent(a, one) == OK
    assert acl.rtStreamWaitEvent(two, a) == OK
    assert acl.rtRecordEvent(b, two) == OK
    assert {acl.rtSynchronizeStream(one), acl.rtSynchronizeStream(two)} == {OK, CIRCLE}  # one of them gives way
    assert acl.rtSynchronizeDevice() == OK


def test_a_failed_kernel_is_told_at_the_next_wait_and_later_work_still_runs(acl, add, kernels):
    stream, x, y = acl.make("rtCreateStream"), acl.put(X), acl.make("rtMalloc", 256, 0)
    assert acl.launch(add, [x, y, 1000, 1], stream) == OK
    assert acl.launch(function_of(acl, kernels, "wild"), [x, 8], stream) == OK
    assert acl.launch(add, [x, y, 64, 1], stream) == OK
    assert acl.rtSynchronizeStream(stream) == EXCEPTION
    text = acl.text()
    assert text.startswith("aclrtSynchronizeStream: out_of_bounds: kernel add, core 0, S instruction")
    assert "kernels.cpp:" in text
    np.testing.assert_array_equal(acl.get(y, 64), X + 1)
    assert acl.rtSynchronizeStream(stream) == OK


def test_a_wait_that_never_ends_is_a_timeout_and_no_hang(acl, kernels):
    assert acl.launch(function_of(acl, kernels, "waits"), [0]) == OK
    assert acl.rtSynchronizeStream(0) == TIMEOUT
    assert "deadlock: kernel waits" in acl.text()


def test_handles_that_are_none_or_were_destroyed_are_codes(acl, add, kernels):
    stream, event = acl.make("rtCreateStream"), acl.make("rtCreateEvent")
    x = acl.put(X)
    assert acl.rtDestroyStream(stream) == OK
    assert acl.rtDestroyEvent(event) == OK
    status = ctypes.byref(ctypes.c_int32())
    for bad in (stream, 0x7, x):
        assert acl.rtSynchronizeStream(bad) == BAD_HANDLE
        assert acl.rtDestroyStream(bad) == BAD_HANDLE
        assert acl.launch(add, [x, x, 64, 1], bad) == BAD_HANDLE
        assert acl.launch(bad, [x, x, 64, 1]) == BAD_HANDLE
        assert acl.rtStreamQuery(bad, status) == BAD_HANDLE
        assert acl.rtBinaryUnLoad(bad) == BAD_HANDLE
        assert acl.rtKernelArgsFinalize(bad) == BAD_HANDLE
    for bad in (event, 0x7):
        for call in (acl.rtDestroyEvent, acl.rtSynchronizeEvent):
            assert call(bad) == BAD_HANDLE
        assert acl.rtRecordEvent(bad, 0) == BAD_HANDLE
        assert acl.rtStreamWaitEvent(0, bad) == BAD_HANDLE
        assert acl.rtQueryEvent(bad, status) == BAD_HANDLE
    assert acl.rtDestroyStream(0) == INVALID_PARAM
    assert acl.rtSynchronizeStreamWithTimeout(0, 0) == INVALID_PARAM
    assert acl.rtSynchronizeStreamWithTimeout(0, 1000) == OK
    replacement = acl.make("rtCreateStream")
    assert replacement != stream
    assert acl.launch(add, [x, x, 1000, 1], replacement) == OK
    assert acl.rtDestroyStreamForce(replacement) == OK  # drops it: nothing fails


# --- launches


def test_launches_are_checked_when_they_are_made(acl, add, kernels):
    x, packed = acl.put(X), np.zeros(40, np.uint64)
    cases = [
        ((add, 0, packed.ctypes.data, 32, 0), "blocks: expected 1 to 10"),
        ((add, 11, packed.ctypes.data, 32, 0), "blocks: expected 1 to 10"),
        ((add, 1, packed.ctypes.data, 30, 0), "argsSize: expected a multiple of 8"),
        ((add, 1, packed.ctypes.data, 320, 0), "argsSize: expected a multiple of 8 up to 256"),
    ]
    for arguments, part in cases:
        assert acl.rtLaunchKernel(*arguments) == RT_PARAM_INVALID
        assert part in acl.text()
    assert acl.rtLaunchKernel(add, 1, 0, 8, 0) == INVALID_PARAM
    place = ctypes.byref(ctypes.c_uint64())
    assert acl.rtBinaryLoadFromFile(b"/no/such.so", 0, place) == 100003
    assert acl.rtBinaryLoadFromFile(str(HERE / "kernels.cpp").encode(), 0, place) == 100003
    assert acl.rtBinaryLoadFromFile(b"libhajax_sim.so", 0, place) == 100003  # a file here, not on the loader's path
    binary = ctypes.c_uint64()
    assert acl.rtBinaryLoadFromFile(str(kernels).encode(), 0, ctypes.byref(binary)) == OK
    assert acl.rtBinaryGetFunction(binary.value, b"nothing", place) == 507027
    assert "nothing" in acl.text()
    function = ctypes.c_uint64()
    assert acl.rtBinaryGetFunction(binary.value, b"add", ctypes.byref(function)) == OK
    y = acl.make("rtMalloc", 256, 0)
    assert acl.launch(function.value, [x, y, 64, 1]) == OK
    assert acl.rtBinaryUnLoad(binary.value) == OK  # runs what is queued first
    np.testing.assert_array_equal(acl.get(y, 64), X + 1)
    assert acl.launch(function.value, [x, y, 64, 1]) == BAD_HANDLE


def test_arguments_may_be_appended_one_by_one(acl, add):
    x, y = acl.put(X), acl.make("rtMalloc", 256, 0)
    handle = ctypes.c_uint64()
    assert acl.rtKernelArgsInit(add, ctypes.byref(handle)) == OK
    for value, kind in ((x, ctypes.c_uint64), (y, ctypes.c_uint64), (64, ctypes.c_uint32), (-2, ctypes.c_int32)):
        assert acl.rtKernelArgsAppend(handle.value, ctypes.byref(kind(value)), ctypes.sizeof(kind), 0) == OK
    assert acl.rtLaunchKernelWithConfig(add, 1, 0, 0, handle.value, 0) == RT_PARAM_INVALID  # not finalised
    assert acl.rtKernelArgsFinalize(handle.value) == OK
    assert acl.rtKernelArgsAppend(handle.value, ctypes.byref(ctypes.c_int32()), 4, 0) == RT_PARAM_INVALID
    assert acl.rtLaunchKernelWithConfig(add, 1, 0, 0, handle.value, 0) == OK
    assert acl.rtSynchronizeStream(0) == OK, acl.text()
    np.testing.assert_array_equal(acl.get(y, 64), X - 2)
    packed = np.array([x, y, 64, 5], np.uint64)
    assert acl.rtLaunchKernelWithHostArgs(add, 1, 0, 0, packed.ctypes.data, 32, 0, 1) == 207000
    assert acl.rtLaunchKernelWithHostArgs(add, 1, 0, 0, packed.ctypes.data, 32, 0, 0) == OK
    assert acl.rtSynchronizeStream(0) == OK
    np.testing.assert_array_equal(acl.get(y, 64), X + 5)


# --- faults on request


def test_the_nth_call_fails_and_no_other(acl, add):
    assert acl.inject(b"malloc:2,memcpy:3,launch:2,execute:2") == OK
    x = acl.put(X)
    assert acl.rtMalloc(ctypes.byref(ctypes.c_uint64()), 256, 0) == NO_MEMORY
    assert "injected" in acl.text()
    y = acl.make("rtMalloc", 256, 0)
    assert acl.rtMemcpy(y, 256, x, 256, D2D) == OK
    assert acl.rtMemcpy(y, 256, x, 256, D2D) == 507000
    assert acl.launch(add, [x, y, 64, 1]) == OK
    assert acl.launch(add, [x, y, 64, 2]) == 507000
    assert acl.launch(add, [x, y, 64, 3]) == OK
    assert acl.rtSynchronizeStream(0) == EXCEPTION
    assert "kernel add: injected exception" in acl.text()
    np.testing.assert_array_equal(acl.get(y, 64), X + 1)
    assert acl.rtSynchronizeStream(0) == OK


def test_a_lost_device_fails_every_call_until_the_runtime_is_finalised(acl, add):
    x, y, place = acl.put(X), acl.make("rtMalloc", 256, 0), ctypes.byref(ctypes.c_uint64())
    assert acl.inject(b"device_lost:2") == OK
    assert acl.launch(add, [x, y, 64, 1]) == OK
    assert acl.rtSynchronizeStream(0) == OK
    assert acl.launch(add, [x, y, 64, 2]) == OK  # the host cannot know yet
    calls = [
        lambda: acl.rtSynchronizeStream(0), lambda: acl.rtMalloc(place, 8, 0), lambda: acl.rtFree(x),
        lambda: acl.rtMemcpy(y, 256, x, 256, D2D), lambda: acl.rtCreateStream(place), lambda: acl.rtSetDevice(0),
        lambda: acl.rtResetDevice(0), lambda: acl.launch(add, [x, y, 64, 1]), lambda: acl.rtGetDevice(place),
    ]  # fmt: skip
    for call in calls:
        assert call() == LOST
        assert "lost" in acl.text()
    assert acl.Finalize() == OK
    assert acl.Init(0) == OK
    assert acl.rtSetDevice(0) == OK
    acl.put(X)


def test_bad_specifications_are_refused(acl):
    for text in (b"disk:1", b"malloc", b"malloc:", b"malloc:0", b"malloc:-1", b"malloc:01", b"malloc:1,,launch:1", b"malloc:1,"):
        assert acl.inject(text) != OK, text
    place = ctypes.c_uint64()
    for _ in range(3):
        assert acl.rtMalloc(ctypes.byref(place), 8, 0) == OK  # none of them took effect
