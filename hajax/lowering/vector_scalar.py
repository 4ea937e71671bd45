"""The published system's form of a scalar decay: elementwise work on the vector unit, the state in fp32 in UB.

x = A (V - diag(e^G) K S);  o = scale (diag(e^G) Q S + P x);  S <- e^G_C S + K^T diag(beta e^(G_C - G)) x.
beta is a column factor of the ratios in A and P, as in the cube form. Operands that are not exact fp16 are split in UB.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hajax.lowering import gates
from hajax.lowering.assembler import FULL, HALF, UNIT, Assembler, Constants, Dims, at
from hajax.lowering.cube_scalar import Kind
from hajax.lowering.exchange import exchanged_bytes, export, import_back, two_stages
from hajax.lowering.strengths import Strengths
from hajax.lowering.system import Inputs, System, lower_inverse, place_system, zero_above
from hajax.lowering.tiles import TRANSPOSE, Matrix, Parts, load, load_parts, multiply, parts_in_l1, vector
from hajax.lowering.vector_gates import RowFactors, lower_row_factors, place_row_factors, place_sums
from hajax.lowering.vector_scores import lower_vector_scores
from hajax.lowering.vector_state import (
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
    solve,
    store_output,
)
from hajax.lowering.vector_tiles import Layout, Tile, fetch, new_tile, scale_rows, split_tile
from hajax.plans.program import STATE, Operand, Program

STATE_SCALE = 16.0  # the state is kept times this (numerics A4: its low parts stay above fp16's subnormals)
KEY_SCALE = 64.0  # likewise scaled keys, where they are multiplied before the state is read


@dataclass(frozen=True, slots=True)
class Form:
    """What all steps of the state stage share."""

    asm: Assembler
    layouts: Layouts
    rows: Rows
    system: System
    factors: RowFactors
    state: State
    reordered: bool
    delta: bool


def build(
    dims: Dims,
    constants: Constants,
    *,
    delta: bool = True,
    layouts: Mapping[str, Layout] | Layouts | None = None,
    order: Order = "planned",
    reordered: bool = True,
    state_scale: float = STATE_SCALE,
    kind: Kind = "whole",
    parts: int = 2,
) -> Program:
    """The program of one item of one head. kind: as of cube_scalar.build; a map is the same in every order.

    delta: whether the state corrects what is written to it. layouts: of each vector operator, or of chains. reordered False:
    A (diag(e^G) K) and A V first, then the state's read. parts: as of Assembler.
    """
    if dims.heads != 1 or dims.chunk != 64:
        raise ValueError(f"dims: expected 1 head and chunks of 64, got {dims.heads} and {dims.chunk}")
    asm = Assembler(dims, constants, parts)
    chosen = layouts if isinstance(layouts, Layouts) else layouts_of(layouts or {})
    basics = gates.place_basics(asm)
    raw, diagonals = gates.place_raw(asm)
    sums = place_sums(asm)
    system = place_system(asm)
    if delta:
        zero_above(asm, system)
    rows = place_rows(asm, "UB" if reordered else "L1")
    factors = place_row_factors(asm)
    shared = _exchanged(asm, system, delta)
    form = None
    if kind != "map":
        behind = exchanged_bytes(asm, shared) if kind == "state" else 0
        state = place_state(asm, chosen.state, state_scale, order, behind)
        form = Form(asm, chosen, rows, system, factors, state, reordered, delta)
        load_state(state)

    asm.section = "body"  # the state of chunk c before the loads of chunk c + 2, which take the same versions
    asm.stage = STATE
    if form is not None:
        advance(form, order)
    strengths = Strengths(at(raw, dims.chunk * 4))
    in_l1 = gates.lower_diagonals(asm, raw, diagonals, strengths)
    if form is not None:
        read_scale = -1 / state_scale if reordered else -KEY_SCALE
        lower_row_factors(asm, basics, sums, in_l1, factors, state_scale=state_scale, read_scale=read_scale)
    if kind != "state":
        right = load(asm, "B", in_l1, size=4 * dims.rows, flags=TRANSPOSE, label="gate diagonals")
        _, ratios = gates.lower_ratios(asm, basics, right, in_l1, strengths)
        lower_vector_scores(asm, Inputs((rows.key,), (rows.query,), ()), ratios, system, chosen.scores, delta=delta)
        if delta:
            lower_inverse(asm, basics, system)
    if kind == "map":
        export(asm, shared)
    if kind == "state":
        import_back(asm, shared)
    load_rows(asm, rows, chosen.residual if delta else chosen.x, values=form is not None)
    gates.load_gates(asm, raw)

    asm.section = "finish"
    if form is not None:
        store_state(form.state)
    return two_stages(asm.program()) if kind == "map" else asm.program()


def slot_bytes(dims: Dims, delta: bool, order: Order = "planned", parts: int = 2) -> int:
    """Bytes of a head's chunk that a map launch leaves, and behind them of a state that is spilled."""
    asm = Assembler(Dims(dims.chunk, dims.key_dim, dims.columns, 1, False), Constants(), parts)
    return exchanged_bytes(asm, _exchanged(asm, place_system(asm), delta)) + (spill_bytes(dims) if order == "spilled" else 0)


