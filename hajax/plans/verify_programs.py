"""Whether programs of an Ascend core can run on a chip as they stand: sizes, alignment, fields, flags, lives, items, outputs.

Knows the rules of chip and kernel, nothing of the passes; footprints of opcodes are all that both use.
"""

from hajax import abi
from hajax.plans.footprint import UNIT, VECTOR, Dims, footprint, operand_spaces
from hajax.plans.model import Shape
from hajax.plans.program import SPACES, Buffer, Program, Programs, Step
from hajax.plans.verify_items import verify_items
from hajax.plans.verify_lives import verify_lives
from hajax.plans.verify_order import verify_order
from hajax.targets import NpuTarget

CHUNKS = (16, 32, 64, 128)
_ALL_LANES = (2**64 - 1, 2**64 - 1)
_SIDE = 16
_FRACTAL = 1024  # bytes of 16 x 16 fp32
_TILES = ("rows_to_l1", "rows_to_ub", "rows_from_ub")
_TENSOR_STEPS = (*_TILES, "gate_to_ub")
_IN, _OUT = ("query", "key", "value", "log_decay", "beta", "erase", "state_in"), ("output", "state_out")
_CONSTANTS, _WORKSPACE = ("constant_to_l1", "constant_to_ub"), ("workspace_to_l1", "workspace_to_ub", "workspace_from_ub")


def verify_programs(shape: Shape, programs: Programs, target: NpuTarget) -> None:
    """Raises ValueError naming the part, what it must be and what it is."""
    _verify_shape(shape)
    zeros = abi.constant("HJ_ZERO_BYTES")
    _require(programs.npu_arch == target.npu_arch, "launch.npu_arch", target.npu_arch, programs.npu_arch)
    _require(programs.chunk in CHUNKS, "launch.chunk", f"one of {CHUNKS}", programs.chunk)
    whole = len(programs.constants) % UNIT == 0 and programs.constants[:zeros] == bytes(zeros)
    _require(
        whole, "launch.constants", f"{zeros} zeros first, and a multiple of {UNIT} bytes", f"{len(programs.constants)} bytes"
    )
    slot = programs.workspace_slot_bytes
    _require(slot >= 0 and slot % UNIT == 0, "launch.workspace_slot_bytes", f"a multiple of {UNIT}", slot)
    dims = Dims(programs.chunk, shape.key_dim)
    for number, program in enumerate(programs.programs):
        where = f"launch.programs[{number}]"
        _verify_head(program, where)
        _verify_buffers(program, where, target)
        for name in ("setup", "body", "finish"):
            for at, step in enumerate(getattr(program, name)):
                _verify_step(step, program, programs, shape, dims, name, f"{where}.{name}[{at}] ({step.label or step.opcode})")
        verify_order(program, f"plan.{where}", dims, target)
        verify_lives(program, f"plan.{where}", dims)
    verify_items(shape, programs, target)


def _require(holds: bool, field: str, expected: object, got: object) -> None:
    if not holds:
        raise ValueError(f"plan.{field}: expected {expected}, got {got!r}")


def _verify_shape(shape: Shape) -> None:
    _require(shape.batch is not None and shape.batch >= 1, "shape.batch", ">= 1", shape.batch)
    _require(shape.tokens is None or shape.tokens >= 1, "shape.tokens", ">= 1 or None", shape.tokens)
    _require(shape.sequences >= 1, "shape.sequences", ">= 1", shape.sequences)
    _require(shape.key_heads >= 1, "shape.key_heads", ">= 1", shape.key_heads)
    shared = shape.value_heads >= 1 and shape.value_heads % shape.key_heads == 0
    _require(shared, "shape.value_heads", f"a multiple of key_heads={shape.key_heads}", shape.value_heads)
    for name in ("key_dim", "value_dim"):
        size = getattr(shape, name)
        _require(size % _SIDE == 0 and _SIDE <= size <= 256, f"shape.{name}", f"a multiple of {_SIDE} up to 256", size)
    _require(shape.input_dtype == "float16", "shape.input_dtype", "float16", shape.input_dtype)
    _require(shape.output_dtype in ("float16", "float32"), "shape.output_dtype", "float16 or float32", shape.output_dtype)


