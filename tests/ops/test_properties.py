"""What broke in other implementations of this operator, as properties on inputs of our own.

Numbers are those of the list that they come from (models-and-peers.md, section 5).
"""

import functools
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from problem import run_kernel

from hajax import gated_delta_rule, gated_rms_norm
from hajax.conformance import Case, inputs, parse, recurrence

NAMES = ("query", "key", "value", "log_decay", "beta")
IMPLEMENTATIONS = ("cpu", "xla")


def call(arrays, implementation, tokens=slice(None), rows=slice(None), state=None, **options):
    xs = [arrays[n][rows, tokens] for n in NAMES]
    return gated_delta_rule(*xs, initial_state=state, implementation=implementation, **options)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_a_row_of_a_batch_equals_its_run_alone(implementation):  # 1
    arrays = inputs(parse("T=70 B=3 Hk=1 Hv=2"))
    together = call(arrays, implementation, state=arrays["initial_state"])
    for row in range(3):
        one = slice(row, row + 1)
        alone = call(arrays, implementation, rows=one, state=arrays["initial_state"][one])
        for a, b in zip(together, alone, strict=True):
            assert oracle.error(a[one], np.asarray(b).astype(np.float64)) <= oracle.NMSE


def test_a_split_at_every_token_equals_the_whole():  # 2, 3; called directly: compiling each length would take minutes
    case = Case(tokens=131, key_heads=1, value_heads=2, key_dim=24, value_dim=8)
    arrays = inputs(case)
    expected = recurrence(arrays)

    def part(tokens, state):
        piece = {n: arrays[n][:, tokens] for n in NAMES} | {"initial_state": state}
        return run_kernel(Case(piece["query"].shape[1], **{k: getattr(case, k) for k in SAME}), piece)

    SAME = ("key_heads", "value_heads", "key_dim", "value_dim")
    for cut in range(1, 131):
        first, state, _ = part(slice(None, cut), arrays["initial_state"])
        second, state, _ = part(slice(cut, None), state)
        assert oracle.error(np.concatenate([first, second], 1), expected[0]) <= oracle.NMSE, f"cut at {cut}"
        assert oracle.error(state, expected[1]) <= oracle.NMSE, f"cut at {cut}"


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("cut", [1, 3, 64, 65])
def test_a_prompt_in_two_calls_equals_one_call(cut, implementation):  # 2, 3 and 12
    arrays = inputs(parse("T=130 Hk=1 Hv=2"))
    expected = recurrence(arrays)
    first, state = call(arrays, implementation, slice(None, cut), state=arrays["initial_state"])
    second, state = call(arrays, implementation, slice(cut, None), state=state)
    assert oracle.error(np.concatenate([first, second], 1), expected[0]) <= oracle.NMSE
    assert oracle.error(state, expected[1]) <= oracle.NMSE


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("garbage", [0.0, np.nan, np.inf, -np.inf, 3e38])
def test_a_tail_of_any_content_changes_nothing(garbage, implementation):  # 4, 5, 6: a row padded to a bucket equals the row
    arrays = inputs(parse("T=80 B=2 Hk=1 Hv=2 lengths=70,80 l2norm=1"))
    padded = {n: arrays[n].copy() for n in NAMES}
    for n in NAMES:
        padded[n][0, 70:] = garbage
    options = {"lengths": arrays["lengths"], "l2norm_eps": 1e-6, "state": arrays["initial_state"]}
    output, state = call(padded, implementation, **options)
    expected = recurrence(arrays, l2norm_eps=1e-6)
    assert oracle.error(output, expected[0]) <= oracle.NMSE
    assert oracle.error(state, expected[1]) <= oracle.NMSE
    assert not np.asarray(output[0, 70:]).any()


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_a_second_chunk_may_be_padded_too(implementation):  # 4
    arrays = inputs(parse("T=40 B=2 Hk=1 Hv=2"))
    expected = recurrence(arrays)
    _, state = call(arrays, implementation, slice(0, 24), state=arrays["initial_state"])
    rest = {n: np.concatenate([arrays[n][:, 24:], np.full_like(arrays[n][:, :8], np.nan)], 1) for n in NAMES}
    output, state = call(rest, implementation, state=state, lengths=np.array([16, 16]))
    assert oracle.error(output[:, :16], expected[0][:, 24:]) <= oracle.NMSE
    assert oracle.error(state, expected[1]) <= oracle.NMSE


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_an_empty_row_keeps_its_state_to_the_bit(implementation):
    arrays = inputs(parse("T=16 B=2 Hk=1 Hv=2"))
    _, state = call(arrays, implementation, state=arrays["initial_state"], lengths=np.array([0, 16]))
    assert np.asarray(state[0]).tobytes() == arrays["initial_state"][0].tobytes()


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("log_decay", [0.0, -1e-4, -5.0, -20.0, -80.0, -100.0, -1e4, -1e30, -np.inf])
def test_one_decay_at_every_token_stays_finite_and_right(log_decay, implementation):  # 7
    arrays = inputs(parse("T=70 Hk=1 Hv=2"))
    arrays["log_decay"][:] = log_decay
    expected = recurrence(arrays)
    output, state = call(arrays, implementation, state=arrays["initial_state"])
    assert oracle.error(output, expected[0]) <= oracle.NMSE
    assert oracle.error(state, expected[1]) <= oracle.NMSE


