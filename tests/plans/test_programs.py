"""Ascend plans as data: what a small one computes, its bytes, its JSON, equal in every process, and what explain says of it."""

import base64
import dataclasses
import hashlib
import json
import subprocess
import sys
import zlib

import numpy as np
import pytest
from problem import environment
from toy_plan import CHUNK, CONSTANTS, SHAPE, toy_inputs, toy_plan, toy_program, toy_programs, toy_reference

import hajax
from hajax import abi
from hajax.plans import from_bytes, from_json, opened, packed, summed, to_bytes, to_json, verify, wire
from hajax.plans.interpret import elements, run
from hajax.plans.model import Packed
from hajax.plans.program import Flag, Item, Launch, Operand, Step

SCALE = 0.375
HALF_ULP = 2**-11


def assert_right(programs, inputs, shape=SHAPE):
    output, state_out = run(programs, inputs, SCALE)
    wanted, state = toy_reference(inputs, SCALE, shape)
    chunks = shape.tokens // CHUNK + 1
    np.testing.assert_allclose(state_out, state, rtol=0, atol=(chunks + CHUNK) * 2**-24 * 2 * np.abs(state).max())
    np.testing.assert_allclose(output, wanted, rtol=0, atol=2 * HALF_ULP * np.abs(wanted).max())
    assert np.abs(wanted).max() > 1
    return output, state_out


def same(one, other):
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_program_computes_the_same_with_addresses_and_before():
    inputs = toy_inputs()
    same(assert_right(toy_programs(), inputs), assert_right(toy_programs(toy_program(place=False)), inputs))


@pytest.mark.parametrize("tokens", [1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 4 * CHUNK])
def test_sequences_of_any_length(tokens):
    shape = dataclasses.replace(SHAPE, tokens=tokens)
    inputs = toy_inputs(shape)
    output, state_out = run(toy_programs(shape=shape), inputs, SCALE)
    wanted, state = toy_reference(inputs, SCALE, shape)
    np.testing.assert_allclose(state_out, state, rtol=0, atol=1e-4)
    np.testing.assert_allclose(output, wanted, rtol=0, atol=2 * HALF_ULP * np.abs(wanted).max())


def test_packed_sequences_and_an_empty_one():
    shape = dataclasses.replace(SHAPE, sequences=3)
    inputs = toy_inputs(shape, bounds=np.array([[0, 5, 5, 68], [1, 33, 65, 70]], np.int32))
    programs = toy_programs(shape=shape)
    items = tuple(Item(0, sequence, head, 0) for sequence in range(6) for head in range(3))
    programs = dataclasses.replace(programs, launches=(Launch((items[:7], items[7:])),))
    output, state_out = run(programs, inputs, SCALE)
    wanted, state = toy_reference(inputs, SCALE, shape)
    np.testing.assert_allclose(state_out, state, rtol=0, atol=1e-4)
    np.testing.assert_allclose(output, wanted, rtol=0, atol=2 * HALF_ULP * np.abs(wanted).max())
    np.testing.assert_array_equal(state_out[0, 1], inputs.state_in[0, 1])
    assert not output[0, 68:].any() and not output[1, :1].any()


def test_what_nothing_has_written_shows():
    program = toy_program()
    body = tuple(step for step in program.body if step.label != "load K")
    output, _ = run(toy_programs(dataclasses.replace(program, body=body)), toy_inputs(), SCALE)
    assert np.isnan(output).all()


def test_constants_stay_from_item_to_item_and_nothing_else_does():
    program = toy_program()
    halved = dataclasses.replace(program.body[1], opcode="mul32", src1=Operand("half"), p=(1, 1, 0, 8, 8, 0, 0, 0))
    good = dataclasses.replace(program, body=(program.body[0], halved, *program.body[2:]))
    assert good.setup[0].first
    output, _ = run(toy_programs(good, cores=1), toy_inputs(), SCALE)
    wanted, _ = toy_reference(toy_inputs(), 0.5)
    np.testing.assert_allclose(output, wanted, rtol=0, atol=2 * HALF_ULP * np.abs(wanted).max())
    forgets = dataclasses.replace(good, setup=(good.setup[0], dataclasses.replace(good.setup[1], first=True)))
    _, state_out = run(toy_programs(forgets, cores=1), toy_inputs(), SCALE)
    assert not np.isnan(state_out[0, 0, 0]).any()
    np.testing.assert_raises(
        AssertionError, np.testing.assert_allclose, state_out, toy_reference(toy_inputs(), SCALE)[1], atol=1e-4
    )


