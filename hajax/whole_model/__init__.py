"""Whole models on a chip nobody has at hand: what a prefill takes, kernel by kernel, modelled."""

from hajax.whole_model.named import MODELS, PROMPTS, model_named
from hajax.whole_model.prefill import ModelProfile, Prefill, profile_prefills
from hajax.whole_model.sizes import Model, parameters

__all__ = ["MODELS", "PROMPTS", "Model", "ModelProfile", "Prefill", "model_named", "parameters", "profile_prefills"]
