"""Heads and state columns to threads. After chunking, whose cost it shares out.

Whole key heads first, with all their value heads: K K^T and Q K^T are then formed once. When that leaves threads idle,
value heads part, then columns; both repeat work, so the expected makespan decides. Small calls stay on one thread.
"""

from hajax import cost
from hajax.passes.draft import Draft
from hajax.plans import Note
from hajax.targets import CpuTarget


def map_heads(draft: Draft, target: CpuTarget) -> Draft:
    """The mapping with the smallest expected makespan; of equals the one that repeats least."""
    assert draft.chunk is not None and draft.token_steps is not None
    candidates = {
        (group, blocks): cost.cpu_makespan(draft.mechanism, draft.shape, target, draft.chunk, draft.token_steps, group, blocks)
        for group in _divisors(draft.shape.value_heads // draft.shape.key_heads)
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


def _divisors(number: int) -> list[int]:
    return [d for d in range(1, number + 1) if number % d == 0]
