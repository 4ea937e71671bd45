"""Steps cost what the emulated chip says: every opcode has a cost, and a section's modelled cycles are the emulator's."""

import dataclasses

import numpy as np
import pytest
from step_programs import CHIP, DIMS

from hajax import abi
from hajax.backends import npu
from hajax.mechanisms import GATED_DELTA_RULE
from hajax.passes.step_cost import PIPES, simulate, step_cost
from hajax.plans import Shape, to_bytes
from hajax.plans.footprint import operand_spaces, pipe
from hajax.plans.program import Flag, Operand, Step
from hajax.schedules.ascend import schedule
from hajax.schedules.hajax_schedule import form_of

HEADS, CHUNKS = 2, (4, 10)


def step_of(opcode):
    places = dict(zip(("dst", "src0", "src1"), (Operand(s) if s else None for s in operand_spaces(opcode)), strict=True))
    p = {"mmad": (2, 3, 4, 1, 1, 1, 1, 0), "rows_to_l1": (0,) * 8, "rows_from_ub": (7, 0, 0, 1, 0, 0, 0, 2)}
    return Step(opcode, **places, count=2, size=4, p=p.get(opcode, (1, 1, 1, 8, 8, 8, 1, 0)))


@pytest.mark.parametrize("opcode", [name for name in abi.names("opcodes") if name != "sync"])
def test_every_opcode_has_a_cost_on_its_pipe(opcode):
    if opcode in ("load_a", "load_b"):
        step = dataclasses.replace(step_of(opcode), p=(1, 4, 0, 4, 0, 0, 0, 0))
    else:
        step = step_of(opcode)
    cost = step_cost(step, DIMS, CHIP)
    assert PIPES[cost.pipe] == pipe(step)
    assert cost.instructions >= 1 and cost.busy > 0 and cost.scalar > 0
    assert cost.busy == pytest.approx(cost.first + cost.instructions * cost.cycles + cost.pauses * cost.latency)


def test_products_count_tiles_rounds_and_barriers():
    one = Step("mmad", Operand("c"), Operand("a"), Operand("b"), count=3, p=(1, 4, 2, 4, 2, 0, 1, 0))
    cost = step_cost(one, DIMS, CHIP)
    assert (cost.instructions, cost.cycles, cost.first, cost.pauses) == (3, 8.0, 6.0, 0)
    parts = step_cost(dataclasses.replace(one, index=64, p=(1, 4, 2, 4, 2, 0, 1, 32)), DIMS, CHIP)
    assert (parts.instructions, parts.pauses, parts.run) == (9, 2, 3)
    large = dataclasses.replace(one, index=64, p=(4, 4, 2, 16, 2, 0, 1, 0))
    assert step_cost(large, DIMS, CHIP).pauses == 0
    assert step_cost(dataclasses.replace(one, p=(1, 4, 2, 4, 2, 0, 5, 0)), DIMS, CHIP).pauses == 2


def test_a_pipe_waits_for_its_flag_and_the_scalar_unit_for_room_in_a_queue():
    load = Step("constant_to_ub", dst=Operand("u"), size=64, sets=(Flag("MTE2", "V", 0),))
    use = Step("muls32", dst=Operand("u"), src0=Operand("u"), size=2, p=(1, 1, 0, 8, 8, 0, 0, 0), waits=(Flag("MTE2", "V", 0),))
    timing = simulate([load, use], DIMS, CHIP)
    assert timing.starts[1] > timing.ends[0] + CHIP.gm_read_latency
    alone = simulate([dataclasses.replace(load, sets=())] * 40, DIMS, CHIP)
    narrow = simulate([dataclasses.replace(load, sets=())] * 40, DIMS, dataclasses.replace(CHIP, queue_depth=2))
    assert narrow.cycles >= alone.cycles
    assert len(timing.busy) == len(PIPES) + 1


def emulated(chunks):
    shape = Shape(1, 64 * chunks, 1, HEADS, HEADS, 128, 128, "float16", "float16")
    one_core = dataclasses.replace(CHIP, ai_cores=1)
    form = dataclasses.replace(form_of(GATED_DELTA_RULE), carried=False)  # one iteration alone is what is modelled
    plan = schedule("hajax", GATED_DELTA_RULE, shape, one_core, 1, form)
    rows = (1, 64 * chunks, HEADS)
    half = {name: np.full((*rows, 128), 0.05, np.float16) for name in ("query", "key", "value")}
    gates = {"log_decay": np.full(rows, -0.1, np.float32), "beta": np.full(rows, 0.5, np.float32)}
    arrays = {**half, **gates, "state_in": np.zeros((1, 1, HEADS, 128, 128), np.float32)}
    arrays["bounds"] = np.array([[0, 64 * chunks]], np.int32)
    options = npu.SimOptions(check_races=False, check_written=False, timeline=False)
    _, _, (run,) = npu.execute(to_bytes(plan), arrays, scale=0.1, target=one_core, options=options)
    return plan, run


def test_an_iteration_takes_the_cycles_of_the_emulated_chip():
    (plan, short), (_, long) = (emulated(chunks) for chunks in CHUNKS)
    (program,) = plan.launch.programs
    timing = simulate(program.body, DIMS, CHIP)
    more = CHUNKS[1] - CHUNKS[0]
    cycles = (long.timing["cycles"] - short.timing["cycles"]) / more
    assert timing.cycles == pytest.approx(cycles, rel=0.03)
    for number, name in enumerate((*PIPES, "S")):
        busy = (long.busy_cycles[0][name] - short.busy_cycles[0][name]) / more
        assert timing.busy[number] == pytest.approx(busy, rel=0.03), name
