"""Planner passes: one choice a file. A pass takes a draft and a target and returns a draft with its choice and a note of why."""

from hajax.passes.bf16_dot import choose_bf16_dot
from hajax.passes.buffers import size_scratch
from hajax.passes.chunking import choose_chunk
from hajax.passes.draft import Draft, finish
from hajax.passes.mapping import map_heads
from hajax.passes.token_steps import choose_token_steps

__all__ = ["Draft", "choose_bf16_dot", "choose_chunk", "choose_token_steps", "finish", "map_heads", "size_scratch"]
