"""Stages of a scalar decay for systems that hand intermediates from launch to launch, in the routines of vector_scalar.

A head's chunk has a slot in the workspace. There, as FLA names them: A, the inverse; w = A diag(e^G) K and u = A V; h, the
state before the chunk, and x, what is written to it (FLA's v_new, whose strengths stand in its columns here).
"""

from dataclasses import dataclass
from typing import Literal

from hajax.lowering import gates
from hajax.lowering.assembler import FULL, HALF, UNIT, Assembler, Constants, Dims, at
from hajax.lowering.exchange import two_stages
from hajax.lowering.gates import Basics
from hajax.lowering.segments import begin_behind, begin_with_identity, begin_with_none, end_in_slot
from hajax.lowering.slots import FP32, Field, put_parts, put_tile, room_for, take, take_parts
from hajax.lowering.strengths import Strengths
from hajax.lowering.system import System, lower_inverse, place_system, zero_above
from hajax.lowering.tiles import TRANSPOSE, TRIANGLE, Parts, copy_out, load, multiply, vector
from hajax.lowering.vector_gates import RowFactors, lower_row_factors, place_row_factors, place_sums
from hajax.lowering.vector_scalar import (
    KEY_SCALE,
    STATE_SCALE,
    Form,
    advance,
    corrected_rows,
    decay_of,
    left_of,
    left_rows,
    less_read,
    lower_erased,
    lower_output,
    written,
)
from hajax.lowering.vector_state import Read, State, load_state, place_state, read_state, store_state, update_state
from hajax.lowering.vector_steps import Layouts, Rows, load_rows, tensor
from hajax.lowering.vector_tiles import Tile, fetch, new_tile, split_tile
from hajax.plans.program import LOAD, MAP, STATE, Operand, Program

Slot = dict[str, Field]
Segment = Literal["none", "first", "later"]
BLOCKED = Layouts()


def tiles_of(full: Dims, parts: int) -> dict[str, tuple[int, int, int]]:
    """What stages may hand on: rows, columns and parts (as of Assembler; u is rounded to fp16 when they are 1)."""
    rows, keys, values = full.rows, full.keys, full.values
    return {
        "A": (rows, rows, parts),
        "w": (rows, keys, parts),
        "u": (rows, values, FP32 if parts == 2 else 1),
        "h": (keys, values, parts),
        "x": (rows, values, parts),
    }


@dataclass(frozen=True, slots=True)
class StageGates:
    """What a stage that needs gates has of them. factors: None where rows have none."""

    asm: Assembler
    basics: Basics
    raw: Operand
    diagonals: Operand
    sums: Operand | None
    factors: RowFactors | None

    @property
    def strengths(self) -> Strengths:
        """As they came."""
        return Strengths(at(self.raw, self.asm.dims.chunk * 4))


def place_gates(asm: Assembler, *, rows: bool) -> StageGates:
    """Setup."""
    basics = gates.place_basics(asm)
    raw, diagonals = gates.place_raw(asm)
    return StageGates(asm, basics, raw, diagonals, *((place_sums(asm), place_row_factors(asm)) if rows else (None, None)))


def lower_factors(given: StageGates, in_l1: Operand, wanted: tuple[str, ...], read_scale: float = -1 / STATE_SCALE) -> RowFactors:
    """Map steps."""
    assert given.sums is not None and given.factors is not None
    lower_row_factors(
        given.asm, given.basics, given.sums, in_l1, given.factors, state_scale=STATE_SCALE, read_scale=read_scale, wanted=wanted
    )
    return given.factors


def lower_gates(given: StageGates) -> Operand:
    """Map steps: the gates' diagonals."""
    return gates.lower_diagonals(given.asm, given.raw, given.diagonals, given.strengths)


def lower_ratios(given: StageGates, in_l1: Operand) -> Operand:
    """Map steps: decay ratios times strengths, packed triangles."""
    asm = given.asm
    right = load(asm, "B", in_l1, size=4 * asm.dims.rows, flags=TRANSPOSE, label="gate diagonals")
    return gates.lower_ratios(asm, given.basics, right, in_l1, given.strengths)[1].scores


def _scores(
    asm: Assembler, left: Operand, key: Operand, ratios: Operand, target: Parts, label: str, *, negative: bool = False
) -> None:
    """Map steps: ratio o (rows of `left` with keys), split, to a packed triangle in L1."""
    asm.stage = MAP
    rows, keys, triangle = asm.dims.rows, asm.dims.keys, asm.dims.triangle
    columns = load(asm, "B", key, count=rows, size=keys, inner=rows, group=1, label="K^T")
    taken = load(asm, "A", left, count=rows, size=keys, inner=rows, group=1, label=label[0])
    tile = asm.buffer(label, "L0C", triangle * FULL)
    multiply(
        asm, tile, taken, columns, count=rows, k=keys, move_tile=1, move_left=keys, move_right=keys, mode=TRIANGLE,
        overwrite=True, label=label,
    )  # fmt: skip
    scaled = Tile(copy_out(asm, tile, triangle, half=False, label=label), triangle, 1, "blocked")
    if negative:
        vector(asm, "muls32", scaled.place, scaled.place, repeats=scaled.repeats, scalar=asm.scalar(-1.0), label=label)
    vector(asm, "mul32", scaled.place, scaled.place, ratios, repeats=scaled.repeats, label=label)
    split_tile(asm, scaled, target, label=label)


