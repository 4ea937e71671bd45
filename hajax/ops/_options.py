"""Which implementation a call takes when it names none: the innermost `hajax.use`, part of jit's cache key."""

import contextlib
from collections.abc import Iterator

import jax

from hajax.ops._arguments import check_implementation

_default_implementation = jax.make_user_context(None)


@contextlib.contextmanager
def use(*, implementation: str | None) -> Iterator[None]:
    """Within this context, calls that name no implementation take this one. `jax.jit` retraces for another choice.

    Raises ValueError for an unknown name.
    """
    with _default_implementation(check_implementation(implementation)):
        yield


def chosen_implementation(named: str | None) -> str | None:
    return check_implementation(named) or _default_implementation.value
