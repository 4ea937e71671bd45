"""Scores of a chunk and the inverse of its triangular system, from keys, queries and decay ratios.

The system is I - N with N = -(ratio beta_j) o K K^T strictly lower. Its 16 x 16 diagonal blocks are inverted by forward
substitution in fp32, then merged to 32 and 64 by products of split operands (numerics A3); never by a Neumann series.
"""

import dataclasses
from dataclasses import dataclass
from typing import Protocol

from hajax.lowering.assembler import FULL, HALF, UNIT, Assembler, at
from hajax.lowering.gates import Basics, Ratios
from hajax.lowering.tiles import (
    DISTANCE_GROWS,
    K_GROWS,
    TRANSPOSE,
    TRIANGLE,
    Parts,
    Place,
    copy_out,
    load,
    load_parts,
    multiply,
    parts_in,
    parts_in_l1,
    split,
    vector,
    whole,
)
from hajax.plans.program import MAP, Operand

SUBSTITUTION = 16  # rows of a diagonal block


class InverseFractals(Protocol):
    """What the inverse takes of a form's constants; in L1 the one of `negative` comes first in the selector's buffer."""

    @property
    def negative(self) -> Operand: ...
    @property
    def selector(self) -> Operand: ...


@dataclass(frozen=True, slots=True)
class Inputs:
    """Tiles of a chunk in L1 as column blocks, one for each head (of keys: each key head)."""

    keys: tuple[Operand, ...]
    queries: tuple[Operand, ...]
    values: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class System:
    """Room for a chunk's matrices in L1: [system, scores] as packed lower triangles of each head; and the inverse."""

    triangles: Parts
    inverse: Parts
    identity: Operand | None = None  # kept in UB in as many fractals as substitution has rooms for; None: made each time

    def scores(self, asm: Assembler) -> Parts:
        """The part of the triangles that holds the scores."""
        return self.triangles.from_fractal(asm.dims.heads * asm.dims.triangle)


def inverse_pitch(asm: Assembler) -> int:
    """Fractals from one head's inverse to the next one's: its diagonal blocks are then one distance apart over all heads."""
    return asm.dims.rows * (asm.dims.rows + 1)


def place_system(asm: Assembler) -> System:
    """Setup: room in L1, zeros above the inverse's diagonal."""
    heads, triangle = asm.dims.heads, asm.dims.triangle
    triangles = parts_in_l1(asm, "triangles", 2 * heads * triangle, versions=2)
    inverse = parts_in_l1(asm, "inverse", heads * inverse_pitch(asm), versions=2)
    return System(triangles, inverse)


def rows_left(asm: Assembler, tile: Operand, label: str) -> Operand:
    """Rows of a tile of column blocks as left operand: [row block][key block]."""
    rows, keys = asm.dims.rows, asm.dims.keys
    return load(asm, "A", tile, count=rows, size=keys, inner=rows, group=1, label=label)


