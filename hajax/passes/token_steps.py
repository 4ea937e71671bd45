"""Up to which length a sequence runs token by token. After chunking: it compares with one chunk's cost.

A token alone reads the state twice and writes it once; a chunk pads to whole register tiles and repacks the state.
"""

from hajax import cost
from hajax.passes.draft import Draft
from hajax.plans import Note
from hajax.targets import CpuTarget


def choose_token_steps(draft: Draft, target: CpuTarget) -> Draft:
    """The longest sequence for which single tokens are modelled to be no slower."""
    assert draft.chunk is not None
    steps = 0
    while steps < draft.chunk and cost.cpu_tokens_cost(draft.mechanism, draft.shape, target, steps + 1) <= cost.cpu_chunked_cost(
        draft.mechanism, draft.shape, target, draft.chunk, steps + 1
    ):
        steps += 1
    note = Note("token_steps", f"up to {steps} tokens one by one", "a padded chunk", f"from {steps + 1} tokens on, chunks win")
    return draft.chosen(note, token_steps=steps)
