"""Programs of an Ascend core as JSON values and back: a step is one short list, so that a whole plan stays readable and small.

A step: opcode, dst, src0, src1 ("buffer+offset" or null), count, index, size, p, constant, stage, marks (f: first chunk only,
l: last chunk only, b: barrier), flags to wait for and to set ("M_V:3"), label.
"""

import base64
import binascii
from collections.abc import Callable
from typing import Any

from hajax import abi
from hajax.plans.program import Buffer, Flag, Item, Launch, Operand, Program, Programs, Step

_BUFFER = (("name", str), ("space", str), ("bytes", int), ("versions", int), ("kept", bool), ("address", int | None))
_ITEM = (("program", int), ("sequence", int), ("head", int), ("column", int), ("first_chunk", int), ("chunks", int))
_NUMBERS = ("heads", "columns", "step_address", "stages")
_PROGRAM = {*_NUMBERS, "carried", "buffers", "setup", "body", "finish", "masks", "scalars", "slot_bytes"}
_MARKS = (("f", "first"), ("l", "last"), ("b", "barrier"))
_STEP_FIELDS = 14


def programs_to_data(programs: Programs) -> dict[str, Any]:
    """What `json` can write."""
    return {
        "npu_arch": programs.npu_arch,
        "chunk": programs.chunk,
        "programs": [_program(program) for program in programs.programs],
        "launches": [_launch(launch) for launch in programs.launches],
        "constants": base64.b64encode(programs.constants).decode(),
        "workspace_slot_bytes": programs.workspace_slot_bytes,
    }


def programs_from_data(data: dict[str, Any]) -> Programs:
    """What `programs_to_data` made. Raises ValueError when a part is missing, unknown or of the wrong type."""
    where = "launch"
    _fields(data, {"npu_arch", "chunk", "programs", "launches", "constants", "workspace_slot_bytes"}, where)
    try:
        constants = base64.b64decode(_typed(data["constants"], str, f"{where}.constants"), validate=True)
    except binascii.Error as error:
        raise ValueError(f"{where}.constants: expected base64, got {error}") from None
    return Programs(
        _typed(data["npu_arch"], int, f"{where}.npu_arch"),
        _typed(data["chunk"], int, f"{where}.chunk"),
        _tuple(data["programs"], _read_program, f"{where}.programs"),
        _tuple(data["launches"], _read_launch, f"{where}.launches"),
        constants,
        _typed(data["workspace_slot_bytes"], int, f"{where}.workspace_slot_bytes"),
    )


def _launch(launch: Launch) -> dict[str, Any]:
    cores = [[[getattr(item, name) for name, _ in _ITEM] for item in core] for core in launch.cores]
    return {"cores": cores, "synced": launch.synced}


def _program(program: Program) -> dict[str, Any]:
    sections = {name: [_step(step) for step in getattr(program, name)] for name in ("setup", "body", "finish")}
    return {
        **{name: getattr(program, name) for name in _NUMBERS},
        "carried": program.carried,
        "buffers": [[getattr(buffer, name) for name, _ in _BUFFER] for buffer in program.buffers],
        **sections,
        "masks": [list(mask) for mask in program.masks],
        "scalars": list(program.scalars),
        "slot_bytes": dict(program.slot_bytes),
    }


def _step(step: Step) -> list[Any]:
    places = [None if one is None else f"{one.buffer}+{one.offset}" for one in (step.dst, step.src0, step.src1)]
    marks = "".join(mark for mark, name in _MARKS if getattr(step, name))
    flags = [[f"{flag.source}_{flag.target}:{flag.event}" for flag in some] for some in (step.waits, step.sets)]
    numbers = [step.count, step.index, step.size, list(step.p), step.constant, step.stage]
    return [step.opcode, *places, *numbers, marks, *flags, step.label]


def _fields(data: Any, names: set[str], where: str) -> None:
    if not isinstance(data, dict) or set(data) != names:
        got = sorted(data) if isinstance(data, dict) else type(data).__name__
        raise ValueError(f"{where}: expected the fields {sorted(names)}, got {got}")


def _typed(value: Any, kind: Any, where: str) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ValueError(f"{where}: expected {getattr(kind, '__name__', kind)}, got {value!r}")
    return value


