"""Iterations without a barrier between them: every dependent pair of steps is ordered, however many there are, by few flags."""

import dataclasses

import pytest
from step_programs import CHIP, DIMS, Faulty, program_of, random_buffers, random_steps, side_by_side, walk, walk_item

from hajax.mechanisms import GATED_DELTA_RULE
from hajax.passes import carry
from hajax.passes.sync import synchronise
from hajax.plans import Shape, verify
from hajax.plans.program import Buffer, Operand, Step
from hajax.schedules import ascend, hajax_schedule

SEEDS = range(20)


def program_for(seed, count=50, **more):
    buffers = random_buffers(seed, alternating=seed % 2 == 1)
    stages = (0, 1, 2) if seed % 3 == 0 else (2,)
    body = random_steps(seed, count, buffers, stages=stages, **more)
    ends = [random_steps(100 * seed + which, 4, buffers) for which in (1, 2)]
    return side_by_side(program_of(body, buffers, *ends))


def carried(program, chip=CHIP):
    return synchronise(program, DIMS, chip, carried=True)[0]


def handed_on(program):
    """The flags that setup sets for the first iteration."""
    return [flag for step in program.setup if step.label == "flags for the first iteration" for flag in step.sets]


@pytest.mark.parametrize("seed", SEEDS)
def test_every_dependent_pair_is_ordered_over_any_number_of_iterations(seed):
    program = carried(program_for(seed))
    assert program.carried
    for iterations in (1, 2, 5):
        walk_item(program, iterations)


@pytest.mark.parametrize("seed", SEEDS[:6])
def test_steps_keep_their_order_and_all_but_their_flags(seed):
    before = program_for(seed)
    program = carried(before)
    for section in ("setup", "body", "finish"):
        steps = [step for step in getattr(program, section) if step.opcode != "sync"]
        left = [dataclasses.replace(step, barrier=False, waits=(), sets=()) for step in steps]
        assert left == list(getattr(before, section))


def without(steps, flag, sides=("waits", "sets")):
    return tuple(
        dataclasses.replace(step, **{side: tuple(one for one in getattr(step, side) if one != flag) for side in sides})
        for step in steps
    )


@pytest.mark.parametrize("seed", SEEDS[:6])
def test_no_carried_flag_is_one_too_many(seed):
    program = carried(program_for(seed))
    flags = handed_on(program)
    assert flags
    for flag in flags:
        fewer = {section: without(getattr(program, section), flag) for section in ("setup", "body", "finish")}
        with pytest.raises(Faulty, match=r"not ordered|last wait has passed"):
            walk_item(dataclasses.replace(program, **fewer), 4)


@pytest.mark.parametrize("seed", SEEDS[:3])
def test_the_walk_misses_no_side_of_a_flag(seed):
    program = carried(program_for(seed))
    for flag in handed_on(program):
        for section, side in (("setup", "sets"), ("body", "sets"), ("body", "waits"), ("finish", "waits")):
            steps = without(getattr(program, section), flag, (side,))
            with pytest.raises(Faulty):
                walk_item(dataclasses.replace(program, **{section: steps}), 4)


@pytest.mark.parametrize("seed", SEEDS[:8])
def test_what_one_iteration_alone_is_ordered_by_is_not_enough(seed):
    program, _ = synchronise(program_for(seed), DIMS, CHIP)
    walk(program.body, program)
    with pytest.raises(Faulty):
        walk_item(program, 3)


@pytest.mark.parametrize("ids", [2, 3, 4])
@pytest.mark.parametrize("seed", SEEDS[:6])
def test_few_ids_are_enough_or_iterations_keep_their_barrier(seed, ids):
    chip = dataclasses.replace(CHIP, flags_per_pair=ids)
    before = program_for(seed, 100)
    program = carried(before, chip)
    assert all(flag.event < ids for step in program.body for flag in (*step.sets, *step.waits))
    if program.carried:
        walk_item(program, 4)
    else:
        assert program == synchronise(before, DIMS, chip)[0]
        assert ids == 2


