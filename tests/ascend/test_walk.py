"""How the machine walks a plan: sections, stages, versions of buffers, first and last chunks, items, sequences, flags."""

import json
import re

import numpy as np
import pytest
import steps
from steps import ALL_LANES, FREE, UB, alternating, flag, plan, program, step, sync, vector

from hajax import abi
from hajax.backends import npu
from hajax.backends.library import LibraryError

TENSOR = abi.table("tensors")
CARRIES = abi.constant("HJ_CARRIES_FLAGS")
CHUNK = 16
SHAPE = {"key_heads": 1, "value_heads": 4, "key_dim": 16, "value_dim": 32}
APART = 8 << 10


def rows(tensor, head=0, state=0, itemsize=2):
    return (TENSOR[tensor], head, 0, 0, state, 0, 0, itemsize)


def execute(programs, tokens, *, items=None, launches=None, bounds=None, sequences=1, batch=1, **fields):
    made = plan(programs, chunk=CHUNK, **SHAPE, items=items, launches=launches, sequences=batch * sequences, **fields)
    arrays = steps.call(tokens, **SHAPE, bounds=bounds, sequences=sequences, batch=batch)
    output, state, runs = npu.execute(made, arrays, scale=1.0)
    return output, state, runs, arrays


def copy_values(stage_in=0, stage_out=0, address=FREE):
    """Values to outputs through UB, by two steps of these stages."""
    ready, free = flag("MTE2_MTE3", 3), flag("MTE3_MTE2", 3)
    return (
        [sync(sets=[free])],
        [
            step("rows_to_ub", dst=address, count=2, p=rows("value"), stage=stage_in, wait=[free], set=[ready]),
            step("rows_from_ub", src0=address, count=2, p=rows("output"), stage=stage_out, wait=[ready], set=[free]),
        ],
        [sync(waits=[free])],
    )


def copy_states():
    """A section that takes states_in to state_out."""
    ready = flag("MTE2_MTE3", 5)
    return [
        step("rows_to_ub", dst=FREE + 4 * APART, count=2, p=rows("state_in", state=1), set=[ready]),
        step("rows_from_ub", src0=FREE + 4 * APART, count=2, p=rows("state_out", state=1, itemsize=4), wait=[ready]),
    ]