def key_and_query_rows(asm: Assembler, inputs: Inputs, key_head: int, start: int, size: int, label: str) -> Operand:
    """Key channels' blocks `start`, ... of keys and of queries below them as left operand: [K, Q][row block][key block]."""
    rows = asm.dims.rows
    fractals = rows * size
    target = asm.buffer(f"{label}:A", "L0A", 2 * fractals * HALF)
    key, query = (at(tile[key_head], start * rows * HALF) for tile in (inputs.keys, inputs.queries))
    if key.buffer == query.buffer:
        both = Parts(key, (query.offset - key.offset) // HALF)
        load_parts(
            asm, "A", both, count=rows, size=size, inner=rows, group=1, target=Parts(target, fractals), label=label
        )  # fmt: skip
    else:
        for tile, place in ((key, target), (query, at(target, fractals * HALF))):
            load(asm, "A", tile, count=rows, size=size, inner=rows, group=1, target=place, label=label)
    return target


def lower_scores(asm: Assembler, basics: Basics, inputs: Inputs, ratios: Ratios, system: System, delta: bool) -> None:
    """Map steps: N (with delta) and scale o ratio o Q K^T of every head, split, to L1."""
    scaled = scale_scores(asm, inputs, ratios)
    count = asm.dims.heads * asm.dims.triangle
    first, size = (0, 2 * count) if delta else (count, count)
    tile = asm.buffer("triangles", "L0C", size * FULL)
    asm.emit("ub_to_c32", tile, at(scaled, first * FULL), size=size, label="triangles")
    split(asm, basics.negative, tile, whole(system.triangles.from_fractal(first), size), label="triangles", piece=size)


def scale_scores(asm: Assembler, inputs: Inputs, ratios: Ratios, *, scaled_queries: bool = True) -> Operand:
    """Map steps: N of every head, then scale o ratio o Q K^T of every head, packed lower triangles in fp32 in UB.

    scaled_queries False: without the scale.
    """
    products = score_products(asm, inputs)
    dims = asm.dims
    triangle, together = dims.triangle * FULL, len(dims.key_heads)
    repeats = triangle // 256
    of_system, of_scores = products[0]  # those of the other heads lie behind them
    vector(asm, "muls32", of_system, of_system, repeats=repeats * together, scalar=asm.scalar(-1.0), label="K K^T")
    if scaled_queries:
        vector(asm, "muls32", of_scores, of_scores, repeats=repeats * together, scalar=0, label="Q K^T")
    scaled = asm.buffer("triangles:UB", "UB", 2 * dims.heads * triangle)
    for kind, (name, of_kind) in enumerate((("system", ratios.system), ("scores", ratios.scores))):
        for head in range(0, dims.heads, together):
            target = at(scaled, (kind * dims.heads + head) * triangle)
            vector(
                asm, "mul32", target, at(of_kind, head * triangle), products[0][kind], repeats=repeats * together, label=name
            )  # fmt: skip
    return scaled


def score_products(asm: Assembler, inputs: Inputs) -> list[tuple[Operand, Operand]]:
    """Map steps: K K^T of each key head and then Q K^T of each, packed lower triangles in fp32 in UB; by key head."""
    asm.stage = MAP
    triangle, keys, rows = asm.dims.triangle, asm.dims.keys, asm.dims.rows
    key_heads = asm.dims.key_heads
    tile = asm.buffer("K K^T, Q K^T", "L0C", 2 * len(key_heads) * triangle * FULL)
    places = [(key_head * triangle * FULL, (len(key_heads) + key_head) * triangle * FULL) for key_head in key_heads]
    for key_head in key_heads:
        columns = load(asm, "B", inputs.keys[key_head], count=rows, size=keys, inner=rows, group=1, label="K^T")
        left = key_and_query_rows(asm, inputs, key_head, 0, keys, "K, Q")
        for kind, name in enumerate(("K K^T", "Q K^T")):
            multiply(
                asm, at(tile, places[key_head][kind]), at(left, kind * rows * keys * HALF), columns, count=rows, k=keys,
                move_tile=1, move_left=keys, move_right=keys, mode=TRIANGLE, overwrite=True, label=name,
            )  # fmt: skip
    staged = copy_out(asm, tile, 2 * len(key_heads) * triangle, half=False, label="K K^T, Q K^T")
    return [(at(staged, system), at(staged, scores)) for system, scores in places]


def lower_inverse(asm: Assembler, basics: InverseFractals, system: System, *, stage: int = MAP) -> None:
    """Map steps, or of another stage: (I - N)^-1 of every head, split, to L1."""
    lower_diagonal_inverses(asm, basics, system, stage=stage)
    lower_merges(asm, basics, system, stage=stage)


def lower_diagonal_inverses(asm: Assembler, basics: InverseFractals, system: System, *, stage: int = MAP) -> None:
    """Those of the 16 x 16 blocks on the diagonal."""
    asm.stage = stage
    heads, rows = asm.dims.heads, asm.dims.rows
    assert rows == 4, "merges are written for chunks of 64"
    blocks = heads * rows
    diagonal = _substitute(asm, basics, system, blocks)
    tile = asm.buffer("diagonal inverses", "L0C", blocks * FULL)
    asm.emit("ub_to_c32", tile, diagonal, size=blocks, label="diagonal inverses")
    split(asm, basics.negative, tile, (Place(system.inverse, blocks, 1, 0, rows + 1),), label="diagonal inverses")


def lower_merges(asm: Assembler, basics: InverseFractals, system: System, *, stage: int = MAP) -> None:
    """What is below the diagonal, from the inverses of the blocks on it."""
    asm.stage = stage
    _merge_16(asm, basics, system)
    _merge_32(asm, basics, system)


def _substitute(asm: Assembler, basics: InverseFractals, system: System, blocks: int) -> Operand:
    """T = (I - N)^-1 of all 16 x 16 blocks side by side: row i of T gets N[i, j] T[j] for each j < i, j ascending."""
    heads, triangle, rows = asm.dims.heads, asm.dims.triangle, asm.dims.rows
    selector = load(asm, "B", basics.selector, size=8, flags=TRANSPOSE, label="selector")
    room = max(0, 8 - blocks)  # blocks that masked lanes leave out: written as well, so that nobody takes them for old ones
    spread = asm.buffer("spread", "L0C", (8 * blocks + room) * FULL)
    left = parts_in(asm, "diagonal blocks:A", "L0A", blocks)
    for head in range(heads):
        source = system.triangles.from_fractal(head * triangle)
        target = left.from_fractal(head * rows)
        load_parts(asm, "A", source, count=rows, group=2, flags=DISTANCE_GROWS, target=target, label="diagonal blocks")
    multiply(asm, spread, left, selector, count=8, m=blocks, move_tile=blocks, move_right=1, overwrite=True, label="spread")
    if room:
        multiply(asm, at(spread, 8 * blocks * FULL), left, selector, m=room, overwrite=True, label="spread: room")
    lanes = copy_out(asm, spread, 8 * blocks + room, half=False, label="spread")
    if system.identity is None:
        inverse = identities(asm, basics, blocks + room)
    else:
        size = (blocks + room) * FULL
        inverse = asm.buffer("substitution:UB", "UB", size)
        vector(asm, "muls32", inverse, system.identity, repeats=size // 256, scalar=asm.scalar(1.0), label="identity")
    mask = 0 if blocks == 8 else asm.mask((1 << (8 * blocks)) - 1)
    row, pitch = 64, FULL // 32
    for j in range(SUBSTITUTION - 1):
        column = at(lanes, (j // 2) * blocks * FULL + (j % 2) * 32 + (j + 1) * row)
        for half in range(1 if j < 8 else 2):
            vector(
                asm, "mla32", at(inverse, (j + 1) * row + half * 32), column, at(inverse, j * row + half * 32),
                repeats=SUBSTITUTION - 1 - j, blocks=(pitch, pitch, pitch), strides=(2, 2, 0), mask=mask,
                label=f"substitution {j}",
            )  # fmt: skip
    return inverse


def identities(asm: Assembler, basics: InverseFractals, count: int, target: Operand | None = None) -> Operand:
    """Fractals in UB, the product of minus the identity with itself; in a new buffer when no target is given."""
    tile = asm.buffer("identity", "L0C", count * FULL)
    right = load(asm, "B", _negative_in_l1(basics), count=count, size=1, group=0, flags=TRANSPOSE, label="identity")
    multiply(asm, tile, basics.negative, right, n=count, overwrite=True, label="identity")
    if target is None:
        return copy_out(asm, tile, count, half=False, label="identity")
    asm.emit("c_to_ub32", target, tile, size=count, label="identity")
    return target


def with_identity(asm: Assembler, basics: InverseFractals, system: System) -> System:
    """Setup: the identity that substitution starts from, kept in UB."""
    count = max(8, asm.dims.heads * asm.dims.rows)
    kept = asm.buffer("identity:UB", "UB", count * FULL, kept=True)
    return dataclasses.replace(system, identity=identities(asm, basics, count, kept))


def _negative_in_l1(basics: InverseFractals) -> Operand:
    return Operand(basics.selector.buffer, 0)


def _merge_16(asm: Assembler, basics: InverseFractals, system: System) -> None:
    """T[1,0] = T[1,1] N[1,0] T[0,0] and the same one 32-block further on."""
    heads, triangle = asm.dims.heads, asm.dims.triangle
    count = 2 * heads
    below = parts_in(asm, "N 16:A", "L0A", count)
    for head in range(heads):
        source = system.triangles.from_fractal(head * triangle + 1)
        load_parts(asm, "A", source, count=2, group=7, target=below.from_fractal(2 * head), label="N 16")
    upper = load_parts(asm, "B", system.inverse, count=count, group=10, flags=TRANSPOSE, label="T 00")
    lower = load_parts(asm, "A", system.inverse.from_fractal(5), count=count, group=10, label="T 11")
    tile = asm.buffer("N T 16", "L0C", count * FULL)
    steps = {"count": count, "move_tile": 1, "move_left": 1, "move_right": 1}
    multiply(asm, tile, below, upper, overwrite=True, label="N T 16", **steps)
    between = parts_in_l1(asm, "N T 16", count)
    right = split(asm, basics.negative, tile, whole(between, count), used_right=True, label="N T 16")
    assert right is not None
    merged = asm.buffer("T 10", "L0C", count * FULL)
    multiply(asm, merged, lower, right, overwrite=True, label="T 10", **steps)
    split(asm, basics.negative, merged, (Place(system.inverse, count, 1, 4, 10),), label="T 10")


def _merge_32(asm: Assembler, basics: InverseFractals, system: System) -> None:
    """The same for blocks of 32: rows 2, 3 and columns 0, 1 of the inverse."""
    heads, triangle, pitch = asm.dims.heads, asm.dims.triangle, inverse_pitch(asm)
    tile = asm.buffer("N T 32", "L0C", 4 * heads * FULL)
    for head in range(heads):
        source = system.triangles.from_fractal(head * triangle + 3)
        below = load_parts(asm, "A", source, count=2, size=2, group=3, label="N 32")
        source = system.inverse.from_fractal(head * pitch)
        upper = load_parts(asm, "B", source, count=2, size=2, group=4, flags=TRANSPOSE, label="T upper")
        multiply(
            asm, at(tile, 4 * head * FULL), below, upper, overwrite=True, label="N T 32",
            count=2, n=2, k=2, move_tile=2, move_left=2,
        )  # fmt: skip
    between = parts_in_l1(asm, "N T 32", 4 * heads)
    right = split(asm, basics.negative, tile, whole(between, 4 * heads), used_right=True, label="N T 32")
    assert right is not None
    merged = asm.buffer("T 20", "L0C", 4 * heads * FULL)
    for head in range(heads):
        lower = load_parts(asm, "A", system.inverse.from_fractal(head * pitch + 10), count=2, size=2, group=4, label="T lower")
        multiply(
            asm, at(merged, 4 * head * FULL), lower, right.from_fractal(4 * head), overwrite=True, label="T 20",
            count=2, n=2, mode=K_GROWS, move_tile=2, move_left=2,
        )  # fmt: skip
    places = tuple(Place(system.inverse, 2, 2, head * pitch + 8, 4, 4 * head) for head in range(heads))
    split(asm, basics.negative, merged, places, label="T 20")


def zero_above(asm: Assembler, system: System) -> None:
    """Setup: zeros where the inverse's merges and the scalings read above its diagonal, in both versions."""
    fractals = asm.dims.heads * inverse_pitch(asm)
    staged = asm.buffer("zeros:UB", "UB", fractals * HALF)
    vector(asm, "dup16", staged, repeats=fractals * HALF // 256, scalar=asm.scalar(0.0), label="zeros")
    for part in range(asm.parts):
        for odd in (False, True):
            size = fractals * HALF // UNIT
            asm.emit("ub_to_l1", system.inverse.part(part), staged, size=size, first=True, last=odd, label="zeros")