def _exchanged(asm: Assembler, system: System, delta: bool) -> tuple[Parts, ...]:
    """What the state stage reads of L1."""
    return (system.triangles, system.inverse) if delta else (system.scores(asm),)


def advance(form: Form, order: Order) -> None:
    """Planned: both reads of the state, the correction, the update's product, the output, the update. By definition: the
    state's parts, one read, the correction, the update into a second version, the other read, the output.
    """
    asm = form.asm
    size = asm.dims.rows * asm.dims.values * FULL
    query_read = asm.buffer("Q S", "L0C", size)
    query = (Read(left_of(asm, form.rows.query, "Q"), query_read, "Q S"),)
    key_read = Operand("")
    key: tuple[Read, ...] = ()
    if form.delta and form.reordered:
        key_read = asm.buffer("K S", "L0C", size)
        key = (Read(left_of(asm, form.rows.key, "K"), key_read, "K S"),)
    if order == "planned":
        read_state(form.state, (*key, *query))
    else:
        split_state(form.state)
        if key:
            read_state(form.state, key)
    x = _x(form, key_read)
    update = written(form, x)

    def output() -> None:
        if order != "planned":
            read_state(form.state, query)
        _output(form, x, query_read)

    finish_chunk(form.state, order, update, decay_of(form), output)


def decay_of(form: Form) -> Decay:
    """Adds what e^G_C leaves of the old state."""

    def decay(tile: Tile, part: Slice) -> None:
        vector(
            form.asm, "mla32", tile.place, at(form.state.place, part.offset), form.factors.decay, repeats=tile.repeats,
            blocks=(1, 1, 0), strides=(8, 8, 0), label="decayed state",
        )  # fmt: skip

    return decay


def left_of(asm: Assembler, tile: Operand, label: str) -> Callable[[int, int], Matrix]:
    """Some key blocks of a tile of column blocks as left operand."""
    rows = asm.dims.rows

    def load_blocks(first: int, size: int) -> Matrix:
        source = at(tile, first * rows * HALF)
        return load(asm, "A", source, count=rows, size=size, inner=rows, group=1, label=label)

    return load_blocks


def _x(form: Form, key_read: Operand) -> Tile:
    if not form.delta:
        return plain_values(form.asm, form.rows.value, form.layouts.x)
    return corrected_rows(form, key_read) if form.reordered else _correct_with_keys(form)


def corrected_rows(form: Form, key_read: Operand, *, values: bool = True) -> Tile:
    """x = A (V - diag(e^G) K S), or without V."""
    asm, one = form.asm, form.asm.scalar(1.0)
    residual = fetch(asm, key_read, asm.dims.rows, asm.dims.values, form.layouts.residual, label="K S")
    scale_rows(asm, "mul32", residual, residual, form.factors.read, label="residual")
    if values:
        vector(
            asm, "axpy16", residual.place, form.rows.value, repeats=residual.repeats, strides=(8, 4, 0), scalar=one,
            label="residual",
        )  # fmt: skip
    return corrected(asm, form.system.inverse, residual, form.layouts.x)


def _correct_with_keys(form: Form) -> Tile:
    """x = A V - (A diag(e^G) K) S: as the definition has it, one product more, and none of it before the inverse is there."""
    asm, layout = form.asm, form.layouts.x
    rows, keys, values = asm.dims.rows, asm.dims.keys, asm.dims.values
    erased, free = lower_erased(asm, form.rows, form.system.inverse, form.factors)
    parts = parts_in_l1(asm, "w", rows * keys)
    split_tile(asm, fetch(asm, erased, rows, keys, "blocked", by_rows=True, label="w"), parts, label="w")
    product = asm.buffer("w S", "L0C", rows * values * FULL)
    read_state(form.state, (Read(left_rows(asm, parts, "w"), product, "w S"),))
    return less_read(form, fetch(asm, free, rows, values, layout, by_rows=True, label="u"), product)


