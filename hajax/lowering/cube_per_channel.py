"""The cube dataflow of a decay per channel. The vector unit only copies, takes exp, scales rows inside blocks and masks.

x = A (V - (K o e^G) S);  o = scale (Q o e^G) S + P x;  S <- diag(e^G_C) S + (beta K o e^(G_C - G))^T x, with the strength as
a column factor of A and P. The state is kept times a power of two: so are the keys that write to it, and the rows that read it
are divided by it. Thus x and P are as they should be, and so are scores: products of the one kind with the other.
"""

from dataclasses import dataclass

from hajax import abi
from hajax.lowering.assembler import FULL, HALF, Assembler, Constants, Dims, at
from hajax.lowering.per_channel_gates import (
    Fractals,
    GateBuffers,
    load_gates,
    lower_block_factors,
    lower_strengths,
    picked_bytes,
    place_fractals,
    place_gates,
    strength_columns,
)
from hajax.lowering.per_channel_rows import (
    BlockRows,
    Desk,
    LevelRows,
    Reads,
    lower_exponents,
    lower_far_rows,
    lower_level_rows,
    lower_middle_rows,
    lower_prefix_rows,
    lower_rows,
    lower_suffix_rows,
    place_block_rows,
    place_desk,
    place_level_rows,
)
from hajax.lowering.per_channel_scores import (
    ScoreTiles,
    lower_diagonal,
    lower_far_blocks,
    lower_inside,
    lower_near_blocks,
    pick_halving,
    pick_inside,
    place_tiles,
    split_triangles,
)
from hajax.lowering.per_channel_state import Pieces, load_state, state_pieces, store_state
from hajax.lowering.per_channel_tiles import FRACTAL
from hajax.lowering.system import Inputs, System, inverse_pitch, lower_inverse, zero_above
from hajax.lowering.tiles import (
    N_GROWS,
    RIGHT_MOVES,
    TRANSPOSE,
    Matrix,
    Parts,
    copy_out,
    load,
    load_parts,
    multiply,
    parts_in_l1,
    split,
    vector,
    whole,
)
from hajax.plans.program import LOAD, STATE, Operand, Program

SIDE_BY_SIDE_BYTES = 216 * 1024  # of L0C, of a head of 128 channels and 128 columns
STATE_SCALE = 8.0  # up to 8 the writing keys gain in accuracy, further on scaled queries and reading rows lose as much


@dataclass(frozen=True, slots=True)
class _Shares:
    """Of two strengths: diagonals of a head's row blocks in L1."""

    erase: Parts
    write: Parts


def build(
    dims: Dims,
    constants: Constants,
    *,
    delta: bool = True,
    strengths: int = 1,
    state_scale: float = STATE_SCALE,
    side_by_side: bool = True,
) -> Program:
    """The program of one item: `dims.heads` heads of `dims.columns` state columns. state_scale: a power of two.

    strengths 2: the system, what is read of the state and values have row factors, too (hajax.lowering.strengths). Without
    delta, x is V; what only a correction reads is made all the same. side_by_side: keys and queries, halvings, and what is read
    of the state go through L0C together, in SIDE_BY_SIDE_BYTES; else, of one head only, one after the other.
    """
    asm = Assembler(dims, constants)
    fractals = place_fractals(asm, state_scale)
    gates = place_gates(asm, strengths)
    inputs = _place_inputs(asm)
    system = System(
        parts_in_l1(asm, "system", dims.heads * dims.triangle),
        parts_in_l1(asm, "inverse", dims.heads * inverse_pitch(asm)),
    )
    zero_above(asm, system)
    scores = _place_scores(asm)
    level = place_level_rows(asm)
    reads = tuple(
        Reads(parts_in_l1(asm, "start rows", 2 * dims.rows * dims.keys), parts_in_l1(asm, "end rows", dims.rows * dims.keys))
        for _ in range(dims.heads)
    )
    states = tuple(parts_in_l1(asm, "state", dims.keys * dims.values, kept=True) for _ in range(dims.heads))
    desk = place_desk(asm, side_by_side)
    pieces = state_pieces(asm, side_by_side)
    for head, state in enumerate(states):
        load_state(asm, fractals, desk, state, head, state_scale, pieces)

    asm.section = "body"  # the state of chunk c before the map of chunk c + 1, that before the loads of chunk c + 2
    tiles = place_tiles(asm, side_by_side)
    pick_inside(asm, fractals, tiles, gates.zeros, strength_columns(asm, fractals, gates.strengths), state_scale)
    split_triangles(asm, fractals, tiles, system.triangles, scores)
    if gates.shares is not None:
        _erase_rows(asm, fractals, system, gates.shares)
    if delta:
        lower_inverse(asm, fractals, system, stage=STATE)
    for head, state in enumerate(states):
        own_scores = scores.from_fractal(head * dims.rows * dims.rows)
        shares = _shares_of(asm, gates, head)
        decay = gates.chunk_decays[head]
        _advance(asm, fractals, inputs, system, own_scores, decay, reads[head], state, head, delta, shares, pieces)
    lower_strengths(asm, fractals, gates, state_scale)
    blocks = place_block_rows(asm)
    for head in range(dims.heads):
        _map(asm, fractals, gates, inputs, desk, blocks, level, tiles, reads[head], head, state_scale)
    _load_inputs(asm, inputs)
    load_gates(asm, fractals, gates, pieces=1 if side_by_side else 2)

    asm.section = "finish"
    for head, state in enumerate(states):
        store_state(asm, fractals, desk, state, head, state_scale, pieces)
    return asm.program()


