"""Plans launched with device addresses on a stream give the bits of `hajax_sim_execute`, whatever the call is made of."""

import gc
import threading

import numpy as np
import pytest
from problem import kernel_arrays, plan_of
from steps import FREE, flag, plan, program, step

from hajax import abi, conformance, planner
from hajax.backends import npu as emulated
from hajax.backends.ascend_device import Device
from hajax.backends.ascend_device import kernel_arrays as kernel_arrays_of
from hajax.plans import to_bytes
from hajax.targets import npu

CHIP = npu.load("ascend310p1")
CASES = [
    "T=64 Hk=1 Hv=2 Dk=32 Dv=32 dtype=float16",
    "T=150 B=2 Hk=2 Hv=4 Dk=16 Dv=32 dtype=float16 decay=mixed",
    "T=150 B=3 Hk=2 Hv=4 Dk=32 Dv=16 dtype=float16 decay=resets lengths=150,0,70",
    "T=150 B=2 Hk=2 Hv=2 Dk=32 Dv=32 dtype=float16 decay=infinite op=kda",
    "T=90 B=2 Hk=1 Hv=2 Dk=16 Dv=16 dtype=float16 lengths=1,90 op=kda",
    "T=140 Hk=1 Hv=2 Dk=32 Dv=32 dtype=float16 cu=0,5,5,100,140",
    "T=140 Hk=1 Hv=2 Dk=32 Dv=32 dtype=float16 cu=0,64,65,140 op=kda",
    "T=1 B=3 Hk=2 Hv=4 Dk=128 Dv=128 dtype=float16",
    "T=1 B=2 Hk=2 Hv=2 Dk=64 Dv=64 dtype=float16 op=kda",
    "T=100 Hk=1 Hv=1 Dk=16 Dv=16 dtype=float16 op=gdn2",
    "T=70 Hk=1 Hv=1 Dk=16 Dv=16 dtype=float16 op=lin",
    "T=64 B=2 Hk=1 Hv=1 Dk=16 Dv=16 dtype=float16 lengths=0,0",
]


def arrays_of(case):
    arrays = kernel_arrays(case, conformance.inputs(case))
    return arrays | ({"log_decay": None} if case.mechanism.decay == "none" else {})


def run(plan, arrays, scale, *, in_place=False):
    with Device(emulated=True) as device:
        call = device.place(plan).prepare(arrays["query"].shape[1], arrays["bounds"], scale)
        return device.run(call, arrays, in_place=in_place)


@pytest.mark.parametrize("text", CASES)
@pytest.mark.parametrize("in_place", [False, True], ids=["apart", "in_place"])
def test_a_launch_gives_the_bits_of_an_execution(text, in_place):
    case = conformance.parse(text)
    arrays, plan, scale = arrays_of(case), to_bytes(plan_of(case, CHIP)), case.key_dim**-0.5
    output, state, runs = emulated.execute(plan, arrays, scale=scale)
    got_output, got_state, microseconds = run(plan, arrays, scale, in_place=in_place)
    np.testing.assert_array_equal(got_output, output)
    np.testing.assert_array_equal(got_state, state)
    assert (microseconds > 0) == bool(runs)


@pytest.mark.parametrize("schedule", ["hanpu", "fla", "fla_megakernel", "flashqla"])
def test_plans_of_several_launches_with_a_workspace(schedule):
    case = conformance.parse("T=200 B=2 Hk=2 Hv=4 Dk=32 Dv=32 dtype=float16 lengths=200,130")
    plan = planner.plan(case.mechanism, plan_of(case, CHIP).shape, CHIP, schedule)
    arrays = arrays_of(case)
    output, state, runs = emulated.execute(to_bytes(plan), arrays, scale=0.5)
    with Device(emulated=True) as device:
        call = device.place(to_bytes(plan)).prepare(case.tokens, arrays["bounds"], 0.5)
        assert call.needs.launches == len(runs)
        for _ in range(2):  # the workspace of the second has been used
            got_output, got_state, _ = device.run(call, arrays, in_place=call.needs.in_place)
            np.testing.assert_array_equal(got_output, output)
            np.testing.assert_array_equal(got_state, state)


