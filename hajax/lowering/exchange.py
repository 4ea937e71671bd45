"""What a map launch leaves in the workspace and a state launch begins with: buffers of L1, one after the other in a slot.

L1 has no way to GM but through UB.
"""

import dataclasses

from hajax.lowering.assembler import HALF, UNIT, Assembler
from hajax.lowering.tiles import Parts
from hajax.plans.program import LOAD, MAP, STATE, Program


def exchanged_bytes(shared: tuple[Parts, ...]) -> int:
    """Bytes of a head's chunk in the workspace."""
    return sum(2 * _part_bytes(parts) for parts in shared)


def _part_bytes(parts: Parts) -> int:
    """Of the high part, from where it starts to where the low one's buffer does."""
    return parts.distance * HALF - parts.high.offset


def export(asm: Assembler, shared: tuple[Parts, ...]) -> None:
    """Map steps: L1 to UB to the workspace."""
    asm.stage = MAP
    place = 0
    for parts in shared:
        size, label = _part_bytes(parts), f"{parts.high.buffer} out"
        staged = asm.buffer(f"{label}:UB", "UB", 2 * size)
        count = 2 if parts.high.offset else 1
        gap = parts.high.offset // UNIT
        asm.emit(
            "l1_to_ub", staged, parts.high, count=count, size=2 * size // count // UNIT, p=(gap & 255, gap >> 8), label=label
        )
        asm.emit("workspace_from_ub", src0=staged, size=2 * size // UNIT, constant=place // UNIT, label=label)
        place += 2 * size


def import_back(asm: Assembler, shared: tuple[Parts, ...]) -> None:
    """Load steps: the workspace to L1."""
    asm.stage = LOAD
    place = 0
    for parts in shared:
        size = _part_bytes(parts)
        runs = ((parts.high, size), (parts.low, size)) if parts.high.offset else ((parts.high, 2 * size),)
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
