"""What schedules of several stages have in common: each stage a program, or a few, and a launch of its own.

Stages hand their results on through the workspace. One whose chunks do not depend on one another takes all of them at once.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from hajax.lowering.assembler import Constants, Dims
from hajax.lowering.slots import Field, slot_distance, slot_of
from hajax.mechanisms import Mechanism
from hajax.passes.heads_to_cores import Family, Kind, map_to_cores
from hajax.passes.plan_cycles import plan_cycles
from hajax.passes.stages_to_cores import chunks_to_cores
from hajax.plans import Note, Plan, Shape
from hajax.plans.program import Item, Launch, Program, Programs
from hajax.schedules.ascend import CHUNK, Form, checked_sequences, chunks_of, through_passes, weights_of
from hajax.targets import NpuTarget

Slot = dict[str, Field]
Build = Callable[[Dims, Constants, Slot, int], Program]
Launches = Callable[["Planner"], tuple[tuple[Launch, ...], list[Note]]]


@dataclass(frozen=True, slots=True)
class Stage:
    """One launch, and the tiles of the slot that it reads and writes.

    serial: its chunks follow one another, so heads, or columns of them, go to cores, else chunks do.
    """

    name: str
    build: Build
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    serial: bool = False


@dataclass(frozen=True, slots=True)
class System:
    """A system's stages and the tiles that they hand on. synced: one launch, with a barrier of all cores between stages.

    families: how heads of serial stages may be mapped; the one with the least modelled cycles is taken.
    """

    name: str
    stages: tuple[Stage, ...]
    tiles: dict[str, tuple[int, int, int]]
    parts: int = 2
    synced: bool = False
    families: tuple[Family, ...] = ("whole heads", "column pieces")

    def slot(self) -> Slot:
        """Where each tile lies, from the first stage that writes it to the last one that reads it."""
        lives: dict[str, tuple[int, int]] = {}
        for number, stage in enumerate(self.stages):
            for name in (*stage.reads, *stage.writes):
                assert name in lives or name in stage.writes, f"{self.name}: {name} is read before it is written"
                lives[name] = (lives.get(name, (number, number))[0], number)
        return slot_of(self.tiles, lives)


def schedule_stages(
    system: System,
    mechanism: Mechanism,
    shape: Shape,
    target: NpuTarget,
    version: int,
    others: tuple[tuple[System, Launches], ...] = (),
) -> Plan:
    """The plan of these stages, one after the other. others: more ways, of which one is taken if it has fewer modelled cycles."""
    if not mechanism.delta or mechanism.strengths != 1:
        raise ValueError(
            f"mechanism: schedule {system.name} is that of a delta rule with one strength, got {mechanism.name}; "
            "hajax has a plan for it"
        )
    sequences = checked_sequences(shape)

    def made(planner: Planner, launches: tuple[Launch, ...], notes: list[Note]) -> Plan:
        constants, slot = planner.constants.to_bytes(), slot_distance(planner.slot)
        programs = _used(Programs(target.npu_arch, CHUNK, tuple(planner.programs), launches, constants, slot))
        return Plan(version, mechanism, shape, target.fingerprint, system.name, programs, (*planner.notes, *notes))

    plans = []
    planner = Planner(system, shape, target, sequences)
    for family in system.families:
        found = planner.launches(family)
        if found is not None:
            plans.append(made(planner, *found))
    for other, launches in others:
        planner = Planner(other, shape, target, sequences)
        plans.append(made(planner, *launches(planner)))
    return plans[0] if len(plans) == 1 else min(plans, key=lambda plan: sum(plan_cycles(plan, target)))


class Planner:
    """Programs of a system's stages, each once for all the columns that it is wanted with."""

    def __init__(self, system: System, shape: Shape, target: NpuTarget, sequences: int):
        self.system, self.shape, self.target, self.sequences = system, shape, target, sequences
        self.slot = system.slot()
        self.constants = Constants()
        self.programs: list[Program] = []
        self.notes: list[Note] = []
        self._found: dict[tuple[str, int], int] = {}
        self._forms: dict[str, Form] = {}

    def launches(self, family: Family) -> tuple[tuple[Launch, ...], list[Note]] | None:
        """A launch a stage, with heads mapped so; None where a stage's heads cannot be."""
        launches: list[Launch] = []
        notes: list[Note] = []
        last = len(self.system.stages) - 1
        for number, stage in enumerate(self.system.stages):
            if stage.serial:
                found = self._serial(stage, family)
                if found is None:
                    return None
                cores, note = found
            else:
                cores, note = self.parallel(stage)
            notes.append(replace(note, choice=f"{stage.name}: {note.choice}"))
            launches.append(Launch(cores, self.system.synced and number < last))
        return tuple(launches), notes

    def program(self, stage: Stage, columns: int) -> int:
        """The number of a stage's program for so many columns."""
        key = (stage.name, columns)
        if key not in self._found:
            dims = Dims(CHUNK, self.shape.key_dim, columns, 1, False)
            made, notes = through_passes(self._form(stage), dims, self.constants, "whole", self.target, searches=3)
            self._found[key] = len(self.programs)
            self.programs.append(made)
            self.notes += [replace(note, choice=f"{stage.name}, {columns} columns: {note.choice}") for note in notes]
        return self._found[key]

    def _form(self, stage: Stage) -> Form:
        """The same one each time that it is asked for: its weights are kept."""

        def build(dims: Dims, constants: Constants, kind: Kind) -> Program:
            return stage.build(dims, constants, self.slot, self.system.parts)

        if stage.name not in self._forms:
            self._forms[stage.name] = Form(build, pairs=False, shares_keys=False, slot_bytes=None, carried=True)
        return self._forms[stage.name]

    def _serial(self, stage: Stage, family: Family) -> tuple[tuple[tuple[Item, ...], ...], Note] | None:
        shape = self.shape
        full = Dims(CHUNK, shape.key_dim, shape.value_dim, 1, False)
        weights = weights_of(self._form(stage), full, self.target, pairs=False)
        try:
            mapping, note = map_to_cores(
                self.sequences, shape.value_heads, shape.value_dim, chunks_of(shape), self.target.ai_cores, weights,
                pairs=False, family=family,
            )  # fmt: skip
        except ValueError:  # none of this family
            return None
        cores = tuple(
            tuple(Item(self.program(stage, piece.columns), piece.sequence, piece.head, piece.column) for piece in core)
            for core in mapping.launches[0]
        )
        return cores, note

    def parallel(self, stage: Stage) -> tuple[tuple[tuple[Item, ...], ...], Note]:
        """Chunks of all heads dealt out: the items of each core."""
        shape = self.shape
        program = self.program(stage, shape.value_dim)
        shares, note = chunks_to_cores(
            self.sequences, shape.value_heads, chunks_of(shape), self.target.ai_cores
        )  # fmt: skip
        cores = tuple(
            tuple(Item(program, one.sequence, one.head, 0, one.first_chunk, one.chunks) for one in share) for share in shares
        )
        return cores, note


def _used(programs: Programs) -> Programs:
    """Without programs that no item runs."""
    items = [item for launch in programs.launches for core in launch.cores for item in core]
    used = sorted({item.program for item in items})
    number = {program: at for at, program in enumerate(used)}
    launches = tuple(
        Launch(tuple(tuple(replace(item, program=number[item.program]) for item in core) for core in launch.cores), launch.synced)
        for launch in programs.launches
    )
    return replace(programs, programs=tuple(programs.programs[at] for at in used), launches=launches)
