"""What the host makes of a call: gates head-major with zeros behind, refusals that name what is wrong, nothing left behind."""

import dataclasses
import re

import numpy as np
import pytest
import steps
from steps import FREE, flag, plan, program, step, vector
from toy_plan import toy_plan

from hajax import abi
from hajax.backends import npu, sim
from hajax.backends._arrays import ARRAYS
from hajax.backends.npu import LibraryError
from hajax.targets.npu import load

TENSOR = abi.table("tensors")
SHAPE = {"key_heads": 1, "value_heads": 2, "key_dim": 16, "value_dim": 16}


def copy_plan(source="value", **fields):
    """Outputs are values; with another source, the first row of a chunk's outputs are that gate's 16 values in fp32."""
    ready = flag("MTE2_MTE3", 0)
    load_step = step("rows_to_ub", dst=FREE, count=1, p=(TENSOR["value"],), set=[ready])
    width = 2
    if source != "value":
        load_step, width = step("gate_to_ub", dst=FREE, p=(TENSOR[source], 0), set=[ready]), 4
    save = step("rows_from_ub", src0=FREE, count=1, p=(TENSOR["output"], 0, 0, 0, 0, 0, 0, width), wait=[ready])
    items = [(0, 0, head, 0, 0, -1) for head in range(2)]
    return plan([program((), [load_step, save])], items=items, **SHAPE, output="float16" if width == 2 else "float32", **fields)


def copy_states():
    ready = flag("MTE2_MTE3", 0)
    finish = [
        step("rows_to_ub", dst=FREE, count=1, p=(TENSOR["state_in"], 0, 0, 0, 1), set=[ready]),
        step("rows_from_ub", src0=FREE, count=1, p=(TENSOR["state_out"], 0, 0, 0, 1, 0, 0, 4), wait=[ready]),
    ]
    return plan([program((), (), finish)], items=[(0, 0, head, 0, 0, -1) for head in range(2)], **SHAPE)


def seen_gates(name, arrays, **fields):
    """The gates [Hv, 16] of a single token, as the kernel gets them: its chunk's other entries lie behind."""
    output, _, _ = npu.execute(copy_plan(name, **fields), arrays, scale=1.0)
    return output[0, 0]


def test_decays_that_forget_all_become_finite():
    arrays = steps.call(1, **SHAPE)
    arrays["log_decay"][:] = [-np.inf, -2e4]
    gates = seen_gates("log_decay", arrays)
    assert (gates[:, 0] == -1e4).all() and (gates[:, 1:] == 0).all()


def test_without_a_decay_the_array_may_be_absent():
    arrays = steps.call(1, **SHAPE) | {"log_decay": None}
    assert (seen_gates("log_decay", arrays, decay="none") == 0).all()
    del arrays["log_decay"]
    assert (seen_gates("log_decay", arrays, decay="none") == 0).all()
    arrays["log_decay"] = None
    with pytest.raises(ValueError, match=r"log_decay: expected float32\[1, 1, 2\] as the plan says, got None"):
        seen_gates("log_decay", arrays)


@pytest.mark.parametrize("value", [1e-30, np.nan, np.inf])
@pytest.mark.parametrize("per_channel", [False, True])
def test_a_log_decay_above_0_is_refused(value, per_channel):
    arrays = steps.call(5, **SHAPE, per_channel=per_channel)
    arrays["log_decay"][0, 3, 1] = value
    decay = "per_channel" if per_channel else "scalar"
    with pytest.raises(ValueError, match=r"bad_call: call: log_decay\[0, 3, 1\]: expected (a number|numbers) of at most 0, got"):
        npu.execute(copy_plan(decay=decay), arrays, scale=1.0)
    arrays["bounds"] = np.array([[0, 3]], np.int32)  # of no sequence any more
    npu.execute(copy_plan(decay=decay), arrays, scale=1.0)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("strengths", [1, 2])
def test_a_strength_that_is_not_finite_is_refused(value, strengths):
    arrays = steps.call(5, **SHAPE, strengths=strengths)
    arrays["beta"].reshape(1, 5, 2, strengths)[0, 2, 0, -1] = value
    with pytest.raises(ValueError, match=r"bad_call: call: beta\[0, 2, 0\]: expected a finite number, got"):
        npu.execute(copy_plan(strengths=strengths), arrays, scale=1.0)


