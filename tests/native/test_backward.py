"""The gradient kernels of libhajax_cpu, called directly, against the gradient of the token recurrence in float64."""

from dataclasses import replace

import numpy as np
import pytest
from gradient_driver import (
    GRADIENTS,
    backward_plan_of,
    cotangents_of,
    execute_backward,
    recurrence_gradients,
)
from kernel_driver import DTYPES, ISAS, Case, ffi, inputs_of, last_error, library

from hajax import abi

NMSE = 1e-11  # what the outputs are held to
EPS = {"float32": 0.0, "bfloat16": 2.0**-8, "float16": 2.0**-11}  # rounding of a gradient element, once and to nearest


def nmse(got, expected):
    return ((got - expected) ** 2).sum() / max((expected**2).sum(), 1e-30)


def check(case):
    inputs = inputs_of(case)
    cotangents = cotangents_of(case, inputs)
    status, gradients, counters = execute_backward(case, inputs, cotangents)
    assert status == 0, last_error()
    expected = recurrence_gradients(case, inputs, cotangents)
    for name in GRADIENTS:
        if name == "log_decay" and case.g == "none":
            assert np.isnan(gradients[name]).all(), "written without a decay"
            continue
        assert np.isfinite(gradients[name]).all(), name
        rounding = EPS[case.dtype] if name in ("query", "key", "value") else 0.0
        assert nmse(gradients[name], expected[name]) <= NMSE + rounding**2, name
        largest = np.abs(expected[name]).max(initial=1e-30)
        assert np.abs(gradients[name] - expected[name]).max(initial=0) <= (1e-4 + rounding) * largest, name
    first, last = inputs["bounds"][:, 0], inputs["bounds"][:, -1]
    for b in range(case.batch):
        for name in GRADIENTS[:5]:
            if name != "log_decay" or case.g != "none":
                assert not gradients[name][b, : first[b]].any() and not gradients[name][b, last[b] :].any(), name
    assert counters["isa"] == abi.table("isas")[case.isa], "another ISA ran"
    assert counters["tasks"] == case.batch * inputs["state_in"].shape[1] * case.hk * (case.r // case.group)
    chunks = (-(-np.diff(inputs["bounds"], axis=1) // case.chunk)).sum()
    assert counters["chunks"] == chunks * case.hk * (case.r // case.group)
    return inputs, cotangents, gradients, counters


LENGTHS = [1, 2, 5, 15, 16, 17, 63, 64, 65, 130]
DIMS = [(8, 8), (24, 8), (8, 24), (40, 40), (128, 128), (128, 24), (40, 256), (256, 40)]
CASES = [
    *[Case(t=t, channels=c) for t in LENGTHS for c in (False, True)],
    *[Case(t=t, chunk=chunk, channels=c) for t in (31, 33, 130) for chunk in (16, 32, 128) for c in (False, True)],
    *[Case(dk=dk, dv=dv, t=35, hk=2, r=2, group=2, channels=c) for dk, dv in DIMS for c in (False, True)],
    *[Case(hk=2, r=r, group=group, dv=24, channels=c) for r in (2, 3) for group in {1, r} for c in (False, True)],
    *[Case(g=g, t=70) for g in ("none", "0", "-1e-4", "-5", "-20", "-80", "-1e4", "-1e30", "-inf")],
    *[Case(g=g, t=70, channels=True) for g in ("0", "-1e-4", "-5", "-20", "-80", "-1e4", "-1e30", "-inf")],
    *[Case(beta=beta, g="-1e-4", channels=c) for beta in ("0", "1", "-0.5") for c in (False, True)],
    *[Case(eps=eps, g="-0.05") for eps in (-1.0, 1e-6, 1e-3)],
    *[Case(delta=0, g=g, eps=-1.0, r=2, group=2) for g in ("none", "mixed")],
    Case(delta=0, g="mixed", eps=-1.0, channels=True),
    *[Case(strengths=2, g=g, t=t) for g in ("none", "mixed") for t in (7, 70)],
    Case(strengths=2, g="mixed", t=70, channels=True),
    *[Case(dtype=d, out=o, dv=40) for d in DTYPES for o in DTYPES],
    *[Case(dtype="bfloat16", r=2, group=g) for g in (1, 2)],
    *[Case(batch=3, t=97, lengths=(1, 0, 40, 3, 0, 50), start=2, channels=c) for c in (False, True)],
    Case(lengths=(0,), t=9),
    Case(lengths=(0, 0), t=0),
    *[Case(t=16 * chunks + 3, chunk=16, dk=8, dv=8, r=2, group=2) for chunks in (63, 64, 100)],  # one segment and several
    Case(t=16 * 96, chunk=16, dk=8, dv=8, channels=True, lengths=(1100, 436)),
]


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_equals_the_gradient_of_the_recurrence(case, isa):
    check(replace(case, isa=isa))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(
    "case", [Case(r=2, hk=3, t=150), Case(r=2, hk=3, t=90, channels=True), Case(batch=2, hk=2, t=40)], ids=str
)
def test_bits_do_not_depend_on_workers_or_on_the_run(case, isa):
    case = replace(case, isa=isa)
    inputs = inputs_of(case)
    cotangents = cotangents_of(case, inputs)
    runs = [execute_backward(replace(case, workers=w), inputs, cotangents) for w in (1, 1, 2, 3)]
    for status, gradients, counters in runs:
        assert status == 0, last_error()
        assert all(gradients[name].tobytes() == runs[0][1][name].tobytes() for name in GRADIENTS)
        assert counters["macs"] == runs[0][2]["macs"]


def test_scratch_grows_with_the_root_of_a_long_sequence():
    case = Case(isa=ISAS[-1], dk=128, dv=128)
    least = backward_plan_of(case, 0).scratch_bytes
    states = lambda chunks: (backward_plan_of(case, 64 * chunks).scratch_bytes - least) / (4 * 128 * 144)
    assert states(1024) <= 1.1 * states(64) <= 71
    assert states(64 * 1024) <= 4.5 * states(64 * 64)


FIELDS = {  # what no call of a gradient holds
    "batch": -1, "tokens": -1, "sequences": 0, "scale": float("nan"), "l2norm_eps": 2.0, "scratch_bytes": 0,
    **dict.fromkeys(
        (
            "query", "key", "value", "log_decay", "beta", "state_in", "bounds", "output_cotangent", "state_cotangent", "scratch",
            "query_gradient", "key_gradient", "value_gradient", "log_decay_gradient", "beta_gradient", "state_gradient",
        )
    ),
}  # fmt: skip


def test_every_field_of_a_call_has_a_wrong_value():
    assert {name for name, _ in ffi().typeof("hj_delta_backward").fields} == set(FIELDS)


@pytest.mark.parametrize("field", FIELDS)
def test_a_wrong_call_is_refused_by_the_name_of_the_field(field):
    case = Case(isa=ISAS[-1], t=20)
    inputs = inputs_of(case)
    value = ffi().NULL if FIELDS[field] is None else FIELDS[field]
    status, gradients, _ = execute_backward(case, inputs, cotangents_of(case, inputs), **{field: value})
    assert status == abi.table("statuses").bad_call
    assert last_error().startswith(f"call: {field}"), last_error()
    assert np.isnan(gradients["state_in"]).all(), "something ran"


def test_bounds_that_descend_are_refused():
    case = Case(isa=ISAS[-1], t=20)
    inputs = inputs_of(case)
    inputs["bounds"][0] = (9, 3)
    status, _, _ = execute_backward(case, inputs, cotangents_of(case, inputs))
    assert status == abi.table("statuses").bad_call and "bounds[0][1]" in last_error()


@pytest.mark.parametrize(("field", "value"), [("column_blocks", 2), ("scratch_bytes", 64), ("workers", 0), ("chunk", 24)])
def test_a_plan_that_is_no_gradients_is_refused(field, value):
    case = Case(isa=ISAS[-1], t=20, dv=128)
    inputs, plan = inputs_of(case), backward_plan_of(case)
    setattr(plan, field, value)
    status, _, _ = execute_backward(case, inputs, cotangents_of(case, inputs), plan=plan)
    assert status == abi.table("statuses").bad_plan
    assert last_error().startswith(f"plan: {field}: expected "), last_error()
    if field != "scratch_bytes":
        assert library().hajax_cpu_backward_scratch_bytes(plan, ffi().sizeof("hj_cpu_plan"), 20) == -1


def test_a_missing_function_of_parallel_is_refused():
    case = Case(isa=ISAS[-1], t=20)
    inputs = inputs_of(case)
    parallel = ffi().new("hj_parallel *", {"run": ffi().NULL})
    status, _, _ = execute_backward(case, inputs, cotangents_of(case, inputs), parallel=parallel)
    assert status == abi.table("statuses").bad_call
