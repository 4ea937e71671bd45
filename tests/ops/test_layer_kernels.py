"""The kernels of the short convolution and of the gated norm inside of JAX: where they are taken, what transformations see."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

import hajax
from hajax import causal_conv1d, gated_rms_norm
from hajax.ops._causal_conv1d import causal_conv1d_split

SIZES = (16, 16, 24)


def convolution_arrays(tokens=9, rows=2, dtype=jnp.float32):
    rng = np.random.default_rng(3)
    shapes = (rows, tokens, sum(SIZES)), (sum(SIZES), 4), (rows, 3, sum(SIZES))
    x, weight, state = (jnp.asarray(rng.normal(size=shape)).astype(dtype) for shape in shapes)
    return x, weight, state


def convolve(x, weight, state, **options):
    parts, final = causal_conv1d_split(x, weight, SIZES, initial_state=state, activation="silu", **options)
    return *parts, final


def norm_arrays(dtype=jnp.float32):
    rng = np.random.default_rng(4)
    x, gate, weight = (jnp.asarray(rng.normal(size=shape), jnp.float32) for shape in ((2, 9, 3, 16), (2, 9, 3, 16), (16,)))
    return x, gate.astype(dtype), weight


def normalise(x, gate, weight, **options):
    return (gated_rms_norm(x, gate, weight, **options),)


OPS = [
    pytest.param(convolve, convolution_arrays, "hajax.convolution", id="convolution"),
    pytest.param(normalise, norm_arrays, "hajax.gated_norm", id="gated_norm"),
]


def assert_close(got, expected, rtol=1e-5, atol=2e-6):
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a.astype(jnp.float32), b.astype(jnp.float32), rtol=rtol, atol=atol)


@pytest.mark.parametrize(("op", "arrays", "target"), OPS)
def test_the_kernel_is_taken_unless_plain_jnp_is_asked_for(op, arrays, target):
    def lowered(**options):
        return target in jax.jit(lambda *xs: op(*xs, **options)).lower(*arrays()).as_text()

    assert lowered() and lowered(implementation="cpu") and not lowered(implementation="xla")
    with hajax.use(implementation="xla"):
        assert not lowered() and lowered(implementation="cpu")
    with hajax.use(implementation="sim"):
        assert lowered()
    with pytest.raises(ValueError, match="implementation: expected None or one of"):
        op(*arrays(), implementation="gpu")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize(("op", "arrays", "target"), OPS)
def test_kernel_and_jnp_agree(op, arrays, target, dtype):
    """A result near the middle of two numbers of 16 bits may round to either."""
    ulp = {"float32": 0, "bfloat16": 2.0**-8, "float16": 2.0**-11}[dtype]
    xs = arrays(dtype=jnp.dtype(dtype))
    assert_close(op(*xs, implementation="cpu"), op(*xs, implementation="xla"), rtol=1e-5 + ulp, atol=2e-6)


@pytest.mark.parametrize("platform", ["tpu", "cuda"])
@pytest.mark.parametrize(("op", "arrays", "target"), OPS)
def test_elsewhere_the_jnp_form_is_lowered(op, arrays, target, platform):
    def lowered(**options):
        return jax.jit(lambda *xs: op(*xs, **options)).trace(*arrays()).lower(lowering_platforms=(platform,)).as_text()

    assert target not in lowered()
    with pytest.raises(NotImplementedError, match="implementation: 'cpu' runs on the CPU only"):
        lowered(implementation="cpu")


@pytest.mark.parametrize("mapped", [(0, None, 0), (0, 0, 0), (1, None, 0)])
@pytest.mark.parametrize(("op", "arrays", "target"), OPS)
def test_vmap_equals_a_loop(op, arrays, target, mapped):
    """Over rows alone the kernel stays; over weights it is the jnp form."""
    x, second, third = arrays()
    if op is normalise:  # the weight is its third operand
        mapped = (mapped[0], mapped[2], mapped[1])
    xs = tuple(x if axis is None else jnp.stack([x, 2 * x, -x], axis) for x, axis in zip((x, second, third), mapped, strict=True))
    expected = [op(*(x if axis is None else x.take(i, axis) for x, axis in zip(xs, mapped, strict=True))) for i in range(3)]
    mapping = jax.jit(jax.vmap(op, in_axes=mapped))
    assert_close(mapping(*xs), tuple(jnp.stack(each) for each in zip(*expected, strict=True)))
    assert (target in mapping.lower(*xs).as_text()) == (None in mapped)


def test_vmap_of_one_norm():
    x, gate, weight = norm_arrays()
    rows = jax.vmap(gated_rms_norm, in_axes=(0, 0, None))(x[0, :, 0], gate[0, :, 0], weight)
    assert_close(rows, gated_rms_norm(x, gate, weight)[0, :, 0])


def test_vmap_of_packed_sequences():
    x, weight, _ = convolution_arrays(tokens=9, rows=3)
    cuts = jnp.array([[0, 2, 9], [0, 0, 9], [0, 5, 9]])
    call = lambda x, cuts: causal_conv1d(x[None], weight, cu_seqlens=cuts, activation="silu")
    got = jax.jit(jax.vmap(call))(x, cuts)
    assert_close(got, tuple(jnp.stack(each) for each in zip(*map(call, x, cuts), strict=True)))
    plain = jax.vmap(lambda x, c: causal_conv1d(x[None], weight, cu_seqlens=c, activation="silu", implementation="xla"))
    assert_close(got, plain(x, cuts))


@pytest.mark.parametrize(("op", "arrays", "target"), OPS)
def test_derivatives_are_those_of_the_jnp_form(op, arrays, target):
    """Backward, forward and of the second order."""
    xs = arrays()

    def loss(implementation):
        return lambda *xs: sum((x * x).sum() for x in op(*xs, implementation=implementation))

    places = (0, 1, 2)
    for derivative in (
        lambda f: jax.jit(jax.grad(f, places))(*xs),
        lambda f: jax.jvp(f, xs, tuple(jnp.ones_like(x) for x in xs)),
        lambda f: jax.grad(lambda *ys: sum(g.sum() for g in jax.grad(f, places)(*ys)), places)(*xs),
        lambda f: jax.grad(jax.checkpoint(f), places)(*xs),
    ):
        assert_close(derivative(loss("cpu")), derivative(loss("xla")), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("check_vma", [True, False])
@pytest.mark.parametrize(("op", "arrays", "target"), OPS)
def test_shard_map_over_rows(op, arrays, target, check_vma):
    xs = arrays()
    specs = (P("rows"), P(), P("rows")) if op is convolve else (P("rows"), P("rows"), P())
    mesh = jax.make_mesh((2,), ("rows",), devices=jax.devices()[:2], axis_types=(AxisType.Auto,))
    function = jax.jit(jax.shard_map(op, mesh=mesh, in_specs=specs, out_specs=P("rows"), check_vma=check_vma))
    assert target in function.lower(*xs).as_text()
    assert_close(function(*xs), op(*xs))


def test_symbolic_rows_and_tokens():
    x, weight, state = convolution_arrays(tokens=7, rows=3)
    b, t = jax.export.symbolic_shape("b, t")
    shapes = [jax.ShapeDtypeStruct(shape, x.dtype) for shape in ((b, t, 56), (56, 4), (b, 3, 56))]
    checks = [jax.export.DisabledSafetyCheck.custom_call("hajax.convolution")]
    artefact = jax.export.export(jax.jit(convolve), disabled_checks=checks)(*shapes)
    assert "hajax.convolution" in artefact.mlir_module()
    assert_close(artefact.call(x, weight, state), list(convolve(x, weight, state)))


@pytest.mark.parametrize("implementation", ["cpu", "xla"])
@pytest.mark.parametrize("lengths", [[7, 10], [-1, 3]])
def test_lengths_that_are_wrong_only_at_run_time_make_nan(implementation, lengths):
    call = jax.jit(lambda xs, lengths: convolve(*xs, lengths=lengths, implementation=implementation))
    assert all(np.isnan(x).all() for x in call(convolution_arrays(), jnp.array(lengths)))


def test_what_the_kernel_does_not_serve_is_plain_jnp():
    wide = jnp.ones((1, 40, 8)), jnp.ones((8, 33))
    function = jax.jit(causal_conv1d)
    assert "hajax.convolution" not in function.lower(*wide).as_text()
    assert float(function(*wide)[0][0, -1, 0]) == 33


@pytest.mark.parametrize("sizes", [(), (16,), (16, -16, 56), (57,)])
def test_sizes_must_be_the_channels(sizes):
    x, weight, _ = convolution_arrays()
    with pytest.raises(ValueError, match=r"sizes: expected positive numbers of channels, C=56 in all, got \("):
        causal_conv1d_split(x, weight, sizes)


def test_a_gates_activation_is_silu_or_sigmoid():
    x, gate, weight = norm_arrays()
    assert_close(
        gated_rms_norm(x, gate, weight, activation="sigmoid") * gate, gated_rms_norm(x, gate, weight), rtol=1e-5, atol=1e-6
    )
    with pytest.raises(ValueError, match="activation: expected 'silu' or 'sigmoid', got 'tanh'"):
        gated_rms_norm(x, gate, weight, activation="tanh")
