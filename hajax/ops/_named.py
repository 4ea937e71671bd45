"""Functions that keep their name in a jaxpr, so that a backend may have one call for each: `named("l2norm")`.

Such a function is a `jax.jit` of its own, inlined by XLA. Transformations see its operations as ever; `original` tells a
backend whether a call with the name still is the function, and not what grad or vmap has made of it.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np


@dataclasses.dataclass(frozen=True, slots=True)
class Named:
    """A function with its options: `function(*arrays, **options)`."""

    name: str
    function: Callable[..., Any]
    options: tuple[tuple[str, Any], ...]


_CALLS: dict[str, Named] = {}


def named(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator for functions of arrays, with hashable keyword options. In a jaxpr they are jit[name=hajax_<name>...]."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.cache
        def compiled(options: tuple[tuple[str, Any], ...]) -> Any:
            def call(*arrays: Any) -> Any:
                return function(*arrays, **dict(options))

            label = "_".join(["hajax", name, *(f"{key}_{value}" for key, value in options)])
            call.__name__ = call.__qualname__ = label
            _CALLS[label] = Named(name, function, options)
            return jax.jit(call)

        @functools.wraps(function)
        def wrapper(*arrays: Any, **options: Any) -> Any:
            return compiled(tuple(sorted(options.items())))(*arrays)

        return wrapper

    return decorate


def original(equation: Any) -> Named | None:
    """The named function that a jit equation is a call of, unchanged; None for any other."""
    found = _CALLS.get(equation.params.get("name", ""))
    if found is None:
        return None
    closed = equation.params["jaxpr"]
    wanted = _traced(found, tuple(closed.in_avals))
    if wanted is None or str(closed.jaxpr) != str(wanted.jaxpr) or len(closed.consts) != len(wanted.consts):
        return None
    return found if all(map(np.array_equal, closed.consts, wanted.consts)) else None


@functools.lru_cache(maxsize=4096)
def _traced(call: Named, avals: tuple[Any, ...]) -> Any:
    """The function's own jaxpr for such arrays; None when they cannot be its arguments."""
    try:
        return jax.make_jaxpr(functools.partial(call.function, **dict(call.options)))(*avals)
    except (TypeError, ValueError):
        return None
