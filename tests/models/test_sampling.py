"""Sampling cuts where a sort would, draws with the right frequencies, and repeats under a seed."""

import jax
import numpy as np
import pytest
from hajax.models import Sampling
from hajax.models._sampling import greedy_tokens, kept_probabilities, sampled_tokens
from hypothesis import given, settings
from hypothesis import strategies as st

ROWS, VOCAB = 8, 50  # of everything here: one program each
kept = jax.jit(kept_probabilities)
sample = jax.jit(sampled_tokens)


def scalars(temperature, top_k, top_p):
    return np.float32(temperature), np.int32(top_k), np.float32(top_p)


def padded(*logits):
    """Rows of a few logits as [ROWS, VOCAB]: the last one repeats, and tokens that no draw takes fill them up."""
    rows = [list(row) + [-np.inf] * (VOCAB - len(row)) for row in logits]
    return np.array(rows + rows[-1:] * (ROWS - len(rows)), np.float32)


def sorted_cut(logits, temperature, top_k, top_p):
    """The same set by sorting, in float64."""
    scaled = logits.astype(np.float64) / temperature
    probabilities = np.exp(scaled - scaled.max())
    probabilities /= probabilities.sum()
    order = np.argsort(-probabilities)[:top_k]
    share = np.cumsum(probabilities[order]) / probabilities[order].sum()
    return set(order[: int(np.searchsorted(share, top_p)) + 1]), share


@given(st.integers(0, 10_000), st.sampled_from([0.1, 0.7, 1.0, 3.0]), st.integers(1, VOCAB), st.floats(0.05, 1.0))
@settings(max_examples=60)
def test_the_kept_set_is_that_of_a_sort(seed, temperature, top_k, top_p):
    logits = np.random.default_rng(seed).normal(0, 2, (ROWS, VOCAB)).astype(np.float32)
    found = np.asarray(kept(logits, *scalars(temperature, top_k, top_p)))
    for row in range(ROWS):
        expected, share = sorted_cut(logits[row], temperature, top_k, top_p)
        if np.abs(share - top_p).min() > 1e-5:  # a cut within rounding of the share may fall on either side
            ours = {int(i) for i in np.flatnonzero(found[row])}
            underflows = {i for i in expected if logits[row].max() - logits[row][i] > 80 * temperature}
            assert ours | underflows == expected | underflows


@pytest.mark.parametrize("spread", [1, 8, 25])
def test_without_cuts_every_token_stays(spread):
    """Those too that are too unlikely to count in a sum."""
    logits = np.random.default_rng(0).normal(0, spread, (ROWS, VOCAB)).clip(-40, 40).astype(np.float32)
    found = np.asarray(kept(logits, *scalars(1.0, VOCAB, 1.0)))
    exact = np.exp(logits.astype(np.float64) - logits.max(axis=-1, keepdims=True))
    np.testing.assert_allclose(found, exact / exact.sum(axis=-1, keepdims=True), rtol=2e-5)


def test_equal_probabilities_at_a_cut_all_stay():
    assert np.count_nonzero(kept(padded([2.0, 1.0, 1.0, 0.0]), *scalars(1.0, 2, 1.0))[0]) == 3


def test_extreme_logits_stay_finite_and_pick_the_top():
    logits = padded([1e30, -1e30, 0.0, -np.inf])
    assert np.isfinite(kept(logits, *scalars(0.5, 4, 0.9))).all()
    assert sample(logits, np.uint32(0), np.int32(0), *scalars(0.5, 4, 0.9)).tolist() == [0] * ROWS


def test_draws_follow_the_probabilities():
    logits = padded(np.log([0.5, 0.3, 0.15, 0.05]))
    draws = [sample(logits, np.uint32(7), np.int32(step), *scalars(1.0, 3, 1.0)) for step in range(500)]
    found = np.bincount(np.concatenate(draws), minlength=4) / 4000
    expected = np.array([0.5, 0.3, 0.15, 0]) / 0.95
    assert np.abs(found - expected).max() < 4 * np.sqrt(0.25 / 4000)
    assert found[3] == 0


def test_a_seed_repeats_its_draws_and_rows_and_steps_differ():
    logits = np.zeros((ROWS, VOCAB), np.float32)

    def draw(seed, step):
        return tuple(sample(logits, np.uint32(seed), np.int32(step), *scalars(1.0, VOCAB, 1.0)).tolist())

    assert draw(1, 0) == draw(1, 0)
    assert len({draw(1, 0), draw(2, 0), draw(1, 1)}) == 3
    assert len(set(draw(1, 0))) > 1


def test_greedy_takes_the_first_of_the_largest():
    assert greedy_tokens(np.array([[0.0, 3.0, 3.0], [5.0, 1.0, 2.0]], np.float32)).tolist() == [1, 0]


WRONG = [
    ({"temperature": -0.1}, "temperature: expected a number >= 0, got -0.1"),
    ({"temperature": float("nan")}, "temperature: expected a number >= 0, got nan"),
    ({"top_k": 0}, "top_k: expected an integer >= 1 or None, got 0"),
    ({"top_k": 2.5}, "top_k: expected an integer >= 1 or None, got 2.5"),
    ({"top_p": 0.0}, r"top_p: expected a number in \(0, 1\] or None, got 0.0"),
    ({"top_p": 1.5}, r"top_p: expected a number in \(0, 1\] or None, got 1.5"),
    ({"seed": -1}, "seed: expected an integer from 0 to 2\\^32 - 1, got -1"),
    ({"seed": 1 << 32}, "seed: expected an integer from 0 to 2\\^32 - 1, got 4294967296"),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG)
def test_wrong_settings_are_named(wrong, message):
    with pytest.raises(ValueError, match=message):
        Sampling(**wrong)
