"""One core in modelled time as it walks a plan: the scalar unit's frame and steps, queues, pipes, flags and barriers.

The rules are those of native/emulator/timing and native/ascend/machine.h; nothing here runs them.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hajax import abi, chip_cost
from hajax.passes.step_cost import PIPES, mask_cycles, step_cost
from hajax.plans.footprint import UNIT, Dims
from hajax.plans.footprint import pipe as pipe_of
from hajax.plans.program import Flag, Program, Step
from hajax.targets import NpuTarget

_MEASURED = 4  # whole iterations, whose cycles those of a longer item take as well
_SETTLED = 1 + _MEASURED  # chunks that are walked, and one for each stage
_MTE2 = PIPES.index("MTE2")
_FRAME_BYTES = abi.constant("HJ_FRAME_BYTES")
STEP_BYTES = 8 * abi.constant("HJ_STEP_WORDS")
# Fields that the scalar unit reads from the frame, by native/ascend/machine.h and interpreted.h.
_PLAN_FIELDS, _LAUNCH_FIELDS, _ITEM_FIELDS, _PROGRAM_FIELDS, _SLOT_FIELDS = 16, 4, 8, 6, 5

_Flags = tuple[tuple[int, int], ...]  # pipe that waits or sets, number of the flag
# stage, only first, only last, cycles of the first word; waits, barrier, pipe; mask, cycles of the other words; instructions,
# cycles of each, what the first one adds, latency, instructions between barriers; sets
_Row = tuple[int, bool, bool, float, _Flags, bool, int, int, float, int, float, float, float, int, _Flags]


@dataclass(frozen=True, slots=True)
class Rows:
    """A program's steps as numbers."""

    setup: tuple[_Row, ...]
    body: tuple[_Row, ...]
    finish: tuple[_Row, ...]
    stages: int
    carried: bool
    flags: int

    @property
    def bytes(self) -> int:
        """What the core fetches of it."""
        return (len(self.setup) + len(self.body) + len(self.finish)) * STEP_BYTES


@dataclass(frozen=True, slots=True)
class Visit:
    """An item as its core finds it, of chunks that are walked.

    first, last: its chunks hold the sequence's. fresh: another program ran before. missed: of the program, its steps, the share
    that is not in L2.
    """

    chunks: int
    first: bool
    last: bool
    fresh: bool
    missed: float


def rows_of(program: Program, dims: Dims, target: NpuTarget, missed: Callable[[Step], float]) -> Rows:
    """missed: of a step that moves bytes of GM, the share that is not in L2."""
    numbers: dict[Flag, int] = {}
    known: dict[tuple[str, int, int, int, tuple[int, ...], float], tuple[int, float, int, float, float, float, int]] = {}

    def numbered(flags: Sequence[Flag], source: bool) -> _Flags:
        pipes = (PIPES.index(flag.source if source else flag.target) for flag in flags)
        return tuple((pipe, numbers.setdefault(flag, len(numbers))) for pipe, flag in zip(pipes, flags, strict=True))

    def row(step: Step) -> _Row:
        load = target.scalar_load_cycles
        ends = numbered(step.waits, False), numbered(step.sets, True)
        only = (step.stage, step.first, step.last, load if step.opcode != "sync" or not step.count else 2 * load)
        if step.opcode == "sync":
            return (*only, ends[0], False, -1, -1, 0.0, 0, 0.0, 0.0, 0.0, 1, ends[1])
        kind = (step.opcode, step.count, step.index, step.size, step.p, missed(step))
        if kind not in known:
            cost = step_cost(step, dims, target, kind[-1])
            words = cost.scalar - load
            known[kind] = (cost.mask, words, cost.instructions, cost.cycles, cost.first, cost.latency, max(1, cost.run))
        mask, *rest = known[kind]
        return (*only, ends[0], step.barrier, PIPES.index(pipe_of(step)), mask, *rest, ends[1])  # type: ignore[return-value]

    setup, body, finish = (tuple(map(row, steps)) for steps in (program.setup, program.body, program.finish))
    return Rows(setup, body, finish, program.stages, program.carried, len(numbers))


