"""Stages of a decay per channel for systems that hand intermediates from launch to launch, in the routines of vector_channel.

In a chunk's slot, as FLA names them: A, the inverse, and P, the scores; w = A (K o e^G) and u = A V; kg, keys to the chunk's end
with their strengths; e^G_C; h, the state before the chunk, and x, what is written to it.
"""

from dataclasses import dataclass

from hajax.lowering import staged_scalar
from hajax.lowering.assembler import FULL, HALF, UNIT, Assembler, Constants, Dims, at
from hajax.lowering.exchange import two_stages
from hajax.lowering.segments import begin_behind, begin_with_identity, begin_with_none, end_in_slot
from hajax.lowering.slots import FP32, Field, put_parts, put_tile, room_for, take, take_parts
from hajax.lowering.system import lower_inverse, place_system, zero_above
from hajax.lowering.tiles import TRANSPOSE, Parts, load, load_parts, parts_in_l1, vector
from hajax.lowering.vector_channel import (
    PIECE,
    Form,
    advance,
    corrected_rows,
    decay_of,
    left_of,
    lower_levels,
    lower_output,
    written,
)
from hajax.lowering.vector_channel_rows import (
    KEY_SCALE,
    Fractals,
    Gates,
    LevelRows,
    Piece,
    Reads,
    exponential,
    load_gates,
    lower_chunk_decay,
    lower_end_rows,
    lower_exponents,
    lower_reads,
    lower_sources,
    lower_start_rows,
    lower_strengths,
    pieces_of,
    place_chunk_decay,
    place_fractals,
    place_gates,
    place_level_rows,
    place_reads,
)
from hajax.lowering.vector_channel_scores import Scores, lower_triangles, place_picked, place_scores, scale_triangles
from hajax.lowering.vector_scalar import left_rows
from hajax.lowering.vector_state import Read, State, load_state, place_state, read_state, right_parts, store_state, update_state
from hajax.lowering.vector_steps import Layouts, Rows, load_rows, solve, tensor
from hajax.lowering.vector_tiles import Tile, fetch, split_tile
from hajax.plans.program import LOAD, MAP, STATE, Operand, Program

Slot = dict[str, Field]
BLOCKED = Layouts()


def tiles_of(full: Dims, parts: int) -> dict[str, tuple[int, int, int]]:
    """As staged_scalar's. kg: one tile for each piece of the key channels, named kg0, ..."""
    rows, keys = full.rows, full.keys
    pieces = {f"kg{n}": (rows * min(PIECE, keys - first), 1, parts) for n, first in enumerate(range(0, keys, PIECE))}
    return {
        **staged_scalar.tiles_of(full, parts),
        "P": (full.triangle, 1, parts),
        "decay": (keys, 1, FP32),
        **pieces,
    }


