"""Ling 3.0: KDA with a bounded gate, gated latent attention, group-limited experts."""

from hajax.models.kda_mla.model import decode, forward, init_cache, prefill
from hajax.models.kda_mla.weights import init
from hajax.models.layers.decoder import Cache, Params, capacity_of
from hajax.models.ling3.checkpoint import load_params, save
from hajax.models.ling3.config import Config

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
