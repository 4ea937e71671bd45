"""The published system's form of a decay per channel: rows scaled and split on the vector unit, the state in fp32 in UB.

x = A (V - (K o e^G) S);  o = scale ((Q o e^G) S + P x);  S <- diag(e^G_C) S + (beta K o e^(G_C - G))^T x, with the strength as a
column factor of A and P. Keys are kept times KEY_SCALE wherever they are scaled, and so is the state that they write.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from hajax.lowering.assembler import FULL, HALF, UNIT, Assembler, Constants, Dims, at
from hajax.lowering.cube_scalar import Kind
from hajax.lowering.exchange import exchanged_bytes, export, import_back, two_stages
from hajax.lowering.system import System, lower_inverse, place_system, zero_above
from hajax.lowering.tiles import TRANSPOSE, Matrix, Parts, load_parts, multiply, parts_in, parts_in_l1, vector
from hajax.lowering.vector_channel_rows import (
    FAR,
    KEY_SCALE,
    NEAR,
    Fractals,
    Gates,
    LevelRows,
    Piece,
    Reads,
    Sources,
    load_gates,
    lower_chunk_decay,
    lower_far_level,
    lower_near_level,
    lower_reads,
    lower_sources,
    lower_strengths,
    pieces_of,
    place_chunk_decay,
    place_fractals,
    place_gates,
    place_level_rows,
    place_reads,
)
from hajax.lowering.vector_channel_scores import (
    Scores,
    lower_far_scores,
    lower_near_scores,
    lower_plain_scores,
    lower_triangles,
    place_picked,
    place_scores,
)
from hajax.lowering.vector_state import (
    READ_KEYS,
    Decay,
    Order,
    Read,
    Slice,
    State,
    load_state,
    place_state,
    read_state,
    right_parts,
    spill_bytes,
    split_state,
    store_state,
)
from hajax.lowering.vector_steps import (
    Layouts,
    Rows,
    attend,
    corrected,
    finish_chunk,
    layouts_of,
    load_rows,
    place_rows,
    plain_values,
    store_output,
)
from hajax.lowering.vector_tiles import TO_DENSE, Layout, Tile, fetch, scale_rows, split_tile
from hajax.plans.program import STATE, Operand, Program

PIECE = 4


@dataclass(frozen=True, slots=True)
class Form:
    """What all steps of the state stage share."""

    asm: Assembler
    layouts: Layouts
    rows: Rows
    inverse: Parts
    scores: Parts
    chunk_decay: Operand
    reads: list[Reads]
    state: State
    delta: bool


def build(
    dims: Dims,
    constants: Constants,
    *,
    delta: bool = True,
    layouts: Mapping[str, Layout] | Layouts | None = None,
    order: Order = "planned",
    piece: int = PIECE,
    kind: Kind = "whole",
    parts: int = 2,
) -> Program:
    """The program of one item of one head. delta, layouts, order, kind, parts: as of vector_scalar.build.

    piece: key blocks that are scaled together.
    """
    if dims.heads != 1 or dims.chunk != 64:
        raise ValueError(f"dims: expected 1 head and chunks of 64, got {dims.heads} and {dims.chunk}")
    if piece < 1 or piece % READ_KEYS:
        raise ValueError(f"piece: expected a multiple of {READ_KEYS}, got {piece}")
    asm = Assembler(dims, constants, parts)
    chosen = layouts if isinstance(layouts, Layouts) else layouts_of(layouts or {})
    if "dense" in (chosen.rows, chosen.scores):
        raise ValueError("layouts: expected blocked rows and scores of a decay per channel, got dense ones")
    pieces = pieces_of(asm, piece)
    of_map = _place_map(asm, pieces, delta) if kind != "state" else None
    system, chunk_decay = (of_map.system, of_map.chunk_decay) if of_map else (place_system(asm), place_chunk_decay(asm))
    rows = place_rows(asm, "L1", versions=1)
    reads = place_reads(asm, pieces)
    shared = _exchanged(asm, reads, system, delta)
    form = None
    if kind != "map":
        behind = exchanged_bytes(asm, shared) + dims.keys * FULL if kind == "state" else 0
        state = place_state(asm, chosen.state, KEY_SCALE, order, behind)
        form = Form(asm, chosen, rows, system.inverse, system.scores(asm), chunk_decay, reads, state, delta)
        load_state(state)

    asm.section = "body"  # the state of chunk c before the map of chunk c + 1, that before the loads of chunk c + 2
    asm.stage = STATE
    if form is not None:
        advance(form, order)
    if of_map is not None:
        _map(asm, of_map, rows, reads, delta)
    if kind == "map":
        export(asm, shared)
        asm.emit(
            "workspace_from_ub", src0=chunk_decay, size=dims.keys * FULL // UNIT, constant=exchanged_bytes(asm, shared) // UNIT,
            label="chunk decay out",
        )  # fmt: skip
    if kind == "state":
        import_back(asm, shared)
        asm.emit(
            "workspace_to_ub", chunk_decay, size=dims.keys * FULL // UNIT, constant=exchanged_bytes(asm, shared) // UNIT,
            label="chunk decay",
        )  # fmt: skip
    load_rows(asm, rows, chosen.residual if delta else chosen.x, keys=of_map is not None, values=form is not None)
    if of_map is not None:
        load_gates(asm, of_map.gates, pieces)

    asm.section = "finish"
    if form is not None:
        store_state(form.state)
    return asm.program() if kind == "whole" else two_stages(asm.program())


def slot_bytes(dims: Dims, delta: bool, order: Order = "planned", parts: int = 2) -> int:
    """Bytes of a head's chunk that a map launch leaves, and behind them of a state that is spilled."""
    asm = Assembler(Dims(dims.chunk, dims.key_dim, dims.columns, 1, False), Constants(), parts)
    shared = _exchanged(asm, place_reads(asm, pieces_of(asm, PIECE)), place_system(asm), delta)
    return exchanged_bytes(asm, shared) + dims.keys * FULL + (spill_bytes(dims) if order == "spilled" else 0)