def _verify_head(program: Program, where: str) -> None:
    most, room = abi.constant("HJ_MASKS"), abi.constant("HJ_SCALARS")
    _require(program.heads >= 1, f"{where}.heads", ">= 1", program.heads)
    columns = program.columns
    _require(columns >= _SIDE and columns % _SIDE == 0, f"{where}.columns", f"a multiple of {_SIDE}", columns)
    stages = abi.constant("HJ_STAGES")
    _require(1 <= program.stages <= stages, f"{where}.stages", f"from 1 to {stages}", program.stages)
    masks = program.masks
    _require(1 <= len(masks) <= most and masks[0] == _ALL_LANES, f"{where}.masks", f"1 to {most}, the first all lanes", masks)
    lanes = all(0 <= word < 2**64 for mask in masks for word in mask) and all(any(mask) for mask in masks)
    _require(lanes, f"{where}.masks", "64 bits a word, a lane that is on in each", masks)
    _require(1 <= len(program.scalars) <= room, f"{where}.scalars", f"1 to {room}", len(program.scalars))


def _verify_buffers(program: Program, where: str, target: NpuTarget) -> None:
    """Names, addresses, alignment, sizes; what the kernel itself keeps in UB stays free."""
    names = [buffer.name for buffer in program.buffers]
    _require(
        len(set(names)) == len(names), f"{where}.buffers", "names that differ", sorted(n for n in names if names.count(n) > 1)
    )
    sizes = {space: getattr(target, f"{space.lower()}_bytes") for space in SPACES}
    sizes["UB"] -= target.ub_reserved_bytes
    alignment = {str(row[1]): int(row[2]) for row in abi.rows("spaces")}
    frame = abi.constant("HJ_FRAME_BYTES")
    count = len(program.setup) + len(program.body) + len(program.finish)
    steps = (program.step_address, program.step_address + count * 8 * abi.constant("HJ_STEP_WORDS"))
    inside = program.step_address % UNIT == 0 and steps[0] >= frame and steps[1] <= sizes["UB"]
    _require(inside, f"{where}.step_address", f"a multiple of {UNIT}, {count} steps within {frame} .. {sizes['UB']} of UB", steps)
    for space, slot in program.slot_bytes.items():
        aligned = space in SPACES and slot >= 0 and slot % alignment[space] == 0
        _require(aligned, f"{where}.slot_bytes", "multiples of the alignment of each memory", (space, slot))
    for buffer in program.buffers:
        here = f"{where}.buffers[{buffer.name}]"
        _require(buffer.space in SPACES, f"{here}.space", f"one of {SPACES}", buffer.space)
        _require(buffer.versions in (1, 2), f"{here}.versions", "1 or 2", buffer.versions)
        _require(buffer.bytes > 0, f"{here}.bytes", "> 0", buffer.bytes)
        unit = alignment[buffer.space]
        for start, end in _extents(buffer, program, here):
            placed = start >= 0 and start % unit == 0 and end <= sizes[buffer.space]
            _require(placed, f"{here}.address", f"a multiple of {unit}, within {sizes[buffer.space]} bytes", (start, end))
            free = buffer.space != "UB" or (start >= frame and (end <= steps[0] or start >= steps[1]))
            _require(free, f"{here}.address", f"bytes beside the frame (below {frame}) and the steps {steps}", (start, end))


def _extents(buffer: Buffer, program: Program, here: str) -> list[tuple[int, int]]:
    """First byte and the one behind the last, of each version."""
    if buffer.address is None:
        raise ValueError(f"plan.{here}.address: expected a number, got None")
    found = [(buffer.address, buffer.address + buffer.bytes)]
    if buffer.versions == 2:
        slot = program.slot_bytes.get(buffer.space, 0)
        _require(slot >= buffer.bytes, f"{here}.bytes", f"at most slot_bytes of {buffer.space}={slot}", buffer.bytes)
        found.append((buffer.address + slot, buffer.address + slot + buffer.bytes))
    return found


