"""What a map launch leaves in the workspace and a state launch begins with: buffers of L1, one after the other in a slot.

L1 has no way to GM but through UB.
"""

import dataclasses

from hajax.lowering.assembler import HALF, UNIT, Assembler
from hajax.lowering.tiles import Parts
from hajax.plans.program import LOAD, MAP, STATE, Operand, Program


def exchanged_bytes(shared: tuple[Parts, ...]) -> int:
    """Bytes of a head's chunk in the workspace."""
    return sum(2 * parts.distance * HALF for parts in shared)


def export(asm: Assembler, shared: tuple[Parts, ...]) -> None:
    """Map steps: L1 to UB to the workspace."""
    asm.stage = MAP
    place = 0
    for parts in shared:
        size = 2 * parts.distance * HALF
        staged = asm.buffer(f"{parts.high.buffer} out:UB", "UB", size)
        asm.emit("l1_to_ub", staged, parts.high, size=size // UNIT, label=f"{parts.high.buffer} out")
        asm.emit("workspace_from_ub", src0=staged, size=size // UNIT, constant=place // UNIT, label=f"{parts.high.buffer} out")
        place += size


def import_back(asm: Assembler, shared: tuple[Parts, ...]) -> None:
    """Load steps: the workspace to L1."""
    asm.stage = LOAD
    place = 0
    for parts in shared:
        size = 2 * parts.distance * HALF
        asm.emit(
            "workspace_to_l1", Operand(parts.high.buffer), size=size // UNIT, constant=place // UNIT, label=parts.high.buffer
        )
        place += size


def two_stages(program: Program) -> Program:
    """Without the stage in the middle: loads are for the next chunk."""
    if all(step.stage != STATE for step in program.body):
        return dataclasses.replace(program, stages=2)
    assert all(step.stage != MAP for step in program.body)
    body = tuple(dataclasses.replace(step, stage=MAP) if step.stage == STATE else step for step in program.body)
    return dataclasses.replace(program, body=body, stages=2)
