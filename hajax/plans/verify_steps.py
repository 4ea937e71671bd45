"""What a step's fields may hold on the chip: operands in their memories, aligned, counts and strides within their limits."""

import functools
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NoReturn

from hajax import abi
from hajax.plans.footprint import UNIT, VECTOR, Access, Dims, footprint, operand_spaces, wide
from hajax.plans.model import Shape
from hajax.plans.program import Buffer, Program, Programs, Step
from hajax.plans.verify_blocks import reads_what_it_wrote, writes_twice

_SIDE = 16
_FRACTAL = 1024  # bytes of 16 x 16 fp32
_TILES = ("rows_to_l1", "rows_to_ub", "rows_from_ub")
_TENSOR_STEPS = (*_TILES, "gate_to_ub")
_IN, _OUT = ("query", "key", "value", "log_decay", "beta", "erase", "state_in"), ("output", "state_out")
_CONSTANTS, _WORKSPACE = ("constant_to_l1", "constant_to_ub"), ("workspace_to_l1", "workspace_to_ub", "workspace_from_ub")


def require(holds: bool, field: str, expected: object, got: object) -> None:
    """Raises ValueError when it does not hold."""
    if not holds:
        refuse(field, expected, got)


def refuse(field: str, expected: object, got: object) -> NoReturn:
    """Raises ValueError."""
    raise ValueError(f"plan.{field}: expected {expected}, got {got!r}")


@functools.cache
def alignment() -> Mapping[str, int]:
    """Bytes of which each memory's operands start at multiples."""
    return MappingProxyType({str(row[1]): int(row[2]) for row in abi.rows("spaces")})


@functools.cache
def _operand_alignment() -> Mapping[str, int]:
    """The same for operands of steps."""
    return MappingProxyType({**alignment(), "L0C": _FRACTAL})


def verify_step(
    step: Step, program: Program, buffers: Mapping[str, Buffer], programs: Programs, shape: Shape, section: str, where: str
) -> None:
    """Raises ValueError naming the field, what it must be and what it is."""
    _verify_fields(step, program, section, where)
    _verify_operands(step, program, buffers, where)
    vector = step.opcode in VECTOR
    if vector:
        _verify_vector(step, program, where)
    elif step.opcode != "sync":
        _verify_move(step, program, programs, shape, section, where)
    accesses = footprint(step, Dims(programs.chunk, shape.key_dim))
    for access in accesses:
        size = buffers[access.buffer].bytes
        if not 0 <= access.start < access.end <= size:
            refuse(where, f"bytes within the {size} of {access.buffer}", (access.start, access.end))
    if vector:
        _verify_overlap(step, program.masks[step.index], accesses, where)


def _verify_fields(step: Step, program: Program, section: str, where: str) -> None:
    """What holds of every step. Texts are made where they are needed only: a plan has hundreds of steps."""
    waits, sets = len(step.waits), len(step.sets)
    numbers = (step.count, step.index, *step.p)
    if step.opcode not in abi.names("opcodes"):
        refuse(f"{where}.opcode", "a name of opcodes.def", step.opcode)
    if len(step.p) != 8 or min(numbers) < 0 or max(numbers) > 255:
        refuse(f"{where}.p", "numbers from 0 to 255 in p, count and index", (step.count, step.index, step.p))
    if not 0 <= step.size <= 0xFFFF:
        refuse(f"{where}.size", "from 0 to 65535", step.size)
    if not 0 <= step.constant < 2**15:
        refuse(f"{where}.constant", "from 0 to 32767", step.constant)
    if not 0 <= step.stage < program.stages:
        refuse(f"{where}.stage", f"from 0 to {program.stages - 1}", step.stage)
    if section == "finish" and (step.first or (step.last and step.opcode != "rows_from_ub")):
        refuse(f"{where}.first, .last", "no marks in this section but the last one's of a store", (step.first, step.last))
    if waits > 2 or sets > 2:
        refuse(f"{where}.waits, .sets", "at most 2 each", (waits, sets))


def _verify_move(step: Step, program: Program, programs: Programs, shape: Shape, section: str, where: str) -> None:
    """A product, or a step that moves data."""
    if step.opcode in ("load_a", "load_b"):
        require(step.count >= 1 and 1 <= step.size <= 255, f"{where}.size", "1 to 255 fractals in a group", step.size)
        apart = step.count == 1 or step.p[3] >= step.size
        require(apart, f"{where}.p[3]", f"at least the {step.size} fractals of a group", step.p[3])
    elif step.opcode == "mmad":
        sizes = step.count >= 1 and min(step.p[:3]) >= 1
        require(sizes, f"{where}.p", "at least one product of at least one block each way", (step.count, step.p[:3]))
    elif step.opcode in _TENSOR_STEPS:
        _verify_tensor(step, program, shape, section, where)
    elif step.opcode in _WORKSPACE:
        _verify_workspace(step, program, programs.workspace_slot_bytes, shape, where)
    else:
        require(step.size >= 1 and step.count >= 1, f"{where}.size", "count and size of at least 1", (step.count, step.size))
    if step.opcode in _CONSTANTS:
        behind = (step.constant + step.size) * UNIT
        require(behind <= len(programs.constants), f"{where}.constant", f"within {len(programs.constants)} bytes", behind)


