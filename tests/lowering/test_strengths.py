"""Separate erase and write strengths, step by step in numpy, against the recurrence in fp64."""

import numpy as np
import pytest

from hajax import conformance
from hajax.lowering import cube_per_channel, cube_scalar
from hajax.lowering.assembler import Constants, Dims
from hajax.plans import interpret
from hajax.plans.program import Item, Launch, Programs

OUTPUT_BOUND, STATE_BOUND = 5.23e-8, 9.38e-12  # of the published system; rounding the output to fp16 alone costs 4.3e-8
BUILDERS = {"scalar": cube_scalar.build, "per_channel": cube_per_channel.build}


def strengths(kind, shape, draw):
    """Erase and write strengths of each token."""
    erase, write = draw.uniform(0, 1, (2, *shape))
    match kind:
        case "uniform":
            return erase, write
        case "equal":
            return write, write
        case "no erasing":
            return np.zeros(shape), write
        case "no writing":
            return erase, np.zeros(shape)
        case "all or nothing":
            return draw.integers(0, 2, shape), draw.integers(0, 2, shape)
        case "far apart":
            return 10 ** draw.uniform(-6, 0, shape), 10 ** draw.uniform(-6, 0, shape)
        case "strong writes":
            return erase, 50 * write
        case "below 0":
            return draw.uniform(-0.5, 1, shape), draw.uniform(-1, 1, shape)
    raise KeyError(kind)


def check(decay, kind, *, tokens=130, heads=2, dims=(32, 48), gates="usual"):
    case = conformance.Case(
        tokens=tokens, key_heads=1, value_heads=heads, key_dim=dims[0], value_dim=dims[1], dtype="float16", decay=gates,
        op="gdn2",
    )  # fmt: skip
    arrays = conformance.inputs(case)
    draw = np.random.default_rng(tokens)
    erase, write = strengths(kind, arrays["beta"].shape, draw)
    arrays |= {"erase": erase.astype(np.float32), "beta": write.astype(np.float32)}
    if decay == "per_channel":
        arrays["log_decay"] = -np.exp(
            draw.uniform(*((-9, -5) if gates == "weak" else (-7, 1)), (1, tokens, heads, dims[0]))
        ).astype(np.float32)
    side_by_side = 2 if heads == 2 and decay == "scalar" else 1
    program_dims, constants = Dims(64, dims[0], dims[1], side_by_side, side_by_side == 2), Constants()
    program = BUILDERS[decay](program_dims, constants, strengths=2)
    items = tuple(Item(0, 0, head, 0) for head in range(0, heads, side_by_side))
    state = arrays.setdefault("initial_state", draw.standard_normal((1, heads, *dims)).astype(np.float32))
    both = np.stack([arrays["erase"], arrays["beta"]], axis=-1)
    inputs = interpret.Inputs(arrays["query"], arrays["key"], arrays["value"], arrays["log_decay"], both, state[None])
    made = Programs(2002, 64, (program,), (Launch((items,)),), constants.to_bytes())
    output, final = interpret.run(made, inputs, dims[0] ** -0.5)
    expected = conformance.recurrence(arrays)
    assert conformance.nmse(output, expected[0]) <= OUTPUT_BOUND
    assert conformance.nmse(final[0], expected[1]) <= STATE_BOUND


@pytest.mark.parametrize("kind", ["uniform", "equal", "no erasing", "all or nothing", "far apart", "strong writes"])
@pytest.mark.parametrize("decay", BUILDERS)
def test_any_strengths(decay, kind):
    check(decay, kind)


@pytest.mark.parametrize("decay", BUILDERS)
def test_a_state_that_is_erased_only(decay):
    """Not for long: what is left of it must lie within fp16."""
    check(decay, "no writing", tokens=20, gates="weak")


def test_strengths_below_0_with_a_decay_per_channel():
    check("per_channel", "below 0")


@pytest.mark.parametrize("tokens", [1, 63, 64, 65])
@pytest.mark.parametrize("decay", BUILDERS)
def test_any_length(decay, tokens):
    check(decay, "all or nothing", tokens=tokens)


@pytest.mark.parametrize("gates", ["none", "strong", "resets", "infinite"])
def test_any_decay(gates):
    check("scalar", "uniform", gates=gates, heads=1, dims=(48, 32))
