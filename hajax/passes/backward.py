"""Choices of the gradient's kernel: chunk, heads to threads, scratch.

The parts of the scratch are those of the kernel's layout (native/cpu/backward_layout.cpp); a contract test holds the sums equal.
"""

from hajax.passes.draft import Draft
from hajax.plans import Note
from hajax.plans.verify import CHUNKS
from hajax.targets import CpuTarget

_CHUNK = 64  # measured best for heads of 128 (benchmarks/backward.py)
_LINE_FLOATS = 16  # parts start on cache lines
_ROW_SLACK = 8  # rows that a register tile may overshoot a chunk by
_COUNTER_FLOATS = 16  # one line of counters
_BLOCK = 8  # tokens that scores with a decay per channel are halved down to
_MOST_KEPT_STATES = 64  # a sequence of more chunks is walked in segments
_LEAST_SEGMENT = 32


def choose_backward_chunk(draft: Draft, target: CpuTarget) -> Draft:
    """One length for all but short rows."""
    tokens = draft.shape.tokens
    best = _CHUNK if tokens is None else min(_CHUNK, next((c for c in CHUNKS if c >= tokens), _CHUNK))
    return draft.chosen(Note("chunking", f"chunk {best}", "", "a fixed length, shorter for short rows"), chunk=best)


def map_backward_heads(draft: Draft, target: CpuTarget) -> Draft:
    """As many value heads of a key head to a task as keep the threads busy: those share their scores and sum their gradients."""
    shape = draft.shape
    shared = shape.value_heads // shape.key_heads
    rows = (shape.batch or 1) * shape.sequences * shape.key_heads

    def makespan(group: int) -> tuple[int, int]:
        return group * -(-rows * (shared // group) // target.threads), -group

    group = min((d for d in range(1, shared + 1) if shared % d == 0), key=makespan)
    workers = min(target.threads, rows * (shared // group)) if shape.batch is not None else target.threads
    note = Note("mapping", f"{group} value heads a task, {workers} of {target.threads} threads", "", "")
    return draft.chosen(note, group=group, workers=workers)


def size_backward_scratch(draft: Draft, target: CpuTarget) -> Draft:
    """Rows and scores of a chunk with their gradients, and `group` states for each chunk of a segment and for each segment."""
    shape = draft.shape
    assert draft.chunk is not None and draft.group is not None
    tokens = 0 if shape.tokens is None else shape.tokens
    rows, dim, by_channel = draft.chunk + _ROW_SLACK, shape.key_dim, draft.mechanism.decay == "per_channel"
    pitch = _up(rows, max(target.panel, _LINE_FLOATS))
    wide_value, wide_key = _wide(shape.value_dim, target.panel), _wide(dim, target.panel)
    states = draft.group * dim * wide_value
    parts = [rows * dim] * 2 + [dim * pitch] + [rows * pitch] * 4 + [pitch] * 8 + [dim]
    parts += [rows * wide_value] * 6 + [shape.value_dim * pitch] + [rows * pitch] * 5 + [shape.value_dim * wide_key] * 2
    parts += [states] + [rows * wide_key] * 3 + [pitch] * 3
    if by_channel:
        parts += [rows * dim] * 3 + [draft.chunk // _BLOCK * 2 * dim, _BLOCK * dim] + [rows * wide_key] * 6
    chunks = -(-tokens // draft.chunk)
    segment = _segment(chunks)
    kept = segment if chunks <= segment else segment + -(-chunks // segment)
    total = 4 * (_COUNTER_FLOATS + sum(_up(part, _LINE_FLOATS) for part in (*parts, kept * states)))
    note = Note("buffers", f"{total} B a thread", "", f"{4 * kept * states} B of it are {kept} x {draft.group} states")
    return draft.chosen(note, scratch_bytes=total)


def _segment(chunks: int) -> int:
    """Chunks between two states that are kept for the whole sequence: all, or about the square root."""
    if chunks <= _MOST_KEPT_STATES:
        return max(chunks, 1)
    segment = _LEAST_SEGMENT
    while segment * segment < chunks:
        segment += 1
    return segment


def _wide(columns: int, panel: int) -> int:
    """Whole panels, and an odd number of cache lines."""
    return (_up(columns, max(panel, _LINE_FLOATS)) // _LINE_FLOATS | 1) * _LINE_FLOATS


def _up(count: int, multiple: int) -> int:
    return -(-count // multiple) * multiple