@pytest.mark.parametrize("strengths", [1, 2])
def test_a_strength_below_0_is_refused_where_its_logarithm_is_taken(strengths):
    arrays = steps.call(5, **SHAPE, strengths=strengths)
    arrays["beta"].reshape(1, 5, 2, strengths)[0, 2, 1, 0] = -0.5
    logarithms = plan([program((), [vector("ln32", FREE, FREE)])], **SHAPE, strengths=strengths)
    name = ("beta", "erase")[strengths - 1]
    with pytest.raises(ValueError, match=rf"bad_call: call: {name}\[0, 2, 1\]: expected a number of at least 0, .* got -0.5"):
        npu.execute(logarithms, arrays, scale=1.0)
    npu.execute(copy_plan(strengths=strengths), arrays, scale=1.0)
    arrays["bounds"] = np.array([[0, 2]], np.int32)  # of no sequence any more
    with pytest.raises(npu.SimFault):  # past the refusal: the step reads what nobody has written
        npu.execute(logarithms, arrays, scale=1.0)


def test_counts_alone_are_those_of_a_whole_run():
    """The kernel reads what it is to do from its plan, then, too."""
    arrays = steps.call(37, **SHAPE)
    counted, whole = (
        npu.execute(copy_plan(), arrays, scale=1.0, options=npu.SimOptions(counts_only=only))[2][0] for only in (True, False)
    )
    assert counted.counts == whole.counts and counted.timing == whole.timing
    assert counted.counts["copy_ubuf_to_gm"] > 0


@pytest.mark.parametrize(("bounds", "message"), [
    ([[0, 6]], r"bounds\[0\]\[1\]: expected 0\.\.5 \(ascending, at most tokens\), got 6"),
    ([[4, 3]], r"bounds\[0\]\[1\]: expected 4\.\.5 \(ascending, at most tokens\), got 3"),
    ([[-1, 3]], r"bounds\[0\]\[0\]: expected 0\.\.5 \(ascending, at most tokens\), got -1"),
])  # fmt: skip
def test_bounds_that_are_none_are_refused(bounds, message):
    with pytest.raises(ValueError, match=message):
        npu.execute(copy_plan(), steps.call(5, **SHAPE, bounds=bounds), scale=1.0)


def test_a_scale_that_is_not_finite_is_refused():
    with pytest.raises(ValueError, match=r"call: scale: expected a finite number, got inf"):
        npu.execute(copy_plan(), steps.call(5, **SHAPE), scale=float("inf"))


@pytest.mark.parametrize(("changes", "message"), [
    ({"plan": toy_plan()}, "plan: expected bytes as hajax.plans.to_bytes makes them, got Plan"),
    ({"plan": None}, "plan: expected bytes as hajax.plans.to_bytes makes them, got NoneType"),
    ({"arrays": [1]}, "arrays: expected arrays by name, got list"),
    ({"scale": "a"}, "scale: expected a number, got 'a'"), ({"scale": None}, "scale: expected a number, got None"),
    ({"scale": True}, "scale: expected a number, got True"),
    ({"target": 3}, "target: expected one of ascend310b1, ascend310p1, ascend310p3 or an NpuTarget, got int"),
    ({"options": 3}, "options: expected SimOptions or None, got int"),
])  # fmt: skip
def test_an_argument_of_another_type_is_refused_by_name(changes, message):
    arguments = {"plan": copy_plan(), "arrays": steps.call(5, **SHAPE), "scale": 1.0} | changes
    plan, arrays = arguments.pop("plan"), arguments.pop("arrays")
    with pytest.raises(TypeError, match=f"^{message}$"):
        npu.execute(plan, arrays, **arguments)
    if "plan" in changes:
        with pytest.raises(TypeError, match=f"^{message}$"):
            npu.specialise(plan)


@pytest.mark.parametrize("kind", [int, np.int64, np.float32, np.float64])
def test_a_scale_may_be_any_number(kind):
    assert npu.execute(copy_plan(), steps.call(5, **SHAPE), scale=kind(2))[0].any()


EXPECTED = {
    "query": "float16[1, 5, 1, 16]", "key": "float16[1, 5, 1, 16]", "value": "float16[B, T, 2, 16]",
    "log_decay": "float32[1, 5, 2]", "beta": "float32[1, 5, 2]", "state_in": "float32[1, 1, 2, 16, 16]",
    "bounds": "int32[1, N+1]",
}  # fmt: skip