def _map(
    asm: Assembler,
    fractals: Fractals,
    gates: GateBuffers,
    inputs: Inputs,
    desk: Desk,
    blocks: BlockRows,
    level: LevelRows,
    tiles: ScoreTiles,
    reads: Reads,
    head: int,
    state_scale: float,
) -> None:
    """Rows and scores of a head. What whole blocks' factors take on the cube lies between halvings for the vector unit."""

    def halving(half: int) -> None:
        exponents = lower_exponents(asm, desk, gates.decays[head], fractals.levels[half])
        lower_level_rows(asm, fractals, desk, exponents, level, half)
        lower_inside(asm, tiles, level, inputs, half, head)
        pick(half)

    def pick(half: int) -> None:
        if tiles.picked is not None:
            pick_halving(asm, fractals, tiles, half, state_scale)

    factors = lower_block_factors(asm, fractals, gates, desk.rows, head)
    exponents = lower_exponents(asm, desk, gates.decays[head], fractals.suffix)
    lower_suffix_rows(asm, fractals, desk, exponents, inputs, gates.strengths, blocks, reads, head)
    lower_rows(asm, fractals, desk, inputs, head)
    if tiles.picked is not None:
        gates.zeros.to_ub(asm, "picked scores", picked_bytes(asm), tiles.picked)
    lower_diagonal(asm, tiles, inputs, head)
    pick(0)
    halving(8)
    halving(2)
    exponents = lower_exponents(asm, desk, gates.decays[head], fractals.prefix)
    lower_prefix_rows(asm, fractals, desk, exponents, blocks, reads)
    near = lower_middle_rows(asm, fractals, desk, factors, blocks, reads)
    lower_near_blocks(asm, tiles, near, blocks, head)
    halving(1)
    lower_far_rows(asm, fractals, desk, factors, blocks, reads)
    lower_far_blocks(asm, tiles, blocks, head)
    halving(4)


def _tensor(name: str) -> int:
    return int(abi.table("tensors")[name])


def _place_inputs(asm: Assembler) -> Inputs:
    dims = asm.dims
    keys, queries = (
        tuple(asm.buffer(name, "L1", dims.rows * dims.keys * HALF) for _ in dims.key_heads) for name in ("key", "query")
    )
    values = tuple(asm.buffer("value", "L1", dims.rows * dims.values * HALF, versions=2) for _ in range(dims.heads))
    return Inputs(keys, queries, values)


def _load_inputs(asm: Assembler, inputs: Inputs) -> None:
    asm.stage = LOAD
    keys, values = asm.dims.keys, asm.dims.values
    for name, tiles, blocks in (("key", inputs.keys, keys), ("query", inputs.queries, keys), ("value", inputs.values, values)):
        for head, tile in enumerate(tiles):
            asm.emit("rows_to_l1", tile, count=blocks, p=(_tensor(name), head, 0), label=name)


