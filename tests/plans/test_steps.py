"""Every opcode: its numpy meaning against plain loops, and its footprint against what the meaning really touches."""

import numpy as np
import pytest
from step_blocks import touches
from step_cases import CASES, CHUNK, FLOATS, KEY_DIM, PROGRAM, SCALE, SIZES, SPOT, contents, expected, global_memory

from hajax import abi
from hajax.plans.footprint import UNIT, Dims, footprint, operand_spaces, pipe
from hajax.plans.interpret import run_step
from hajax.plans.interpret_memory import memory_of
from hajax.plans.program import Step

NAMES = [f"{number}-{step.opcode}" for number, step in enumerate(CASES)]
DIMS = Dims(CHUNK, KEY_DIM)


def interpret(step, filled, gm):
    memory = memory_of(PROGRAM)
    for name, data in filled.items():
        memory.arrays[f"{name} even"][:] = data
    run_step(step, PROGRAM, memory, gm, SPOT, SCALE)
    return {name: memory.arrays[f"{name} even"] for name in filled}


def test_every_opcode_has_a_case():
    assert {step.opcode for step in CASES} == set(abi.names("opcodes"))


@pytest.mark.parametrize("step", CASES, ids=NAMES)
def test_a_step_means_what_plain_loops_say(step):
    filled, gm = contents(), global_memory()
    wanted, written = expected(step, filled, gm)
    got = interpret(step, filled, gm)
    for name in SIZES:
        if name in FLOATS:
            np.testing.assert_array_equal(got[name].view(np.float32), wanted[name].view(np.float32))
        else:
            np.testing.assert_array_equal(got[name].view(np.float16), wanted[name].view(np.float16))
    for name, array in written.items():
        np.testing.assert_array_equal(gm.tensors[name], array)


@pytest.mark.parametrize("step", CASES, ids=NAMES)
def test_what_a_step_writes_lies_in_its_footprint(step):
    filled, gm = contents(), global_memory()
    after = interpret(step, filled, gm)
    allowed = {name: np.zeros(size, bool) for name, size in SIZES.items()}
    exact = {name: np.zeros(size, bool) for name, size in SIZES.items()}
    for access, touch in zip(footprint(step, DIMS), touches(step, PROGRAM, DIMS), strict=True):
        assert (access.buffer, access.write) == (touch.buffer, touch.write)
        numbers = touch.numbers()
        assert access.start // UNIT <= numbers.min() and numbers.max() < -(-access.end // UNIT)
        if access.write:
            allowed[access.buffer][access.start : access.end] = True
            for number in numbers:
                exact[access.buffer][number * UNIT : (number + 1) * UNIT] = True
    for name in SIZES:
        changed = after[name] != filled[name]
        assert not (changed & ~allowed[name]).any()
        assert not (changed & ~exact[name]).any()
        if exact[name].any():
            assert changed.any()


@pytest.mark.parametrize("step", CASES, ids=NAMES)
def test_what_a_step_reads_lies_in_its_footprint(step):
    filled, other = contents(), contents(seed=5)
    found = touches(step, PROGRAM, DIMS)
    for touch in found:
        for number in touch.numbers():  # written blocks too: lanes that are off keep what was there
            part = slice(number * UNIT, (number + 1) * UNIT)
            other[touch.buffer][part] = filled[touch.buffer][part]
    memories = global_memory(), global_memory()
    got, also = interpret(step, filled, memories[0]), interpret(step, other, memories[1])
    for touch in found:
        for number in touch.numbers() if touch.write else ():
            part = slice(number * UNIT, (number + 1) * UNIT)
            np.testing.assert_array_equal(got[touch.buffer][part], also[touch.buffer][part])
    for name, array in memories[0].tensors.items():
        np.testing.assert_array_equal(array, memories[1].tensors[name])


@pytest.mark.parametrize("step", CASES, ids=NAMES)
def test_operands_are_where_the_opcode_has_them(step):
    spaces = {buffer.name: buffer.space for buffer in PROGRAM.buffers}
    operands = (step.dst, step.src0, step.src1)
    assert tuple(spaces[one.buffer] if one else "" for one in operands) == operand_spaces(step.opcode)
    assert pipe(step) in abi.names("pipes")


def test_an_unknown_opcode_is_refused():
    with pytest.raises(ValueError, match=r"step\.opcode: expected one of .*, got 'jump'"):
        footprint(Step("jump"), DIMS)