class _Clock:
    """When the scalar unit and each pipe are free, and when all of a pipe's work is complete."""

    __slots__ = ("depth", "done", "drained", "flag", "free", "instruction", "left", "mask", "mask_cost", "scalar", "target", "up")

    def __init__(self, target: NpuTarget, flags: int = 0):
        self.target = target
        self.instruction = target.issue_cycles + target.argument_cycles
        self.flag = target.flag_cycles
        self.mask, self.mask_cost = -1, mask_cycles(target)
        self.scalar = 0.0
        self.free, self.done = [0.0] * len(PIPES), [0.0] * len(PIPES)
        self.drained = [True] * len(PIPES)
        self.left = [deque([0.0] * target.queue_depth, target.queue_depth) for _ in PIPES]  # when instructions left the queue
        self.up = [0.0] * flags  # when each flag has risen

    def walk(self, rows: Sequence[_Row], on: Sequence[bool], firsts: Sequence[bool], lasts: Sequence[bool]) -> None:
        """The steps of a section. By stage: whether its chunk is there, whether it is the sequence's first, its last."""
        free, done, drained, left, up = self.free, self.done, self.drained, self.left, self.up
        issue, instruction, flag_cycles = self.target.issue_cycles, self.instruction, self.flag
        scalar, mask = self.scalar, self.mask

        def hold(pipe: int, until: float) -> float:
            """Keeps a pipe until then; returns when the scalar unit goes on."""
            queue = left[pipe]
            after = max(scalar, queue[0]) + issue
            begin = max(after, free[pipe])
            queue.append(begin)
            if begin > free[pipe] or until > begin:
                drained[pipe] = True
            end = max(begin, until) + flag_cycles
            free[pipe] = end
            if end > done[pipe]:
                done[pipe] = end
            return after

        for stage, first, last, word, waits, barrier, pipe, lanes, words, number, cycles, start, latency, run, sets in rows:
            scalar += word
            for at, flag in waits:
                scalar = hold(at, up[flag])
            if barrier:
                scalar = hold(pipe, done[pipe])
            if number and on[stage] and (not first or firsts[stage]) and (not last or lasts[stage]):
                scalar += words
                if lanes >= 0 and lanes != mask:
                    mask = lanes
                    scalar += self.mask_cost
                queue = left[pipe]
                for count in range(number):
                    if count and not count % run:
                        scalar = hold(pipe, done[pipe])
                    if queue[0] > scalar:
                        scalar = queue[0]
                    scalar += instruction
                    begin = free[pipe]
                    if scalar > begin:
                        begin = scalar
                        drained[pipe] = True
                    queue.append(begin)
                    if drained[pipe]:
                        begin += start
                        drained[pipe] = False
                    free[pipe] = begin + cycles
                    if begin + cycles + latency > done[pipe]:
                        done[pipe] = begin + cycles + latency
            for at, flag in sets:
                scalar = hold(at, 0.0)
                up[flag] = done[at]
        self.scalar, self.mask = scalar, mask

    def fetch(self, size: int, missed: float) -> None:
        """Bytes of GM into the frame."""
        cost = chip_cost.instruction_cycles(
            self.target, "copy_gm_to_ubuf", bytes=size, path="gm_to_ub", missed=round(missed * size)
        )
        self.scalar += self.instruction
        self.free[_MTE2] = max(self.scalar, self.free[_MTE2]) + cost
        self.done[_MTE2] = self.free[_MTE2] + self.target.gm_read_latency

    def read(self, fields: int) -> None:
        """The scalar unit reads these from the frame."""
        self.scalar += fields * self.target.scalar_load_cycles

    def await_frame(self) -> None:
        """Until what was fetched is there."""
        self.scalar += self.target.issue_cycles
        self.scalar = max(self.scalar, self.done[_MTE2]) + self.flag

    def barrier(self) -> None:
        """Until everything is complete."""
        self.scalar = max(self.scalar, *self.done) + self.flag


