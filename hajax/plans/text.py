"""A plan as canonical JSON (sorted keys, fixed separators): what the cache stores and what people read."""

import base64
import binascii
import dataclasses
import functools
import json
import zlib
from typing import Any, TypeVar, get_args, get_type_hints

from hajax.mechanisms import Mechanism
from hajax.plans.model import Fused, Note, Packed, Plan, Shape, check_plan
from hajax.plans.program import Programs
from hajax.plans.text_programs import programs_from_data, programs_to_data
from hajax.plans.verify_shape import verify_shape

_QUICK = 1  # zlib's level: a stored plan has to be read within a millisecond, and most of it is zeros
_MOST_BYTES = 1 << 28  # of packed programs
_Data = TypeVar("_Data")


def to_json(plan: Plan, *, indent: int | None = None) -> str:
    """Equal plans give equal text. Raises TypeError for what is no plan."""
    check_plan(plan)
    separators = (",", ":") if indent is None else None
    data = {field.name: getattr(plan, field.name) for field in dataclasses.fields(plan)}
    data["mechanism"], data["shape"] = dataclasses.asdict(plan.mechanism), dataclasses.asdict(plan.shape)
    data["notes"] = [dataclasses.asdict(note) for note in plan.notes]
    match plan.launch:
        case Fused():
            data["launch"] = dataclasses.asdict(plan.launch)
        case Programs():
            data["launch"] = programs_to_data(plan.launch)
        case Packed(packed):
            data["launch"] = {"zlib": base64.b64encode(zlib.compress(packed, _QUICK)).decode()}
    return json.dumps(data, sort_keys=True, separators=separators, indent=indent)


def from_json(text: str) -> Plan:
    """The plan that `to_json` wrote. Whether its launch can be run is for `verify` to say.

    Raises ValueError when a field is missing, unknown, of the wrong type, or a size or dtype that the fields of abi/ cannot hold;
    TypeError for what is no text.
    """
    if not isinstance(text, str):
        raise TypeError(f"text: expected a string, got {type(text).__name__}")
    try:
        data = json.loads(text)
    except RecursionError:
        raise ValueError("plan: not JSON of a plan (nested too deeply)") from None
    except ValueError as error:  # also for a number of thousands of digits
        raise ValueError(f"plan: not JSON ({error})") from None
    if not isinstance(data, dict):
        raise ValueError(f"plan: expected an object, got {type(data).__name__}")
    fields = dict(data)
    for name, kind in (("mechanism", Mechanism), ("shape", Shape)):
        fields[name] = _build(kind, fields.get(name), name)
    verify_shape(fields["shape"])
    fields["launch"] = _launch(fields.get("launch"))
    notes = fields.get("notes")
    if not isinstance(notes, list):
        raise ValueError(f"plan.notes: expected a list, got {type(notes).__name__}")
    fields["notes"] = tuple(_build(Note, note, "notes") for note in notes)
    return _build(Plan, fields, "plan")


def _launch(data: Any) -> Fused | Programs | Packed:
    """Which of the three it is shows by its fields."""
    if isinstance(data, dict) and "programs" in data:
        return programs_from_data(data)
    if isinstance(data, dict) and set(data) == {"zlib"}:
        try:
            stream = zlib.decompressobj()
            packed = stream.decompress(base64.b64decode(data["zlib"], validate=True), _MOST_BYTES)
        except (TypeError, binascii.Error, zlib.error) as error:
            raise ValueError(f"launch.zlib: expected base64 of what zlib made, got {error}") from None
        if not stream.eof or stream.unused_data:
            raise ValueError(f"launch.zlib: expected one stream of at most {_MOST_BYTES} bytes, got another end")
        return Packed(packed)
    return _build(Fused, data, "launch")


@functools.cache
def _scalars(kind: type) -> dict[str, tuple[type, ...]]:
    """Of each field, which scalars it may be; none where it is something else."""
    hints = {name: get_args(hint) or (hint,) for name, hint in get_type_hints(kind).items()}
    return {name: tuple(t for t in allowed if t in (int, str, bool, type(None))) for name, allowed in hints.items()}


def _build(kind: type[_Data], data: Any, where: str) -> _Data:
    """A frozen dataclass from a dict, with every field there, none beside them, and scalars of the declared type."""
    if not isinstance(data, dict):
        raise ValueError(f"{where}: expected an object, got {type(data).__name__}")
    fields = _scalars(kind)  # type: ignore[arg-type]
    if data.keys() != fields.keys():
        raise ValueError(f"{where}: expected the fields {sorted(fields)}, got {sorted(data)}")
    for name, scalars in fields.items():
        if scalars and not (isinstance(data[name], scalars) and (bool in scalars or not isinstance(data[name], bool))):
            raise ValueError(f"{where}.{name}: expected {' | '.join(t.__name__ for t in scalars)}, got {data[name]!r}")
    return kind(**data)