def _rows_of(asm: Assembler, key: bool, query: bool, value: bool, value_in: str = "L1") -> Rows:
    """Setup: room for two chunks of what a stage reads."""
    dims = asm.dims

    def room(name: str, wanted: bool, width: int, space: str = "L1") -> Operand:
        return asm.buffer(name, space, dims.rows * width * HALF, versions=2) if wanted else Operand("")

    rooms = room("key", key, dims.keys), room("query", query, dims.keys), room("value", value, dims.values, value_in)
    return Rows(rooms[0], rooms[1], rooms[2], value_in)


def _load(asm: Assembler, rows: Rows) -> None:
    """Load steps of what there is room for; values in UB lie blocked."""
    asm.stage = LOAD
    for name, tile, width in (("key", rows.key, asm.dims.keys), ("query", rows.query, asm.dims.keys)):
        if tile.buffer:
            asm.emit("rows_to_l1", tile, count=width, p=(tensor(name), 0, 0), label=name)
    if rows.value.buffer:
        load_rows(asm, rows, "blocked", keys=False)


def build_solve(dims: Dims, constants: Constants, slot: Slot, parts: int) -> Program:
    """A of a chunk, to its slot: the inverse of one chunk beside the products of the next."""
    asm = Assembler(dims, constants, parts)
    given = place_gates(asm, rows=False)
    system = place_system(asm)
    zero_above(asm, system)
    rows = _rows_of(asm, key=True, query=False, value=False)
    asm.section = "body"
    lower_inverse(asm, given.basics, system, stage=STATE)
    put_parts(asm, system.inverse, slot["A"], dims.rows, "A")
    ratios = lower_ratios(given, lower_gates(given))
    _scores(asm, rows.key, rows.key, ratios, system.triangles, "K K^T", negative=True)
    _load(asm, rows)
    gates.load_gates(asm, given.raw)
    return asm.program()


def build_erased(dims: Dims, constants: Constants, slot: Slot, parts: int) -> Program:
    """w and u of a chunk."""
    asm = Assembler(dims, constants, parts)
    given = place_gates(asm, rows=True)
    inverse = room_for(asm, slot["A"], "A")
    rows = _rows_of(asm, key=True, query=False, value=True)
    asm.section = "body"
    factors = lower_factors(given, lower_gates(given), ("read",), -KEY_SCALE)
    asm.stage = MAP
    erased, free = lower_erased(asm, rows, inverse, factors)
    put_tile(asm, fetch(asm, erased, dims.rows, dims.keys, "blocked", by_rows=True, label="w"), slot["w"], "w")
    put_tile(asm, fetch(asm, free, dims.rows, dims.values, "blocked", by_rows=True, label="u"), slot["u"], "u")
    asm.stage = LOAD
    take_parts(asm, slot["A"], inverse, dims.rows, "A")
    _load(asm, rows)
    gates.load_gates(asm, given.raw)
    return two_stages(asm.program())


def build_state(dims: Dims, constants: Constants, slot: Slot, parts: int) -> Program:
    """States, from w and u: h and x of each chunk."""
    asm = Assembler(dims, constants, parts)
    values = dims.values
    given = place_gates(asm, rows=True)
    rows = _rows_of(asm, key=True, query=False, value=False)
    erased = room_for(asm, slot["w"], "w")
    free = asm.buffer("u", "L1", dims.rows * values * slot["u"].fractal, versions=2)
    state = place_state(asm, "blocked", STATE_SCALE, "planned")
    load_state(state)
    asm.section = "body"
    asm.stage = STATE
    assert given.factors is not None
    form = Form(asm, BLOCKED, rows, System(erased, erased), given.factors, state, False, True)
    put_parts(asm, state.parts, slot["h"], values, "h")
    product = asm.buffer("w S", "L0C", dims.rows * values * FULL)
    read_state(state, (Read(left_rows(asm, erased, "w"), product, "w S"),))
    x = less_read(form, whole_tile(asm, slot["u"], free, "u"), product)
    update = written(form, x)
    put_tile(asm, x, slot["x"], "x")
    update_state(state, update, decay_of(form))
    lower_factors(given, lower_gates(given), ("write",))
    asm.stage = LOAD
    take_parts(asm, slot["w"], erased, dims.keys, "w")
    take(asm, slot["u"], "workspace_to_l1", free, 0, dims.rows * values * slot["u"].fractal, "u")
    _load(asm, rows)
    gates.load_gates(asm, given.raw)
    asm.section = "finish"
    store_state(state)
    return asm.program()


