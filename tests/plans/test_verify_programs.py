"""verify refuses an Ascend plan with any one rule broken, by name of the place; one violation planted for every rule."""

import dataclasses
import re

import pytest
from toy_plan import ALL, CHUNK, SETUP, SHAPE, STATES, TENSOR, chained, placed, tile, toy_plan, toy_program, toy_programs

from hajax.plans import verify
from hajax.plans.program import Buffer, Flag, Item, Launch, Operand, Step
from hajax.targets import npu

GOOD = toy_program()


def edit(steps, label, **changes):
    """The steps with one of them changed; the others stay."""
    assert sum(step.label == label for step in steps) == 1
    return tuple(dataclasses.replace(step, **changes) if step.label == label else step for step in steps)


def body(label, **changes):
    return dataclasses.replace(GOOD, body=edit(GOOD.body, label, **changes))


def buffer(which, /, **changes):
    changed = (dataclasses.replace(one, **changes) if one.name == which else one for one in GOOD.buffers)
    return dataclasses.replace(GOOD, buffers=tuple(changed))


def fields(label, **numbers):
    """p with some of its numbers changed: p0=3."""
    step = next(step for step in GOOD.body if step.label == label)
    return tuple(numbers.get(f"p{i}", step.p[i]) for i in range(8))


def address(name):
    return next(one.address for one in GOOD.buffers if one.name == name)


def refused(program, message, shape=SHAPE):
    with pytest.raises(ValueError, match=message):
        verify(toy_plan(toy_programs(program), shape))


def test_the_good_plan_is_good():
    plan = toy_plan()
    assert verify(plan) is plan


def test_a_plan_is_held_against_the_chip_that_is_given():
    small = dataclasses.replace(npu.load("ascend310p1"), l0c_bytes=2048)
    with pytest.raises(ValueError, match=r"buffers\[c\]\.address: expected .* within 2048 bytes, got \(0, 4096\)"):
        verify(toy_plan(), small)


HEAD = {
    "heads": ({"heads": 0}, r"programs\[0\]\.heads: expected >= 1, got 0"),
    "columns": ({"columns": 24}, r"columns: expected a multiple of 16, got 24"),
    "stages": ({"stages": 4}, r"stages: expected from 1 to 3, got 4"),
    "too few stages": ({"stages": 2}, r"stage: expected from 0 to 1, got 2"),
    "no masks": ({"masks": ()}, r"masks: expected 1 to 16"),
    "another first mask": ({"masks": ((1, 0),)}, r"masks: expected 1 to 16, the first all lanes"),
    "an empty mask": ({"masks": (ALL, (0, 0))}, r"masks: expected .* a lane that is on in each"),
    "no scalars": ({"scalars": ()}, r"scalars: expected 1 to 32, got 0"),
    "steps over the frame": ({"step_address": 480}, r"step_address: expected .* within 512"),
    "steps askew": ({"step_address": GOOD.step_address + 8}, r"step_address: expected a multiple of 32"),
    "steps over the API's bytes": ({"step_address": 248 * 1024 - 32}, r"step_address: expected"),
    "steps over a buffer": ({"step_address": address("out16")}, r"buffers\[out16\]\.address: expected bytes beside the frame"),
    "slots past their memory": ({"slot_bytes": {**GOOD.slot_bytes, "L0A": 2**70}}, r"slot_bytes: expected .*, within it, got"),
    "slots askew": ({"slot_bytes": {**GOOD.slot_bytes, "L1": 4100}}, r"slot_bytes: expected multiples of the alignment"),
}


@pytest.mark.parametrize("name", HEAD)
def test_a_broken_program_is_refused(name):
    changes, message = HEAD[name]
    refused(dataclasses.replace(GOOD, **changes), message)


