"""States of segments of a sequence that are worked on side by side, in the vector form of either decay.

A segment takes the state S to M S + H. One launch computes H, the state that a segment leaves of none, and M, what it makes of
the identity; the next one S behind each segment, one after the other; then every segment begins with the S before it. All three
are fp32, in the slot of the segment's last chunk.
"""

import numpy as np

from hajax.lowering.assembler import FULL, UNIT, Assembler, Constants, Dims, at
from hajax.lowering.slots import FP32, Field, put_tile, take
from hajax.lowering.tiles import load_parts, multiply, parts_in_l1, vector
from hajax.lowering.vector_state import State, right_parts, scale_state, split_state
from hajax.lowering.vector_steps import tensor
from hajax.lowering.vector_tiles import Tile, fetch, new_tile, split_tile
from hajax.plans.program import LOAD, Program

Slot = dict[str, Field]
PIECE = 4  # column blocks of M that are split at a time


def tiles_of(full: Dims) -> dict[str, tuple[int, int, int]]:
    """What segments hand on."""
    return {
        "M": (full.keys, full.keys, FP32),
        "H": (full.keys, full.values, FP32),
        "S": (full.keys, full.values, FP32),
    }


def begin_with_none(state: State) -> None:
    """Setup: zeros."""
    asm = state.asm
    repeats = asm.dims.keys * asm.dims.values * 4
    vector(asm, "dup32", state.place, repeats=repeats, scalar=asm.scalar(0.0), label="no state")
    split_state(state)


def begin_with_identity(state: State) -> None:
    """Setup: the identity; the program has as many columns as key channels."""
    asm, keys = state.asm, state.asm.dims.keys
    assert asm.dims.values == keys and state.layout == "blocked"
    vector(asm, "dup32", state.place, repeats=keys * keys * 4, scalar=asm.scalar(0.0), label="identity")
    fractal = asm.constants.place(np.eye(16, dtype=np.float32) * np.float32(state.scale))
    for block in range(keys):
        place = at(state.place, block * (keys + 1) * FULL)
        asm.emit("constant_to_ub", place, constant=fractal, size=FULL // UNIT, label="identity")
    split_state(state)


def begin_behind(state: State, slot: Slot) -> None:
    """Setup: the state that the chunk before left in its slot."""
    asm = state.asm
    size = asm.dims.keys * asm.dims.values * FULL
    take(asm, slot["S"], "workspace_to_ub", state.place, 0, size, "state before", back=1)
    scale_state(state, state.scale, "state before")
    split_state(state)


def end_in_slot(state: State, field: Field, label: str) -> None:
    """Finish: the state without its scale."""
    scale_state(state, 1 / state.scale, label)
    put_tile(state.asm, Tile(state.place, state.asm.dims.keys, state.asm.dims.values, "blocked"), field, label)


def build_passed(dims: Dims, constants: Constants, slot: Slot, parts: int, back: int) -> Program:
    """S behind a segment, for its last chunk: M S + H. back: chunks to where the S before it lies; 0: it is the call's."""
    asm = Assembler(dims, constants, parts)
    keys, values = dims.keys, dims.values
    asm.section = "body"
    asm.stage = LOAD
    before = new_tile(asm, "S", keys, values, "blocked")
    if back:
        take(asm, slot["S"], "workspace_to_ub", before.place, 0, keys * values * FULL, "S before", back=back)
    else:
        asm.emit("rows_to_ub", before.place, count=values, p=(tensor("state_in"), 0, 0, 1, 1), label="state in")
    in_l1 = parts_in_l1(asm, "S", keys * values, number=2)
    split_tile(asm, before, in_l1, label="S")
    matrix = parts_in_l1(asm, "M", keys * keys, number=2)
    for first in range(0, keys, PIECE):
        columns = min(PIECE, keys - first)
        piece = Tile(asm.buffer("M:UB", "UB", keys * columns * FULL), keys, columns, "blocked")
        take(asm, slot["M"], "workspace_to_ub", piece.place, first * keys * FULL, keys * columns * FULL, "M")
        split_tile(asm, piece, matrix.from_fractal(first * keys), label="M")
    left = load_parts(asm, "A", matrix, count=keys, size=keys, inner=keys, group=1, label="M")
    right = right_parts(asm, in_l1, keys, values, "S")
    product = asm.buffer("M S", "L0C", keys * values * FULL)
    multiply(asm, product, left, right, m=keys, n=values, k=keys, overwrite=True, label="M S")
    passed = fetch(asm, product, keys, values, "blocked", label="M S")
    left_over = asm.buffer("H:UB", "UB", keys * values * FULL)
    take(asm, slot["H"], "workspace_to_ub", left_over, 0, keys * values * FULL, "H")
    vector(asm, "add32", passed.place, passed.place, left_over, repeats=passed.repeats, label="M S and H")
    put_tile(asm, passed, slot["S"], "S")
    return asm.program(stages=1)
