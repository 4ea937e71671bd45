"""Lets `hajax.jit` see which plans a lowering took, without the lowering knowing who asks."""

import contextlib
import contextvars
from collections.abc import Iterator

from hajax.plans import Plan

_lists: contextvars.ContextVar[tuple[list[Plan], ...]] = contextvars.ContextVar("hajax_plan_observers", default=())


@contextlib.contextmanager
def observe(plans: list[Plan]) -> Iterator[None]:
    """Within this context every plan that a lowering takes is appended to `plans`, once."""
    token = _lists.set((*_lists.get(), plans))
    try:
        yield
    finally:
        _lists.reset(token)


def notify(plan: Plan) -> None:
    for plans in _lists.get():
        if plan not in plans:
            plans.append(plan)
