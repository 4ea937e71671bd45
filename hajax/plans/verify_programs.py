"""Whether programs of an Ascend core can run on a chip as they stand: sizes, alignment, fields, flags, lives, items, outputs.

Knows the rules of chip and kernel, nothing of the passes; footprints of opcodes and pieces of memories are all that both use.
"""

from hajax import abi
from hajax.plans.footprint import UNIT, Dims
from hajax.plans.model import Shape
from hajax.plans.program import SPACES, Buffer, Program, Programs
from hajax.plans.verify_items import verify_items
from hajax.plans.verify_lives import verify_lives
from hajax.plans.verify_order import verify_order
from hajax.plans.verify_pieces import SECTIONS, touched_by
from hajax.plans.verify_shape import MOST_SIZE, verify_shape
from hajax.plans.verify_steps import alignment, refuse, require, verify_step
from hajax.targets import NpuTarget

CHUNKS = (16, 32, 64, 128)
_ALL_LANES = (2**64 - 1, 2**64 - 1)
_SIDE = 16


def verify_programs(shape: Shape, programs: Programs, target: NpuTarget) -> None:
    """Raises ValueError naming the part, what it must be and what it is."""
    verify_shape(shape)
    verify_chip_shape(shape)
    zeros = abi.constant("HJ_ZERO_BYTES")
    require(programs.npu_arch == target.npu_arch, "launch.npu_arch", target.npu_arch, programs.npu_arch)
    require(programs.chunk in CHUNKS, "launch.chunk", f"one of {CHUNKS}", programs.chunk)
    whole = len(programs.constants) % UNIT == 0 and programs.constants[:zeros] == bytes(zeros)
    require(whole, "launch.constants", f"{zeros} zeros first, and a multiple of {UNIT} bytes", f"{len(programs.constants)} bytes")
    slot = programs.workspace_slot_bytes
    require(slot >= 0 and slot % UNIT == 0, "launch.workspace_slot_bytes", f"a multiple of {UNIT}", slot)
    require(slot <= MOST_SIZE, "launch.workspace_slot_bytes", f"at most {MOST_SIZE}", slot)
    dims = Dims(programs.chunk, shape.key_dim)
    for number, program in enumerate(programs.programs):
        where = f"launch.programs[{number}]"
        _verify_head(program, where)
        _verify_buffers(program, where, target)
        buffers = {buffer.name: buffer for buffer in program.buffers}
        for name in SECTIONS:
            for at, step in enumerate(getattr(program, name)):
                here = f"{where}.{name}[{at}] ({step.label or step.opcode})"
                verify_step(step, program, buffers, programs, shape, name, here)
        touched = touched_by(program, dims)
        verify_order(program, f"plan.{where}", target, touched)
        verify_lives(program, f"plan.{where}", touched)
    verify_items(shape, programs, target)


def verify_chip_shape(shape: Shape) -> None:
    """What a chip asks of a shape beside what `verify_shape` does."""
    if shape.batch is None:
        refuse("shape.batch", "an integer, as an Ascend plan names every sequence", shape.batch)
    for name in ("key_dim", "value_dim"):
        size = getattr(shape, name)
        require(size % _SIDE == 0 and _SIDE <= size <= 256, f"shape.{name}", f"a multiple of {_SIDE} up to 256", size)
    require(shape.input_dtype == "float16", "shape.input_dtype", "float16", shape.input_dtype)
    require(shape.output_dtype in ("float16", "float32"), "shape.output_dtype", "float16 or float32", shape.output_dtype)


def _verify_head(program: Program, where: str) -> None:
    most, room = abi.constant("HJ_MASKS"), abi.constant("HJ_SCALARS")
    require(program.heads >= 1, f"{where}.heads", ">= 1", program.heads)
    columns = program.columns
    require(columns >= _SIDE and columns % _SIDE == 0, f"{where}.columns", f"a multiple of {_SIDE}", columns)
    stages = abi.constant("HJ_STAGES")
    require(1 <= program.stages <= stages, f"{where}.stages", f"from 1 to {stages}", program.stages)
    masks = program.masks
    require(1 <= len(masks) <= most and masks[0] == _ALL_LANES, f"{where}.masks", f"1 to {most}, the first all lanes", masks)
    lanes = all(0 <= word < 2**64 for mask in masks for word in mask) and all(any(mask) for mask in masks)
    require(lanes, f"{where}.masks", "64 bits a word, a lane that is on in each", masks)
    require(1 <= len(program.scalars) <= room, f"{where}.scalars", f"1 to {room}", len(program.scalars))


def _verify_buffers(program: Program, where: str, target: NpuTarget) -> None:
    """Names, addresses, alignment, sizes; what the kernel itself keeps in UB stays free."""
    names = [buffer.name for buffer in program.buffers]
    require(
        len(set(names)) == len(names), f"{where}.buffers", "names that differ", sorted(n for n in names if names.count(n) > 1)
    )
    sizes = {space: getattr(target, f"{space.lower()}_bytes") for space in SPACES}
    sizes["UB"] -= target.ub_reserved_bytes
    aligned_at = alignment()
    frame = abi.constant("HJ_FRAME_BYTES")
    count = len(program.setup) + len(program.body) + len(program.finish)
    steps = (program.step_address, program.step_address + count * 8 * abi.constant("HJ_STEP_WORDS"))
    inside = program.step_address % UNIT == 0 and steps[0] >= frame and steps[1] <= sizes["UB"]
    require(inside, f"{where}.step_address", f"a multiple of {UNIT}, {count} steps within {frame} .. {sizes['UB']} of UB", steps)
    for space, slot in program.slot_bytes.items():
        aligned = space in SPACES and 0 <= slot <= sizes[space] and slot % aligned_at[space] == 0
        require(aligned, f"{where}.slot_bytes", "multiples of the alignment of each memory, within it", (space, slot))
    for buffer in program.buffers:
        here = f"{where}.buffers[{buffer.name}]"
        require(buffer.space in SPACES, f"{here}.space", f"one of {SPACES}", buffer.space)
        require(buffer.versions in (1, 2), f"{here}.versions", "1 or 2", buffer.versions)
        require(buffer.bytes > 0, f"{here}.bytes", "> 0", buffer.bytes)
        unit = aligned_at[buffer.space]
        for start, end in _extents(buffer, program, here):
            placed = start >= 0 and start % unit == 0 and end <= sizes[buffer.space]
            require(placed, f"{here}.address", f"a multiple of {unit}, within {sizes[buffer.space]} bytes", (start, end))
            free = buffer.space != "UB" or (start >= frame and (end <= steps[0] or start >= steps[1]))
            require(free, f"{here}.address", f"bytes beside the frame (below {frame}) and the steps {steps}", (start, end))


def _extents(buffer: Buffer, program: Program, here: str) -> list[tuple[int, int]]:
    """First byte and the one behind the last, of each version."""
    if buffer.address is None:
        raise ValueError(f"plan.{here}.address: expected a number, got None")
    found = [(buffer.address, buffer.address + buffer.bytes)]
    if buffer.versions == 2:
        slot = program.slot_bytes.get(buffer.space, 0)
        require(slot >= buffer.bytes, f"{here}.bytes", f"at most slot_bytes of {buffer.space}={slot}", buffer.bytes)
        found.append((buffer.address + slot, buffer.address + slot + buffer.bytes))
    return found
