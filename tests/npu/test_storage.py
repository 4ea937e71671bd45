"""Who owns which memory: nothing but donated inputs is written, and what a call returns is nobody else's."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

import hajax

torch = pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.torch

from hajax.npu.rules import RULES  # noqa: E402 (needs torch)

SIDE = 4


def storage_of(tensor):
    return tensor.untyped_storage().data_ptr()


def attack(function, arguments, donate=(), executed=None):
    """Calls twice, scribbling over what came back the first time: equal to XLA, inputs as they were, results apart."""
    wanted = [np.asarray(x) for x in jax.tree.leaves(function(*map(jnp.asarray, arguments)))]
    executed = executed or hajax.jit(function, backend="torch", donate_argnums=donate)
    for _ in range(2):
        tensors = [torch.from_numpy(np.array(x)) for x in arguments]
        results = jax.tree.leaves(executed(*tensors))
        for result, want in zip(results, wanted, strict=True):
            np.testing.assert_array_equal(result.numpy(), want)
        kept = [x for i, x in enumerate(tensors) if i not in donate]
        places = [storage_of(x) for x in (*results, *kept) if x.numel()]
        assert len(set(places)) == len(places), "results share memory with one another or with an input"
        for result in results:
            result.fill_(99)
        for position, (tensor, given_) in enumerate(zip(tensors, arguments, strict=True)):
            if position not in donate:
                np.testing.assert_array_equal(tensor.numpy(), given_, err_msg=f"argument {position} was written")
    return executed.program(*arguments)


def numbers(*shape, start=0):
    return (np.arange(np.prod(shape)) % 7 + start).reshape(shape).astype(np.float32)


X, Y, ROW = numbers(SIDE, SIDE), numbers(SIDE, SIDE, start=10), numbers(SIDE, start=50)
TABLE = np.arange(16, dtype=np.float32).reshape(4, 4)


def write(x, row, at=1):
    return lax.dynamic_update_slice(x, row[None], (at, 0))


CASES = {
    "written in place": (write, (0,), True),
    "written, not donated": (write, (), False),
    "read after it was written": (lambda x, r: (write(x, r), x.sum(0)), (0,), None),
    "the old value is a result, too": (lambda x, r: (write(x, r), x), (0,), False),
    "a view of the old value is a result": (lambda x, r: (write(x, r), x.T), (0,), False),
    "a view is read later": (lambda x, r: (y := x[1], write(x, r) + 1, y * 2)[1:], (0,), None),
    "written twice": (lambda x, r: write(write(x, r), r * 2, 3), (0,), True),
    "both branches of one buffer": (lambda x, r: (write(x, r), write(x, r * 2)), (0,), None),
    "written with a part of itself": (lambda x, r: write(x, x[3]), (0,), False),
    "written with itself": (lambda x, r: lax.dynamic_update_slice(x, x * 1, (0, 0)), (0,), None),
    "written through a transpose": (lambda x, r: write(x.T, r), (0,), None),
    "written through a slice": (lambda x, r: lax.dynamic_update_slice(x[1:3], r[None], (0, 0)), (0,), None),
    "written through a reshape": (lambda x, r: lax.dynamic_update_slice(x.reshape(16), r, (3,)).reshape(8, 2), (0,), None),
    "reshaped after a transpose": (lambda x, r: lax.dynamic_update_slice(x.T.reshape(16), r, (3,)), (0,), None),
    "an expanded row is written": (lambda x, r: write(jnp.broadcast_to(r, (4, 4)), r + 1), (1,), False),
    "an expanded scalar is written": (lambda x, r: jnp.zeros((4, 4)).at[1].set(r), (0, 1), None),
    "a constant is written": (lambda x, r: write(jnp.asarray(TABLE), r), (0, 1), False),
    "a constant is a result": (lambda x, r: (jnp.asarray(TABLE), jnp.asarray(TABLE).T, jnp.asarray(TABLE)[1]), (), False),
    "inputs are results": (lambda x, r: (x, r, x), (0,), None),
    "donated and handed back": (lambda x, r: (x, r), (0, 1), None),
    "views of one buffer are results": (lambda x, r: (x[0], x[1], x.T, x), (0,), None),
    "one result twice": (lambda x, r: (y := x + 1, y, y.T)[:3], (), None),
    "results of a split": (lambda x, r: jnp.split(x, 2, 1), (0,), None),
    "results of a barrier": (lambda x, r: lax.optimization_barrier((x, r, x)), (0, 1), None),
    "nothing is done": (lambda x, r: (x.reshape(4, 4), r.astype(jnp.float32), lax.stop_gradient(x)), (0,), None),
    "scattered": (lambda x, r: x.at[jnp.array([0, 2, 0])].add(r), (0,), None),
    "scattered, a transpose, extremes": (lambda x, r: x.T.at[jnp.array([0, 2])].max(r * 0 + 3), (0,), None),
    "scattered, the old value wanted": (lambda x, r: (x.at[0].set(r), x @ x), (0,), None),
    "a row of the buffer outlives it": (lambda x, r: (z := x[2], write(x, z * 2), z)[1:], (0,), False),
    "pads, flips and concatenations of one": (
        lambda x, r: (jnp.pad(x, 0), jnp.concatenate([x]), jnp.tile(x, (1, 1)), lax.pad(x, 0.0, ((-1, 0, 0), (0, 0, 0)))),
        (), None,
    ),
    "sums over nothing": (
        lambda x, r: (x.sum(()), jnp.max(x[:, :1], 1), lax.reduce_precision(x, 8, 23), x**1, x.clip(-9, 99)),
        (), None,
    ),
    "gathers of everything": (
        lambda x, r: (x[jnp.arange(4)], lax.dynamic_slice(x, (0, 0), (4, 4)), jnp.sort(x[:1], 0)),
        (), None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_memory_is_written_by_its_owner_alone(name):
    function, donate, in_place = CASES[name]
    program = attack(function, (X, ROW), donate)
    if in_place is not None:
        assert bool(program.written) is in_place


def carried(c, r):
    return c.at[0].add(r), (c, c[0], r, c.T)


LOOPS = {
    "carry stacked": lambda x, r: lax.scan(carried, x, x),
    "carries change places": lambda x, r: lax.scan(lambda c, v: ((c[1], c[0].at[0].set(v)), c[0]), (x, x), x),
    "carry is a slice": lambda x, r: lax.scan(lambda c, v: (v, c), r, x),
    "carry is a constant": lambda x, r: lax.scan(lambda c, v: (jnp.asarray(TABLE[0]), c), r, x),
    "constants written in the body": lambda x, r: lax.scan(lambda c, v: (c + 1, x.at[0].set(v)), r, x),
    "slices written in the body": lambda x, r: lax.scan(lambda c, v: (c + 1, v.at[0].set(5.0)), r, x),
    "two carries of one value": lambda x, r: lax.scan(lambda c, v: ((write(c[0], v), c[1]), None), (x, x), x),
    "no step": lambda x, r: lax.scan(lambda c, v: (c.at[0].set(1.0), c), r, x[:0]),
    "nested": lambda x, r: lax.scan(lambda c, v: lax.scan(lambda d, w: (d.at[0].add(w), d), c, v), r, x),
    "while": lambda x, r: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1].at[c[0]].set(r), c[1]), (0, x, x)),
    "while without a step": lambda x, r: lax.while_loop(lambda c: c[0] < 0, lambda c: (c[0] + 1, write(c[1], r)), (0, x)),
    "branch hands back": lambda x, r: lax.cond(r[0] > 0, lambda a, b: (a, a), lambda a, b: (b, a), x, x + 1),
    "branch writes": lambda x, r: lax.cond(r[0] > 0, lambda a: write(a, r), lambda a: a, x),
    "loops in batches": lambda x, r: jax.vmap(lambda a: lax.while_loop(lambda c: c[0] < 30, lambda c: c.at[0].mul(2), a + 1))(x),
}


@pytest.mark.parametrize("donate", [(), (0,), (0, 1)], ids=str)
@pytest.mark.parametrize("name", LOOPS)
def test_loops_and_branches_keep_to_their_own_memory(name, donate):
    attack(LOOPS[name], (X, ROW), donate)


STEPS = {
    "row": lambda a, b, i: lax.dynamic_update_slice(a, b[i : i + 1], (i, 0)),
    "traced row": lambda a, b, i: lax.dynamic_update_slice(a, b[:1], (a[0, 0].astype(jnp.int32) % SIDE, 0)),
    "column": lambda a, b, i: lax.dynamic_update_slice(a, b[:, i : i + 1], (0, i)),
    "block": lambda a, b, i: a.at[i:, :2].set(b[i:, 2:]),
    "scatter": lambda a, b, i: a.at[jnp.array([i, 0])].add(b[:2]),
    "transpose": lambda a, b, i: a.T,
    "reverse": lambda a, b, i: a[::-1],
    "reshape": lambda a, b, i: a.reshape(2, 8).T.reshape(SIDE, SIDE),
    "roll": lambda a, b, i: jnp.concatenate([a[i:], a[:i]]),
    "add": lambda a, b, i: a + b,
    "expand": lambda a, b, i: jnp.broadcast_to(a[i], (SIDE, SIDE)),
    "select": lambda a, b, i: jnp.where(a > b, a, b),
    "slices": lambda a, b, i: jnp.stack([a[i], b[i], a[0], b[:, i]]),
    "same": lambda a, b, i: a,
}


@st.composite
def small_programs(draw):
    """Steps of two earlier values each, what is returned, and what is donated of two inputs."""
    count = draw(st.integers(1, 7))
    steps = []
    for number in range(count):
        earlier = st.integers(0, number + 1)
        steps.append((draw(st.sampled_from(sorted(STEPS))), draw(earlier), draw(earlier), draw(st.integers(0, SIDE - 1))))
    last = count + 1
    returned = [last, *draw(st.lists(st.integers(0, last), max_size=3))]
    return tuple(steps), tuple(returned), draw(st.sampled_from([(), (0,), (1,), (0, 1)]))


def of_steps(steps, returned):
    def function(x, y):
        values = [x, y]
        for name, first, second, place in steps:
            values.append(STEPS[name](values[first], values[second], place))
        return [values[i] for i in returned]

    return function


@settings(max_examples=150)
@given(small_programs())
def test_drawn_programs_of_writes_and_views_equal_xla(drawn):
    steps, returned, donate = drawn
    attack(of_steps(steps, returned), (X, Y), donate)


@settings(max_examples=25)
@given(small_programs(), st.integers(0, 3))
def test_drawn_programs_as_bodies_of_loops_equal_xla(drawn, length):
    steps, returned, donate = drawn
    body = of_steps(steps, (returned[0], returned[-1], *returned))

    def loop(x, y):
        def step(carry, _):
            new = body(*carry)
            return (jnp.minimum(new[0], 999.0), new[1]), new[2:]

        return lax.scan(step, (x, y), None, length=length)

    attack(loop, (X, Y), donate)


def test_a_donated_tensor_is_written_in_place_and_handed_back():
    step = hajax.jit(lambda x, r, i: lax.dynamic_update_slice(x, r[None], (i, 0)), backend="torch", donate_argnums=0)
    cache = torch.from_numpy(X.copy())
    place = cache.data_ptr()
    for i in range(SIDE):
        cache = step(cache, torch.from_numpy(ROW + i), torch.tensor(i, dtype=torch.int32))
        assert cache.data_ptr() == place
    np.testing.assert_array_equal(cache.numpy(), ROW + np.arange(SIDE, dtype=np.float32)[:, None])


def test_one_tensor_may_be_several_arguments():
    def both(x, y):
        return x.at[0].set(0.0), y + 1

    tensor = torch.from_numpy(X.copy())
    first, second = hajax.jit(both, backend="torch")(tensor, tensor)
    np.testing.assert_array_equal(first.numpy()[1:], X[1:])
    np.testing.assert_array_equal(second.numpy(), X + 1)
    np.testing.assert_array_equal(tensor.numpy(), X)


@pytest.mark.parametrize("donate", [(0,), (1,), (0, 1)], ids=str)
def test_a_donated_tensor_that_is_another_argument_too_is_refused(donate):
    def both(x, y):
        return x.at[0].set(0.0), y + 1

    tensor = torch.from_numpy(X.copy())
    executed = hajax.jit(both, backend="torch", donate_argnums=donate)
    with pytest.raises(ValueError, match=r"donated.* once.* arguments 0 and 1"):
        executed(tensor, tensor)
    np.testing.assert_array_equal(tensor.numpy(), X)


@pytest.mark.parametrize("name", ["transpose", "slice", "broadcast_in_dim"])
def test_a_view_that_is_said_to_be_fresh_is_found(name, monkeypatch):
    """The checks above can fail."""
    functions = {
        "transpose": lambda x: x.T,
        "slice": lambda x: x[1:3],
        "broadcast_in_dim": lambda x: jnp.broadcast_to(x[0], (SIDE, SIDE)),
    }
    attack(functions[name], (X,))
    monkeypatch.setitem(RULES, name, dataclasses.replace(RULES[name], fresh=True))
    with pytest.raises(AssertionError, match=r"share memory|was written"):
        attack(functions[name], (X,))


def test_jax_and_numpy_arrays_are_never_written():
    given_ = jnp.asarray(X), np.array(ROW)
    executed = hajax.jit(lambda x, r: (x.at[0].set(r), r * 2), backend="torch", donate_argnums=(0, 1))
    for _ in range(2):
        executed(*given_)
    np.testing.assert_array_equal(np.asarray(given_[0]), X)
    np.testing.assert_array_equal(given_[1], ROW)


def test_a_strided_or_expanded_donated_tensor_is_right_and_others_see_nothing():
    executed = hajax.jit(lambda x: x.at[0].set(7.0), backend="torch", donate_argnums=0)
    base = torch.from_numpy(numbers(SIDE, 2 * SIDE))
    for view in (base[:, ::2], base[:, 0:1].expand(SIDE, SIDE), base[:, :SIDE].T):
        wanted = view.clone()
        wanted[0] = 7
        before = base.clone()
        np.testing.assert_array_equal(executed(view).numpy(), wanted.numpy())
        assert torch.equal(base, before)
