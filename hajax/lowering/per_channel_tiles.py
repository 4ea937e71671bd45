"""Splits of tiles whose parts go to several places of L1, down to single rows; and the rows of a group's second half, packed."""

from dataclasses import dataclass

from hajax.lowering.assembler import HALF, UNIT, ZERO_BYTES, Assembler, at
from hajax.lowering.tiles import TRANSPOSE, Parts, copy_out, load, multiply, vector
from hajax.plans.program import Operand

FRACTAL = HALF // UNIT  # a row of a fractal is one unit
MOST_BLOCKS = 255


@dataclass(frozen=True, slots=True)
class Write:
    """Where a part goes from UB: `count` runs of `size` with gaps on both sides, all in 32 bytes. low: the low part goes too."""

    target: Parts
    size: int
    count: int = 1
    start: int = 0
    source: int = 0
    source_gap: int = 0
    target_gap: int = 0
    low: bool = True


def write(asm: Assembler, staged: Operand, place: Write, part: int, label: str) -> None:
    """One part from UB to its place in L1."""
    if part and not place.low:
        return
    steps = -(-place.count // MOST_BLOCKS)
    most = -(-place.count // steps)
    for first in range(0, place.count, most):
        source = place.source + first * (place.size + place.source_gap)
        start = place.start + first * (place.size + place.target_gap)
        gaps = place.source_gap, place.target_gap
        asm.emit(
            "ub_to_l1",
            at(place.target.part(part), start * UNIT),
            at(staged, source * UNIT),
            count=min(most, place.count - first),
            size=place.size,
            p=tuple(byte for gap in gaps for byte in (gap & 255, gap >> 8)),
            label=f"{label} to L1",
        )


def split_tile(
    asm: Assembler, negative: Operand, tile: Operand, fractals: int, places: tuple[Write, ...], whole: Operand, *, label: str
) -> tuple[Operand, Operand]:
    """High and low parts of a tile of L0C, to L1. Returns both as they are in UB.

    whole: where in L1 one of the places puts all of the high part, as it is.
    """
    staged = []
    for part in (0, 1):
        name = f"{label} {'low' if part else 'high'}"
        staged.append(copy_out(asm, tile, fractals, half=True, label=name))
        for place in places:
            write(asm, staged[part], place, part, name)
        if part == 0:
            right = load(asm, "B", whole, size=fractals, flags=TRANSPOSE, label=name)
            multiply(asm, tile, negative, right, n=fractals, label=f"{label} less its high part")
    return staged[0], staged[1]


@dataclass(frozen=True, slots=True)
class Zeros:
    """Zeros in L1, from which steps begin that write only some lanes: UB has no room to keep them."""

    source: Operand
    bytes: int

    def to_ub(self, asm: Assembler, name: str, size: int, target: Operand | None = None) -> Operand:
        """A buffer full of them, a new one unless one is given."""
        assert size <= self.bytes
        if target is None:
            target = asm.buffer(f"{name}:UB", "UB", size)
        asm.emit("l1_to_ub", target, self.source, size=size // UNIT, label=f"zeros of {name}")
        return target


def place_zeros(asm: Assembler, size: int) -> Zeros:
    """Setup: `size` zero bytes in L1."""
    source = asm.buffer("zeros", "L1", size, kept=True)
    staged = asm.buffer("zeros:UB", "UB", min(size, ZERO_BYTES))
    vector(asm, "dup16", staged, repeats=min(size, ZERO_BYTES) // 256, scalar=asm.scalar(0.0), label="zeros")
    for start in range(0, size, ZERO_BYTES):
        some = min(ZERO_BYTES, size - start)
        asm.emit("ub_to_l1", at(source, start), staged, size=some // UNIT, first=True, label="zeros")
    return Zeros(source, size)


@dataclass(frozen=True, slots=True)
class _Run:
    """One instruction of a packed operation over fp32 fractals, per fractal or per two: see `second_halves`."""

    source: int
    target: int
    blocks: tuple[int, int]  # strides of source and target
    strides: tuple[int, int]
    repeats: int  # of two fractals


_RUNS = {
    8: tuple(_Run((8 + 4 * i) * 64, i * 256, (1, 1), (32, 16), 2) for i in (0, 1)),
    4: (_Run(4 * 64, 0, (1, 1), (16, 8), 4),),
    2: tuple(_Run(2 * 64 + i * 32, i * 32, (8, 4), (64, 32), 1) for i in range(4)),
    1: tuple(_Run(64 + i * 32, i * 32, (4, 2), (32, 16), 2) for i in (0, 1)),
}


def second_halves(
    asm: Assembler,
    opcode: str,
    half: int,
    target: Operand,
    source: Operand,
    other: Operand | None = None,
    *,
    packed: bool = False,
    fractals: int,
    label: str,
) -> None:
    """A vector operation on the second halves of each group of 2 * half rows of fp32 fractals, packed at the target.

    packed: `other` has the packed rows only.
    """
    for run in _RUNS[half]:
        block, stride = (run.blocks[1], run.strides[1]) if packed else (run.blocks[0], run.strides[0])
        moved = None if other is None else at(other, run.target if packed else run.source)
        vector(
            asm, opcode, at(target, run.target), at(source, run.source), moved, repeats=fractals // 2 * run.repeats,
            blocks=(run.blocks[1], run.blocks[0], block), strides=(run.strides[1], run.strides[0], stride), label=label,
        )  # fmt: skip


def scatter_halves(target: Parts, half: int, fractals: int, start: int = 0, source: int = 0) -> Write:
    """Packed second halves to their own rows of `fractals` fractals from `start` on."""
    return Write(
        target, half, count=fractals * 16 // (2 * half), start=start * FRACTAL + half, source=source * FRACTAL, target_gap=half
    )
