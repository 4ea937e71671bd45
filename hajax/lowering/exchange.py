"""What a map launch leaves in the workspace and a state launch begins with: buffers of L1, one after the other in a slot.

L1 has no way to GM but through UB.
"""

import dataclasses

from hajax.lowering.assembler import UNIT, Assembler
from hajax.lowering.tiles import Parts
from hajax.plans.program import LOAD, MAP, STATE, Program


def exchanged_bytes(asm: Assembler, shared: tuple[Parts, ...]) -> int:
    """Bytes of a head's chunk in the workspace."""
    return sum(parts.number * _part_bytes(asm, parts) for parts in shared)


def _part_bytes(asm: Assembler, parts: Parts) -> int:
    """Of the high part, from where it starts to where the low one's room does."""
    size = next(buffer.bytes for buffer in asm.buffers if buffer.name == parts.high.buffer)
    return size // parts.number - parts.high.offset


def export(asm: Assembler, shared: tuple[Parts, ...]) -> None:
    """Map steps: L1 to UB to the workspace."""
    asm.stage = MAP
    place = 0
    for parts in shared:
        size, label = parts.number * _part_bytes(asm, parts), f"{parts.high.buffer} out"
        staged = asm.buffer(f"{label}:UB", "UB", size)
        count = parts.number if parts.high.offset else 1
        gap = parts.high.offset // UNIT
        asm.emit("l1_to_ub", staged, parts.high, count=count, size=size // count // UNIT, p=(gap & 255, gap >> 8), label=label)
        asm.emit("workspace_from_ub", src0=staged, size=size // UNIT, constant=place // UNIT, label=label)
        place += size


def import_back(asm: Assembler, shared: tuple[Parts, ...]) -> None:
    """Load steps: the workspace to L1."""
    asm.stage = LOAD
    place = 0
    for parts in shared:
        size = _part_bytes(asm, parts)
        apart = [(parts.part(number), size) for number in range(parts.number)]
        runs = apart if parts.high.offset else [(parts.high, parts.number * size)]
        for target, run in runs:
            asm.emit("workspace_to_l1", target, size=run // UNIT, constant=place // UNIT, label=parts.high.buffer)
            place += run


def two_stages(program: Program) -> Program:
    """Without the stage in the middle: loads are for the next chunk."""
    if all(step.stage != STATE for step in program.body):
        return dataclasses.replace(program, stages=2)
    assert all(step.stage != MAP for step in program.body)
    body = tuple(dataclasses.replace(step, stage=MAP) if step.stage == STATE else step for step in program.body)
    return dataclasses.replace(program, body=body, stages=2)
