"""The state of the vector form: fp32 in UB, slice by slice; its two fp16 parts in L1 as column blocks, for products.

One version, updated in place with the parts for the next chunk from the same copy. The definition's order keeps a second
version of the state until the last product with the first one: in UB, or spilled to GM.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from hajax import abi
from hajax.lowering.assembler import FULL, UNIT, Assembler, Dims, at
from hajax.lowering.tiles import TRANSPOSE, Matrix, Parts, load_parts, multiply, parts_in_l1, vector
from hajax.lowering.vector_tiles import Layout, Tile, fetch, new_tile, split_tile
from hajax.plans.program import Operand

# "definition": the state's update stands before what reads the state for the output, so that a second version of it exists, in
# UB or, "spilled", in GM: for items of whole heads, as all columns of a head share its slot. "planned": it is last and in place.
Order = Literal["planned", "definition", "spilled"]
SLICE = 32  # fractals of the state that are updated at a time; half as many where a window for spills takes room, too
READ_KEYS = 4  # key blocks of the state that are in L0B at a time


@dataclass(frozen=True, slots=True)
class State:
    """Where a head's state lies."""

    asm: Assembler
    place: Operand  # in UB
    parts: Parts  # in L1
    layout: Layout
    scale: float  # a power of two that it is kept times
    slice: int
    spilled_to: int = 0  # in the workspace slot: bytes behind what else is there


@dataclass(frozen=True, slots=True)
class Slice:
    """Some columns of a blocked state, some rows of a dense one: in both, bytes that follow one another."""

    row: int
    rows: int
    column: int
    columns: int
    offset: int  # bytes in UB

    @property
    def repeats(self) -> int:
        """Vector repeats over all of it."""
        return self.rows * self.columns * 4


Decay = Callable[[Tile, Slice], None]  # adds the decayed slice of the old state to a tile