@pytest.mark.parametrize("tokens", [1, 16, 17, 32, 33, 100])
@pytest.mark.parametrize(("stages", "stage_in", "stage_out"), [(1, 0, 0), (2, 0, 0), (2, 1, 1), (3, 2, 2), (3, 0, 0)])
def test_a_stage_runs_once_for_every_chunk(tokens, stages, stage_in, stage_out):
    setup, body, finish = copy_values(stage_in, stage_out)
    output, _, (run,), arrays = execute([program(setup, body, finish, columns=32, stages=stages)], tokens)
    assert (output[0, :, 0] == arrays["value"][0, :, 0]).all()
    chunks = -(-tokens // CHUNK)
    assert run.counts["copy_ubuf_to_gm"] == chunks
    # A section ends with a barrier of all pipes: setup, the iterations, finish.
    assert run.counts["pipe_barrier"] == chunks + stages - 1 + 2


@pytest.mark.parametrize("tokens", [1, 16, 17, 100])
@pytest.mark.parametrize("specialised", [False, True])
def test_flags_are_carried_from_iteration_to_iteration_without_a_barrier(tokens, specialised):
    setup, body, finish = copy_values(1, 1)
    made = plan([program(setup, body, finish, columns=32, stages=2 | CARRIES)], chunk=CHUNK, **SHAPE)
    arrays = steps.call(tokens, **SHAPE)
    output, _, (run,) = npu.execute(made, arrays, scale=1.0, specialised=specialised)
    assert (output[0, :, 0] == arrays["value"][0, :, 0]).all()
    assert run.counts["pipe_barrier"] == 3  # behind setup, behind the last iteration, behind finish
    assert npu.execute(made, arrays, scale=1.0)[0].tobytes() == output.tobytes()


def test_items_of_programs_that_carry_flags_follow_one_another():
    setup, body, finish = copy_values()
    programs = [program(setup, body, finish, columns=32, stages=1 | carries) for carries in (CARRIES, 0)]
    for order in ((0, 0, 0, 0), (0, 1, 0, 1), (1, 0, 0, 1)):
        items = [(which, 0, head, 0, 0, -1) for head, which in enumerate(order)]
        output, _, _, arrays = execute(programs, 50, items=items)
        assert (output == arrays["value"]).all()


@pytest.mark.parametrize("specialised", [False, True])
def test_without_the_flag_that_its_buffer_is_free_the_next_iteration_is_a_race(specialised):
    setup, body, finish = copy_values()
    ready = flag("MTE2_MTE3", 3)
    loose = [
        step("rows_to_ub", dst=FREE, count=2, p=rows("value"), set=[ready]),
        step("rows_from_ub", src0=FREE, count=2, p=rows("output"), wait=[ready]),
    ]
    arrays = steps.call(50, **SHAPE)

    def run(stages, body=loose, setup=(), finish=()):
        made = plan([program(setup, body, finish, columns=32, stages=stages)], chunk=CHUNK, **SHAPE)
        return npu.execute(made, arrays, scale=1.0, specialised=specialised)[0]

    assert (run(1)[0, :, 0] == arrays["value"][0, :, 0]).all()  # a barrier parts its iterations
    with pytest.raises(npu.SimFault) as caught:
        run(1 | CARRIES)
    assert caught.value.check == "race"
    assert (run(1 | CARRIES, body, setup, finish)[0, :, 0] == arrays["value"][0, :, 0]).all()


def test_a_carried_flag_without_either_end_is_refused():
    setup, body, finish = copy_values()
    for sections, message in (
        (((), body, finish), r"steps\[0\] \(rows_to_ub\)\.wait\[0\]: expected a flag that has been set, got MTE3_MTE2 3"),
        ((setup, body, ()), r"programs\[0\]\.finish: expected a wait for each flag, got MTE3_MTE2 3 left set"),
    ):
        with pytest.raises(LibraryError, match=message):
            execute([program(*sections, columns=32, stages=1 | CARRIES)], 20)


@pytest.mark.parametrize("stages", [CARRIES, CARRIES | 4, 2 * CARRIES | 1, CARRIES - 1])
def test_other_bits_of_stages_are_refused(stages):
    with pytest.raises(LibraryError, match=r"programs\[0\]\.stages: expected 1\.\.3"):
        execute([program((), [sync()], columns=32, stages=stages)], 5)


@pytest.mark.parametrize("tokens", [1, 16, 17, 32, 33, 100])
@pytest.mark.parametrize("apart", [1, 2])
def test_versions_alternate_so_that_stages_overlap(tokens, apart):
    # The later stage works on an older chunk than the load that is in front of it in the program.
    place = alternating(FREE)
    ready, free = flag("MTE2_MTE3", 0), flag("MTE3_MTE2", 0)
    body = [
        step("rows_to_ub", dst=place, count=2, p=rows("value"), stage=0),
        sync(sets=[ready, free]),
        sync(waits=[ready, free]),
        step("rows_from_ub", src0=place, count=2, p=rows("output"), stage=apart),
    ]
    output, _, _, arrays = execute([program((), body, (), columns=32, stages=3, slots={UB: APART})], tokens)
    same = (output[0, :, 0] == arrays["value"][0, :, 0]).all()
    # Two versions last for one stage in between, not for two.
    assert same == (apart == 1 or tokens <= 2 * CHUNK)


def test_setup_reaches_odd_versions_and_finish_works_on_the_last_chunks():
    place = alternating(FREE)
    setup = [
        vector("dup32", place, repeats=8, scalar=1),
        vector("dup32", place, repeats=8, scalar=2, last=True),
    ]
    finish = [step("rows_from_ub", src0=place, count=2, p=rows("state_out", state=1, itemsize=4))]
    for tokens, value in ((16, 1.0), (17, 2.0), (40, 1.0), (64, 2.0)):
        _, state, _, _ = execute([program(setup, (), finish, columns=32, slots={UB: APART}, scalars=(1, 2))], tokens)
        assert (state[0, 0, 0] == value).all()


def test_first_and_last_chunks_are_the_sequences():
    body = [
        vector("dup32", FREE, first=True),
        vector("dup16", FREE + 1024, last=True),
        vector("adds32", FREE, FREE, barrier=True),
    ]
    one = program((), body, (), columns=32)
    counts = {}
    for name, item in {"all": (0, -1), "two": (0, 2), "rest": (2, -1), "middle": (1, 2)}.items():
        starts = [vector("dup32", FREE)]
        made = [program(starts, body, (), columns=32), idle()]
        counts[name] = execute(made, 5 * CHUNK, items=[(0, 0, 0, 0, *item), (1, 0, 0, 0, 0, -1)])[2][0].counts
    assert one
    firsts = {name: c["vector_dup"] - 1 for name, c in counts.items()}
    assert {name: c["vadds"] for name, c in counts.items()} == {"all": 5, "two": 2, "rest": 3, "middle": 2}
    assert firsts == {"all": 2, "two": 1, "rest": 1, "middle": 0}


def idle():
    """A program that does nothing with the chunks that are left to it."""
    return program((), [sync()], columns=32)


def test_items_take_their_part_of_a_sequence():
    setup, body, finish = copy_values()
    items = [(0, 0, 0, 0, 0, 2), (0, 0, 0, 0, 2, 1), (0, 0, 0, 0, 3, -1), (0, 0, 0, 0, 9, -1), (0, 0, 0, 0, 4, 7)]
    made = [program(setup, body, finish, columns=32)]
    output, _, (run,), arrays = execute(made, 85, items=items[:3], launches=[(0, (1, 1, 1))])
    assert (output[0, :, 0] == arrays["value"][0, :, 0]).all()
    assert run.blocks == 3
    rest = (0, 0, 0, 0, 0, 4)
    _, _, (run,), _ = execute(made, 85, items=[items[3], items[4], rest])  # beyond the end; and more than there is
    assert run.counts["copy_ubuf_to_gm"] == 6


@pytest.mark.parametrize(("ranges", "reached"), [
    ([(0, 2), (2, 3)], 5), ([(0, 2), (3, 9)], 2), ([(1, -1)], 0), ([(0, 3), (1, 1)], 3), ([(2, 2), (0, 2)], 4),
    ([(0, 1), (1, -1)], None),
])  # fmt: skip
def test_a_call_longer_than_the_items_reach_is_refused(ranges, reached):
    """A plan with ranges of chunks is one for so many tokens; those of another head do not count."""
    setup, body, finish = copy_values()
    made = [program(setup, body, finish, columns=32)]
    items = [(0, 0, 0, 0, first, count) for first, count in ranges] + [(0, 0, 1, 0, 0, -1)]
    most = 6 * CHUNK if reached is None else reached * CHUNK
    if most:
        execute(made, most, items=items)
    if reached is not None:
        message = rf"tokens of sequence 0: expected at most {most}, as the plan's items reach no further, got {most + 1}"
        with pytest.raises(ValueError, match=message):
            execute(made, most + 1, items=items)


def test_maps_that_another_launch_takes_up_reach_the_end_too():
    setup, body, finish = copy_values()
    made = [idle(), program(setup, body, finish, columns=32)]
    items = [(0, 0, 0, 0, 0, 2), (0, 0, 0, 0, 2, 1), (1, 0, 0, 0, 0, -1)]
    execute(made, 3 * CHUNK, items=items, launches=[(0, (2,)), (2, (1,))])
    with pytest.raises(ValueError, match=r"tokens of sequence 0: expected at most 48, .* got 80"):
        execute(made, 5 * CHUNK, items=items, launches=[(0, (2,)), (2, (1,))])


def test_setup_steps_for_a_programs_first_item_run_when_it_changes():
    setup = [vector("dup32", FREE, first=True), vector("dup16", FREE + 512)]
    programs = [program(setup, [vector("adds32", FREE, FREE)], columns=32)] * 2
    order = (0, 0, 1, 0, 0, 0)
    items = [(p, 0, i % 4, 0, 0, -1) for i, p in enumerate(order)]
    _, _, (run,), _ = execute(programs, 10, items=items)
    assert run.counts["vector_dup"] == len(items) + 3
    _, _, (run,), _ = execute(programs, 10, items=items, launches=[(0, (3, 3))])
    assert run.counts["vector_dup"] == len(items) + 3


def test_an_item_without_chunks_prepares_nothing():
    setup = [vector("dup32", FREE, first=True)]
    made = [program(setup, [vector("adds32", FREE, FREE)], columns=32)]
    items = [(0, 0, 0, 0, 0, -1), (0, 1, 0, 0, 0, -1), (0, 2, 0, 0, 0, -1)]
    _, _, (run,), _ = execute(made, 20, items=items, bounds=[[0, 0, 5, 20]], sequences=3)
    assert run.counts["vector_dup"] == 1
    assert run.counts["vadds"] == 2


def test_packed_sequences_of_all_rows():
    setup, body, finish = copy_values()
    bounds = [[3, 20, 20, 53], [0, 0, 16, 50]]
    made = [program(setup, body, [*finish, *copy_states()], columns=32)]
    items = [(0, s, head, 0, 0, -1) for s in range(6) for head in range(4)]
    output, state, _, arrays = execute(made, 60, items=items, launches=[(0, (8, 10, 6))], bounds=bounds, sequences=3, batch=2)
    for b, row in enumerate(bounds):
        assert (output[b, row[0] : row[-1]] == arrays["value"][b, row[0] : row[-1]]).all()
        assert (output[b, : row[0]] == 0).all() and (output[b, row[-1] :] == 0).all()
    assert (state == arrays["state_in"]).all()  # of empty sequences too, which no item has copied


@pytest.mark.parametrize(("tokens", "batch"), [(0, 1), (4, 0)])
def test_nothing_to_run_is_no_error(tokens, batch):
    setup, body, finish = copy_values()
    made = plan([program(setup, body, finish, columns=32)], chunk=CHUNK, **SHAPE, sequences=1)
    arrays = steps.call(tokens, **SHAPE, batch=batch)
    if batch == 0:
        with pytest.raises(ValueError, match=r"batch times sequences: expected 1 as the plan says, got 0"):
            npu.execute(made, arrays, scale=1.0)
        return
    output, state, runs = npu.execute(made, arrays, scale=1.0)
    assert output.shape == arrays["value"].shape and (state == arrays["state_in"]).all() and runs == ()


def test_rows_that_hold_no_sequence_are_zero():
    setup, body, finish = copy_values()
    arrays = steps.call(9, **SHAPE, bounds=[[4, 4]])
    output, state, runs = npu.execute(plan([program(setup, body, finish, columns=32)], **SHAPE), arrays, scale=1.0)
    assert (output == 0).all() and (state == arrays["state_in"]).all() and runs == ()


def test_sync_steps_carry_six_flags_each_way():
    pairs = ("MTE2_V", "MTE2_MTE3", "V_MTE2", "V_MTE3", "MTE3_V", "MTE3_MTE2")
    flags = [flag(name, event) for event, name in enumerate(pairs)]
    body = [vector("dup32", FREE), sync(sets=flags), sync(waits=flags), vector("adds32", FREE, FREE, barrier=True)]
    _, _, (run,), _ = execute([program((), body, columns=32)], 3 * CHUNK)
    copies = run.counts["set_flag"] - 3 * 6  # what the kernel needs for itself
    assert run.counts["wait_flag"] - 3 * 6 == copies > 0


@pytest.mark.parametrize("name", abi.names("flags"))
def test_every_pair_of_pipes_has_its_flags(name):
    body = [sync(sets=[flag(name, event) for event in range(6)]), sync(waits=[flag(name, event) for event in range(6)])]
    more = [sync(sets=[flag(name, event) for event in (6, 7)]), sync(waits=[flag(name, event) for event in (7, 6)])]
    _, _, (run,), _ = execute([program((), [*body, *more], columns=32)], 40)
    assert run.counts["set_flag"] == run.counts["wait_flag"] > 3 * 8


def test_decoding_costs_three_loads_a_step_and_one_when_it_is_skipped():
    def loads(body, tokens=CHUNK):
        return execute([program((), body, columns=32, scalars=(2,))], tokens)[2][0].counts["scalar_load"]

    start = [vector("dup32", FREE, scalar=0)]
    one = vector("adds32", FREE, FREE, barrier=True, scalar=0)
    assert loads([*start, one, one]) - loads([*start, one]) == 3
    assert loads([*start, vector("adds32", FREE, FREE, barrier=True, scalar=1)]) - loads([*start, one]) == 1
    assert loads([*start, sync()]) - loads(start) == 1
    skipped = vector("adds32", FREE, FREE, first=True, barrier=True)
    assert loads([*start, skipped], 2 * CHUNK) - loads(start, 2 * CHUNK) == 3 + 1


def test_masks_belong_to_their_program():
    low = ((1 << 8) - 1, 0)
    first = program([vector("dup32", FREE, scalar=1)], [vector("adds32", FREE, FREE, scalar=1, mask=1)], columns=32,
                    masks=(low,), scalars=(1,))  # fmt: skip
    finish = [step("rows_from_ub", src0=FREE, count=2, p=rows("state_out", 0, 1, 4))]
    second = program([vector("dup32", FREE, repeats=8, scalar=1)], [vector("adds32", FREE, FREE, scalar=1, mask=1)], finish,
                     columns=32, masks=((1 << 4, 0),), scalars=(3,))  # fmt: skip
    _, state, _, _ = execute([first, second], CHUNK, items=[(0, 0, 1, 0, 0, -1), (1, 0, 0, 0, 0, -1)])
    values = state[0, 0, 0].reshape(-1)
    assert values[4] == 6 and (np.delete(values, 4) == 3).all()
    assert ALL_LANES == (2**64 - 1,) * 2


def test_a_failed_check_names_the_steps():
    body = [vector("dup32", FREE), sync(), step("rows_from_ub", src0=FREE, count=1, p=rows("output"))]
    with pytest.raises(npu.SimFault) as caught:
        execute([program([sync()], [sync()], columns=32), program((), body, columns=32)], 5, items=[(1, 0, 0, 0, 0, -1)])
    assert caught.value.check == "race"
    # An installed library is stripped: without the kernel's lines, steps are all that tells where.
    assert re.search(r"\(copy_ubuf_to_gm\) of step 1/2( at \./native/ascend/moves\.h:\d+)?: src reads UB", caught.value.text)
    assert "the other access: V instruction 1 (vector_dup) of step 1/0" in caught.value.text


def test_a_timeline_names_the_steps():
    setup, body, finish = copy_values()
    _, _, (run,), _ = execute([program(setup, body, finish, columns=32)], 5)
    events = [e for e in json.loads(npu.timeline(run))["traceEvents"] if e.get("name") == "copy_ubuf_to_gm"]
    assert [event["args"]["step"] for event in events] == ["0/2"]


def test_a_program_whose_items_are_passed_over_leaves_nothing_behind():
    """It is brought to the core all the same, and may lie where another program keeps what its first item has set up."""
    keeps = FREE + APART
    setup = [step("constant_to_ub", dst=keeps, src0=steps.ZERO_BYTES, size=32, first=True)]
    body = [step("rows_from_ub", src0=keeps, count=2, p=rows("output"))]
    other = [sync() for _ in range(40)]
    constants = np.arange(CHUNK * 32, dtype=np.float16)
    programs = [program(setup, body, columns=32), program((), other, columns=32, address=keeps)]
    items = [(0, 0, 0, 0, 0, -1), (1, 1, 0, 0, 0, -1), (0, 2, 0, 0, 0, -1)]
    output, _, _, _ = execute(
        programs, 2 * CHUNK, items=items, sequences=3, bounds=[[0, CHUNK, CHUNK, 2 * CHUNK]], constants=constants.tobytes()
    )
    for first in (0, CHUNK):
        assert (output[0, first : first + CHUNK, 0] == constants.reshape(CHUNK, 32)).all()
