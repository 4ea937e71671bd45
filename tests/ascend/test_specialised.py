"""A kernel made of one plan's programs does what the kernel that walks the plan does, without loading a step."""

import collections
import re

import numpy as np
import pytest
import steps
from steps import FREE, flag, program, step, sync, vector
from toy_plan import toy_plan

from hajax import abi, planner
from hajax.backends import npu
from hajax.mechanisms import MECHANISMS
from hajax.plans import Shape, from_bytes, opened, summed, to_bytes
from hajax.plans.source import kernel_name, source_of, to_source
from hajax.plans.wire_programs import STEP_BYTES
from hajax.targets import npu as chips

PROGRAM_BYTES = steps.ffi().sizeof("hj_npu_program") - 32  # the kernel has no use for peak_bytes


def loads_of_programs(data):
    """Of the only launch: how often a core takes a program that it has not just run, and what that brings to it."""
    programs = from_bytes(data)
    (launch,) = programs.launches
    count = size = 0
    for core in launch.cores:
        for before, item in zip((None, *core), core, strict=False):
            if before is None or before.program != item.program:
                one = programs.programs[item.program]
                count += 1
                size += PROGRAM_BYTES + -(-(len(one.setup) + len(one.body) + len(one.finish)) * STEP_BYTES // 32) * 32
    return count, size


def both(data, arrays):
    """The runs of a plan, walked and specialised, that have given equal bits."""
    output, state, (walked,) = npu.execute(data, arrays, scale=0.25)
    again, last, (special,) = npu.execute(data, arrays, scale=0.25, specialised=True)
    assert output.tobytes() == again.tobytes()
    assert state.tobytes() == last.tobytes()
    assert (walked.kernel, special.kernel) == (npu.KERNEL, kernel_name(data))
    return walked, special


def check_counts(data, walked, special):
    """All counts are equal but for what brings the programs to UB and reads them there."""
    times, size = loads_of_programs(data)
    less = collections.Counter(
        gm_to_ub=size, gm_to_ub_transfers=3 * times, copy_gm_to_ubuf=3 * times, set_flag=times, wait_flag=times
    )
    loads = walked.counts["scalar_load"] - special.counts["scalar_load"]
    assert loads > 0
    less |= {"scalar_load": loads, "S_instructions": loads + times, "MTE2_instructions": 4 * times}
    modelled = {"scalar_cycles", "peak_ub"}
    for name in walked.counts.keys() - modelled:
        assert walked.counts[name] - special.counts[name] == less[name], name
    assert special.counts["peak_ub"] <= walked.counts["peak_ub"]
    for before, after in zip(walked.busy_cycles, special.busy_cycles, strict=True):
        assert after["S"] <= before["S"]


@pytest.mark.parametrize(("key_heads", "value_heads", "tokens", "programs"), [(1, 3, 150, 2), (16, 16, 130, 1)])
def test_gated_delta_rule(key_heads, value_heads, tokens, programs):
    shape = Shape(1, tokens, 1, key_heads, value_heads, 128, 128, "float16", "float16")
    made = planner.plan(MECHANISMS["gated_delta_rule"], shape, chips.load("ascend310p1"))
    assert len(opened(made).launch.programs) == programs
    data = to_bytes(made)
    arrays = steps.call(tokens, key_heads=key_heads, value_heads=value_heads, key_dim=128, value_dim=128)
    arrays["key"] = arrays["key"] / np.float16(16)  # of length about 1, as longer ones make the state grow
    walked, special = both(data, arrays)
    check_counts(data, walked, special)
    for before, after in zip(walked.busy_cycles, special.busy_cycles, strict=True):
        assert after["S"] < 0.7 * before["S"] or before["V"] == 0  # a core without items walks nothing


def scalars_and_masks():
    """Setup, finish and every second lane; scalars that only C++ can spell; more flags than a step has room for."""
    tensor = abi.table("tensors")["state_out"]
    ups = [flag("V_MTE3", event) for event in range(6)]
    low, back = flag("V_MTE3", 6), flag("MTE3_V", 0)
    setup = [vector("dup32", FREE, repeats=4, strides=(8, 0, 0), scalar=1), sync(sets=ups)]
    body = [
        vector("muls32", FREE, FREE, repeats=4, strides=(8, 8, 0), scalar=0, barrier=True, first=True),
        vector("maxs32", FREE, FREE, repeats=4, strides=(8, 8, 0), scalar=2, mask=1, barrier=True, stage=1),
        vector("adds32", FREE, FREE, repeats=2, strides=(8, 8, 0), scalar=3, mask=1, barrier=True, stage=1),
        vector("adds32", FREE, FREE, repeats=4, strides=(8, 8, 0), scalar=4, barrier=True, stage=1, last=True),
    ]
    finish = [
        sync(waits=ups),
        vector("muls32", FREE, FREE, repeats=4, strides=(8, 8, 0), scalar=1, barrier=True, set=[low]),
        step("rows_from_ub", src0=FREE, p=(tensor, 0, 0, 0, 1, 0, 0, 4), wait=[low], set=[back]),
        sync(waits=[back]),
    ]
    fields = {"masks": [(0x5555555555555555, 0)], "scalars": [0.1, float("-inf"), 2.0**-149, -65504.0], "stages": 2}
    return steps.plan([program(setup, body, finish, **fields)])


def test_scalars_masks_and_sections():
    data = scalars_and_masks()
    walked, special = both(data, steps.call(40))
    check_counts(data, walked, special)


def code_of(source):
    return re.sub(r" *//.*", "", source)


def test_equal_plans_give_equal_source_and_labels_are_only_comments():
    plan = toy_plan()
    source = to_source(plan)
    assert source == to_source(toy_plan())
    assert "// mmad: Q K^T" in source
    bare = source_of(to_bytes(plan))
    assert source != bare and code_of(source) == code_of(bare)
    assert f"void {kernel_name(to_bytes(plan))}(" in source


def test_a_kernel_of_other_programs_is_refused(monkeypatch):
    made = npu.specialise(scalars_and_masks())
    monkeypatch.setattr(npu, "specialise", lambda plan: made)
    other = steps.plan([program((), [sync()], ())])
    with pytest.raises(ValueError, match=rf"library: .*expected {kernel_name(other)}, .*got a binary without it"):
        npu.execute(other, steps.call(), scale=1.0, specialised=True)


def test_a_plan_of_another_backend_has_no_source():
    cpu = bytearray(scalars_and_masks())
    header = steps.ffi().from_buffer("hj_plan_header *", cpu)
    header.backend = abi.table("backends")["cpu"]
    with pytest.raises(ValueError, match="plan: expected one for an Ascend chip"):
        source_of(summed(cpu))
