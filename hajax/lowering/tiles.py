"""Steps that every operator is made of: fractals to L0, products, splits of an accumulator into a high and a low fp16 part.

A split never touches the vector unit's arithmetic: the first rounded copy of a tile is its high part; minus the identity times
that part leaves the rest in the accumulator exactly, and a second rounded copy is the low part (numerics: 22 bits).
"""

from dataclasses import dataclass

from hajax.lowering.assembler import FULL, HALF, UNIT, Assembler, at
from hajax.plans.program import Operand

OVERWRITE, K_GROWS, BARRIER, N_GROWS, TRIANGLE, RIGHT_MOVES, LEFT_MOVES = 1, 2, 4, 8, 16, 32, 64
TRANSPOSE, DISTANCE_GROWS = 1, 2
L0B_PIECE = 32  # fractals that are taken to L0B at a time: 16 KiB


@dataclass(frozen=True, slots=True)
class Parts:
    """A matrix as high and low fp16 parts: where the high one starts, and how many fractals further on the low one does.

    A distance of 0: there is no low part.
    """

    high: Operand
    distance: int

    @property
    def low(self) -> Operand:
        """Where the low part starts."""
        return at(self.high, self.distance * HALF)

    @property
    def number(self) -> int:
        """Of parts."""
        return 2 if self.distance else 1

    def part(self, number: int) -> Operand:
        """0: the high one, 1: the low one."""
        return self.low if number else self.high

    def from_fractal(self, number: int) -> "Parts":
        """Both parts from one of their fractals on."""
        return Parts(at(self.high, number * HALF), self.distance)


Matrix = Operand | Parts


def load(
    asm: Assembler,
    side: str,
    source: Operand,
    *,
    count: int = 1,
    size: int = 1,
    inner: int = 1,
    group: int = 0,
    flags: int = 0,
    label: str = "",
    target: Operand | None = None,
) -> Operand:
    """`count` groups of `size` fractals from L1 to L0A or L0B (`side` "A" or "B"), to a new buffer when no target is given."""
    if target is None:
        target = asm.buffer(f"{label}:{side}", f"L0{side}", count * size * HALF)
    p = (inner, group & 255, group >> 8, size, flags)
    asm.emit(f"load_{side.lower()}", target, source, count=count, size=size, p=p, label=f"{label} to L0{side}")
    return target


def load_parts(
    asm: Assembler,
    side: str,
    source: Parts,
    *,
    count: int = 1,
    size: int = 1,
    inner: int = 1,
    group: int = 0,
    flags: int = 0,
    label: str = "",
    target: Parts | None = None,
) -> Parts:
    """As `load`, both parts in one step, to a new buffer that holds one behind the other when no target is given."""
    if target is None:
        target = parts_in(asm, f"{label}:{side}", f"L0{side}", count * size, source.number)
    low = source.distance
    p = (inner, group & 255, group >> 8, size, flags, low & 255, low >> 8, target.distance)
    asm.emit(f"load_{side.lower()}", target.high, source.high, count=count, size=size, p=p, label=f"{label} to L0{side}")
    return target


def multiply(
    asm: Assembler,
    tile: Operand,
    left: Matrix,
    right: Matrix,
    *,
    count: int = 1,
    m: int = 1,
    n: int = 1,
    k: int = 1,
    move_tile: int = 0,
    move_left: int = 0,
    move_right: int = 0,
    overwrite: bool = False,
    mode: int = 0,
    label: str = "",
) -> None:
    """`count` products of m x k by k x n blocks of 16, added to `tile` in L0C unless they overwrite it.

    Operands in two parts make rounds of products: high high, high low, low high; low low is below the others' rounding.
    """
    flags = mode | (OVERWRITE if overwrite else 0)
    left_low, left_high = (left.distance, left.high) if isinstance(left, Parts) else (0, left)
    right_low, right_high = (right.distance, right.high) if isinstance(right, Parts) else (0, right)
    p = (m, n, k, move_tile, move_left, move_right, flags, left_low)
    asm.emit("mmad", tile, left_high, right_high, count=count, index=right_low, p=p, label=label)


@dataclass(frozen=True, slots=True)
class Place:
    """Where fractals source_start, ... of a tile go in L1: `count` runs of `size`, the first at `start`, `distance` apart."""

    target: Parts
    count: int
    size: int
    start: int = 0
    distance: int = 0
    source_start: int = 0

    @property
    def fractals(self) -> int:
        """How many it takes."""
        return self.count * self.size


def whole(target: Parts, fractals: int) -> tuple[Place, ...]:
    """All fractals one after the other."""
    return (Place(target, 1, fractals),)


