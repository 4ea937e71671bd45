"""Equal bits: on a second run, on one thread or two, and whatever the padding holds."""

import jax
import numpy as np
import pytest
from problem import eps_of, run_counted

from hajax.conformance import inputs, operator, parse

CASES = [
    "T=1 B=2 Hk=2 Hv=4 Dk=64 Dv=64",
    "T=130 B=2 Hk=2 Hv=4 Dk=64 Dv=72 decay=mixed",
    "T=70 Hk=1 Hv=3 Dk=128 Dv=128 dtype=bfloat16 l2norm=1",
    "T=190 Hk=1 Hv=2 Dk=32 Dv=40 dtype=float16 cu=0,0,1,100,190",
    "T=70 Hk=1 Hv=2 Dk=32 Dv=24 decay=wide op=kda",
    "T=70 Hk=1 Hv=2 Dk=32 Dv=24 op=gdn2",
    "T=600 Hk=2 Hv=4 Dk=128 Dv=128",
]


@pytest.mark.parametrize("implementation", ["cpu", "xla"])
@pytest.mark.parametrize("text", CASES)
def test_a_second_run_gives_equal_bits(text, implementation):
    case = parse(text)
    call = jax.jit(lambda xs: operator(case)(**xs, l2norm_eps=eps_of(case), implementation=implementation))
    first, second = (call(inputs(case)) for _ in range(2))
    for a, b in zip(first, second, strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


@pytest.mark.parametrize("text", CASES)
def test_one_and_two_threads_give_equal_bits(text, monkeypatch):
    case = parse(text)
    arrays = inputs(case)
    runs = []
    for threads in (1, 2):
        monkeypatch.setenv("HAJAX_CPU_THREADS", str(threads))
        runs.append(run_counted(case, arrays))
        assert runs[-1][3].launch.workers <= threads
        assert 1 <= runs[-1][2]["workers"] <= runs[-1][3].launch.workers
    assert runs[0][0].tobytes() == runs[1][0].tobytes()
    assert runs[0][1].tobytes() == runs[1][1].tobytes()


def test_the_largest_case_is_planned_for_both_threads(monkeypatch):
    """Else the test above would compare one thread with one thread."""
    monkeypatch.setenv("HAJAX_CPU_THREADS", "2")
    assert run_counted(parse(CASES[-1]), inputs(parse(CASES[-1])))[3].launch.workers == 2


@pytest.mark.parametrize("variable", ["0", "-1", "two", "1.5", "²", ""])
def test_a_thread_count_that_is_none_is_refused(variable, monkeypatch):
    monkeypatch.setenv("HAJAX_CPU_THREADS", variable)
    with pytest.raises(ValueError, match="HAJAX_CPU_THREADS: expected an integer from 1 to 4096, got"):
        run_counted(parse("T=3"), inputs(parse("T=3")))