@pytest.mark.parametrize("heads", [(0, 1), (0, 1, 1)], ids=["once", "again"])
def test_a_state_stays_in_its_place_only_where_no_item_reads_it_after_another(heads):
    tensor, ready = abi.table("tensors"), flag("MTE2_MTE3", 0)
    finish = [
        step("rows_to_ub", dst=FREE, count=1, p=(tensor["state_in"], 0, 0, 0, 1), set=[ready]),
        step("rows_from_ub", src0=FREE, count=1, p=(tensor["state_out"], 0, 0, 0, 1, 0, 0, 4), wait=[ready]),
    ]
    shape = {"key_heads": 1, "value_heads": 2, "key_dim": 16, "value_dim": 16}
    copies = plan([program((), (), finish)], items=[(0, 0, head, 0, 0, -1) for head in heads], **shape)
    with Device(emulated=True) as device:
        call = device.place(copies).prepare(16, np.array([[0, 16]], np.int32), 1.0)
        assert call.needs.in_place == (heads == (0, 1))
        if not call.needs.in_place:
            same = {"state_in": 64, "state_out": 64, "output": 64, "workspace": 64}
            with pytest.raises(ValueError, match="state_out: expected another array than state_in"):
                call.launch(**same, query=64, key=64, value=64, log_decay=64, beta=64, stream=0)


def test_a_split_sequence_takes_up_its_state_where_it_lies():
    case = conformance.parse("T=192 Hk=1 Hv=2 Dk=32 Dv=32 dtype=float16")
    arrays = arrays_of(case)
    whole, final, _ = run(to_bytes(plan_of(case, CHIP)), arrays, 1.0)
    state, outputs = arrays["state_in"], []
    for first, last in ((0, 64), (64, 192)):
        part = {n: x[:, first:last] for n, x in arrays.items() if n not in ("state_in", "bounds")}
        part |= {"state_in": state, "bounds": np.array([[0, last - first]], np.int32)}
        shape = conformance.parse(f"T={last - first} Hk=1 Hv=2 Dk=32 Dv=32 dtype=float16")
        output, state, _ = run(to_bytes(plan_of(shape, CHIP)), part, 1.0, in_place=True)
        outputs.append(output)
    np.testing.assert_array_equal(np.concatenate(outputs, 1), whole)
    np.testing.assert_array_equal(state, final)


def test_one_plan_serves_calls_with_other_bounds_and_is_freed_with_the_last_of_them():
    case = conformance.parse("T=100 B=2 Hk=1 Hv=1 Dk=16 Dv=16 dtype=float16")
    plan, arrays = to_bytes(plan_of(case, CHIP)), arrays_of(case)
    with Device(emulated=True) as device:
        before = device.memory()
        placed = device.place(plan)
        calls = [placed.prepare(100, np.array([[0, n], [3, 100]], np.int32), 1.0) for n in (100, 17)]
        del placed
        for call in calls:
            output, state, _ = device.run(call, arrays | {"bounds": call.bounds})
            wanted = emulated.execute(plan, arrays | {"bounds": call.bounds}, scale=1.0)
            np.testing.assert_array_equal(output, wanted[0])
            np.testing.assert_array_equal(state, wanted[1])
        assert device.memory()[0] < before[0]
        del call, calls
        gc.collect()
        assert device.memory() == before