def _place_scores(asm: Assembler) -> Parts:
    """Setup: room for the scores of each head as squares, with zeros above the diagonal."""
    fractals = asm.dims.heads * asm.dims.rows * asm.dims.rows
    scores = parts_in_l1(asm, "scores", fractals, kept=True)
    staged = asm.buffer("zeros:UB", "UB", 2 * fractals * HALF)
    vector(asm, "dup16", staged, repeats=4 * fractals, scalar=asm.scalar(0.0), label="zeros")
    asm.emit("ub_to_l1", scores.high, staged, size=2 * fractals * FRACTAL, first=True, label="zeros")
    return scores


def _advance(
    asm: Assembler,
    fractals: Fractals,
    inputs: Inputs,
    system: System,
    scores: Parts,
    chunk_decay: Parts,
    reads: Reads,
    state: Parts,
    head: int,
    delta: bool,
    shares: _Shares | None,
    pieces: Pieces,
) -> None:
    """State steps of one head: read, correct, output, update. Tiles of rows are [value block][row block]."""
    asm.stage = STATE
    rows, values = asm.dims.rows, asm.dims.values
    count = rows * values
    error = asm.buffer("error", "L0C", count * FULL) if delta else None
    output = asm.buffer("output", "L0C", count * FULL)
    apart = len(pieces) > 1
    _read(asm, reads.start, state, error, None if apart else output)
    corrected: Matrix
    if error is not None:
        corrected = _correct(asm, fractals, inputs, system, error, head, shares)
    else:
        tile = inputs.values[head]
        corrected = load(asm, "B", tile, count=rows, size=values, inner=rows, group=1, flags=TRANSPOSE, label="V")
    if apart:
        _read(asm, reads.start, state, None, output)
    left = load_parts(asm, "A", scores, size=rows * rows, label="P")
    multiply(asm, output, left, corrected, m=rows, n=values, k=rows, label="P x")
    staged = copy_out(asm, output, count, half=True, label="output")
    asm.emit("rows_from_ub", src0=staged, count=values, p=(_tensor("output"), head, 0, 1, 0, 0, 0, 2), label="output")
    for first, height in pieces:
        update = _update(asm, reads.end, chunk_decay, corrected, state, first, height)
        split(asm, fractals.negative, update, whole(state.from_fractal(first * values), height * values), label="state")


def _erase_rows(asm: Assembler, fractals: Fractals, system: System, shares: Parts) -> None:
    """State steps: the rows of every head's system times the shares that erase."""
    asm.stage = STATE
    rows, triangle = asm.dims.rows, asm.dims.triangle
    for head in range(asm.dims.heads):
        own = system.triangles.from_fractal(head * triangle)
        tile = asm.buffer("system", "L0C", triangle * FULL)
        left = load_parts(asm, "A", shares.from_fractal(head * rows), size=rows, label="erase shares")
        right = load_parts(asm, "B", own, size=triangle, flags=TRANSPOSE, label="system")
        multiply(asm, tile, left, right, count=rows, move_left=1, mode=N_GROWS | RIGHT_MOVES, overwrite=True, label="system")
        split(asm, fractals.negative, tile, whole(own, triangle), label="system")


def _shares_of(asm: Assembler, gates: GateBuffers, head: int) -> _Shares | None:
    if gates.shares is None:
        return None
    erase, write = (gates.shares.from_fractal((kind * asm.dims.heads + head) * asm.dims.rows) for kind in (0, 1))
    return _Shares(erase, write)


def _correct(
    asm: Assembler, fractals: Fractals, inputs: Inputs, system: System, error: Operand, head: int, shares: _Shares | None
) -> Parts:
    """x = A (V - (K o e^G) S) as right operand. error: in L0C, what is taken from V."""
    rows, values = asm.dims.rows, asm.dims.values
    count = rows * values
    if shares is None:
        value = load(asm, "B", inputs.values[head], size=count, flags=TRANSPOSE, label="V")
        multiply(asm, error, fractals.identity, value, n=count, label="V")
    between = parts_in_l1(asm, "error", count)
    split(asm, fractals.negative, error, whole(between, count), label="error")
    inverse = load_parts(asm, "A", system.inverse.from_fractal(head * inverse_pitch(asm)), size=rows * rows, label="A")
    tile = asm.buffer("x", "L0C", count * FULL)
    right = _right(asm, between, "error")
    if shares is not None:
        right = _shared_residual(asm, fractals, inputs.values[head], right, shares)
    multiply(asm, tile, inverse, right, m=rows, n=values, k=rows, overwrite=True, label="x")
    between = parts_in_l1(asm, "x", count)
    split(asm, fractals.negative, tile, whole(between, count), label="x")
    return _right(asm, between, "x")


