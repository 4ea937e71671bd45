"""The scalar decay's cube dataflow, step by step in numpy, against the recurrence: accuracy, tails, states, mechanisms."""

import dataclasses

import numpy as np
import pytest

from hajax import conformance
from hajax.lowering import cube_scalar
from hajax.lowering.assembler import Constants, Dims
from hajax.lowering.exchange import two_stages
from hajax.plans import interpret
from hajax.plans.program import MAP, Item, Launch, Programs

OUTPUT_BOUND, STATE_BOUND = 5.23e-8, 9.38e-12  # of the published system; rounding the output to fp16 alone costs 4.3e-8


def problem(tokens, decay="usual", keys="random", beta="uniform", *, op="gdn", heads=2, dims=(32, 48), state=True):
    case = conformance.Case(
        tokens=tokens, key_heads=1, value_heads=heads, key_dim=dims[0], value_dim=dims[1], dtype="float16", decay=decay,
        keys=keys, beta=beta, state=state, op=op,
    )  # fmt: skip
    return conformance.inputs(case), case


def run(arrays, case, *, delta=True, columns=None):
    constants = Constants()
    heads, width = case.value_heads, columns or case.value_dim
    dims = Dims(64, case.key_dim, width, 2 if heads == 2 else 1, heads == 2)
    program = cube_scalar.build(dims, constants, delta=delta)
    items = tuple(Item(0, 0, head, column) for head in range(0, heads, dims.heads) for column in range(0, case.value_dim, width))
    state = arrays.get("initial_state", np.zeros((1, heads, case.key_dim, case.value_dim), np.float32))
    decay = np.maximum(arrays["log_decay"], np.float32(-1e4))  # as the host does
    inputs = interpret.Inputs(arrays["query"], arrays["key"], arrays["value"], decay, arrays["beta"], state[None])
    output, final = interpret.run(
        Programs(2002, 64, (program,), (Launch((items,)),), constants.to_bytes()), inputs, case.key_dim**-0.5
    )
    return output, final[0]


def check(arrays, case, output, final):
    expected = conformance.recurrence(arrays, delta=case.op in ("gdn", "delta"))
    assert conformance.nmse(output, expected[0]) <= OUTPUT_BOUND
    assert conformance.nmse(final, expected[1]) <= STATE_BOUND


@pytest.mark.parametrize("tokens", [1, 63, 64, 65, 150])
def test_any_length_is_as_accurate_as_the_output_can_be_rounded(tokens):
    arrays, case = problem(tokens)
    check(arrays, case, *run(arrays, case))


@pytest.mark.parametrize("decay", ["none", "weak", "strong", "mixed", "resets", "infinite"])
def test_any_decay(decay):
    arrays, case = problem(130, decay)
    check(arrays, case, *run(arrays, case))


@pytest.mark.parametrize(("keys", "beta"), [("alike", "one"), ("repeated", "edges"), ("zeros", "uniform"), ("random", "zero")])
def test_keys_that_make_the_system_hard_and_strengths_at_their_ends(keys, beta):
    arrays, case = problem(100, "weak", keys, beta)
    check(arrays, case, *run(arrays, case))


@pytest.mark.parametrize("log_decay", [0.0, -1e-3])
def test_what_rounding_adds_does_not_pile_up_where_keys_are_equal(log_decay):
    arrays, case = problem(192, dims=(16, 16), state=False)
    arrays["key"] = np.repeat(arrays["key"][:, :1], case.tokens, axis=1)
    arrays["beta"] = np.random.default_rng(0).uniform(0.9, 1, arrays["beta"].shape).astype(np.float32)
    arrays["log_decay"] = np.full_like(arrays["log_decay"], log_decay)
    check(arrays, case, *run(arrays, case))


def test_column_pieces_and_one_head():
    arrays, case = problem(70, heads=1, dims=(48, 64))
    check(arrays, case, *run(arrays, case, columns=32))


@pytest.mark.parametrize("op", ["delta", "ret", "lin"])
def test_members_of_the_family(op):
    arrays, case = problem(90, op=op)
    if "log_decay" not in arrays:
        arrays["log_decay"] = np.zeros((*arrays["value"].shape[:3],), np.float32)
    if "beta" not in arrays:
        arrays["beta"] = np.ones((*arrays["value"].shape[:3],), np.float32)
    check(arrays, case, *run(arrays, case, delta=op == "delta"))


def test_a_map_launch_and_a_state_launch_are_the_whole():
    arrays, case = problem(150, heads=1, dims=(32, 32))
    constants = Constants()
    full = Dims(64, 32, 32, 1, False)
    programs = (
        cube_scalar.build(full, constants, kind="map"),
        cube_scalar.build(dataclasses.replace(full, columns=16), constants, kind="state"),
    )
    first = Launch((tuple(Item(0, 0, 0, 0, chunk, 1) for chunk in range(3)),))
    second = Launch((tuple(Item(1, 0, 0, column) for column in (0, 16)),))
    slot = cube_scalar.slot_bytes(full, delta=True)
    inputs = interpret.Inputs(
        arrays["query"], arrays["key"], arrays["value"], arrays["log_decay"], arrays["beta"], arrays["initial_state"][None]
    )
    made = Programs(2002, 64, programs, (first, second), constants.to_bytes(), slot)
    output, final = interpret.run(made, inputs, 32**-0.5)
    check(arrays, case, output, final[0])


def test_a_state_launch_has_no_stage_in_the_middle():
    program = cube_scalar.build(Dims(64, 32, 32, 1, False), Constants(), kind="state")
    assert program.stages == 2
    assert {step.stage for step in program.body} == {0, MAP}
    with pytest.raises(AssertionError):
        two_stages(cube_scalar.build(Dims(64, 32, 32, 1, False), Constants()))
