"""The native kernel against the fp64 token recurrence over 300 cases of any drawn shape; no XLA, so no compilation."""

import numpy as np
import oracle
import pytest
from hypothesis import given, seed, settings
from problem import cases, eps_of, plan_of, run_kernel

from hajax.conformance import inputs, recurrence

PARTS, DRAWS = 12, 34  # hypothesis repeats a few


@pytest.mark.parametrize("part", range(PARTS))
def test_the_kernel_equals_the_recurrence(part):
    seen = set()

    @seed(part)
    @settings(max_examples=DRAWS)
    @given(cases())
    def run(case):
        seen.add(str(case))
        check(case)

    run()
    assert len(seen) * PARTS >= 300


def check(case):
    arrays = inputs(case)
    expected = recurrence(arrays, l2norm_eps=eps_of(case))
    plan = plan_of(case)
    output, state, counters = run_kernel(case, arrays, plan)
    assert oracle.error(state, expected[1]) <= oracle.NMSE
    rounding = 0 if case.dtype == "float32" else 2 * oracle.ROUNDING[case.dtype]
    assert oracle.error(output, expected[0], case.dtype) ** 0.5 <= oracle.NMSE**0.5 + rounding
    assert_plan_was_executed(case, arrays, plan, counters)


def assert_plan_was_executed(case, arrays, plan, counters):
    launch = plan.launch
    lengths = np.diff(case.cu) if case.cu is not None else np.array(arrays.get("lengths", [case.tokens] * case.batch))
    share = case.value_heads // launch.group * launch.column_blocks
    chunked = lengths[lengths > launch.token_steps]
    assert counters["chunk"] == launch.chunk
    assert counters["tasks"] == len(lengths) * share
    assert counters["token_steps"] == lengths[lengths <= launch.token_steps].sum() * share
    assert counters["chunks"] == (-(-chunked // launch.chunk)).sum() * share
    assert counters["bf16_dot"] == int(launch.bf16_dot and chunked.sum() > 0)
