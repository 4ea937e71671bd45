"""Scratch of one worker. Last in the schedule: it counts what the other passes chose.

The parts are those of the kernel's layout (native/cpu/layout.cpp); a contract test holds the sums equal.
"""

from hajax.passes.draft import Draft
from hajax.plans import Note
from hajax.targets import CpuTarget

_LINE_FLOATS = 16  # parts start on cache lines
_ROW_SLACK = 8  # rows that a register tile may overshoot a chunk by
_COUNTER_FLOATS = 16  # one line of counters
_TOKEN_VECTORS = 3  # k.S, q.S and u of a single token
_BLOCK = 8  # tokens that scores with a decay per channel are halved down to
_TILES = 32  # rows of two matrix tiles, and the depth of one
_PARTS = 3  # of bf16, that hold a float
_EXACT_PARTS = {"bfloat16": 1, "float16": 2, "float32": _PARTS}  # that hold an input


def _up(count: int, multiple: int) -> int:
    return -(-count // multiple) * multiple


def size_scratch(draft: Draft, target: CpuTarget) -> Draft:
    """Rows, weights, updates, staged values and outputs, and the resident panels of `group` states, in bytes.

    With a decay per channel also a value head's own rows, decayed, and what one token leaves of each channel.
    """
    shape = draft.shape
    assert draft.chunk is not None and draft.group is not None and draft.column_blocks is not None
    tiled = target.matrix_tiles and bool(draft.bf16_dot)
    rows = (_up(draft.chunk, _TILES) if tiled else draft.chunk) + _ROW_SLACK
    state_rows = _up(shape.key_dim, _TILES) if tiled else shape.key_dim
    pitch = _up(rows, max(target.panel, _LINE_FLOATS))
    panels = -(-shape.value_dim // target.panel)
    columns = -(-panels // draft.column_blocks) * target.panel
    states = draft.group * state_rows * columns
    staged = [rows * (target.panel if tiled else columns)] * 2
    update = max(rows * target.panel, _TOKEN_VECTORS * shape.value_dim)
    parts = [rows * shape.key_dim] * 2 + [shape.key_dim * pitch]
    parts += [shape.key_dim // 2 * pitch] if draft.bf16_dot and not tiled else []
    parts += [rows * pitch] * 4 + [pitch] * 8 + [update] + staged + [states, state_rows]
    if draft.mechanism.decay == "per_channel":
        parts += [rows * shape.key_dim] * 3 + [draft.chunk // _BLOCK * 2 * shape.key_dim, _BLOCK * shape.key_dim]
    parts += _operands(draft, target) if tiled else []
    total = 4 * (_COUNTER_FLOATS + sum(_up(part, _LINE_FLOATS) for part in parts))
    note = Note("buffers", f"{total} B a thread", "", f"{4 * states} B of it are resident states (L2 {target.l2_bytes} B)")
    return draft.chosen(note, scratch_bytes=total)


def _operands(draft: Draft, target: CpuTarget) -> list[int]:
    """What matrix tiles multiply, in floats of two bf16 each: keys, queries, weights, state, updates."""
    assert draft.chunk is not None
    assert draft.group is not None
    shape, rows, dim = draft.shape, _up(draft.chunk, _TILES), _up(draft.shape.key_dim, _TILES)
    output = _PARTS if shape.output_dtype == "float32" else _PARTS - 1
    weights = [_PARTS * rows * rows // 2, output * rows * rows // 2]
    panels = [_PARTS * depth // 2 * target.panel for depth in (dim, rows)]
    return [_EXACT_PARTS[shape.input_dtype] * rows * dim // 2] * 4 + weights + panels + [rows] * 5 + [2 * draft.group]
