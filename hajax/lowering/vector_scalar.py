"""The published system's form of a scalar decay: elementwise work on the vector unit, the state in fp32 in UB.

x = A (V - diag(e^G) K S);  o = scale (diag(e^G) Q S + P x);  S <- e^G_C S + K^T diag(beta e^(G_C - G)) x.
beta is a column factor of the ratios in A and P, as in the cube form. Operands that are not exact fp16 are split in UB.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from hajax import abi
from hajax.lowering import gates
from hajax.lowering.assembler import FULL, HALF, UNIT, Assembler, Constants, Dims, at
from hajax.lowering.system import Inputs, System, lower_inverse, place_system, rows_left, zero_above
from hajax.lowering.tiles import K_GROWS, L0B_PIECE, LEFT_MOVES, TRANSPOSE, Parts, load, load_parts, multiply, parts_in_l1, vector
from hajax.lowering.vector_gates import RowFactors, lower_row_factors, place_row_factors, place_sums
from hajax.lowering.vector_scores import lower_vector_scores
from hajax.lowering.vector_tiles import Layout, Tile, fetch, new_tile, scale_rows, split_tile
from hajax.plans.program import LOAD, STATE, Operand, Program

STATE_SCALE = 16.0  # the state is kept times this (numerics A4: its low parts stay above fp16's subnormals)
KEY_SCALE = 64.0  # likewise scaled keys, where they are multiplied before the state is read
SLICE = 32  # fractals of the state that are updated at a time

# "definition": the state's update stands before what reads the state for the output, so that a second version of it exists, in
# UB or, "spilled", in GM. "planned": it is last and in place.
Order = Literal["planned", "definition", "spilled"]


@dataclass(frozen=True, slots=True)
class Layouts:
    """Of each vector chain, which operators of the graph it is (passes.layouts) and where its tiles lie."""

    scores: Layout = "blocked"
    residual: Layout = "blocked"
    x: Layout = "blocked"
    output: Layout = "blocked"
    state: Layout = "blocked"


CHAINS: Mapping[str, tuple[str, ...]] = {
    "scores": ("ratio", "system", "scores", "split_scores"),
    "residual": ("write_rows", "residual", "split_residual"),
    "x": ("split_x", "end_rows", "split_x_end"),
    "output": ("output",),
    "state": ("split_state_in", "update"),
}


def layouts_of(operators: Mapping[str, Layout]) -> Layouts:
    """From the layout of each vector operator. Raises ValueError where those of one chain differ."""
    found = Layouts()
    for chain, names in CHAINS.items():
        chosen = {operators[name] for name in names if name in operators}
        if len(chosen) > 1:
            raise ValueError(f"layouts: expected one layout of {', '.join(names)}, got both")
        if chosen:
            found = replace(found, **{chain: chosen.pop()})
    return found


@dataclass(frozen=True, slots=True)
class _Form:
    """What all steps of the state share."""

    asm: Assembler
    layouts: Layouts
    inputs: Inputs
    value: Operand  # in UB as fp16, in the residual's layout; in L1 when keys are multiplied first
    system: System
    factors: RowFactors
    state: Operand  # in UB
    parts: Parts  # in L1, column blocks
    state_scale: float
    reordered: bool
    slice: int


def build(
    dims: Dims,
    constants: Constants,
    *,
    layouts: Mapping[str, Layout] | Layouts | None = None,
    order: Order = "planned",
    reordered: bool = True,
    state_scale: float = STATE_SCALE,
) -> Program:
    """The program of one item of one head.

    layouts: of each vector operator, or of chains. reordered False: A (diag(e^G) K) and A V first, then the state's read.
    """
    if dims.heads != 1 or dims.chunk != 64:
        raise ValueError(f"dims: expected 1 head and chunks of 64, got {dims.heads} and {dims.chunk}")
    asm = Assembler(dims, constants)
    basics = gates.place_basics(asm)
    raw, diagonals = gates.place_raw(asm)
    sums = place_sums(asm)
    system = place_system(asm)
    zero_above(asm, system)
    chosen = layouts if isinstance(layouts, Layouts) else layouts_of(layouts or {})
    form = _place(asm, chosen, system, state_scale, reordered, SLICE if order != "spilled" else SLICE // 2)
    _load_state(form)

    asm.section = "body"  # the state of chunk c before the loads of chunk c + 2, which take the same versions
    asm.stage = STATE
    if order == "planned":
        _advance(form)
    else:
        _advance_by_definition(form, spilled=order == "spilled")
    in_l1 = gates.lower_diagonals(asm, raw, diagonals)
    right = load(asm, "B", in_l1, size=4 * dims.rows, flags=TRANSPOSE, label="gate diagonals")
    _, ratios = gates.lower_ratios(asm, basics, right)
    read_scale = -1 / state_scale if reordered else -KEY_SCALE
    lower_row_factors(asm, basics, sums, in_l1, form.factors, state_scale=state_scale, read_scale=read_scale)
    lower_vector_scores(asm, form.inputs, ratios, system, form.layouts.scores)
    lower_inverse(asm, basics, system)
    _load_inputs(form)
    gates.load_gates(asm, raw)

    asm.section = "finish"
    _store_state(form)
    return asm.program()


def _tensor(name: str) -> int:
    return int(abi.table("tensors")[name])


def _place(asm: Assembler, layouts: Layouts, system: System, state_scale: float, reordered: bool, slice_: int) -> _Form:
    dims = asm.dims
    tiles = [asm.buffer(name, "L1", dims.rows * dims.keys * HALF, versions=2) for name in ("key", "query")]
    value = asm.buffer("value", "UB" if reordered else "L1", dims.rows * dims.values * HALF, versions=2)
    inputs = Inputs((tiles[0],), (tiles[1],), ())
    factors = place_row_factors(asm)
    count = dims.keys * dims.values
    state = asm.buffer("state", "UB", count * FULL, kept=True)
    parts = parts_in_l1(asm, "state", count, kept=True)
    return _Form(asm, layouts, inputs, value, system, factors, state, parts, state_scale, reordered, slice_)


def _load_inputs(form: _Form) -> None:
    asm = form.asm
    asm.stage = LOAD
    for name, tile in (("key", form.inputs.keys[0]), ("query", form.inputs.queries[0])):
        asm.emit("rows_to_l1", tile, count=asm.dims.keys, p=(_tensor(name), 0, 0), label=name)
    if form.reordered:
        blocked = int(form.layouts.residual == "blocked")
        asm.emit("rows_to_ub", form.value, count=asm.dims.values, p=(_tensor("value"), 0, 0, blocked), label="value")
    else:
        asm.emit("rows_to_l1", form.value, count=asm.dims.values, p=(_tensor("value"), 0, 0), label="value")


def _load_state(form: _Form) -> None:
    """Setup: the state from GM, times its scale, and its parts to L1."""
    asm, count = form.asm, form.asm.dims.keys * form.asm.dims.values
    blocked = int(form.layouts.state == "blocked")
    asm.emit("rows_to_ub", form.state, count=asm.dims.values, p=(_tensor("state_in"), 0, 0, blocked, 1), label="state in")
    scale = asm.scalar(form.state_scale)
    vector(asm, "muls32", form.state, form.state, repeats=count * 4, scalar=scale, label="state in")
    _split_state(form)


def _store_state(form: _Form) -> None:
    asm, count = form.asm, form.asm.dims.keys * form.asm.dims.values
    blocked = int(form.layouts.state == "blocked")
    scale = asm.scalar(1 / form.state_scale)
    vector(asm, "muls32", form.state, form.state, repeats=count * 4, scalar=scale, label="state out")
    place = (_tensor("state_out"), 0, 0, blocked, 1, 0, 0, 4)
    asm.emit("rows_from_ub", src0=form.state, count=asm.dims.values, p=place, label="state out")


@dataclass(frozen=True, slots=True)
class _Slice:
    """Some columns of a blocked state, some rows of a dense one: in both, bytes that follow one another."""

    row: int
    rows: int
    column: int
    columns: int
    offset: int  # bytes in UB

    @property
    def repeats(self) -> int:
        return self.rows * self.columns * 4


def _slices(form: _Form) -> list[_Slice]:
    keys, values = form.asm.dims.keys, form.asm.dims.values
    if form.layouts.state == "blocked":
        width = max(1, form.slice // keys)
        starts = range(0, values, width)
        return [_Slice(0, keys, start, min(width, values - start), start * keys * FULL) for start in starts]
    height = max(1, form.slice // values)
    starts = range(0, keys, height)
    return [_Slice(start, min(height, keys - start), 0, values, start * values * FULL) for start in starts]


def _parts_of(form: _Form, part: _Slice) -> Parts:
    return form.parts.from_fractal(part.column * form.asm.dims.keys + part.row)


def _copy(form: _Form, target: Operand, source: Operand, repeats: int, label: str) -> None:
    vector(form.asm, "muls32", target, source, repeats=repeats, scalar=form.asm.scalar(1.0), label=label)


def _split_state(form: _Form) -> None:
    """Parts of the state as it is, slice by slice: what a split uses up is a copy."""
    for part in _slices(form):
        tile = new_tile(form.asm, "state slice", part.rows, part.columns, form.layouts.state)
        _copy(form, tile.place, at(form.state, part.offset), part.repeats, "state slice")
        split_tile(form.asm, tile, _parts_of(form, part), pitch=form.asm.dims.keys, label="state")


def _advance(form: _Form) -> None:
    """Both reads of the state, then the correction, the update's product, the output; the update last and in place."""
    asm = form.asm
    rows, values = asm.dims.rows, asm.dims.values
    query_read = asm.buffer("Q S", "L0C", rows * values * FULL)
    if form.reordered:
        key_read = asm.buffer("K S", "L0C", rows * values * FULL)
        _read(form, (("K", form.inputs.keys[0], key_read), ("Q", form.inputs.queries[0], query_read)))
        x = _correct(form, key_read)
    else:
        _read(form, (("Q", form.inputs.queries[0], query_read),))
        x = _correct_with_keys(form)
    update = _written(form, x)
    _output(form, x, query_read)
    for part in _slices(form):
        _update_slice(form, update, part)


