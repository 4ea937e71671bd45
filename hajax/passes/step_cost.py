"""What a step costs on its pipe and on the scalar unit that issues it, and what a section costs: modelled, as the emulator does.

Sizes are those of a whole chunk. Where it is not said, tensors are read from and written to DDR, everything else is in L2.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from hajax import chip_cost
from hajax.plans.footprint import FULL_FRACTAL, HALF_FRACTAL, UNIT, VECTOR, Dims, element_bytes, pipe, products, tile_rows
from hajax.plans.program import Flag, Program, Step
from hajax.targets import NpuTarget

PIPES = ("MTE2", "MTE1", "M", "V", "MTE3")
_SETTLED = 4  # iterations until their cycles repeat, about
_BARRIER_BETWEEN = 4  # of an mmad's p[6]
_TAKES_SCALAR = ("muls32", "adds32", "maxs32", "mins32", "axpy32", "axpy16", "dup32", "dup16", "muls16")
_VECTOR_INSTRUCTIONS = {
    **{
        f"{name}32": f"v{name}"
        for name in ("add", "sub", "mul", "div", "max", "min", "mla", "exp", "ln", "rsqrt", "sqrt", "cadd")
    },
    **{f"{name}{bits}": f"v{name}" for name in ("muls", "adds", "maxs", "mins", "axpy") for bits in (16, 32)},
    **{f"{name}16": f"v{name}" for name in ("add", "sub", "mul")},
    **{f"dup{bits}": "vector_dup" for bits in (16, 32)},
    **{f"to{bits}": "vconv" for bits in (16, 32)},
}
_GM_INSTRUCTIONS = {
    **dict.fromkeys(("rows_to_l1", "constant_to_l1", "workspace_to_l1"), ("copy_gm_to_cbuf", "gm_to_l1")),
    **dict.fromkeys(("rows_to_ub", "gate_to_ub", "constant_to_ub", "workspace_to_ub"), ("copy_gm_to_ubuf", "gm_to_ub")),
    **dict.fromkeys(("rows_from_ub", "workspace_from_ub"), ("copy_ubuf_to_gm", "ub_to_gm")),
}
_CORE_MOVES = {
    "load_a": ("load_cbuf_to_ca", "l1_to_l0a"),
    "load_b": ("load_cbuf_to_cb", "l1_to_l0b"),
    "l1_to_ub": ("copy_cbuf_to_ubuf", "l1_to_ub"),
    "ub_to_l1": ("copy_ubuf_to_cbuf", "ub_to_l1"),
    "c_to_ub32": ("copy_matrix_cc_to_ubuf", "l0c_to_ub"),
    "c_to_ub16": ("copy_matrix_cc_to_ubuf", "l0c_to_ub"),
    "ub_to_c32": ("copy_matrix_ubuf_to_cc", "ub_to_l0c"),
}


@dataclass(frozen=True, slots=True)
class StepCost:
    """pipe: of PIPES, -1 for sync. cycles: of each machine instruction on it. first: what the first one adds after a pause.

    scalar: what the scalar unit spends before the first instruction, but for a mask that is not set yet.
    """

    pipe: int
    instructions: int
    cycles: float
    first: float
    latency: float
    scalar: float
    mask: int  # of a vector step, else -1
    pauses: int  # barriers between its instructions, at equal distances

    @property
    def busy(self) -> float:
        """Cycles on the pipe, from start to end."""
        return self.first + self.instructions * self.cycles + self.pauses * self.latency

    @property
    def run(self) -> int:
        """Instructions between two barriers."""
        return self.instructions // (self.pauses + 1)


def step_cost(step: Step, dims: Dims, target: NpuTarget, missed: float | None = None) -> StepCost:
    """The modelled cost of a step that runs. missed: of the bytes that it moves from or to GM, the share that is not in L2:
    all of them unless it is given, but none of constants.
    """
    loads = 3
    mask = -1
    if step.opcode == "sync":
        loads = 2 if max(len(step.waits), len(step.sets)) > 2 else 1
        return StepCost(-1, 0, 0.0, 0.0, 0.0, loads * target.scalar_load_cycles, -1, 0)
    number, cycles, first, latency = 1, 0.0, 0.0, 0.0
    if step.opcode == "mmad":
        number, cycles, first, latency = _products(step, target)
    elif step.opcode in VECTOR:
        cycles = chip_cost.instruction_cycles(target, _VECTOR_INSTRUCTIONS[step.opcode], units=step.size)
        mask = step.index
        loads += step.opcode in _TAKES_SCALAR and step.p[6] != 0
    elif step.opcode in _GM_INSTRUCTIONS:
        instruction, path = _GM_INSTRUCTIONS[step.opcode]
        number, size = _gm_copies(step, dims)
        if missed is None:
            missed = float(not step.opcode.startswith("constant"))
        cycles = chip_cost.instruction_cycles(target, instruction, bytes=size, path=path, missed=round(missed * size))
        latency = chip_cost.instruction_latency(target, instruction, path=path)
        loads -= step.opcode.startswith("constant")
    else:
        instruction, path = _CORE_MOVES[step.opcode]
        number, size = 1, _moved(step)
        if step.opcode in ("load_a", "load_b"):
            number, size = step.count * (2 if step.p[5] or step.p[6] else 1), step.size * HALF_FRACTAL
        cycles = chip_cost.instruction_cycles(target, instruction, bytes=size, path=path)
        latency = chip_cost.instruction_latency(target, instruction, path=path)
    pauses = _pauses(step, number, target) if step.opcode == "mmad" else 0
    return StepCost(PIPES.index(pipe(step)), number, cycles, first, latency, loads * target.scalar_load_cycles, mask, pauses)


def step_costs(steps: Sequence[Step], dims: Dims, target: NpuTarget) -> list[StepCost]:
    """Of each step. Those that differ in their operands only cost the same."""
    known: dict[tuple[str, int, int, int, tuple[int, ...]], StepCost] = {}
    found = []
    for step in steps:
        kind = (step.opcode, step.count, step.index, step.size, step.p)
        if kind not in known or step.opcode == "sync":
            known[kind] = step_cost(step, dims, target)
        found.append(known[kind])
    return found


def mask_cycles(target: NpuTarget) -> float:
    """What the scalar unit spends on setting another vector mask."""
    return 2 * target.scalar_load_cycles + target.costs["set_vector_mask"][0]


def _products(step: Step, target: NpuTarget) -> tuple[int, float, float, float]:
    """Cycles are an average: the products of a step may grow."""
    each = products(step)
    start, per_tile = target.costs["mad"]
    tiles = step.p[0] * sum(one.n * one.k for one in each)
    rounds = 1 + bool(step.index) + bool(step.p[7])  # with the low part of either side
    return rounds * len(each), per_tile * tiles / max(1, len(each)), start, target.cube_latency


def _pauses(step: Step, number: int, target: NpuTarget) -> int:
    """Barriers of an mmad step: between all products, or before products with low parts that are too small to do without."""
    if step.p[6] & _BARRIER_BETWEEN:
        return number - 1
    rounds = 1 + bool(step.index) + bool(step.p[7])
    return rounds - 1 if step.p[0] * step.p[1] < target.cube_barrier_tiles else 0


def gm_bytes(step: Step, dims: Dims) -> int:
    """What a step moves from or to GM."""
    number, size = _gm_copies(step, dims) if step.opcode in _GM_INSTRUCTIONS else (0, 0)
    return number * size


def _gm_copies(step: Step, dims: Dims) -> tuple[int, int]:
    """Machine instructions of a step that reads or writes GM, and bytes of each."""
    match step.opcode:
        case "rows_to_l1":
            return step.count, dims.chunk * UNIT
        case "rows_to_ub":
            size = tile_rows(step, dims) * 16 * element_bytes(step)
            return (1, step.count * size) if step.p[3] == 0 else (step.count, size)
        case "rows_from_ub":
            size = tile_rows(step, dims) * 16 * step.p[7]
            if step.p[3] == 0:
                return 1, step.count * size
            return (step.count, size) if step.p[3] == 1 else (step.count * tile_rows(step, dims) // 16, 16 * 16 * step.p[7])
        case "gate_to_ub":
            return 1, 4 * dims.chunk
    return 1, step.size * UNIT


def _moved(step: Step) -> int:
    return step.count * step.size * (UNIT if step.opcode in ("l1_to_ub", "ub_to_l1") else FULL_FRACTAL)


@dataclass(frozen=True, slots=True)
class Timing:
    """Of one pass over a section. busy and held by pipe, the scalar unit last: held is waiting for flags, barriers or room."""

    cycles: float
    busy: tuple[float, ...]
    starts: tuple[float, ...]  # of each step, on its pipe
    ends: tuple[float, ...]


class _Queue:
    """One pipe: when it is free, when all of its work is complete, when each instruction in its queue has left it."""

    __slots__ = ("busy", "done", "drained", "free", "left")

    def __init__(self) -> None:
        self.free = self.done = self.busy = 0.0
        self.drained = True
        self.left: list[float] = []


class _Core:
    """The scalar unit, which issues in order, and the pipes that it feeds."""

    def __init__(self, target: NpuTarget):
        self.target = target
        self.queues = [_Queue() for _ in PIPES]
        self.up: dict[Flag, float] = {}
        self.scalar = self.busy = 0.0
        self.mask = -1

    def spend(self, cycles: float) -> None:
        """Scalar work."""
        self.scalar += cycles
        self.busy += cycles

    def issue(self, queue: _Queue, cost: float) -> float:
        """Puts one instruction into a queue; returns when it may start."""
        depth = self.target.queue_depth
        if len(queue.left) >= depth:
            self.scalar = max(self.scalar, queue.left[-depth])
        self.spend(cost)
        begin = max(queue.free, self.scalar)
        queue.drained |= begin > queue.free
        queue.left.append(begin)
        return begin

    def hold(self, queue: _Queue, until: float) -> None:
        """An instruction that keeps its pipe until a flag has risen or all of its work is complete."""
        begin = self.issue(queue, self.target.issue_cycles)
        queue.drained |= until > begin
        queue.free = max(begin, until) + self.target.flag_cycles
        queue.done = max(queue.done, queue.free)

    def work(self, queue: _Queue, cost: StepCost) -> float:
        """A step's instructions; returns when the first one starts."""
        first = -1.0
        for number in range(cost.instructions):
            if number and number % cost.run == 0:
                self.hold(queue, queue.done)
            at = self.issue(queue, self.target.issue_cycles + self.target.argument_cycles)
            first = at if number == 0 else first
            cycles = cost.cycles + (cost.first if queue.drained else 0.0)
            queue.drained = False
            queue.free = at + cycles
            queue.busy += cycles
            queue.done = max(queue.done, queue.free + cost.latency)
        return first

    def set(self, flag: Flag) -> None:
        """The flag rises when all before it on its pipe is complete."""
        queue = self.queues[PIPES.index(flag.source)]
        queue.free = self.issue(queue, self.target.issue_cycles) + self.target.flag_cycles
        queue.busy += self.target.flag_cycles
        queue.done = max(queue.done, queue.free)
        self.up[flag] = queue.done


