"""The custom call of the emulated chip: what XLA hands over reaches the plan, and what it did can be asked for."""

import jax
import numpy as np
import pytest
import steps
from steps import FREE, flag, plan, program, step

from hajax import abi
from hajax.backends import npu, xla

TENSOR = abi.table("tensors")
SHAPE = {"key_heads": 1, "value_heads": 2, "key_dim": 16, "value_dim": 32}
ORDER = ("query", "key", "value", "log_decay", "beta", "state_in", "bounds")


def rows(tensor, state=0, itemsize=2):
    return (TENSOR[tensor], 0, 0, 0, state, 0, 0, itemsize)


def copying(**fields):
    """A plan whose output is its values and whose final states are its states."""
    wait, mark = {"wait": [flag("MTE2_MTE3", 0)]}, {"set": [flag("MTE2_MTE3", 0)]}
    body = [
        step("rows_to_ub", dst=FREE, count=2, p=rows("value"), **mark),
        step("rows_from_ub", src0=FREE, count=2, p=rows("output"), **wait),
    ]
    finish = [
        step("rows_to_ub", dst=FREE, count=2, p=rows("state_in", 1), **mark),
        step("rows_from_ub", src0=FREE, count=2, p=rows("state_out", 1, 4), **wait),
    ]
    items = [(0, 0, head, 0, 0, -1) for head in range(2)]
    return plan([program((), body, finish, columns=32)], **SHAPE, items=items, launches=[(0, (1, 1))], **fields)


def call(data, arrays, *, l2norm_eps=-1.0, scratch=False):
    """Through XLA; output, states and counters by name."""
    state = arrays["state_in"].reshape(-1, *arrays["state_in"].shape[2:])
    operands = [state if name == "state_in" else arrays[name] for name in ORDER]
    results = [
        jax.ShapeDtypeStruct(arrays["value"].shape, np.float16), jax.ShapeDtypeStruct(state.shape, np.float32),
        jax.ShapeDtypeStruct((abi.constant("HJ_COUNTERS"),), np.int64),
    ]  # fmt: skip
    if scratch:
        results.append(jax.ShapeDtypeStruct((64,), np.uint8))
    kernel = jax.ffi.ffi_call(xla.register_sim(), results)
    with jax.enable_x64(True):
        output, states, counters, *_ = jax.jit(
            lambda *xs: kernel(*xs, plan=np.frombuffer(data, np.uint8), scale=np.float32(1), l2norm_eps=np.float32(l2norm_eps))
        )(*operands)
    named = {str(row[1]): int(counters[int(row[0])]) for row in abi.rows("counters")}
    return np.asarray(output), np.asarray(states).reshape(arrays["state_in"].shape), named


@pytest.mark.parametrize("scratch", [False, True])
def test_a_call_runs_the_plan_and_counts(scratch):
    arrays = steps.call(40, **SHAPE)
    output, states, counters = call(copying(), arrays, scratch=scratch)
    assert (output == arrays["value"]).all()
    assert (states == arrays["state_in"]).all()
    wanted = {"launches": 1, "workers": 2, "tasks": 2, "chunks": 6, "chunk": 16, "macs": 0}
    assert {name: counters[name] for name in wanted} == wanted
    assert counters["cycles"] > 5300
    assert counters["gm_bytes"] > 2 * (output.nbytes + states.nbytes)


def test_what_calls_did_is_kept_while_it_is_asked_for():
    arrays = steps.call(5, **SHAPE)
    call(copying(), arrays)
    with npu.recording():
        assert npu.take_calls() == ()
        call(copying(), arrays)
        call(copying(chunk=32), arrays)
        first, second = npu.take_calls()
        assert npu.take_calls() == ()
    assert first.plan == copying() and second.plan == copying(chunk=32)
    assert first.digest != second.digest
    assert [run.blocks for run in first.runs] == [2]
    assert first.runs[0].kernel == npu.KERNEL and first.runs[0].target == "ascend310p1"
    with pytest.raises(ValueError, match="no timeline"):
        npu.timeline(first.runs[0])
    with npu.recording():
        with npu.recording(timelines=True):
            call(copying(), arrays)
        ((run,),) = [one.runs for one in npu.take_calls()]  # the outer wish still stands
        assert '"traceEvents"' in npu.timeline(run)
        call(copying(), arrays)
    assert npu.take_calls() == ()


def test_refusals_name_what_is_wrong():
    arrays = steps.call(5, **SHAPE)
    with pytest.raises(Exception, match=r"l2norm_eps: expected a negative number"):
        call(copying(), arrays, l2norm_eps=1e-6)
    with pytest.raises(Exception, match=r"query: expected shape \[1, 5, 1, 32\], got \[1, 5, 1, 16\]"):
        call(plan([program((), [step("sync")], ())], key_dim=32, value_dim=32, value_heads=2), arrays)
    with pytest.raises(Exception, match=r"target: expected one of .*ascend310p1.*, got \"ascend310p9\""):
        call(copying(target="ascend310p9"), arrays)
    broken = bytearray(copying())
    broken[8] ^= 1
    with pytest.raises(Exception, match=r"abi_digest: expected"):
        call(bytes(broken), arrays)


def test_a_failed_check_is_an_error_of_the_call(monkeypatch):
    body = [step("rows_to_ub", dst=FREE, count=2, p=rows("value")), step("rows_from_ub", src0=FREE, count=2, p=rows("output"))]
    racing = plan([program((), body, (), columns=32)], **SHAPE)
    arrays = steps.call(5, **SHAPE)
    with pytest.raises(Exception, match=r"race: kernel hajax_delta_rule, core 0"):
        call(racing, arrays)
    monkeypatch.setenv("HAJAX_SIM_FAST", "1")
    output, _, _ = call(racing, arrays)
    assert (output[:, :, 0] == arrays["value"][:, :, 0]).all()
