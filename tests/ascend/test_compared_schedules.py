"""The six systems of the comparison on the emulated chip, all checks on: each within the bounds of the study, and of one another.

Also in the single fp16 that all but hajax may be had in, which is for comparing costs and holds neither bound.
"""

import functools
import inspect
import itertools

import numpy as np
import pytest

import hajax
from hajax import conformance, schedules
from hajax.backends import npu
from hajax.mechanisms import MECHANISMS
from hajax.passes.heads_to_cores import Family
from hajax.plans import Shape, interpret, to_bytes, verify
from hajax.plans.program import kernel_launches
from hajax.schedules.staged import System
from hajax.targets import npu as chips

pytestmark = pytest.mark.slow
CHIP = chips.load("ascend310p1")
OUTPUT_NMSE, STATE_NMSE = 5.23e-8, 9.38e-12
SINGLE_NMSE = 9e-7  # of output and of state: all operands in one fp16, usual keys (numerics of the study)
ROWS = 63  # of the solve, each two launches of vllm_ascend
LAUNCHES = {
    "hajax": (1, 1), "hanpu": (1, 1), "fla": (4, 4), "fla_megakernel": (1, 1), "flashqla": (2, 2),
    "vllm_ascend": (2 * ROWS + 12, 2 * ROWS + 9),
}  # fmt: skip
STAGED = ("fla", "fla_megakernel", "flashqla", "vllm_ascend")
QUICK = tuple(name for name in schedules.COMPARED if name != "vllm_ascend")  # its solve makes plans and runs slow
CASES = (
    "T=200 Hk=2 Hv=4 Dk=128 Dv=128 decay=usual",
    "T=150 Hk=1 Hv=1 Dk=128 Dv=128 decay=mixed",
    "B=2 T=130 lengths=130,0 Hk=1 Hv=2 Dk=32 Dv=48 decay=strong keys=alike",
    "T=200 cu=0,70,70,200 Hk=1 Hv=2 Dk=32 Dv=48 decay=mixed keys=repeated",
    "B=3 T=129 lengths=129,64,1 Hk=1 Hv=3 Dk=48 Dv=32 decay=resets keys=repeated beta=edges",
)
SMALL = (
    "B=2 T=70 lengths=70,0 Hk=1 Hv=2 Dk=32 Dv=48 decay=mixed keys=repeated",
    "T=140 cu=0,65,66,140 Hk=1 Hv=1 Dk=48 Dv=32 decay=usual",
)
OPS = ("gdn", "kda")


@functools.lru_cache(maxsize=4)
def drawn(text):
    """A case, what the recurrence says of it in fp64, and the arrays of a call."""
    case = conformance.parse(f"{text} dtype=float16")
    problem = conformance.inputs(case)
    arrays = {name: problem[name] for name in ("query", "key", "value", "log_decay", "beta")}
    state = problem["initial_state"]
    arrays["state_in"] = state.reshape(case.batch, -1, *state.shape[1:])
    bounds = case.cu or np.stack([np.zeros(case.batch), case.lengths or [case.tokens] * case.batch], 1)
    arrays["bounds"] = np.array(bounds, np.int32).reshape(case.batch, -1)
    return case, conformance.recurrence(problem), arrays


def planned(schedule, case, tokens=None, **parts):
    sequences = 1 if case.cu is None else len(case.cu) - 1
    sizes = (case.key_heads, case.value_heads, case.key_dim, case.value_dim)
    shape = Shape(case.batch, tokens or case.tokens, sequences, *sizes, "float16", "float16")
    plan = schedules.ASCEND[schedule](case.mechanism, shape, CHIP, 1, **parts)
    assert plan.schedule == schedule
    return plan


def executed(plan, case, arrays):
    """Output and states, of each sequence and head; all checks of the emulator are on."""
    output, states, runs = npu.execute(to_bytes(plan), arrays, scale=case.key_dim**-0.5)
    assert len(runs) == kernel_launches(plan.launch.launches) and all(run.counts["saturated"] == 0 for run in runs)
    return output, states.reshape(-1, *states.shape[2:])


@functools.lru_cache(maxsize=len(schedules.COMPARED))
def computed(schedule, text, **parts):
    case, _, arrays = drawn(text)
    return executed(planned(schedule, case, **parts), case, arrays)


def tokens_of(arrays):
    return np.diff(arrays["bounds"], axis=1).reshape(-1)


