"""Plans for Ascend chips as the planner hands them out: what they depend on, what is kept, what is refused."""

import dataclasses
import os
import subprocess
import sys

import pytest

import hajax
from hajax import planner, plans, schedules
from hajax.mechanisms import MECHANISMS
from hajax.plans import Packed, Shape
from hajax.schedules import ascend, hajax_schedule
from hajax.targets import npu

SMALL = {"key_heads": 1, "value_heads": 2, "key_dim": 16, "value_dim": 32, "target": "ascend310p1"}
PRINT_DIGEST = (
    "import hashlib, hajax; from hajax import plans; "
    f"plan = hajax.plan('gated_delta_rule', tokens=300, **{SMALL!r}); "
    "print(hashlib.sha256(plans.to_bytes(plan)).hexdigest())"
)


@pytest.fixture
def chip():
    return npu.load("ascend310p1")


def shape(tokens=300, heads=2, dims=(16, 32)):
    return Shape(1, tokens, 1, 1, heads, *dims, "float16", "float16")


def test_bytes_are_the_same_in_every_process():
    digests = set()
    for seed in ("0", "1"):
        environment = os.environ | {"PYTHONHASHSEED": seed, "HAJAX_CACHE": "0"}
        run = subprocess.run([sys.executable, "-c", PRINT_DIGEST], env=environment, capture_output=True, text=True, check=True)
        digests.add(run.stdout.strip())
    assert len(digests) == 1


def test_programs_do_not_depend_on_the_number_of_tokens(chip):
    short, long = (
        schedules.ASCEND["hajax"](MECHANISMS["gated_delta_rule"], shape(tokens), chip, 1).launch for tokens in (4096, 65536)
    )
    assert short.programs == long.programs
    assert short.constants == long.constants


ONE_STRENGTH = sorted(name for name, mechanism in MECHANISMS.items() if mechanism.strengths == 1)


@pytest.mark.parametrize("name", sorted(MECHANISMS))
def test_every_member_has_a_verified_plan(name, chip):
    plan = schedules.ASCEND["hajax"](MECHANISMS[name], shape(), chip, 1)
    plans.verify(plan, chip)
    assert plans.from_bytes(plans.to_bytes(plan)).launches == plan.launch.launches


@pytest.mark.parametrize("name", ONE_STRENGTH)
@pytest.mark.parametrize("schedule", ["hanpu", "chunk_head"])
def test_the_schedules_to_compare_with_have_verified_plans(schedule, name, chip):
    plan = schedules.ASCEND[schedule](MECHANISMS[name], shape(heads=1), chip, 1)
    plans.verify(plan, chip)
    kinds = [sum(map(len, launch.cores)) for launch in plan.launch.launches]
    if schedule == "chunk_head":
        assert kinds == [5, 1]  # five chunks and one head
    else:
        assert len(kinds) == 1  # heads, or columns of them, stay where they are


@pytest.mark.parametrize("name", sorted(MECHANISMS))
def test_what_a_map_launch_leaves_is_written_before_it_is_handed_on(name, chip):
    """A member without a correction has no inverse and no system to hand on."""
    form = dataclasses.replace(hajax_schedule.form_of(MECHANISMS[name]), family="chunk-parallel")
    if form.slot_bytes is None:
        pytest.skip("no launches apart in this form")
    plan = ascend.schedule("hajax", MECHANISMS[name], shape(heads=1), chip, 1, form)
    assert len(plan.launch.launches) == 2
    plans.verify(plan, chip)


def test_a_stored_plan_is_found_again_and_another_chips_is_not(chip):
    problem = (MECHANISMS["gated_delta_rule"], shape(tokens=77), chip)
    made = planner.plan(*problem)
    planner.plan.cache_clear()
    assert planner.plan(*problem) == made
    assert isinstance(made.launch, Packed)
    other = dataclasses.replace(chip, ai_cores=4)
    assert other.fingerprint != chip.fingerprint
    assert planner.cache_key(*problem[:2], other, "hajax") != planner.cache_key(*problem, "hajax")


def test_what_has_no_lowering_says_so(chip):
    with pytest.raises(ValueError, match=r"mechanism: schedule hanpu has no lowering for .* \(gated_delta_rule_2\), hajax has"):
        planner.plan(MECHANISMS["gated_delta_rule_2"], shape(), chip, "hanpu")
    with pytest.raises(ValueError, match="schedule: expected one of"):
        planner.plan(MECHANISMS["gated_delta_rule"], shape(), chip, "cpu_fused")


def test_heads_too_large_for_the_chip_are_refused(chip):
    with pytest.raises(ValueError, match="key_dim: expected at most 128"):
        planner.plan(MECHANISMS["gated_delta_rule"], shape(heads=1, dims=(256, 256)), chip)


@pytest.mark.parametrize("field", ["dtype", "output_dtype"])
def test_a_chip_takes_and_gives_float16_only(field):
    with pytest.raises(ValueError, match=rf"{field}: expected None or 'float16' on a chip, got 'float32'"):
        hajax.plan("gated_delta_rule", tokens=300, **SMALL, **{field: "float32"})


def test_more_heads_than_a_call_may_have_are_refused(chip):
    with pytest.raises(ValueError, match=r"shape: expected at most 131072 value heads over all sequences on a chip, got 1000000"):
        planner.plan(MECHANISMS["gated_delta_rule"], dataclasses.replace(shape(heads=1), batch=10**6), chip)


def test_explain_tells_what_runs_where_and_what_each_pass_chose():
    text = hajax.explain(hajax.plan("gated_delta_rule", tokens=300, **SMALL))
    for word in ("core", "peak KiB", "rewrite", "heads_to_cores", "pipeline", "buffers", "sync"):
        assert word in text
