"""Whole plans take the cycles of the emulated chip, and schedules that differ by more rank as they do there."""

import dataclasses
import itertools

import pytest
from blank_calls import emulated_cycles, shape_of
from planning import AVX2
from planning import schedule as cpu_plan
from planning import shape_of as cpu_shape

from hajax import schedules
from hajax.mechanisms import MECHANISMS
from hajax.passes.plan_cycles import plan_cycles
from hajax.plans import packed
from hajax.plans.program import kernel_launches
from hajax.targets import npu

pytestmark = pytest.mark.slow
WITHIN = 0.03  # of the emulator's cycles, all launches of a plan together
STAGED = 0.05  # where stages hand on through GM more or less what L2 holds: which bytes are lost is not modelled exactly
MANY_LAUNCHES = 0.15  # of vllm_ascend, whose rows lie a slot apart: L2 loses them where slots meet in few of its sets
ONE_STAGE = ("hajax", "hanpu", "chunk_head")
MEMBERS = ("gated_delta_rule", "kda")
FEW = (
    *(("ascend310p1", member, tokens, heads) for member in MEMBERS for tokens, heads in ((64, 1), (64, 16), (512, 4))),
    ("ascend310p3", "gated_delta_rule", 512, 1),
)


def modelled_and_emulated(chip, member, shape, without=()):
    """By schedule. The grid of lengths and heads is benchmarks/plan_cycles.py."""
    target = npu.load(chip)
    names = [name for name in schedules.ASCEND if name not in without]
    made = {name: schedules.ASCEND[name](MECHANISMS[member], shape, target, 1) for name in names}
    return {name: (sum(plan_cycles(plan, target)), sum(emulated_cycles(plan, target))) for name, plan in made.items()}


def within(name):
    return MANY_LAUNCHES if name == "vllm_ascend" else WITHIN if name in ONE_STAGE else STAGED


def assert_alike(found):
    for name, (modelled, emulated) in found.items():
        assert modelled == pytest.approx(emulated, rel=within(name)), name
    for one, other in itertools.permutations(found, 2):
        if found[one][1] < (1 - WITHIN) * found[other][1]:
            assert found[one][0] < found[other][0], (one, other)


@pytest.mark.parametrize(("chip", "member", "tokens", "heads"), FEW)
def test_plans_take_the_cycles_of_the_emulated_chip(chip, member, tokens, heads):
    assert_alike(modelled_and_emulated(chip, member, shape_of(tokens, (heads, heads))))


@pytest.mark.parametrize(
    "shape",
    [
        shape_of(512, (2, 8)),  # heads that share keys
        shape_of(300, (4, 4), batch=2),  # a short last chunk
        shape_of(512, (3, 3), sequences=3),
        shape_of(256, (4, 4), dims=(64, 32)),
    ],
    ids=["shared keys", "short chunk", "sequences", "dims"],
)
@pytest.mark.parametrize("member", MEMBERS)
def test_other_shapes(member, shape):
    assert_alike(modelled_and_emulated("ascend310p1", member, shape, without=("vllm_ascend",)))


def test_launches_come_one_by_one():
    """Those of one kernel as well: a barrier of all cores is less than a launch."""
    target = npu.load("ascend310p1")
    member, shape = MECHANISMS["gated_delta_rule"], shape_of(256, (4, 4))
    apart, joined = (schedules.ASCEND[name](member, shape, target, 1) for name in ("fla", "fla_megakernel"))
    cycles = plan_cycles(apart, target), plan_cycles(joined, target)
    assert len(cycles[0]) == kernel_launches(apart.launch.launches) > 1
    assert len(cycles[1]) == len(joined.launch.launches) > kernel_launches(joined.launch.launches)
    assert all(one > target.launch_cycles for one in cycles[0])
    assert sum(cycles[0]) - sum(cycles[1]) > target.launch_cycles - target.sync_all_cycles
    dear = dataclasses.replace(target, sync_all_cycles=target.sync_all_cycles + 1000)
    joints = len(joined.launch.launches) - 1
    assert sum(plan_cycles(joined, dear)) - sum(cycles[1]) == pytest.approx(1000 * joints)
    assert plan_cycles(apart, dear) == cycles[0]


def test_packed_plans_take_the_same():
    target = npu.load("ascend310p1")
    made = schedules.ASCEND["hajax"](MECHANISMS["kda"], shape_of(512, (2, 2)), target, 1)
    assert plan_cycles(packed(made), target) == plan_cycles(made, target)


def test_what_an_earlier_launch_left_is_in_l2_if_it_fits():
    """What stages hand on; the first one finds nothing either way."""
    target = npu.load("ascend310p1")
    made = schedules.ASCEND["fla"](MECHANISMS["gated_delta_rule"], shape_of(512, (4, 4)), target, 1)
    none = plan_cycles(made, dataclasses.replace(target, l2_bytes=16 * 128))
    ample = plan_cycles(made, target)
    assert none[0] == ample[0]
    assert all(without >= there for without, there in zip(none, ample, strict=True))
    assert sum(none) > 1.1 * sum(ample)


def test_a_plan_of_a_cpu_is_refused():
    with pytest.raises(ValueError, match="plan: expected one of a chip, got one of schedule 'cpu_fused'"):
        plan_cycles(cpu_plan(cpu_shape(64), AVX2), npu.load("ascend310p1"))
