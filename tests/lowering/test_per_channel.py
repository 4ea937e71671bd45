"""The cube dataflow of a decay per channel: what its program computes, by the interpreter, against the token recurrence."""

import dataclasses

import numpy as np
import pytest

from hajax import conformance
from hajax.lowering import cube_per_channel
from hajax.lowering.assembler import Constants, Dims
from hajax.mechanisms import KDA
from hajax.passes.dependencies import areas, require_versions
from hajax.passes.pipeline import pipeline
from hajax.passes.place_buffers import DoesNotFit, peak_bytes, place_buffers
from hajax.passes.step_cost import PIPES, step_cost
from hajax.plans import footprint, interpret
from hajax.plans.program import Item, Launch, Programs
from hajax.schedules.hajax_schedule import form_of
from hajax.targets import npu

SIZES = footprint.Dims(64, 128)
STATE_BOUND = 9.38e-12
OUTPUT_LOSS = 4e-9  # what may come on top of the last rounding, which alone is about 4.3e-8
GATES = ("none", "weak", "kimi", "bounded", "mixed", "strong", "levels")


def log_decay(rng, kind, shape):
    match kind:
        case "none":
            return np.zeros(shape)
        case "weak":
            return -1e-3 * np.logaddexp(0, rng.standard_normal(shape))
        case "kimi":
            return -rng.uniform(1, 16) * np.logaddexp(0, rng.standard_normal(shape) + rng.uniform(-9, 2, shape[-1]))
        case "bounded":
            return -5 / (1 + np.exp(-2 * rng.standard_normal(shape) - rng.uniform(-4, 2, shape[-1])))
        case "mixed":
            return np.where(rng.random(shape) < 0.05, -rng.uniform(20, 60, shape), -1e-3)
        case "strong":
            return -rng.uniform(2, 30, shape)
        case "levels":
            return rng.choice([0, -1e-3, -5, -20, -300, -1e5, -np.inf], size=shape, p=[0.3, 0.3, 0.2, 0.1, 0.05, 0.03, 0.02])
    raise AssertionError(kind)


def problem(tokens, heads, key_heads, key_dim, value_dim, gates, *, keys="random", state=True, strength=1.0, seed=0):
    rng = np.random.default_rng([seed, tokens])
    unit = lambda x: x / np.sqrt((x * x).sum(-1, keepdims=True) + 1e-6)
    key = unit(rng.standard_normal((1, 1 if keys == "same" else tokens, key_heads, key_dim)))
    if keys == "few":
        key = key[:, rng.integers(0, min(8, tokens), tokens)]
    state_in = rng.standard_normal((1, 1, heads, key_dim, value_dim)) * (0.2 if state else 0.0)
    return interpret.Inputs(
        query=unit(rng.standard_normal((1, tokens, key_heads, key_dim))).astype(np.float16),
        key=np.broadcast_to(key, (1, tokens, key_heads, key_dim)).astype(np.float16),
        value=rng.standard_normal((1, tokens, heads, value_dim)).astype(np.float16),
        log_decay=log_decay(rng, gates, (1, tokens, heads, key_dim)).astype(np.float32),
        beta=(strength * rng.uniform(0, 1, (1, tokens, heads))).astype(np.float32),
        state_in=state_in.astype(np.float32),
    )


def programs(dims, heads, value_dim, delta=True, **how):
    constants = Constants()
    program = cube_per_channel.build(dims, constants, delta=delta, **how)
    columns = range(0, value_dim, dims.columns)
    items = tuple(Item(0, 0, head, column) for head in range(0, heads, dims.heads) for column in columns)
    return Programs(2002, 64, (program,), (Launch((items,)),), constants.to_bytes())


def errors(made, inputs, delta=True):
    """Output and state NMSE, and that of the exact output rounded once."""
    output, state = interpret.run(made, inputs, inputs.query.shape[-1] ** -0.5)
    exact, exact_state = conformance.recurrence(
        {
            "query": inputs.query,
            "key": inputs.key,
            "value": inputs.value,
            "log_decay": inputs.log_decay,
            "beta": inputs.beta,
            "initial_state": inputs.state_in[0],
        },
        delta=delta,
    )
    rounded = exact.astype(np.float16).astype(np.float64)
    return (
        conformance.nmse(output.astype(np.float64), exact),
        conformance.nmse(state[0].astype(np.float64), exact_state),
        conformance.nmse(rounded, exact),
    )


@pytest.fixture(scope="module")
def pair():
    return programs(Dims(64, 128, 128, 2, False), 2, 128)


@pytest.mark.parametrize(("gates", "keys"), [*((gates, "random") for gates in GATES), ("none", "few"), ("strong", "few")])
def test_accuracy_of_every_gate(pair, gates, keys):
    output, state, floor = errors(pair, problem(129, 2, 2, 128, 128, gates, keys=keys))
    assert output <= floor + OUTPUT_LOSS
    assert state <= STATE_BOUND


