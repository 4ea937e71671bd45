"""The gradient primitive: where the kernel runs, under every transformation, in every dtype, and no less exact than plain jnp."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from gradient_driver import recurrence_gradients
from kernel_driver import Case

from hajax import gated_delta_rule
from hajax.conformance import inputs, operator, parse

NAMES = ("query", "key", "value", "log_decay", "beta", "initial_state")


def operands_of(text):
    arrays = inputs(parse(text))
    return [jnp.asarray(arrays[n]) for n in NAMES]


def gradient_of(implementation=None, **options):
    def loss(*xs):
        output, state = gated_delta_rule(*xs[:5], initial_state=xs[5], implementation=implementation, **options)
        weights = jnp.sin(jnp.arange(output.size)).reshape(output.shape)
        return (output.astype(jnp.float32) * weights).sum() + (state**2).sum()

    return jax.grad(loss, argnums=tuple(range(6)))


def assert_close(got, expected, bound=oracle.NMSE):
    for name, a, b in zip(NAMES, got, expected, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        assert oracle.error(a, np.asarray(b).astype(np.float64), a.dtype.name) <= bound, name


def test_here_the_kernel_is_lowered_and_plain_jnp_where_asked():
    xs = operands_of("T=16 Hv=2")
    assert "hajax.delta_rule_backward" in jax.jit(gradient_of()).lower(*xs).as_text()
    assert "hajax.delta_rule_backward" not in jax.jit(gradient_of("xla")).lower(*xs).as_text()


@pytest.mark.parametrize("platform", ["tpu", "cuda"])
def test_elsewhere_plain_jnp_is_lowered(platform):
    text = jax.jit(gradient_of()).trace(*operands_of("T=16 Hv=2")).lower(lowering_platforms=(platform,)).as_text()
    assert "hajax.delta_rule" not in text and "dot_general" in text


@pytest.mark.parametrize("op", ["gdn", "kda", "gdn2", "delta", "ret", "gla", "lin"])
def test_every_member_has_the_kernels_gradient(op):
    case = parse(f"T=20 Hk=1 Hv=2 op={op}")
    arrays = {n: jnp.asarray(x) for n, x in inputs(case).items()}
    loss = lambda xs: (operator(case)(**xs)[0] ** 2).sum()
    assert "hajax.delta_rule_backward" in jax.jit(jax.grad(loss)).lower(arrays).as_text()


@pytest.mark.parametrize(("dtype", "threads"), [("float32", 8), ("bfloat16", 8), ("float16", 1)])  # 8: a value head a task
def test_shared_keys_sum_over_value_heads_however_tasks_are_cut(dtype, threads, monkeypatch):
    monkeypatch.setenv("HAJAX_CPU_THREADS", str(threads))
    xs = operands_of(f"T=70 Hk=1 Hv=6 Dk=16 Dv=24 dtype={dtype} l2norm=1")
    got, expected = (jax.jit(gradient_of(i, l2norm_eps=1e-6))(*xs) for i in ("cpu", "xla"))
    assert_close(got, expected, 1e-10 if dtype == "float32" else (2 * oracle.ROUNDING[dtype]) ** 2 * 4)


def test_eager_jit_vmap_and_a_scan_agree():
    xs = operands_of("T=16 B=3 Hk=1 Hv=2")
    gradient = gradient_of("cpu")
    each = [gradient(*(x[i : i + 1] for x in xs)) for i in range(3)]
    expected = [jnp.stack(parts) for parts in zip(*each, strict=True)]
    rows = [x[:, None] for x in xs]
    assert_close(jax.vmap(gradient)(*rows), expected)
    assert_close(jax.jit(jax.vmap(gradient))(*rows), expected)
    assert_close(jax.jit(lambda *ys: jax.lax.scan(lambda c, y: (c, gradient(*y)), None, ys)[1])(*rows), expected)


def test_a_map_over_nothing():
    xs = [jnp.zeros((0, *x.shape), x.dtype) for x in operands_of("T=16 Hk=1 Hv=2")]
    assert [g.shape for g in jax.vmap(gradient_of("cpu"))(*xs)] == [x.shape for x in xs]


@pytest.mark.parametrize("check_vma", [True, False])
def test_shard_map_over_heads(check_vma):
    xs = operands_of("T=16 B=2 Hk=4 Hv=8")
    spec = (*[jax.sharding.PartitionSpec(None, None, "heads")] * 5, jax.sharding.PartitionSpec(None, "heads"))

    def gradient(*ys):  # of a loss that is each head's own
        call = lambda *zs: gated_delta_rule(*zs[:5], initial_state=zs[5], implementation="cpu")
        results, pull_back = jax.vjp(call, *ys)
        return pull_back(results)

    mesh = jax.make_mesh((4,), ("heads",), axis_types=(jax.sharding.AxisType.Auto,))
    sharded = jax.jit(jax.shard_map(gradient, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=check_vma))
    assert_close(sharded(*xs), gradient(*xs))


def test_a_length_known_only_when_it_runs_is_differentiated_in_plain_jnp():
    (tokens,) = jax.export.symbolic_shape("t")
    shape = lambda *s: jax.ShapeDtypeStruct((1, tokens, *s), jnp.float32)
    loss = lambda *xs: gated_delta_rule(*xs)[0].sum()
    exported = jax.export.export(
        jax.jit(jax.grad(loss)), disabled_checks=[jax.export.DisabledSafetyCheck.custom_call("hajax.delta_rule")]
    )(shape(1, 16), shape(1, 16), shape(2, 16), shape(2), shape(2))
    assert "hajax.delta_rule_backward" not in exported.mlir_module()


@functools.cache
def long_problem():
    case = Case(t=2048, dk=32, dv=32, g="-0.05", eps=1e-6, chunk=64)
    rng = np.random.default_rng(0)
    draw = lambda *s: rng.standard_normal(s).astype(np.float32)
    arrays = {
        "query": draw(1, 2048, 1, 32), "key": draw(1, 2048, 1, 32) + 0.5, "value": draw(1, 2048, 1, 32),
        "log_decay": (-np.exp(draw(1, 2048, 1) - 3)).astype(np.float32), "beta": rng.random((1, 2048, 1)).astype(np.float32),
        "state_in": draw(1, 1, 1, 32, 32), "bounds": np.array([[0, 2048]], np.int32),
    }  # fmt: skip
    cotangents = draw(1, 2048, 1, 32), draw(1, 1, 1, 32, 32)
    return arrays, cotangents, recurrence_gradients(case, arrays, cotangents)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_long_sequences_gradient_is_as_exact_as_plain_jnps(dtype):
    """Both against float64, within twice the error of the pullback; operands are the same 16-bit numbers where they are."""
    arrays, cotangents, expected = long_problem()
    names = ("query", "key", "value", "log_decay", "beta", "state_in")
    xs = [jnp.asarray(arrays[n]) for n in names]
    xs[5] = xs[5][0]
    xs[:3] = [x.astype(dtype) for x in xs[:3]]

    def error(implementation):
        call = lambda *ys: gated_delta_rule(*ys[:5], initial_state=ys[5], l2norm_eps=1e-6, implementation=implementation)
        (output, _), pull_back = jax.vjp(jax.jit(call), *xs)
        got = pull_back((jnp.asarray(cotangents[0]).astype(output.dtype), jnp.asarray(cotangents[1])[0]))
        return [oracle.error(np.asarray(g).reshape(expected[n].shape), expected[n]) for n, g in zip(names, got, strict=True)]

    for name, ours, theirs in zip(names, error("cpu"), error("xla"), strict=True):
        assert ours <= 2 * theirs, (name, ours, theirs)
