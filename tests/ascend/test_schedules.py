"""The schedules of the published form on the emulated chip: however heads and chunks are mapped, the same bits."""

import dataclasses

import numpy as np
import pytest

from hajax import conformance, planner, schedules
from hajax.backends import npu
from hajax.mechanisms import MECHANISMS
from hajax.plans import Packed, Shape, to_bytes
from hajax.schedules import ascend, hajax_schedule
from hajax.targets import npu as chips

CASES = {
    "gated_delta_rule": "op=gdn decay=mixed", "kda": "op=kda decay=mixed", "retention": "op=ret",
    "gated_linear_attention": "op=gla decay=mixed",
}  # fmt: skip
CHIP = chips.load("ascend310p1")
BATCH, TOKENS, HEADS, DIMS = 2, 150, 1, (48, 32)


SHAPE = Shape(BATCH, TOKENS, 1, HEADS, HEADS, *DIMS, "float16", "float16")


def executed(schedule, name, arrays):
    return run(schedules.ASCEND[schedule](MECHANISMS[name], SHAPE, CHIP, 1), arrays)


def run(plan, arrays):
    output, states, runs = npu.execute(to_bytes(plan), arrays, scale=DIMS[0] ** -0.5)
    assert isinstance(plan.launch, Packed) or len(runs) == len(plan.launch.launches)
    return output, states[:, 0]


def drawn(name):
    case = f"B={BATCH} T={TOKENS} lengths=150,65 Hv={HEADS} Dk={DIMS[0]} Dv={DIMS[1]} dtype=float16 {CASES[name]}"
    found = conformance.inputs(conformance.parse(case))
    arrays = {field: found[field] for field in ("query", "key", "value", "log_decay", "beta") if field in found}
    arrays["state_in"] = found["initial_state"][:, None]
    arrays["bounds"] = np.stack([np.zeros(BATCH), found["lengths"]], 1).astype(np.int32)
    return found, arrays


@pytest.mark.parametrize("name", CASES)
def test_the_mapping_of_chunks_and_heads_gives_the_bits_of_the_planned_one(name):
    problem, arrays = drawn(name)
    plain, planned = (executed(schedule, name, arrays) for schedule in ("chunk_head", "hanpu"))
    for got, wanted in zip(plain, planned, strict=True):
        np.testing.assert_array_equal(got, wanted)
    exact = conformance.recurrence(problem, delta=MECHANISMS[name].delta)
    assert conformance.nmse(plain[0], exact[0]) < 5.23e-8
    assert conformance.nmse(plain[1], exact[1]) < 9.38e-12


def test_a_plan_that_spreads_chunks_is_not_for_longer_calls():
    """Its maps are ranges of chunks; the planner makes another one for another number of tokens."""
    mechanism = MECHANISMS["gated_delta_rule"]
    short, long = (planner.plan(mechanism, dataclasses.replace(SHAPE, tokens=T), CHIP, "chunk_head") for T in (64, TOKENS))
    assert to_bytes(short) != to_bytes(long)
    problem, arrays = drawn("gated_delta_rule")
    with pytest.raises(ValueError, match=r"tokens of sequence 0: expected at most 64, .* reach no further, got 150"):
        run(short, arrays)
    assert conformance.nmse(run(long, arrays)[0], conformance.recurrence(problem)[0]) < 5.23e-8
    arrays["bounds"] = np.array([[0, 64], [0, 64]], np.int32)
    run(short, arrays)


@pytest.mark.parametrize("name", ["gated_delta_rule", "retention"])
def test_maps_and_states_in_two_launches_are_within_the_bounds(name):
    """The cube form; a member without a correction hands on no system and no inverse."""
    problem, arrays = drawn(name)
    form = dataclasses.replace(hajax_schedule.form_of(MECHANISMS[name]), family="chunk-parallel")
    plan = ascend.schedule("hajax", MECHANISMS[name], SHAPE, CHIP, 1, form)
    assert len(plan.launch.launches) == 2
    got, exact = run(plan, arrays), conformance.recurrence(problem, delta=MECHANISMS[name].delta)
    assert conformance.nmse(got[0], exact[0]) < 5.23e-8
    assert conformance.nmse(got[1], exact[1]) < 9.38e-12
