"""Tiles of the vector unit: fp32 in UB, from the accumulator, scaled by rows, split into two fp16 parts on their way to L1.

Blocked: for each 16 columns, all rows of 16, as products of all rows leave them and operands lie in L1. Dense: row after row;
such tiles are rearranged when they come and when they go, and a row factor meets 64 columns at once instead of 16.
"""

from dataclasses import dataclass
from typing import Literal

from hajax.lowering.assembler import FULL, HALF, UNIT, Assembler, at
from hajax.lowering.tiles import Parts, vector
from hajax.plans.program import Operand

Layout = Literal["blocked", "dense"]
LANES = 64  # of fp32 in a repeat
DENSE_ROWS = 2  # row blocks of a tile that are made dense at once
TO_DENSE, TO_BLOCKED = "to dense", "to blocked"  # at the end of the labels of steps that only rearrange


@dataclass(frozen=True, slots=True)
class Tile:
    """`rows` by `columns` blocks of 16 x 16 fp32."""

    place: Operand
    rows: int
    columns: int
    layout: Layout

    @property
    def repeats(self) -> int:
        """Vector repeats over all of it."""
        return self.rows * self.columns * 4


def new_tile(asm: Assembler, name: str, rows: int, columns: int, layout: Layout) -> Tile:
    """Room in UB."""
    return Tile(asm.buffer(f"{name}:UB", "UB", rows * columns * FULL), rows, columns, layout)


def fetch(
    asm: Assembler,
    source: Operand,
    rows: int,
    columns: int,
    layout: Layout,
    *,
    label: str,
    pitch: int | None = None,
    by_rows: bool = False,
    into: Tile | None = None,
) -> Tile:
    """A tile of L0C as fp32, to new room when none is given.

    pitch: fractals between its column blocks there; by_rows: it lies there row block by row block.
    """
    pitch = rows if pitch is None else pitch
    found = into or new_tile(asm, label, rows, columns, layout)
    if layout == "dense":
        for first in range(0, rows, DENSE_ROWS):
            _dense_rows(asm, source, found, first, min(DENSE_ROWS, rows - first), pitch, by_rows, label)
    elif by_rows:
        for row in range(rows):
            place = at(found.place, row * FULL)
            asm.emit("c_to_ub32", place, at(source, row * columns * FULL), count=columns, size=1, p=(0, rows - 1), label=label)
    elif pitch == rows:
        asm.emit("c_to_ub32", found.place, source, size=rows * columns, label=label)
    else:
        asm.emit("c_to_ub32", found.place, source, count=columns, size=rows, p=(pitch - rows, 0), label=label)
    return found


def _dense_rows(
    asm: Assembler, source: Operand, found: Tile, first: int, rows: int, pitch: int, by_rows: bool, label: str
) -> None:
    """Some row blocks of a dense tile, by way of fractals in UB: a repeat takes 8 columns of each column block of a row."""
    columns = found.columns
    staged = asm.buffer(f"{label} fractals:UB", "UB", rows * columns * FULL)
    if by_rows:
        asm.emit("c_to_ub32", staged, at(source, first * columns * FULL), size=rows * columns, label=label)
        pieces = [(row, 1) for row in range(rows)]
    else:
        asm.emit("c_to_ub32", staged, at(source, first * FULL), count=columns, size=rows, p=(pitch - rows, 0), label=label)
        pieces = [(0, rows)]
    for row, height in pieces:
        _spread_rows(
            asm, at(found.place, (first + row) * columns * FULL), at(staged, row * columns * FULL), height, columns, label
        )


