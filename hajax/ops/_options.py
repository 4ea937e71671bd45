"""Which implementation a call takes when it names none: the innermost `hajax.use`, part of jit's cache key."""

import contextlib
from collections.abc import Iterator

import jax

from hajax.ops._arguments import check_implementation, check_target

SIM_TARGET = "ascend310p1"  # the chip that "sim" emulates when none is named

# (implementation, target). The target is None but for "sim".
_defaults = jax.make_user_context((None, None))


@contextlib.contextmanager
def use(*, implementation: str | None, target: str | None = None) -> Iterator[None]:
    """Within this context, calls that name no implementation take this one. `jax.jit` retraces for another choice.

    target: the chip that "sim" emulates, "ascend310p1" when no surrounding `use` names one.
    Raises ValueError for an unknown name, and for a target without implementation "sim".
    """
    with _defaults(_chosen(implementation, target)):
        yield


def chosen(implementation: str | None, target: str | None) -> tuple[str | None, str | None]:
    """What a call takes that names these: its implementation and, for "sim", its target."""
    return _chosen(implementation or _defaults.value[0], target)


def _chosen(implementation: str | None, target: str | None) -> tuple[str | None, str | None]:
    check_implementation(implementation)
    if target is not None:
        check_target(target)
        if implementation != "sim":
            raise ValueError(f"target: expected None unless implementation is 'sim' (it is {implementation!r}), got {target!r}")
    if implementation != "sim":
        return implementation, None
    return implementation, target or _defaults.value[1] or SIM_TARGET
