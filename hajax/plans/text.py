"""A plan as canonical JSON (sorted keys, fixed separators): what the cache stores and what people read."""

import dataclasses
import json
from typing import Any, TypeVar, get_args, get_type_hints

from hajax.mechanisms import Mechanism
from hajax.plans.model import Fused, Note, Plan, Shape

_Data = TypeVar("_Data")


def to_json(plan: Plan, *, indent: int | None = None) -> str:
    """Equal plans give equal text."""
    separators = (",", ":") if indent is None else None
    return json.dumps(dataclasses.asdict(plan), sort_keys=True, separators=separators, indent=indent)


def from_json(text: str) -> Plan:
    """The plan that `to_json` wrote. Raises ValueError when a field is missing, unknown or of the wrong type."""
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"plan: not JSON ({error})") from None
    if not isinstance(data, dict):
        raise ValueError(f"plan: expected an object, got {type(data).__name__}")
    fields = dict(data)
    for name, kind in (("mechanism", Mechanism), ("shape", Shape), ("launch", Fused)):
        fields[name] = _build(kind, fields.get(name), name)
    notes = fields.get("notes")
    if not isinstance(notes, list):
        raise ValueError(f"plan.notes: expected a list, got {type(notes).__name__}")
    fields["notes"] = tuple(_build(Note, note, "notes") for note in notes)
    return _build(Plan, fields, "plan")


def _build(kind: type[_Data], data: Any, where: str) -> _Data:
    """A frozen dataclass from a dict, with every field there, none beside them, and scalars of the declared type."""
    if not isinstance(data, dict):
        raise ValueError(f"{where}: expected an object, got {type(data).__name__}")
    hints = get_type_hints(kind)
    if set(data) != set(hints):
        raise ValueError(f"{where}: expected the fields {sorted(hints)}, got {sorted(data)}")
    for name, hint in hints.items():
        allowed = get_args(hint) or (hint,)
        scalars = tuple(t for t in allowed if t in (int, str, bool, type(None)))
        if scalars and not (isinstance(data[name], scalars) and (bool in scalars or not isinstance(data[name], bool))):
            raise ValueError(f"{where}.{name}: expected {hint}, got {data[name]!r}")
    return kind(**data)
