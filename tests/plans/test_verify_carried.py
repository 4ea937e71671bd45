"""Programs that carry flags from one iteration to the next are held to the same rules over several iterations."""

import dataclasses
import re

import pytest
from step_programs import CHIP
from toy_plan import CHUNK, toy_plan, toy_program, toy_programs

from hajax.passes.sync import synchronise
from hajax.plans import from_bytes, from_json, to_bytes, to_json, verify
from hajax.plans.footprint import Dims
from hajax.plans.program import Flag

SECTIONS = ("setup", "body", "finish")


def bare(program):
    """Without what orders its steps."""
    return dataclasses.replace(
        program,
        **{
            name: tuple(dataclasses.replace(step, waits=(), sets=(), barrier=False) for step in getattr(program, name))
            for name in SECTIONS
        },
    )


GOOD, _ = synchronise(bare(toy_program()), Dims(CHUNK, toy_plan().shape.key_dim), CHIP, carried=True)
FLAGS = [flag for step in GOOD.setup if step.opcode == "sync" for flag in step.sets]


def refused(message, **sections):
    with pytest.raises(ValueError, match=message):
        verify(toy_plan(toy_programs(dataclasses.replace(GOOD, **sections))))


def without(section, flag, *sides):
    return {section: changed(section, sides, lambda one: () if one == flag else (one,))}


def changed(section, sides, change):
    steps = getattr(GOOD, section)
    return tuple(
        dataclasses.replace(step, **{side: tuple(new for one in getattr(step, side) for new in change(one)) for side in sides})
        for step in steps
    )


def test_the_good_program_carries_flags_and_is_good():
    assert GOOD.carried and len(FLAGS) > 1
    plan = toy_plan(toy_programs(GOOD))
    assert verify(plan) is plan


def test_bytes_and_text_say_that_flags_are_carried():
    plan = toy_plan(toy_programs(GOOD))
    assert from_json(to_json(plan)) == plan
    (read,) = from_bytes(to_bytes(plan)).programs
    assert read.carried and read.stages == GOOD.stages
    plain = to_bytes(toy_plan())
    assert not from_bytes(plain).programs[0].carried
    text = to_json(plan).replace('"carried":true', '"carried":1')
    assert text != to_json(plan)
    with pytest.raises(ValueError, match=r"carried: expected bool, got 1"):
        from_json(text)


@pytest.mark.parametrize("flag", FLAGS, ids=lambda flag: f"{flag.source}_{flag.target}_{flag.event}")
def test_every_part_of_a_carried_flag_is_needed(flag):
    name = re.escape(f"{flag.source}_{flag.target}:{flag.event}")
    refused(rf"waits for {name}, which no step before sets", **without("setup", flag, "sets"))
    refused(rf"finish: expected a wait for every set, got none for {name}", **without("finish", flag, "waits"))
    refused(rf"waits for {name}, which no step before sets, or which was taken", **without("body", flag, "sets"))
    refused(rf"sets {name} a second time with no wait between", **without("body", flag, "waits"))
    neither = without("body", flag, "waits", "sets")
    missing = r"of an iteration before, with which it shares bytes|again, though"
    refused(missing, **neither)
    gone = {**neither, **without("setup", flag, "sets"), **without("finish", flag, "waits")}
    refused(missing, **gone)


@pytest.mark.parametrize("flag", FLAGS, ids=lambda flag: f"{flag.source}_{flag.target}_{flag.event}")
def test_an_id_that_is_taken_is_not_used_twice(flag):
    for other in {one for step in (*GOOD.setup, *GOOD.body) for one in step.sets}:
        if (other.source, other.target) == (flag.source, flag.target) and other in FLAGS and other != flag:
            swap = {
                name: changed(name, ("waits", "sets"), lambda one, other=other: (other if one == flag else one,))
                for name in SECTIONS
            }
            refused(r"a second time|again, though", **swap)


def test_two_carried_flags_of_one_id_are_refused():
    flag = FLAGS[0]
    more = dataclasses.replace(GOOD.setup[-1], sets=(*GOOD.setup[-1].sets[:1], flag), waits=())
    refused(r"sets .* a second time with no wait between", setup=(*GOOD.setup, more))


def test_iterations_parted_by_a_barrier_hand_no_flags_on():
    refused(r"setup: expected a wait for every set", carried=False)


def test_what_is_ordered_only_by_the_barrier_is_refused():
    plain, _ = synchronise(bare(toy_program()), Dims(CHUNK, toy_plan().shape.key_dim), CHIP)
    assert verify(toy_plan(toy_programs(plain)))
    with pytest.raises(ValueError, match=r"of an iteration before, with which it shares bytes of|again, though"):
        verify(toy_plan(toy_programs(dataclasses.replace(plain, carried=True))))


def test_barriers_order_steps_of_one_pipe_over_iterations():
    for at, step in enumerate(GOOD.body):
        if step.barrier:
            steps = (*GOOD.body[:at], dataclasses.replace(step, barrier=False), *GOOD.body[at + 1 :])
            refused(r"expected to start after step \d+", body=steps)


def test_an_id_out_of_range_is_refused():
    high = Flag(FLAGS[0].source, FLAGS[0].target, 8)
    refused(r"an id from 0 to 7", setup=changed("setup", ("sets",), lambda one: (high if one == FLAGS[0] else one,)))
