"""What schedules of several stages have in common: each stage a program, or a few, and a launch of its own.

Stages hand their results on through the workspace. One whose chunks do not depend on one another takes all of them at once.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from hajax.lowering.assembler import Constants, Dims
from hajax.lowering.slots import Field, slot_bytes
from hajax.mechanisms import Mechanism
from hajax.passes.heads_to_cores import Kind, map_to_cores
from hajax.passes.stages_to_cores import chunks_to_cores
from hajax.plans import Note, Plan, Shape
from hajax.plans.program import Item, Launch, Program, Programs
from hajax.schedules.ascend import CHUNK, Form, checked_sequences, chunks_of, through_passes, weights_of
from hajax.targets import NpuTarget

Slot = dict[str, Field]
Build = Callable[[Dims, Constants, Slot, int], Program]


@dataclass(frozen=True, slots=True)
class Stage:
    """One launch. serial: its chunks follow one another, so heads, or columns of them, go to cores, else chunks do."""

    name: str
    build: Build
    serial: bool = False


def schedule_stages(
    name: str,
    mechanism: Mechanism,
    shape: Shape,
    target: NpuTarget,
    version: int,
    stages: tuple[Stage, ...],
    slot: Slot,
    parts: int,
    synced: bool = False,
    notes: tuple[Note, ...] = (),
) -> Plan:
    """The plan of these stages, one after the other. synced: in one launch, with a barrier of all cores between stages."""
    if not mechanism.delta or mechanism.strengths != 1:
        raise ValueError(
            f"mechanism: schedule {name} is that of a delta rule with one strength, got {mechanism.name}; hajax has a plan for it"
        )
    sequences = checked_sequences(shape)
    full = Dims(CHUNK, shape.key_dim, shape.value_dim, 1, False)
    chunks = chunks_of(shape)
    constants = Constants()
    programs: list[Program] = []
    launches: list[Launch] = []
    told = list(notes)
    for number, stage in enumerate(stages):
        found: dict[int, int] = {}  # by columns, the program

        def program(columns: int, stage: Stage = stage, found: dict[int, int] = found) -> int:
            if columns not in found:
                form = _form(stage, slot, parts)
                dims = Dims(CHUNK, shape.key_dim, columns, 1, False)
                made, more = through_passes(form, dims, constants, "whole", target, searches=3)
                found[columns] = len(programs)
                programs.append(made)
                told.extend(replace(note, choice=f"{stage.name}: {note.choice}") for note in more)
            return found[columns]

        if stage.serial:
            form = _form(stage, slot, parts)
            weights = weights_of(form, full, target, pairs=False)
            mapping, note = map_to_cores(
                sequences, shape.value_heads, shape.value_dim, chunks, target.ai_cores, weights, pairs=False
            )
            told.append(replace(note, choice=f"{stage.name}: {note.choice}"))
            cores = tuple(
                tuple(Item(program(piece.columns), piece.sequence, piece.head, piece.column) for piece in core)
                for core in mapping.launches[0]
            )
        else:
            shares, note = chunks_to_cores(sequences, shape.value_heads, chunks, target.ai_cores, stage.name)
            told.append(note)
            cores = tuple(
                tuple(Item(program(full.columns), one.sequence, one.head, 0, one.first_chunk, one.chunks) for one in share)
                for share in shares
            )
        launches.append(_launch(cores, synced and number < len(stages) - 1))
    made_of = Programs(
        target.npu_arch, CHUNK, tuple(programs), tuple(launches), constants.to_bytes(), slot_bytes(slot)
    )  # fmt: skip
    return Plan(version, mechanism, shape, target.fingerprint, name, made_of, tuple(told))


def _launch(cores: tuple[tuple[Item, ...], ...], synced: bool) -> Launch:
    return Launch(cores, synced) if synced else Launch(cores)


def _form(stage: Stage, slot: Slot, parts: int) -> Form:
    def build(dims: Dims, constants: Constants, kind: Kind) -> Program:
        return stage.build(dims, constants, slot, parts)

    return Form(build, pairs=False, shares_keys=False, slot_bytes=None, carried=True)
