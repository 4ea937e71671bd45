"""Slots of earlier chunks and of column pieces, and launches that are one kernel: what verify refuses, bytes, JSON, words."""

import dataclasses
import json

import numpy as np
import pytest
import steps
from workspace_plan import CHUNK, UNITS, drain, fill, held, in_four, moved_back, pieces, plan_of, shape_of, spread
from workspace_plan import Slots as SlotsOf

from hajax import explain, plans
from hajax.plans import from_bytes, from_json, interpret, to_bytes, to_json, verify
from hajax.plans.program import Item, Launch, kernel_launches

SHAPE = shape_of(70)
SOUND = moved_back(SHAPE, back=2, writes=64, reads=16, stride=300)


def edited(plan, number, place, **fields):
    """The plan with other fields of one step of the body of one program."""
    programs = list(plan.launch.programs)
    body = list(programs[number].body)
    body[place] = dataclasses.replace(body[place], **fields)
    programs[number] = dataclasses.replace(programs[number], body=tuple(body))
    return dataclasses.replace(plan, launch=dataclasses.replace(plan.launch, programs=tuple(programs)))


def launched(plan, *launches):
    return dataclasses.replace(plan, launch=dataclasses.replace(plan.launch, launches=launches))


def with_item(plan, **fields):
    """The plan with another last item of the last launch, and what it did before left to another one."""
    first, last = plan.launch.launches
    *cores, core = last.cores
    core = (*core[:-1], dataclasses.replace(core[-1], **fields))
    return launched(plan, first, Launch((*cores, core)))


