"""What goes wrong on the way to a device is one clear exception; nothing is leaked, and the next call works."""

import dataclasses
import gc

import numpy as np
import pytest
from emulated_device import injected
from problem import kernel_arrays, plan_of

from hajax import abi, conformance, planner
from hajax.backends import ascend, sim
from hajax.backends.ascend_device import Device
from hajax.plans import to_bytes
from hajax.targets import npu

CASE = conformance.parse("T=70 B=2 Hk=1 Hv=2 Dk=16 Dv=16 dtype=float16 lengths=70,20")
CHIP = npu.load("ascend310p1")
PLAN = to_bytes(plan_of(CASE, CHIP))
ARRAYS = kernel_arrays(CASE, conformance.inputs(CASE))


@pytest.fixture
def device():
    with Device(emulated=True) as opened:
        yield opened


@pytest.fixture(scope="module")
def wanted():
    with Device(emulated=True) as device:
        return run(device)


def run(device):
    call = device.place(PLAN).prepare(CASE.tokens, ARRAYS["bounds"], 1.0)
    return device.run(call, ARRAYS)[:2]


def check_next_call(device, before, wanted):
    gc.collect()
    assert device.memory() == before
    for got, right in zip(run(device), wanted, strict=True):
        np.testing.assert_array_equal(got, right)
    gc.collect()
    assert device.memory() == before


# The plan, the call's tables, seven arrays that are read, output, states, workspace.
@pytest.mark.parametrize("number", range(1, 12))
def test_an_allocation_fails(device, wanted, number):
    before = device.memory()
    with injected(f"malloc:{number}"), pytest.raises(MemoryError, match="no_memory: aclrtMalloc failed with ACL error 207001"):
        run(device)
    check_next_call(device, before, wanted)


@pytest.mark.parametrize("number", range(1, 9))
def test_a_copy_to_the_device_fails(device, wanted, number):
    before = device.memory()
    with injected(f"memcpy:{number}"), pytest.raises(ascend.AscendError, match=r"aclrtMemcpy failed .* injected copy error"):
        run(device)
    check_next_call(device, before, wanted)


