"""The operator against the fp64 token recurrence: at least 300 drawn cases, on both implementations, through XLA.

Shapes come from a palette, so that compilations are shared; decays, strengths, keys, states, lengths and cuts are drawn.
"""

import zlib

import numpy as np
import oracle
import pytest
from hypothesis import given, seed, settings
from problem import Frame, cases_in, eps_of

from hajax import conformance, gated_delta_rule
from hajax.conformance import inputs, recurrence

DRAWS, LEAST_DISTINCT = 18, 12  # hypothesis repeats a few
FRAMES = [
    Frame(1),
    Frame(1, heads=(2, 4), dims=(64, 32), batch=3, l2norm=True),
    Frame(2, heads=(1, 3), dims=(8, 24), batch=2),
    Frame(7, dims=(24, 8), l2norm=True),
    Frame(16, heads=(2, 2), dims=(32, 64)),
    Frame(33, heads=(1, 2), dims=(128, 128), l2norm=True),
    Frame(63, heads=(2, 6), dims=(16, 8)),
    Frame(64, batch=3, dims=(40, 40)),
    Frame(65, heads=(2, 2), dims=(8, 8), batch=2, l2norm=True),
    Frame(65, dims=(256, 40)),
    Frame(100, dims=(40, 256)),
    Frame(129, heads=(1, 2), dims=(24, 72), batch=2),
    Frame(300, heads=(1, 2), dims=(64, 64)),
    Frame(449, dims=(8, 16), l2norm=True),
    Frame(700, heads=(2, 2), dims=(16, 24)),
    Frame(9, heads=(1, 2), sequences=4),
    Frame(64, dims=(24, 40), sequences=3, l2norm=True),
    Frame(200, heads=(1, 3), dims=(16, 32), sequences=6),
    Frame(1, heads=(2, 4), dims=(128, 64), dtype="bfloat16", l2norm=True),
    Frame(130, heads=(1, 2), dims=(128, 128), dtype="bfloat16", l2norm=True),
    Frame(96, dims=(16, 40), dtype="bfloat16", batch=2),
    Frame(200, heads=(2, 2), dims=(32, 16), dtype="bfloat16", sequences=5),
    Frame(70, heads=(1, 2), dims=(64, 64), dtype="float16", l2norm=True),
    Frame(257, dims=(24, 16), dtype="float16", batch=2),
    Frame(100, heads=(1, 2), dims=(16, 8), dtype="float16", sequences=4),
]


def test_the_palette_holds_at_least_300_cases():
    assert len(set(FRAMES)) * LEAST_DISTINCT >= 300


@pytest.mark.parametrize("frame", FRAMES, ids=str)
def test_both_implementations_equal_the_recurrence(frame):
    seen = set()

    @seed(zlib.crc32(str(frame).encode()))
    @settings(max_examples=DRAWS)
    @given(cases_in(frame))
    def run(case):
        seen.add(str(case))
        check(case)

    run()
    assert len(seen) >= LEAST_DISTINCT


def check(case):
    arrays, eps = inputs(case), eps_of(case)
    expected = recurrence(arrays, l2norm_eps=eps)
    inside = tokens_inside(case)
    trust(case, expected, inside)
    errors = {}
    for implementation in ("cpu", "xla"):
        output, state = gated_delta_rule(**arrays, l2norm_eps=eps, implementation=implementation)
        assert not np.asarray(output)[~inside].any(), f"{implementation}: output at padding is not zero"
        assert state.dtype == np.float32
        errors[implementation] = oracle.error(output, expected[0], case.dtype)
        assert oracle.error(state, expected[1]) <= oracle.NMSE, f"{implementation}: state"
    if case.dtype == "float32":
        assert max(errors.values()) <= oracle.NMSE, errors
    else:  # as root mean squares: both round the output once, and fp32 arithmetic comes on top
        floor = oracle.NMSE**0.5
        assert errors["cpu"] ** 0.5 <= 2 * errors["xla"] ** 0.5 + floor, errors
        assert errors["xla"] ** 0.5 <= 2 * oracle.ROUNDING[case.dtype] + floor, errors


def tokens_inside(case):
    """[B, T]: which tokens belong to a sequence."""
    ends = np.array(case.lengths if case.lengths is not None else [case.tokens] * case.batch)
    return np.arange(case.tokens) < ends[:, None]


def trust(case, expected, inside):
    """A case whose expected values are mostly zero proves nothing, unless its text says that they are."""
    tokens = max(case.lengths) if case.lengths else case.tokens
    says_zero = (
        (case.beta == "zero" and (not case.state or case.decay not in ("none", "weak")))
        or (case.beta == "edges" and tokens <= 9)
        or (case.keys == "zeros" and tokens <= 9)
        or (case.decay in ("strong", "mixed", "resets", "infinite") and (case.beta != "uniform" or case.keys != "random"))
        or (not case.state and case.decay in ("strong", "mixed", "infinite", "resets") and tokens <= 9)
        or (not case.state and (0 in (case.lengths or ()) or case.cu is not None))
    )
    if says_zero:
        return
    for values in (expected[0][inside], expected[1]):
        assert values.size == 0 or (np.abs(values) < 1e-30).mean() <= 0.5, "mistrusted: over half of the expected values are zero"


def test_a_case_of_zeros_is_mistrusted():
    case = conformance.parse("T=20 decay=usual")
    shape = (1, 20, 1, 16)
    with pytest.raises(AssertionError, match="mistrusted"):
        trust(case, (np.zeros(shape), np.ones((1, 1, 16, 16))), np.ones((1, 20), bool))


@pytest.mark.parametrize("implementation", ["cpu", "xla"])
def test_a_wrong_implementation_would_be_noticed(implementation):
    """A relative error of 1e-5 is two orders above fp32's own, and outside the bound."""
    case = conformance.parse("T=70 Hk=1 Hv=2")
    arrays = inputs(case)
    expected = recurrence(arrays)
    output, state = gated_delta_rule(**arrays, implementation=implementation)
    assert oracle.error(output, expected[0]) <= oracle.NMSE < oracle.error(np.asarray(output) * (1 + 1e-5), expected[0])
    assert oracle.error(state, expected[1]) <= oracle.NMSE < oracle.error(np.asarray(state) * (1 + 1e-5), expected[1])
