"""Whether K K^T and Q K^T go through the CPU's bf16 dot product: only there are both operands exact in bf16."""

from hajax.passes.draft import Draft
from hajax.plans import Note
from hajax.targets import CpuTarget


def choose_bf16_dot(draft: Draft, target: CpuTarget) -> Draft:
    """Yes where the inputs are bf16 and the CPU has it, unless they are decayed channel by channel before they meet."""
    by_channel = draft.mechanism.decay == "per_channel"
    use = target.bf16_dot and draft.shape.input_dtype == "bfloat16" and not by_channel
    reason = "exact inputs at twice the fp32 rate" if use else "the inputs are not bf16 or the CPU lacks it"
    if by_channel:
        reason = "decayed rows are not bf16"
    return draft.chosen(Note("bf16_dot", "bf16 dot" if use else "fp32", "", reason), bf16_dot=use)