def test_observers_see_every_step_with_its_memories():
    seen = []

    def observe(step, spot, memory, odd):
        if step.label == "S + Q K^T":
            seen.append((spot.sequence.state, spot.head, spot.chunk, odd, elements(memory, "state", np.float32, (4,))))

    _, state_out = run(toy_programs(cores=1), toy_inputs(), SCALE, observe)
    assert [(s, h, c, o) for s, h, c, o, _ in seen] == [(s, h, c, c == 1) for s in (0, 1) for h in (0, 1, 2) for c in (0, 1, 2)]
    np.testing.assert_array_equal(seen[-1][4], state_out[1, 0, 2, 0, :4])


def test_a_step_beyond_its_buffer_is_refused():
    program = toy_program()
    long = dataclasses.replace(program.body[1], size=17)
    with pytest.raises(ValueError, match=r"step 'scale S' \(muls32\): expected bytes within buffer state of 4096, got 0 .. 4351"):
        run(toy_programs(dataclasses.replace(program, body=(long,))), toy_inputs(), SCALE)


def test_bytes_give_back_the_programs():
    plan = toy_plan()
    data = to_bytes(plan)
    read = from_bytes(data)
    assert to_bytes(dataclasses.replace(plan, launch=read)) == data
    assert read.launches == plan.launch.launches
    assert (read.constants, read.chunk, read.npu_arch) == (CONSTANTS, CHUNK, 2002)
    mine, its = plan.launch.programs[0], read.programs[0]
    for section in ("setup", "body", "finish"):
        for one, other in zip(getattr(mine, section), getattr(its, section), strict=True):
            for field in dataclasses.fields(Step):
                if field.name not in ("dst", "src0", "src1", "label"):
                    assert getattr(one, field.name) == getattr(other, field.name), field.name
    same(run(read, toy_inputs(), SCALE), run(plan.launch, toy_inputs(), SCALE))


def test_bytes_are_those_that_the_header_describes():
    ffi = wire._ffi()
    plan = toy_plan()
    data = to_bytes(plan)
    head = ffi.from_buffer("hj_npu_plan *", data)
    assert head.header.total_bytes == len(data)
    assert bytes(head.header.abi_digest).hex() == abi.digest()
    assert head.header.backend == abi.table("backends")["npu"]
    assert ffi.string(head.target) == b"ascend310p1"
    offsets = (head.launch_offset, head.item_offset, head.program_offset, head.constant_offset)
    assert all(offset % 32 == 0 for offset in offsets) and sorted(offsets) == list(offsets)
    assert data[head.constant_offset :][: head.constant_bytes] == CONSTANTS
    launch = ffi.from_buffer("hj_npu_launch *", memoryview(data)[head.launch_offset :])
    assert (launch.cores, list(launch.core_items)[:3]) == (2, [3, 3, 0])
    program = ffi.from_buffer("hj_npu_program *", memoryview(data)[head.program_offset :])
    steps = ffi.from_buffer(f"hj_step[{program.setup + program.body + program.finish}]", memoryview(data)[
        program.step_offset : program.step_offset + 24 * (program.setup + program.body + program.finish)])  # fmt: skip
    loads = [step for step in steps if step.opcode == abi.table("opcodes")["rows_to_l1"]]
    assert len(loads) == 2 and all(step.dst & abi.constant("HJ_ALTERNATES") for step in loads)
    assert program.peak_bytes[abi.table("spaces")["UB"]] == program.step_address + 24 * len(steps)
    assert program.slot_bytes[abi.table("spaces")["L1"]] == 4096


