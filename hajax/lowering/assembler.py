"""Collects the buffers and steps of a program. Operators are lowered by functions that take an Assembler and emit through it.

Buffers have names and no addresses yet; a step is emitted for the current section and stage.
"""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from hajax import abi
from hajax.plans.program import STATE, Buffer, Operand, Program, Step

HALF, FULL = 512, 1024  # bytes of a fractal of fp16 and of fp32
ALL_LANES = (1 << 64) - 1
ZERO_BYTES = abi.constant("HJ_ZERO_BYTES")
UNIT = abi.constant("HJ_ADDRESS_UNIT")
Section = Literal["setup", "body", "finish"]


@dataclass(frozen=True, slots=True)
class Dims:
    """Sizes of one program, all multiples of 16. `shared_keys`: its value heads read the same key head."""

    chunk: int
    key_dim: int
    columns: int
    heads: int
    shared_keys: bool

    @property
    def rows(self) -> int:
        """Blocks of 16 tokens of a chunk."""
        return self.chunk // 16

    @property
    def keys(self) -> int:
        """Blocks of 16 key channels."""
        return self.key_dim // 16

    @property
    def values(self) -> int:
        """Blocks of 16 state columns."""
        return self.columns // 16

    @property
    def key_heads(self) -> range:
        """Heads whose keys and queries differ."""
        return range(1 if self.shared_keys else self.heads)

    def key_head(self, head: int) -> int:
        """Which of them a value head reads."""
        return 0 if self.shared_keys else head

    @property
    def triangle(self) -> int:
        """Fractals of the lower triangle of a chunk by a chunk, diagonal included."""
        return self.rows * (self.rows + 1) // 2


class Constants:
    """The constant bytes of a plan: zeros first, then each array once."""

    def __init__(self) -> None:
        self._bytes = bytearray(ZERO_BYTES)
        self._places: dict[bytes, int] = {}

    def place(self, array: np.ndarray) -> int:
        """Where an array lies, in units of 32 bytes."""
        data = np.ascontiguousarray(array).tobytes()
        assert len(data) % UNIT == 0
        if data not in self._places:
            self._places[data] = len(self._bytes) // UNIT
            self._bytes += data
        return self._places[data]

    def to_bytes(self) -> bytes:
        """All of them, in the order in which they were placed."""
        return bytes(self._bytes)


@dataclass
class Assembler:
    """A program in the making.

    parts: of fp16 that operands which are not exact in one are kept in; 1 rounds them, as systems do that hold no error bound.
    """

    dims: Dims
    constants: Constants
    parts: int = 2
    section: Section = "setup"
    stage: int = STATE
    buffers: list[Buffer] = field(default_factory=list)
    steps: dict[str, list[Step]] = field(default_factory=lambda: {"setup": [], "body": [], "finish": []})
    masks: list[tuple[int, int]] = field(default_factory=lambda: [(ALL_LANES, ALL_LANES)])
    scalars: list[float] = field(default_factory=lambda: [1.0])  # number 0 stands for the call's scale
    _names: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.parts not in (1, 2):
            raise ValueError(f"parts: expected 1 or 2, of fp16 that an operand is kept in, got {self.parts}")

    def buffer(self, name: str, space: str, size: int, *, versions: int = 1, kept: bool = False) -> Operand:
        """New bytes of a memory; a name that is taken gets a number."""
        taken = self._names.get(name, 0)
        self._names[name] = taken + 1
        unique = name if taken == 0 else f"{name}.{taken}"
        self.buffers.append(Buffer(unique, space, size, versions, kept))
        return Operand(unique)

    def emit(
        self,
        opcode: str,
        dst: Operand | None = None,
        src0: Operand | None = None,
        src1: Operand | None = None,
        *,
        count: int = 1,
        index: int = 0,
        size: int = 0,
        p: tuple[int, ...] = (),
        constant: int = 0,
        first: bool = False,
        last: bool = False,
        label: str = "",
    ) -> None:
        """One step of the current section and stage."""
        padded = p + (0,) * (8 - len(p))
        stage = self.stage if self.section == "body" else 0
        step = Step(opcode, dst, src0, src1, count, index, size, padded, constant, stage, first, last, label=label)
        self.steps[self.section].append(step)

    def mask(self, low: int, high: int = 0) -> int:
        """The number of a vector mask; its upper half is for lanes of 16 bits."""
        if (low, high) not in self.masks:
            self.masks.append((low, high))
        return self.masks.index((low, high))

    def scalar(self, value: float) -> int:
        """The number of a scalar operand."""
        if value not in self.scalars[1:]:
            self.scalars.append(value)
        return self.scalars.index(value, 1)

    def program(self, stages: int = 3) -> Program:
        """What was collected."""
        return Program(
            heads=self.dims.heads,
            columns=self.dims.columns,
            buffers=tuple(self.buffers),
            setup=tuple(self.steps["setup"]),
            body=tuple(self.steps["body"]),
            finish=tuple(self.steps["finish"]),
            masks=tuple(self.masks),
            scalars=tuple(self.scalars),
            slot_bytes={},
            stages=stages,
        )


def at(operand: Operand, offset: int) -> Operand:
    """`offset` bytes further on in the same buffer."""
    return Operand(operand.buffer, operand.offset + offset)
