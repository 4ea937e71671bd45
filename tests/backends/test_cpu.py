"""libhajax_cpu on a caller's own memory: plans for many lengths, addresses, threads of its own, errors."""

import numpy as np
import pytest
from kernel_driver import Case, inputs_of, recurrence

from hajax.backends import LibraryError, cpu
from hajax.mechanisms import GATED_DELTA_RULE
from hajax.plans import Shape

pytestmark = pytest.mark.native
CASE = Case(t=150, hk=3, r=2, dk=40, dv=72, batch=2)
SCALE = CASE.dk**-0.5


def shape_of(case):
    return Shape(case.batch, case.t, 1, case.hk, case.hk * case.r, case.dk, case.dv, "float32", "float32")


def run(case, inputs, threads, *, in_place=False, bounds=None):
    launch = cpu.launch_of(GATED_DELTA_RULE, shape_of(case), threads)
    output = np.full((case.batch, case.t, case.hk * case.r, case.dv), np.nan, np.float32)
    state = inputs["state_in"].copy()
    final = state if in_place else np.full_like(state, np.nan)
    names = ("query", "key", "value", "log_decay", "beta")
    held = [*(inputs[name] for name in names), state, inputs["bounds"] if bounds is None else bounds, output, final]
    cpu.run(launch, (case.batch, case.t, 1), [x.ctypes.data for x in held], SCALE, case.eps)
    return output, final


@pytest.mark.parametrize("in_place", [False, True])
def test_equals_the_recurrence_with_any_number_of_threads(in_place):
    inputs = inputs_of(CASE)
    expected, expected_state = recurrence(CASE, inputs, SCALE)
    runs = [run(CASE, inputs, threads, in_place=in_place) for threads in (1, 2, 5, 1000)]
    for output, final in runs:
        assert output.tobytes() == runs[0][0].tobytes()
        assert final.tobytes() == runs[0][1].tobytes()
    assert np.abs(runs[0][0] - expected).max() <= 3e-5 * np.abs(expected).max()
    assert np.abs(runs[0][1] - expected_state).max() <= 3e-5 * np.abs(expected_state).max()


def test_one_plan_serves_lengths_up_to_the_next_power_of_two():
    launches = {
        tokens: cpu.launch_of(GATED_DELTA_RULE, shape_of(Case(t=tokens, dk=40, dv=72)), 2)
        for tokens in (1, 2, 129, 200, 256, 257)
    }
    assert launches[129] is launches[200] is launches[256]
    assert len({id(launch) for launch in launches.values()}) == 4


def test_a_smaller_call_uses_the_room_of_a_larger_one():
    small = Case(t=3, hk=1, dk=8, dv=8)
    for case in (CASE, small, CASE):
        inputs = inputs_of(case)
        launch = cpu.launch_of(GATED_DELTA_RULE, shape_of(case), 1)
        output = np.empty((case.batch, case.t, case.hk * case.r, case.dv), np.float32)
        state = inputs["state_in"].copy()
        held = [inputs[name] for name in ("query", "key", "value", "log_decay", "beta")]
        held += [state, inputs["bounds"], output, state]
        cpu.run(launch, (case.batch, case.t, 1), [x.ctypes.data for x in held], case.dk**-0.5, case.eps)
        expected, _ = recurrence(case, inputs, case.dk**-0.5)
        assert np.abs(output - expected).max() <= 3e-5 * np.abs(expected).max()


def test_what_the_library_refuses_is_an_error():
    inputs = inputs_of(CASE)
    wrong = inputs["bounds"].copy()
    wrong[1, 1] = CASE.t + 1
    with pytest.raises(LibraryError, match=r"bad_call: .*bounds\[1\]\[1\]"):
        run(CASE, inputs, 2, bounds=wrong)