def test_every_kind_of_flag_and_mark_survives_in_bytes():
    flags = tuple(Flag(*name.split("_"), event) for event, name in enumerate(abi.names("flags")[:4]))
    step = Step(
        "sync", waits=flags[:2], sets=flags[2:], p=(9, 17, 0, 0, 25, 0, 0, 0), stage=1, first=True, last=True, barrier=True
    )
    program = toy_program()
    plan = toy_plan(toy_programs(dataclasses.replace(program, body=(*program.body, step))))
    assert from_bytes(to_bytes(plan)).programs[0].body[-1] == step


@pytest.mark.parametrize(("change", "message"), [
    (lambda data: data[:40], "this abi's magic, their length"),
    (lambda data: data[:-1], "this abi's magic, their length"),
    (lambda data: b"X" + data[1:], "this abi's magic"),
    (lambda data: data[:8] + bytes(32) + data[40:], "this abi's digest"),
])  # fmt: skip
def test_bytes_of_something_else_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        from_bytes(change(to_bytes(toy_plan())))


@pytest.mark.parametrize(
    "field", ["launch_offset", "item_offset", "program_offset", "constant_offset", "items", "constant_bytes"]
)
def test_bytes_with_parts_outside_of_them_are_refused(field):
    for value in (1 << 30, -32, 33):
        data = bytearray(to_bytes(toy_plan()))
        head = wire._ffi().from_buffer("hj_npu_plan *", data)
        setattr(head, field, value)
        if field in ("items", "constant_bytes") and value == 33:
            continue  # fewer of them is another plan, not a broken one
        with pytest.raises(ValueError, match=r"plan: expected .* within \d+ bytes, got"):
            from_bytes(bytes(data))


def test_a_changed_byte_is_refused_unless_the_sum_says_it_is_meant():
    data = bytearray(to_bytes(toy_plan()))
    data[-1] ^= 1
    with pytest.raises(ValueError, match=r"plan: checksum: expected \d+ \(of its bytes\), got \d+"):
        from_bytes(bytes(data))
    changed = from_bytes(summed(data))
    assert changed.constants[:-1] == from_bytes(to_bytes(toy_plan())).constants[:-1]


def test_the_encoder_names_every_field(monkeypatch):
    import cffi

    for found in ("int32_t stages; ", "uint16_t size;", "int32_t first_item; ", "int32_t npu_arch;"):
        longer = cffi.FFI()
        longer.cdef(abi.header_text().replace(found, f"int32_t later; {found}"))
        monkeypatch.setattr(wire, "_ffi", lambda ffi=longer: ffi)
        with pytest.raises(AssertionError, match="later"):
            to_bytes(toy_plan())


@pytest.mark.parametrize(("change", "error", "message"), [
    ({"step_address": 2**40}, OverflowError, "int"),
    ({"masks": ((1, 1),) * 17}, ValueError, "at most 16 masks"),
    ({"scalars": (0.0,) * 33}, ValueError, "32 scalars"),
    ({"buffers": toy_program(place=False).buffers}, ValueError, "buffer q: expected an address, got None"),
    ({"body": (dataclasses.replace(toy_program().body[0], src1=Operand("x", 4)),)}, ValueError, "expected a multiple of 32"),
    ({"body": (Step("sync", waits=(Flag("M", "V", 8),)),)}, ValueError, "flag M_V: expected an event from 0 to 7, got 8"),
    ({"body": (Step("sync", sets=(Flag("M", "V", 1),) * 3),)}, ValueError, "step 'sync': expected at most 2 flags here, got 3"),
])  # fmt: skip
def test_what_does_not_fit_into_bytes_is_refused(change, error, message):
    with pytest.raises(error, match=message):
        to_bytes(toy_plan(toy_programs(dataclasses.replace(toy_program(), **change))))


def test_text_keeps_everything():
    for plan in (toy_plan(), toy_plan(toy_programs(toy_program(place=False))), packed(toy_plan())):
        assert from_json(to_json(plan)) == plan
        assert from_json(to_json(plan, indent=1)) == plan
        assert to_json(from_json(to_json(plan))) == to_json(plan)


def parts(data):
    program = data["launch"]["programs"][0]
    return (data["launch"], program)