def kept_keys(full: Dims) -> tuple[str, ...]:
    """The names of kg's tiles."""
    return tuple(f"kg{n}" for n in range(-(-full.keys // PIECE)))


@dataclass(frozen=True, slots=True)
class _Given:
    """What stages that need gates have of them."""

    asm: Assembler
    pieces: list[Piece]
    fractals: Fractals
    gates: Gates
    rows: Rows


def _place(asm: Assembler, *, query: bool = True, value: bool = False) -> _Given:
    """Setup: constants, room for gates and for what a stage reads."""
    fractals, gates, dims = place_fractals(asm), place_gates(asm), asm.dims

    def room(name: str, wanted: bool, width: int) -> Operand:
        return asm.buffer(name, "L1", dims.rows * width * HALF, versions=2) if wanted else Operand("")

    rows = Rows(room("key", True, dims.keys), room("query", query, dims.keys), room("value", value, dims.values), "L1")
    return _Given(asm, pieces_of(asm, PIECE), fractals, gates, rows)


def _load(given: _Given, *, key: bool = True, strengths: bool = True) -> None:
    """Load steps."""
    asm, rows = given.asm, given.rows
    asm.stage = LOAD
    for name, tile, wanted in (("key", rows.key, key), ("query", rows.query, bool(rows.query.buffer))):
        if wanted:
            asm.emit("rows_to_l1", tile, count=asm.dims.keys, p=(tensor(name), 0, 0), label=name)
    if rows.value.buffer:
        load_rows(asm, rows, "blocked", keys=False)
    load_gates(asm, given.gates, given.pieces, strengths=strengths)


def _scores(asm: Assembler, given: _Given, levels: list[dict[int, LevelRows]], picked: Operand) -> tuple[Scores, Operand]:
    """Map steps: the scores of all halvings, and the strengths that scale them."""
    strengths, _ = lower_strengths(asm, given.fractals, given.gates)
    scores = place_scores(asm, picked)
    for piece, near in zip(given.pieces, levels, strict=True):
        lower_levels(asm, given.fractals, scores, lower_sources(asm, given.rows, given.gates, piece), near, given.rows)
    return scores, strengths


def build_scores(dims: Dims, constants: Constants, slot: Slot, parts: int) -> Program:
    """A and P of a chunk: the inverse of one chunk beside the scores of the next."""
    asm = Assembler(dims, constants, parts)
    given = _place(asm)
    system = place_system(asm)
    zero_above(asm, system)
    levels, picked = place_level_rows(asm, given.pieces), place_picked(asm)
    asm.section = "body"
    lower_inverse(asm, given.fractals.shared, system, stage=STATE)
    put_parts(asm, system.scores(asm), slot["P"], 1, "P")
    put_parts(asm, system.inverse, slot["A"], dims.rows, "A")
    scores, strengths = _scores(asm, given, levels, picked)
    lower_triangles(asm, scores, strengths, system)
    _load(given)
    return asm.program()


def build_system(dims: Dims, constants: Constants, slot: Slot, parts: int) -> Program:
    """N as fp32, for a solve of its own (operators.py), and P of a chunk."""
    asm = Assembler(dims, constants, parts)
    given = _place(asm)
    levels, picked = place_level_rows(asm, given.pieces), place_picked(asm)
    asm.section = "body"
    scores, strengths = _scores(asm, given, levels, picked)
    scaled = scale_triangles(asm, scores, strengths)
    put_tile(asm, Tile(scaled, dims.triangle, 1, "blocked"), slot["T"], "system")
    put_tile(asm, Tile(at(scaled, dims.triangle * FULL), dims.triangle, 1, "blocked"), slot["P"], "P")
    _load(given)
    return two_stages(asm.program())


def _put_decay(asm: Assembler, given: _Given, decay: Operand, slot: Slot) -> Parts:
    """Map steps: the chunk's decay to its slot, and the logarithms of strengths."""
    asm.stage = MAP
    _, log_strengths = lower_strengths(asm, given.fractals, given.gates)
    lower_chunk_decay(asm, given.fractals, given.gates, decay)
    put_tile(asm, Tile(decay, asm.dims.keys, 1, "blocked"), slot["decay"], "chunk decay")
    return log_strengths


def build_scaled_keys(dims: Dims, constants: Constants, slot: Slot, parts: int) -> Program:
    """K o e^G times KEY_SCALE as fp32, kg and the chunk's decay."""
    asm = Assembler(dims, constants, parts)
    given = _place(asm, query=False)
    decay = place_chunk_decay(asm)
    asm.section = "body"
    log_strengths = _put_decay(asm, given, decay, slot)
    for number, piece in enumerate(given.pieces):
        sources = lower_sources(asm, given.rows, given.gates, piece, "K")
        count = dims.rows * piece.keys
        end = parts_in_l1(asm, "end keys", count)
        lower_end_rows(asm, given.fractals, sources, log_strengths, Reads(piece, end, end))
        put_parts(asm, end, slot[f"kg{number}"], 1, "kg")
        start = exponential(asm, lower_exponents(asm, given.fractals, sources, "start"), count, "start")
        vector(asm, "mul32", start, start, sources.key, repeats=4 * count, label="start keys")
        for row in range(dims.rows):
            for key in range(piece.keys):
                place = slot["scaled"].place + ((piece.first + key) * dims.rows + row) * FULL
                asm.emit(
                    "workspace_from_ub", src0=at(start, (row * piece.keys + key) * FULL), size=FULL // UNIT,
                    constant=place // UNIT, label="scaled keys out",
                )  # fmt: skip
    _load(given)
    return two_stages(asm.program())


def build_erased(dims: Dims, constants: Constants, slot: Slot, parts: int) -> Program:
    """w, u, kg and the chunk's decay."""
    asm = Assembler(dims, constants, parts)
    given = _place(asm, query=False, value=True)
    inverse = room_for(asm, slot["A"], "A")
    decay = place_chunk_decay(asm)
    asm.section = "body"
    log_strengths = _put_decay(asm, given, decay, slot)
    for number, piece in enumerate(given.pieces):
        sources = lower_sources(asm, given.rows, given.gates, piece, "K")
        count = dims.rows * piece.keys
        start = parts_in_l1(asm, "start keys", count)
        end = parts_in_l1(asm, "end keys", count)
        reads = Reads(piece, start, end)
        lower_end_rows(asm, given.fractals, sources, log_strengths, reads)
        put_parts(asm, end, slot[f"kg{number}"], 1, "kg")
        lower_start_rows(asm, given.fractals, sources, reads, "K")
        right = load_parts(
            asm, "B", start, count=dims.rows, size=piece.keys, group=piece.keys, flags=TRANSPOSE, label="start keys"
        )
        product = solve(asm, inverse, right, piece.keys, "w")
        erased = fetch(asm, product, dims.rows, piece.keys, "blocked", by_rows=True, label="w")
        put_tile(asm, erased, slot["w"], "w", first=piece.first)
    value = load(
        asm, "B", given.rows.value, count=dims.rows, size=dims.values, inner=dims.rows, group=1, flags=TRANSPOSE, label="V"
    )
    free = solve(asm, inverse, value, dims.values, "u")
    put_tile(asm, fetch(asm, free, dims.rows, dims.values, "blocked", by_rows=True, label="u"), slot["u"], "u")
    asm.stage = LOAD
    take_parts(asm, slot["A"], inverse, dims.rows, "A")
    _load(given)
    return two_stages(asm.program())


def build_state(dims: Dims, constants: Constants, slot: Slot, parts: int) -> Program:
    """States, from w, u and kg: h and x of each chunk. No gates but the chunk's decay."""
    asm = Assembler(dims, constants, parts)
    rows, values = dims.rows, dims.values
    pieces = pieces_of(asm, PIECE)
    none = Parts(Operand(""), 0)
    ends = [Reads(piece, none, room_for(asm, slot[f"kg{n}"], "kg", 1)) for n, piece in enumerate(pieces)]
    erased = room_for(asm, slot["w"], "w")
    free = asm.buffer("u", "L1", rows * values * slot["u"].fractal, versions=2)
    decay = asm.buffer("chunk decay", "UB", dims.keys * FULL, versions=2)
    state = place_state(asm, "blocked", KEY_SCALE, "planned")
    load_state(state)
    asm.section = "body"
    asm.stage = STATE
    put_parts(asm, state.parts, slot["h"], values, "h")
    product = asm.buffer("w S", "L0C", rows * values * FULL)
    read_state(state, (Read(left_rows(asm, erased, "w"), product, "w S"),))
    x = staged_scalar.whole_tile(asm, slot["u"], free, "u")
    read = fetch(asm, product, rows, values, "blocked", label="w S")
    scale = asm.scalar(-1 / (KEY_SCALE * state.scale))
    vector(asm, "axpy32", x.place, read.place, repeats=x.repeats, scalar=scale, label="x")
    kept = parts_in_l1(asm, "x", rows * values)
    split_tile(asm, x, kept, label="x")
    update = written(asm, ends, right_parts(asm, kept, rows, values, "x"))
    put_parts(asm, kept, slot["x"], values, "x")
    update_state(state, update, decay_of(state, decay))
    asm.stage = LOAD
    take_parts(asm, slot["w"], erased, dims.keys, "w")
    take(asm, slot["u"], "workspace_to_l1", free, 0, rows * values * slot["u"].fractal, "u")
    for number, reads in enumerate(ends):
        take_parts(asm, slot[f"kg{number}"], reads.end, 1, "kg")
    take(asm, slot["decay"], "workspace_to_ub", decay, 0, dims.keys * FULL, "chunk decay")
    asm.section = "finish"
    store_state(state)
    return two_stages(asm.program())


def build_output(dims: Dims, constants: Constants, slot: Slot, parts: int) -> Program:
    """o of a chunk, from h, x and P."""
    asm = Assembler(dims, constants, parts)
    rows, values = dims.rows, dims.values
    given = _place(asm)
    state = State(asm, Operand(""), room_for(asm, slot["h"], "h"), "blocked", KEY_SCALE, 0)
    x, scores = room_for(asm, slot["x"], "x"), room_for(asm, slot["P"], "P")
    starts = [Reads(piece, parts_in_l1(asm, "start rows", 2 * rows * piece.keys), x) for piece in given.pieces]
    asm.section = "body"
    asm.stage = MAP
    for of_piece in starts:
        sources = lower_sources(asm, given.rows, given.gates, of_piece.piece, "Q")
        lower_start_rows(asm, given.fractals, sources, of_piece, "Q")
    tile = asm.buffer("o", "L0C", rows * values * FULL)
    read_state(state, (Read(lambda first, size: left_of(asm, starts, 1, first, size), tile, "Q S", by_rows=True),))
    lower_output(asm, scores, x, tile, state.scale)
    asm.stage = LOAD
    take_parts(asm, slot["h"], state.parts, values, "h")
    take_parts(asm, slot["x"], x, values, "x")
    take_parts(asm, slot["P"], scores, 1, "P")
    _load(given, key=False, strengths=False)
    return two_stages(asm.program())


def build_fused(dims: Dims, constants: Constants, slot: Slot, parts: int, segment: staged_scalar.Segment = "none") -> Program:
    """States and output from A and P; scaled rows are made here. segment: as of staged_scalar's."""
    asm = Assembler(dims, constants, parts)
    given = _place(asm, value=True)
    inverse = room_for(asm, slot["A"], "A")
    scores = room_for(asm, slot["P"], "P")
    decay = place_chunk_decay(asm)
    reads = place_reads(asm, given.pieces)
    state = place_state(asm, "blocked", KEY_SCALE, "planned")
    if segment == "later":
        begin_behind(state, slot)
    else:
        load_state(state)
    asm.section = "body"
    asm.stage = STATE
    advance(Form(asm, BLOCKED, given.rows, inverse, scores, decay, reads, state, True), "planned")
    asm.stage = MAP
    _, log_strengths = lower_strengths(asm, given.fractals, given.gates)
    lower_chunk_decay(asm, given.fractals, given.gates, decay)
    for of_piece in reads:
        sources = lower_sources(asm, given.rows, given.gates, of_piece.piece)
        lower_reads(asm, given.fractals, sources, log_strengths, of_piece)
    asm.stage = LOAD
    take_parts(asm, slot["A"], inverse, dims.rows, "A")
    take_parts(asm, slot["P"], scores, 1, "P")
    _load(given)
    asm.section = "finish"
    store_state(state, last=segment != "none")
    return asm.program()


def build_summary(dims: Dims, constants: Constants, slot: Slot, parts: int, of: str) -> Program:
    """As staged_scalar's."""
    asm = Assembler(dims, constants, parts)
    given = _place(asm, query=False, value=of == "H")
    inverse = room_for(asm, slot["A"], "A")
    decay = place_chunk_decay(asm)
    reads = place_reads(asm, given.pieces)
    state = place_state(asm, "blocked", KEY_SCALE, "planned")
    (begin_with_none if of == "H" else begin_with_identity)(state)
    asm.section = "body"
    asm.stage = STATE
    form = Form(asm, BLOCKED, given.rows, inverse, inverse, decay, reads, state, True)
    key_read = asm.buffer("K S", "L0C", dims.rows * dims.values * FULL)
    read_state(state, (Read(lambda first, size: left_of(asm, reads, 0, first, size), key_read, "K S"),))
    x = parts_in_l1(asm, "x", dims.rows * dims.values)
    split_tile(asm, corrected_rows(form, key_read, values=of == "H"), x, label="x")
    update = written(asm, reads, right_parts(asm, x, dims.rows, dims.values, "x"))
    update_state(state, update, decay_of(state, decay))
    asm.stage = MAP
    _, log_strengths = lower_strengths(asm, given.fractals, given.gates)
    lower_chunk_decay(asm, given.fractals, given.gates, decay)
    for of_piece in reads:
        sources = lower_sources(asm, given.rows, given.gates, of_piece.piece, "K")
        lower_end_rows(asm, given.fractals, sources, log_strengths, of_piece)
        lower_start_rows(asm, given.fractals, sources, of_piece, "K")
    asm.stage = LOAD
    take_parts(asm, slot["A"], inverse, dims.rows, "A")
    _load(given)
    asm.section = "finish"
    end_in_slot(state, slot[of], of)
    return asm.program()
