"""Every member of the family against the fp64 token recurrence: the kernel without XLA on any shape, both lowerings on a few."""

import zlib

import numpy as np
import oracle
import pytest
from hypothesis import given, seed, settings
from problem import Frame, cases, cases_in, eps_of, expected_of, plan_of, run_kernel

from hajax.conformance import OPS, inputs, operator, parse
from hajax.mechanisms import MECHANISMS

MEMBERS = [op for op in OPS if op != "gdn"]  # which has files of its own
SHAPES, DRAWS = 25, 6


def bounds_of(case):
    """NMSE of state and of output: root mean squares add, and the output is rounded once."""
    rounding = 0 if case.dtype == "float32" else 2 * oracle.ROUNDING[case.dtype]
    return oracle.NMSE, (oracle.NMSE**0.5 + rounding) ** 2


def assert_equal(case, output, state, expected):
    state_bound, output_bound = bounds_of(case)
    assert oracle.error(state, expected[1]) <= state_bound
    assert oracle.error(output, expected[0], case.dtype) <= output_bound


@pytest.mark.parametrize("op", MEMBERS)
def test_the_kernel_equals_the_recurrence_on_any_shape(op):
    seen = set()

    @seed(zlib.crc32(op.encode()))
    @settings(max_examples=SHAPES)
    @given(cases(op))
    def run(case):
        seen.add(str(case))
        arrays = inputs(case)
        output, state, counters = run_kernel(case, arrays)
        assert_equal(case, output, state, expected_of(case, arrays))
        assert counters["chunks"] + counters["token_steps"] > 0 or case.lengths is not None

    run()
    assert len(seen) >= SHAPES // 2


FRAMES = [
    Frame(1, heads=(1, 2), batch=2),
    Frame(66, heads=(1, 2), dims=(24, 16), batch=2, l2norm=True),
    Frame(40, heads=(1, 2), dims=(16, 8), sequences=3, dtype="bfloat16"),
]


@pytest.mark.parametrize("op", MEMBERS)
@pytest.mark.parametrize("shape", FRAMES, ids=str)
def test_both_implementations_equal_the_recurrence(shape, op):
    frame = Frame(**{**{f: getattr(shape, f) for f in Frame.__dataclass_fields__}, "op": op})

    @seed(zlib.crc32(str(frame).encode()))
    @settings(max_examples=DRAWS)
    @given(cases_in(frame))
    def run(case):
        arrays = inputs(case)
        expected = expected_of(case, arrays)
        for implementation in ("cpu", "xla"):
            got = operator(case)(**arrays, l2norm_eps=eps_of(case), implementation=implementation)
            assert_equal(case, *got, expected)

    run()


EXTREMES = [
    "T=130 Dk=64 op=kda decay=none beta=one keys=repeated",
    "T=130 Dk=64 op=kda decay=wide",
    "T=130 Dk=64 op=kda decay=bounded beta=one keys=alike",
    "T=130 Dk=64 op=kda decay=infinite beta=edges",
    "T=130 Dk=64 op=kda decay=strong",
    "T=700 op=gla decay=wide",
    "T=700 op=gla decay=none",
    "T=700 op=ret decay=weak",
    "T=700 op=lin beta=one keys=alike",
    "T=130 op=delta beta=one keys=repeated",
    "T=130 op=gdn2 beta=one keys=repeated decay=weak",
    "T=130 op=gdn2 decay=infinite",
]


@pytest.mark.parametrize("text", EXTREMES)
def test_the_kernel_at_the_edges(text):
    case = parse(text)
    arrays = inputs(case)
    output, state, _ = run_kernel(case, arrays)
    assert_equal(case, output, state, expected_of(case, arrays))


@pytest.mark.parametrize("op", MEMBERS)
def test_a_state_carried_over_any_cut_equals_the_whole(op):
    whole = parse(f"T=90 Hk=1 Hv=2 Dk=24 op={op} decay=wide")
    arrays = inputs(whole)
    expected = expected_of(whole, arrays)
    names = [n for n in arrays if n != "initial_state"]
    for cut in (1, 7, 8, 9, 31, 63, 64, 65, 89):
        state, outputs = arrays["initial_state"], []
        for tokens in (slice(None, cut), slice(cut, None)):
            piece = {n: arrays[n][:, tokens] for n in names} | {"initial_state": state}
            length = piece["query"].shape[1]
            output, state, _ = run_kernel(parse(f"T={length} Hk=1 Hv=2 Dk=24 op={op}"), piece)
            outputs.append(output)
        assert_equal(whole, np.concatenate(outputs, 1), state, expected)


def test_every_named_mechanism_has_a_case_or_is_one_of_those_with_two_strengths():
    assert set(OPS.values()) == {m.name for m in MECHANISMS.values() if m.strengths == 1} | {"gated_delta_rule_2"}


@pytest.mark.parametrize("op", ["kda", "gla"])
def test_where_no_channel_decays_the_scores_are_exact(op):
    """Small integers and no decay: products, sums and blocks of any size lose nothing, so neither may the result."""
    case = parse(f"T=100 Dk=16 Dv=16 op={op} decay=none beta=one state=0")
    arrays, rng = inputs(case), np.random.default_rng(0)
    for name in ("query", "key", "value"):
        arrays[name] = rng.integers(-1, 2, arrays[name].shape).astype(np.float32)
    if op == "kda":  # one-hot keys: the updates stay integers
        arrays["key"] = np.eye(16, dtype=np.float32)[rng.integers(0, 16, (1, 100, 1))]
    output, state, _ = run_kernel(case, arrays)
    expected = expected_of(case, arrays)
    np.testing.assert_array_equal(output, expected[0])  # the scale, 1/4, is exact too
    np.testing.assert_array_equal(state, expected[1])


def test_the_planned_chunks_and_token_steps_are_executed():
    case = parse("T=300 Hk=1 Hv=2 Dk=64 Dv=64 op=kda")
    plan = plan_of(case)
    counters = run_kernel(case, inputs(case), plan)[2]
    assert counters["chunk"] == plan.launch.chunk
    assert counters["chunks"] == -(-300 // plan.launch.chunk) * 2 // plan.launch.group * plan.launch.column_blocks
