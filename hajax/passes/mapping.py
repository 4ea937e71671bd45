"""Heads and state columns to threads. After chunking, whose cost it shares out.

Whole key heads first, with all their value heads: K K^T and Q K^T are then formed once. A few key heads together, chunk by
chunk, as their rows lie beside each other: measured 3 to 8 % faster than one after the other. When that leaves threads idle,
value heads part, then columns; both repeat work, so the expected makespan decides. Small calls stay on one thread.
"""

from hajax import cost
from hajax.passes.draft import Draft
from hajax.plans import Note, Shape
from hajax.plans.verify import groups_of
from hajax.targets import CpuTarget

_MOST_KEY_HEADS = 4  # of a task: more bring no more
_STATE_SHARE = 2  # the states of several key heads may fill at most one in so many bytes of the second-level cache


def groups_to_try(shape: Shape, target: CpuTarget) -> list[int]:
    """Numbers of value heads that a task may carry with profit."""
    shared = shape.value_heads // shape.key_heads
    if shape.tokens == shape.sequences:  # decoding, where heads share nothing
        return [group for group in groups_of(shape) if group <= shared]
    fitting = target.l2_bytes // _STATE_SHARE // (4 * shape.key_dim * shape.value_dim)
    most = max(shared, min(_MOST_KEY_HEADS * shared, fitting))
    return [group for group in groups_of(shape) if group <= most]


def map_heads(draft: Draft, target: CpuTarget) -> Draft:
    """The mapping with the smallest expected makespan; of equals the one that repeats least."""
    assert draft.chunk is not None and draft.token_steps is not None
    candidates = {
        (group, blocks): cost.cpu_makespan(draft.mechanism, draft.shape, target, draft.chunk, draft.token_steps, group, blocks)
        for group in groups_to_try(draft.shape, target)
        for blocks in range(1, min(target.threads, -(-draft.shape.value_dim // target.panel)) + 1)
    }
    group, blocks = min(candidates, key=lambda c: (candidates[c].units, c[1], -c[0]))
    best = candidates[group, blocks]
    plain = candidates[1, 1]
    note = Note(
        "mapping",
        f"{group} value heads a task, {blocks} column blocks, {best.workers} of {target.threads} threads",
        f"one value head a task: {plain.units / best.units:.2f}x",
        f"{best.tasks} tasks" if best.tasks else "tasks counted when called",
    )
    return draft.chosen(note, group=group, column_blocks=blocks, workers=best.workers)
