"""Plans on the emulated chip: it computes what the interpreter says, and refuses the orders that verify refuses."""

import dataclasses

import numpy as np
import pytest
from toy_plan import SHAPE, toy_inputs, toy_plan, toy_program, toy_programs

from hajax.backends import npu
from hajax.plans import to_bytes, verify
from hajax.plans.interpret import run

SCALE = 0.375
GOOD = toy_program()
SECTIONS = ("setup", "body", "finish")


def arrays():
    inputs = toy_inputs()
    rows = (SHAPE.batch, SHAPE.tokens, SHAPE.value_heads)
    fields = {name: getattr(inputs, name) for name in ("query", "key", "value", "beta", "state_in")}
    bounds = np.tile(np.array([0, SHAPE.tokens], np.int32), (SHAPE.batch, 1))
    return inputs, {**fields, "log_decay": np.zeros(rows, np.float32), "bounds": bounds}


def executed(program):
    return npu.execute(to_bytes(toy_plan(toy_programs(program))), arrays()[1], scale=SCALE)


def test_the_chip_computes_what_the_interpreter_says():
    output, state_out, (one,) = executed(GOOD)
    wanted, state = run(toy_programs(), arrays()[0], SCALE)
    np.testing.assert_allclose(state_out, state, rtol=0, atol=1e-5)
    np.testing.assert_allclose(output.astype(np.float32), wanted.astype(np.float32), rtol=0, atol=2**-10 * np.abs(wanted).max())
    assert (output == wanted).mean() > 0.99  # sums in another order may round to a neighbour
    assert np.abs(wanted).max() > 1 and one.counts["saturated"] == 0


def planted():
    """The good program without one of its flags or barriers, or with two of its steps in exchanged places."""
    for section in SECTIONS:
        steps = getattr(GOOD, section)
        for at, step in enumerate(steps):
            if step.barrier:
                yield (
                    f"{section} {at} no barrier",
                    section,
                    (*steps[:at], dataclasses.replace(step, barrier=False), *steps[at + 1 :]),
                )
            if step.sets:
                flag = step.sets[0]
                taker = next(n for n in range(at + 1, len(steps)) if flag in steps[n].waits)
                without = list(steps)
                without[at] = dataclasses.replace(step, sets=())
                without[taker] = dataclasses.replace(steps[taker], waits=())
                yield f"{section} {at} no flag", section, tuple(without)


PLANTED = {name: dataclasses.replace(GOOD, **{section: steps}) for name, section, steps in planted()}


@pytest.mark.parametrize("name", PLANTED)
def test_verify_and_the_chip_agree_on_what_is_ordered(name):
    try:
        verify(toy_plan(toy_programs(PLANTED[name])))
        refusal = None
    except ValueError as error:
        refusal = str(error)
    if refusal is None:
        output, _, _ = executed(PLANTED[name])
        np.testing.assert_array_equal(output, executed(GOOD)[0])
    else:
        assert "expected to start after" in refusal
        with pytest.raises(npu.SimFault) as fault:
            executed(PLANTED[name])
        assert fault.value.check in ("race", "pipe_race")


def test_some_orders_matter_and_some_do_not():
    refused = 0
    for program in PLANTED.values():
        try:
            verify(toy_plan(toy_programs(program)))
        except ValueError:
            refused += 1
    assert 0 < refused < len(PLANTED)