def to_l1(asm: Assembler, staged: Operand, place: Place, target: Operand, *, label: str) -> None:
    """fp16 fractals from UB to their places in L1."""
    gap = (place.distance - place.size) * HALF // UNIT if place.count > 1 else 0
    asm.emit(
        "ub_to_l1",
        at(target, place.start * HALF),
        at(staged, place.source_start * HALF),
        count=place.count,
        size=place.size * HALF // UNIT,
        p=(0, 0, gap & 255, gap >> 8),
        label=f"{label} to L1",
    )


def copy_out(asm: Assembler, tile: Operand, fractals: int, *, half: bool, label: str) -> Operand:
    """A tile from L0C to UB, rounded to fp16 when `half`."""
    staged = asm.buffer(f"{label}:UB", "UB", fractals * (HALF if half else FULL))
    asm.emit("c_to_ub16" if half else "c_to_ub32", staged, tile, size=fractals, label=label)
    return staged


def split(
    asm: Assembler,
    negative: Operand,
    tile: Operand,
    places: tuple[Place, ...],
    *,
    label: str,
    used_right: bool = False,
    piece: int = L0B_PIECE,
) -> Parts | None:
    """High and low parts of a tile of L0C, to L1; one rounded copy, if places have one part. `negative`: minus the identity, in
    L0A. piece: fractals in L0B at a time.

    When `used_right`, returns both parts in L0B, each fractal as a right operand takes it; for tiles of one place that L0B
    takes in one piece.
    """
    fractals = sum(place.fractals for place in places)
    kept = None
    if used_right:
        assert len(places) == 1 and fractals <= piece
        kept = parts_in(asm, f"{label}:B", "L0B", fractals, places[0].target.number)
    parts = places[0].target.number
    for part in range(parts):
        name = f"{label} {'low' if part else 'high'}"
        staged = copy_out(asm, tile, fractals, half=True, label=name)
        for place in places:
            to_l1(asm, staged, place, place.target.part(part), label=name)
        if part == parts - 1 and kept is None:
            break
        for source_start, place in _pieces(places, piece):
            source = at(place.target.part(part), place.start * HALF)
            right = load(
                asm, "B", source, count=place.count, size=place.size, group=place.distance, flags=TRANSPOSE, label=name,
                target=None if kept is None else kept.part(part),
            )  # fmt: skip
            if part == 0 and parts == 2:
                rest = at(tile, source_start * FULL)
                multiply(asm, rest, negative, right, n=place.fractals, label=f"{label} less its high part")
    return kept


def _pieces(places: tuple[Place, ...], most: int) -> list[tuple[int, Place]]:
    """The places in pieces that L0B takes, with their first fractal in the tile."""
    found = []
    for place in places:
        if place.count > 1:
            found.append((place.source_start, place))
            continue
        for start in range(0, place.size, most):
            size = min(most, place.size - start)
            found.append((place.source_start + start, Place(place.target, 1, size, place.start + start)))
    return found


def parts_in_l1(
    asm: Assembler, name: str, fractals: int, *, versions: int = 1, kept: bool = False, number: int | None = None
) -> Parts:
    """Room for the parts of a matrix in L1, so many as the program keeps unless a number is given."""
    return parts_in(asm, name, "L1", fractals, number, versions=versions, kept=kept)


def parts_in(
    asm: Assembler,
    name: str,
    space: str,
    fractals: int,
    number: int | None = None,
    *,
    versions: int = 1,
    kept: bool = False,
) -> Parts:
    """The same in any memory."""
    number = asm.parts if number is None else number
    return Parts(asm.buffer(name, space, number * fractals * HALF, versions=versions, kept=kept), fractals if number == 2 else 0)


def vector(
    asm: Assembler,
    opcode: str,
    dst: Operand,
    src0: Operand | None = None,
    src1: Operand | None = None,
    *,
    repeats: int,
    blocks: tuple[int, int, int] = (1, 1, 1),
    strides: tuple[int, int, int] = (8, 8, 8),
    scalar: int = 0,
    mask: int = 0,
    label: str = "",
) -> None:
    """Vector steps of at most 255 repeats each; strides of dst, src0, src1 between blocks and between repeats, in 32 bytes."""
    most = 248
    for start in range(0, repeats, most):
        moved = [
            None if x is None else at(x, start * stride * UNIT) for x, stride in zip((dst, src0, src1), strides, strict=True)
        ]
        size = min(most, repeats - start)
        asm.emit(opcode, *moved, size=size, index=mask, p=(*blocks, *strides, scalar), label=label)
