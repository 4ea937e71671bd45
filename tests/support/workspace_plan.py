"""Plans by hand that copy values to outputs through the workspace: slots of earlier chunks and of column pieces, synced launches.

Each launch has its items on other cores than the one before.
"""

import dataclasses
import itertools

import numpy as np
from toy_plan import ALL, chained, placed

from hajax import abi
from hajax.mechanisms import GATED_DELTA_RULE
from hajax.plans import Plan, Shape
from hajax.plans.footprint import UNIT
from hajax.plans.program import LOAD, Buffer, Item, Launch, Operand, Program, Programs, Step

CHUNK = 16
TENSOR = abi.table("tensors")
BLOCK = CHUNK * 32  # bytes of a chunk's tokens in 16 columns
UNITS = BLOCK // UNIT


def wide(number):
    return number & 255, number >> 8


@dataclasses.dataclass(frozen=True)
class Slots:
    """Where values lie in a slot: `stride` units of 32 bytes from 16 columns to the next; `places` one after another."""

    value_dim: int
    stride: int = UNITS
    places: int = 1

    @property
    def units(self):
        """Units of 32 bytes of one place."""
        return (self.value_dim // 16 - 1) * self.stride + UNITS

    def fields(self, back=0):
        """What a step's p says."""
        return (0, 0, *wide(back), *wide(self.stride), 0, 0)

    def steps(self, opcode, buffer, columns, place=0, back=0):
        """A step for each 16 columns; the buffer has one block of a chunk's rows after the other."""
        for block in range(columns // 16):
            end = "src0" if opcode == "workspace_from_ub" else "dst"
            yield Step(
                opcode, **{end: Operand(buffer, block * BLOCK)}, size=UNITS, p=self.fields(back), stage=LOAD,
                constant=place * self.units + block * self.stride, label=opcode,
            )  # fmt: skip


def rows(opcode, tensor, columns, *, state=False, size=0):
    end = "src0" if opcode == "rows_from_ub" else "dst"
    p = (TENSOR[tensor], 0, 0, 0 if state else 1, int(state), 0, 0, size)
    return Step(opcode, **{end: Operand("state" if state else "tile")}, count=columns // 16, p=p, stage=LOAD, label=tensor)


def program(columns, setup=(), body=(), finish=()):
    buffers = (
        Buffer("tile", "UB", columns // 16 * BLOCK, kept=True),
        Buffer("l1", "L1", columns // 16 * BLOCK),
        Buffer("state", "UB", 16 * columns * 4),
    )
    made = Program(1, columns, buffers, chained(setup), chained(body), chained(finish), (ALL,), (0.0,), {}, stages=1)
    return placed(made)


def fill(slots, columns):
    """Values to the slots; states as they were."""
    return program(
        columns, (), (rows("rows_to_ub", "value", columns), *slots.steps("workspace_from_ub", "tile", columns)),
        (rows("rows_to_ub", "state_in", columns, state=True), rows("rows_from_ub", "state_out", columns, state=True, size=4)),
    )  # fmt: skip


def move(slots, columns, place):
    """From a place to the next."""
    there = slots.steps("workspace_from_ub", "tile", columns, place + 1)
    return program(columns, (), (*slots.steps("workspace_to_ub", "tile", columns, place), *there))


def drain(slots, columns, place=0, back=0, memory="UB"):
    """What lies in the slot so many chunks back to the output."""
    out = rows("rows_from_ub", "output", columns, size=2)
    if memory == "UB":
        return program(columns, (), (*slots.steps("workspace_to_ub", "tile", columns, place, back), out))
    through = Step("l1_to_ub", Operand("tile"), Operand("l1"), size=columns // 16 * UNITS, stage=LOAD, label="through L1")
    return program(columns, (), (*slots.steps("workspace_to_l1", "l1", columns, place, back), through, out))


def hold(slots, columns, back):
    """What lies so many chunks before the item's first one to the output of all its chunks."""
    setup = tuple(slots.steps("workspace_to_ub", "tile", columns, 0, back))
    return program(columns, setup, (rows("rows_from_ub", "output", columns, size=2),))


def spread(items, cores, first=0):
    """The items one by one over the cores, from core `first` on."""
    return tuple(tuple(items[(core - first) % cores :: cores]) for core in range(cores))


def pieces(shape, number, columns, *ranges):
    """An item of the program for each sequence, head, piece of columns and (first chunk, chunks)."""
    return [
        Item(number, sequence, head, column, *some)
        for sequence in range(shape.batch * shape.sequences)
        for head in range(shape.value_heads)
        for column in range(0, shape.value_dim, columns)
        for some in ranges or ((0, -1),)
    ]


def shape_of(tokens, heads=2, value_dim=64, sequences=1):
    return Shape(1, tokens, sequences, 1, heads, 16, value_dim, "float16", "float16")


def plan_of(shape, programs, launches, slots):
    slot_bytes = slots.units * slots.places * UNIT
    made = Programs(2002, CHUNK, tuple(programs), tuple(launches), bytes(8192), slot_bytes)
    return Plan(3, GATED_DELTA_RULE, shape, "ascend310p1", "by hand", made, ())


def moved_back(shape, *, back=1, writes=64, reads=64, stride=UNITS, memory="UB", synced=True, cores=3):
    """Outputs are the values `back` chunks earlier, those of the first chunks their own."""
    slots = Slots(shape.value_dim, stride)
    programs = (fill(slots, writes), drain(slots, reads, 0, 0, memory), drain(slots, reads, 0, back, memory))
    first = spread(pieces(shape, 0, writes), cores)
    items = [*pieces(shape, 1, reads, (0, back)), *pieces(shape, 2, reads, (back, -1))] if back else pieces(shape, 1, reads)
    return plan_of(shape, programs, (Launch(first, synced), Launch(spread(items, cores, 1))), slots)


def held(shape, *, back=2, every=3):
    """Outputs of chunks 0 .. every - 1 are their own values; of each `every` later ones those `back` chunks before the first."""
    slots, columns = Slots(shape.value_dim), shape.value_dim
    chunks = -(-shape.tokens // CHUNK)
    ranges = [(at, every if at + every < chunks else -1) for at in range(every, chunks, every)]
    items = [*pieces(shape, 1, columns, (0, every)), *pieces(shape, 2, columns, *ranges)]
    programs = (fill(slots, columns), drain(slots, columns), hold(slots, columns, back))
    return plan_of(shape, programs, (Launch(spread(pieces(shape, 0, columns), 3), True), Launch(spread(items, 3, 1))), slots)


def in_four(shape, synced=(True, True, True), cores=3):
    """Outputs are values that two launches have moved on within their slots."""
    slots, columns = Slots(shape.value_dim, places=3), shape.value_dim
    programs = (fill(slots, columns), move(slots, columns, 0), move(slots, columns, 1), drain(slots, columns, 2))
    launches = [
        Launch(spread(pieces(shape, number, columns), cores, number), follows)
        for number, follows in enumerate((*synced, False))
    ]  # fmt: skip
    return plan_of(shape, programs, launches, slots)


EVEN = (0x5555_5555_5555_5555,) * 2  # lanes


def doubled(slots, columns):
    """All columns times two, then even ones once more, within the slot."""
    tile = Operand("tile")
    twice = [
        Step("muls16", tile, tile, size=columns * CHUNK // 128, index=mask, p=(1, 1, 0, 8, 8, 0, 1, 0), stage=LOAD, label="twice")
        for mask in (0, 1)
    ]
    there = slots.steps("workspace_from_ub", "tile", columns)
    made = program(columns, (), (*slots.steps("workspace_to_ub", "tile", columns), *twice, *there))
    return dataclasses.replace(made, masks=(ALL, EVEN), scalars=(0.0, 2.0))


def doubled_twice(shape):
    """One program, with a mask and a scalar of its own, on both sides of a barrier."""
    slots, columns = Slots(shape.value_dim), shape.value_dim
    programs = (fill(slots, columns), doubled(slots, columns), drain(slots, columns))
    launches = [
        Launch(spread(pieces(shape, number, columns), 3), at < 3) for at, number in enumerate((0, 1, 1, 2))
    ]  # fmt: skip
    return plan_of(shape, programs, launches, slots)


def shifted(value, bounds, back):
    """What `moved_back` gives: [B, T, Hv, Dv]."""
    found = value.copy()
    for start, end in itertools.pairwise(bounds):
        later = value[:, start : max(end - back * CHUNK, start)]
        found[:, end - later.shape[1] : end] = later
    return found


def held_values(value, back, every):
    """What `held` gives for one sequence; behind the last token of the chunk that is held there are zeros, none here."""
    found = value.copy()
    for start in range(every * CHUNK, value.shape[1], every * CHUNK):
        chunk = value[:, start - back * CHUNK :][:, :CHUNK]
        for at in range(start, min(start + every * CHUNK, value.shape[1]), CHUNK):
            rows_there = min(CHUNK, value.shape[1] - at)
            found[:, at : at + rows_there] = chunk[:, :rows_there]
    return np.ascontiguousarray(found)
