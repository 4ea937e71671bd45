"""Case strings: text and case are one thing, bad text is refused, equal text draws equal inputs."""

import numpy as np
import pytest
from hypothesis import given
from problem import cases

from hajax.conformance import BETAS, DECAYS, KEYS, OPS, Case, check, inputs, nmse, parse, recurrence


@given(cases())
def test_a_case_survives_its_text(case):
    assert parse(str(case)) == case


def test_equal_text_draws_equal_inputs_and_another_text_draws_others():
    first, again, other = (inputs(parse(text)) for text in ("T=5 decay=weak", "T=5 decay=weak", "T=5 decay=strong"))
    assert all(first[n].tobytes() == again[n].tobytes() for n in first)
    assert first["query"].tobytes() != other["query"].tobytes()


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("tokens", [1, 2, 9, 10, 64, 71, 300])
def test_every_kind_of_keys_covers_every_token(kind, tokens):
    arrays = inputs(Case(tokens, keys=kind))
    assert arrays["key"].shape == (1, tokens, 1, 16)
    assert np.isfinite(arrays["key"]).all()


@pytest.mark.parametrize("decay", DECAYS)
@pytest.mark.parametrize("beta", BETAS)
def test_every_kind_of_decay_and_strength_is_in_range(decay, beta):
    arrays = inputs(Case(100, decay=decay, beta=beta))
    assert (arrays["log_decay"] <= 0).all()
    assert ((arrays["beta"] >= 0) & (arrays["beta"] <= 1)).all()


def test_the_recurrence_by_hand():
    """Two tokens, one head, all in eighths: S1 = k1 (b1 v1), o1 = q1 S1 / sqrt(Dk), then decay, correction, update."""
    k, v = np.eye(8)[:2].reshape(1, 2, 1, 8), np.arange(16.0).reshape(1, 2, 1, 8)
    k[0, 1] = k[0, 0]
    arrays = {"query": k, "key": k, "value": v, "log_decay": np.log([[[0.5], [0.25]]]), "beta": np.array([[[0.5], [1.0]]])}
    output, state = recurrence(arrays)
    np.testing.assert_allclose(output[0, 0, 0] * 8**0.5, v[0, 0, 0] / 2)
    np.testing.assert_allclose(output[0, 1, 0] * 8**0.5, v[0, 1, 0])  # beta 1 with the same key replaces what was there
    np.testing.assert_allclose(state[0, 0, 0], v[0, 1, 0])
    assert not state[0, 0, 1:].any()


def test_the_recurrence_by_hand_with_a_decay_of_each_channel_and_two_strengths():
    """Two tokens with the keys e0 and e0 + e1; channel 0 halves, channel 1 is kept; half is erased, a quarter written."""
    v = np.arange(16.0).reshape(1, 2, 1, 8)
    k = np.zeros((1, 2, 1, 8))
    k[0, 0, 0, 0] = k[0, 1, 0, 0] = k[0, 1, 0, 1] = 1
    decay = np.zeros((1, 2, 1, 8))
    decay[0, 1, 0, 0] = np.log(0.5)
    arrays = {"query": k, "key": k, "value": v, "log_decay": decay}
    arrays |= {"beta": np.full((1, 2, 1), 0.25), "erase": np.full((1, 2, 1), 0.5)}
    _, state = recurrence(arrays)
    first = v[0, 0, 0] / 4
    update = v[0, 1, 0] / 4 - first / 4
    np.testing.assert_allclose(state[0, 0, :2], [first / 2 + update, update])
    _, plain = recurrence({n: arrays[n] for n in ("query", "key", "value")}, delta=False)
    np.testing.assert_allclose(plain[0, 0, :2], [v[0, 0, 0] + v[0, 1, 0], v[0, 1, 0]])


@pytest.mark.parametrize("op", OPS)
def test_a_member_has_its_inputs_and_its_operator(op):
    case = Case(3, op=op)
    arrays = inputs(case)
    assert ("log_decay" in arrays, "erase" in arrays) == (case.mechanism.decay != "none", case.mechanism.strengths == 2)
    if case.mechanism.decay == "per_channel":
        assert arrays["log_decay"].shape == (1, 3, 1, 16)
    assert check(case, "cpu").output_nmse <= 1e-11