@pytest.mark.parametrize("gates", ["weak", "kimi"])
def test_identical_keys_without_a_state(pair, gates):
    output, state, floor = errors(pair, problem(256, 2, 2, 128, 128, gates, keys="same", state=False))
    assert output <= floor + OUTPUT_LOSS
    assert state <= STATE_BOUND


@pytest.mark.parametrize("tokens", [1, 63, 64, 150])
def test_lengths(pair, tokens):
    output, state, floor = errors(pair, problem(tokens, 2, 2, 128, 128, "bounded", state=tokens != 64))
    assert output <= floor + OUTPUT_LOSS
    assert state <= STATE_BOUND


@pytest.mark.parametrize("strength", [0.0, 2.0])
def test_strengths_at_their_ends(pair, strength):
    output, state, floor = errors(pair, problem(65, 2, 2, 128, 128, "weak", strength=strength))
    assert output <= floor + OUTPUT_LOSS
    assert state <= STATE_BOUND


@pytest.mark.parametrize(
    ("key_dim", "value_dim", "columns", "heads", "shared"),
    [(16, 16, 16, 1, False), (48, 32, 16, 2, False), (112, 80, 80, 2, True), (128, 128, 64, 1, False)],
)
def test_shapes(key_dim, value_dim, columns, heads, shared):
    made = programs(Dims(64, key_dim, columns, heads, shared), 2, value_dim)
    output, state, floor = errors(made, problem(70, 2, 1 if shared else 2, key_dim, value_dim, "kimi"))
    assert output <= floor + OUTPUT_LOSS
    assert state <= STATE_BOUND


@pytest.mark.parametrize("gates", ["kimi", "mixed"])
def test_without_a_correction(gates):
    made = programs(Dims(64, 128, 128, 1, False), 1, 128, delta=False)
    output, state, floor = errors(made, problem(130, 1, 1, 128, 128, gates), delta=False)
    assert output <= floor + OUTPUT_LOSS
    assert state <= STATE_BOUND


@pytest.mark.parametrize(
    ("key_dim", "value_dim", "gates"),
    [(128, 128, "mixed"), (128, 128, "levels"), (16, 128, "kimi"), (112, 48, "strong"), (48, 16, "bounded")],
)
@pytest.mark.parametrize("delta", [True, False])
def test_tiles_one_after_the_other_give_the_bits_of_those_side_by_side(key_dim, value_dim, gates, delta):
    dims, inputs = Dims(64, key_dim, value_dim, 1, False), problem(150, 1, 1, key_dim, value_dim, gates)
    found = [
        interpret.run(programs(dims, 1, value_dim, delta, side_by_side=together), inputs, key_dim**-0.5)
        for together in (True, False)
    ]
    for wide, narrow in zip(*found, strict=True):
        np.testing.assert_array_equal(narrow, wide)


def test_where_they_go_side_by_side():
    """From the room on that they take, whatever else the chip is; and less room than that holds them one after the other."""
    chip = npu.as_kernel_chip("ascend310b1")
    dims, least = Dims(64, 128, 128, 1, False), cube_per_channel.SIDE_BY_SIDE_BYTES
    tight = dataclasses.replace(chip, l0c_bytes=least)
    for target, together in ((chip, False), (dataclasses.replace(chip, l0c_bytes=least - 1), False), (tight, True)):
        program = form_of(KDA, target).build(dims, Constants(), "whole")
        assert program == cube_per_channel.build(dims, Constants(), side_by_side=together)
        placed, _ = place_buffers(pipeline(program, SIZES, target)[0], SIZES, target)
        assert peak_bytes(placed)["L0C"] <= target.l0c_bytes
    with pytest.raises(DoesNotFit, match=rf"^L0C: expected at most {chip.l0c_bytes} bytes"):
        place_buffers(cube_per_channel.build(dims, Constants()), SIZES, chip)


@pytest.mark.parametrize("heads", [1, 2])
def test_fits_the_chip(heads):
    target = npu.load("ascend310p1")
    program = cube_per_channel.build(Dims(64, 128, 128, heads, False), Constants())
    require_versions(program, areas(program.body, program, SIZES))
    placed, _ = place_buffers(program, SIZES, target)
    assert all(buffer.address is not None for buffer in placed.buffers)


def test_modelled_vector_cycles_of_a_chunk():
    target = npu.load("ascend310p1")
    for heads, most in ((1, 12_100), (2, 11_100)):
        program = cube_per_channel.build(Dims(64, 128, 128, heads, False), Constants())
        busy = dict.fromkeys(PIPES, 0.0)
        scalar = 0.0
        for step in program.body:
            cost = step_cost(step, SIZES, target)
            busy[PIPES[cost.pipe]] += cost.busy / heads
            scalar += (cost.scalar + cost.instructions * (target.issue_cycles + target.argument_cycles)) / heads
        assert max(busy, key=busy.__getitem__) == "V"
        assert busy["V"] <= most
        assert scalar <= busy["V"]
