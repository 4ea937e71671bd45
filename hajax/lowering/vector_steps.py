"""Steps of the state stage that the vector forms of all decays share."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from hajax import abi
from hajax.lowering.assembler import FULL, HALF, Assembler
from hajax.lowering.tiles import K_GROWS, LEFT_MOVES, Matrix, Parts, load_parts, multiply, parts_in_l1, vector
from hajax.lowering.vector_state import (
    Decay,
    Order,
    State,
    copy_state,
    fetch_back,
    following_state,
    right_parts,
    spill_state,
    update_state,
)
from hajax.lowering.vector_tiles import Layout, Tile, fetch, new_tile, split_tile
from hajax.plans.program import LOAD, Operand


@dataclass(frozen=True, slots=True)
class Layouts:
    """Of each vector chain, where its tiles lie."""

    rows: Layout = "blocked"
    scores: Layout = "blocked"
    residual: Layout = "blocked"
    x: Layout = "blocked"
    output: Layout = "blocked"
    state: Layout = "blocked"


DENSE = Layouts("dense", "dense", "dense", "dense", "dense", "dense")

# The operators of the graph (passes.layouts) that make up a chain.
CHAINS: Mapping[str, tuple[str, ...]] = {
    "rows": ("decays", "key_rows", "query_rows", "split_k_start", "split_k_end", "split_q_start"),
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


def tensor(name: str) -> int:
    """A tensor's number."""
    return int(abi.table("tensors")[name])


@dataclass(frozen=True, slots=True)
class Rows:
    """A chunk's rows as they came: keys and queries in L1 as column blocks, values in UB in the residual's layout or in L1."""

    key: Operand
    query: Operand
    value: Operand
    value_in: str


def place_rows(asm: Assembler, value_in: str, versions: int = 2) -> Rows:
    """Setup: room. versions: of keys and queries, where the map stage alone reads them."""
    dims = asm.dims
    key, query = (asm.buffer(name, "L1", dims.rows * dims.keys * HALF, versions=versions) for name in ("key", "query"))
    return Rows(key, query, asm.buffer("value", value_in, dims.rows * dims.values * HALF, versions=2), value_in)


def load_rows(asm: Assembler, rows: Rows, layout: Layout, *, keys: bool = True, values: bool = True) -> None:
    """Load steps of keys with queries, and of values. layout: of values in UB."""
    asm.stage = LOAD
    for name, tile in (("key", rows.key), ("query", rows.query)) if keys else ():
        asm.emit("rows_to_l1", tile, count=asm.dims.keys, p=(tensor(name), 0, 0), label=name)
    if not values:
        return
    opcode, more = ("rows_to_ub", (int(layout == "blocked"),)) if rows.value_in == "UB" else ("rows_to_l1", ())
    asm.emit(opcode, rows.value, count=asm.dims.values, p=(tensor("value"), 0, 0, *more), label="value")


def solve(asm: Assembler, inverse: Parts, right: Matrix, columns: int, label: str) -> Operand:
    """A times a right operand, in L0C row block by row block, without what lies above A's diagonal."""
    rows = asm.dims.rows
    left = load_parts(asm, "A", inverse, size=rows * rows, label="A")
    tile = asm.buffer(label, "L0C", rows * columns * FULL)
    shape = {"count": rows, "n": columns, "move_tile": columns, "move_left": rows, "mode": K_GROWS}
    multiply(asm, tile, left, right, overwrite=True, label=label, **shape)
    return tile


def corrected(asm: Assembler, inverse: Parts, residual: Tile, layout: Layout) -> Tile:
    """x = A times the residual, which is used up."""
    rows, values = residual.rows, residual.columns
    parts = parts_in_l1(asm, "residual", rows * values)
    split_tile(asm, residual, parts, label="residual")
    solved = solve(asm, inverse, right_parts(asm, parts, rows, values, "residual"), values, "x")
    return fetch(asm, solved, rows, values, layout, by_rows=True, label="x")


def plain_values(asm: Assembler, halves: Operand, layout: Layout) -> Tile:
    """Values in UB as fp32: x of mechanisms that correct nothing."""
    tile = new_tile(asm, "x", asm.dims.rows, asm.dims.values, layout)
    vector(asm, "to32", tile.place, halves, repeats=tile.repeats, strides=(8, 4, 0), label="x")
    return tile


def attend(asm: Assembler, scores: Parts, right: Parts, tile: Operand, *, overwrite: bool) -> None:
    """Adds P x to a tile of row blocks, from packed scores."""
    left = load_parts(asm, "A", scores, size=asm.dims.triangle, label="P")
    multiply(
        asm, tile, left, right, count=asm.dims.rows, n=asm.dims.values, move_tile=asm.dims.values, mode=K_GROWS | LEFT_MOVES,
        overwrite=overwrite, label="P x",
    )  # fmt: skip


def store_output(asm: Assembler, output: Tile) -> None:
    """Rounded once, to GM."""
    staged = asm.buffer("o:UB", "UB", output.rows * output.columns * HALF)
    vector(asm, "to16", staged, output.place, repeats=output.repeats, strides=(4, 8, 0), label="o")
    place = (tensor("output"), 0, 0, int(output.layout == "blocked"), 0, 0, 0, 2)
    asm.emit("rows_from_ub", src0=staged, count=output.columns, p=place, label="o")


def finish_chunk(state: State, order: Order, update: Operand, decay: Decay, output: Callable[[], None]) -> None:
    """The update, and what still reads the old state for the output: in the order that was chosen."""
    if order == "planned":
        output()
        update_state(state, update, decay)
    elif order == "definition":
        following = following_state(state, update, decay)
        output()
        copy_state(state, state.place, following, state.asm.dims.keys * state.asm.dims.values * 4, "state")
    else:
        window = spill_state(state, update, decay)
        output()
        fetch_back(state, window)
