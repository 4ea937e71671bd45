"""What the steps of MTE1, MTE2 and MTE3 mean, and moves between L0C and UB: each a function of the step, made once a program.

A meaning is called with the spot it works at: which head, sequence and chunk.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hajax import abi
from hajax.plans.footprint import UNIT, Dims, chunks_back, element_bytes, groups, tile_rows, wide
from hajax.plans.interpret_memory import Array, Global, Memory, Sequence
from hajax.plans.program import Step

HALF_MOST = 65504.0
_ELEMENTS = 256  # of a fractal
_SIDE = 16


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a step works: the item's first head and column, its sequence, and the chunk of the sequence."""

    head: int
    column: int
    sequence: Sequence
    chunk: int
    rows: int  # tokens of this chunk


Meaning = Callable[[Spot], None]


def to_half(values: Array) -> Array:
    """To nearest even, saturating. NaN stays, unlike on the chip, so that it shows."""
    return np.clip(values, -HALF_MOST, HALF_MOST).astype(np.float16)


def move(step: Step, memory: Memory, odd: bool, gm: Global) -> Meaning:
    """The meaning of a step that moves data, with the versions of its buffers that odd or even chunks use."""
    match step.opcode:
        case "rows_to_l1" | "rows_to_ub":
            return _rows_in(step, memory, odd, gm)
        case "rows_from_ub":
            return _rows_out(step, memory, odd, gm)
        case "gate_to_ub":
            return _gate(step, memory, odd, gm)
        case "constant_to_l1" | "constant_to_ub":
            source = gm.constants[step.constant * UNIT : (step.constant + step.size) * UNIT]
            if source.size != step.size * UNIT:
                raise ValueError(f"step {step.label!r}: reads beyond the {gm.constants.size} bytes of constants")
            return _copy(memory.view(step.dst, odd, np.uint8, source.shape), source)
        case "workspace_to_l1" | "workspace_to_ub" | "workspace_from_ub":
            return _workspace(step, memory, odd, gm)
        case "load_a" | "load_b":
            return _load(step, memory, odd)
        case "l1_to_ub" | "ub_to_l1":
            shape, block = (step.count, step.size * UNIT), np.uint8
            source, target = (
                memory.view(operand, odd, block, shape, ((step.size + wide(step.p, at)) * UNIT, 1))
                for operand, at in ((step.src0, 0), (step.dst, 2))
            )
            return _copy(target, source)
        case "c_to_ub32" | "c_to_ub16" | "ub_to_c32":
            return _results(step, memory, odd)
    raise ValueError(f"step.opcode: {step.opcode!r} moves no data")


def _copy(target: Array, source: Array) -> Meaning:
    def meaning(_: Spot) -> None:
        target[...] = source

    return meaning


def _tensor(step: Step, gm: Global) -> tuple[str, Array]:
    name = abi.names("tensors")[step.p[0]]
    if name not in gm.tensors:
        raise ValueError(f"step {step.label!r}: tensor {name} is not among the call's arrays")
    return name, gm.tensors[name]


def _tile(step: Step, name: str, tensor: Array, gm: Global, spot: Spot) -> Array:
    """The tile of a tensor in GM, [rows there are, count, 16]."""
    head = spot.head + step.p[1]
    if name in ("query", "key"):
        head //= gm.group
    column = step.p[2] * _SIDE + (spot.column if name in ("value", "output", "state_in", "state_out") else 0)
    columns = slice(column, column + step.count * _SIDE)
    if step.opcode != "rows_to_l1" and step.p[4] == 1:
        first = step.p[5] * _SIDE
        rows = tensor[spot.sequence.state, head, first : first + (step.p[6] * _SIDE or gm.key_dim), columns]
    else:
        token = spot.sequence.token + spot.chunk * gm.chunk
        rows = tensor[token : token + spot.rows, head, columns]
    if rows.shape[1] != step.count * _SIDE:
        raise ValueError(f"step {step.label!r}: columns {column} .. {columns.stop - 1} of {name} are not there")
    return rows.reshape(rows.shape[0], step.count, _SIDE)