def lower_erased(asm: Assembler, source: Rows, inverse: Parts, factors: RowFactors) -> tuple[Operand, Operand]:
    """w = A diag(e^G) K times the factors' scale, and u = A V, in L0C row block by row block; keys and values are in L1."""
    rows, keys, values = asm.dims.rows, asm.dims.keys, asm.dims.values
    halves = asm.buffer("key:UB", "UB", rows * keys * HALF)
    asm.emit("l1_to_ub", halves, source.key, size=rows * keys * HALF // UNIT, label="key")
    key = new_tile(asm, "e^G K", rows, keys, "blocked")
    vector(asm, "to32", key.place, halves, repeats=key.repeats, strides=(8, 4, 0), label="e^G K")
    scale_rows(asm, "mul32", key, key, factors.read, label="e^G K")
    scaled = parts_in_l1(asm, "e^G K", rows * keys)
    split_tile(asm, key, scaled, label="e^G K")
    erased = solve(asm, inverse, right_parts(asm, scaled, rows, keys, "e^G K"), keys, "w")
    value = load(asm, "B", source.value, count=rows, size=values, inner=rows, group=1, flags=TRANSPOSE, label="V")
    return erased, solve(asm, inverse, value, values, "u")


def less_read(form: Form, x: Tile, product: Operand) -> Tile:
    """u - w S, in u's place; w has a scale of -KEY_SCALE."""
    asm = form.asm
    read = fetch(asm, product, asm.dims.rows, asm.dims.values, x.layout, label="w S")
    scale = asm.scalar(1 / (KEY_SCALE * form.state.scale))
    vector(asm, "axpy32", x.place, read.place, repeats=x.repeats, scalar=scale, label="x")
    return x


def left_rows(asm: Assembler, tile: Parts, label: str) -> Callable[[int, int], Matrix]:
    """Some key blocks of a tile of column blocks in parts as left operand."""
    rows = asm.dims.rows

    def load_blocks(first: int, size: int) -> Matrix:
        source = tile.from_fractal(first * rows)
        return load_parts(asm, "A", source, count=rows, size=size, inner=rows, group=1, label=label)

    return load_blocks


def written(form: Form, x: Tile) -> Operand:
    """K^T diag(beta e^(G_C - G)) x in L0C as column blocks: keys are exact, so two products."""
    asm = form.asm
    rows, keys, values = asm.dims.rows, asm.dims.keys, asm.dims.values
    scaled = new_tile(asm, "written x", rows, values, x.layout)
    scale_rows(asm, "mul32", scaled, x, form.factors.write, label="written x")
    parts = parts_in_l1(asm, "written x", rows * values)
    split_tile(asm, scaled, parts, label="written x")
    left = load(asm, "A", form.rows.key, size=rows * keys, flags=TRANSPOSE, label="K^T")
    right = right_parts(asm, parts, rows, values, "written x")
    tile = asm.buffer("update", "L0C", keys * values * FULL)
    multiply(asm, tile, left, right, m=keys, n=values, k=rows, overwrite=True, label="K^T x")
    return tile


def _output(form: Form, x: Tile, query_read: Operand) -> None:
    """o = scale (diag(e^G) Q S + P x), to GM; x is used up."""
    parts = parts_in_l1(form.asm, "x", x.rows * x.columns)
    split_tile(form.asm, x, parts, label="x")
    lower_output(form.asm, form.system.scores(form.asm), parts, query_read, form.factors, form.layouts.output)


def lower_output(
    asm: Assembler, scores: Parts, x: Parts, query_read: Operand, factors: RowFactors, layout: Layout = "blocked"
) -> None:
    """The same from the parts of x in L1."""
    rows, values = asm.dims.rows, asm.dims.values
    tile = asm.buffer("P x", "L0C", rows * values * FULL)
    attend(asm, scores, right_parts(asm, x, rows, values, "x"), tile, overwrite=True)
    read = fetch(asm, query_read, rows, values, layout, label="Q S")
    output = fetch(asm, tile, rows, values, layout, by_rows=True, label="P x")
    scale_rows(asm, "mla32", output, read, factors.output, label="o")
    vector(asm, "muls32", output.place, output.place, repeats=output.repeats, scalar=0, label="o")
    store_output(asm, output)