def _number(value: Any, where: str) -> float:
    try:
        return float(_typed(value, int | float, where))
    except OverflowError:
        raise ValueError(f"{where}: expected a number that a float holds, got one of {value.bit_length()} bits") from None


def _list(data: Any, length: int, where: str) -> list[Any]:
    if not isinstance(data, list) or len(data) != length:
        raise ValueError(f"{where}: expected a list of {length}, got {data!r}")
    return data


def _tuple(data: Any, read: Callable[[Any, str], Any], where: str) -> tuple[Any, ...]:
    if not isinstance(data, list):
        raise ValueError(f"{where}: expected a list, got {type(data).__name__}")
    return tuple(read(one, where) for one in data)


def _row(kinds: tuple[tuple[str, Any], ...], data: Any, where: str) -> list[Any]:
    return [_typed(one, kind, f"{where}.{name}") for one, (name, kind) in zip(_list(data, len(kinds), where), kinds, strict=True)]


def _read_launch(data: Any, where: str) -> Launch:
    _fields(data, {"cores", "synced"}, where)
    return Launch(
        _tuple(data["cores"], lambda core, at: _tuple(core, lambda item, here: Item(*_row(_ITEM, item, here)), at), where),
        _typed(data["synced"], bool, f"{where}.synced"),
    )


def _read_program(data: Any, where: str) -> Program:
    _fields(data, _PROGRAM, where)
    numbers = {name: _typed(data[name], int, f"{where}.{name}") for name in _NUMBERS}
    slots = data["slot_bytes"]
    _fields(slots, set(slots) if isinstance(slots, dict) else set(), f"{where}.slot_bytes")
    return Program(
        **numbers,
        carried=_typed(data["carried"], bool, f"{where}.carried"),
        buffers=_tuple(data["buffers"], lambda one, at: Buffer(*_row(_BUFFER, one, at)), f"{where}.buffers"),
        setup=_tuple(data["setup"], _read_step, f"{where}.setup"),
        body=_tuple(data["body"], _read_step, f"{where}.body"),
        finish=_tuple(data["finish"], _read_step, f"{where}.finish"),
        masks=_tuple(data["masks"], lambda one, at: tuple(_row((("low", int), ("high", int)), one, at)), f"{where}.masks"),
        scalars=_tuple(data["scalars"], _number, f"{where}.scalars"),
        slot_bytes={name: _typed(slots[name], int, f"{where}.slot_bytes.{name}") for name in slots},
    )


def _operand(data: Any, where: str) -> Operand | None:
    if data is None:
        return None
    name, _, offset = _typed(data, str, where).rpartition("+")
    if not name or not offset.isdecimal():
        raise ValueError(f'{where}: expected "buffer+offset" or null, got {data!r}')
    return Operand(name, int(offset))


def _flag(data: Any, where: str) -> Flag:
    pair, _, event = _typed(data, str, where).partition(":")
    source, _, target = pair.partition("_")
    if pair not in abi.names("flags") or not event.isdecimal():
        raise ValueError(f'{where}: expected a flag like "M_V:3", got {data!r}')
    return Flag(source, target, int(event))


def _read_step(data: Any, where: str) -> Step:
    opcode, dst, src0, src1, *numbers, marks, waits, sets, label = _list(data, _STEP_FIELDS, where)
    if opcode not in abi.names("opcodes"):
        raise ValueError(f"{where}: expected an opcode of opcodes.def, got {opcode!r}")
    count, index, size, p, constant, stage = numbers
    if not isinstance(marks, str) or not set(marks) <= {mark for mark, _ in _MARKS}:
        raise ValueError(f"{where}: expected marks among {[mark for mark, _ in _MARKS]}, got {marks!r}")
    for number in (count, index, size, constant, stage, *_list(p, 8, f"{where}.p")):
        _typed(number, int, where)
    return Step(
        opcode,
        _operand(dst, where),
        _operand(src0, where),
        _operand(src1, where),
        count,
        index,
        size,
        tuple(p),
        constant,
        stage,
        "f" in marks,
        "l" in marks,
        "b" in marks,
        _tuple(waits, _flag, where),
        _tuple(sets, _flag, where),
        _typed(label, str, where),
    )
