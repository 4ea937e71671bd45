"""Kimi Linear: KDA with low-rank gates, latent attention without rotation, experts."""

from hajax.models.kda_mla.model import decode, forward, init_cache, prefill
from hajax.models.kda_mla.weights import init
from hajax.models.kimi_linear.checkpoint import load_params, save
from hajax.models.kimi_linear.config import Config
from hajax.models.layers.decoder import Cache, Params, capacity_of

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
