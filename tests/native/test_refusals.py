"""Corrupt plans and wrong calls: libhajax_cpu refuses them by name before anything runs."""

import numpy as np
import pytest
from kernel_driver import IN_FLOATS, ISAS, Case, execute, ffi, inputs_of, isas, last_error, library, plan_of

from hajax import abi

HUGE = (-(2**31), -7, 1 << 30, 2**31 - 1)
CORRUPT = {  # what no valid plan holds; for a CPU plan of 2 key heads, 4 value heads, Dk 40, Dv 24, chunk 32
    "magic": (0, 1, 2**32 - 1),
    "total_bytes": (0, 56, 1 << 31),
    "abi_digest": range(32),
    "backend": (0, 2, *HUGE),
    "decay": (3, *HUGE),
    "delta": (2, *HUGE),
    "strengths": (0, 3, *HUGE),
    "isa": (6, 7, *HUGE),
    "input_dtype": (3, *HUGE),
    "output_dtype": (3, *HUGE),
    "key_heads": (0, 3, 8, *HUGE),
    "value_heads": (0, 1, 3, *HUGE),
    "key_dim": (0, 4, 12, 264, *HUGE),
    "value_dim": (0, 4, 12, 264, *HUGE),
    "chunk": (0, 1, 24, 256, *HUGE),
    "panel": (0, 1, 7, 64, *HUGE),
    "group": (0, 3, 6, 8, *HUGE),
    "column_blocks": (0, 7, *HUGE),
    "token_steps": (-1, -(2**31)),
    "workers": (0, -1, 4097, *HUGE),
    "bf16_dot": (1, 2, *HUGE),
    "scratch_bytes": (0, 64, -64, 2**62, 2**63 - 1, 10**6 + 1),
}


def test_every_field_of_a_plan_has_corrupt_values():
    fields = [name for struct in ("hj_plan_header", "hj_cpu_plan") for name, _ in ffi().typeof(struct).fields]
    assert set(fields) - {"header"} == set(CORRUPT)


@pytest.mark.parametrize("field", CORRUPT)
def test_a_corrupt_plan_is_refused_by_the_name_of_the_field(field):
    case = Case(isa=IN_FLOATS[-1], hk=2, r=2, dv=24, chunk=32)
    inputs = inputs_of(case)
    for value in CORRUPT[field]:
        plan = plan_of(case)
        if field == "abi_digest":
            plan.header.abi_digest[value] ^= 1
        else:
            setattr(plan if hasattr(plan, field) else plan.header, field, value)
        status, output, _, _ = execute(case, inputs, plan=plan)
        assert status in (abi.table("statuses").bad_plan, abi.table("statuses").unsupported), f"{field}={value}: status {status}"
        if field not in ("key_heads",):  # whose change may show as a wrong value_heads
            assert last_error().startswith(f"plan: {field}: expected "), last_error()
        assert ", got " in last_error()
        assert (output == np.full(1, 0x7FFF, np.uint16).astype(np.float32)).all()


def test_the_message_names_field_expected_and_got():
    case = Case(isa=ISAS[-1])
    plan = plan_of(case)
    plan.key_dim = 12
    assert execute(case, inputs_of(case), plan=plan)[0] == abi.table("statuses").bad_plan
    assert last_error() == "plan: key_dim: expected a multiple of 8 in 8..256, got 12"
    assert library().hajax_cpu_scratch_bytes(plan, ffi().sizeof("hj_cpu_plan")) == -1


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ([[0, 70]], r"bounds[0][1]: expected 0..65"),
        ([[-1, 65]], r"bounds[0][0]"),
        ([[40, 30]], r"bounds[0][1]: expected 40..65 (ascending"),
    ],
)
def test_bad_bounds_are_refused_before_anything_runs(bounds, message):
    case = Case(isa=ISAS[-1])
    status, output, _, _ = execute(case, inputs_of(case) | {"bounds": np.array(bounds, np.int32)})
    assert status == abi.table("statuses").bad_call
    assert message in last_error()
    assert (output == np.full(1, 0x7FFF, np.uint16).astype(np.float32)).all()


@pytest.mark.parametrize(
    "name", ["query", "key", "value", "log_decay", "beta", "state_in", "bounds", "output", "state_out", "scratch"]
)
def test_a_null_buffer_is_refused_by_name(name):
    case = Case(isa=ISAS[-1])
    status, *_ = execute(case, inputs_of(case), **{name: ffi().NULL})
    assert status == abi.table("statuses").bad_call
    assert f"call: {name}" in last_error()


def test_bad_sizes_and_numbers_are_refused():
    case = Case(isa=ISAS[-1])
    inputs = inputs_of(case)
    plan = plan_of(case)
    bad = {"batch": -1, "tokens": 2**40, "sequences": 0, "scale": float("nan"), "l2norm_eps": float("nan"), "scratch_bytes": 64}
    for name, value in bad.items():
        status, *_ = execute(case, inputs, **{name: value})
        assert status == abi.table("statuses").bad_call
        assert name in last_error()
    assert library().hajax_execute(plan, 8, ffi().NULL, ffi().NULL, ffi().NULL) == abi.table("statuses").bad_plan
    size = ffi().sizeof("hj_cpu_plan")
    assert library().hajax_execute(plan, size, ffi().NULL, ffi().NULL, ffi().NULL) == abi.table("statuses").bad_call


def test_an_isa_that_is_missing_is_unsupported():
    case = Case(isa=ISAS[-1])
    plan = plan_of(case)
    plan.isa = next(isa for isa in abi.table("isas") if isa not in isas())
    assert execute(case, inputs_of(case), plan=plan)[0] == abi.table("statuses").unsupported
    assert "isa" in last_error()


def test_two_strengths_need_the_correction_and_a_decay_per_channel_refuses_the_bf16_dot_product():
    case = Case(isa=ISAS[-1], delta=0)
    plan = plan_of(case)
    plan.header.strengths = 2
    assert execute(case, inputs_of(case), plan=plan)[0] == abi.table("statuses").bad_plan
    assert last_error() == "plan: strengths: expected 1 without delta, got 2"
    for isa in {ISAS[-1], IN_FLOATS[-1]}:
        case = Case(isa=isa, channels=True, dtype="bfloat16")
        plan = plan_of(case)
        plan.bf16_dot = 1
        assert execute(case, inputs_of(case), plan=plan)[0] == abi.table("statuses").bad_plan
        assert last_error() == "plan: bf16_dot: expected 0 with a decay per channel, got 1"