def _advance_by_definition(form: _Form, *, spilled: bool) -> None:
    """Parts, correction, a second version of the state, then what reads the first one for the output."""
    asm = form.asm
    rows, values = asm.dims.rows, asm.dims.values
    _split_state(form)
    if form.reordered:
        key_read = asm.buffer("K S", "L0C", rows * values * FULL)
        _read(form, (("K", form.inputs.keys[0], key_read),))
        x = _correct(form, key_read)
    else:
        x = _correct_with_keys(form)
    update = _written(form, x)
    following = _spill(form, update) if spilled else _following(form, update)
    query_read = asm.buffer("Q S", "L0C", rows * values * FULL)
    _read(form, (("Q", form.inputs.queries[0], query_read),))
    _output(form, x, query_read)
    if spilled:
        _fetch_back(form, following)
    else:
        _copy(form, form.state, following, asm.dims.keys * values * 4, "state")


def _following(form: _Form, update: Operand) -> Operand:
    """The next state beside this one."""
    asm = form.asm
    following = asm.buffer("next state", "UB", asm.dims.keys * asm.dims.values * FULL)
    for part in _slices(form):
        into = Tile(at(following, part.offset), part.rows, part.columns, form.layouts.state)
        _decay(form, _fetch_slice(form, update, part, into), part)
    return following


