"""Every wrong argument of the operator: the message names it, says what was expected and what came; never an internal error."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hajax import gated_delta_rule, gated_delta_rule_step


def arguments(**changes):
    good = {
        "query": jnp.ones((2, 5, 2, 16)),
        "key": jnp.ones((2, 5, 2, 16)),
        "value": jnp.ones((2, 5, 4, 24)),
        "log_decay": -jnp.ones((2, 5, 4)),
        "beta": jnp.ones((2, 5, 4)),
    }
    return good | changes


def packed(**changes):
    return {n: x[:1] for n, x in arguments().items()} | changes


SHAPES = [
    (arguments(query=jnp.ones((5, 2, 16))), r"query: expected rank 4 \[B, T, Hk, Dk\], got shape \(5, 2, 16\)"),
    (arguments(value=jnp.ones((2, 5, 4, 24, 1))), r"value: expected rank 4 \[B, T, Hv, Dv\], got shape \(2, 5, 4, 24, 1\)"),
    (arguments(key=jnp.ones((2, 5, 2, 24))), r"key: expected shape \(2, 5, 2, 16\) \[B, T, Hk, Dk\], got \(2, 5, 2, 24\)"),
    (arguments(key=jnp.ones((2, 5, 1, 16))), r"key: expected shape \(2, 5, 2, 16\) \[B, T, Hk, Dk\], got \(2, 5, 1, 16\)"),
    (arguments(value=jnp.ones((2, 6, 4, 24))), r"value: expected shape \(2, 5, 4, 24\) \[B, T, Hv, Dv\], got \(2, 6, 4, 24\)"),
    (arguments(value=jnp.ones((2, 5, 3, 24))), r"value: expected Hv to be a positive multiple of the query's Hk=2, got Hv=3"),
    (arguments(value=jnp.ones((2, 5, 0, 24))), r"value: expected Hv to be a positive multiple of the query's Hk=2, got Hv=0"),
    (arguments(query=jnp.ones((2, 5, 2, 12)), key=jnp.ones((2, 5, 2, 12))),
     r"query: expected a head dim that is a multiple of 8 from 8 to 256, got 12"),
    (arguments(query=jnp.ones((2, 5, 2, 264)), key=jnp.ones((2, 5, 2, 264))), r"query: expected a head dim .* got 264"),
    (arguments(value=jnp.ones((2, 5, 4, 20))), r"value: expected a head dim that is a multiple of 8 from 8 to 256, got 20"),
    (arguments(value=jnp.ones((2, 5, 4, 0))), r"value: expected a head dim .* got 0"),
    ({n: x[:, :0] for n, x in arguments().items()}, r"query: expected T >= 1, got shape \(2, 0, 2, 16\)"),
    ({n: x[:0] for n, x in arguments().items()}, r"query: expected B >= 1, got shape \(0, 5, 2, 16\)"),
    (arguments(log_decay=-jnp.ones((2, 5, 2))), r"log_decay: expected shape \(2, 5, 4\) \[B, T, Hv\], got \(2, 5, 2\)"),
    (arguments(log_decay=-jnp.ones((2, 5, 4, 16))), r"log_decay: expected shape \(2, 5, 4\) \[B, T, Hv\], got \(2, 5, 4, 16\)"),
    (arguments(beta=jnp.ones((2, 4, 5))), r"beta: expected shape \(2, 5, 4\) \[B, T, Hv\], got \(2, 4, 5\)"),
    (arguments(log_decay=jnp.ones((2, 5, 4))), r"log_decay: expected values <= 0, got 1"),
    (arguments(log_decay=jnp.full((2, 5, 4), jnp.nan)), r"log_decay: expected values <= 0, got nan"),
    (arguments(initial_state=jnp.ones((2, 4, 24, 16))),
     r"initial_state: expected shape \(2, 4, 16, 24\) \[B, Hv, Dk, Dv\], got \(2, 4, 24, 16\)"),
    (arguments(initial_state=jnp.ones((4, 16, 24))), r"initial_state: expected shape \(2, 4, 16, 24\) .* got \(4, 16, 24\)"),
    (packed(cu_seqlens=[0, 2, 5], initial_state=jnp.ones((1, 4, 16, 24))),
     r"initial_state: expected shape \(2, 4, 16, 24\) \[N, Hv, Dk, Dv\], got"),
    (arguments(lengths=[5, 6]), r"lengths: expected values in \[0, T=5\], got 6"),
    (arguments(lengths=[-1, 5]), r"lengths: expected values in \[0, T=5\], got -1"),
    (arguments(lengths=[5]), r"lengths: expected shape \(2,\) \[B\], got \(1,\)"),
    (arguments(lengths=[[5, 5]]), r"lengths: expected shape \(2,\) \[B\], got \(1, 2\)"),
    (arguments(lengths=[5, 5], cu_seqlens=[0, 5]), r"lengths and cu_seqlens: expected at most one of them, got both"),
    (arguments(cu_seqlens=[0, 5]), r"cu_seqlens: expected one packed row \(batch 1\), got batch 2"),
    (packed(cu_seqlens=[0]), r"cu_seqlens: expected at least 2 entries \[0, ..., T\], got shape \(1,\)"),
    (packed(cu_seqlens=[[0, 5]]), r"cu_seqlens: expected rank 1 \[N\+1\], got shape \(1, 2\)"),
    (packed(cu_seqlens=[0, 2, 4]), r"cu_seqlens: expected to start at 0 and end at T=5, got 0 and 4"),
    (packed(cu_seqlens=[1, 2, 5]), r"cu_seqlens: expected to start at 0 and end at T=5, got 1 and 5"),
    (packed(cu_seqlens=[0, 4, 2, 5]), r"cu_seqlens: expected ascending values, got \[0, 4, 2, 5\]"),
    (packed(cu_seqlens=np.array([0, 4, 2, 5], np.uint32)), r"cu_seqlens: expected ascending values, got \[0, 4, 2, 5\]"),
    (arguments(l2norm_eps=-1.0), r"l2norm_eps: expected a number >= 0 or None, got -1.0"),
    (arguments(l2norm_eps="small"), r"l2norm_eps: expected a number >= 0 or None, got 'small'"),
    (arguments(l2norm_eps=float("nan")), r"l2norm_eps: expected a number >= 0 or None, got nan"),
    (arguments(implementation="gpu"), r"implementation: expected None or one of \('cpu', 'sim', 'xla'\), got 'gpu'"),
]  # fmt: skip

DTYPES = [
    (arguments(query=jnp.ones((2, 5, 2, 16), jnp.int32)), r"query: expected dtype float32, bfloat16 or float16, got int32"),
    (arguments(key=jnp.ones((2, 5, 2, 16), jnp.bfloat16)), r"key: expected dtype float32 as the query has, got bfloat16"),
    (arguments(value=jnp.ones((2, 5, 4, 24), jnp.float16)), r"value: expected dtype float32 as the query has, got float16"),
    (arguments(query=jnp.ones((2, 5, 2, 16), jnp.complex64)), r"query: expected dtype .* got complex64"),
    (arguments(log_decay=-jnp.ones((2, 5, 4), jnp.int32)), r"log_decay: expected a floating-point dtype, got int32"),
    (arguments(beta=jnp.ones((2, 5, 4), bool)), r"beta: expected a floating-point dtype, got bool"),
    (arguments(initial_state=jnp.ones((2, 4, 16, 24), jnp.int32)), r"initial_state: expected a floating-point dtype, got int32"),
    (arguments(lengths=[5.0, 5.0]), r"lengths: expected an integer dtype, got float32"),
    (packed(cu_seqlens=[0.0, 5.0]), r"cu_seqlens: expected an integer dtype, got float32"),
    (arguments(query="text"), r"query: expected an array, got str"),
    (arguments(beta=None), r"beta: expected an array, got NoneType"),
    (arguments(scale="large"), r"scale: expected a number or None, got str"),
    (arguments(scale=jnp.ones(3)), r"scale: expected a number or None, got"),
    (arguments(preferred_element_type=jnp.int8), r"preferred_element_type: expected float32, bfloat16 or float16, got int8"),
    (
        arguments(preferred_element_type="float99"),
        r"preferred_element_type: expected float32, bfloat16 or float16, got .*float99",
    ),
]


@pytest.mark.parametrize(("bad", "message"), SHAPES, ids=range(len(SHAPES)))
def test_a_wrong_value_or_shape(bad, message):
    with pytest.raises(ValueError, match=message):
        gated_delta_rule(**bad)


@pytest.mark.parametrize(("bad", "message"), DTYPES, ids=range(len(DTYPES)))
def test_a_wrong_type(bad, message):
    with pytest.raises(TypeError, match=message):
        gated_delta_rule(**bad)


def test_shapes_are_refused_while_tracing():
    with pytest.raises(ValueError, match="key: expected shape"):
        jax.eval_shape(gated_delta_rule, **arguments(key=jnp.ones((2, 5, 2, 24))))


def test_fp64_is_refused_under_x64():
    with jax.enable_x64(True), pytest.raises(TypeError, match="query: expected dtype float32, bfloat16 or float16, got float64"):
        gated_delta_rule(**{n: np.asarray(x, np.float64) for n, x in arguments().items()})


def test_x64_mode_changes_nothing_for_fp32_inputs():
    xs = {n: np.asarray(x) / 4 for n, x in arguments().items()}
    expected = gated_delta_rule(**xs, lengths=[5, 3])
    for implementation in ("cpu", "xla"):
        with jax.enable_x64(True):
            got = gated_delta_rule(**xs, lengths=[5, 3], implementation=implementation)
        for a, b in zip(got, expected, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=1e-5)


def test_bounds_known_only_at_run_time_are_refused_by_the_kernel():
    call = jax.jit(lambda xs, n: gated_delta_rule(**xs, lengths=n, implementation="cpu"))
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"bounds\[0\]\[1\]: expected 0..5 .* got 6"):
        jax.block_until_ready(call(arguments(), jnp.array([6, 5])))


def test_garbage_decays_at_padding_are_not_refused():
    decay = arguments()["log_decay"].at[1, 3:].set(jnp.nan).at[0, 4:].set(7.0)
    output, _ = gated_delta_rule(**arguments(log_decay=decay, lengths=[4, 3]))
    assert np.isfinite(np.asarray(output)).all()


def step_arguments(**changes):
    good = {n: x[:, 0] for n, x in arguments().items()} | {"state": jnp.ones((2, 4, 16, 24))}
    return good | changes


@pytest.mark.parametrize(("bad", "error", "message"), [
    (step_arguments(query=jnp.ones((2, 1, 2, 16))), ValueError,
     r"query: expected rank 3 \[B, Hk, Dk\], got shape \(2, 1, 2, 16\)"),
    (step_arguments(beta=jnp.ones((2, 2))), ValueError, r"beta: expected shape \(2, 4\) \[B, Hv\], got \(2, 2\)"),
    (step_arguments(state=jnp.ones((1, 4, 16, 24))), ValueError,
     r"state: expected shape \(2, 4, 16, 24\) \[B, Hv, Dk, Dv\], got \(1, 4, 16, 24\)"),
    (step_arguments(state=None), TypeError, r"state: expected an array \[B, Hv, Dk, Dv\], got None"),
    (step_arguments(state=jnp.ones((2, 4, 16, 24), jnp.int8)), TypeError, r"state: expected a floating-point dtype, got int8"),
    (step_arguments(log_decay=jnp.ones((2, 4))), ValueError, r"log_decay: expected values <= 0, got 1"),
])  # fmt: skip
def test_a_wrong_argument_of_the_step(bad, error, message):
    with pytest.raises(error, match=message):
        gated_delta_rule_step(**bad)