def test_a_launch_fails(device, wanted):
    before = device.memory()
    with injected("launch:1"), pytest.raises(ascend.LaunchError, match=r"launch of hajax_delta_rule .* injected launch error"):
        run(device)
    check_next_call(device, before, wanted)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_launch_of_several_fails(device, number):
    """What was queued before it runs, and the arrays are there until it has."""
    plan = to_bytes(planner.plan(CASE.mechanism, plan_of(CASE, CHIP).shape, CHIP, "fla"))
    call = device.place(plan).prepare(CASE.tokens, ARRAYS["bounds"], 1.0)
    assert call.needs.launches >= 3
    right, before = device.run(call, ARRAYS), device.memory()
    with injected(f"launch:{number}"), pytest.raises(ascend.LaunchError, match="injected launch error"):
        device.run(call, ARRAYS)
    assert device.memory() == before
    for got, wanted in zip(device.run(call, ARRAYS)[:2], right[:2], strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_the_stream_fails(device, wanted):
    before = device.memory()
    with injected("execute:1"), pytest.raises(ascend.StreamError, match="aclrtSynchronizeStream failed with ACL error 507015"):
        run(device)
    check_next_call(device, before, wanted)


def test_a_failure_that_only_a_closing_plan_sees_is_told_by_the_next_launch(device, wanted):
    before = device.memory()
    call, other = (device.place(PLAN).prepare(CASE.tokens, ARRAYS["bounds"], 1.0) for _ in range(2))
    with device.arrays() as held:
        addresses = {name: held.allocate(1 << 16) for name in ("query", "key", "value", "log_decay", "beta", "state_in")}
        results = {name: held.allocate(1 << 16) for name in ("output", "state_out", "workspace")}
        call.launch(**addresses, **results, stream=0)  # reads what was never written
        call.close()
        with pytest.raises(ascend.StreamError, match="uninitialized"):
            other.launch(**addresses, **results, stream=0)
    del call, other
    check_next_call(device, before, wanted)


def test_a_check_of_the_emulator_is_told_whole(device):
    call = device.place(PLAN).prepare(CASE.tokens, ARRAYS["bounds"], 1.0)
    with device.arrays() as held:
        addresses = {name: held.put(np.zeros(1 << 14, np.uint8)) for name in ("query", "key", "value", "log_decay", "beta")}
        addresses |= {name: held.allocate(1 << 14) for name in ("output", "state_out", "workspace")}
        call.launch(**addresses, state_in=held.put(np.zeros(64, np.uint8)), stream=0)  # too short
        with pytest.raises(ascend.StreamError, match="out_of_bounds"):
            ascend.synchronize(device.library)


@pytest.mark.parametrize("closes", [False, True], ids=["goes_on", "closes"])
def test_the_device_is_lost(wanted, closes):
    device = Device(emulated=True)
    before = device.memory()
    old = device.place(PLAN).prepare(CASE.tokens, ARRAYS["bounds"], 1.0)
    with injected("device_lost:1"):
        for _ in range(2):
            with pytest.raises(ascend.DeviceLostError, match=r"507010.*what lay on the device is gone"):
                run(device)
        if closes:
            with pytest.raises(ascend.DeviceLostError):
                device.close()
        device.reopen()
        with pytest.raises(ValueError, match="call: expected one that was opened since the device was"):
            device.run(old, ARRAYS)
        with pytest.raises(ValueError, match="plan: expected one that was opened since the device was"):
            old.plan.prepare(CASE.tokens, ARRAYS["bounds"], 1.0)
        del old
        check_next_call(device, before, wanted)
    device.close()


def test_a_plan_outlives_its_device(wanted):
    with Device(emulated=True) as device:
        call = device.place(PLAN).prepare(CASE.tokens, ARRAYS["bounds"], 1.0)
        other = device.place(PLAN)
    del other
    gc.collect()
    with Device(emulated=True) as device:
        before = device.memory()
        with pytest.raises(ValueError, match="call: expected one that was opened since the device was, got an older one"):
            device.run(call, ARRAYS)
        del call
        check_next_call(device, before, wanted)


def test_a_device_that_was_opened_twice_is_closed_with_the_second(wanted):
    with Device(emulated=True) as outer:
        call = outer.place(PLAN).prepare(CASE.tokens, ARRAYS["bounds"], 1.0)
        with Device(emulated=True):
            pass
        np.testing.assert_array_equal(outer.run(call, ARRAYS)[0], wanted[0])


def changed(**fields):
    header = sim.open_sim_library().ffi.new("hj_npu_plan *")
    ffi = sim.open_sim_library().ffi
    ffi.memmove(header, PLAN, ffi.sizeof("hj_npu_plan"))
    for name, value in fields.items():
        setattr(header.header if hasattr(header.header, name) else header, name, value)
    return bytes(ffi.buffer(header)) + PLAN[ffi.sizeof("hj_npu_plan") :]


def test_a_plan_of_another_version(device, wanted):
    before = device.memory()
    with pytest.raises(ascend.PlanVersionError, match=f"abi_digest: expected {abi.digest()} .this library's., got 0000"):
        device.place(changed(abi_digest=bytes(32)))
    check_next_call(device, before, wanted)


@pytest.mark.parametrize(("fields", "kind", "message"), [
    ({"magic": 1}, ascend.LibraryError, "bad_plan: plan: magic"),
    ({"npu_arch": 3002}, NotImplementedError, "npu_arch: expected 2002"),
    ({"key_dim": 17}, ascend.LibraryError, "key_dim: expected a multiple of 16"),
    ({"checksum": 1}, ascend.LibraryError, "checksum"),
])  # fmt: skip
def test_a_plan_that_is_none(device, wanted, fields, kind, message):
    before = device.memory()
    with pytest.raises(kind, match=message):
        device.place(changed(**fields))
    check_next_call(device, before, wanted)


def test_a_plan_for_more_cores_than_the_device_has(device, wanted):
    before = device.memory()
    more = dataclasses.replace(npu.load("ascend310p1"), ai_cores=12)
    plan = to_bytes(plan_of(conformance.parse("T=64 B=12 Hk=1 Hv=1 Dk=16 Dv=16 dtype=float16"), more))
    with pytest.raises(NotImplementedError, match="cores: expected at most 10, the device's, got 12"):
        ascend.PlacedPlan(device.library, plan, more)
    check_next_call(device, before, wanted)
