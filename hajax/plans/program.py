"""Programs of an Ascend core as frozen data: buffers, steps, items, launches. opcodes.def says what each step does.

Passes work on steps whose operands name buffers; `buffers` gives those addresses, `sync` gives steps their flags.
"""

from collections.abc import Sequence
from dataclasses import dataclass

SPACES = ("L1", "L0A", "L0B", "L0C", "UB")
LOAD, MAP, STATE = range(3)  # stages: each works on the chunk before the one of the stage in front of it


@dataclass(frozen=True, slots=True)
class Buffer:
    """Bytes of one memory. `versions` 2: odd chunks use the second one. `address` is None until the buffers pass has run.

    `kept`: holds its contents from setup to finish (a state, constants), not only from its first write to its last read.
    """

    name: str
    space: str
    bytes: int
    versions: int = 1
    kept: bool = False
    address: int | None = None


@dataclass(frozen=True, slots=True)
class Operand:
    """A place in a buffer, in bytes."""

    buffer: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Flag:
    """An event between two pipes, e.g. ("M", "V", 3)."""

    source: str
    target: str
    event: int


@dataclass(frozen=True, slots=True)
class Step:
    """One row of the straight-line code; the fields are those of hj_step with names for opcode, flags and operands.

    `label` says for people what it is for ("K S", "hi of X"); `priority` is the place in the order that the passes chose.
    """

    opcode: str
    dst: Operand | None = None
    src0: Operand | None = None
    src1: Operand | None = None
    count: int = 1
    index: int = 0
    size: int = 0
    p: tuple[int, ...] = (0,) * 8
    constant: int = 0  # offset in 32 bytes into the constants or the workspace slot, for opcodes that read them
    stage: int = STATE
    first: bool = False  # only for a sequence's first chunk
    last: bool = False  # only for its last chunk
    barrier: bool = False
    waits: tuple[Flag, ...] = ()
    sets: tuple[Flag, ...] = ()
    label: str = ""


def with_flags(step: Step, barrier: bool, waits: tuple[Flag, ...], sets: tuple[Flag, ...]) -> Step:
    """The step with these; written out, as `dataclasses.replace` takes four times as long for each of hundreds of steps."""
    return Step(
        step.opcode, step.dst, step.src0, step.src1, step.count, step.index, step.size, step.p, step.constant, step.stage,
        step.first, step.last, barrier, waits, sets, step.label,
    )  # fmt: skip


def at_address(buffer: Buffer, address: int) -> Buffer:
    """The buffer with this address."""
    return Buffer(buffer.name, buffer.space, buffer.bytes, buffer.versions, buffer.kept, address)


@dataclass(frozen=True, slots=True)
class Program:
    """What a core does with one item of `heads` value heads and `columns` state columns.

    `carried`: iterations of the body are ordered by flags that one sets and the next one waits for, not by a barrier; setup
    sets these flags for the first one, finish waits for those of the last one.
    """

    heads: int
    columns: int
    buffers: tuple[Buffer, ...]
    setup: tuple[Step, ...]
    body: tuple[Step, ...]
    finish: tuple[Step, ...]
    masks: tuple[tuple[int, int], ...]  # (low, high) bits; number 0 is all lanes
    scalars: tuple[float, ...]  # number 0 stands for the call's scale
    slot_bytes: dict[str, int]  # by space: distance of an alternating buffer's versions; empty before the buffers pass
    step_address: int = 0
    stages: int = 3
    carried: bool = False


@dataclass(frozen=True, slots=True)
class Item:
    """A piece of work for one core."""

    program: int
    sequence: int
    head: int
    column: int
    first_chunk: int = 0
    chunks: int = -1


@dataclass(frozen=True, slots=True)
class Launch:
    """Items of each core, in the order in which it runs them.

    `synced`: the next one follows in the same kernel launch, on as many cores, behind a barrier of all of them.
    """

    cores: tuple[tuple[Item, ...], ...]
    synced: bool = False


def kernel_launches(launches: Sequence[Launch]) -> int:
    """How often a kernel is started for them."""
    return sum(not launch.synced for launch in launches)


@dataclass(frozen=True, slots=True)
class Programs:
    """What an Ascend plan launches."""

    npu_arch: int
    chunk: int
    programs: tuple[Program, ...]
    launches: tuple[Launch, ...]
    constants: bytes
    workspace_slot_bytes: int = 0