def whole_tile(asm: Assembler, field: Field, source: Operand, label: str) -> Tile:
    """A tile of the slot from L1 to UB, as fp32."""
    rows, columns = asm.dims.rows, asm.dims.values
    tile = new_tile(asm, label, rows, columns, "blocked")
    size = rows * columns * field.fractal
    if field.parts == FP32:
        asm.emit("l1_to_ub", tile.place, source, size=size // UNIT, label=label)
        return tile
    halves = asm.buffer(f"{label} halves:UB", "UB", size)
    asm.emit("l1_to_ub", halves, source, size=size // UNIT, label=label)
    vector(asm, "to32", tile.place, halves, repeats=tile.repeats, strides=(8, 4, 0), label=label)
    return tile


def build_output(dims: Dims, constants: Constants, slot: Slot, parts: int) -> Program:
    """o of a chunk, from h and x."""
    asm = Assembler(dims, constants, parts)
    values = dims.values
    given = place_gates(asm, rows=True)
    rows = _rows_of(asm, key=True, query=True, value=False)
    state = State(asm, Operand(""), room_for(asm, slot["h"], "h"), "blocked", STATE_SCALE, 0)
    x = room_for(asm, slot["x"], "x")
    scores = place_system(asm).scores(asm)
    asm.section = "body"
    in_l1 = lower_gates(given)
    factors = lower_factors(given, in_l1, ("output",))
    _scores(asm, rows.query, rows.key, lower_ratios(given, in_l1), scores, "Q K^T")
    product = asm.buffer("Q S", "L0C", dims.rows * values * FULL)
    read_state(state, (Read(left_of(asm, rows.query, "Q"), product, "Q S"),))
    lower_output(asm, scores, x, product, factors)
    asm.stage = LOAD
    take_parts(asm, slot["h"], state.parts, values, "h")
    take_parts(asm, slot["x"], x, values, "x")
    _load(asm, rows)
    gates.load_gates(asm, given.raw)
    return two_stages(asm.program())


def build_fused(dims: Dims, constants: Constants, slot: Slot, parts: int, segment: Segment = "none") -> Program:
    """States and output from A: the products of the definition's read before the inverse is applied, nothing else handed on.

    segment: "none", the items are whole sequences; "first" and "later": of segments, which end with the state where the sequence
    does, and begin with the call's state or the one that the chunk before left.
    """
    asm = Assembler(dims, constants, parts)
    given = place_gates(asm, rows=True)
    system = place_system(asm)
    rows = _rows_of(asm, key=True, query=True, value=True, value_in="UB")
    state = place_state(asm, "blocked", STATE_SCALE, "planned")
    if segment == "later":
        begin_behind(state, slot)
    else:
        load_state(state)
    asm.section = "body"
    asm.stage = STATE
    assert given.factors is not None
    advance(Form(asm, BLOCKED, rows, system, given.factors, state, True, True), "planned")
    in_l1 = lower_gates(given)
    lower_factors(given, in_l1, ("output", "read", "write"))
    _scores(asm, rows.query, rows.key, lower_ratios(given, in_l1), system.scores(asm), "Q K^T")
    asm.stage = LOAD
    take_parts(asm, slot["A"], system.inverse, dims.rows, "A")
    _load(asm, rows)
    gates.load_gates(asm, given.raw)
    asm.section = "finish"
    store_state(state, last=segment != "none")
    return asm.program()


def build_summary(dims: Dims, constants: Constants, slot: Slot, parts: int, of: str) -> Program:
    """What a segment makes of a state: H of none (`of` "H"), M of the identity ("M", without values)."""
    asm = Assembler(dims, constants, parts)
    given = place_gates(asm, rows=True)
    inverse = room_for(asm, slot["A"], "A")
    rows = _rows_of(asm, key=True, query=False, value=of == "H", value_in="UB")
    state = place_state(asm, "blocked", STATE_SCALE, "planned")
    (begin_with_none if of == "H" else begin_with_identity)(state)
    asm.section = "body"
    asm.stage = STATE
    assert given.factors is not None
    form = Form(asm, BLOCKED, rows, System(inverse, inverse), given.factors, state, True, True)
    key_read = asm.buffer("K S", "L0C", dims.rows * dims.values * FULL)
    read_state(state, (Read(left_of(asm, rows.key, "K"), key_read, "K S"),))
    update_state(state, written(form, corrected_rows(form, key_read, values=of == "H")), decay_of(form))
    lower_factors(given, lower_gates(given), ("read", "write"))
    asm.stage = LOAD
    take_parts(asm, slot["A"], inverse, dims.rows, "A")
    _load(asm, rows)
    gates.load_gates(asm, given.raw)
    asm.section = "finish"
    end_in_slot(state, slot[of], of)
    return asm.program()
