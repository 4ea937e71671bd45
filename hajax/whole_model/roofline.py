"""A kernel's time as the emulator's clock would have it if every pipe of the busiest core were always fed: modelled.

cycles = launch + fill + the largest of the pipes' busy cycles + drain. Pipes run side by side and operands are double-buffered,
so of all transfers only those of the first and the last tile are not hidden (fill, drain).
"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hajax import abi, chip_cost
from hajax.targets import NpuTarget

BLOCK = 16  # edge of a fractal and of a cube tile
LANES = 64  # fp32 elements of a vector repeat
REPEATS = 128  # of one vector instruction: three fp32 tiles and two fp16 ones each for two inputs and an output fit into UB
VECTOR_TILE = REPEATS * LANES
COPY_BYTES = 16 * 1024  # of one instruction that moves what vectors work on
PIPES = ("S", "V", "M", "MTE1", "MTE2", "MTE3")


@dataclass(frozen=True, slots=True)
class Issued:
    """Like instructions: `number` of them, and their units, bytes and bytes that are not in L2 all together.

    set_flag stands for a hand-over between pipes: a set and a wait.
    """

    instruction: str
    number: int
    units: int = 0
    path: str | None = None
    bytes: int = 0
    missed: int = 0


@dataclass(frozen=True, slots=True)
class Cost:
    """What a kernel takes. busy: cycles of the busiest core's pipes; counts: of all cores, by name as in a run's counts.

    gm_bytes: between the cores and GM, by way of L2; ddr_bytes: of these, what L2 does not serve.
    """

    cycles: float
    microseconds: float
    dynamic_microjoules: float
    static_microjoules: float
    gm_bytes: int
    ddr_bytes: int
    busy: Mapping[str, float]
    counts: Mapping[str, int]
    launches: int = 1

    @property
    def microjoules(self) -> float:
        """Dynamic and static."""
        return self.dynamic_microjoules + self.static_microjoules

    @property
    def bound(self) -> str:
        """The pipe that is busy the longest."""
        return max(self.busy, key=lambda pipe: self.busy[pipe])


def busy_cycles(target: NpuTarget, issued: Sequence[Issued]) -> dict[str, float]:
    """Cycles that each pipe of one core is busy: starts, units and bytes of its instructions; S issues them all.

    Every product pays its start, though right behind another one it need not.
    """
    busy = dict.fromkeys(PIPES, 0.0)
    for one in issued:
        if one.instruction == "set_flag":
            busy["S"] += 2 * one.number * target.issue_cycles
        elif one.number:
            start = target.costs[one.instruction][0]
            busy[_pipes()[one.instruction]] += (one.number - 1) * start + chip_cost.instruction_cycles(
                target, one.instruction, units=one.units, bytes=one.bytes, path=one.path, missed=one.missed
            )
            busy["S"] += one.number * (target.issue_cycles + target.argument_cycles)
    return busy


def cost_of(
    target: NpuTarget,
    busiest: Sequence[Issued],
    everything: Sequence[Issued],
    *,
    useful_macs: int = 0,
    fill: float,
    drain: float,
    cube_held: float = 0.0,
) -> Cost:
    """The cost of a kernel from what its busiest core does and what all cores do. cube_held: cycles that M waits for L0C."""
    busy = busy_cycles(target, busiest)
    busy["M"] += cube_held
    cycles = target.launch_cycles + fill + max(busy.values()) + drain
    counts = _counts(everything) | {"useful_macs": useful_macs}
    gm_bytes = sum(counts.get(path, 0) for path in (*chip_cost.GM_READS, *chip_cost.GM_WRITES))
    ddr_bytes = sum(one.missed for one in everything)
    microseconds = cycles / target.clock_mhz
    dynamic = chip_cost.dynamic_microjoules(target, counts, l2_bytes=gm_bytes, ddr_bytes=ddr_bytes)
    return Cost(cycles, microseconds, dynamic, target.static_watts * microseconds, gm_bytes, ddr_bytes, busy, counts)


def moved(instruction: str, path: str, size: int, missed: int = 0, number: int = 0) -> Issued:
    """Bytes on a path, in instructions of COPY_BYTES unless their number is given."""
    return Issued(instruction, number or -(-size // COPY_BYTES), path=path, bytes=size, missed=missed)


def read_to_ub(size: int, number: int = 0) -> Issued:
    """What no kernel before has left in L2."""
    return moved("copy_gm_to_ubuf", "gm_to_ub", size, size, number)


def written_from_ub(size: int, number: int = 0) -> Issued:
    """Results go all the way to DDR."""
    return moved("copy_ubuf_to_gm", "ub_to_gm", size, size, number)


def vector(instruction: str, elements: int) -> Issued:
    """fp32 elements in whole repeats, REPEATS of them an instruction."""
    repeats = -(-elements // LANES)
    return Issued(instruction, -(-repeats // REPEATS), units=repeats)


def rounded_up(size: int, step: int = BLOCK) -> int:
    """To a multiple of `step`."""
    return -(-size // step) * step


def _counts(issued: Sequence[Issued]) -> dict[str, int]:
    counts: dict[str, int] = {}

    def add(name: str, number: int) -> None:
        counts[name] = counts.get(name, 0) + number

    for one in issued:
        add(one.instruction, one.number)
        if one.path is not None:
            add(one.path, one.bytes)
        elif one.instruction == "mad":
            add("macs", one.units * BLOCK**3)
        elif one.instruction != "set_flag":
            add("vector_lanes", one.units * LANES)
    return counts


@functools.cache
def _pipes() -> Mapping[str, str]:
    return {str(row[1]): str(row[2]) for row in abi.rows("instructions")}
