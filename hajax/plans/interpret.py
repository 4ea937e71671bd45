"""What an Ascend plan computes, by numpy: every launch, core and item in order, each step by its meaning.

Steps run in program order, which is one legal order when their flags are right; verify and the emulator look after those.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from hajax.plans.footprint import VECTOR, Dims, footprint
from hajax.plans.interpret_compute import compute, multiply
from hajax.plans.interpret_memory import Array, Global, Inputs, Memory, Sequence, global_of, memory_of
from hajax.plans.interpret_moves import Meaning, Spot, move
from hajax.plans.program import Item, Operand, Program, Programs, Step

__all__ = ["Array", "Inputs", "Memory", "Spot", "elements", "run", "run_step"]

Observer = Callable[[Step, Spot, Memory, bool], None]
_Pair = tuple[Meaning, Meaning]


def run(programs: Programs, inputs: Inputs, scale: float, observe: Observer | None = None) -> tuple[Array, Array]:
    """output and state_out of a call. `observe` is told of each step after it ran, with the spot, the memories and whether its
    chunk is an odd one of the item. Buffers may have addresses or not yet; what was never written reads as NaN.
    """
    gm = global_of(inputs, programs.chunk, programs.constants, programs.workspace_slot_bytes)
    ready = [_prepare(program, gm, scale) for program in programs.programs]
    for launch in programs.launches:
        for core in launch.cores:
            before = -1
            for item in core:
                program = programs.programs[item.program]
                if not _chunks(item, gm):
                    before = before if item.program == before else -1
                    continue
                memory, meanings = ready[item.program]
                lasting = _lasting(program, memory, gm) if item.program == before else ()
                memory.clear()
                for part, content in lasting:
                    part[...] = content
                with np.errstate(all="ignore"):
                    _run_item(program, item, gm, memory, meanings, item.program != before, observe)
                before = item.program
    shape = (*inputs.value.shape[:3], inputs.value.shape[3])
    return gm.tensors["output"].reshape(shape), gm.tensors["state_out"].reshape(inputs.state_in.shape)


def run_step(step: Step, program: Program, memory: Memory, gm: Global, spot: Spot, scale: float = 1.0, odd: bool = False) -> None:
    """One step alone."""
    with np.errstate(all="ignore"):
        _meaning(step, program, memory, gm, scale, odd)(spot)


def _prepare(program: Program, gm: Global, scale: float) -> tuple[Memory, dict[int, _Pair]]:
    """The program's memories, and each step's meaning for even and for odd chunks, by the step's identity."""
    memory = memory_of(program)
    meanings = {}
    for step in (*program.setup, *program.body, *program.finish):
        _check_bounds(step, memory, gm)
        meanings[id(step)] = (
            _meaning(step, program, memory, gm, scale, False),
            _meaning(step, program, memory, gm, scale, True),
        )
    return memory, meanings


def _lasting(program: Program, memory: Memory, gm: Global) -> tuple[tuple[Array, Array], ...]:
    """What setup writes only for the first of a program's items on a core, and what is there now."""
    found = []
    for step in program.setup:
        for access in footprint(step, Dims(gm.chunk, gm.key_dim)) if step.first else ():
            if access.write:
                part = memory.view(Operand(access.buffer, access.start), step.last, np.uint8, (access.end - access.start,))
                found.append((part, part.copy()))
    return tuple(found)


def _check_bounds(step: Step, memory: Memory, gm: Global) -> None:
    for access in footprint(step, Dims(gm.chunk, gm.key_dim)):
        size = memory.buffers[access.buffer].bytes
        if access.start < 0 or access.end > size:
            raise ValueError(
                f"step {step.label!r} ({step.opcode}): expected bytes within buffer {access.buffer} of {size}, "
                f"got {access.start} .. {access.end - 1}"
            )


def _meaning(step: Step, program: Program, memory: Memory, gm: Global, scale: float, odd: bool) -> Meaning:
    if step.opcode == "sync":
        return lambda _: None
    if step.opcode == "mmad":
        return multiply(step, memory, odd)
    if step.opcode in VECTOR:
        scalar = scale if step.p[6] == 0 else program.scalars[step.p[6]]
        return compute(step, memory, odd, program.masks[step.index], scalar)
    return move(step, memory, odd, gm)


def _run_item(
    program: Program,
    item: Item,
    gm: Global,
    memory: Memory,
    meanings: dict[int, _Pair],
    changed: bool,
    observe: Observer | None,
) -> None:
    sequence = gm.sequences[item.sequence]
    all_chunks = -(-sequence.tokens // gm.chunk)
    chunks = _chunks(item, gm)
    spots = [_spot(item, sequence, item.first_chunk + c, gm) for c in range(chunks)]

    def execute(step: Step, chunk: int, odd: bool) -> None:
        meanings[id(step)][odd](spots[chunk])
        if observe is not None:
            observe(step, spots[chunk], memory, odd)

    for step in program.setup:
        if changed or not step.first:
            execute(step, 0, step.last)  # there, `last` means the versions of odd chunks
    for iteration in range(chunks + program.stages - 1):
        for step in program.body:
            chunk = iteration - step.stage
            number = item.first_chunk + chunk
            if 0 <= chunk < chunks and not (step.first and number != 0) and not (step.last and number != all_chunks - 1):
                execute(step, chunk, chunk % 2 == 1)
    last = item.first_chunk + chunks - 1
    for step in program.finish:
        if not (step.first and last != 0) and not (step.last and last != all_chunks - 1):
            execute(step, chunks - 1, chunks % 2 == 0)


def _chunks(item: Item, gm: Global) -> int:
    """Chunks that there are for the item; without one a core passes it over."""
    chunks = max(-(-gm.sequences[item.sequence].tokens // gm.chunk) - item.first_chunk, 0)
    return min(chunks, item.chunks) if item.chunks >= 0 else chunks


def _spot(item: Item, sequence: Sequence, chunk: int, gm: Global) -> Spot:
    rows = max(min(gm.chunk, sequence.tokens - chunk * gm.chunk), 0)
    return Spot(item.head, item.column, sequence, chunk, rows)


def elements(memory: Memory, buffer: str, dtype: Any, shape: tuple[int, ...], odd: bool = False, offset: int = 0) -> Array:
    """A copy of what a buffer holds, for observers."""
    return memory.view(Operand(buffer, offset), odd, dtype, shape).copy()