def test_a_missing_or_unknown_field_is_refused_in_text():
    data = json.loads(to_json(toy_plan()))
    for part in parts(data):
        for name in list(part):
            kept = part.pop(name)
            with pytest.raises(ValueError, match="expected"):
                from_json(json.dumps(data))
            part[name] = kept
        part["colour"] = "red"
        with pytest.raises(ValueError, match="colour"):
            from_json(json.dumps(data))
        del part["colour"]
    assert from_json(json.dumps(data)) == toy_plan()


@pytest.mark.parametrize("at", range(14))
def test_a_step_with_a_wrong_part_is_refused_in_text(at):
    data = json.loads(to_json(toy_plan()))
    step = data["launch"]["programs"][0]["body"][0]
    for wrong in (True, 1.5, ["x"], {"x": 1}):
        good, step[at] = step[at], wrong
        with pytest.raises(ValueError, match=r"launch\.programs\.body.*: expected"):
            from_json(json.dumps(data))
        step[at] = good


@pytest.mark.parametrize(("where", "value"), [
    ("constants", "???"), ("constants", 3), ("chunk", "32"), ("chunk", True), ("launches", {}), ("launches", [[[[0, 0, 0]]]]),
    ("launches", [[[[0, 0, 0, 0, 0, "x"]]]]), ("programs", 3), ("programs", [3]),
])  # fmt: skip
def test_a_field_of_another_type_is_refused_in_text(where, value):
    data = json.loads(to_json(toy_plan()))
    data["launch"][where] = value
    with pytest.raises(ValueError, match=r"launch.*: expected"):
        from_json(json.dumps(data))


def test_packed_plans_are_those_bytes_and_open_again():
    plan = toy_plan()
    small = packed(plan)
    assert isinstance(small.launch, Packed) and small.launch.data == to_bytes(small) == to_bytes(plan)
    assert packed(small) == small and packed(opened(small)) == small
    assert verify(small) is small
    with pytest.raises(ValueError, match="this abi's digest"):
        verify(dataclasses.replace(small, launch=Packed(to_bytes(plan)[:-32])))


SCRIPT = """
import hashlib, sys
sys.path.insert(0, sys.argv[1])
from toy_plan import *
from hajax.plans import to_bytes, to_json
print(hashlib.sha256(to_bytes(toy_plan()) + to_json(toy_plan()).encode()).hexdigest(), "jax" in sys.modules)
"""


@pytest.mark.parametrize("hash_seed", [0, 1234])
def test_another_process_makes_the_same_bytes(hash_seed):
    support = next(p for p in sys.path if p.endswith("support"))
    command = [sys.executable, "-c", SCRIPT, support]
    done = subprocess.run(command, env=environment(PYTHONHASHSEED=hash_seed), capture_output=True, text=True, check=True)
    here = hashlib.sha256(to_bytes(toy_plan()) + to_json(toy_plan()).encode()).hexdigest()
    assert done.stdout.split() == [here, "False"]


def test_explain_says_what_runs_where():
    text = hajax.explain(toy_plan())
    assert text == hajax.explain(packed(toy_plan()))
    for words in (
        "gated_delta_rule T=70 heads 1/3 dims 32x32 float16: toy on ascend310p1, chunk 32, 1 launch, 6 items on 2 cores",
        "launch 0: cores 0-1 run 3 items of program 0", "program 0: 1 head x 32 columns, 2 setup, 11 body and 1 finish steps",
        "L0A 2.0", "L1 8.0",
    ):  # fmt: skip
        assert words in text


@pytest.mark.parametrize("change", [
    lambda data: data[:-1],
    lambda data: data + b"x",
    lambda data: b"x" + data,
    lambda data: b"",
    lambda data: zlib.compress(bytes((1 << 28) + 1)),
], ids=["cut", "more", "other", "nothing", "too much"])  # fmt: skip
def test_packed_programs_that_are_not_one_whole_stream_are_refused(change):
    data = json.loads(to_json(packed(toy_plan())))
    assert from_json(json.dumps(data)) == packed(toy_plan())
    data["launch"]["zlib"] = base64.b64encode(change(base64.b64decode(data["launch"]["zlib"]))).decode()
    with pytest.raises(ValueError, match=r"launch\.zlib: expected"):
        from_json(json.dumps(data))
