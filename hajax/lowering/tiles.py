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
    """A matrix as its high and low fp16 parts."""

    high: Operand
    low: Operand

    def part(self, number: int) -> Operand:
        """0: the high one, 1: the low one."""
        return self.low if number else self.high

    def from_fractal(self, number: int) -> "Parts":
        """Both parts from one of their fractals on."""
        return Parts(at(self.high, number * HALF), at(self.low, number * HALF))


def load(
    asm: Assembler,
    side: str,
    source: Operand,
    *,
    count: int = 1,
    size: int = 1,
    inner: int = 1,
    group: int = 0,
    target_group: int | None = None,
    flags: int = 0,
    label: str = "",
    target: Operand | None = None,
) -> Operand:
    """`count` groups of `size` fractals from L1 to L0A or L0B (`side` "A" or "B"), to a new buffer when no target is given."""
    target_group = size if target_group is None else target_group
    if target is None:
        target = asm.buffer(f"{label}:{side}", f"L0{side}", ((count - 1) * target_group + size) * HALF)
    p = (inner, group & 255, group >> 8, target_group, flags)
    asm.emit(f"load_{side.lower()}", target, source, count=count, size=size, p=p, label=f"{label} to L0{side}")
    return target


def multiply(
    asm: Assembler,
    tile: Operand,
    left: Operand,
    right: Operand,
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
    """`count` products of m x k by k x n blocks of 16, added to `tile` in L0C unless they overwrite it."""
    flags = mode | (OVERWRITE if overwrite else 0)
    p = (m, n, k, move_tile, move_left, move_right, flags)
    asm.emit("mmad", tile, left, right, count=count, p=p, label=label)


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
    asm: Assembler, negative: Operand, tile: Operand, places: tuple[Place, ...], *, label: str, used_right: bool = False
) -> tuple[list[Operand], list[Operand]]:
    """High and low parts of a tile of L0C, to L1. `negative`: minus the identity, in L0A.

    Returns both parts in L0B (each fractal as a right operand takes it), in pieces of at most L0B_PIECE fractals; the low
    part's only when `used_right`.
    """
    fractals = sum(place.fractals for place in places)
    pieces: tuple[list[Operand], list[Operand]] = ([], [])
    for part in (0, 1):
        name = f"{label} {'low' if part else 'high'}"
        staged = copy_out(asm, tile, fractals, half=True, label=name)
        for place in places:
            to_l1(asm, staged, place, place.target.part(part), label=name)
        if part == 1 and not used_right:
            break
        for source_start, place in _pieces(places):
            source = at(place.target.part(part), place.start * HALF)
            piece = load(
                asm, "B", source, count=place.count, size=place.size, group=place.distance, flags=TRANSPOSE, label=name
            )
            pieces[part].append(piece)
            if part == 0:
                rest = at(tile, source_start * FULL)
                multiply(asm, rest, negative, piece, n=place.fractals, label=f"{label} less its high part")
    return pieces


def _pieces(places: tuple[Place, ...]) -> list[tuple[int, Place]]:
    """The places in pieces that L0B takes, with their first fractal in the tile."""
    found = []
    for place in places:
        if place.count > 1:
            found.append((place.source_start, place))
            continue
        for start in range(0, place.size, L0B_PIECE):
            size = min(L0B_PIECE, place.size - start)
            found.append((place.source_start + start, Place(place.target, 1, size, place.start + start)))
    return found


def split_products(
    asm: Assembler,
    tile: Operand,
    left: Parts,
    right: Parts,
    *,
    overwrite: bool,
    label: str,
    **shape: int,
) -> None:
    """left times right by three products: high high, high low, low high."""
    for number, (a, b) in enumerate(((left.high, right.high), (left.high, right.low), (left.low, right.high))):
        multiply(asm, tile, a, b, overwrite=overwrite and number == 0, label=label, **shape)


def parts_in_l1(asm: Assembler, name: str, fractals: int, *, versions: int = 1, kept: bool = False) -> Parts:
    """Room for both parts of a matrix in L1."""
    high, low = (
        asm.buffer(f"{name} {part}", "L1", fractals * HALF, versions=versions, kept=kept) for part in ("high", "low")
    )
    return Parts(high, low)


def load_parts(asm: Assembler, side: str, source: Parts, *, label: str, **shape: int) -> Parts:
    """Both parts to L0A or L0B."""
    high, low = (
        load(asm, side, source.part(part), label=f"{label} {'low' if part else 'high'}", **shape) for part in (0, 1)
    )
    return Parts(high, low)


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
