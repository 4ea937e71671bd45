"""jnp functions that have a kernel of the CPU library: a primitive for each, made of the two.

The jnp form is what every platform and every transformation sees; the kernel is taken where the primitive itself is lowered for
the CPU. Differentiating, and mapping over an operand that all rows share, leave the jnp form in its place.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core as jex
from jax.interpreters import ad, batching, mlir

from hajax.ops import _compat, _native, _options


@dataclasses.dataclass(frozen=True, slots=True)
class Kernel:
    """A function of arrays with hashable options, twice, and what the primitive needs to know of it.

    reference, native: (*arrays, **options) -> tuple of arrays; native runs on the CPU where `serves` says so.
    results: (*types, **options) -> the types of those arrays. serves: (*types, **options) -> bool.
    shared: operands that all rows share; the first axis of every other one, and of every result, is the rows'.
    """

    name: str
    reference: Callable[..., tuple[jax.Array, ...]]
    native: Callable[..., tuple[jax.Array, ...]]
    results: Callable[..., tuple[Any, ...]]
    serves: Callable[..., bool]
    shared: frozenset[int]


_PLAIN: dict[str, Callable[..., list[jax.Array]]] = {}


def fused(kernel: Kernel) -> Callable[..., tuple[jax.Array, ...]]:
    """call(*arrays, implementation, **options): the kernel's function, as the primitive hajax_<name>."""
    primitive = jex.Primitive(f"hajax_{kernel.name}")
    primitive.multiple_results = True

    def plain(*arrays: Any, implementation: str | None, **options: Any) -> list[jax.Array]:
        return list(kernel.reference(*arrays, **options))

    @primitive.def_abstract_eval
    def types(*arrays: Any, implementation: str | None, **options: Any) -> list[Any]:
        return list(kernel.results(*arrays, **options))

    @functools.cache
    def compiled(params: tuple[tuple[str, Any], ...]) -> Any:
        return jax.jit(functools.partial(primitive.bind, **dict(params)))

    @primitive.def_impl
    def eager(*arrays: Any, **params: Any) -> Any:
        return compiled(tuple(sorted(params.items())))(*arrays)

    def native(*arrays: Any, implementation: str | None, **options: Any) -> list[jax.Array]:
        return list(kernel.native(*arrays, **options))

    lower_plain = mlir.lower_fun(plain, multiple_results=True)
    lower_native = mlir.lower_fun(native, multiple_results=True)

    def elsewhere(ctx: Any, *arrays: Any, implementation: str | None, **options: Any) -> Any:
        if implementation == "cpu":
            raise NotImplementedError("implementation: 'cpu' runs on the CPU only; use None or 'xla' on other platforms")
        return lower_plain(ctx, *arrays, implementation=implementation, **options)

    def on_the_cpu(ctx: Any, *arrays: Any, implementation: str | None, **options: Any) -> Any:
        empty = any(size == 0 for aval in ctx.avals_out for size in aval.shape)
        served = implementation != "xla" and not empty and kernel.serves(*ctx.avals_in, **options)
        chosen = served and _native.available(required=implementation == "cpu")
        return (lower_native if chosen else lower_plain)(ctx, *arrays, implementation=implementation, **options)

    mlir.register_lowering(primitive, elsewhere)
    mlir.register_lowering(primitive, on_the_cpu, platform="cpu")

    def differentiate(primals: Any, tangents: Any, **params: Any) -> Any:
        moving = [i for i, tangent in enumerate(tangents) if type(tangent) is not ad.Zero]

        def moved(*given: Any) -> list[jax.Array]:
            arrays = list(primals)
            for place, x in zip(moving, given, strict=True):
                arrays[place] = x
            return plain(*arrays, **params)

        return jax.jvp(moved, [primals[i] for i in moving], [tangents[i] for i in moving])

    ad.primitive_jvps[primitive] = differentiate

    def batch(arrays: Any, axes: Any, **params: Any) -> Any:
        if any(axes[i] is not None for i in kernel.shared):
            results = jax.vmap(functools.partial(plain, **params), in_axes=tuple(axes))(*arrays)
            return results, [0] * len(results)
        size = next(x.shape[axis] for x, axis in zip(arrays, axes, strict=True) if axis is not None)
        given = [x if i in kernel.shared else _rows(x, axis, size) for i, (x, axis) in enumerate(zip(arrays, axes, strict=True))]
        results = primitive.bind(*given, **params)
        return [x.reshape(size, x.shape[0] // size, *x.shape[1:]) for x in results], [0] * len(results)

    batching.primitive_batchers[primitive] = batch
    _PLAIN[primitive.name] = plain

    def call(*arrays: jax.Array, implementation: str | None, **options: Any) -> tuple[jax.Array, ...]:
        name = _options.chosen(implementation, None)[0]
        name = None if name == "sim" else name  # the emulated chip has no such piece of its own
        return tuple(primitive.bind(*_compat.same_varying_axes(arrays), implementation=name, **options))

    return call


def _rows(x: jax.Array, axis: int | None, size: int) -> jax.Array:
    """A mapped axis joins the rows."""
    moved = jnp.broadcast_to(x, (size, *x.shape)) if axis is None else jnp.moveaxis(x, axis, 0)
    return moved.reshape(size * moved.shape[1], *moved.shape[2:])


def expanded(equation: Any) -> Any:
    """The closed jaxpr of the jnp form of an equation of such a primitive; None for any other equation."""
    plain = _PLAIN.get(equation.primitive.name)
    if plain is None:
        return None
    types = (jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in equation.invars)
    return jax.make_jaxpr(functools.partial(plain, **equation.params))(*types)
