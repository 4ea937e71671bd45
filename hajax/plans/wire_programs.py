"""Programs of an Ascend core to and from hj_npu_plan and what follows it: abi/plan.h says where each part lies.

Buffers and labels do not survive: steps read back name places of whole memories, "UB" or, if they alternate, "UB alternating".
"""

import functools
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import cffi

from hajax import abi
from hajax.plans.footprint import UNIT, operand_spaces
from hajax.plans.model import Plan
from hajax.plans.program import SPACES, Buffer, Flag, Item, Launch, Operand, Program, Programs, Step

ALIGNMENT = 32
FRAME_BYTES = abi.constant("HJ_FRAME_BYTES")
STEP_BYTES = 8 * abi.constant("HJ_STEP_WORDS")
_ALTERNATES, _CARRIES = abi.constant("HJ_ALTERNATES"), abi.constant("HJ_CARRIES_FLAGS")
_STAGE, _BARRIER = abi.constant("HJ_STAGE_MASK"), abi.constant("HJ_BARRIER_BEFORE")
_FIRST, _LAST = abi.constant("HJ_FIRST_CHUNK"), abi.constant("HJ_LAST_CHUNK")
_MASKS, _SCALARS = abi.constant("HJ_MASKS"), abi.constant("HJ_SCALARS")
_NAME_BYTES = abi.constant("HJ_TARGET_NAME")
_CORES = 12  # room in hj_npu_launch
_CHECKSUM_BYTES = 4
_EVENTS = 8  # of a pair of pipes
_CONSTANT_SOURCE = ("constant_to_l1", "constant_to_ub", "workspace_to_l1", "workspace_to_ub")


@functools.cache
def pointers(ffi: cffi.FFI) -> Mapping[str, Any]:
    """Of each struct, the type of pointers to it: all in one go, as cffi takes a millisecond or more to read a declaration."""
    names = ("hj_plan_header", "hj_cpu_plan", "hj_npu_plan", "hj_npu_launch", "hj_npu_item", "hj_npu_program", "hj_step")
    return dict(zip(names, ffi.typeof(f"void (*)({', '.join(f'{name} *' for name in names)})").args, strict=True))


def demand(ffi: cffi.FFI, struct: str, fields: Mapping[str, Any]) -> None:
    """A field that is left out would silently be zero, so each has to be named."""
    declared = {name for name, _ in pointers(ffi)[struct].item.fields}
    assert declared == set(fields), f"{struct}: fields {declared ^ set(fields)} differ between plan.h and the encoder"


def peak_bytes(program: Program) -> dict[str, int]:
    """By memory: behind the last byte that a program with addresses uses; in UB its steps and the kernel's frame count too."""
    peaks = dict.fromkeys(SPACES, 0)
    steps = len(program.setup) + len(program.body) + len(program.finish)
    peaks["UB"] = max(FRAME_BYTES, program.step_address + steps * STEP_BYTES)
    for buffer in program.buffers:
        second = program.slot_bytes.get(buffer.space, 0) if buffer.versions == 2 else 0
        peaks[buffer.space] = max(peaks[buffer.space], _address(buffer) + buffer.bytes + second)
    return peaks


def target_name(plan: Plan) -> str:
    """The chip of a plan, whose target may say more behind a dash."""
    return plan.target.partition("-")[0]


