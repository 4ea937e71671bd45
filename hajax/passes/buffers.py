"""Scratch of one worker. Last in the schedule: it counts what the other passes chose."""

from hajax.passes.draft import Draft
from hajax.plans import Note
from hajax.targets import CpuTarget


def size_scratch(draft: Draft, target: CpuTarget) -> Draft:
    return draft.chosen(Note("buffers", "x", "", ""), scratch_bytes=64)
