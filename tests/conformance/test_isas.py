"""The instruction set asked for is the one that runs, and each equals the recurrence; those the CPU lacks are skipped by name."""

import oracle
import pytest
from problem import expected_of, plan_of, run_counted, run_kernel

from hajax import abi, backends
from hajax.conformance import inputs, parse

CASES = [
    "T=1 Hk=2 Hv=4 Dk=64 Dv=40",
    "T=65 B=2 Hk=1 Hv=3 Dk=24 Dv=72 decay=mixed lengths=65,17",
    "T=130 Dk=128 Dv=128 dtype=bfloat16 l2norm=1",
    "T=90 Hk=2 Hv=2 Dk=40 Dv=16 dtype=float16 decay=resets",
    "T=150 Hk=1 Hv=2 cu=0,0,1,80,80,150 decay=strong",
    "T=100 Hk=1 Hv=2 Dk=128 Dv=64 op=kda decay=wide",
    "T=70 Hk=1 Hv=2 Dk=40 Dv=72 dtype=bfloat16 op=gla",
    "T=70 Hk=1 Hv=2 Dk=24 Dv=16 op=gdn2 decay=mixed",
]


@pytest.fixture(params=[isa.name for isa in abi.table("isas")])
def isa(request, monkeypatch):
    """Each row of isas.def, forced."""
    if request.param not in backends.available_isas():
        pytest.skip(f"not run: ISA {request.param}, which this library or CPU does not have")
    monkeypatch.setenv("HAJAX_CPU_ISA", request.param)
    return request.param


@pytest.mark.parametrize("text", CASES)
def test_the_forced_isa_is_executed_through_xla(text, isa):
    case = parse(text)
    arrays = inputs(case)
    output, state, counters, plan = run_counted(case, arrays)
    assert plan.launch.isa == isa
    assert counters["isa"] == abi.table("isas")[isa], "another instruction set ran than the one forced"
    assert counters["chunk"] == plan.launch.chunk
    assert counters["bf16_dot"] == int(plan.launch.bf16_dot and counters["chunks"] > 0)
    expected = expected_of(case, arrays)
    rounding = 0 if case.dtype == "float32" else 2 * oracle.ROUNDING[case.dtype]
    assert oracle.error(output, expected[0], case.dtype) ** 0.5 <= oracle.NMSE**0.5 + rounding
    assert oracle.error(state, expected[1]) <= oracle.NMSE


@pytest.mark.parametrize("text", CASES)
def test_xla_and_a_direct_call_give_equal_bits(text, isa):
    case = parse(text)
    arrays = inputs(case)
    plan = plan_of(case)
    direct, counted = run_kernel(case, arrays, plan), run_counted(case, arrays)
    assert plan.launch.isa == isa
    assert direct[0].tobytes() == counted[0].tobytes()
    assert direct[1].tobytes() == counted[1].tobytes()


def test_an_isa_that_the_cpu_lacks_is_refused_by_name(monkeypatch):
    monkeypatch.setenv("HAJAX_CPU_ISA", "sse9")
    with pytest.raises(ValueError, match=r"HAJAX_CPU_ISA: expected one of \(.*\) as this CPU runs, got 'sse9'"):
        backends.cpu_target()