def test_many_chunks_and_heads_at_once():  # 8: 1024 chunk-head pairs and more
    case = parse("T=700 B=3 Hk=8 Hv=32 Dk=8 Dv=8")
    arrays = inputs(case)
    output, state = call(arrays, "cpu", state=arrays["initial_state"])
    expected = recurrence(arrays)
    assert oracle.error(output, expected[0]) <= oracle.NMSE
    assert oracle.error(state, expected[1]) <= oracle.NMSE


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_without_decay_it_is_the_ungated_delta_rule(implementation):  # 9: S <- (I - beta k k^T) S + beta k v^T, written out
    arrays = inputs(parse("T=70 Hk=2 Hv=2 decay=none"))
    output, state = call(arrays, implementation, state=arrays["initial_state"])
    q, k, v, _, beta = (arrays[n][0].astype(np.float64) for n in NAMES)
    expected_state, expected = arrays["initial_state"][0].astype(np.float64), []
    for t in range(70):
        for head in range(2):
            kk = np.outer(k[t, head], k[t, head])
            s = expected_state[head]
            expected_state[head] = s - beta[t, head] * (kk @ s) + beta[t, head] * np.outer(k[t, head], v[t, head])
        expected.append(np.einsum("hk,hkv->hv", q[t], expected_state) / 4)
    assert oracle.error(output[0], np.array(expected)) <= oracle.NMSE
    assert oracle.error(state[0], expected_state) <= oracle.NMSE


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("text", [
    "T=1 Hk=2 Hv=4 Dk=8 Dv=16", "T=2 Hk=4 Hv=8 Dk=16 Dv=8", "T=3 B=2 Hk=5 Hv=5 Dk=8 Dv=24", "T=4 Hk=4 Hv=4 Dk=8 Dv=8",
])  # fmt: skip
def test_fewer_tokens_than_heads(text, implementation):  # 10
    arrays = inputs(parse(text))
    expected = recurrence(arrays)
    output, state = call(arrays, implementation, state=arrays["initial_state"])
    assert oracle.error(output, expected[0]) <= oracle.NMSE
    assert oracle.error(state, expected[1]) <= oracle.NMSE


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_a_readout_past_fp16_survives_until_the_norm(implementation):  # 11
    """fp16 inputs, weak decay: the readout passes 65504. Asked for in fp32 it stays finite and normalises as in fp64."""
    arrays = inputs(parse("T=70 dtype=float16 decay=weak beta=one"))
    arrays["initial_state"] *= 1e6
    expected = recurrence(arrays)
    assert np.abs(expected[0]).max() > 65504
    output, _ = call(arrays, implementation, state=arrays["initial_state"], preferred_element_type=jnp.float32)
    assert oracle.error(output, expected[0]) <= oracle.NMSE
    normed = gated_rms_norm(output, jnp.ones(output.shape, jnp.float16), jnp.ones(16))
    exact = expected[0] / np.sqrt((expected[0] ** 2).mean(-1, keepdims=True)) / (1 + np.exp(-1))
    assert normed.dtype == jnp.float16
    assert oracle.error(normed, exact) ** 0.5 <= 2 * oracle.ROUNDING["float16"]


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_a_snapshot_at_a_block_boundary_resumes_identically(implementation):  # 12
    """The state at token 128 of 130 is the one that a run of 128 tokens leaves, and going on from it changes no bit."""
    arrays = inputs(parse("T=130 Hk=1 Hv=2"))
    resume = functools.partial(call, arrays, implementation, slice(128, None))
    _, snapshot = call(arrays, implementation, slice(None, 128), state=arrays["initial_state"])
    kept = np.asarray(snapshot).copy()
    first, second = resume(state=snapshot), resume(state=jnp.asarray(kept))
    assert np.asarray(snapshot).tobytes() == kept.tobytes()
    for a, b in zip(first, second, strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
    assert oracle.error(first[0], recurrence(arrays)[0][:, 128:]) <= oracle.NMSE


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("shared", [1, 2, 3])
def test_value_head_h_reads_key_head_h_over_r(shared, implementation):  # 17
    """Key heads that differ by orders of magnitude in scale: a wrong mapping cannot pass."""
    arrays = inputs(parse(f"T=16 Hk=3 Hv={3 * shared}"))
    arrays["query"] *= np.array([1, 10, 100], np.float32)[None, None, :, None]
    output, state = call(arrays, implementation, state=arrays["initial_state"])
    for head in range(3 * shared):
        h = slice(head // shared, head // shared + 1)
        v = slice(head, head + 1)
        alone = {"query": arrays["query"][:, :, h], "key": arrays["key"][:, :, h]}
        alone |= {n: arrays[n][:, :, v] for n in NAMES[2:]} | {"initial_state": arrays["initial_state"][:, v]}
        expected = recurrence(alone)
        assert oracle.error(output[:, :, v], expected[0]) <= oracle.NMSE
        assert oracle.error(state[:, v], expected[1]) <= oracle.NMSE


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("cuts", [(0, 57, 59, 64, 64), (0, 0, 1, 1, 64), (0, 64, 64, 64, 64), (0, 1, 2, 3, 64)])
def test_packed_sequences_equal_each_alone(cuts, implementation):  # 19
    arrays = inputs(parse(f"T=64 Hk=1 Hv=2 cu={','.join(map(str, cuts))}"))
    output, state = call(arrays, implementation, state=arrays["initial_state"], cu_seqlens=arrays["cu_seqlens"])
    for n, (start, end) in enumerate(pairwise(cuts)):
        alone = {name: arrays[name][:, start:end] for name in NAMES} | {"initial_state": arrays["initial_state"][n : n + 1]}
        expected = recurrence(alone)
        assert oracle.error(output[:, start:end], expected[0]) <= oracle.NMSE
        assert oracle.error(state[n : n + 1], expected[1]) <= oracle.NMSE


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_nothing_leaks_from_one_packed_sequence_to_another(implementation):  # 19
    arrays = inputs(parse("T=64 Hk=1 Hv=2 cu=0,20,21,21,64"))
    options = {"state": arrays["initial_state"], "cu_seqlens": arrays["cu_seqlens"]}
    clean = call(arrays, implementation, **options)
    for n in ("query", "key", "value"):
        arrays[n][:, 20:21] = np.nan
    dirty = call(arrays, implementation, **options)
    for a, b in ((clean[0][:, :20], dirty[0][:, :20]), (clean[0][:, 21:], dirty[0][:, 21:]), (clean[1][::3], dirty[1][::3])):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
    assert np.isnan(np.asarray(dirty[0][:, 20])).any(), "a NaN inside a sequence must show"


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("eps", [1e-6, 1e-5, 1e-3])
def test_the_eps_of_the_norm_is_the_one_given(eps, implementation):  # 22
    """Rows of norm 1e-3: with 1e-5 instead of 1e-6 the output is off by a factor of two."""
    arrays = inputs(parse("T=16"))
    for n in ("query", "key"):
        arrays[n] = arrays[n] * np.float32(1e-3)
    output, state = call(arrays, implementation, state=arrays["initial_state"], l2norm_eps=eps)
    expected = recurrence(arrays, l2norm_eps=eps)
    assert oracle.error(output, expected[0]) <= oracle.NMSE
    assert oracle.error(state, expected[1]) <= oracle.NMSE


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_zero_queries_and_keys_are_finite_under_l2norm(implementation):  # 5
    arrays = inputs(parse("T=16 Hk=1 Hv=2"))
    for n in ("query", "key"):
        arrays[n][:] = 0
    output, state = call(arrays, implementation, state=arrays["initial_state"], l2norm_eps=1e-6)
    assert not np.asarray(output).any()
    assert oracle.error(state, recurrence(arrays, l2norm_eps=1e-6)[1]) <= oracle.NMSE


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_strided_and_transposed_views_are_read_as_they_look(implementation):
    arrays = inputs(parse("T=16 B=2 Hk=2 Hv=2"))
    views = {n: np.flip(np.ascontiguousarray(np.flip(arrays[n], 1)), 1) for n in NAMES}
    got = jax.jit(lambda q, *xs: gated_delta_rule(jnp.swapaxes(q, 1, 2), *xs, implementation=implementation))(
        np.swapaxes(views["query"], 1, 2), *(views[n] for n in NAMES[1:])
    )
    for a, b in zip(got, recurrence({n: arrays[n] for n in NAMES}), strict=True):
        assert oracle.error(a, b) <= oracle.NMSE