def test_channels_are_drawn_from_none_to_strong_in_one_head():
    decay = inputs(parse("T=50 Dk=32 op=kda decay=wide"))["log_decay"][0, :, 0]
    assert sorted(decay.mean(0))[-1] == 0
    assert decay.mean(0).min() < -20
    assert inputs(parse("T=50 op=kda decay=bounded"))["log_decay"].min() >= -5


def test_nmse_of_zeros_and_of_nan():
    assert nmse(np.zeros(3), np.zeros(3)) == 0
    assert nmse(np.ones(3), np.zeros(3)) == np.inf
    assert nmse(np.array([np.nan, 1]), np.ones(2)) == np.inf
    assert nmse(np.array([1.0, 2.0]), np.array([1.0, 1.0])) == 0.5


def test_check_reports_both_results():
    result = check(parse("T=9 Hv=2"), "cpu")
    assert result.case == "T=9 Hv=2" or result.case.startswith("T=9")
    assert 0 <= result.output_nmse <= 1e-11
    assert 0 <= result.state_nmse <= 1e-11
    assert result.output_max_error < 1e-5


@pytest.mark.parametrize(("text", "message"), [
    ("", "expected T=<tokens>"), ("B=2", "expected T=<tokens>"), ("T=many", "expected an integer after T=, got 'many'"),
    ("T", "expected NAME=VALUE"), ("T=5 colour=red", "expected NAME=VALUE with a name of"),
    ("T=5 decay=slow", "expected decay to be one of"),
    ("T=5 dtype=float64", "expected dtype to be one of"), ("T=5 lengths=1,x", "expected an integer after lengths="),
    ("T=5 op=mamba", "expected op to be one of"),
    ("T=-1", "expected tokens >= 1, got -1"), ("T=5 T=6", "expected T once, got it again in 'T=6'"),
    ("T=5 state=2", "expected state to be 0 or 1, got 2"),
    ("T=70 B=2 lengths=150,70", "expected lengths from 0 to T=70, got 150"),
    ("T=5 lengths=-1", "expected lengths from 0 to T=5, got -1"),
    ("T=70 B=2 lengths=70", "expected one of lengths for each of B=2 rows, got 1"),
    ("T=70 cu=0,80", "expected cu to ascend from 0 to T=70, got 0,80"), ("T=5 cu=1,5", "expected cu to ascend from 0 to T=5"),
    ("T=5 cu=0,3,2,5", "expected cu to ascend from 0 to T=5, got 0,3,2,5"), ("T=5 cu=5", "expected cu to ascend from 0 to T=5"),
    ("T=5 B=2 cu=0,5", "expected B=1 with cu, got B=2"),
    ("T=5 cu=0,5 lengths=5", "expected at most one of lengths and cu, got both"),
    ("T=70 Hv=3 Hk=2", "expected value_heads to be a multiple of key_heads=2, got 3"),
    ("T=5 Dk=12", "expected key_dim to be a multiple of 8 up to 256, got 12"),
    ("T=5 Dv=264", "expected value_dim to be a multiple of 8 up to 256, got 264"),
    ("T=10000000000", r"expected at most 134217728 elements of \[B, T, Hv, max\(Dk, Dv\)\], got 160000000000"),
    ("T=1 B=4096 Dk=256 Dv=256", r"expected at most 134217728 elements of \[sequences, Hv, Dk, Dv\], got 268435456"),
    ("T=5 keys=odd", "expected keys to be one of"), ("T=5 beta=2", "expected beta to be one of"),
])  # fmt: skip
def test_bad_text_is_refused_by_the_word(text, message):
    with pytest.raises(ValueError, match=f"case: {message}"):
        parse(text)


def test_a_case_is_checked_when_it_is_made_without_text():
    with pytest.raises(ValueError, match=r"^case: expected one of lengths for each of B=2 rows, got 1$"):
        Case(5, batch=2, lengths=(5,))
    assert parse("T=5 cu=0,0,5,5 state=0 l2norm=1") == Case(5, cu=(0, 0, 5, 5), state=False, l2norm=True)