def test_one_id_leaves_none_for_the_next_iteration():
    chip = dataclasses.replace(CHIP, flags_per_pair=1)
    before = program_for(1)
    assert carried(before, chip) == synchronise(before, DIMS, chip)[0]


def test_a_program_without_an_end_or_room_for_more_steps_keeps_its_barriers():
    before = program_for(3)
    for one, chip in (
        (dataclasses.replace(before, finish=()), CHIP),
        (dataclasses.replace(before, body=()), CHIP),
        (before, dataclasses.replace(CHIP, ub_bytes=before.step_address + CHIP.ub_reserved_bytes + 60 * 24)),
    ):
        program, note = synchronise(one, DIMS, chip, carried=True)
        assert not program.carried and program == synchronise(one, DIMS, chip)[0]
        assert "iteration" not in note.choice


def test_what_two_iterations_touch_and_the_one_between_does_not_is_ordered():
    x = Buffer("x", "UB", 512, versions=2, address=1024)
    out = Buffer("out", "UB", 512, address=8192)
    load = Step("constant_to_ub", dst=Operand("x"), size=16, stage=0)
    use = Step("muls32", dst=Operand("out"), src0=Operand("x"), size=2, p=(1, 1, 1, 8, 8, 8, 1, 0), stage=0)
    end = Step("workspace_from_ub", src0=Operand("out"), size=16)
    before = dataclasses.replace(program_of([load, use], [x, out], finish=[end]), slot_bytes={"UB": 4096})
    program = carried(before)
    walk_item(program, 5)
    assert [flag.source + flag.target for flag in handed_on(program)] == ["VMTE2"]


def test_a_carried_flag_lets_the_next_iteration_start_early():
    """A load of the next iteration waits for its buffer only, not for the store at the end of this one."""
    ub = [Buffer(name, "UB", 512, address=1024 + 512 * i) for i, name in enumerate(("in", "out"))]
    load = Step("constant_to_ub", dst=Operand("in"), size=16)
    use = Step("muls32", dst=Operand("out"), src0=Operand("in"), size=2, p=(1, 1, 1, 8, 8, 8, 1, 0))
    store = Step("workspace_from_ub", src0=Operand("out"), size=16)
    program = carried(program_of([load, use, store], ub, finish=[store]))
    walk_item(program, 4)
    assert {flag.source + flag.target for flag in handed_on(program)} == {"VMTE2", "MTE3V"}
    assert [flag.source for flag in program.body[0].waits] == ["V"]


@pytest.mark.parametrize("ids", range(1, 9))
def test_rounds_of_ids_come_round_late(ids):
    for count in range(1, 120):
        numbers = carry.rounds(count, ids)
        assert len(numbers) == count and set(numbers) <= set(range(ids))
        twice = numbers * 2
        gap = min(twice.index(number, at + 1) - at for at, number in enumerate(numbers))
        fits = [d for d in range(1, ids) for a in range(count) if count >= a * d and (count - a * d) % (d + 1) == 0]
        assert gap >= (count if count <= ids else max(ids if count % ids == 0 else 1, *fits, 1))


def test_equal_programs_get_equal_flags():
    assert carried(program_for(5)) == carried(program_for(5))


def test_the_schedule_hajax_carries_flags_and_its_form_has_the_switch():
    shape = Shape(1, 200, 1, 1, 1, 32, 32, "float16", "float16")
    form = hajax_schedule.form_of(GATED_DELTA_RULE)
    assert form.carried
    (kept, parted) = (
        ascend.schedule("hajax", GATED_DELTA_RULE, shape, CHIP, 0, dataclasses.replace(form, carried=on)) for on in (True, False)
    )
    for plan, on in ((kept, True), (parted, False)):
        assert verify(plan) is plan
        assert [program.carried for program in plan.launch.programs] == [on] * len(plan.launch.programs)
    (note,) = (note for note in kept.notes if note.by == "sync")
    assert "from one iteration to the next instead of a barrier" in note.choice