def simulate(steps: Sequence[Step], dims: Dims, target: NpuTarget) -> Timing:
    """Runs the steps of a section with their flags and barriers, all of them wanted, up to the barrier at its end."""
    core = _Core(target)
    starts, ends = [], []
    for step in steps:
        cost = step_cost(step, dims, target)
        core.spend(cost.scalar)
        for flag in step.waits:
            core.hold(core.queues[PIPES.index(flag.target)], core.up.pop(flag))
        begin = end = core.scalar
        if cost.pipe >= 0:
            queue = core.queues[cost.pipe]
            if step.barrier:
                core.hold(queue, queue.done)
            if cost.mask not in (-1, core.mask):
                core.mask = cost.mask
                core.spend(mask_cycles(target))
            begin = core.work(queue, cost)
            end = queue.free
        starts.append(begin)
        ends.append(end)
        for flag in step.sets:
            core.set(flag)
    cycles = max(core.scalar, *(queue.done for queue in core.queues))
    return Timing(cycles, (*(queue.busy for queue in core.queues), core.busy), tuple(starts), tuple(ends))


def steady_cycles(program: Program, dims: Dims, target: NpuTarget) -> float:
    """Of an iteration of the body once iterations follow one another steadily, flags or a barrier between them."""
    if not program.carried:
        return simulate(program.body, dims, target).cycles
    set_before = [step for step in program.setup if step.opcode == "sync" and step.sets and not step.waits]
    short, long = (simulate((*set_before, *program.body * count), dims, target).cycles for count in (_SETTLED, 2 * _SETTLED))
    return (long - short) / _SETTLED
