"""A chunk's system and scores on the vector unit: products of keys and queries times decay ratios, split, to L1.

Blocked they stay the packed lower triangles of fractals that the cube leaves; dense, with zeros above the diagonal's blocks.
"""

from hajax.lowering.assembler import FULL, HALF, UNIT, Assembler, at
from hajax.lowering.gates import Ratios
from hajax.lowering.system import Inputs, System, scale_scores, score_products
from hajax.lowering.tiles import Parts, vector
from hajax.lowering.vector_tiles import LANES, TO_BLOCKED, TO_DENSE, Layout, Tile, split_tile, subtract
from hajax.plans.program import MAP, Operand

ROW = 256  # bytes of a dense row of 64 fp32: one repeat


def lower_vector_scores(
    asm: Assembler, inputs: Inputs, ratios: Ratios, system: System, layout: Layout, *, delta: bool = True
) -> None:
    """Map steps: N = -(ratio o K K^T), with delta, and ratio o Q K^T.

    The output takes the scale, so that scores do not become small.
    """
    asm.stage = MAP
    assert asm.dims.heads == 1 and asm.dims.chunk == LANES
    if layout == "blocked":
        scaled = scale_scores(asm, inputs, ratios, scaled_queries=False)
        split_tile(asm, Tile(scaled, 2 * asm.dims.triangle, 1, "blocked"), system.triangles, label="triangles")
        return
    repeats = asm.dims.chunk
    factors = _dense(asm, ratios.scores, "ratios")
    pair = score_products(asm, inputs)[0]
    for kind, name in enumerate(("system", "scores")):
        if kind == 0 and not delta:
            continue
        scores = _dense(asm, pair[kind], name)
        if name == "system":
            vector(asm, "muls32", scores, scores, repeats=repeats, scalar=asm.scalar(-1.0), label=name)
        vector(asm, "mul32", scores, scores, factors, repeats=repeats, label=name)
        _split(asm, scores, system.triangles.from_fractal(kind * asm.dims.triangle), name)


def _dense(asm: Assembler, triangle: Operand, label: str) -> Operand:
    """Row after row: a repeat takes eight rows of half a fractal."""
    found = asm.buffer(f"{label} dense:UB", "UB", asm.dims.chunk * ROW)
    vector(asm, "dup32", found, repeats=asm.dims.chunk, scalar=asm.scalar(0.0), label=f"{label} {TO_DENSE}")
    for row in range(asm.dims.rows):
        for octet in range(2):
            for half in (0, UNIT):
                target = at(found, (row * 16 + octet * 8) * ROW + half)
                source = at(triangle, row * (row + 1) // 2 * FULL + octet * FULL // 2 + half)
                vector(
                    asm, "muls32", target, source, repeats=row + 1, blocks=(ROW // UNIT, 2, 0), strides=(2, FULL // UNIT, 0),
                    scalar=asm.scalar(1.0), label=f"{label} {TO_DENSE}",
                )  # fmt: skip
    return found


def _split(asm: Assembler, scores: Operand, target: Parts, label: str) -> None:
    """Both parts to L1, fractal by fractal of the lower triangle."""
    half_row, repeats = ROW // 2, asm.dims.chunk
    for part in range(target.number):
        name = f"{label} {'low' if part else 'high'}"
        staged = asm.buffer(f"{name}:UB", "UB", repeats * half_row)
        vector(asm, "to16", staged, scores, repeats=repeats, strides=(4, 8, 0), label=name)
        for row in range(asm.dims.rows):
            for column in range(row + 1):
                place = at(target.part(part), (row * (row + 1) // 2 + column) * HALF)
                source = at(staged, row * 16 * half_row + column * UNIT)
                gap = half_row // UNIT - 1
                asm.emit("ub_to_l1", place, source, count=16, size=1, p=(gap, 0, 0, 0), label=f"{name} {TO_BLOCKED}")
        if part < target.number - 1:
            subtract(asm, scores, staged, repeats, label=f"{label} less its high part")