@pytest.mark.parametrize("name", EXPECTED)
def test_an_array_that_is_not_there_is_refused_by_name(name):
    arrays = steps.call(5, **SHAPE)
    wanted = f"{name}: expected {EXPECTED[name]} as the plan says, got"
    for given, got in ((arrays | {name: None}, "None"), ({n: a for n, a in arrays.items() if n != name}, "none of that name")):
        with pytest.raises(ValueError, match=f"^{re.escape(f'{wanted} {got}')}$"):
            npu.execute(copy_plan(), given, scale=1.0)
    with pytest.raises(ValueError, match=rf"^{re.escape(wanted)} float64\[1\]$"):
        npu.execute(copy_plan(), arrays | {name: 3.0}, scale=1.0)


@pytest.mark.parametrize(("name", "array"), [
    ("query", np.zeros((1, 5, 1, 32), np.float16)), ("key", np.zeros((1, 5, 1, 16), np.float32)),
    ("beta", np.zeros((1, 5, 2, 2), np.float32)), ("state_in", np.zeros((1, 2, 2, 16, 16), np.float32)),
    ("bounds", np.zeros((1, 2), np.int64)),
])  # fmt: skip
def test_arrays_that_do_not_fit_the_plan_are_refused(name, array):
    with pytest.raises(ValueError, match=rf"{name}: expected \w+\[.*\] as the plan says, got \w+\["):
        npu.execute(copy_plan(), steps.call(5, **SHAPE) | {name: array}, scale=1.0)


@pytest.mark.parametrize("name", EXPECTED)
def test_arrays_of_the_other_byte_order_are_refused(name):
    arrays = steps.call(5, **SHAPE)
    swapped = arrays[name].astype(arrays[name].dtype.newbyteorder())
    with pytest.raises(ValueError, match=rf"^{name}: expected (\w+\[).*\] as the plan says, got byte-swapped \1"):
        npu.execute(copy_plan(), arrays | {name: swapped}, scale=1.0)


def test_other_chips():
    arrays = steps.call(5, **SHAPE)
    with pytest.raises(LibraryError, match=r"unsupported: plan: npu_arch: expected 2002 for plan and chip, got 2002 and 3002"):
        npu.execute(copy_plan(), arrays, scale=1.0, target="ascend310b1")
    two = dataclasses.replace(load("ascend310p1"), ai_cores=2)
    wide = copy_plan(launches=[(0, (1, 1, 0))])
    with pytest.raises(LibraryError, match=r"launches\[0\]\.cores: expected 1\.\.2, got 3"):
        npu.execute(wide, arrays, scale=1.0, target=two)
    assert (npu.execute(wide, arrays, scale=1.0, target="ascend310p3")[0] == arrays["value"]).all()


def test_states_may_be_updated_in_place():
    library = sim.open_sim_library()
    ffi = library.ffi
    arrays = steps.call(5, **SHAPE)
    before = arrays["state_in"].copy()
    output = np.empty(arrays["value"].shape, np.float16)
    call = npu._call(library, {n: arrays[n] for n in ARRAYS}, output, arrays["state_in"])
    call.scale, call.l2norm_eps = 1.0, -1.0
    made = copy_states()
    assert library.lib.hajax_sim_execute(ffi.NULL, made, len(made), call, ffi.NULL, ffi.NULL, ffi.NULL, ffi.NULL) == 0
    assert (arrays["state_in"] == before).all()


def test_calls_leave_the_processs_own_device_alone():
    with sim.Device() as device:
        buffer = device.put(np.arange(8, dtype=np.float32))
        npu.execute(copy_plan(), steps.call(5, **SHAPE), scale=1.0)
        assert (device.get(buffer) == np.arange(8)).all()


def test_equal_calls_give_equal_bits_counts_and_cycles_with_any_number_of_threads():
    arrays = steps.call(50, **SHAPE)
    made = copy_plan(launches=[(0, (1, 1))])
    runs = [npu.execute(made, arrays, scale=1.0, options=npu.SimOptions(threads=threads)) for threads in (1, 2, 3)]
    for output, _, (run,) in runs:
        assert (output == runs[0][0]).all()
        assert (run.counts, run.timing) == (runs[0][2][0].counts, runs[0][2][0].timing)
