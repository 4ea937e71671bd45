"""A corrupt plan is refused, with the field, what was expected and what it holds; what is not refused stays within bounds.

The plan here has a step of every kind, so that a changed byte meets every check.
"""

import dataclasses
import functools
import re

import numpy as np
import pytest
import steps
from steps import FREE, L0A, L0B, L0C, L1, UB, alternating, flag, plan, program, step, sync, vector

from hajax import abi
from hajax.backends import npu
from hajax.plans import from_bytes, summed
from hajax.targets.npu import load

TENSOR = abi.table("tensors")
SHAPE = {"key_heads": 1, "value_heads": 2, "key_dim": 32, "value_dim": 32}
TOKENS = 37
# What the kernel does with a plan that was let through must never end in one of these.
NEVER = {
    "out_of_bounds",
    "misaligned",
    "limit",
    "deadlock",
    "flag_unpaired",
    "flag_doubled",
    "flag_pipe",
    "launch",
    "unsupported",
}


def rows(tensor, layout=0, state=0, itemsize=0):
    return (TENSOR[tensor], 0, 0, layout, state, 0, 0, itemsize)


@functools.cache
def sound():
    """A plan of three programs and three launches, two of them synced, that runs, and its arrays."""
    ready = {name: flag(name, 1) for name in abi.names("flags")}
    place = alternating(FREE)
    setup = [
        step("constant_to_ub", dst=FREE, src0=0, size=64),
        step("constant_to_ub", dst=alternating(FREE), src0=0, size=64, last=True),
        step("constant_to_l1", dst=0, src0=0, size=128),
    ]
    body = [
        step("rows_to_l1", dst=8192, count=2, p=rows("key")),
        step("rows_to_ub", dst=place, count=2, p=rows("value", layout=1)),
        step("gate_to_ub", dst=FREE + 2048, p=(TENSOR["beta"], 0)),
        sync(sets=[ready["MTE2_MTE1"], ready["MTE2_V"]]),
        step("load_a", 0, 8192, size=2, p=(1,), wait=[ready["MTE2_MTE1"]], stage=1),
        step("load_b", 0, 8192, count=2, size=1, p=(1, 1, 0, 1), set=[ready["MTE1_M"]], stage=1),
        step("l1_to_ub", dst=FREE + 3072, src0=8192, count=2, size=4, p=(1,), set=[ready["MTE1_V"]], stage=1),
        step("mmad", 0, 0, 0, p=(1, 2, 1, 0, 0, 0, 1), wait=[ready["MTE1_M"]], set=[ready["M_V"]], stage=1),
        step("c_to_ub32", FREE + 4096, 0, size=2, wait=[ready["M_V"], ready["MTE1_V"]], stage=1),
        step("c_to_ub16", FREE + 6144, 0, size=2, stage=1),
        vector("adds32", FREE + 4096, FREE + 4096, repeats=2, scalar=1, mask=1, stage=1, barrier=True, wait=[ready["MTE2_V"]]),
        vector("mul16", FREE + 6144, FREE + 6144, FREE + 3072, stage=1, barrier=True),
        step("ub_to_c32", 2048, FREE + 4096, size=1, stage=1, barrier=True, set=[ready["V_MTE3"]]),
        step("ub_to_l1", dst=4096, src0=FREE + 6144, size=4, wait=[ready["V_MTE3"]], stage=1),
        step("workspace_from_ub", dst=0, src0=FREE + 6144, size=4, p=(0, 0), stage=1),
        step("rows_from_ub", src0=FREE + 6144, count=2, p=rows("output", itemsize=2), stage=1),
    ]
    finish = [
        step("rows_to_ub", dst=FREE, count=2, p=rows("state_in", state=1), set=[ready["MTE2_MTE3"]]),
        step("rows_from_ub", src0=FREE, count=2, p=rows("state_out", layout=1, state=1, itemsize=4), wait=[ready["MTE2_MTE3"]]),
    ]
    fields = {"columns": 32, "slots": {UB: 8192, L1: 16384, L0A: 512, L0B: 512, L0C: 1024}}
    first = program(setup, body, finish, stages=2, masks=((0xFF, 0),), scalars=(0.5,), **fields)
    # What a workspace gives back: another launch.
    load = [
        step("workspace_to_ub", dst=FREE, src0=0, size=2, p=(0, 0)),
        step("workspace_to_l1", dst=0, src0=2 * 32, size=2, p=(0, 0)),
    ]
    # The chunk before, and what lies further on for further columns.
    later = [step("workspace_to_ub", dst=FREE, src0=32, size=2, p=(0, 0, 1, 0, 1, 0))]
    items = [(0, 0, 0, 0, 0, -1), (0, 0, 1, 0, 0, -1), (1, 0, 0, 0, 0, -1), (1, 0, 1, 0, 0, 3), (2, 0, 1, 16, 1, -1)]
    made = plan([first, program((), load, columns=16), program((), later, columns=16)], chunk=16, **SHAPE, items=items,
                slot_bytes=128, launches=[(0, (1, 1)), (2, (1, 1), 1), (4, (0, 1))])  # fmt: skip
    return made, steps.call(TOKENS, **SHAPE)


