"""Chunk length. First in the schedule: every later choice counts in chunks.

Longer chunks spend more on the triangle inside a chunk, shorter ones touch the state more often.
"""

from hajax import cost
from hajax.passes.draft import Draft
from hajax.plans import Note
from hajax.plans.verify import CHUNKS
from hajax.targets import CpuTarget


def choose_chunk(draft: Draft, target: CpuTarget) -> Draft:
    """The length with the smallest modelled cost for this many tokens."""
    costs = {chunk: cost.cpu_head_cost(draft.mechanism, draft.shape, target, chunk) for chunk in CHUNKS}
    best = min(CHUNKS, key=lambda chunk: (costs[chunk], chunk))
    others = ", ".join(f"{chunk}: {costs[chunk] / costs[best]:.2f}x" for chunk in CHUNKS if chunk != best)
    note = Note("chunking", f"chunk {best}", others, f"modelled {costs[best] / 1e6:.2f} M cost units a head")
    return draft.chosen(note, chunk=best)
