"""hajax.jit(backend="torch"): signatures, arguments, donation, refusals, and whole models beside XLA."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hajax

torch = pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.torch

from hajax.npu.dtypes import Unsupported  # noqa: E402 (needs torch)


def on_torch(function, **options):
    return hajax.jit(function, backend="torch", **options)


def same(found, wanted):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=2e-6, atol=2e-6), found, wanted)


def test_arguments_are_torch_jax_or_numpy_in_any_pytree():
    def function(tree, scale=2.0):
        return {"sum": tree["a"] + tree["b"][0] * scale, "pair": (tree["a"].T, None)}

    a, b = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((2, 3), np.float32)
    wanted = jax.jit(function)({"a": a, "b": [b]}, scale=3.0)
    for one, other in ((a, jnp.asarray(b)), (torch.tensor(a), b), (jnp.asarray(a), torch.tensor(b))):
        found = on_torch(function)({"a": one, "b": [other]}, scale=3.0)
        same(found, wanted)
        assert isinstance(found["sum"], torch.Tensor) and found["pair"][1] is None


def test_static_arguments_choose_programs():
    @functools.partial(on_torch, static_argnums=1, static_argnames="flip")
    def function(x, power, *, flip=False):
        return (-x if flip else x) ** power

    x = np.array([2.0, 3.0], np.float32)
    assert function(x, 2).tolist() == [4, 9]
    assert function(x, 3).tolist() == [8, 27]
    assert function(x, 3, flip=True).tolist() == [-8, -27]


def test_a_new_shape_or_dtype_is_planned_anew_and_an_old_one_is_not():
    traces = []

    @on_torch
    def double(x):
        traces.append((x.shape, x.dtype.name))
        return x + x

    for shape, kind in (((2,), np.float32), ((3,), np.float32), ((2,), np.int32), ((2,), np.float32)):
        assert double(np.ones(shape, kind)).tolist() == [2] * shape[0]
    assert traces == [((2,), "float32"), ((3,), "float32"), ((2,), "int32")]


@pytest.mark.parametrize("kind", ["uint8", "uint16", "uint32", "int8", "int32", "float16", "bfloat16", "bool"])
def test_results_come_back_in_their_dtype_and_can_be_arguments_again(kind):
    x = jnp.asarray([0, 1, 1, 0]).astype(kind)
    shift = on_torch(lambda x: jnp.roll(x, 1))
    once = shift(x)
    assert once.dtype == getattr(torch, kind)
    assert shift(once).to(torch.float32).tolist() == [1, 0, 0, 1]


def test_int64_tensors_are_int32_arrays_as_in_jax():
    take = on_torch(lambda table, ids: table.at[ids].get(mode="clip"))
    found = take(np.arange(5, dtype=np.float32), torch.tensor([3, 1]))
    assert found.tolist() == [3, 1]


def test_random_keys_go_in_and_out():
    def draw(key):
        following, use = jax.random.split(key)
        return following, jax.random.normal(use, (5,))

    key = jax.random.key(3)
    wanted_key, wanted = jax.jit(draw)(key)
    found_key, found = on_torch(draw)(key)
    assert jnp.array_equal(jax.random.key_data(found_key), jax.random.key_data(wanted_key))
    np.testing.assert_allclose(found.numpy(), wanted, atol=1e-6)
    on_torch(draw)(found_key)


def test_a_donated_tensor_is_written_in_place_and_no_other_is():
    def put(cache, row, index):
        return jax.lax.dynamic_update_slice(cache, row[None], (index, 0)), row * 2

    row = torch.ones(4)
    cache = torch.zeros(3, 4)
    found, _ = on_torch(put, donate_argnums=0)(cache, row, np.int32(1))
    assert found.data_ptr() == cache.data_ptr() and found[1].tolist() == [1] * 4
    kept = torch.zeros(3, 4)
    found, _ = on_torch(put)(kept, row, np.int32(1))
    assert not kept.any() and found[1].tolist() == [1] * 4


def test_a_donated_tensor_that_requires_a_gradient_is_refused():
    weights = torch.ones(3, requires_grad=True)
    with pytest.raises(ValueError, match="donated argument: expected a tensor that requires no gradient"):
        on_torch(lambda w: w * 2, donate_argnums=0)(weights)
    assert not on_torch(lambda w: w)(weights).requires_grad


@pytest.mark.parametrize("other", [np.s_[0], np.s_[:, 1], np.s_[1:], np.s_[...]], ids=str)
def test_a_donated_view_of_anothers_memory_is_not_written(other):
    for donated, kept in ((0, 1), (1, 0)):
        base = torch.arange(6.0).reshape(2, 3)
        pair = [base, base[other].view_as(base[other])]
        before = pair[kept].clone()

        def set_and_read(*given, donated=donated, kept=kept):
            return given[donated].at[..., 0].set(9.0), given[kept] + 0

        written, read = on_torch(set_and_read, donate_argnums=donated)(*pair)
        assert (written[..., 0] == 9).all()
        assert torch.equal(read, before)
        assert torch.equal(pair[kept], before)


def test_tensors_without_values_and_tracers_are_refused():
    double = on_torch(lambda x: x * 2)
    with pytest.raises(hajax.npu.dtypes.Unsupported, match=r"arguments: expected strided .*, got torch.sparse_coo on cpu"):
        double(torch.eye(3).to_sparse())
    with pytest.raises(hajax.npu.dtypes.Unsupported, match=r"arguments: expected strided .*, got torch.strided on meta"):
        double(torch.ones(3, device="meta"))
    for transformed in (jax.jit(double), jax.grad(lambda x: double(x).sum()), jax.vmap(double)):
        with pytest.raises(TypeError, match="arguments: expected arrays, got a tracer"):
            transformed(jnp.ones(3))
    with pytest.raises(TypeError, match=r"static argument 1: expected a hashable value, got \[1\]"):
        on_torch(lambda x, n: x, static_argnums=1)(np.ones(2), [1])


def test_results_never_share_memory_with_arguments_or_one_another():
    x = torch.arange(6.0).reshape(2, 3)
    results = on_torch(lambda x: (x, x.T, x[0], x + 0, jnp.zeros((2, 3)), jnp.broadcast_to(x[:1], (4, 3))))(x)
    again = on_torch(lambda x: (x, x.T, x[0], x + 0, jnp.zeros((2, 3)), jnp.broadcast_to(x[:1], (4, 3))))(x)
    for result in results:
        result.add_(7)  # would raise where a result has overlapping memory
    assert x.flatten().tolist() == [0, 1, 2, 3, 4, 5]
    assert again[4].abs().max() == 0
    assert results[1].tolist() == [[7, 10], [8, 11], [9, 12]]


def test_a_jax_array_is_moved_once_and_its_memory_let_go_with_it():
    weights = jnp.ones((64, 64))
    product = on_torch(lambda w, x: w @ x)
    product(weights, np.ones((64, 1), np.float32))
    moved = product._arrays._moved
    assert len(moved) == 1
    first = next(iter(moved.values()))[1]
    product(weights, np.ones((64, 1), np.float32))
    assert next(iter(moved.values()))[1] is first
    del weights
    assert not moved


def test_lower_plans_ahead_and_compiled_programs_refuse_other_shapes():
    compiled = on_torch(lambda x: x + 1).lower(np.ones(3, np.float32)).compile()
    assert compiled(np.zeros(3, np.float32)).tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match=r"arguments: expected array 0 of shape \[3\], as planned for, got \[4\]"):
        compiled(np.zeros(4, np.float32))


@pytest.mark.parametrize(
    ("function", "named"),
    [
        (lambda x: jax.pure_callback(lambda y: y, jax.ShapeDtypeStruct((2,), jnp.float32), x), "pure_callback"),
        (lambda x: (jax.debug.print("{}", x), x)[1], "debug"),
        (lambda x: (x + 1j) % 2 if False else jnp.exp(x + 1j), "exp"),
        (lambda x: jax.random.bits(jax.random.key(0, impl="rbg")), "random"),
    ],
)
def test_what_torch_cannot_do_is_refused_by_name_when_planning(function, named):
    with pytest.raises(Unsupported, match=named):
        on_torch(function).lower(np.ones(2, np.float32))


def test_wrong_options_are_refused():
    with pytest.raises(ValueError, match="backend: expected None or one of npu, torch, got 'cuda'"):
        hajax.jit(lambda x: x, backend="cuda")
    with pytest.raises(ValueError, match="implementation: expected None, 'cpu' or 'xla' with backend 'torch', got 'sim'"):
        hajax.jit(lambda x: x, backend="torch", implementation="sim")
    with pytest.raises(RuntimeError, match="torch_npu"):
        hajax.jit(lambda x: x, backend="npu")


@pytest.mark.parametrize("implementation", [None, "cpu", "xla"])
@pytest.mark.parametrize("lengths", [None, [3, 7]])
def test_operators_equal_those_of_jax(implementation, lengths):
    rng = np.random.default_rng(0)
    shape = (2, 7, 2, 16)
    query, key, value = (rng.normal(size=shape).astype(np.float32) for _ in range(3))
    decay = -np.abs(rng.normal(size=shape)).astype(np.float32)
    beta = rng.uniform(size=shape[:3]).astype(np.float32)

    def function(query, key, value, decay, beta, lengths):
        plain = hajax.gated_delta_rule(query, key, value, decay[..., 0], beta, l2norm_eps=1e-6, lengths=lengths)
        channels = hajax.kda(query, key, value, decay, beta, lengths=lengths, initial_state=plain[1])
        return plain, channels, hajax.linear_attention(query, key, value)

    given = (query, key, value, decay, beta, None if lengths is None else np.array(lengths, np.int32))
    found = on_torch(function, implementation=implementation)
    same(found(*given), jax.jit(function)(*given))
    assert len(found.plans()) == (0 if implementation == "xla" else 3)


def test_gradients_of_operators_equal_those_of_jax():
    rng = np.random.default_rng(1)
    x, g = rng.normal(size=(1, 5, 2, 8)).astype(np.float32), -np.abs(rng.normal(size=(1, 5, 2))).astype(np.float32)

    def loss(x, g, b):
        output, state = hajax.gated_delta_rule(x, hajax.l2norm(x), x, g, b)
        return jnp.sum(output**2) + jnp.sum(state)

    gradient = jax.grad(loss, argnums=(0, 1, 2))
    same(on_torch(gradient)(x, g, np.exp(g)), jax.jit(gradient)(x, g, np.exp(g)))
