"""Masks of blocks are those found block by block in numpy, for every step of random and of lowered programs."""

import dataclasses

import pytest
import step_cases
from step_blocks import touches
from step_programs import ALL_LANES, DIMS, program_of, random_buffers, random_steps

from hajax.lowering import cube_scalar
from hajax.lowering.assembler import Constants
from hajax.lowering.assembler import Dims as ProgramDims
from hajax.plans.block_masks import block_masks
from hajax.plans.footprint import VECTOR, Dims
from hajax.plans.program import Buffer, Operand, Step


def bits(touch):
    return sum(1 << int(number) for number in touch.numbers())


def assert_equal(step, program, dims=DIMS):
    lanes = program.masks[step.index] if step.opcode in VECTOR else (0, 0)
    found, wanted = {}, {}
    for name, blocks, write in block_masks(step, dims, lanes):
        found[name, write] = found.get((name, write), 0) | blocks
    for touch in touches(step, program, dims):
        wanted[touch.buffer, touch.write] = wanted.get((touch.buffer, touch.write), 0) | bits(touch)
    assert found == wanted, step


@pytest.mark.parametrize("heads", [1, 2])
def test_masks_of_every_step_of_a_lowered_program(heads):
    program = cube_scalar.build(ProgramDims(64, 128, 64, heads, False), Constants())
    steps = (*program.setup, *program.body, *program.finish)
    assert len(steps) > 200
    for step in steps:
        assert_equal(step, program)


@pytest.mark.parametrize("step", step_cases.CASES, ids=lambda step: step.opcode)
def test_masks_of_every_opcode(step):
    assert_equal(step, step_cases.PROGRAM, Dims(step_cases.CHUNK, step_cases.KEY_DIM))


@pytest.mark.parametrize("seed", range(5))
def test_masks_of_random_steps(seed):
    buffers = random_buffers(seed)
    steps = random_steps(seed, 60, buffers)
    for step in steps:
        assert_equal(step, program_of(steps, buffers))


@pytest.mark.parametrize(
    "step",
    [
        Step("load_a", dst=Operand("a"), src0=Operand("l"), count=3, size=2, p=(3, 7, 0, 2, 2, 40, 0, 12)),
        Step("load_b", dst=Operand("b"), src0=Operand("l", 512), count=4, size=1, p=(1, 4, 0, 3, 1, 0, 0, 0)),
        Step("mmad", Operand("c"), Operand("a"), Operand("b"), count=3, index=20, p=(1, 1, 2, 1, 1, 1, 2 | 64, 30)),
        Step("mmad", Operand("c"), Operand("a"), Operand("b"), count=3, p=(1, 1, 2, 1, 2, 2, 16 | 1, 0)),
        Step("c_to_ub16", dst=Operand("u"), src0=Operand("c"), count=3, size=2, p=(4, 1, 0, 0, 0, 0, 0, 0)),
        Step("ub_to_l1", dst=Operand("l"), src0=Operand("u"), count=3, size=5, p=(4, 0, 11, 0, 0, 0, 0, 0)),
        Step("mul32", Operand("u"), Operand("u", 4096), Operand("u", 8192), size=3, p=(2, 1, 0, 17, 8, 3, 0, 0)),
        Step("muls16", Operand("u"), Operand("u", 4096), size=4, index=1, p=(1, 0, 0, 16, 1, 0, 1, 0)),
        Step("cadd32", Operand("u", 8), Operand("u", 4096), size=9, p=(1, 1, 0, 1, 8, 0, 0, 0)),
    ],
    ids=lambda step: step.opcode,
)
def test_masks_leave_gaps_out(step):
    buffers = [Buffer(name, space, 64 * 1024) for name, space in zip("labcu", ("L1", "L0A", "L0B", "L0C", "UB"), strict=True)]
    program = dataclasses.replace(program_of([step], buffers), masks=(ALL_LANES, (0xFFFF, 0xFFFF << 32)))
    assert_equal(step, program)


def test_an_operand_before_its_buffer_is_refused():
    step = Step("constant_to_ub", dst=Operand("u", -32), size=1)
    with pytest.raises(ValueError, match="expected operands at offsets from 0 on"):
        block_masks(step, DIMS, ALL_LANES)