def _verify_workspace(step: Step, program: Program, slot: int, shape: Shape, where: str) -> None:
    """Of the item's columns, whichever they are; whether there are chunks before an item's first one is the item's."""
    require(step.size >= 1 and step.count >= 1, f"{where}.size", "count and size of at least 1", (step.count, step.size))
    behind = (step.constant + step.size) * UNIT
    require(behind <= slot, f"{where}.constant", f"within the {slot} bytes of a workspace slot", behind)
    last = behind + (shape.value_dim - program.columns) // _SIDE * wide(step.p, 4) * UNIT
    require(last <= slot, f"{where}.p[4:6]", f"the last columns within the {slot} bytes of a workspace slot", last)
    require(step.p[1] < program.heads, f"{where}.p[1]", f"a head below {program.heads}", step.p[1])
    writes = step.opcode == "workspace_from_ub"
    require(not writes or wide(step.p, 2) == 0, f"{where}.p[2:4]", "0 chunks back, as it writes", wide(step.p, 2))


def _verify_operands(step: Step, program: Program, buffers: Mapping[str, Buffer], where: str) -> None:
    """Each operand there, in its memory, aligned."""
    aligned = _operand_alignment()
    named = zip(("dst", "src0", "src1"), (step.dst, step.src0, step.src1), operand_spaces(step.opcode), strict=True)
    for name, operand, space in named:
        if operand is None:
            if space:
                refuse(f"{where}.{name}", f"a place in {space}", operand)
            continue
        if not space:
            refuse(f"{where}.{name}", "none", operand)
        buffer = buffers.get(operand.buffer)
        if buffer is None or buffer.space != space:
            raise ValueError(f"plan.{where}.{name}: expected a buffer of {space}, got {operand.buffer!r}")
        start = (buffer.address or 0) + operand.offset
        if start % aligned[space]:
            refuse(f"{where}.{name}", f"an address that is a multiple of {aligned[space]}", start)
        slot = program.slot_bytes.get(space, 0) if buffer.versions == 2 else 0
        if slot % aligned[space]:
            refuse(f"{where}.{name}", f"slot_bytes that are a multiple of {aligned[space]}", slot)


def _verify_vector(step: Step, program: Program, where: str) -> None:
    lanes = VECTOR[step.opcode]
    if not 1 <= step.size <= 255:
        refuse(f"{where}.size", "1 to 255 repeats", step.size)
    if step.index >= len(program.masks):
        refuse(f"{where}.index", f"a mask below {len(program.masks)}", step.index)
    if lanes.count == 64 and program.masks[step.index][0] <= 0:
        refuse(f"{where}.index", "a mask with one of 64 lanes on", program.masks[step.index])
    if step.p[6] >= len(program.scalars):
        refuse(f"{where}.p[6]", f"a scalar below {len(program.scalars)}", step.p[6])


def _verify_overlap(step: Step, mask: tuple[int, int], accesses: Sequence[Access], where: str) -> None:
    """A repeat may not read what an earlier one wrote, and within one, source and destination are the same or apart."""
    lanes, target = VECTOR[step.opcode], accesses[-1]
    if lanes.sums:
        return
    apart = step.p[0] >= 1 and (step.size == 1 or step.p[3] >= step.p[0] * lanes.blocks(lanes.dst))  # repeats follow one another
    require(apart or not writes_twice(step, mask), f"{where}.p", "repeats and blocks that write different bytes", step.p)
    for at, element, access in zip((1, 2), (lanes.src0, lanes.src1), accesses, strict=False):
        if not element or access.buffer != target.buffer or access.end <= target.start or target.end <= access.start:
            continue
        same = (step.p[at], step.p[3 + at]) == (step.p[0], step.p[3]) and (access.start, element) == (target.start, lanes.dst)
        meets = not same and reads_what_it_wrote(step, mask, at, element, (target.start - access.start) // UNIT)
        require(not meets, f"{where}.src{at - 1}", "the place of dst, or one that does not meet it", (access, target))


def _verify_tensor(step: Step, program: Program, shape: Shape, section: str, where: str) -> None:
    tensors = abi.names("tensors")
    require(step.p[0] < len(tensors), f"{where}.p[0]", "a number of tensors.def", step.p[0])
    name = tensors[step.p[0]]
    allowed = {"rows_from_ub": _OUT, "gate_to_ub": ("log_decay", "beta", "erase"), "rows_to_l1": ("query", "key", "value")}
    tensor_of = allowed.get(step.opcode, _IN)
    require(name in tensor_of, f"{where}.p[0]", f"one of {tensor_of}", name)
    require(step.p[1] < program.heads, f"{where}.p[1]", f"a head below {program.heads}", step.p[1])
    state = name in ("state_in", "state_out")
    if step.opcode in _TILES:
        columns = shape.key_dim if name in ("query", "key", "log_decay") else program.columns
        behind = (step.p[2] + step.count) * _SIDE
        require(step.count >= 1 and behind <= columns, f"{where}.count", f"columns within {columns}", behind)
    if step.opcode in ("rows_to_ub", "rows_from_ub"):
        layouts = 3 if step.opcode == "rows_from_ub" else 2
        require(step.p[3] < layouts, f"{where}.p[3]", f"a layout below {layouts}", step.p[3])
        require(step.p[4] == state, f"{where}.p[4]", f"{int(state)} for {name}", step.p[4])
        rows = (step.p[5] + step.p[6]) * _SIDE
        require(not state or rows <= shape.key_dim, f"{where}.p[6]", f"rows within {shape.key_dim}", rows)
    if step.opcode == "rows_from_ub":
        element = 4 if state or shape.output_dtype == "float32" else 2
        require(step.p[7] == element, f"{where}.p[7]", f"{element} bytes for {name}", step.p[7])
    chunk_wise = not state and section != "body"
    require(not chunk_wise, f"{where}", "steps that move a chunk's tokens in the body only", section)