FIRST, LAST = SOUND.launch.launches
SLOT = (3 * 300 + UNITS) * 32
OUT_OF_SLOT = rf"p\[4:6\]: expected the last columns within the {SLOT} bytes of a workspace slot, got"
REFUSED = {
    "a chunk that is not there": (
        with_item(SOUND, first_chunk=1), r"\.first_chunk: expected >= 2, as the program reads of chunks that far back, got 1",
    ),
    "further back": (edited(SOUND, 2, 0, p=(0, 0, 3, 0, 44, 1, 0, 0)), r"\.first_chunk: expected >= 3, .*, got 2"),
    "much further back": (edited(SOUND, 2, 0, p=(0, 0, 2, 1, 44, 1, 0, 0)), r"\.first_chunk: expected >= 258, .*, got 2"),
    "columns beyond the slot": (edited(SOUND, 2, 0, p=(0, 0, 2, 0, 45, 1, 0, 0)), OUT_OF_SLOT),
    "a place beyond the slot": (edited(SOUND, 1, 0, constant=1), rf"{OUT_OF_SLOT} {SLOT + 32}"),
    "writes to another chunk": (
        edited(SOUND, 0, 1, p=(0, 0, 1, 0, 44, 1, 0, 0)), r"p\[2:4\]: expected 0 chunks back, as it writes, got 1",
    ),
    "nothing follows": (
        launched(SOUND, FIRST, dataclasses.replace(LAST, synced=True)),
        r"launches\[1\]\.synced: expected False, as no launch follows, got True",
    ),
    "more cores": (
        launched(SOUND, FIRST, Launch((*LAST.cores, ()))),
        r"launches\[0\]\.cores: expected 4, as the launch that follows in the same kernel has, got 3",
    ),
    "fewer cores": (
        launched(SOUND, Launch((*FIRST.cores, ()), True), LAST), r"launches\[0\]\.cores: expected 3, .*, got 4",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused(name):
    assert verify(SOUND) is SOUND
    plan, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        verify(plan)


def test_a_program_that_no_item_runs_may_reach_back():
    unused = dataclasses.replace(SOUND.launch, programs=(*SOUND.launch.programs, drain(SlotsOf(64, 300), 16, 0, 9)))
    assert verify(dataclasses.replace(SOUND, launch=unused))


def test_launches_apart_may_have_different_numbers_of_cores():
    assert verify(launched(SOUND, Launch((*FIRST.cores, ())), LAST))


@pytest.mark.parametrize("plan", [SOUND, held(SHAPE), in_four(SHAPE, (True, False, True)), in_four(SHAPE, (False,) * 3)])
def test_bytes_and_json_give_back_launches_and_fields(plan):
    data = to_bytes(plan)
    read = from_bytes(data)
    assert read.launches == plan.launch.launches
    assert to_bytes(dataclasses.replace(plan, launch=read)) == data
    for mine, its in zip(plan.launch.programs, read.programs, strict=True):
        for section in ("setup", "body", "finish"):
            assert [step.p for step in getattr(mine, section)] == [step.p for step in getattr(its, section)]
    text = to_json(plan)
    assert from_json(text) == plan
    assert [launch["synced"] for launch in json.loads(text)["launch"]["launches"]] == [one.synced for one in plan.launch.launches]


def test_the_bytes_of_a_synced_launch():
    data, ffi = to_bytes(in_four(SHAPE, (True, False, True))), steps.ffi()
    top = ffi.from_buffer("hj_npu_plan *", data)
    found = ffi.from_buffer("hj_npu_launch[4]", memoryview(data)[top.launch_offset :][: 4 * ffi.sizeof("hj_npu_launch")])
    assert [one.sync_after for one in found] == [1, 0, 1, 0]


@pytest.mark.parametrize(("change", "message"), [
    (lambda launch: launch.pop("synced"), r"launches: expected the fields \['cores', 'synced'\], got \['cores'\]"),
    (lambda launch: launch.update(synced=1), r"launches\.synced: expected bool, got 1"),
    (lambda launch: launch.update(cores=3), r"launches: expected a list, got int"),
])  # fmt: skip
def test_json_of_another_launch_is_refused(change, message):
    data = json.loads(to_json(SOUND))
    change(data["launch"]["launches"][0])
    with pytest.raises(ValueError, match=message):
        from_json(json.dumps(data))


@pytest.mark.parametrize(("synced", "kernels", "words"), [
    ((True, True, True), 1, "1 launch of 4 synced phases, 24 items on 3 cores"),
    ((True, False, True), 2, "2 launches of 4 synced phases, 24 items on 3 cores"),
    ((False, False, False), 4, "4 launches, 24 items on 3 cores"),
])  # fmt: skip
def test_kernels_are_counted_and_barriers_told(synced, kernels, words):
    plan = in_four(shape_of(70, heads=6), synced)
    assert kernel_launches(plan.launch.launches) == kernels
    told = explain(plan)
    assert words in told
    meetings = [line for line in told.splitlines() if line.endswith("; all cores meet before the next one, in the same kernel")]
    assert [line.startswith("launch") for line in meetings] == [True] * sum(synced)
    packed = dataclasses.replace(plan, launch=plans.Packed(to_bytes(plan)))
    assert words in explain(packed)


def inputs_of(shape, bounds=None):
    sizes = {name: getattr(shape, name) for name in ("key_heads", "value_heads", "key_dim", "value_dim")}
    return interpret.Inputs(**steps.call(shape.tokens, sequences=shape.sequences, bounds=bounds, **sizes))


def test_the_meaning_of_a_step_knows_where_slots_end():
    inputs = inputs_of(SHAPE)
    with pytest.raises(ValueError, match=r"expected a chunk from 3 on, got 2"):
        interpret.run(edited(SOUND, 2, 0, p=(0, 0, 3, 0, 44, 1, 0, 0)).launch, inputs, 1.0)
    with pytest.raises(ValueError, match=rf"expected at most {SLOT} bytes of workspace, got {SLOT + 96}"):
        interpret.run(edited(SOUND, 2, 0, p=(0, 0, 2, 0, 45, 1, 0, 0)).launch, inputs, 1.0)


def test_items_without_a_chunk_are_passed_over():
    """Whole programs of them, and a sequence without a token keeps its state."""
    shape, columns = shape_of(40, sequences=3), 64
    slots = SlotsOf(64)
    late = pieces(shape, 1, columns, (0, 1), (1, 1), (2, -1))
    plan = plan_of(shape, (fill(slots, columns), drain(slots, columns)),
                   (Launch(spread(pieces(shape, 0, columns), 2), True), Launch(spread(late, 2))), slots)  # fmt: skip
    inputs = inputs_of(shape, [[0, 5, 5, 40]])
    output, state = interpret.run(verify(plan).launch, inputs, 1.0)
    np.testing.assert_array_equal(output, inputs.value)
    np.testing.assert_array_equal(state, inputs.state_in)
    assert CHUNK == 16 and Item(1, 1, 0, 0, 1, 1) in late