def place_state(asm: Assembler, layout: Layout, scale: float, order: Order, spilled_to: int = 0) -> State:
    """Setup: room for a state."""
    count = asm.dims.keys * asm.dims.values
    place = asm.buffer("state", "UB", count * FULL, kept=True)
    parts = parts_in_l1(asm, "state", count, kept=True)
    return State(asm, place, parts, layout, scale, SLICE // 2 if order == "spilled" else SLICE, spilled_to)


def load_state(state: State) -> None:
    """Setup: the state from GM, times its scale, and its parts to L1."""
    asm, values = state.asm, state.asm.dims.values
    place = (abi.table("tensors")["state_in"], 0, 0, int(state.layout == "blocked"), 1)
    asm.emit("rows_to_ub", state.place, count=values, p=place, label="state in")
    scale = asm.scalar(state.scale)
    vector(asm, "muls32", state.place, state.place, repeats=asm.dims.keys * values * 4, scalar=scale, label="state in")
    split_state(state)


def store_state(state: State, *, last: bool = False) -> None:
    """Finish: the state without its scale to GM. last: only where the sequence ends, for items of some of its chunks."""
    asm, values = state.asm, state.asm.dims.values
    scale_state(state, 1 / state.scale, "state out")
    place = (abi.table("tensors")["state_out"], 0, 0, int(state.layout == "blocked"), 1, 0, 0, 4)
    asm.emit("rows_from_ub", src0=state.place, count=values, p=place, last=last, label="state out")


def scale_state(state: State, scale: float, label: str) -> None:
    """All of it times a number."""
    asm = state.asm
    repeats = asm.dims.keys * asm.dims.values * 4
    vector(asm, "muls32", state.place, state.place, repeats=repeats, scalar=asm.scalar(scale), label=label)


def slices(state: State) -> list[Slice]:
    """All of the state."""
    keys, values = state.asm.dims.keys, state.asm.dims.values
    if state.layout == "blocked":
        width = max(1, state.slice // keys)
        starts = range(0, values, width)
        return [Slice(0, keys, start, min(width, values - start), start * keys * FULL) for start in starts]
    height = max(1, state.slice // values)
    starts = range(0, keys, height)
    return [Slice(start, min(height, keys - start), 0, values, start * values * FULL) for start in starts]


def copy_state(state: State, target: Operand, source: Operand, repeats: int, label: str) -> None:
    """fp32 from place to place in UB."""
    vector(state.asm, "muls32", target, source, repeats=repeats, scalar=state.asm.scalar(1.0), label=label)


def _split(state: State, tile: Tile, part: Slice) -> None:
    keys = state.asm.dims.keys
    split_tile(state.asm, tile, state.parts.from_fractal(part.column * keys + part.row), pitch=keys, label="state")


def split_state(state: State) -> None:
    """Parts of the state as it is: what a split uses up is a copy."""
    for part in slices(state):
        tile = new_tile(state.asm, "state slice", part.rows, part.columns, state.layout)
        copy_state(state, tile.place, at(state.place, part.offset), part.repeats, "state slice")
        _split(state, tile, part)


def right_parts(asm: Assembler, source: Parts, depth: int, columns: int, label: str) -> Parts:
    """Column blocks of `depth` blocks as right operand."""
    return load_parts(asm, "B", source, count=depth, size=columns, inner=depth, group=1, flags=TRANSPOSE, label=label)


@dataclass(frozen=True, slots=True)
class Read:
    """A product of a chunk's rows with the state: `left` brings some key blocks of the rows to L0A, as [row block][key block].

    by_rows: the result lies row block by row block, else as column blocks.
    """

    left: Callable[[int, int], Matrix]
    result: Operand
    label: str
    by_rows: bool = False


def read_state(state: State, reads: tuple[Read, ...]) -> None:
    """All of them, with each part of the state loaded once."""
    asm = state.asm
    rows, keys, values = asm.dims.rows, asm.dims.keys, asm.dims.values
    for first in range(0, keys, READ_KEYS):
        size = min(READ_KEYS, keys - first)
        source = state.parts.from_fractal(first)
        piece = load_parts(asm, "B", source, count=size, size=values, inner=keys, group=1, flags=TRANSPOSE, label="S")
        for read in reads:
            shape = {"count": rows, "move_tile": values, "move_left": size} if read.by_rows else {"m": rows}
            left = read.left(first, size)
            multiply(asm, read.result, left, piece, n=values, k=size, overwrite=first == 0, label=read.label, **shape)


def fetch_slice(state: State, update: Operand, part: Slice, into: Tile | None = None) -> Tile:
    """A slice of what is added to the state, from column blocks in L0C."""
    keys = state.asm.dims.keys
    source = at(update, (part.column * keys + part.row) * FULL)
    return fetch(state.asm, source, part.rows, part.columns, state.layout, pitch=keys, into=into, label="state slice")


def update_state(state: State, update: Operand, decay: Decay) -> None:
    """The new state in place of the old one, and from the same copy its parts for the next chunk."""
    for part in slices(state):
        tile = fetch_slice(state, update, part)
        decay(tile, part)
        copy_state(state, at(state.place, part.offset), tile.place, part.repeats, "state")
        _split(state, tile, part)


def following_state(state: State, update: Operand, decay: Decay) -> Operand:
    """The next state beside this one."""
    asm = state.asm
    following = asm.buffer("next state", "UB", asm.dims.keys * asm.dims.values * FULL)
    for part in slices(state):
        decay(fetch_slice(state, update, part, Tile(at(following, part.offset), part.rows, part.columns, state.layout)), part)
    return following


def spill_bytes(dims: Dims) -> int:
    """Of the workspace, for a head and chunk, in the order "spilled"."""
    return dims.keys * dims.values * FULL


def spill_state(state: State, update: Operand, decay: Decay) -> Operand:
    """The next state to GM through one window, which orders what goes out before what comes back."""
    asm, parts = state.asm, slices(state)
    window = asm.buffer("spilled state", "UB", max(part.rows * part.columns for part in parts) * FULL)
    for part in parts:
        tile = fetch_slice(state, update, part, Tile(window, part.rows, part.columns, state.layout))
        decay(tile, part)
        place = (state.spilled_to + part.offset) // UNIT
        asm.emit("workspace_from_ub", src0=window, size=part.repeats * 8, constant=place, label="spilled state out")
    return window


def fetch_back(state: State, window: Operand) -> None:
    """The spilled state in place of the old one."""
    for part in slices(state):
        place = (state.spilled_to + part.offset) // UNIT
        state.asm.emit("workspace_to_ub", window, size=part.repeats * 8, constant=place, label="spilled state in")
        copy_state(state, at(state.place, part.offset), window, part.repeats, "state")
