"""The state of a head with a decay per channel on its way from GM to L1 and back: whole, or piece by piece where L0C is small."""

from hajax import abi
from hajax.lowering.assembler import FULL, Assembler, at
from hajax.lowering.per_channel_gates import Fractals
from hajax.lowering.per_channel_rows import Desk, tile_of
from hajax.lowering.tiles import TRANSPOSE, Parts, load_parts, multiply, split, vector, whole

_TENSORS = {name: int(abi.table("tensors")[name]) for name in ("state_in", "state_out")}
Pieces = tuple[tuple[int, int], ...]  # of a state: its first key block, and how many


def state_pieces(asm: Assembler, side_by_side: bool) -> Pieces:
    """All of it, or as much as the rows of a chunk take."""
    keys, values = asm.dims.keys, asm.dims.values
    most = keys if side_by_side else max(1, asm.dims.rows * keys // values)
    return tuple((first, min(most, keys - first)) for first in range(0, keys, most))


def load_state(
    asm: Assembler, fractals: Fractals, desk: Desk, state: Parts, head: int, state_scale: float, pieces: Pieces
) -> None:
    """Setup: a head's state from GM, split, to L1 as [key block][value block]."""
    keys, values = asm.dims.keys, asm.dims.values
    count = keys * values
    staged = asm.buffer("state in:UB", "UB", count * FULL)
    asm.emit("rows_to_ub", staged, count=values, p=(_TENSORS["state_in"], head, 0, 1, 1), label="state in")
    if state_scale != 1:
        vector(asm, "muls32", staged, staged, repeats=count * 4, scalar=asm.scalar(state_scale), label="state in")
    for first, height in pieces:
        tile = tile_of(asm, desk, height * values)
        for column in range(values):
            target, source = at(tile, column * FULL), at(staged, (column * keys + first) * FULL)
            asm.emit("ub_to_c32", target, source, count=height, size=1, p=(0, values - 1), label="state in")
        split(asm, fractals.negative, tile, whole(state.from_fractal(first * values), height * values), label="state in")


def store_state(
    asm: Assembler, fractals: Fractals, desk: Desk, state: Parts, head: int, state_scale: float, pieces: Pieces
) -> None:
    """Finish: minus the identity times both parts, times minus one over the scale, to GM."""
    keys, values = asm.dims.keys, asm.dims.values
    count = keys * values
    staged = None
    for first, height in pieces:
        tile = tile_of(asm, desk, height * values)
        for start in range(0, height * values, 32):
            size = min(32, height * values - start)
            source = state.from_fractal(first * values + start)
            piece = load_parts(asm, "B", source, size=size, flags=TRANSPOSE, label="state out")
            multiply(asm, at(tile, start * FULL), fractals.negative, piece, n=size, overwrite=True, label="state out")
        staged = staged or asm.buffer("state out:UB", "UB", count * FULL)
        for column in range(values):
            target, own = at(staged, (column * keys + first) * FULL), at(tile, column * FULL)
            asm.emit("c_to_ub32", target, own, count=height, size=1, p=(values - 1, 0), label="state out")
    assert staged is not None
    vector(asm, "muls32", staged, staged, repeats=count * 4, scalar=asm.scalar(-1 / state_scale), label="state out")
    asm.emit("rows_from_ub", src0=staged, count=values, p=(_TENSORS["state_out"], head, 0, 1, 1, 0, 0, 4), label="state out")
