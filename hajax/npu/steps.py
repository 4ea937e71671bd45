"""What a program consists of."""

import dataclasses
from collections.abc import Callable
from typing import Any


@dataclasses.dataclass(frozen=True, slots=True)
class Slot:
    """A value that the running program holds."""

    number: int


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """One call. Operands are slots, tensors or Python numbers; a result that nobody reads is None."""

    name: str
    function: Callable[..., Any]
    operands: tuple[Any, ...]
    results: tuple[int | None, ...]
    many: bool  # the function returns a tuple
    frees: tuple[int, ...]
    syncs: bool
    about: str