def errors(text, got):
    """NMSE of the output, and the largest of any sequence's and head's state. States of empty sequences are as they were."""
    _, (output, states), arrays = drawn(text)
    assert np.isfinite(got[0]).all() and np.isfinite(got[1]).all()
    largest = 0.0
    for number, tokens in enumerate(tokens_of(arrays)):
        if tokens == 0:
            np.testing.assert_array_equal(got[1][number], states[number].astype(np.float32))
        for head in range(states.shape[1]):
            largest = max(largest, conformance.nmse(got[1][number, head], states[number, head]))
    return conformance.nmse(got[0], output), largest


@pytest.mark.parametrize("schedule", QUICK)
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("case", CASES)
def test_each_is_within_the_bounds(case, op, schedule):
    output, state = errors(f"{case} op={op}", computed(schedule, f"{case} op={op}"))
    assert output <= OUTPUT_NMSE and state <= STATE_NMSE


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("case", SMALL)
def test_all_six_agree(case, op):
    """Errors that have nothing to do with one another: at most both bounds between any two."""
    text = f"{case} op={op}"
    for schedule in schedules.COMPARED:
        output, state = errors(text, computed(schedule, text))
        assert output <= OUTPUT_NMSE and state <= STATE_NMSE, schedule
    apart = set()
    for one, other in itertools.combinations(schedules.COMPARED, 2):
        (output, states), wanted = computed(one, text), computed(other, text)
        assert conformance.nmse(output, wanted[0].astype(np.float64)) <= 2 * OUTPUT_NMSE, (one, other)
        assert conformance.nmse(states, wanted[1].astype(np.float64)) <= 2 * STATE_NMSE, (one, other)
        apart.add((states == wanted[1]).all())
    assert False in apart  # they do not compute the same thing in the same way


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("case", SMALL)
def test_one_launch_of_stages_gives_the_bits_of_four(case, op):
    for one, other in zip(*(computed(name, f"{case} op={op}") for name in ("fla", "fla_megakernel")), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("schedule", schedules.COMPARED)
@pytest.mark.parametrize("op", OPS)
def test_plans_are_verified_launch_as_their_systems_do_and_mean_what_the_chip_computes(op, schedule):
    """What the interpreter says but for exponentials and the order of sums, which may round to a neighbour."""
    case, _, arrays = drawn(f"{SMALL[0]} op={op}")
    plan = planned(schedule, case)
    assert verify(plan, CHIP) is plan
    assert kernel_launches(plan.launch.launches) == LAUNCHES[schedule][OPS.index(op)]
    assert (plan.launch.workspace_slot_bytes > 0) == (schedule in STAGED)
    output, states = executed(plan, case, arrays)
    wanted, state = interpret.run(plan.launch, interpret.Inputs(**arrays), case.key_dim**-0.5)
    np.testing.assert_allclose(states, state[:, 0], rtol=0, atol=1e-5)
    np.testing.assert_allclose(output.astype(float), wanted.astype(float), rtol=0, atol=2**-10 * np.abs(wanted).max())
    assert (output == wanted).mean() > 0.99


@pytest.mark.parametrize("schedule", [name for name in schedules.COMPARED if name != "hajax"])
@pytest.mark.parametrize("op", OPS)
def test_single_operands_are_as_far_off_as_one_fp16_is(op, schedule):
    """They break both bounds, so that a plan in two parts cannot have been one in one part."""
    text = f"T=140 Hk=1 Hv=2 Dk=48 Dv=32 decay=usual op={op}"
    output, state = errors(text, computed(schedule, text, parts=1))
    assert OUTPUT_NMSE < output <= SINGLE_NMSE
    assert 10 * STATE_NMSE < state <= SINGLE_NMSE
    if schedule != "vllm_ascend":
        two = errors(text, computed(schedule, text, parts=2))
        assert two[0] <= OUTPUT_NMSE and two[1] <= STATE_NMSE
    assert inspect.signature(schedules.ASCEND[schedule]).parameters["parts"].default == 2


@pytest.mark.parametrize("schedule", ["fla", "fla_megakernel", "flashqla"])
@pytest.mark.parametrize("op", OPS)
def test_columns_on_their_own_cores_give_the_bits_of_whole_heads(op, schedule, monkeypatch):
    case, _, arrays = drawn(f"T=130 Hk=1 Hv=1 Dk=32 Dv=96 decay=mixed op={op}")
    got = []
    for family in ("whole heads", "column pieces"):
        monkeypatch.setattr(schedules.fla, "System", only(family))
        monkeypatch.setattr(schedules.flashqla, "System", only(family))
        plan = planned(schedule, case)
        columns = {item.column for launch in plan.launch.launches for core in launch.cores for item in core}
        assert (columns == {0}) == (family == "whole heads")
        got.append(executed(plan, case, arrays))
    for one, other in zip(*got, strict=True):
        np.testing.assert_array_equal(one, other)


def only(family: Family):
    return functools.partial(System, families=(family,))


@pytest.mark.parametrize("schedule", ["fla", "flashqla"])
@pytest.mark.parametrize("op", OPS)
def test_a_plan_for_fewer_tokens_serves_more(op, schedule):
    """The last item of a head goes on to the sequence's end."""
    text = f"T=200 Hk=1 Hv=2 Dk=32 Dv=48 decay=usual op={op}"
    case, _, arrays = drawn(text)
    for got, wanted in zip(executed(planned(schedule, case, tokens=100), case, arrays), computed(schedule, text), strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("case", [
    "T=530 Hk=1 Hv=1 Dk=32 Dv=48 decay=usual", "B=2 T=470 lengths=470,300 Hk=1 Hv=2 Dk=32 Dv=32 decay=mixed keys=repeated",
    "T=600 cu=0,0,320,600 Hk=1 Hv=1 Dk=32 Dv=32 decay=weak",
])  # fmt: skip
def test_flashqlas_segments_are_within_the_bounds(case, op):
    """Few heads, each cut into segments of four chunks or more, whose states are summarised beforehand."""
    text = f"{case} op={op}"
    parsed, _, arrays = drawn(text)
    tokens = parsed.tokens * (1 if parsed.cu is None else len(parsed.cu) - 1)
    plan = planned("flashqla", parsed, tokens=tokens, always_segments=True)
    assert verify(plan, CHIP) is plan and kernel_launches(plan.launch.launches) == 4
    output, state = errors(text, executed(plan, parsed, arrays))
    assert output <= OUTPUT_NMSE and state <= STATE_NMSE


@pytest.mark.parametrize("op", OPS)
def test_heads_with_more_keys_than_columns_are_not_cut(op):
    """What a segment makes of a state has a column for each key, and an item has none behind the state's."""
    case, _, _ = drawn(f"T=2048 Hk=1 Hv=1 Dk=48 Dv=32 decay=usual op={op}")
    plan = planned("flashqla", case, always_segments=True)
    assert verify(plan, CHIP) is plan and kernel_launches(plan.launch.launches) == 2


OTHERS = sorted(name for name, mechanism in MECHANISMS.items() if not mechanism.delta or mechanism.strengths != 1)


@pytest.mark.parametrize("schedule", STAGED)
@pytest.mark.parametrize("name", OTHERS)
def test_other_mechanisms_are_refused_by_name(name, schedule):
    shape = Shape(1, 64, 1, 1, 1, 16, 16, "float16", "float16")
    with pytest.raises(ValueError, match=rf"^mechanism: schedule {schedule} is that of a delta rule .*, got {name}; hajax has"):
        schedules.ASCEND[schedule](MECHANISMS[name], shape, CHIP, 1)


@pytest.mark.parametrize("parts", [0, 3, -1])
@pytest.mark.parametrize("schedule", [name for name in schedules.COMPARED if name != "hajax"])
def test_other_numbers_of_parts_are_refused(schedule, parts):
    case, _, _ = drawn(f"{SMALL[1]} op=gdn")
    with pytest.raises(ValueError, match=rf"^parts: expected 1 or 2, .* got {parts}$"):
        planned(schedule, case, parts=parts)


@pytest.mark.parametrize("schedule", [*schedules.COMPARED, "auto"])
@pytest.mark.parametrize(("key_dim", "value_dim", "named"), [(8, 8, "key_dim"), (24, 128, "key_dim"), (16, 40, "value_dim")])
def test_sizes_that_are_no_fractals_are_refused_by_name(schedule, key_dim, value_dim, named):
    sizes = {"key_dim": key_dim, "value_dim": value_dim}
    with pytest.raises(ValueError, match=rf"^shape\.{named}: expected a positive multiple of 16 on a chip, got {sizes[named]}$"):
        hajax.plan("kda", tokens=65, key_heads=1, value_heads=1, target="ascend310p1", schedule=schedule, **sizes)


def test_more_heads_than_a_kernel_takes_are_refused_when_planning():
    with pytest.raises(ValueError, match=r"^shape\.value_heads: expected at most 32768 on a chip, got 40000$"):
        hajax.plan(tokens=1, key_heads=40000, value_heads=40000, key_dim=16, value_dim=16, target="ascend310p1", schedule="fla")