def _exchanged(asm: Assembler, reads: list[Reads], system: System, delta: bool) -> tuple[Parts, ...]:
    """What the state stage reads of L1."""
    rows = [parts for piece in reads for parts in (piece.start, piece.end)]
    return (*rows, *((system.triangles, system.inverse) if delta else (system.scores(asm),)))


@dataclass(frozen=True, slots=True)
class _MapParts:
    """What the map stage works with."""

    fractals: Fractals
    gates: Gates
    chunk_decay: Operand
    system: System
    levels: list[dict[int, LevelRows]]
    picked: Operand


def _place_map(asm: Assembler, pieces: list[Piece], delta: bool) -> _MapParts:
    """Setup: constants and room."""
    fractals = place_fractals(asm)
    gates, chunk_decay = place_gates(asm), place_chunk_decay(asm)
    system = place_system(asm)
    if delta:
        zero_above(asm, system)
    return _MapParts(fractals, gates, chunk_decay, system, place_level_rows(asm, pieces), place_picked(asm))


def _map(asm: Assembler, parts: _MapParts, rows: Rows, reads: list[Reads], delta: bool) -> None:
    """What needs no state."""
    fractals, gates = parts.fractals, parts.gates
    strengths, log_strengths = lower_strengths(asm, fractals, gates)
    lower_chunk_decay(asm, fractals, gates, parts.chunk_decay)
    scores = place_scores(asm, parts.picked)
    for of_piece, near in zip(reads, parts.levels, strict=True):
        sources = lower_sources(asm, rows, gates, of_piece.piece)
        lower_reads(asm, fractals, sources, log_strengths, of_piece)
        lower_levels(asm, fractals, scores, sources, near, rows)
    lower_triangles(asm, scores, strengths, parts.system)
    if delta:
        lower_inverse(asm, fractals.shared, parts.system)


def lower_levels(
    asm: Assembler, fractals: Fractals, scores: Scores, sources: Sources, near: dict[int, LevelRows], rows: Rows
) -> None:
    """Map steps: what a piece of the key channels adds to the scores of all halvings."""
    for half in FAR:
        lower_far_scores(asm, scores, lower_far_level(asm, fractals, sources, half), half)
    for half in NEAR:
        lower_near_level(asm, fractals, sources, near[half], half)
        lower_near_scores(asm, scores, near[half], rows, half)
    lower_plain_scores(asm, scores, rows, sources.piece)


def advance(form: Form, order: Order) -> None:
    """As vector_scalar's. What the queries read and P x add up in one tile."""
    asm = form.asm
    rows, values = asm.dims.rows, asm.dims.values
    output_tile = asm.buffer("o", "L0C", rows * values * FULL)
    query = (Read(lambda first, size: left_of(asm, form.reads, 1, first, size), output_tile, "Q S", by_rows=True),)
    key_read = asm.buffer("K S", "L0C", rows * values * FULL)
    key = (Read(lambda first, size: left_of(asm, form.reads, 0, first, size), key_read, "K S"),) if form.delta else ()
    if order == "planned":
        read_state(form.state, (*key, *query))
    else:
        split_state(form.state)
        if key:
            read_state(form.state, key)
    x = corrected_rows(form, key_read) if form.delta else plain_values(asm, _values(form, form.layouts.x), form.layouts.x)
    parts = parts_in_l1(asm, "x", rows * values)
    split_tile(asm, x, parts, label="x")
    right = right_parts(asm, parts, rows, values, "x")
    update = written(asm, form.reads, right)

    def output() -> None:
        if order != "planned":
            read_state(form.state, query)
        lower_output(asm, form.scores, parts, output_tile, form.state.scale, form.layouts.output)

    finish_chunk(form.state, order, update, decay_of(form.state, form.chunk_decay), output)


