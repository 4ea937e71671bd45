"""A state that only decays: its error is that of the summed exponent, so sums must lose nothing to rounding.

Summed and rounded in fp32, an exponent of -64 is off by 4e-6: NMSE 1.5e-11, past the bound.
"""

import numpy as np
import oracle
import pytest
from problem import Case, run_kernel

from hajax import gated_delta_rule, kda
from hajax.conformance import inputs, recurrence


def drawn(rate, tokens, written, seed):
    """Decays around `rate` a token; only the first `written` tokens write."""
    case = Case(tokens, value_heads=4, decay="weak")
    arrays, rng = inputs(case), np.random.default_rng(seed)
    arrays["log_decay"] = -(rate * rng.uniform(0, 2, arrays["log_decay"].shape)).astype(np.float32)
    arrays["beta"][:, written:] = 0
    return case, arrays


def drawn_by_channel(rate, tokens, written, seed):
    """As above with channels around that rate, and one in four that decays as much with every token."""
    case = Case(tokens, value_heads=2, decay="weak", op="kda")
    arrays, rng = inputs(case), np.random.default_rng(seed)
    decay = rate * rng.uniform(0, 2, arrays["log_decay"].shape)
    decay[..., ::4] = rate
    arrays["log_decay"] = -decay.astype(np.float32)
    arrays["beta"][:, written:] = 0
    return case, arrays


PROBLEMS = [(1.0, 64, 0), (1.0, 64, 16), (0.3, 128, 0), (0.3, 128, 32), (0.1, 700, 0), (0.1, 700, 175)]


@pytest.mark.parametrize(("rate", "tokens", "written"), PROBLEMS)
def test_the_kernel_keeps_an_idle_state(rate, tokens, written):
    for seed in range(6):
        case, arrays = drawn(rate, tokens, written, seed)
        assert oracle.error(run_kernel(case, arrays)[1], recurrence(arrays)[1]) <= oracle.NMSE


@pytest.mark.parametrize(("rate", "tokens", "written"), [*PROBLEMS, (0.003, 700, 175), (1e-4, 700, 0)])
def test_the_kernel_keeps_the_idle_channels_of_a_state(rate, tokens, written):
    for seed in range(3):
        case, arrays = drawn_by_channel(rate, tokens, written, seed)
        assert oracle.error(run_kernel(case, arrays)[1], recurrence(arrays)[1]) <= oracle.NMSE


@pytest.mark.parametrize(("rate", "tokens", "written"), PROBLEMS[::2])
def test_the_reference_keeps_the_idle_channels_of_a_state(rate, tokens, written):
    for seed in range(2):
        _, arrays = drawn_by_channel(rate, tokens, written, seed)
        assert oracle.error(kda(**arrays, implementation="xla")[1], recurrence(arrays)[1]) <= oracle.NMSE


@pytest.mark.parametrize(("rate", "tokens", "written"), PROBLEMS)
def test_the_reference_keeps_an_idle_state(rate, tokens, written):
    for seed in range(3):
        _, arrays = drawn(rate, tokens, written, seed)
        assert oracle.error(gated_delta_rule(**arrays, implementation="xla")[1], recurrence(arrays)[1]) <= oracle.NMSE
