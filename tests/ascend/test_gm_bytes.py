"""Bytes to and from global memory: each input once for every head that needs it, each output once, states at the ends only."""

import numpy as np
import pytest

from hajax import abi, planner, plans
from hajax.backends import npu as emulated
from hajax.mechanisms import MECHANISMS
from hajax.targets import npu

TARGET = npu.load("ascend310p1")
GM = tuple(str(row[1]) for row in abi.rows("paths") if "GM" in map(str, row[2:4]))
FAST = emulated.SimOptions(check_races=False, check_written=False, timeline=False)


def run(tokens, key_heads, value_heads, dim=128, batch=1):
    """The plan's programs and launches, and the bytes that a call moves."""
    shape = plans.Shape(batch, tokens, 1, key_heads, value_heads, dim, dim, "float16", "float16")
    plan = planner.plan(MECHANISMS["gated_delta_rule"], shape, TARGET)
    rows, heads = (batch, tokens), (batch, tokens, value_heads)
    arrays = {
        "query": np.zeros((*rows, key_heads, dim), np.float16),
        "key": np.zeros((*rows, key_heads, dim), np.float16),
        "value": np.zeros((*heads, dim), np.float16),
        "log_decay": np.zeros(heads, np.float32),
        "beta": np.zeros(heads, np.float32),
        "state_in": np.zeros((batch, 1, value_heads, dim, dim), np.float32),
        "bounds": np.tile(np.array([0, tokens], np.int32), (batch, 1)),
    }
    _, _, runs = emulated.execute(plans.to_bytes(plan), arrays, scale=1.0, target=TARGET, options=FAST)
    return plans.opened(plan).launch, runs


def moved(runs):
    return sum(run.counts[path] for run in runs for path in GM)


def least(tokens, heads, dim=128):
    return heads * (tokens * (8 * dim + 8) + 8 * dim * dim)


@pytest.mark.native
def test_a_whole_head_moves_its_inputs_outputs_and_states_once():
    """With as many pairs of heads as cores, whatever grows with the tokens is the least there is, to the byte."""
    short, long = (run(tokens, 20, 20) for tokens in (128, 256))
    for programs, runs in (short, long):
        assert len(runs) == 1
        assert [(program.heads, program.columns) for program in programs.programs] == [(2, 128)]
    assert moved(long[1]) - moved(short[1]) == least(256, 20) - least(128, 20)


@pytest.mark.native
def test_what_is_moved_beside_does_not_grow_and_is_the_plan():
    programs, runs = run(128, 20, 20)
    beside = moved(runs) - least(128, 20)
    steps = sum(len(program.setup) + len(program.body) + len(program.finish) for program in programs.programs)
    plan_bytes = 24 * steps + len(programs.constants)
    assert 0 < beside <= 10 * (plan_bytes + 8192), "on each of ten cores: the plan, its constants, tables of a few KiB"


@pytest.mark.native
def test_two_heads_side_by_side_read_their_key_head_once():
    """Grouped value heads need fewer bytes: queries and keys of a pair count once."""
    apart, grouped = (moved(run(256, key_heads, 20)[1]) - moved(run(128, key_heads, 20)[1]) for key_heads in (20, 10))
    assert apart - grouped == 10 * 128 * 2 * 128 * 2


@pytest.mark.native
@pytest.mark.parametrize("tokens", [65, 127])
def test_a_short_last_chunk_moves_only_its_tokens(tokens):
    """Zeros below the last rows come from the plan's constants, not from rows of others."""
    whole, part = moved(run(128, 20, 20)[1]), moved(run(tokens, 20, 20)[1])
    gates = 20 * 8 * (128 - tokens)  # a chunk of gates is read as a whole: the host fills it up
    assert part <= whole + 20 * 3 * (128 - tokens) * 128 * 2, "zeros instead of rows, and nothing else"
    assert whole - part <= least(128, 20) - least(tokens, 20) + gates