BUFFERS = {
    "no address": (buffer("a", address=None), r"buffers\[a\]\.address: expected a number, got None"),
    "another memory": (buffer("a", space="L2"), r"buffers\[a\]\.space: expected one of"),
    "three versions": (buffer("a", versions=3), r"buffers\[a\]\.versions: expected 1 or 2, got 3"),
    "no bytes": (buffer("a", bytes=0), r"buffers\[a\]\.bytes: expected > 0, got 0"),
    "two of a name": (buffer("a", name="b"), r"buffers: expected names that differ, got \['b', 'b'\]"),
    "askew in L0A": (buffer("a", address=256), r"buffers\[a\]\.address: expected a multiple of 512"),
    "beyond L0B": (buffer("b", address=64 * 1024 - 512), r"buffers\[b\]\.address: expected .* within 65536 bytes"),
    "beyond L1": (buffer("q", address=1024 * 1024 - 4096), r"buffers\[q\]\.address: expected .* within 1048576 bytes"),
    "in the API's part of UB": (buffer("out", address=248 * 1024 - 1024), r"buffers\[out\]\.address: expected .* within 253952"),
    "over the frame": (buffer("half", address=480), r"buffers\[half\]\.address: expected bytes beside the frame"),
    "over the steps": (
        buffer("out", address=GOOD.step_address - 4064),
        r"buffers\[out\]\.address: expected bytes beside the frame",
    ),
    "slots too near": (buffer("q", bytes=8192), r"buffers\[q\]\.bytes: expected at most slot_bytes of L1=4096, got 8192"),
    "askew in L0C for fp32": (buffer("c", address=64), r"dst: expected an address that is a multiple of 1024, got 64"),
}


@pytest.mark.parametrize("name", BUFFERS)
def test_a_broken_buffer_is_refused(name):
    refused(*BUFFERS[name])