OPTIONS = npu.SimOptions(threads=1, timeline=False)
SMALL = dataclasses.replace(load("ascend310p1"), gm_bytes=1 << 24)  # memory takes time to make


def outcome(data):
    """`ran`, or why not: the error's class and text."""
    try:
        npu.execute(bytes(data), sound()[1], scale=1.0, target=SMALL, options=OPTIONS)
    except npu.SimFault as fault:
        return f"fault {fault.check}", fault.text
    except (npu.LibraryError, ValueError) as error:
        return "refused", str(error)
    return "ran", ""


def header():
    return steps.ffi().from_buffer("hj_npu_plan *", sound()[0])


def offsets():
    """Byte ranges of the plan's parts but its constants, by name."""
    plan_bytes, ffi = sound()[0], steps.ffi()
    top = header()
    found = {"plan": (0, ffi.sizeof("hj_npu_plan"))}
    for name, at, count, struct in (
        ("launches", top.launch_offset, top.launches, "hj_npu_launch"),
        ("items", top.item_offset, top.items, "hj_npu_item"),
        ("programs", top.program_offset, top.programs, "hj_npu_program"),
    ):
        found[name] = (at, at + count * ffi.sizeof(struct))
    programs = ffi.from_buffer("hj_npu_program[]", memoryview(plan_bytes)[slice(*found["programs"])])
    for number, one in enumerate(programs):
        size = (one.setup + one.body + one.finish) * ffi.sizeof("hj_step")
        found[f"steps of {number}"] = (one.step_offset, one.step_offset + size)
    return found


def test_the_sound_plan_runs_and_has_a_step_of_every_kind():
    assert outcome(sound()[0]) == ("ran", "")
    used = set()
    for name, (start, end) in offsets().items():
        if name.startswith("steps"):
            used |= {sound()[0][at] for at in range(start, end, steps.ffi().sizeof("hj_step"))}
    kinds = {row[0] for row in abi.rows("opcodes") if row[0] < 32}
    assert kinds <= used and len(used) > len(kinds)


@pytest.mark.parametrize("part", ["plan", "launches", "items", "programs", "steps of 0", "steps of 1", "steps of 2"])
def test_a_changed_byte_is_refused_or_stays_within_bounds(part):
    start, end = offsets()[part]
    random = np.random.default_rng(len(part))
    counts = {}
    for at in range(start, end):
        old = sound()[0][at]
        for new in (old ^ 1 << int(random.integers(8)), (old + int(random.integers(1, 256))) % 256):
            changed = bytearray(sound()[0])
            changed[at] = new
            what, text = outcome(summed(changed))  # as if it were meant
            counts[what] = counts.get(what, 0) + 1
            assert what.removeprefix("fault ") not in NEVER, f"byte {at - start} of {part}: {old} -> {new}: {text}"
            if what == "refused" and "out of device memory" not in text:  # a workspace may be too large
                assert "expected" in text and "got" in text, text
    # Masks, scalars and what people read are free to be anything.
    assert counts["refused"] > (0.05 if part == "programs" else 0.3) * sum(counts.values()), counts


def test_any_changed_bit_is_refused():
    random = np.random.default_rng(0)
    plan_bytes = sound()[0]
    for at in (*range(0, 1024), *random.integers(1024, len(plan_bytes), 1024)):
        changed = bytearray(plan_bytes)
        changed[at] ^= 1 << int(random.integers(8))
        assert outcome(changed)[0] == "refused", f"byte {at}"
        with pytest.raises(ValueError, match=r"plan|bytes"):
            from_bytes(bytes(changed))