def _spread_rows(asm: Assembler, target: Operand, source: Operand, rows: int, columns: int, label: str) -> None:
    """Column blocks of a few row blocks to rows: 8 columns of each column block of a row in a repeat, or else of 8 rows."""
    moves = []
    for half in (0, UNIT):
        if columns * 8 == LANES:
            moves.append((half, half, rows * 16, (2, rows * 32, 0), (2 * columns, 2, 0)))
            continue
        for octet in range(rows * 2):
            places = octet * columns * FULL // 2 + half, octet * FULL // 2 + half
            moves.append((*places, columns, (2 * columns, 2, 0), (2, rows * 32, 0)))
    for to, start, repeats, blocks, strides in moves:
        vector(
            asm, "muls32", at(target, to), at(source, start), repeats=repeats, blocks=blocks, strides=strides,
            scalar=asm.scalar(1.0), label=f"{label} {TO_DENSE}",
        )  # fmt: skip


def scale_rows(asm: Assembler, opcode: str, target: Tile, source: Tile, factors: Operand, *, label: str) -> None:
    """`opcode` (mul32 or mla32) of a tile with a factor for each row, which stands in all 16 columns of a tile of one block."""
    assert target.layout == source.layout
    rows, columns = source.rows, source.columns
    if source.layout == "blocked":
        for column in range(columns):
            offset = column * rows * FULL
            vector(asm, opcode, at(target.place, offset), at(source.place, offset), factors, repeats=rows * 4, label=label)
        return
    stride, whole = 2 * columns, columns // 4 * 4
    runs = [(4 * group * 64, 0, rows * 16, (1, 1, 0), (stride, stride, 2)) for group in range(columns // 4)]
    if whole < columns:  # of the rest of the columns, eight rows at a time
        octets = [(octet * 8 * stride * UNIT + whole * 64, octet * 512) for octet in range(rows * 2)]
        runs += [(offset, factor, 2 * (columns - whole), (stride, stride, 2), (1, 1, 0)) for offset, factor in octets]
    for offset, factor, repeats, blocks, strides in runs:
        moved = at(target.place, offset), at(source.place, offset), at(factors, factor)
        vector(asm, opcode, *moved, repeats=repeats, blocks=blocks, strides=strides, label=label)


def split_tile(asm: Assembler, tile: Tile, target: Parts, *, label: str, pitch: int | None = None) -> None:
    """Its parts to L1 as column blocks, `pitch` fractals from one to the next. The tile is used up: its low part stays in it."""
    pitch = tile.rows if pitch is None else pitch
    size = tile.rows * tile.columns * HALF
    for part in range(target.number):
        name = f"{label} {'low' if part else 'high'}"
        staged = asm.buffer(f"{name}:UB", "UB", size)
        vector(asm, "to16", staged, tile.place, repeats=tile.repeats, strides=(4, 8, 0), label=name)
        to_blocks(asm, staged, tile, target.part(part), pitch, label=name)
        if part < target.number - 1:
            subtract(asm, tile.place, staged, tile.repeats, label=f"{label} less its high part")


def subtract(asm: Assembler, place: Operand, halves: Operand, repeats: int, *, label: str) -> None:
    """fp32 less fp16, in place: exact for a number's own high part."""
    vector(asm, "axpy16", place, halves, repeats=repeats, strides=(8, 4, 0), scalar=asm.scalar(-1.0), label=label)


def to_blocks(asm: Assembler, staged: Operand, tile: Tile, target: Operand, pitch: int, *, label: str) -> None:
    """fp16 elements of a tile, in its layout, to L1 as column blocks."""
    rows, columns = tile.rows, tile.columns
    if tile.layout == "dense":
        for column in range(columns):
            asm.emit(
                "ub_to_l1", at(target, column * pitch * HALF), at(staged, column * UNIT), count=rows * 16, size=1,
                p=(columns - 1, 0, 0, 0), label=f"{label} {TO_BLOCKED}",
            )  # fmt: skip
        return
    block = rows * HALF // UNIT
    if pitch == rows:
        asm.emit("ub_to_l1", target, staged, size=columns * block, label=f"{label} to L1")
        return
    gap = pitch * HALF // UNIT - block
    asm.emit("ub_to_l1", target, staged, count=columns, size=block, p=(0, 0, gap & 255, gap >> 8), label=f"{label} to L1")