def _rows_view(step: Step, memory: Memory, odd: bool, gm: Global, element: int) -> Array:
    """The tile on the core, [rows, count, 16] whatever its layout."""
    dims = Dims(gm.chunk, gm.key_dim)
    rows = gm.chunk if step.opcode == "rows_to_l1" else tile_rows(step, dims)
    layout = 1 if step.opcode == "rows_to_l1" else step.p[3]
    row = _SIDE * element  # bytes of 16 columns
    dtype = np.float16 if element == 2 else np.float32
    operand = step.src0 if step.opcode == "rows_from_ub" else step.dst
    if layout == 2:
        shape = (rows // _SIDE, _SIDE, step.count, _SIDE)
        strides = (step.count * _SIDE * row, row, _SIDE * row, element)
        return memory.view(operand, odd, dtype, shape, strides)
    strides3 = (step.count * row, row, element) if layout == 0 else (row, rows * row, element)
    return memory.view(operand, odd, dtype, (rows, step.count, _SIDE), strides3)


def _rows_in(step: Step, memory: Memory, odd: bool, gm: Global) -> Meaning:
    name, tensor = _tensor(step, gm)
    target = _rows_view(step, memory, odd, gm, 2 if step.opcode == "rows_to_l1" else element_bytes(step))
    if tensor.dtype != target.dtype:
        raise ValueError(f"step {step.label!r}: expected a tensor of {target.dtype}, {name} is {tensor.dtype}")

    def meaning(spot: Spot) -> None:
        tile = _tile(step, name, tensor, gm, spot)
        target[: tile.shape[0]] = tile
        target[tile.shape[0] :] = 0

    return meaning


def _rows_out(step: Step, memory: Memory, odd: bool, gm: Global) -> Meaning:
    name, tensor = _tensor(step, gm)
    source = _rows_view(step, memory, odd, gm, step.p[7])
    if tensor.dtype != source.dtype:
        raise ValueError(f"step {step.label!r}: expected elements of {tensor.dtype} for {name}, got {source.dtype}")

    def meaning(spot: Spot) -> None:
        tile = _tile(step, name, tensor, gm, spot)
        rows = source.reshape(-1, step.count, _SIDE) if source.ndim == 4 else source
        tile[...] = rows[: tile.shape[0]]

    return meaning


def _gate(step: Step, memory: Memory, odd: bool, gm: Global) -> Meaning:
    name, tensor = _tensor(step, gm)
    if tensor.ndim != 2:
        raise ValueError(f"step {step.label!r}: {name} is not head-major in this call")
    target = memory.view(step.dst, odd, np.float32, (gm.chunk,))

    def meaning(spot: Spot) -> None:
        first = spot.sequence.gate + spot.chunk * gm.chunk
        target[...] = tensor[spot.head + step.p[1], first : first + gm.chunk]

    return meaning


def _workspace(step: Step, memory: Memory, odd: bool, gm: Global) -> Meaning:
    workspace = gm.tensors["workspace"]
    outward = step.opcode == "workspace_from_ub"
    here = memory.view(step.src0 if outward else step.dst, odd, np.uint8, (step.size * UNIT,))
    back = chunks_back(step)

    def meaning(spot: Spot) -> None:
        start = (step.constant + spot.column // _SIDE * wide(step.p, 4)) * UNIT
        end = start + step.size * UNIT
        if end > workspace.shape[2]:
            raise ValueError(f"step {step.label!r}: expected at most {workspace.shape[2]} bytes of workspace, got {end}")
        if spot.chunk < back:
            raise ValueError(f"step {step.label!r}: expected a chunk from {back} on, got {spot.chunk}")
        there = workspace[spot.head + step.p[1], spot.sequence.gate // gm.chunk + spot.chunk - back, start:end]
        if outward:
            there[...] = here
        else:
            here[...] = there

    return meaning


def _load(step: Step, memory: Memory, odd: bool) -> Meaning:
    fractal = _ELEMENTS * 2
    shape = (step.size, _SIDE, _SIDE)
    rows, columns = 2 * _SIDE, 2
    inner = (columns, rows) if step.p[4] & 1 else (rows, columns)
    pairs = []
    low = wide(step.p, 5)
    for source_part, target_part in ((0, 0), (low, step.p[7])) if low else ((0, 0),):
        for number, start in enumerate(groups(step)):
            moved = (source_part + start) * fractal
            source = memory.view(step.src0, odd, np.uint16, shape, (step.p[0] * fractal, *inner), moved)
            moved = (target_part + number * step.p[3]) * fractal
            pairs.append((memory.view(step.dst, odd, np.uint16, shape, None, moved), source))

    def meaning(_: Spot) -> None:
        for target, source in pairs:
            target[...] = source

    return meaning


def _results(step: Step, memory: Memory, odd: bool) -> Meaning:
    """Runs of fractals between L0C and UB; a fractal of fp16 takes half the room."""
    shape = (step.count, step.size * _ELEMENTS)
    source = memory.view(step.src0, odd, np.float32, shape, ((step.size + step.p[0]) * _ELEMENTS * 4, 4))
    if step.opcode != "c_to_ub16":
        return _copy(memory.view(step.dst, odd, np.float32, shape, ((step.size + step.p[1]) * _ELEMENTS * 4, 4)), source)
    target = memory.view(step.dst, odd, np.float16, shape, ((step.size + step.p[1]) * _ELEMENTS * 2, 2))

    def meaning(_: Spot) -> None:
        target[...] = to_half(source)

    return meaning