def test_the_checksum_is_named():
    changed = bytearray(sound()[0])
    changed[offsets()["programs"][0] + steps.ffi().offsetof("hj_npu_program", "scalars")] ^= 1  # any number is one
    what, text = outcome(changed)
    assert what == "refused" and re.search(r"plan: checksum: expected \d+ \(of its bytes\), got \d+", text)


@pytest.mark.parametrize("size", [0, 8, 159, 160, 1000])
def test_a_plan_that_is_cut_short_is_refused(size):
    what, text = outcome(sound()[0][:size])
    assert what == "refused" and ("size" in text or "total_bytes" in text or "expected the bytes" in text)


def changed_header(**fields):
    data = bytearray(sound()[0])
    top = steps.ffi().from_buffer("hj_npu_plan *", data)
    for name, value in fields.items():
        setattr(top.header if hasattr(top.header, name) else top, name, value)
    return summed(data)


@pytest.mark.parametrize(("fields", "message"), [
    ({"magic": 7}, r"bad_plan: plan: magic: expected 1313624138, got 7"),
    ({"total_bytes": 96}, r"bad_plan: plan: total_bytes: expected \d+, got 96"),
    ({"backend": 1}, r"bad_plan: plan: backend: expected 2 \(npu\), got 1"),
    ({"delta": 2}, r"plan: delta: expected 0\.\.1, got 2"),
    ({"npu_arch": 3002}, r"unsupported: plan: npu_arch: expected 2002 for plan and chip, got 3002 and 2002"),
    ({"chunk": 24}, r"plan: chunk: expected a multiple of 16 in 16\.\.128, got 24"),
    ({"input_dtype": 0}, r"plan: input_dtype: expected 2 \(float16\), got 0"),
    ({"sequences": 2}, r"bad_call: call: batch times sequences: expected 2 as the plan says, got 1"),
    ({"launches": 0}, r"plan: launches: expected 1\.\.2147483647, got 0"),
    ({"item_offset": 100}, r"plan: item_offset: expected a multiple of 32, got 100"),
    ({"program_offset": 1 << 30}, r"plan: program_offset: expected room for 3 times 480 bytes within"),
    ({"constant_bytes": 32}, r"plan: constant_bytes: expected at least 8192, got 32"),
    ({"workspace_slot_bytes": -32}, r"plan: workspace_slot_bytes: expected 0 or a multiple of 32, got -32"),
])  # fmt: skip
def test_a_field_of_the_header_is_named(fields, message):
    what, text = outcome(changed_header(**fields))
    assert what == "refused"
    assert re.search(message, text), text


def one_step(made, **fields):
    """The outcome of a plan whose body is this step."""
    return outcome(plan([program((), [made], columns=32, **fields)], **SHAPE))


def with_control(made, control):
    data = bytearray(made)
    data[1] = control
    return bytes(data)