def spill_bytes(dims: Dims) -> int:
    """Of the workspace, for a head and chunk, in the order "spilled"."""
    return dims.keys * dims.values * FULL


def _spill(form: _Form, update: Operand) -> Operand:
    """The next state to GM through one window, which orders what goes out before what comes back."""
    asm, parts = form.asm, _slices(form)
    window = asm.buffer("spilled state", "UB", max(part.rows * part.columns for part in parts) * FULL)
    for part in parts:
        tile = _fetch_slice(form, update, part, Tile(window, part.rows, part.columns, form.layouts.state))
        _decay(form, tile, part)
        asm.emit("workspace_from_ub", src0=window, size=tile.repeats * 8, constant=part.offset // UNIT, label="spilled state out")
    return window


def _fetch_back(form: _Form, window: Operand) -> None:
    for part in _slices(form):
        size = part.repeats * 8
        form.asm.emit("workspace_to_ub", window, size=size, constant=part.offset // UNIT, label="spilled state in")
        _copy(form, at(form.state, part.offset), window, part.repeats, "state")


def _read(form: _Form, reads: tuple[tuple[str, Operand, Operand], ...]) -> None:
    """Products of a chunk's rows with the state, whose parts each piece loads once for all of them."""
    asm = form.asm
    rows, keys, values = asm.dims.rows, asm.dims.keys, asm.dims.values
    lefts = [(rows_left(asm, tile, name), result, f"{name} S") for name, tile, result in reads]
    width = max(1, L0B_PIECE // keys)
    for start in range(0, values, width):
        size = min(width, values - start)
        piece = _right(form, form.parts.from_fractal(start * keys), keys, size, "S")
        for left, result, label in lefts:
            multiply(asm, at(result, start * rows * FULL), left, piece, m=rows, n=size, k=keys, overwrite=True, label=label)


def _right(form: _Form, source: Parts, depth: int, columns: int, label: str) -> Parts:
    """Column blocks of `depth` blocks as right operand."""
    return load_parts(form.asm, "B", source, count=depth, size=columns, inner=depth, group=1, flags=TRANSPOSE, label=label)


def _correct(form: _Form, key_read: Operand) -> Tile:
    """x = A (V - diag(e^G) K S)."""
    asm, layout = form.asm, form.layouts.residual
    rows, values = asm.dims.rows, asm.dims.values
    residual = fetch(asm, key_read, rows, values, layout, label="K S")
    scale_rows(asm, "mul32", residual, residual, form.factors.read, label="residual")
    place, strides = residual.place, (8, 4, 0)
    vector(asm, "axpy16", place, form.value, repeats=residual.repeats, strides=strides, scalar=asm.scalar(1.0), label="residual")
    parts = parts_in_l1(asm, "residual", rows * values)
    split_tile(asm, residual, parts, label="residual")
    solved = _solved(form, _right(form, parts, rows, values, "residual"), values, "x")
    return fetch(asm, solved, rows, values, form.layouts.x, by_rows=True, label="x")


def _solved(form: _Form, right: Parts | Operand, columns: int, label: str) -> Operand:
    """A times a right operand, in L0C, without what lies above A's diagonal."""
    asm, rows = form.asm, form.asm.dims.rows
    left = load_parts(asm, "A", form.system.inverse, size=rows * rows, label="A")
    tile = asm.buffer(label, "L0C", rows * columns * FULL)
    multiply(
        asm,
        tile,
        left,
        right,
        count=rows,
        n=columns,
        move_tile=columns,
        move_left=rows,
        mode=K_GROWS,
        overwrite=True,
        label=label,
    )
    return tile


def _correct_with_keys(form: _Form) -> Tile:
    """x = A V - (A diag(e^G) K) S: as the definition has it, one product more, and none of it before the inverse is there."""
    asm, layout = form.asm, form.layouts.x
    rows, keys, values = asm.dims.rows, asm.dims.keys, asm.dims.values
    halves = asm.buffer("key:UB", "UB", rows * keys * HALF)
    asm.emit("l1_to_ub", halves, form.inputs.keys[0], size=rows * keys * HALF // UNIT, label="key")
    key = new_tile(asm, "e^G K", rows, keys, "blocked")
    vector(asm, "to32", key.place, halves, repeats=key.repeats, strides=(8, 4, 0), label="e^G K")
    scale_rows(asm, "mul32", key, key, form.factors.read, label="e^G K")
    scaled = parts_in_l1(asm, "e^G K", rows * keys)
    split_tile(asm, key, scaled, label="e^G K")
    written = _solved(form, _right(form, scaled, rows, keys, "e^G K"), keys, "w")
    value = load(asm, "B", form.value, count=rows, size=values, inner=rows, group=1, flags=TRANSPOSE, label="V")
    free = _solved(form, value, values, "u")
    erased = parts_in_l1(asm, "w", rows * keys)
    split_tile(asm, fetch(asm, written, rows, keys, "blocked", by_rows=True, label="w"), erased, label="w")
    left = load_parts(asm, "A", erased, count=rows, size=keys, inner=rows, group=1, label="w")
    product = asm.buffer("w S", "L0C", rows * values * FULL)
    width = max(1, L0B_PIECE // keys)
    for start in range(0, values, width):
        size = min(width, values - start)
        piece = _right(form, form.parts.from_fractal(start * keys), keys, size, "S")
        multiply(asm, at(product, start * rows * FULL), left, piece, m=rows, n=size, k=keys, overwrite=True, label="w S")
    x = fetch(asm, free, rows, values, layout, by_rows=True, label="u")
    read = fetch(asm, product, rows, values, layout, label="w S")
    scale = asm.scalar(1 / (KEY_SCALE * form.state_scale))
    vector(asm, "axpy32", x.place, read.place, repeats=x.repeats, scalar=scale, label="x")
    return x


def _written(form: _Form, x: Tile) -> Operand:
    """K^T diag(beta e^(G_C - G)) x in L0C as column blocks: keys are exact, so two products."""
    asm = form.asm
    rows, keys, values = asm.dims.rows, asm.dims.keys, asm.dims.values
    scaled = new_tile(asm, "written x", rows, values, x.layout)
    scale_rows(asm, "mul32", scaled, x, form.factors.write, label="written x")
    parts = parts_in_l1(asm, "written x", rows * values)
    split_tile(asm, scaled, parts, label="written x")
    left = load(asm, "A", form.inputs.keys[0], size=rows * keys, flags=TRANSPOSE, label="K^T")
    right = _right(form, parts, rows, values, "written x")
    tile = asm.buffer("update", "L0C", keys * values * FULL)
    multiply(asm, tile, left, right, m=keys, n=values, k=rows, overwrite=True, label="K^T x")
    return tile


def _output(form: _Form, x: Tile, query_read: Operand) -> None:
    """o = scale (diag(e^G) Q S + P x), to GM; x is used up."""
    asm, layout = form.asm, form.layouts.output
    rows, values, triangle = asm.dims.rows, asm.dims.values, asm.dims.triangle
    parts = parts_in_l1(asm, "x", rows * values)
    split_tile(asm, x, parts, label="x")
    left = load_parts(asm, "A", form.system.scores(asm), size=triangle, label="P")
    tile = asm.buffer("P x", "L0C", rows * values * FULL)
    multiply(
        asm, tile, left, _right(form, parts, rows, values, "x"), count=rows, n=values, move_tile=values,
        mode=K_GROWS | LEFT_MOVES, overwrite=True, label="P x",
    )  # fmt: skip
    read = fetch(asm, query_read, rows, values, layout, label="Q S")
    output = fetch(asm, tile, rows, values, layout, by_rows=True, label="P x")
    scale_rows(asm, "mla32", output, read, form.factors.output, label="o")
    vector(asm, "muls32", output.place, output.place, repeats=output.repeats, scalar=0, label="o")
    staged = asm.buffer("o:UB", "UB", rows * values * HALF)
    vector(asm, "to16", staged, output.place, repeats=output.repeats, strides=(4, 8, 0), label="o")
    place = (_tensor("output"), 0, 0, int(layout == "blocked"), 0, 0, 0, 2)
    asm.emit("rows_from_ub", src0=staged, count=values, p=place, label="o")


def _fetch_slice(form: _Form, update: Operand, part: _Slice, into: Tile | None = None) -> Tile:
    keys, layout = form.asm.dims.keys, form.layouts.state
    source = at(update, (part.column * keys + part.row) * FULL)
    return fetch(form.asm, source, part.rows, part.columns, layout, pitch=keys, into=into, label="state slice")


def _decay(form: _Form, tile: Tile, part: _Slice) -> None:
    """e^G_C times a slice of the state, added to the tile."""
    vector(
        form.asm, "mla32", tile.place, at(form.state, part.offset), form.factors.decay, repeats=tile.repeats, blocks=(1, 1, 0),
        strides=(8, 8, 0), label="decayed state",
    )  # fmt: skip


def _update_slice(form: _Form, update: Operand, part: _Slice) -> None:
    """The new state in place of the old one, and from the same copy its parts for the next chunk."""
    tile = _fetch_slice(form, update, part)
    _decay(form, tile, part)
    _copy(form, at(form.state, part.offset), tile.place, part.repeats, "state")
    split_tile(form.asm, tile, _parts_of(form, part), pitch=form.asm.dims.keys, label="state")
