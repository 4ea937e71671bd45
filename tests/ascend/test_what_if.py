"""The fused kernel on a chip of the 310B1's sizes and rates: right with all checks on, within the chip, and never by accident."""

import dataclasses

import numpy as np
import pytest

from hajax import conformance, planner
from hajax.backends import npu
from hajax.backends.library import LibraryError
from hajax.mechanisms import MECHANISMS
from hajax.passes.place_buffers import peak_bytes
from hajax.plans import Shape, opened, packed, to_bytes, verify
from hajax.plans.verify_order import step_flags
from hajax.plans.verify_pieces import SECTIONS
from hajax.schedules import ASCEND
from hajax.targets import npu as chips

CHIP = chips.as_kernel_chip("ascend310b1")
REAL = chips.load("ascend310b1")
OPERATIONS = {"gated_delta_rule": "gdn", "kda": "kda", "gated_linear_attention": "gla"}
OUTPUT_BOUND, STATE_BOUND = 5.23e-8, 9.38e-12


@dataclasses.dataclass(frozen=True)
class Problem:
    shape: Shape
    arrays: dict
    exact: tuple


def drawn(name, tokens, heads, dims, decay):
    """heads: of keys, of values."""
    case = (
        f"op={OPERATIONS[name]} B=1 T={tokens} Hk={heads[0]} Hv={heads[1]} Dk={dims[0]} Dv={dims[1]} dtype=float16 decay={decay}"
    )
    found = conformance.inputs(conformance.parse(case))
    arrays = {field: found[field] for field in ("query", "key", "value", "log_decay", "beta") if field in found}
    arrays["state_in"] = found["initial_state"][:, None]
    arrays["bounds"] = np.array([[0, tokens]], np.int32)
    shape = Shape(1, tokens, 1, *heads, *dims, "float16", "float16")
    return Problem(shape, arrays, conformance.recurrence(found, delta=MECHANISMS[name].delta))


def errors(plan, problem, **how):
    output, states, runs = npu.execute(to_bytes(plan), problem.arrays, scale=problem.shape.key_dim**-0.5, target=CHIP, **how)
    assert {run.target for run in runs} == {CHIP.name}
    return conformance.nmse(output, problem.exact[0]), conformance.nmse(states[:, 0], problem.exact[1])


@pytest.mark.parametrize("decay", ["weak", "mixed", "strong"])
@pytest.mark.parametrize(("heads", "dims"), [((1, 2), (128, 128)), ((2, 2), (48, 80))])
@pytest.mark.parametrize("name", ["gated_delta_rule", "kda"])
@pytest.mark.parametrize("schedule", ["hajax", "hanpu"])
def test_schedules_are_within_the_bounds_with_all_checks_on(schedule, name, heads, dims, decay):
    problem = drawn(name, 150, heads, dims, decay)
    output, state = errors(planner.plan(MECHANISMS[name], problem.shape, CHIP, schedule), problem)
    assert output <= OUTPUT_BOUND
    assert state <= STATE_BOUND


@pytest.mark.parametrize("tokens", [1, 64, 65])
def test_lengths_and_a_member_without_a_correction(tokens):
    for name in ("kda", "gated_linear_attention"):
        problem = drawn(name, tokens, (1, 1), (128, 128), "mixed")
        output, state = errors(planner.plan(MECHANISMS[name], problem.shape, CHIP), problem)
        assert output <= OUTPUT_BOUND
        assert state <= STATE_BOUND


def test_a_kernel_made_of_the_programs_gives_the_same_bits():
    problem = drawn("kda", 70, (1, 1), (32, 16), "mixed")
    plan = to_bytes(planner.plan(MECHANISMS["kda"], problem.shape, CHIP))
    walked, made = (
        npu.execute(plan, problem.arrays, scale=0.25, target=CHIP, specialised=specialised) for specialised in (False, True)
    )
    for got, wanted in zip(made[:2], walked[:2], strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize(
    ("schedule", "name"),
    [("hajax", name) for name in MECHANISMS] + [("hanpu", name) for name in MECHANISMS if MECHANISMS[name].strengths == 1],
)
def test_plans_stay_within_the_chip_and_off_its_reserved_flags(schedule, name):
    shape = Shape(1, 4096, 1, 2, 2, 128, 128, "float16", "float16")
    programs = opened(planner.plan(MECHANISMS[name], shape, CHIP, schedule)).launch.programs
    flags = set()
    for program in programs:
        peak = peak_bytes(program)
        assert peak["L0C"] <= REAL.l0c_bytes and peak["UB"] <= REAL.ub_bytes and peak["L1"] <= REAL.l1_bytes
        flags |= {flag.event for one in SECTIONS for step in getattr(program, one) for side in step_flags(step) for flag in side}
    assert flags and max(flags) < REAL.first_reserved_flag


def test_neither_the_chip_nor_its_what_if_runs_by_accident():
    problem = drawn("kda", 65, (1, 1), (32, 32), "mixed")
    plan = to_bytes(planner.plan(MECHANISMS["kda"], problem.shape, CHIP))
    with pytest.raises(LibraryError, match=r"unsupported: plan: target: expected one of .*, got \"ascend310b1_as_2002\""):
        npu.execute(plan, problem.arrays, scale=1.0)
    with pytest.raises(LibraryError, match=r"npu_arch: expected 2002 for plan and chip, got 2002 and 3002"):
        npu.execute(plan, problem.arrays, scale=1.0, target=REAL)
    real = to_bytes(planner.plan(MECHANISMS["kda"], problem.shape, REAL))
    for target in (None, REAL, CHIP):
        with pytest.raises(LibraryError, match=r"npu_arch: expected 2002 for plan and chip, got 3002 and"):
            npu.execute(real, problem.arrays, scale=1.0, target=target)


def test_a_plan_for_more_l0c_is_refused():
    problem = drawn("kda", 65, (1, 1), (128, 128), "mixed")
    big = dataclasses.replace(CHIP, l0c_bytes=256 * 1024)
    plan = packed(verify(ASCEND["hajax"](MECHANISMS["kda"], problem.shape, big, 1), big))
    with pytest.raises(LibraryError, match=r"dst: expected an end of at most 131072 bytes, got \d+"):
        npu.execute(to_bytes(plan), problem.arrays, scale=1.0, target=CHIP)
