"""Functions of hajax that are one torch call on the inference path (hajax/ops/_named.py), recognised by name and by jaxpr."""

from typing import Any

from hajax.npu.rules.registry import Rule

FUSED: dict[str, Any] = {}


def find(equation: Any) -> tuple[Rule, str] | None:
    """The rule for a call that is exactly one of those functions: no transformation has changed what it does."""
    return None