def _verify_step(step: Step, program: Program, programs: Programs, shape: Shape, dims: Dims, section: str, where: str) -> None:
    _require(step.opcode in abi.names("opcodes"), f"{where}.opcode", "a name of opcodes.def", step.opcode)
    bytes_fit = len(step.p) == 8 and all(0 <= number <= 255 for number in (step.count, step.index, *step.p))
    _require(bytes_fit, f"{where}.p", "numbers from 0 to 255 in p, count and index", (step.count, step.index, step.p))
    _require(0 <= step.size <= 0xFFFF, f"{where}.size", "from 0 to 65535", step.size)
    _require(0 <= step.stage < program.stages, f"{where}.stage", f"from 0 to {program.stages - 1}", step.stage)
    marks = section != "finish" or not (step.first or step.last)
    _require(marks, f"{where}.first, .last", "marks that mean something in this section", (step.first, step.last))
    waits, sets = len(step.waits), len(step.sets)
    _require(waits <= 2 and sets <= 2, f"{where}.waits, .sets", "at most 2 each", (waits, sets))
    _verify_operands(step, program, where)
    if step.opcode in VECTOR:
        _verify_vector(step, program, where)
    elif step.opcode in ("load_a", "load_b"):
        _require(step.count >= 1 and 1 <= step.size <= 255, f"{where}.size", "1 to 255 fractals in a group", step.size)
        apart = step.count == 1 or step.p[3] >= step.size
        _require(apart, f"{where}.p[3]", f"at least the {step.size} fractals of a group", step.p[3])
    elif step.opcode == "mmad":
        sizes = step.count >= 1 and min(step.p[:3]) >= 1
        _require(sizes, f"{where}.p", "at least one product of at least one block each way", (step.count, step.p[:3]))
    elif step.opcode in _TENSOR_STEPS:
        _verify_tensor(step, program, shape, section, where)
    elif step.opcode != "sync":
        _require(step.size >= 1 and step.count >= 1, f"{where}.size", "count and size of at least 1", (step.count, step.size))
    if step.opcode in _CONSTANTS:
        behind = (step.constant + step.size) * UNIT
        _require(behind <= len(programs.constants), f"{where}.constant", f"within {len(programs.constants)} bytes", behind)
    if step.opcode in _WORKSPACE:
        behind, slot = (step.constant + step.size) * UNIT, programs.workspace_slot_bytes
        _require(behind <= slot, f"{where}.constant", f"within the {slot} bytes of a workspace slot", behind)
        _require(step.p[1] < program.heads, f"{where}.p[1]", f"a head below {program.heads}", step.p[1])
    _require(0 <= step.constant < 2**15, f"{where}.constant", "from 0 to 32767", step.constant)
    _verify_bytes(step, program, dims, where)


def _verify_bytes(step: Step, program: Program, dims: Dims, where: str) -> None:
    """All that the step touches is inside of its buffers."""
    sizes = {buffer.name: buffer.bytes for buffer in program.buffers}
    for access in footprint(step, dims):
        inside = 0 <= access.start < access.end <= sizes[access.buffer]
        place = f"bytes within the {sizes[access.buffer]} of {access.buffer}"
        _require(inside, where, place, (access.start, access.end))


def _verify_operands(step: Step, program: Program, where: str) -> None:
    """Each operand there, in its memory, aligned."""
    buffers = {buffer.name: buffer for buffer in program.buffers}
    alignment = {str(row[1]): int(row[2]) for row in abi.rows("spaces")} | {"L0C": _FRACTAL}
    named = zip(("dst", "src0", "src1"), (step.dst, step.src0, step.src1), operand_spaces(step.opcode), strict=True)
    for name, operand, space in named:
        _require((operand is not None) == bool(space), f"{where}.{name}", f"a place in {space}" if space else "none", operand)
        if operand is None:
            continue
        buffer = buffers.get(operand.buffer)
        if buffer is None or buffer.space != space:
            raise ValueError(f"plan.{where}.{name}: expected a buffer of {space}, got {operand.buffer!r}")
        start = (buffer.address or 0) + operand.offset
        _require(start % alignment[space] == 0, f"{where}.{name}", f"an address that is a multiple of {alignment[space]}", start)
        slot = program.slot_bytes.get(space, 0) if buffer.versions == 2 else 0
        _require(slot % alignment[space] == 0, f"{where}.{name}", f"slot_bytes that are a multiple of {alignment[space]}", slot)