def start_cycles(target: NpuTarget) -> float:
    """Of a launch before a core's first item: the core reads the plan's header and the call, then its launch."""
    clock = _Clock(target)
    clock.fetch(_FRAME_BYTES // 4, 1.0)
    clock.fetch(_FRAME_BYTES // 4, 1.0)
    clock.await_frame()
    clock.read(_PLAN_FIELDS)
    clock.fetch(_FRAME_BYTES // 4, 1.0)
    clock.await_frame()
    clock.read(_LAUNCH_FIELDS)
    return target.launch_cycles + clock.scalar


def meeting_cycles(target: NpuTarget) -> float:
    """From the last core's end of a launch to the first item of the next one in the same kernel: each core counts up a block of
    GM, all meet, then it reads its launch.
    """
    clock = _Clock(target)
    clock.fetch(UNIT, 1.0)
    clock.await_frame()
    clock.read(2)
    written = chip_cost.instruction_cycles(target, "copy_ubuf_to_gm", bytes=UNIT, path="ub_to_gm", missed=UNIT)
    clock.scalar += clock.instruction + written + target.gm_write_latency + target.sync_all_cycles
    clock.fetch(_FRAME_BYTES // 4, 1.0)
    clock.await_frame()
    clock.read(_LAUNCH_FIELDS)
    return clock.scalar


def walked(chunks: int, stages: int) -> int:
    """Of an item's chunks, those that a visit has; all others take the same."""
    return min(chunks, _SETTLED + stages)


def item_cycles(rows: Rows, visit: Visit, target: NpuTarget) -> tuple[float, float]:
    """Of an item, from the end of the one before it to its own; and of each chunk more."""
    clock = _Clock(target, rows.flags)
    clock.scalar += 2 * target.issue_cycles + target.flag_cycles
    clock.fetch(abi.constant("HJ_ITEM_BYTES"), 1.0)
    clock.await_frame()
    clock.read(2)
    clock.fetch(abi.constant("HJ_SEQUENCE_BYTES"), 1.0)
    if visit.fresh:
        clock.fetch(_FRAME_BYTES // 4, visit.missed)
        clock.fetch(_FRAME_BYTES, visit.missed)
        clock.await_frame()
        clock.read(_PROGRAM_FIELDS)
        clock.fetch(rows.bytes, visit.missed)
        clock.read(_SLOT_FIELDS)
    clock.await_frame()
    clock.read(_ITEM_FIELDS)
    return _sections(clock, rows, visit)


def _sections(clock: _Clock, rows: Rows, visit: Visit) -> tuple[float, float]:
    def section(steps: Sequence[_Row], on: Sequence[bool], firsts: Sequence[bool], lasts: Sequence[bool], parted: bool) -> None:
        if steps:
            clock.walk(steps, on, firsts, lasts)
            if parted:
                clock.barrier()

    stages, chunks = rows.stages, visit.chunks
    each = (True,) * stages
    section(rows.setup, each, (visit.fresh,) * stages, each, True)
    began: list[float] = []
    for iteration in range(chunks + stages - 1):
        numbers = [iteration - stage for stage in range(stages)]
        began.append(clock.scalar)
        section(
            rows.body,
            [0 <= number < chunks for number in numbers],
            [visit.first and number == 0 for number in numbers],
            [visit.last and number == chunks - 1 for number in numbers],
            not rows.carried,
        )
    if rows.carried:
        clock.barrier()
    section(rows.finish, each, (visit.first and chunks == 1,) * stages, (visit.last,) * stages, True)
    steady = (began[chunks - 1] - began[chunks - 1 - _MEASURED]) / _MEASURED if chunks > _MEASURED else 0.0
    return clock.scalar, steady