STEPS = {
    "another opcode": (body("O", opcode="jump"), r"opcode: expected a name of opcodes\.def, got 'jump'"),
    "a count beyond a byte": (body("Q", count=256), r"p: expected numbers from 0 to 255"),
    "seven numbers": (body("Q", p=(0,) * 7), r"p: expected numbers from 0 to 255"),
    "a size beyond two bytes": (body("Q K^T out", size=65536), r"size: expected from 0 to 65535"),
    "a stage below 0": (body("O", stage=-1), r"stage: expected from 0 to 2, got -1"),
    "an operand too many": (body("O", dst=Operand("out")), r"dst: expected none"),
    "an operand missing": (body("Q K^T", src1=None), r"src1: expected a place in L0B, got None"),
    "an operand of another memory": (body("Q K^T", src1=Operand("a")), r"src1: expected a buffer of L0B, got 'a'"),
    "an unknown buffer": (body("Q K^T", src1=Operand("z")), r"src1: expected a buffer of L0B, got 'z'"),
    "an operand askew": (body("scale S", dst=Operand("out", 16)), r"dst: expected an address that is a multiple of 32"),
    "a fractal askew": (body("Q", dst=Operand("a", 32)), r"dst: expected an address that is a multiple of 512"),
    "a result askew": (body("Q K^T out", src0=Operand("c", 64)), r"src0: expected an address that is a multiple of 1024"),
    "beyond its buffer": (body("scale S", size=17), r"expected bytes within the 4096 of state, got \(0, 4352\)"),
    "before its buffer": (body("scale S", dst=Operand("out", -1024)), r"within the 4096 of out, got \(-1024, 3072\)"),
    "no repeats": (body("scale S", size=0), r"size: expected 1 to 255 repeats, got 0"),
    "too many repeats": (body("scale S", size=256, p=fields("scale S", p3=0, p4=0)), r"size: expected 1 to 255 repeats, got 256"),
    "a mask that is not there": (body("scale S", index=1), r"index: expected a mask below 1, got 1"),
    "a scalar that is not there": (body("scale S", p=fields("scale S", p6=1)), r"p\[6\]: expected a scalar below 1, got 1"),
    "repeats in one place": (body("scale S", p=fields("scale S", p3=0)), r"p: expected repeats and blocks that write"),
    "blocks in one place": (body("scale S", p=fields("scale S", p0=0)), r"p: expected repeats and blocks that write"),
    "a source half in the result": (
        body("scale S", dst=Operand("state", 32), size=8), r"src0: expected the place of dst, or one that does not meet it",
    ),
    "a source with other strides": (
        body("scale S", dst=Operand("state"), size=8, p=fields("scale S", p4=4)), r"src0: expected the place of dst",
    ),
    "an empty group": (body("Q", size=0), r"expected 1 to 255 fractals in a group, got 0"),
    "groups over one another": (body("Q", p=fields("Q", p3=1)), r"p\[3\]: expected at least the 2 fractals of a group, got 1"),
    "an empty product": (body("Q K^T", p=fields("Q K^T", p2=0)), r"p: expected at least one product of at least one block"),
    "an empty move": (body("Q K^T out", size=0), r"size: expected count and size of at least 1"),
    "an unknown tensor": (body("load Q", p=fields("load Q", p0=99)), r"p\[0\]: expected a number of tensors\.def, got 99"),
    "an output read": (body("load Q", p=fields("load Q", p0=TENSOR.output)), r"p\[0\]: expected one of .*, got 'output'"),
    "an input written": (body("O", p=fields("O", p0=TENSOR.value)), r"p\[0\]: expected one of .*, got 'value'"),
    "rows of a gate": (body("load Q", p=fields("load Q", p0=TENSOR.beta)), r"p\[0\]: expected one of"),
    "a head of another item": (body("load Q", p=fields("load Q", p1=1)), r"p\[1\]: expected a head below 1, got 1"),
    "columns of another item": (body("load Q", p=fields("load Q", p2=1)), r"count: expected columns within 32, got 48"),
    "no columns": (body("load Q", count=0), r"expected columns within 32, got 0|expected bytes within"),
    "an unknown layout": (body("O", p=fields("O", p3=3)), r"p\[3\]: expected a layout below 3, got 3"),
    "a state's rows of a chunk": (body("O", p=fields("O", p4=1)), r"p\[4\]: expected 0 for output, got 1"),
    "four bytes of an fp16 output": (
        body("O", src0=Operand("out"), p=fields("O", p7=4)), r"p\[7\]: expected 2 bytes for output, got 4",
    ),
    "a barrier missing between small products": (
        body("Q K^T", count=2, p=(1, 2, 1, 0, 1, 0, 0, 0)), r"expected p\[6\] with 4, a barrier between products of 2 tiles",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STEPS)
def test_a_broken_step_is_refused(name):
    refused(*STEPS[name])


def test_larger_products_that_meet_need_no_barrier():
    target = dataclasses.replace(npu.load("ascend310p1"), cube_barrier_tiles=2)
    program = body("Q K^T", count=2, p=(1, 2, 1, 0, 1, 2, 1, 0))
    program = dataclasses.replace(program, body=edit(program.body, "Q K^T out", size=2))
    program = dataclasses.replace(program, body=edit(program.body, "S + Q K^T", size=8))
    assert verify(toy_plan(toy_programs(program)), target)


def test_sections_have_steps_that_mean_something_there():
    only = r"finish\[0\].*no marks in this section but the last one's of a store"
    refused(dataclasses.replace(GOOD, finish=edit(GOOD.finish, "state out", first=True)), only)
    scaled = Step("muls32", Operand("state"), Operand("state"), size=1, p=(1, 1, 0, 8, 8, 0, 0, 0), last=True, label="scaled")
    refused(dataclasses.replace(GOOD, finish=(scaled, *GOOD.finish)), only)
    assert verify(toy_plan(toy_programs(dataclasses.replace(GOOD, finish=edit(GOOD.finish, "state out", last=True)))))
    early = Step(dst=Operand("q"), label="early", **tile("rows_to_l1", "query"))
    refused(
        dataclasses.replace(GOOD, setup=chained((*SETUP, early))),
        r"setup\[2\].*steps that move a chunk's tokens in the body only",
    )


def test_constants_and_workspace_have_ends():
    far = dataclasses.replace(GOOD, setup=edit(GOOD.setup, "halves", constant=8192 // 32 + 1))
    refused(far, r"constant: expected within 8320 bytes, got 8352")
    keeps = Step("workspace_to_ub", Operand("out"), size=4, p=(0, 0, 0, 0, 0, 0, 0, 0), label="kept")
    refused(
        dataclasses.replace(GOOD, setup=chained((*SETUP, keeps))), r"constant: expected within the 0 bytes of a workspace slot"
    )
    programs = dataclasses.replace(toy_programs(), constants=bytes(8191) + b"\1" * 129)
    with pytest.raises(ValueError, match=r"launch\.constants: expected 8192 zeros first"):
        verify(toy_plan(programs))
    for changes, message in (
        ({"npu_arch": 3002}, r"launch\.npu_arch: expected 2002, got 3002"),
        ({"chunk": 48}, r"launch\.chunk: expected one of"),
        ({"workspace_slot_bytes": 33}, r"launch\.workspace_slot_bytes: expected a multiple of 32, got 33"),
        ({"workspace_slot_bytes": 2**31}, r"launch\.workspace_slot_bytes: expected at most 2147483647, got 2147483648"),
    ):
        with pytest.raises(ValueError, match=message):
            verify(toy_plan(dataclasses.replace(toy_programs(), **changes)))


FLAGS = {
    "a wait without a set": (body("round O", sets=()), r"waits for V_MTE3:0, which no step before sets"),
    "a set without a wait": (body("O", waits=()), r"body: expected a wait for every set, got none for V_MTE3:0"),
    "a wait taken twice": (body("O", waits=(Flag("V", "MTE3", 0),) * 2), r"waits for V_MTE3:0, .* or which was taken"),
    "a wait of another pipe": (body("O", waits=(Flag("V", "MTE1", 0),)), r"expected waits of MTE3, its pipe, got V_MTE1:0"),
    "a set from another pipe": (body("O", sets=(Flag("V", "MTE1", 0),)), r"expected sets from MTE3, its pipe, got V_MTE1:0"),
    "an id too high": (body("O", waits=(Flag("V", "MTE3", 8),)), r"an id from 0 to 7, got V_MTE3:8"),
    "a pair without flags": (body("O", sets=(Flag("MTE3", "M", 0),)), r"expected a pair of flags\.def"),
    "three waits": (body("O", waits=(Flag("V", "MTE3", 0),) * 3), r"waits, \.sets: expected at most 2 each, got \(3, 1\)"),
    "a set before the wait for the last one": (
        body("scale S", sets=(Flag("V", "MTE3", 0),)), r"sets V_MTE3:0 a second time with no wait between",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FLAGS)
def test_a_broken_flag_is_refused(name):
    refused(*FLAGS[name])


def test_a_flag_is_not_set_again_before_its_pipe_knows_that_it_was_taken():
    flag = Flag("V", "MTE3", 0)
    dups = [Step("dup32", Operand("out"), size=8, p=(1, 1, 0, 8, 0, 0, 0, 0), label=f"dup {i}", stage=0) for i in range(2)]
    moves = [Step("ub_to_l1", Operand("q"), Operand("out"), size=64, label=f"move {i}", stage=0) for i in range(2)]
    steps = [
        dataclasses.replace(dups[0], sets=(flag,)), dataclasses.replace(moves[0], waits=(flag,)),
        dataclasses.replace(dups[1], sets=(flag,), dst=Operand("x")), dataclasses.replace(moves[1], waits=(flag,)),
    ]  # fmt: skip
    program = dataclasses.replace(GOOD, setup=(), body=tuple(steps), finish=())
    refused(program, r"body\[2\] \(dup 1\): sets V_MTE3:0 again, though V cannot know that MTE3 has taken it")
    back = Flag("MTE3", "V", 0)
    steps[1:3] = [dataclasses.replace(steps[1], sets=(back,)), dataclasses.replace(steps[2], waits=(back,))]
    refused(dataclasses.replace(program, body=tuple(steps)), r"output|state_out")  # all ordered: the next rule speaks


def test_flags_in_the_numbers_of_a_sync_step_count():
    waits = next(step for step in GOOD.body if step.label == "O").waits
    number = 16 * 8  # V_MTE3:0
    at = next(i for i, step in enumerate(GOOD.body) if step.label == "O")
    sync = Step("sync", p=(number, 0, 0, 0, 0, 0, 0, 0), label="sync")
    steps = edit(GOOD.body, "O", waits=())
    assert waits == (Flag("V", "MTE3", 0),)
    assert verify(toy_plan(toy_programs(placed_anew(body=(*steps[:at], sync, *steps[at:])))))
    idle = dataclasses.replace(sync, count=0)
    refused(placed_anew(body=(*steps[:at], idle, *steps[at:])), r"expected a wait for every set, got none for V_MTE3:0")


def placed_anew(**changes):
    return placed(dataclasses.replace(GOOD, **changes))


def test_dependent_steps_of_two_pipes_without_a_flag_are_refused():
    for before, after, space in (("Q K^T", "Q K^T out", "L0C"), ("K^T", "Q K^T", "L0A"), ("round O", "O", "UB")):
        steps = edit(edit(GOOD.body, before, sets=()), after, waits=())
        message = rf"\({re.escape(after)}\): expected to start after step \d+ .*shares bytes of {space}; no flag or barrier"
        refused(dataclasses.replace(GOOD, body=steps), message)


def test_dependent_steps_of_one_pipe_without_a_barrier_are_refused():
    refused(body("scale S", barrier=False), r"\(scale S\): expected to start after step 0 \(S \+ Q K\^T\), .* bytes of UB")


def test_steps_in_one_anothers_gaps_need_no_order():
    dups = [
        Step("dup32", Operand("out", 32 * i), size=4, p=(2, 0, 0, 16, 0, 0, 0, 0), label=f"comb {i}", barrier=i == 0)
        for i in range(2)
    ]
    steps = (*GOOD.body[:2], *dups, *edit(GOOD.body, "round O", size=16)[2:])
    combs = placed_anew(body=steps)
    assert verify(toy_plan(toy_programs(combs)))
    meeting = placed_anew(body=(*GOOD.body[:2], dups[0], dataclasses.replace(dups[1], dst=Operand("out")), *steps[4:]))
    refused(meeting, r"\(comb 1\): expected to start after step 2 \(comb 0\)")


def test_what_lies_in_the_gaps_of_a_strided_write_is_nobodys():
    comb = Step("dup32", Operand("out"), size=4, p=(2, 0, 0, 16, 0, 0, 0, 0), label="comb", barrier=True)
    body = edit((GOOD.body[0], comb, *GOOD.body[2:]), "round O", size=16)
    refused(placed_anew(body=body), r"\(round O\): expected bytes of out of chunk 0 in UB, got bytes that nobody has written")


def bare(steps):
    """The steps without what orders them."""
    return [dataclasses.replace(step, waits=(), sets=(), barrier=False) for step in steps]


ONE_X = buffer("x", versions=1)
LIVES = {
    "two live buffers in one place": (buffer("out", address=address("state")), r"expected bytes of state.*, got bytes of out of"),
    "a result over the one in use": (
        dataclasses.replace(ONE_X, body=chained(bare((*GOOD.body[4:8], *GOOD.body[:4], *GOOD.body[8:])))),
        r"\(S \+ Q K\^T\): expected bytes of x of chunk 0 in UB, got bytes of x of chunk 1",
    ),
    "a state that is not kept": (
        buffer("state", kept=False), r"expected bytes of state of finish in UB, got bytes of state of chunk 0",
    ),
    "a read of nothing": (
        dataclasses.replace(GOOD, body=chained(bare(step for step in GOOD.body if step.label != "load K"))),
        r"\(K\^T\): expected bytes of k of chunk 0 in L1, got bytes that nobody has written",
    ),
    "a state of the first item only": (
        dataclasses.replace(GOOD, setup=edit(GOOD.setup, "state in", first=True)),
        r"expected bytes of state of .*, got bytes that nobody has written",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LIVES)
def test_a_read_of_what_is_not_there_is_refused(name):
    refused(*LIVES[name])


def test_what_only_a_first_item_sets_up_lasts_unless_something_writes_over_it():
    halved = dataclasses.replace(STATES[1], opcode="mul32", src1=Operand("half"), p=(1, 1, 0, 8, 8, 0, 0, 0))
    steps = edit(GOOD.body, "scale S", opcode="mul32", src1=halved.src1, p=halved.p)
    assert verify(toy_plan(toy_programs(dataclasses.replace(GOOD, body=steps))))
    over = buffer("out16", address=address("half"))
    refused(dataclasses.replace(over, body=steps), r"\(scale S\): expected bytes of half of chunk 0")


def launches(*cores):
    return dataclasses.replace(toy_programs(), launches=(Launch(tuple(tuple(core) for core in cores)),))


ALL_ITEMS = [Item(0, sequence, head, 0) for sequence in range(2) for head in range(3)]
ITEMS = {
    "one missing": (launches(ALL_ITEMS[1:]), r"output of sequence 0, head 0, columns from 0 to be written once.*got \[\]"),
    "one twice": (launches(ALL_ITEMS, ALL_ITEMS[:1]), r"expected output of sequence 0, head 0, .*got \[\(0, \d+\), \(0, \d+\)\]"),
    "no launches": (dataclasses.replace(toy_programs(), launches=()), r"launches: expected at least one, got none"),
    "too many cores": (launches(ALL_ITEMS, *[[]] * 10), r"launches\[0\]\.cores: expected 1 to 10, got 11"),
    "another program": (launches([Item(1, 0, 0, 0)]), r"cores\[0\]\[0\]\.program: expected a number below 1, got 1"),
    "another sequence": (launches([Item(0, 2, 0, 0)]), r"cores\[0\]\[0\]\.sequence: expected a number below 2, got 2"),
    "another head": (launches([Item(0, 0, 3, 0)]), r"cores\[0\]\[0\]\.head: expected 1 heads within 3, got 3"),
    "another column": (launches([Item(0, 0, 0, 16)]), r"cores\[0\]\[0\]\.column: expected .* 32 columns within 32, got 16"),
    "a chunk below 0": (launches([Item(0, 0, 0, 0, -1)]), r"first_chunk: expected >= 0, got -1"),
    "a chunk past the last": (launches([Item(0, 0, 0, 0, 2**70)]), rf"first_chunk: expected below {2**31}, got {2**70}"),
    "chunks past the last": (launches([Item(0, 0, 0, 0, 1, 2**31)]), rf"chunks: expected an end below {2**31}, got {2**31}"),
    "no chunks": (launches([Item(0, 0, 0, 0, 0, 0)]), r"chunks: expected -1 or >= 1, got 0"),
    "the first chunks only": (launches([*ALL_ITEMS[:5], Item(0, 1, 2, 0, 0, 4)]), r"output of sequence 1.*got \[\(0, 4\)\]"),
    "a state from two ranges of chunks": (
        launches([*ALL_ITEMS[:5], Item(0, 1, 2, 0, 0, 4)], [Item(0, 1, 2, 0, 4)]), r"expected state_out of sequence 1, head 2",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ITEMS)
def test_items_that_do_not_cover_the_work_once_are_refused(name):
    programs, message = ITEMS[name]
    with pytest.raises(ValueError, match=message):
        verify(toy_plan(programs))


def test_ranges_of_chunks_may_share_an_output():
    silent = dataclasses.replace(GOOD, finish=())
    last = dataclasses.replace(toy_programs(), programs=(GOOD, silent))
    items = [*ALL_ITEMS[:5], Item(1, 1, 2, 0, 0, 4), Item(0, 1, 2, 0, 4)]
    assert verify(toy_plan(dataclasses.replace(last, launches=(Launch((tuple(items),)),))))
    holes = [*items[:-1], Item(0, 1, 2, 0, 5)]
    with pytest.raises(ValueError, match=r"expected output of sequence 1, head 2"):
        verify(toy_plan(dataclasses.replace(last, launches=(Launch((tuple(holes),)),))))


def test_an_item_writes_all_of_its_part_once():
    whole = next(step for step in GOOD.body if step.label == "O")
    refused(body("O", count=1), r"expected head 0, columns from 16, rows from 0 of output to be written once, got 0 times")
    twice = (*GOOD.body[:4], dataclasses.replace(whole, barrier=True, waits=(), sets=(), label="again"), *GOOD.body[4:])
    moved = edit(edit(twice, "O", sets=()), "again", sets=whole.sets)
    refused(placed_anew(body=moved), r"expected head 0, columns from 0, rows from 0 of output to be written once, got 2 times")
    refused(body("O", last=True), r"body \(O\): expected output to be written elsewhere")
    state = dataclasses.replace(GOOD.finish[0], p=(*GOOD.finish[0].p[:5], 0, 1, 4))
    refused(dataclasses.replace(GOOD, finish=(state,)), r"rows from 16 of state_out to be written once, got 0 times")
    early = dataclasses.replace(GOOD.finish[0], barrier=True, label="early")
    refused(
        dataclasses.replace(GOOD, setup=chained((*SETUP, early))), r"setup \(early\): expected state_out to be written elsewhere"
    )


SHAPES = {
    "batch": (None, 0), "tokens": (0,), "sequences": (0,), "key_heads": (0,), "value_heads": (0,), "key_dim": (0, 24, 272),
    "value_dim": (0, 24, 272), "input_dtype": ("float32", "bfloat16"), "output_dtype": ("bfloat16",),
}  # fmt: skip


@pytest.mark.parametrize("field", SHAPES)
def test_a_shape_that_no_chip_takes_is_refused(field):
    for value in SHAPES[field]:
        with pytest.raises(ValueError, match=rf"plan\.shape\.{field}: expected .*, got"):
            verify(toy_plan(toy_programs(), dataclasses.replace(SHAPE, **{field: value})))


def test_every_field_of_a_shape_has_broken_values():
    assert set(SHAPES) == {field.name for field in dataclasses.fields(SHAPE)}


def test_an_unused_buffer_harms_nobody():
    more = placed(dataclasses.replace(GOOD, buffers=(*GOOD.buffers, Buffer("spare", "L1", CHUNK * 32))))
    assert verify(toy_plan(toy_programs(more)))