def _verify_vector(step: Step, program: Program, where: str) -> None:
    lanes = VECTOR[step.opcode]
    _require(1 <= step.size <= 255, f"{where}.size", "1 to 255 repeats", step.size)
    _require(step.index < len(program.masks), f"{where}.index", f"a mask below {len(program.masks)}", step.index)
    if lanes.count == 64:
        _require(program.masks[step.index][0] > 0, f"{where}.index", "a mask with one of 64 lanes on", program.masks[step.index])
    _require(step.p[6] < len(program.scalars), f"{where}.p[6]", f"a scalar below {len(program.scalars)}", step.p[6])
    if lanes.sums:
        return
    if step.size > 1:
        _require(step.p[3] > 0, f"{where}.p[3]", "repeats that write different bytes", step.p[3])
    _require(step.p[0] > 0, f"{where}.p[0]", "blocks that write different bytes", step.p[0])
    accesses = footprint(step, Dims(0, 0))
    target = accesses[-1]
    for at, element, access in zip((1, 2), (lanes.src0, lanes.src1), accesses, strict=False):
        if not element or access.buffer != target.buffer:
            continue
        same = access.start == target.start and element == lanes.dst
        same = same and (step.p[at], step.p[3 + at] if step.size > 1 else 0) == (step.p[0], step.p[3] if step.size > 1 else 0)
        apart = access.end <= target.start or target.end <= access.start
        _require(same or apart, f"{where}.src{at - 1}", "the place of dst, or one that does not overlap it", (access, target))


def _verify_tensor(step: Step, program: Program, shape: Shape, section: str, where: str) -> None:
    tensors = abi.names("tensors")
    _require(step.p[0] < len(tensors), f"{where}.p[0]", "a number of tensors.def", step.p[0])
    name = tensors[step.p[0]]
    allowed = {"rows_from_ub": _OUT, "gate_to_ub": ("log_decay", "beta", "erase"), "rows_to_l1": ("query", "key", "value")}
    tensor_of = allowed.get(step.opcode, _IN)
    _require(name in tensor_of, f"{where}.p[0]", f"one of {tensor_of}", name)
    _require(step.p[1] < program.heads, f"{where}.p[1]", f"a head below {program.heads}", step.p[1])
    state = name in ("state_in", "state_out")
    if step.opcode in _TILES:
        columns = shape.key_dim if name in ("query", "key", "log_decay") else program.columns
        behind = (step.p[2] + step.count) * _SIDE
        _require(step.count >= 1 and behind <= columns, f"{where}.count", f"columns within {columns}", behind)
    if step.opcode in ("rows_to_ub", "rows_from_ub"):
        layouts = 3 if step.opcode == "rows_from_ub" else 2
        _require(step.p[3] < layouts, f"{where}.p[3]", f"a layout below {layouts}", step.p[3])
        _require(step.p[4] == state, f"{where}.p[4]", f"{int(state)} for {name}", step.p[4])
        rows = (step.p[5] + step.p[6]) * _SIDE
        _require(not state or rows <= shape.key_dim, f"{where}.p[6]", f"rows within {shape.key_dim}", rows)
    if step.opcode == "rows_from_ub":
        element = 4 if state or shape.output_dtype == "float32" else 2
        _require(step.p[7] == element, f"{where}.p[7]", f"{element} bytes for {name}", step.p[7])
    chunk_wise = not state and section != "body"
    _require(not chunk_wise, f"{where}", "steps that move a chunk's tokens in the body only", section)