@pytest.mark.parametrize(("made", "message"), [
    (b"\xc8" + bytes(23), r"programs\[0\]\.steps\[0\]\.opcode: expected a number of opcodes\.def, got 200"),
    (with_control(sync(), 0x80), r"\(sync\)\.control: expected no bits but those of plan\.h, got 128"),
    (sync(stage=1), r"steps\[0\]\.control: expected a stage below the program's 1, got 1"),
    (vector("add32", 0, FREE, FREE), r"\(add32\)\.dst: expected an address of at least 512, got 0"),
    (vector("add32", 512, FREE, FREE), r"\(add32\)\.dst: expected bytes apart from the steps' 512\.\.535, got 512"),
    (vector("add32", (248 << 10) - 224, FREE, FREE), r"\.dst: expected an end of at most 253952 bytes, got 253984"),
    (vector("add32", alternating(FREE), FREE, FREE), r"\.dst: expected slot_bytes of the memory in 32\.\.253952"),
    (vector("add32", FREE, FREE, FREE, repeats=0), r"\.size: expected 1\.\.255, got 0"),
    (vector("add32", FREE, FREE, FREE, mask=3), r"\.index \(mask\): expected a mask of 64 lanes, one of them on, got 3"),
    (vector("muls32", FREE, FREE, scalar=40), r"\.p\[6\] \(scalar\): expected 0\.\.31, got 40"),
    (step("load_a", 32, 0, size=1), r"\(load_a\)\.dst: expected an address that is a multiple of 512, got 32"),
    (step("mmad", 0, 0, 0, p=(200, 200, 1, 0, 0, 0, 1)), r"\(mmad\)\.src0: expected an end of at most 65536"),
    (step("c_to_ub32", FREE, 64, size=1), r"\.src0: expected an address that is a multiple of 1024, got 64"),
    (step("gate_to_ub", FREE, p=(TENSOR["query"], 0)), r"\.p\[0\] \(tensor\): expected a head-major one of tensors\.def, got 0"),
    (step("gate_to_ub", FREE, p=(TENSOR["beta"], 1)), r"\.p\[1\] \(head\): expected 0\.\.0, got 1"),
    (step("rows_to_l1", 0, count=3, p=rows("key")), r"\(rows_to_l1\)\.count: expected 1\.\.2, got 3"),
    (step("rows_from_ub", src0=FREE, count=1, p=rows("output", itemsize=4)), r"\.p\[7\] .*: expected 2, got 4"),
    (step("constant_to_ub", FREE, 32 * 256, size=1), r"\.src0 \+ size: expected 1\.\.256, got 257"),
    (step("workspace_to_ub", FREE, 0, size=1, p=(0, 0)), r"\.offset \+ size: expected 1\.\.0, got 1"),
    (sync(sets=[flag("MTE2_V", 0)]), r"programs\[0\]\.body: expected as many sets as waits in an iteration, got MTE2_V 0"),
    (sync(waits=[flag("MTE2_V", 0)]), r"\(sync\)\.wait\[0\]: expected a flag that has been set, got MTE2_V 0"),
    (sync(sets=[flag("MTE2_V", 0)] * 2), r"\(sync\)\.set\[1\]: expected a flag that has been waited for, got MTE2_V 0"),
    (sync(sets=[12 * 8]), r"\(sync\)\.set\[0\]: expected 0, or a pair of flags\.def times 8 and an event, got 96"),
    (vector("dup32", FREE, set=[flag("MTE2_V", 0)]), r"\(dup32\)\.set\[0\]: expected a flag from the step's pipe, got MTE2_V 0"),
])  # fmt: skip
def test_a_field_of_a_step_is_named(made, message):
    what, text = one_step(made)
    assert what == "refused"
    assert re.search(message, text), text


@pytest.mark.parametrize(("item", "message"), [
    ((1, 0, 0, 0, 0, -1), r"items\[0\]\.program: expected 0\.\.0, got 1"),
    ((0, 1, 0, 0, 0, -1), r"items\[0\]\.sequence: expected 0\.\.0, got 1"),
    ((0, 0, 2, 0, 0, -1), r"items\[0\]\.head: expected 0\.\.1, got 2"),
    ((0, 0, 0, 8, 0, -1), r"items\[0\]\.column: expected a multiple of 16, got 8"),
    ((0, 0, 0, 32, 0, -1), r"items\[0\]\.column: expected 0\.\.16, got 32"),
    ((0, 0, 0, 0, -1, -1), r"items\[0\]\.first_chunk: expected 0\.\.2147483647, got -1"),
    ((0, 0, 0, 0, 0, 0), r"items\[0\]\.chunks: expected -1, or 1 or more, got 0"),
])  # fmt: skip
def test_a_field_of_an_item_is_named(item, message):
    what, text = outcome(plan([program((), [sync()], columns=16)], **SHAPE, items=[item]))
    assert what == "refused"
    assert re.search(message, text), text


@pytest.mark.parametrize(("launch", "message"), [
    ((0, ()), r"launches\[0\]\.cores: expected 1\.\.10, got 0"),
    ((0, (1,) * 11), r"launches\[0\]\.cores: expected 1\.\.10, got 11"),
    ((0, (1, 1)), r"launches\[0\]\.core_items\[1\]: expected 0\.\.0, got 1"),
    ((1, (0,)), r"launches\[0\]\.first_item: expected 0\.\.0, got 1"),
    ((0, (1,), 1), r"launches\[0\]\.sync_after: expected 0, as no launch follows, got 1"),
])  # fmt: skip
def test_a_field_of_a_launch_is_named(launch, message):
    what, text = outcome(plan([program((), [sync()], columns=16)], **SHAPE, items=[(0, 0, 0, 0, 0, -1)], launches=[launch]))
    assert what == "refused"
    assert re.search(message, text), text
