"""Loops, branches, and what transformations make of functions."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from battery.case import BF16, F32, Program, fixed, normal, normals, over, rounding
from jax import lax


def _running(x: Any, s: Any) -> Any:
    return lax.scan(lambda c, r: (c * 0.5 + r, jnp.sin(c)), s, x)


def _reversed(x: Any, s: Any) -> Any:
    return lax.scan(lambda c, r: (c + r, (c, r * 2)), s, x, reverse=True)


def _nested(x: Any, s: Any) -> Any:
    def outer(c: Any, r: Any) -> Any:
        c, rows = lax.scan(lambda d, v: (d + v, d), c, jnp.stack([r, r * 2, r * 3]))
        return c, rows.sum(0)

    return lax.scan(outer, s, x)


def _cached(x: Any, cache: Any) -> Any:
    def step(c: Any, given: Any) -> Any:
        at, row = given
        c = lax.dynamic_update_slice(c, row[None], (at, 0))
        return c, (c.sum(), c)

    return lax.scan(step, cache, (jnp.array([2, 0, 2, 9]), x))


def _carry_also_stacked(x: Any, s: Any) -> Any:
    def step(c: Any, r: Any) -> Any:
        new = (c[0].at[0].add(r[0]), c[0])
        return new, (new[0], new[0], c[1])

    return lax.scan(step, (s, s), x)


def _swapped(x: Any, s: Any) -> Any:
    return lax.scan(lambda c, r: ((c[1], c[0].at[1].set(r[1])), None), (s, s + 1), x)[0]


def _zero_length(x: Any, s: Any) -> Any:
    return lax.scan(lambda c, r: (c + r, (c * 2, c.astype(jnp.bfloat16))), s, x[:0])


def _without_slices(s: Any) -> Any:
    return lax.scan(lambda c, _: (c * 1.5, c[0]), s, None, length=4)


def _constant_carry(x: Any, s: Any) -> Any:
    return lax.scan(lambda c, r: (c, c + r), s, x)


def _scan_gradients(x: Any, s: Any) -> Any:
    def loss(x: Any, s: Any) -> Any:
        end, rows = lax.scan(lambda c, r: (jnp.tanh(c * 0.7 + r), c * r), s, x)
        return jnp.sum(end**2) + jnp.sum(rows)

    return (
        jax.grad(loss, (0, 1))(x, s),
        jax.jvp(loss, (x, s), (x, s)),
        jax.vmap(jax.grad(loss), (None, 0))(x, jnp.stack([s, s * 2])),
    )


def _rows(f: Any) -> Any:
    return lambda x: (lax.map(f, x), lax.map(f, x, batch_size=2), jax.vmap(f)(x))


def _associative(x: Any) -> Any:
    def combine(a: Any, b: Any) -> Any:
        return a[0] * b[0], a[1] * b[0] + b[1]

    return lax.associative_scan(combine, (x, x + 1)), lax.associative_scan(jnp.maximum, x, axis=1, reverse=True)


def _collatz(n: Any) -> Any:
    return lax.while_loop(
        lambda c: c[0] != 1, lambda c: (jnp.where(c[0] % 2 == 0, c[0] // 2, 3 * c[0] + 1), c[1] + 1), (n, jnp.int32(0))
    )


def _batched_while(n: Any) -> Any:
    return jax.vmap(_collatz)(n)


def _while_buffers(x: Any) -> Any:
    def body(c: Any) -> Any:
        i, buffer, previous = c
        return i + 1, buffer.at[i].set(previous.sum()), buffer

    return lax.while_loop(lambda c: c[0] < 4, body, (jnp.int32(0), x, x))


def _counted(x: Any, n: Any) -> Any:
    return (
        lax.fori_loop(0, 5, lambda i, c: c * 0.5 + i, x), lax.fori_loop(0, n, lambda i, c: c + i, x),
        lax.fori_loop(3, 1, lambda i, c: c + 99, x), lax.fori_loop(0, 3, lambda i, c: c.at[i].set(i * 1.5), x),
    )  # fmt: skip


def _branches(x: Any, i: Any) -> Any:
    return (
        lax.cond(i > 1, jnp.sin, lambda v: v, x), lax.switch(i, [lambda v: v * 2, lambda v: v, jnp.cos], x),
        lax.cond(x[0] > 0, lambda v, w: (v, w), lambda v, w: (w, v), x, x + 1), lax.switch(i - 99, [jnp.sin, jnp.cos], x),
    )  # fmt: skip


def _batched_branches(x: Any, i: Any) -> Any:
    return jax.vmap(lambda v, k: lax.switch(k, [jnp.sin, lambda w: w * 2, jnp.exp], v))(x, i), jax.grad(
        lambda x: jnp.sum(lax.cond(x[0, 0] > 0, jnp.sin, jnp.cos, x))
    )(x)


@jax.custom_jvp
def _clipped_log(x: Any) -> Any:
    return jnp.log(jnp.maximum(x, 0.5))


@_clipped_log.defjvp
def _clipped_log_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return _clipped_log(x), t / jnp.maximum(x, 0.25)


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def _scaled(x: Any, factor: float) -> Any:
    return x * factor


_scaled.defvjp(lambda x, factor: (x * factor, x), lambda factor, x, g: (g * factor + x,))


def _custom_rules(x: Any) -> Any:
    return (
        _clipped_log(x),
        jax.grad(lambda x: jnp.sum(_clipped_log(x)))(x),
        _scaled(x, 3.0),
        jax.vmap(jax.grad(lambda v: _scaled(v, 3.0)))(x),
    )


def _network(w: Any, x: Any) -> Any:
    hidden = jax.nn.gelu(x @ w[0])
    return jnp.sum(jax.nn.log_softmax(hidden @ w[1])[:, 0])


def _derivatives(a: Any, b: Any, x: Any) -> Any:
    return (
        jax.value_and_grad(_network)((a, b), x), jax.hessian(lambda v: jnp.sum(jnp.sin(v) * v**2))(x[0]),
        jax.jacrev(lambda v: jnp.tanh(v @ a))(x[0]), jax.jacfwd(jax.nn.softmax)(x[0]),
        jax.grad(jax.checkpoint(lambda v: _network((a, b), v)))(x), jax.linearize(jnp.exp, x)[1](x), jax.vjp(jnp.square, x)[1](x),
    )  # fmt: skip


def _named(x: Any) -> Any:
    from jax.ad_checkpoint import checkpoint_name

    policy = jax.checkpoint_policies.save_only_these_names("kept")
    function = jax.checkpoint(lambda v: jnp.sum(jnp.sin(checkpoint_name(jnp.exp(v), "kept"))), policy=policy)
    return jax.grad(function)(x), lax.stop_gradient(x), lax.optimization_barrier((x, x + 1))


def _adam(p: Any, m: Any, v: Any, g: Any) -> Any:
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return p - 0.01 * m / (jnp.sqrt(v) + 1e-8), m, v


def _same_results(x: Any) -> Any:
    y = x * 2
    return y, y, x, x, y.T, jnp.zeros(3), y[0]


def _closure() -> Any:
    table = np.arange(12, dtype=np.float32).reshape(3, 4)
    key = jax.random.key(7)
    return lambda i: (
        jnp.asarray(table)[i],
        jnp.asarray(table),
        jax.random.key_data(key),
        jax.random.key_data(jax.random.fold_in(key, i)),
    )


def _callback(x: Any) -> Any:
    return jax.pure_callback(lambda v: v, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


def _inner_jit(x: Any) -> Any:
    inner = jax.jit(lambda v, w: (v + w, jnp.int32(3)))
    return inner(x, 2.0), inner(inner(x, x)[0], x), jax.jit(lambda: jnp.ones(3))()


def _composed(x: Any) -> Any:
    return lax.composite(lambda v, *, factor: v * factor + 1, name="hajax.example")(x, factor=np.float32(2))


_ROWS_AND_STATE = normals(F32, (4, 3), (3,))

PROGRAMS = [
    *(
        Program(f"scan {name}", function, _ROWS_AND_STATE, ulps=16, floor=None)
        for name, function in {
            "forward": _running,
            "reversed": _reversed,
            "nested": _nested,
            "whose carry is stacked, too": _carry_also_stacked,
            "whose carries change places": _swapped,
            "of length 0": _zero_length,
            "of a constant carry": _constant_carry,
            "gradients": _scan_gradients,
        }.items()
    ),
    Program("scan that writes into a buffer", _cached, normals(F32, (4, 3), (5, 3)), ulps=rounding(15), floor=None),
    Program("scan without slices", _without_slices, normal(F32, 3), ulps=4),
    Program(
        "scan over keys",
        lambda k: lax.scan(lambda c, r: (c + 1, jax.random.bits(r) ^ c), jnp.uint32(0), k),
        lambda rng: (jax.random.split(jax.random.key(1), 4),),
    ),
    Program(
        "scan that carries a key",
        lambda k: lax.scan(lambda c, _: (jax.random.split(c)[0], jax.random.normal(c)), k, None, length=3),
        lambda rng: (jax.random.key(5),),
        ulps=8,
    ),
    Program("map", _rows(lambda r: jnp.cumsum(jnp.sin(r))), normal(F32, 5, 4), ulps=8, floor=None),
    Program("associative_scan", _associative, normal(F32, 6, 5), ulps=rounding(36), floor=None),
    Program("while", _collatz, fixed(np.int32(27))),
    Program("while with batches", _batched_while, fixed(np.array([27, 1, 6], np.int32))),
    Program("while that writes into buffers", _while_buffers, normal(F32, 6), ulps=16, floor=None),
    Program("fori_loop", _counted, lambda rng: (rng.standard_normal(4).astype(F32), np.int32(3)), ulps=4, floor=1.0),
    *(
        Program(f"branches at {i}", _branches, lambda rng, i=i: (rng.standard_normal(4).astype(F32), np.int32(i)), ulps=8)
        for i in (-1, 1, 7)
    ),
    Program(
        "branches with batches",
        _batched_branches,
        lambda rng: (rng.standard_normal((3, 4)).astype(F32), np.array([0, 2, 1], np.int32)),
        ulps=8,
        floor=1.0,
    ),
    Program("custom derivatives", _custom_rules, lambda rng: (rng.random(7).astype(F32) + 0.1,), ulps=8, floor=1.0),
    Program("derivatives", _derivatives, normals(F32, (5, 8), (8, 4), (3, 5)), ulps=16 * rounding(8), floor=None),
    Program("named values", _named, normal(F32, 6), ulps=16, floor=1.0),
    *over(
        (F32, BF16),
        "adam",
        _adam,
        lambda kind: lambda rng: tuple(np.abs(rng.standard_normal(9)).astype(kind) for _ in range(4)),
        ulps=8,
    ),
    Program("one result several times", _same_results, normal(F32, 3, 3), ulps=0),
    Program("constants of a closure", _closure(), fixed(np.int32(2)), ulps=0),
    Program("calls in calls", _inner_jit, normal(F32, 4), ulps=4),
    Program("composite", _composed, normal(F32, 4), ulps=2),
    Program("callback", _callback, normal(F32, 4), refuses="pure_callback"),
    Program("debug print", lambda x: (jax.debug.print("{}", x), x)[1], normal(F32, 1), refuses="debug"),
    Program(
        "python structures",
        lambda t: {"a": t["b"][0] + 1, "c": (t["b"][1], None)},
        lambda rng: ({"b": [rng.standard_normal(3).astype(F32), np.int32(2)]},),
        ulps=1,
    ),
]
