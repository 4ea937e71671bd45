"""Qwen3.5 text models (also the text part of the multimodal checkpoints)."""

from hajax.models.qwen3_5.checkpoint import load_params, save
from hajax.models.qwen3_5.config import Config
from hajax.models.qwen3_5.model import Cache, capacity_of, decode, forward, init_cache, prefill
from hajax.models.qwen3_5.weights import Params, init

__all__ = [
    "Cache",
    "Config",
    "Params",
    "capacity_of",
    "decode",
    "forward",
    "init",
    "init_cache",
    "load_params",
    "prefill",
    "save",
]