def test_a_call_that_does_not_fit_is_refused_by_name():
    case = conformance.parse("T=100 B=2 Hk=1 Hv=1 Dk=16 Dv=16 dtype=float16")
    full = np.array([[0, 100]] * 2, np.int32)
    with Device(emulated=True) as device:
        placed = device.place(to_bytes(plan_of(case, CHIP)))
        with pytest.raises(ValueError, match=r"bounds: expected an array int32\[B, N\+1\], got int64\[2, 2\]"):
            placed.prepare(100, full.astype(np.int64), 1.0)
        with pytest.raises(ValueError, match=r"bounds\[1\]\[1\]: expected 0..90 .*, got 100"):
            placed.prepare(90, np.array([[0, 90], [0, 100]], np.int32), 1.0)
        with pytest.raises(ValueError, match="batch times sequences: expected 2 as the plan says, got 1"):
            placed.prepare(100, full[:1], 1.0)
        with pytest.raises(ValueError, match="scale: expected a finite number"):
            placed.prepare(100, full, float("inf"))
        call = placed.prepare(100, full, 1.0)
        addresses = dict.fromkeys(
            ("query", "key", "value", "log_decay", "beta", "state_in", "output", "state_out", "workspace"), 64
        )
        with pytest.raises(ValueError, match=r"key: expected a device address that is a multiple of 32, got 68"):
            call.launch(**addresses | {"key": 68}, stream=0)
        with pytest.raises(ValueError, match=r"workspace: expected 32 bytes, got null"):
            call.launch(**addresses | {"workspace": 0}, stream=0)


def test_another_thread_launches_and_closes_what_this_one_opened():
    """It has no device of its own: a plan may be collected by any thread."""
    case = conformance.parse("T=70 B=2 Hk=1 Hv=1 Dk=16 Dv=16 dtype=float16")
    plan, arrays = to_bytes(plan_of(case, CHIP)), arrays_of(case)
    with Device(emulated=True) as device:
        before = device.memory()
        call = device.place(plan).prepare(case.tokens, arrays["bounds"], 1.0)
        wanted = device.run(call, arrays)
        with device.arrays() as held:
            addresses = {name: held.put(array) for name, array in kernel_arrays_of(call, arrays).items()}
            output = np.empty_like(wanted[0])
            addresses |= {"output": held.allocate(output.nbytes), "workspace": held.allocate(call.needs.workspace_bytes)}
            in_thread(lambda: call.launch(**addresses, state_out=addresses["state_in"], stream=device.stream))
            held.finish()
            held.get(addresses["output"], output)
        np.testing.assert_array_equal(output, wanted[0])
        in_thread(call.close)
        in_thread(call.plan.close)
        assert device.memory() == before


def in_thread(work):
    failures = []

    def run():
        try:
            work()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert not failures, failures


@pytest.mark.parametrize(("function", "arguments"), [
    ("plan_open", "NN0p"), ("plan_open", "tN0p"), ("call_open", "Niiib0c"), ("call_needs", "Nn"), ("launch", "Naw"),
    ("memory", "NN"), ("cores", "N"), ("allocate", "iN"), ("stream_open", "N"), ("event_open", "N"), ("event_elapsed", "wwN"),
])  # fmt: skip
def test_null_is_an_error_with_a_text(function, arguments):
    with Device(emulated=True) as device:
        ffi, lib = device.library.ffi, device.library.lib
        made = {
            "N": ffi.NULL, "i": 1, "0": 0, "w": 0, "t": ffi.new("hj_target *"), "p": ffi.new("hj_ascend_plan **"),
            "c": ffi.new("hj_ascend_call **"), "b": ffi.new("int32_t[2]"), "n": ffi.new("hj_ascend_needs *"),
            "a": ffi.new("hj_ascend_arrays *"),
        }  # fmt: skip
        status = getattr(lib, f"hajax_ascend_{function}")(*(made[letter] for letter in arguments))
        names = abi.table("statuses")
        assert names(status).name in ("bad_call", "bad_plan"), names(status)
        assert b"null" in ffi.string(lib.hajax_ascend_last_error())
        assert lib.hajax_ascend_plan_close(ffi.NULL) == 0 == lib.hajax_ascend_call_close(ffi.NULL)
