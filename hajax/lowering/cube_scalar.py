"""The cube dataflow of a scalar decay: states, splits and row scalings as products; the vector unit only copies, exp and masks.

x = A (V - diag(e^G) K S);  o = diag(scale e^G) Q S + P x;  S <- e^G_C S + K^T Y, Y = diag(beta e^(G_C - G)) x.
Numerics A5, with the decay e^G_C as a split diagonal operand instead of a scale carried beside the state. K stays exact.
"""

import itertools
from typing import Literal

import numpy as np

from hajax import abi
from hajax.lowering import gates as gates_module
from hajax.lowering.assembler import FULL, HALF, UNIT, Assembler, Constants, Dims, at
from hajax.lowering.exchange import exchanged_bytes, export, import_back, two_stages
from hajax.lowering.gates import CHUNK_DECAY, OUTPUT, READ, VALUE, WRITE, Basics, factor_blocks
from hajax.lowering.system import (
    Inputs,
    System,
    inverse_pitch,
    key_and_query_rows,
    lower_diagonal_inverses,
    lower_merges,
    lower_scores,
    place_system,
    with_identity,
    zero_above,
)
from hajax.lowering.tiles import (
    K_GROWS,
    LEFT_MOVES,
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

SPLIT_PIECE = 64  # fractals of a high part in L0B at a time: fewer steps are worth half of L0B
OUTPUT_PIECE = 2  # column blocks of an output to GM at a time
STATE_PIECE = 32  # fractals of the state in L0B at a time, of each part
STATE_SCALE = 16.0  # the state is kept times this (numerics A4: its low parts stay above fp16's subnormals)


Kind = Literal["whole", "map", "state"]


def build(
    dims: Dims,
    constants: Constants,
    *,
    delta: bool = True,
    strengths: int = 1,
    kind: Kind = "whole",
    state_scale: float = STATE_SCALE,
) -> Program:
    """The program of one item: `dims.heads` heads of `dims.columns` state columns.

    strengths 2: values have row factors, too (hajax.lowering.strengths). kind map: leaves what needs no state in the workspace;
    state: begins with that; both for one head.
    """
    assert kind == "whole" or dims.heads == 1
    asm = Assembler(dims, constants)
    basics = gates_module.place_basics(asm)
    gate_buffers = gates_module.place_gates(asm, state_scale, strengths) if kind != "state" else None
    factors = gate_buffers.factors if gate_buffers is not None else gates_module.place_factors(asm, strengths)
    blocks = factor_blocks(strengths)
    system = place_system(asm)
    if delta:
        zero_above(asm, system)
        if kind != "state":
            system = with_identity(asm, basics, system)
    inputs = _place_inputs(asm)
    identity = _place_identity(asm) if strengths == 1 else None
    shared = _between_launches(asm, system, factors, delta)
    state = parts_in_l1(asm, "state", dims.heads * dims.keys * dims.values, kept=True)
    if kind != "map":
        for head in range(dims.heads):
            _load_state(asm, basics, state, head, state_scale)

    asm.section = "body"  # the state of chunk c before the loads of chunk c + 2, which take the same versions
    if delta and kind == "whole":  # in the shadow of the state's read
        lower_merges(asm, basics, system, stage=STATE)
    if kind != "map":
        for head in range(dims.heads):
            lefts = _readers(asm, inputs, dims.key_head(head), delta)
            _advance(asm, basics, identity, inputs, system, factors.from_fractal(head * blocks), state, head, lefts, delta)
    if gate_buffers is not None:
        ratios = gates_module.lower_gates(asm, basics, gate_buffers)
        lower_scores(asm, basics, inputs, ratios, system, delta)
        if delta:
            lower_diagonal_inverses(asm, basics, system)
        if delta and kind == "map":
            lower_merges(asm, basics, system)
    if kind == "map":
        export(asm, shared)
    if kind == "state":
        import_back(asm, shared)
    _load_inputs(asm, inputs, values=kind != "map")
    if gate_buffers is not None:
        gates_module.load_gates(asm, gate_buffers.raw, strengths)

    asm.section = "finish"
    if kind != "map":
        for head in range(dims.heads):
            _store_state(asm, basics, state, head, state_scale)
    return asm.program() if kind == "whole" else two_stages(asm.program())


def _between_launches(asm: Assembler, system: System, factors: Parts, delta: bool) -> tuple[Parts, ...]:
    """What the state stage reads of the map's, by its buffers in L1."""
    return (system.scores(asm), factors, system.inverse) if delta else (system.scores(asm), factors)


def slot_bytes(dims: Dims, delta: bool, strengths: int = 1) -> int:
    """Bytes of a head's chunk that a map launch leaves."""
    asm = Assembler(Dims(dims.chunk, dims.key_dim, dims.columns, 1, False), Constants())
    return exchanged_bytes(asm, _between_launches(asm, place_system(asm), gates_module.place_factors(asm, strengths), delta))


def _place_identity(asm: Assembler) -> Operand:
    """Setup: a fractal in L0A."""
    source = asm.buffer("identity", "L1", HALF)
    constant = asm.constants.place(np.eye(16, dtype=np.float16))
    asm.emit("constant_to_l1", source, constant=constant, size=HALF // UNIT, label="identity")
    return load(asm, "A", source, target=asm.buffer("identity:A", "L0A", HALF, kept=True), label="identity")


def _tensor(name: str) -> int:
    return int(abi.table("tensors")[name])


def _place_inputs(asm: Assembler) -> Inputs:
    dims = asm.dims
    size = dims.rows * dims.keys * HALF
    both = [asm.buffer("key, query", "L1", 2 * size, versions=2) for _ in dims.key_heads]
    keys, queries = tuple(both), tuple(at(tile, size) for tile in both)
    values = tuple(asm.buffer("value", "L1", dims.rows * dims.values * HALF, versions=2) for _ in range(dims.heads))
    return Inputs(keys, queries, values)


def _load_inputs(asm: Assembler, inputs: Inputs, *, values: bool) -> None:
    asm.stage = LOAD
    for name, tiles, blocks in (
        ("key", inputs.keys, asm.dims.keys), ("query", inputs.queries, asm.dims.keys), ("value", inputs.values, asm.dims.values),
    ):  # fmt: skip
        for head, tile in enumerate(tiles if values or name != "value" else ()):
            asm.emit("rows_to_l1", tile, count=blocks, p=(_tensor(name), head, 0), label=name)


def _load_state(asm: Assembler, basics: Basics, state: Parts, head: int, state_scale: float) -> None:
    """Setup: a head's state from GM, split, to L1 as [value block][key block]."""
    keys, values = asm.dims.keys, asm.dims.values
    count = keys * values
    staged = asm.buffer("state in:UB", "UB", count * FULL)
    asm.emit("rows_to_ub", staged, count=values, p=(_tensor("state_in"), head, 0, 1, 1), label="state in")
    if state_scale != 1:
        vector(asm, "muls32", staged, staged, repeats=count * 4, scalar=asm.scalar(state_scale), label="state in")
    tile = asm.buffer("state in", "L0C", count * FULL)
    asm.emit("ub_to_c32", tile, staged, size=count, label="state in")
    split(asm, basics.negative, tile, whole(state.from_fractal(head * count), count), label="state in")


def _readers(asm: Assembler, inputs: Inputs, key_head: int, delta: bool) -> list[Operand]:
    """Keys (with delta) and queries below them as left operands, in quarters of the key channels."""
    asm.stage = STATE
    rows, keys = asm.dims.rows, asm.dims.keys
    quarters = []
    for start, size in _quarters(keys):
        if delta:
            quarters.append(key_and_query_rows(asm, inputs, key_head, start, size, "K, Q"))
        else:
            query = at(inputs.queries[key_head], start * rows * HALF)
            quarters.append(load(asm, "A", query, count=rows, size=size, inner=rows, group=1, label="Q"))
    return quarters


def _quarters(blocks: int) -> list[tuple[int, int]]:
    """First block and size of each quarter that is not empty."""
    starts = [number * blocks // 4 for number in range(5)]
    return [(start, end - start) for start, end in itertools.pairwise(starts) if end > start]


def _advance(
    asm: Assembler,
    basics: Basics,
    identity: Operand | None,
    inputs: Inputs,
    system: System,
    factors: Parts,
    state: Parts,
    head: int,
    lefts: list[Operand],
    delta: bool,
) -> None:
    """State steps of one head: read, correct, output, update."""
    asm.stage = STATE
    dims = asm.dims
    rows, keys, values = dims.rows, dims.keys, dims.values
    own = state.from_fractal(head * keys * values)
    height = 2 * rows if delta else rows
    tile = asm.buffer("K S, Q S", "L0C", height * values * FULL)  # [value block][row block]
    for left, (start, size) in zip(lefts, _quarters(keys), strict=True):
        piece = load_parts(
            asm, "B", own.from_fractal(start), count=size, size=values, inner=keys, group=1, flags=TRANSPOSE, label="S"
        )
        multiply(asm, tile, left, piece, m=height, n=values, k=size, overwrite=start == 0, label="K S, Q S")
    reads = parts_in_l1(asm, "K S, Q S", height * values)
    split(asm, basics.negative, tile, whole(reads, height * values), label="K S, Q S", piece=SPLIT_PIECE)
    value = load(asm, "B", inputs.values[head], count=rows, size=values, inner=rows, group=1, flags=TRANSPOSE, label="V")
    corrected: Matrix = value
    if delta:
        corrected = _correct(asm, basics, identity, value, system, factors, reads, head)
    _output(asm, system, factors, reads.from_fractal(height - rows), height, corrected, head)  # L0B holds two of x, Y, S
    written = _written(asm, basics, factors, corrected, head)
    update = _update(asm, inputs, factors, own, written, head)
    split(asm, basics.negative, update, whole(own, keys * values), label="state", piece=SPLIT_PIECE)


def _read_right(asm: Assembler, reads: Parts, height: int, label: str) -> Parts:
    """K S or Q S as right operand, from [value block][row block]."""
    rows, values = asm.dims.rows, asm.dims.values
    return load_parts(asm, "B", reads, count=rows, size=values, inner=height, group=1, flags=TRANSPOSE, label=label)


def _correct(
    asm: Assembler,
    basics: Basics,
    identity: Operand | None,
    value: Operand,
    system: System,
    factors: Parts,
    reads: Parts,
    head: int,
) -> Parts:
    """x = A W, W = V - diag(e^G) K S, in L0B as both parts. identity: None when values have factors.

    What rounding adds to W the state forgets as it does values; added to A diag(e^G) K S it would stay.
    """
    rows, values = asm.dims.rows, asm.dims.values
    count = rows * values
    tile = asm.buffer("W", "L0C", count * FULL)
    if identity is not None:
        multiply(asm, tile, identity, value, n=count, overwrite=True, label="V")
    else:
        left = load_parts(asm, "A", factors.from_fractal(VALUE), size=rows, label="value factors")
        multiply(
            asm, tile, left, value, overwrite=True, label="diag V",
            count=rows, n=values, move_tile=values, move_left=1, move_right=values,
        )  # fmt: skip
    right = _read_right(asm, reads, 2 * rows, "K S")
    left = load_parts(asm, "A", factors.from_fractal(READ), size=rows, label="read factors")
    multiply(
        asm, tile, left, right, label="diag K S",
        count=rows, n=values, move_tile=values, move_left=1, move_right=values,
    )  # fmt: skip
    rest = _split_right(asm, basics, tile, count, "W")
    tile = asm.buffer("x", "L0C", count * FULL)
    inverse = load_parts(asm, "A", system.inverse.from_fractal(head * inverse_pitch(asm)), size=rows * rows, label="A")
    multiply(
        asm, tile, inverse, rest, overwrite=True, label="A W",
        count=rows, n=values, move_tile=values, mode=K_GROWS, move_left=rows,
    )  # fmt: skip
    return _split_right(asm, basics, tile, count, "x")


def _split_right(asm: Assembler, basics: Basics, tile: Operand, count: int, label: str) -> Parts:
    """Both parts of a tile as right operand, in L0B."""
    found = split(asm, basics.negative, tile, whole(parts_in_l1(asm, label, count), count), used_right=True, label=label)
    assert found is not None
    return found


def _written(asm: Assembler, basics: Basics, factors: Parts, corrected: Matrix, head: int) -> Parts:
    """Y = diag(beta e^(G_C - G)) x, in L0B as both parts."""
    rows, values = asm.dims.rows, asm.dims.values
    count = rows * values
    tile = asm.buffer("Y", "L0C", count * FULL)
    left = load_parts(asm, "A", factors.from_fractal(WRITE), size=rows, label="write factors")
    multiply(
        asm, tile, left, corrected, count=rows, n=values, move_tile=values, move_left=1, move_right=values, overwrite=True,
        label="Y",
    )  # fmt: skip
    return _split_right(asm, basics, tile, count, "Y")


def _update(asm: Assembler, inputs: Inputs, factors: Parts, own: Parts, written: Parts, head: int) -> Operand:
    """e^G_C S + K^T Y in L0C, [value block][key block]."""
    rows, keys, values = asm.dims.rows, asm.dims.keys, asm.dims.values
    count = keys * values
    tile = asm.buffer("next state", "L0C", count * FULL)
    decay = load_parts(asm, "A", factors.from_fractal(CHUNK_DECAY), label="chunk decay")
    for start in range(0, count, STATE_PIECE):
        size = min(STATE_PIECE, count - start)
        piece = load_parts(asm, "B", own.from_fractal(start), size=size, flags=TRANSPOSE, label="S")
        multiply(asm, at(tile, start * FULL), decay, piece, n=size, overwrite=True, label="decay S")
    left = load(asm, "A", inputs.keys[asm.dims.key_head(head)], size=keys * rows, flags=TRANSPOSE, label="K^T")
    multiply(asm, tile, left, written, m=keys, n=values, k=rows, label="K^T Y")
    return tile


def _output(asm: Assembler, system: System, factors: Parts, reads: Parts, height: int, corrected: Matrix, head: int) -> None:
    """o = diag(scale e^G) Q S + P x, rounded once, to GM."""
    dims = asm.dims
    rows, values = dims.rows, dims.values
    count = rows * values
    tile = asm.buffer("o", "L0C", count * FULL)
    scores = load_parts(asm, "A", system.scores(asm).from_fractal(head * dims.triangle), size=dims.triangle, label="P")
    multiply(
        asm, tile, scores, corrected, overwrite=True, label="P x",
        count=rows, n=values, move_tile=values, mode=K_GROWS | LEFT_MOVES,
    )  # fmt: skip
    right = _read_right(asm, reads, height, "Q S")
    left = load_parts(asm, "A", factors.from_fractal(OUTPUT), size=rows, label="output factors")
    multiply(
        asm, tile, left, right, label="diag Q S",
        count=rows, n=values, move_tile=values, move_left=1, move_right=values,
    )  # fmt: skip
    staged = asm.buffer("o:UB", "UB", count * HALF)
    for row in range(rows):  # to column blocks, which go to GM in long copies
        target, source = at(staged, row * HALF), at(tile, row * values * FULL)
        asm.emit("c_to_ub16", target, source, count=values, size=1, p=(0, rows - 1), label="o")
    for column in range(0, values, OUTPUT_PIECE):  # what else leaves UB must not wait for all of them
        source = at(staged, column * rows * HALF)
        count = min(OUTPUT_PIECE, values - column)
        asm.emit("rows_from_ub", src0=source, count=count, p=(_tensor("output"), head, column, 1, 0, 0, 0, 2), label="o")


def _store_state(asm: Assembler, basics: Basics, state: Parts, head: int, state_scale: float) -> None:
    """Finish: minus the identity times both parts, times minus one over the scale, to GM."""
    count = asm.dims.keys * asm.dims.values
    tile = asm.buffer("state out", "L0C", count * FULL)
    for start in range(0, count, STATE_PIECE):
        size = min(STATE_PIECE, count - start)
        piece = load_parts(asm, "B", state.from_fractal(head * count + start), size=size, flags=TRANSPOSE, label="state out")
        multiply(asm, at(tile, start * FULL), basics.negative, piece, n=size, overwrite=True, label="state out")
    staged = copy_out(asm, tile, count, half=False, label="state out")
    vector(asm, "muls32", staged, staged, repeats=count * 4, scalar=asm.scalar(-1 / state_scale), label="state out")
    tensor = _tensor("state_out")
    asm.emit("rows_from_ub", src0=staged, count=asm.dims.values, p=(tensor, head, 0, 1, 1, 0, 0, 4), label="state out")