def _shared_residual(asm: Assembler, fractals: Fractals, value: Operand, error: Parts, shares: _Shares) -> Parts:
    """diag(write share) V - diag(erase share) (K o e^G) S, from minus the last product: right operands."""
    rows, values = asm.dims.rows, asm.dims.values
    count = rows * values
    tile = asm.buffer("residual", "L0C", count * FULL)  # [row block][value block]
    written = load(asm, "B", value, count=rows, size=values, inner=rows, group=1, flags=TRANSPOSE, label="V")
    for name, share, right in (("erase", shares.erase, error), ("write", shares.write, written)):
        left = load_parts(asm, "A", share, size=rows, label=f"{name} shares")
        multiply(
            asm, tile, left, right, overwrite=name == "erase", label=f"{name} share",
            count=rows, n=values, move_tile=values, move_left=1, move_right=values,
        )  # fmt: skip
    parts = parts_in_l1(asm, "residual", count)
    split(asm, fractals.negative, tile, whole(parts, count), label="residual")
    return load_parts(asm, "B", parts, size=count, flags=TRANSPOSE, label="residual")


def _right(asm: Assembler, tile: Parts, label: str) -> Parts:
    """A tile of [value block][row block] as right operand."""
    rows, values = asm.dims.rows, asm.dims.values
    return load_parts(asm, "B", tile, count=rows, size=values, inner=rows, group=1, flags=TRANSPOSE, label=label)


def _read(asm: Assembler, start: Parts, state: Parts, error: Operand | None, output: Operand | None) -> None:
    """Minus (K o e^G) S and scale (Q o e^G) S, those that have a tile, a half of the key channels at a time."""
    rows, keys, values = asm.dims.rows, asm.dims.keys, asm.dims.values
    for first in range(0, keys, 4):
        size = min(4, keys - first)
        piece = load_parts(asm, "B", state.from_fractal(first * values), size=size * values, flags=TRANSPOSE, label="S")
        for kind, tile, label in ((0, error, "K S"), (1, output, "Q S")):
            if tile is None:
                continue
            source = start.from_fractal((2 * first + kind) * rows)
            left = load_parts(asm, "A", source, count=rows, size=size, inner=2 * rows, group=1, label=label)
            multiply(asm, tile, left, piece, m=rows, n=values, k=size, overwrite=first == 0, label=label)


def _update(
    asm: Assembler, end: Parts, chunk_decay: Parts, corrected: Matrix, state: Parts, first_block: int, height: int
) -> Operand:
    """diag(e^G_C) S + (end rows)^T x in L0C, [key block][value block], of some key blocks."""
    rows, values = asm.dims.rows, asm.dims.values
    tile = asm.buffer("next state", "L0C", height * values * FULL)
    left = load_parts(asm, "A", end.from_fractal(first_block * rows), size=height * rows, flags=TRANSPOSE, label="end rows^T")
    multiply(
        asm, tile, left, corrected, count=height, n=values, k=rows, move_tile=values, move_left=rows, overwrite=True,
        label="end rows^T x",
    )  # fmt: skip
    decay = load_parts(asm, "A", chunk_decay.from_fractal(first_block), size=height, label="chunk decay")
    for first in range(0, height, 2):
        size = min(2, height - first)
        source = state.from_fractal((first_block + first) * values)
        piece = load_parts(asm, "B", source, size=size * values, flags=TRANSPOSE, label="S")
        multiply(
            asm, at(tile, first * values * FULL), decay.from_fractal(first), piece, count=size, n=values,
            move_tile=values, move_left=1, move_right=values, label="decay S",
        )  # fmt: skip
    return tile
