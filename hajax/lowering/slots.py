"""What launches hand on to one another in the workspace: named tiles of a head's chunk.

A tile lies there as on the core, in column blocks: one or two parts of fp16, or fp32. L1 has no way to GM but through UB.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hajax.lowering.assembler import FULL, HALF, UNIT, Assembler, at
from hajax.lowering.tiles import Parts, parts_in_l1, vector
from hajax.lowering.vector_tiles import Tile, subtract
from hajax.plans.program import Operand

PIECE = 32 * HALF  # bytes that go from L1 to GM at a time
LINE = 128  # bytes of a line of L2
FP32 = 0  # parts of a tile that is not split
OF_STATE_COLUMNS = ("u", "h", "x", "H", "S")


@dataclass(frozen=True, slots=True)
class Field:
    """A tile of `rows` by `columns` blocks of 16 from byte `place` of the slot on: high part, then low part, or fp32.

    pieces: its columns are the state's, so that an item of some of them has some of it.
    """

    place: int
    rows: int
    columns: int
    parts: int
    pieces: bool

    @property
    def fractal(self) -> int:
        """Bytes of 16 x 16 elements, of a part."""
        return HALF if self.parts else FULL

    @property
    def part_bytes(self) -> int:
        """Of one part."""
        return self.rows * self.columns * self.fractal

    @property
    def bytes(self) -> int:
        """Of all parts."""
        return max(1, self.parts) * self.part_bytes


def slot_of(tiles: Mapping[str, tuple[int, int, int]], lives: Mapping[str, tuple[int, int]]) -> dict[str, Field]:
    """Tiles (rows, columns, parts) with their first and last stage: those that never live together share bytes.

    Those named u, h, x, H and S have the state's columns.
    """
    fields: dict[str, Field] = {}
    for name in sorted(lives, key=lambda name: (-Field(0, *tiles[name], False).bytes, name)):
        field, (first, last) = Field(0, *tiles[name], name in OF_STATE_COLUMNS), lives[name]
        place = 0
        others = [other for key, other in fields.items() if lives[key][0] <= last and lives[key][1] >= first]
        for other in sorted(others, key=lambda other: other.place):
            if place + field.bytes > other.place and place < other.place + other.bytes:
                place = other.place + other.bytes
        fields[name] = replace(field, place=place)
    return fields


def slot_bytes(slot: Mapping[str, Field]) -> int:
    """Of a head's chunk."""
    return max((field.place + field.bytes for field in slot.values()), default=0)


def slot_distance(slot: Mapping[str, Field]) -> int:
    """From slot to slot: an odd number of lines of L2, so that a tile of many chunks does not fall on a few sets."""
    lines = -(-slot_bytes(slot) // LINE)
    return (lines | 1) * LINE if lines else 0


def _moved(field: Field, back: int = 0) -> tuple[int, ...]:
    """Fields of a workspace step: a piece of columns starts so much further on for each 16 columns that lie before it."""
    stride = field.rows * field.fractal // UNIT if field.pieces else 0
    return (0, 0, back & 255, back >> 8, stride & 255, stride >> 8)


def put_tile(asm: Assembler, tile: Tile, field: Field, label: str, first: int = 0) -> None:
    """fp32 of UB, blocked, to the slot, from this column block of it on; of two parts the low one stays in the tile."""
    assert tile.layout == "blocked" and tile.rows == field.rows
    size = tile.rows * tile.columns * field.fractal
    start = first * field.rows * field.fractal
    if field.parts == FP32:
        _store(asm, tile.place, field, start, size, label)
        return
    for part in range(field.parts):
        name = f"{label} {'low' if part else 'high'} out"
        staged = asm.buffer(f"{name}:UB", "UB", size)
        vector(asm, "to16", staged, tile.place, repeats=tile.repeats, strides=(4, 8, 0), label=name)
        _store(asm, staged, field, part * field.part_bytes + start, size, name)
        if part < field.parts - 1:
            subtract(asm, tile.place, staged, tile.repeats, label=f"{label} less its high part")


def _store(asm: Assembler, source: Operand, field: Field, offset: int, size: int, label: str) -> None:
    asm.emit(
        "workspace_from_ub", src0=source, size=size // UNIT, constant=(field.place + offset) // UNIT, p=_moved(field),
        label=label,
    )  # fmt: skip


def put_parts(asm: Assembler, parts: Parts, field: Field, columns: int, label: str) -> None:
    """Column blocks of L1 to the slot, piece by piece through UB."""
    size = field.rows * columns * HALF
    for part in range(field.parts):
        for start in range(0, size, PIECE):
            some = min(PIECE, size - start)
            staged = asm.buffer(f"{label} out:UB", "UB", some)
            asm.emit("l1_to_ub", staged, at(parts.part(part), start), size=some // UNIT, label=f"{label} out")
            _store(asm, staged, field, part * field.part_bytes + start, some, f"{label} out")


def room_for(asm: Assembler, field: Field, name: str, columns: int | None = None) -> Parts:
    """Setup: room in L1 for two chunks of a tile in parts."""
    fractals = field.rows * (field.columns if columns is None else columns)
    return parts_in_l1(asm, name, fractals, versions=2, number=field.parts)


def take_parts(asm: Assembler, field: Field, target: Parts, columns: int, label: str) -> None:
    """From the slot to L1."""
    size = field.rows * columns * HALF
    if columns == field.columns and field.parts == 2 and target.distance == field.rows * columns:
        take(asm, field, "workspace_to_l1", target.high, 0, 2 * size, label)
        return
    for part in range(field.parts):
        take(asm, field, "workspace_to_l1", target.part(part), part * field.part_bytes, size, label)


def take(asm: Assembler, field: Field, opcode: str, target: Operand, offset: int, size: int, label: str, back: int = 0) -> None:
    """Bytes of a tile from the slot to L1 or UB; from that of a chunk so many before."""
    place = (field.place + offset) // UNIT
    asm.emit(opcode, target, size=size // UNIT, constant=place, p=_moved(field, back), label=label)