def encode(ffi: cffi.FFI, plan: Plan, programs: Programs, header: dict[str, Any]) -> bytes:
    """hj_npu_plan, launches, items, programs, steps, constants. The header's total_bytes is filled in here."""
    shape = plan.shape
    if shape.batch is None:
        raise ValueError("plan.shape.batch: expected a number, got None: an Ascend plan names every sequence")
    dtypes, name = abi.table("dtypes"), target_name(plan).encode()
    if len(name) >= _NAME_BYTES:
        raise ValueError(f"plan.target: expected a name of fewer than {_NAME_BYTES} bytes, got {name.decode()!r}")
    launches, items = _launches(programs.launches)
    sizes = [("launch_offset", len(launches), "hj_npu_launch"), ("item_offset", len(items), "hj_npu_item")]
    sizes += [("program_offset", len(programs.programs), "hj_npu_program")]
    at = _up(ffi.sizeof(pointers(ffi)["hj_npu_plan"].item))
    offsets = {}
    for field, count, struct in sizes:
        offsets[field] = at
        at = _up(at + count * ffi.sizeof(pointers(ffi)[struct].item))
    codes = [(*program.setup, *program.body, *program.finish) for program in programs.programs]
    places = []
    for steps in codes:
        places.append(at)
        at = _up(at + len(steps) * STEP_BYTES)
    total = at + _up(len(programs.constants))
    body = {
        "header": {**header, "total_bytes": total},
        "npu_arch": programs.npu_arch,
        "chunk": programs.chunk,
        "key_heads": shape.key_heads,
        "value_heads": shape.value_heads,
        "key_dim": shape.key_dim,
        "value_dim": shape.value_dim,
        "input_dtype": dtypes[shape.input_dtype],
        "output_dtype": dtypes[shape.output_dtype],
        "sequences": shape.batch * shape.sequences,
        "launches": len(launches),
        "programs": len(programs.programs),
        "items": len(items),
        **offsets,
        "constant_offset": at,
        "constant_bytes": len(programs.constants),
        "workspace_slot_bytes": programs.workspace_slot_bytes,
        "target": name.ljust(_NAME_BYTES, b"\0"),
        "checksum": 0,
    }
    demand(ffi, "hj_npu_plan", body)
    data = bytearray(total)
    _put(ffi, data, 0, "hj_npu_plan", [body])
    _put(ffi, data, offsets["launch_offset"], "hj_npu_launch", launches)
    _put(ffi, data, offsets["item_offset"], "hj_npu_item", items)
    described = [_program(program, place) for program, place in zip(programs.programs, places, strict=True)]
    _put(ffi, data, offsets["program_offset"], "hj_npu_program", described)
    for program, steps, place in zip(programs.programs, codes, places, strict=True):
        _put(ffi, data, place, "hj_step", _steps(program, steps))
    data[at : at + len(programs.constants)] = programs.constants
    return summed(ffi, data)


def summed(ffi: cffi.FFI, data: bytes | bytearray) -> bytes:
    """An hj_npu_plan with the checksum of its bytes."""
    place = ffi.offsetof("hj_npu_plan", "checksum")
    bare = data[:place] + bytes(_CHECKSUM_BYTES) + data[place + _CHECKSUM_BYTES :]
    return bytes(bare[:place] + zlib.crc32(bare).to_bytes(_CHECKSUM_BYTES, "little") + bare[place + _CHECKSUM_BYTES :])


