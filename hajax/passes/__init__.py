"""Planner passes: one choice a file. A pass takes a draft and a target and returns a draft with its choice and a note of why."""

from hajax.passes.backward import choose_backward_chunk, map_backward_heads, size_backward_scratch
from hajax.passes.bf16_dot import choose_bf16_dot
from hajax.passes.buffers import size_scratch
from hajax.passes.chunking import choose_chunk
from hajax.passes.draft import Draft, finish
from hajax.passes.mapping import groups_to_try, map_heads
from hajax.passes.token_steps import choose_token_steps

__all__ = [
    "Draft",
    "choose_backward_chunk",
    "choose_bf16_dot",
    "choose_chunk",
    "choose_token_steps",
    "finish",
    "groups_to_try",
    "map_backward_heads",
    "map_heads",
    "size_backward_scratch",
    "size_scratch",
]
