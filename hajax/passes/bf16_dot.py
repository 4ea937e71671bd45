"""Whether products go through the CPU's bf16 unit: on matrix tiles all of them, in parts, else K K^T and Q K^T, exact in bf16."""

from hajax import cost
from hajax.passes.draft import Draft
from hajax.plans import Note
from hajax.targets import CpuTarget


def choose_bf16_dot(draft: Draft, target: CpuTarget) -> Draft:
    """Yes where the CPU has it and inputs are bf16 or go to tiles, unless they are decayed by channel before they meet."""
    use = cost.takes_bf16_dot(draft.mechanism, draft.shape, target)
    if use:
        reason = "state and weights in parts, on matrix tiles" if target.matrix_tiles else "exact inputs at twice the fp32 rate"
    elif draft.mechanism.decay == "per_channel":
        reason = "decayed rows are not bf16"
    else:
        reason = "the inputs are not bf16, the CPU lacks it or it does not pay"
    return draft.chosen(Note("bf16_dot", "bf16 dot" if use else "fp32", "", reason), bf16_dot=use)
