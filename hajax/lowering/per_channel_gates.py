"""Gates of a decay per channel: constants on the core, decays as split tiles, strengths and whole blocks' factors as diagonals.

Exponents are products of 0/1 matrices with the decays' parts, within blocks of 16 tokens only: terms of one sign, never a
difference. What lies further away is reached by factors of whole blocks, one a channel: diagonal right operands.
"""

from dataclasses import dataclass

import numpy as np

from hajax import abi
from hajax.lowering.assembler import FULL, HALF, UNIT, Assembler, at
from hajax.lowering.gates import build_diagonals, high_and_low, selector_fractals
from hajax.lowering.per_channel_tiles import Write, Zeros, place_zeros, split_tile, write
from hajax.lowering.strengths import split_strengths
from hajax.lowering.tiles import (
    TRANSPOSE,
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
from hajax.plans.program import LOAD, MAP, STATE, Operand

LEVELS = (8, 4, 2, 1)  # tokens of a half, of the halvings inside a block of 16
SLOTS = 8  # sums of whole blocks, of each channel
BLOCK_0, BLOCK_2, BLOCK_1, BLOCK_3, UPPER, LOWER, ALL = range(7)
SUMS = ((0,), (2,), (1,), (3,), (0, 1), (2, 3), (0, 1, 2, 3))  # blocks of 16 tokens that each of them adds up


@dataclass(frozen=True, slots=True)
class Fractals:
    """Constants in L0A, one fractal each unless said otherwise."""

    negative: Operand  # minus the identity
    ones: Operand  # two of them, over the state's scale
    prefix: Operand  # t <= i
    suffix: Operand  # t > j
    levels: dict[int, Operand]  # by tokens of a half: from the middle of its group to row i, or from behind row i to the middle
    left_keys: Operand  # minus the identity over the state's scale
    identity: Operand
    upper_sums: Operand  # a fractal for each block of tokens: rows 0 .. 7 are the SUMS
    lower_sums: Operand  # rows 8 .. 15 are
    scale: Parts  # the call's scale over the state's, times the identity
    scale_lanes: Operand  # the call's scale in 64 lanes, in UB
    selector: Operand  # in L1, see InverseFractals


def place_fractals(asm: Assembler, state_scale: float) -> Fractals:
    """Setup steps: constants from GM, and the call's scale."""
    assert asm.dims.rows == 4, "sums of blocks are written for chunks of 64"
    one, eye = np.ones((16, 16), np.float16), np.eye(16, dtype=np.float16)
    down = np.float16(1 / state_scale)
    left = [one * down, one * down, np.tril(one), np.triu(one, 1), *(_level(half) for half in LEVELS), eye * -down, eye]
    left += [_sums(block, start) for start in (0, SLOTS) for block in range(asm.dims.rows)]
    tiles = [-eye, *selector_fractals(), *left]
    source = asm.buffer("basics", "L1", len(tiles) * HALF, kept=True)
    place = asm.constants.place(np.stack(tiles).astype(np.float16))
    asm.emit("constant_to_l1", source, constant=place, size=len(tiles) * HALF // UNIT, first=True)
    target = asm.buffer("basics:A", "L0A", (1 + len(left)) * HALF, kept=True)
    load(asm, "A", source, target=target, label="basics")
    load(asm, "A", at(source, 9 * HALF), size=len(left), target=at(target, HALF), label="basics")
    scale, lanes = _place_scale(asm, eye, state_scale)
    fractal = [at(target, number * HALF) for number in range(1 + len(left))]
    return Fractals(
        negative=fractal[0],
        ones=fractal[1],
        prefix=fractal[3],
        suffix=fractal[4],
        levels=dict(zip(LEVELS, fractal[5:9], strict=True)),
        left_keys=fractal[9],
        identity=fractal[10],
        upper_sums=fractal[11],
        lower_sums=fractal[11 + asm.dims.rows],
        scale=scale,
        scale_lanes=lanes,
        selector=at(source, HALF),
    )


def _level(half: int) -> np.ndarray:
    found = np.zeros((16, 16), np.float16)
    for i in range(16):
        middle = i - i % (2 * half) + half
        found[i, middle : i + 1] = 1
        found[i, i + 1 : middle] = 1
    return found


def _sums(block: int, start: int) -> np.ndarray:
    found = np.zeros((16, 16), np.float16)
    for slot, blocks in enumerate(SUMS):
        if block in blocks:
            found[start + slot] = 1
    return found


def _place_scale(asm: Assembler, eye: np.ndarray, state_scale: float) -> tuple[Parts, Operand]:
    half = asm.buffer("identity:UB", "UB", HALF)
    asm.emit("constant_to_ub", half, constant=asm.constants.place(eye), size=HALF // UNIT, label="identity")
    diagonal = asm.buffer("scale:UB", "UB", FULL)
    vector(asm, "to32", diagonal, half, repeats=4, strides=(8, 4, 0), label="scale")
    lanes = asm.buffer("scale lanes", "UB", 256, kept=True)
    vector(asm, "dup32", lanes, repeats=1, scalar=asm.scalar(1.0), label="scale")
    for target, repeats in ((diagonal, 4), (lanes, 1)):
        vector(asm, "muls32", target, target, repeats=repeats, scalar=0, label="scale")
    vector(asm, "muls32", diagonal, diagonal, repeats=4, scalar=asm.scalar(1 / state_scale), label="scale")
    halves = high_and_low(asm, diagonal, 4, "scale")
    source = parts_in_l1(asm, "scale", 1)
    write(asm, halves, Write(source, 2 * HALF // UNIT), 0, "scale")
    target = asm.buffer("scale:A", "L0A", 2 * HALF, kept=True)
    load(asm, "A", source.high, size=2, target=target, label="scale")
    return Parts(target, 1), lanes


@dataclass(frozen=True, slots=True)
class GateBuffers:
    """What outlives a stage, and zeros to put diagonals on."""

    decays: tuple[Parts, ...]  # of each head, [key block][row block]
    raw_strengths: Operand  # of two strengths, those of all heads that write, then those that erase
    strengths: Parts  # diagonals, [head][row block], times the state's scale
    shares: Parts | None  # of two strengths: diagonals, [erase, write][head][row block]
    zeros: Zeros
    chunk_decays: tuple[Parts, ...]  # diagonals of each head's key blocks


def place_gates(asm: Assembler, strengths: int = 1) -> GateBuffers:
    """Setup: room for gates, and zeros."""
    heads, rows, keys = asm.dims.heads, asm.dims.rows, asm.dims.keys
    decays = tuple(parts_in_l1(asm, "decays", rows * keys) for _ in range(heads))
    chunk_decays = tuple(parts_in_l1(asm, "chunk decay", keys, versions=2) for _ in range(heads))
    raw = asm.buffer("strengths", "UB", strengths * heads * asm.dims.chunk * 4, versions=2)
    most = max(2 * SLOTS * _pairs(asm) * HALF, picked_bytes(asm))
    columns = parts_in_l1(asm, "strengths", heads * rows, versions=2)
    shares = parts_in_l1(asm, "shares", 2 * heads * rows, versions=2) if strengths == 2 else None
    return GateBuffers(decays, raw, columns, shares, place_zeros(asm, most), chunk_decays)


def picked_bytes(asm: Assembler) -> int:
    """Of scores inside blocks, [row block][head][K, Q] in fp32, and a repeat more, into which shifted masks reach."""
    return 2 * asm.dims.rows * asm.dims.heads * FULL + 256


def _pairs(asm: Assembler) -> int:
    """Fractals that hold the sums of two key blocks each."""
    return (asm.dims.keys + 1) // 2


def load_gates(asm: Assembler, fractals: Fractals, buffers: GateBuffers, pieces: int) -> None:
    """Load steps: strengths of each head; its decays, split on the way to L1: there is no room in UB to keep them.

    pieces: so many of them, one after the other, go through L0C.
    """
    asm.stage = LOAD
    tensors = abi.table("tensors")
    dims = asm.dims
    for kind, name in enumerate(("beta",) if buffers.shares is None else ("beta", "erase")):
        for head in range(dims.heads):
            place = at(buffers.raw_strengths, (kind * dims.heads + head) * dims.chunk * 4)
            asm.emit("gate_to_ub", place, p=(tensors[name], head), label=name)
    count = dims.rows * dims.keys
    for head, decays in enumerate(buffers.decays):
        staged = asm.buffer("decays:UB", "UB", count * FULL)
        asm.emit("rows_to_ub", staged, count=dims.keys, p=(tensors["log_decay"], head, 0, 1), label="decays")
        size = -(-count // pieces)
        for first in range(0, count, size):
            tile = asm.buffer("decays", "L0C", size * FULL)
            asm.emit("ub_to_c32", tile, at(staged, first * FULL), size=size, label="decays")
            split(asm, fractals.negative, tile, whole(decays.from_fractal(first), size), label="decays")


def lower_strengths(asm: Assembler, fractals: Fractals, buffers: GateBuffers, state_scale: float) -> None:
    """Map steps: strengths times the state's scale as diagonals in L1, [head][row block]; of two, their shares likewise."""
    asm.stage = MAP
    heads = asm.dims.heads
    strengths = split_strengths(asm, buffers.raw_strengths, 1 if buffers.shares is None else 2, heads)
    _diagonals(asm, strengths.column, heads, buffers, buffers.strengths, "strength", state_scale)
    if buffers.shares is not None and strengths.erase is not None:  # the shares that write lie behind
        _diagonals(asm, strengths.erase, 2 * heads, buffers, buffers.shares, "share", 1.0)


def _diagonals(
    asm: Assembler, vectors: Operand, repeats: int, buffers: GateBuffers, target: Parts, label: str, scale: float
) -> None:
    """Vectors of a chunk's tokens, which are used up, as diagonals in L1."""
    fractals = 2 * repeats * asm.dims.rows
    halves = high_and_low(asm, vectors, repeats, f"{label}s")
    staged = buffers.zeros.to_ub(asm, f"{label} diagonals", fractals * HALF)
    build_diagonals(asm, halves, staged, fractals, label, scale)
    write(asm, staged, Write(target, fractals * HALF // UNIT), 0, f"{label}s")


def strength_columns(asm: Assembler, fractals: Fractals, diagonals: Parts) -> Operand:
    """State steps: unscaled strengths as columns of fractals in UB, [row block][head], twice each."""
    asm.stage = STATE
    heads, rows = asm.dims.heads, asm.dims.rows
    count = heads * rows
    right = load_parts(asm, "B", diagonals, count=rows, size=heads, inner=rows, group=1, label="strengths")
    tile = asm.buffer("strength columns", "L0C", 2 * count * FULL)
    multiply(asm, tile, fractals.ones, right, m=2, n=count, overwrite=True, label="strength columns")
    return copy_out(asm, tile, 2 * count, half=False, label="strength columns")


def lower_block_factors(asm: Assembler, fractals: Fractals, buffers: GateBuffers, desk: Operand, head: int) -> Parts:
    """Map steps: exp of the SUMS of a head's channels as diagonals in L1, [key block][slot]; the whole chunk's for the state.

    desk: 512 * SLOTS bytes of UB for each key block, to work in.
    """
    asm.stage = MAP
    rows, keys, pairs = asm.dims.rows, asm.dims.keys, _pairs(asm)
    right = load_parts(asm, "B", buffers.decays[head], size=rows * keys, flags=TRANSPOSE, label="decays")
    tile = asm.buffer("block sums", "L0C", pairs * FULL)
    for start, left, count in ((0, fractals.upper_sums, pairs), (rows, fractals.lower_sums, keys // 2)):
        if count:
            multiply(
                asm, tile, left, right.from_fractal(start), count=count, k=rows, move_tile=1, move_right=2 * rows,
                overwrite=start == 0, label="block sums",
            )  # fmt: skip
    staged = copy_out(asm, tile, pairs, half=False, label="block sums")
    vector(asm, "exp32", staged, staged, repeats=4 * pairs, label="block factors")
    tile = asm.buffer("block factors", "L0C", pairs * FULL)
    asm.emit("ub_to_c32", tile, staged, size=pairs, label="block factors")
    between = parts_in_l1(asm, "block factors", pairs)
    halves = split_tile(
        asm, fractals.negative, tile, pairs, (Write(between, pairs * HALF // UNIT, low=False),), between.high,
        label="block factors",
    )  # fmt: skip
    blocks = pairs * 2 * SLOTS
    diagonals = parts_in_l1(asm, "factor diagonals", blocks)
    fractal = HALF // UNIT
    whole_chunk = Write(buffers.chunk_decays[head], fractal, count=keys, source=ALL * fractal, source_gap=(SLOTS - 1) * fractal)
    staged = buffers.zeros.to_ub(asm, "factor diagonals", blocks * HALF, desk)
    for part in (0, 1):
        build_diagonals(asm, halves[part], staged, blocks, "factor")
        for place in (Write(diagonals, blocks * fractal), whole_chunk):
            write(asm, staged, place, part, "factor diagonals")
    return diagonals