def _up(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _address(buffer: Buffer) -> int:
    if buffer.address is None:
        raise ValueError(f"buffer {buffer.name}: expected an address, got None: the buffers pass has not run")
    return buffer.address


def _put(ffi: cffi.FFI, data: bytearray, at: int, struct: str, records: Sequence[Mapping[str, Any]]) -> None:
    for record in records[:1]:
        demand(ffi, struct, record)
    pointer = pointers(ffi)[struct]
    made = b"".join([ffi.buffer(ffi.new(pointer, record))[:] for record in records])
    data[at : at + len(made)] = made


def _launches(launches: Sequence[Launch]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    found: list[dict[str, Any]] = []
    items: list[dict[str, Any]] = []
    for number, launch in enumerate(launches):
        if len(launch.cores) > _CORES:
            raise ValueError(f"launch {number}: expected at most {_CORES} cores, got {len(launch.cores)}")
        counts = [len(core) for core in launch.cores]
        found.append(
            {
                "cores": len(launch.cores),
                "first_item": len(items),
                "sync_after": int(launch.synced),
                "reserved": 0,
                "core_items": counts + [0] * (_CORES - len(counts)),
            }
        )
        for core in launch.cores:
            for item in core:
                fields = ("program", "sequence", "head", "column", "first_chunk", "chunks")
                items.append({**{name: getattr(item, name) for name in fields}, "reserved": [0, 0]})
    return found, items


def _program(program: Program, step_offset: int) -> dict[str, Any]:
    if len(program.masks) > _MASKS or len(program.scalars) > _SCALARS:
        got = f"{len(program.masks)} and {len(program.scalars)}"
        raise ValueError(f"program: expected at most {_MASKS} masks and {_SCALARS} scalars, got {got}")
    spaces, peaks = abi.table("spaces"), peak_bytes(program)
    slots, used = [0] * 8, [0] * 8
    for space in SPACES:
        slots[spaces[space]] = program.slot_bytes.get(space, 0)
        used[spaces[space]] = peaks[space]
    masks = [word for mask in program.masks for word in mask]
    return {
        "heads": program.heads,
        "columns": program.columns,
        "step_offset": step_offset,
        "setup": len(program.setup),
        "body": len(program.body),
        "finish": len(program.finish),
        "step_address": program.step_address,
        "stages": program.stages | (_CARRIES if program.carried else 0),
        "slot_bytes": slots,
        "peak_bytes": used,
        "masks": masks + [0] * (2 * _MASKS - len(masks)),
        "scalars": list(program.scalars) + [0.0] * (_SCALARS - len(program.scalars)),
    }


def _steps(program: Program, steps: Sequence[Step]) -> list[dict[str, Any]]:
    buffers = {buffer.name: buffer for buffer in program.buffers}
    opcodes, flags = abi.table("opcodes"), abi.table("flags")

    def event(flag: Flag) -> int:
        if not 0 <= flag.event < _EVENTS:
            raise ValueError(f"flag {flag.source}_{flag.target}: expected an event from 0 to {_EVENTS - 1}, got {flag.event}")
        return flags[f"{flag.source}_{flag.target}"] * _EVENTS + flag.event

    def word(operand: Operand | None) -> int:
        if operand is None:
            return 0
        buffer = buffers[operand.buffer]
        address, rest = divmod(_address(buffer) + operand.offset, UNIT)
        if rest or not 0 <= address < _ALTERNATES:
            raise ValueError(
                f"operand {operand}: expected a multiple of {UNIT} below {UNIT * _ALTERNATES}, got {address * UNIT + rest}"
            )
        return address | (_ALTERNATES if buffer.versions == 2 else 0)

    found = []
    for step in steps:
        waits, sets = [event(flag) for flag in step.waits], [event(flag) for flag in step.sets]
        dst, src0 = word(step.dst), word(step.src0)
        if step.opcode in _CONSTANT_SOURCE:
            src0 = step.constant
        elif step.opcode == "workspace_from_ub":
            dst = step.constant
        control = step.stage | _BARRIER * step.barrier | _FIRST * step.first | _LAST * step.last
        found.append(
            {
                "opcode": opcodes[step.opcode],
                "control": control,
                "wait": _filled(waits, 2, step),
                "set": _filled(sets, 2, step),
                "count": step.count,
                "index": step.index,
                "dst": dst,
                "src0": src0,
                "src1": word(step.src1),
                "size": step.size,
                "p": step.p,
            }
        )
    return found


def _filled(events: list[int], room: int, step: Step) -> tuple[int, ...]:
    if len(events) > room:
        raise ValueError(f"step {step.label or step.opcode!r}: expected at most {room} flags here, got {len(events)}")
    return (*events, *[0] * (room - len(events)))


def check_bytes(data: object) -> None:
    """Raises TypeError for what is not bytes, as a plan's are."""
    if not isinstance(data, bytes):
        raise TypeError(f"plan: expected bytes as hajax.plans.to_bytes makes them, got {type(data).__name__}")


def check_header(data: bytes) -> None:
    """Raises ValueError when bytes do not start as a plan of this abi and of this length, TypeError for what is not bytes."""
    check_bytes(data)
    wanted = abi.constant("HJ_PLAN_MAGIC").to_bytes(4, "little") + len(data).to_bytes(4, "little") + bytes.fromhex(abi.digest())
    if not data.startswith(wanted):
        raise ValueError("plan: expected bytes that start with this abi's magic, their length and this abi's digest, got others")


def decode(ffi: cffi.FFI, data: bytes) -> Programs:
    """What `encode` made. Raises ValueError when the parts do not lie within the bytes, or a byte has changed."""
    check_header(data)
    if len(data) < ffi.sizeof("hj_npu_plan"):
        raise ValueError(f"plan: expected at least {ffi.sizeof('hj_npu_plan')} bytes, got {len(data)}")
    plan = ffi.from_buffer("hj_npu_plan *", data)
    launches = _array(ffi, data, "hj_npu_launch", plan.launch_offset, plan.launches)
    items = _array(ffi, data, "hj_npu_item", plan.item_offset, plan.items)
    programs = _array(ffi, data, "hj_npu_program", plan.program_offset, plan.programs)
    _array(ffi, data, "char", plan.constant_offset, plan.constant_bytes)
    if (whole := summed(ffi, data)) != data:
        wanted = ffi.from_buffer("hj_npu_plan *", whole).checksum
        raise ValueError(f"plan: checksum: expected {wanted} (of its bytes), got {plan.checksum}")
    return Programs(
        plan.npu_arch,
        plan.chunk,
        tuple(_read_program(ffi, data, program) for program in programs),
        tuple(_read_launch(launch, items) for launch in launches),
        data[plan.constant_offset : plan.constant_offset + plan.constant_bytes],
        plan.workspace_slot_bytes,
    )


def _array(ffi: cffi.FFI, data: bytes, struct: str, offset: int, count: int) -> Any:
    size = count * ffi.sizeof(struct)
    if offset % ALIGNMENT or offset < 0 or count < 0 or offset + size > len(data):
        raise ValueError(f"plan: expected {count} {struct} within {len(data)} bytes, got them at {offset}")
    return ffi.from_buffer(f"{struct}[{count}]", memoryview(data)[offset : offset + size]) if count else []


def _read_launch(launch: Any, items: Sequence[Any]) -> Launch:
    cores, at = [], launch.first_item
    for core in range(launch.cores):
        mine = items[at : at + launch.core_items[core]]
        at += launch.core_items[core]
        cores.append(tuple(Item(i.program, i.sequence, i.head, i.column, i.first_chunk, i.chunks) for i in mine))
    return Launch(tuple(cores), bool(launch.sync_after))


def _read_program(ffi: cffi.FFI, data: bytes, program: Any) -> Program:
    spaces, used = abi.table("spaces"), set[str]()
    records = _array(ffi, data, "hj_step", program.step_offset, program.setup + program.body + program.finish)
    steps = tuple(_read_step(record, used) for record in records)
    slots = {space: program.slot_bytes[spaces[space]] for space in SPACES}
    buffers = []
    for space in SPACES:
        peak = program.peak_bytes[spaces[space]]
        buffers.append(Buffer(space, space, peak, address=0))
        if f"{space} alternating" in used:
            buffers.append(Buffer(f"{space} alternating", space, peak - slots[space], 2, address=0))
    ends = (program.setup, program.setup + program.body)
    masks = [(program.masks[2 * i], program.masks[2 * i + 1]) for i in range(_MASKS)]
    return Program(
        program.heads,
        program.columns,
        tuple(buffers),
        steps[: ends[0]],
        steps[ends[0] : ends[1]],
        steps[ends[1] :],
        tuple(masks),
        tuple(program.scalars),
        slots,
        program.step_address,
        program.stages & ~_CARRIES,
        bool(program.stages & _CARRIES),
    )


def _read_step(record: Any, used: set[str]) -> Step:
    opcode = abi.table("opcodes")(record.opcode).name
    constant = 0
    if opcode in _CONSTANT_SOURCE:
        constant = record.src0
    elif opcode == "workspace_from_ub":
        constant = record.dst

    def operand(word: int, space: str) -> Operand | None:
        if not space:
            return None
        name = f"{space} alternating" if word & _ALTERNATES else space
        used.add(name)
        return Operand(name, (word & (_ALTERNATES - 1)) * UNIT)

    spaces = operand_spaces(opcode)
    words = (record.dst, record.src0, record.src1)
    dst, src0, src1 = (operand(word, space) for word, space in zip(words, spaces, strict=True))
    return Step(
        opcode, dst, src0, src1, record.count, record.index, record.size, tuple(record.p), constant,
        stage=record.control & _STAGE,
        first=bool(record.control & _FIRST),
        last=bool(record.control & _LAST),
        barrier=bool(record.control & _BARRIER),
        waits=_flags(record.wait),
        sets=_flags(record.set),
    )  # fmt: skip


def _flags(events: Sequence[int]) -> tuple[Flag, ...]:
    found = []
    for event in events:
        if event:
            source, target = abi.table("flags")(event // _EVENTS).name.split("_")
            found.append(Flag(source, target, event % _EVENTS))
    return tuple(found)