def decay_of(state: State, chunk_decay: Operand) -> Decay:
    """Adds what e^G_C leaves of the old state."""

    def decay(tile: Tile, part: Slice) -> None:
        old = Tile(at(state.place, part.offset), tile.rows, tile.columns, tile.layout)
        scale_rows(state.asm, "mla32", tile, old, at(chunk_decay, part.row * FULL), label="decayed state")

    return decay


def left_of(asm: Assembler, starts: list[Reads], kind: int, first: int, size: int) -> Matrix:
    """Some key blocks of the keys (kind 0) or queries that read the state."""
    rows = asm.dims.rows
    reads = next(r for r in starts if r.piece.first <= first < r.piece.first + r.piece.keys)
    keys = reads.piece.keys
    source = reads.start.from_fractal(kind * rows * keys + first - reads.piece.first)
    return load_parts(asm, "A", source, count=rows, size=size, group=keys, label="KQ"[kind])


def corrected_rows(form: Form, key_read: Operand, *, values: bool = True) -> Tile:
    """x = A (V - (K o e^G) S), or without V."""
    asm = form.asm
    residual = fetch(asm, key_read, asm.dims.rows, asm.dims.values, form.layouts.residual, label="K S")
    place, repeats = residual.place, residual.repeats
    scale = asm.scalar(-1 / (KEY_SCALE * form.state.scale))
    vector(asm, "muls32", place, place, repeats=repeats, scalar=scale, label="residual")
    if values:
        halves = _values(form, residual.layout)
        one = asm.scalar(1.0)
        vector(asm, "axpy16", place, halves, repeats=repeats, strides=(8, 4, 0), scalar=one, label="residual")
    return corrected(asm, form.inverse, residual, form.layouts.x)


def _values(form: Form, layout: Layout) -> Operand:
    """A chunk's values from L1 to UB, when they are needed: rows take the room before."""
    asm, columns = form.asm, form.asm.dims.values
    column = asm.dims.rows * HALF
    halves = asm.buffer("value halves:UB", "UB", columns * column)
    if layout == "blocked":
        asm.emit("l1_to_ub", halves, form.rows.value, size=columns * column // UNIT, label="value")
    else:
        for number in range(columns):
            place, source = at(halves, number * UNIT), at(form.rows.value, number * column)
            gap = columns - 1
            asm.emit("l1_to_ub", place, source, count=asm.dims.chunk, size=1, p=(0, 0, gap, 0), label=f"value {TO_DENSE}")
    return halves


def written(asm: Assembler, ends: list[Reads], x: Parts) -> Operand:
    """(beta K o e^(G_C - G))^T x in L0C as column blocks."""
    rows, keys, values = asm.dims.rows, asm.dims.keys, asm.dims.values
    left = parts_in(asm, "end rows^T:A", "L0A", rows * keys)
    for reads in ends:
        size, target = reads.piece.keys, left.from_fractal(reads.piece.first * rows)
        load_parts(
            asm, "A", reads.end, count=size, size=rows, inner=size, group=1, flags=TRANSPOSE, target=target, label="end rows^T"
        )
    tile = asm.buffer("update", "L0C", keys * values * FULL)
    multiply(asm, tile, left, x, m=keys, n=values, k=rows, overwrite=True, label="end rows^T x")
    return tile


def lower_output(asm: Assembler, scores: Parts, x: Parts, tile: Operand, state_scale: float, layout: Layout = "blocked") -> None:
    """o = scale ((Q o e^G) S + P x), to GM; the first of the two is in the tile already."""
    rows, values = asm.dims.rows, asm.dims.values
    attend(asm, scores, right_parts(asm, x, rows, values, "x"), tile, overwrite=False)
    output = fetch(asm, tile, rows, values, layout, by_rows=True, label="o")
    for scalar in (asm.scalar(1 / state_scale), 0):
        vector(asm, "muls32", output.place, output.place, repeats=output.repeats, scalar=scalar, label="o")
    store_output(asm, output)
