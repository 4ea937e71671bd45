"""kda and linear_attention as operators: what their arguments mean, under every transformation, and what they refuse."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P
from problem import eps_of, expected_of

from hajax import gated_delta_rule, kda, kda_step, linear_attention, ops
from hajax.conformance import inputs, operator, parse

NAMES = ("query", "key", "value", "log_decay", "beta")
IMPLEMENTATIONS = ("cpu", "xla")


def arrays_of(text):
    return {n: jnp.asarray(x) for n, x in inputs(parse(text)).items()}


def assert_close(got, expected):
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        assert a.shape == b.shape
        assert oracle.error(a, np.asarray(b).astype(np.float64)) <= oracle.NMSE


def assert_equal_bits(got, expected):
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_the_general_operator_given_all_parts_is_the_named_one(implementation):
    for text, named in (("T=20 Hk=1 Hv=2", gated_delta_rule), ("T=20 Hk=1 Hv=2 op=kda", kda)):
        arrays = arrays_of(text)
        general = linear_attention(**arrays, delta=True, implementation=implementation)
        assert_equal_bits(general, named(**arrays, implementation=implementation))


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_parts_that_are_left_out_are_neutral(implementation):
    """No decay is a decay of zero, no beta is ones, no erase is beta."""
    arrays = arrays_of("T=20 Hk=1 Hv=2 op=gdn2")
    zeros, ones = jnp.zeros_like(arrays["beta"]), jnp.ones_like(arrays["beta"])
    rows = {n: arrays[n] for n in ("query", "key", "value", "initial_state")}
    call = functools.partial(linear_attention, **rows, implementation=implementation)
    decay, beta = arrays["log_decay"], arrays["beta"]
    assert_close(call(), call(log_decay=zeros, beta=ones))
    assert_close(call(delta=True, beta=beta), call(delta=True, beta=beta, log_decay=zeros))
    assert_close(call(delta=True, log_decay=decay), call(delta=True, log_decay=decay, beta=ones))
    assert_close(call(delta=True, log_decay=decay, beta=beta), call(delta=True, log_decay=decay, beta=beta, erase=beta))


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_channels_that_share_a_decay_are_one_decay(implementation):
    arrays = arrays_of("T=20 Hk=1 Hv=2 Dk=24")
    shared = arrays | {"log_decay": jnp.broadcast_to(arrays["log_decay"][..., None], (1, 20, 2, 24))}
    assert_close(kda(**shared, implementation=implementation), gated_delta_rule(**arrays, implementation=implementation))


def test_keywords_mean_what_they_mean_to_the_gated_delta_rule():
    arrays = arrays_of("T=12 Hk=1 Hv=2 op=kda dtype=bfloat16")
    output, state = kda(**arrays, scale=0.25)
    scaled, same = kda(**arrays, scale=1.0, preferred_element_type=jnp.float32)
    assert (output.dtype, scaled.dtype, state.dtype) == (jnp.bfloat16, jnp.float32, jnp.float32)
    assert_equal_bits(same, state)
    assert oracle.error(output, np.asarray(scaled / 4).astype(np.float64)) ** 0.5 <= 2 * oracle.ROUNDING["bfloat16"]


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_kda_steps_equal_the_recurrence(implementation):
    case = parse("T=12 B=2 Hk=2 Hv=4 Dk=16 Dv=8 op=kda l2norm=1 decay=wide")
    arrays = inputs(case)
    step = jax.jit(functools.partial(kda_step, l2norm_eps=eps_of(case), implementation=implementation))
    state, outputs = jnp.asarray(arrays["initial_state"]), []
    for t in range(12):
        output, state = step(*(arrays[n][:, t] for n in NAMES), state)
        outputs.append(np.asarray(output))
    expected = expected_of(case, arrays)
    assert oracle.error(state, expected[1]) <= oracle.NMSE
    assert oracle.error(np.stack(outputs, 1), expected[0]) <= oracle.NMSE


def test_a_donated_state_of_kda_stays_where_it_is():
    arrays = inputs(parse("T=1 B=2 Hk=2 Hv=4 Dk=64 Dv=64 op=kda"))
    step = jax.jit(functools.partial(kda_step, implementation="cpu"), donate_argnums=5)
    state = jnp.array(arrays["initial_state"], copy=True)
    pointer = state.unsafe_buffer_pointer()
    _, state = step(*(arrays[n][:, 0] for n in NAMES), state)
    assert state.unsafe_buffer_pointer() == pointer


@pytest.mark.parametrize("op", ["kda", "gdn2", "lin"])
def test_vmap_over_odd_axes_equals_a_loop(op):
    arrays = arrays_of(f"T=9 B=3 Hk=1 Hv=2 op={op}")
    call = functools.partial(operator(parse(f"T=9 op={op}")), implementation="cpu")
    rows = {n: x[:, None] for n, x in arrays.items()}
    axes = {n: x.ndim - 1 if n == "value" else 0 for n, x in rows.items()}
    moved = {n: jnp.moveaxis(x, 0, axes[n]) for n, x in rows.items()}
    got = jax.vmap(lambda xs: call(**xs), in_axes=(axes,))(moved)
    assert_equal_bits([x[:, 0] for x in got], call(**arrays))


@pytest.mark.parametrize("op", ["kda", "gdn2"])
def test_jit_eval_shape_and_ahead_of_time_agree(op):
    arrays = arrays_of(f"T=10 Hk=1 Hv=2 op={op} dtype=float16")
    call = lambda xs: operator(parse(f"T=10 op={op}"))(**xs, implementation="cpu")
    eager, shapes = call(arrays), jax.eval_shape(call, arrays)
    assert [(x.shape, x.dtype) for x in shapes] == [(x.shape, x.dtype) for x in eager]
    assert_equal_bits(jax.jit(call)(arrays), eager)
    assert_equal_bits(jax.jit(call).lower(arrays).compile()(arrays), eager)


@pytest.mark.parametrize("op", ["kda", "gdn2", "delta"])
def test_heads_shard_without_collectives(op):
    arrays = arrays_of(f"T=10 B=2 Hk=4 Hv=8 op={op}")
    call = lambda xs: operator(parse(f"T=10 op={op}"))(**xs, implementation="cpu")
    mesh = jax.make_mesh((4,), ("heads",), axis_types=(AxisType.Auto,))
    specs = {n: P(None, "heads") if n == "initial_state" else P(None, None, "heads") for n in arrays}
    out = (P(None, None, "heads"), P(None, "heads"))
    sharded = jax.jit(jax.shard_map(call, mesh=mesh, in_specs=(specs,), out_specs=out))
    assert_close(sharded(arrays), call(arrays))
    assert not any(word in sharded.lower(arrays).compile().as_text() for word in ("all-reduce", "all-gather", "all-to-all"))


def good(**changes):
    tokens = {"query": jnp.ones((2, 5, 2, 16)), "key": jnp.ones((2, 5, 2, 16)), "value": jnp.ones((2, 5, 4, 24))}
    gates = {"log_decay": -jnp.ones((2, 5, 4, 16)), "beta": jnp.ones((2, 5, 4))}
    return tokens | gates | changes


REFUSED = [
    (kda, good(log_decay=-jnp.ones((2, 5, 4))), ValueError,
     r"log_decay: expected shape \(2, 5, 4, 16\) \[B, T, Hv, Dk\], got \(2, 5, 4\)"),
    (kda, good(log_decay=-jnp.ones((2, 5, 2, 16))), ValueError,
     r"log_decay: expected shape \(2, 5, 4, 16\) \[B, T, Hv, Dk\], got \(2, 5, 2, 16\)"),
    (kda, good(log_decay=good()["log_decay"].at[1, 2, 3, 4].set(0.5)), ValueError, r"log_decay: expected values <= 0, got 0.5"),
    (kda, good(beta=jnp.ones((2, 5, 4, 2))), ValueError, r"beta: expected shape \(2, 5, 4\) \[B, T, Hv\], got \(2, 5, 4, 2\)"),
    (kda, good(beta=None), TypeError, r"beta: expected an array, got NoneType"),
    (kda, good(lengths=[5, 6]), ValueError, r"lengths: expected values in \[0, T=5\], got 6"),
    (kda, good(target="ascend310p1"), ValueError,
     r"target: expected None unless implementation is 'sim' \(it is None\), got 'ascend310p1'"),
    (kda, good(implementation="sim", target="tpu"), ValueError,
     r"target: expected None or one of .*'ascend310p1'.*, got 'tpu'"),
    (kda, good(implementation="sim", target="ascend310b1"), ValueError,
     r"target: expected one of \('ascend310p1', 'ascend310p3'\), which the fused kernel is written for, got 'ascend310b1'"),
    (linear_attention, good(log_decay=-jnp.ones((2, 5))), ValueError,
     r"log_decay: expected rank 3 \[B, T, Hv\] or 4 \[B, T, Hv, Dk\], got rank 2"),
    (linear_attention, good(log_decay=-jnp.ones((2, 5, 4, 24))), ValueError, r"log_decay: expected shape \(2, 5, 4, 16\)"),
    (linear_attention, good(log_decay="slow"), TypeError, r"log_decay: expected an array, got str"),
    (linear_attention, good(erase=jnp.ones((2, 5, 4))), ValueError, r"erase: expected None unless delta is True, got an array"),
    (linear_attention, good(erase=jnp.ones((2, 5, 2)), delta=True), ValueError,
     r"erase: expected shape \(2, 5, 4\) \[B, T, Hv\], got \(2, 5, 2\)"),
    (linear_attention, good(erase=jnp.ones((2, 5, 4), int), delta=True), TypeError,
     r"erase: expected a floating-point dtype, got int32"),
    (linear_attention, good(delta=1), TypeError, r"delta: expected True or False, got int"),
    (linear_attention, good(key=jnp.ones((2, 5, 2, 24))), ValueError, r"key: expected shape \(2, 5, 2, 16\)"),
    (kda_step, {n: x[:, 0] for n, x in good().items()} | {"state": None}, TypeError, r"state: expected an array .*, got None"),
    (kda_step, {n: x[:, 0] for n, x in good(log_decay=-jnp.ones((2, 5, 4))).items()} | {"state": jnp.ones((2, 4, 16, 24))},
     ValueError, r"log_decay: expected shape \(2, 4, 16\) \[B, Hv, Dk\], got \(2, 4\)"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "bad", "error", "message"), REFUSED, ids=range(len(REFUSED)))
def test_a_wrong_argument_is_refused_by_name_while_tracing(call, bad, error, message):
    with pytest.raises(error, match=message):
        call(**bad)


def test_padding_may_hold_anything():
    arrays = {n: np.array(x) for n, x in arrays_of("T=12 B=2 Hk=1 Hv=2 op=kda lengths=12,5").items()}
    clean = kda(**arrays, implementation="cpu")
    for name in NAMES:
        arrays[name][1, 5:] = np.nan
    for implementation in IMPLEMENTATIONS:
        assert_close(kda(**arrays, implementation=implementation), clean)


def test_every_operator_of_the_family_takes_a_target():
    import inspect

    for name in ("gated_delta_rule", "gated_delta_rule_step", "kda", "kda_step", "linear_attention"):
        assert inspect.signature(getattr(ops, name)).parameters["target"].default is None


def test_use_names_the_target_of_the_emulated_chip():
    from hajax.ops import _options

    assert _options.chosen(None, None) == (None, None)
    assert _options.chosen("sim", None) == ("sim", "ascend310p1")
    with ops.use(implementation="sim", target="ascend310p3"):
        assert _options.chosen(None, None) == ("sim", "ascend310p3")
        assert _options.chosen("sim", "ascend310p1") == ("sim", "ascend310p1")
        assert _options.chosen("cpu", None) == ("cpu", None)
        with ops.use(implementation="xla"):
            assert _options.chosen(None, None) == ("xla", None)
    with pytest.raises(ValueError, match="target: expected None unless implementation is 'sim'"):
        ops.use(implementation="cpu", target="ascend310p1").__enter__()
