"""Weights from and to a Hugging Face folder, in the text-only layout or in the multimodal one (text part only)."""

from __future__ import annotations

import os
from collections.abc import Collection

import jax
from hajax.models import _checkpoint
from hajax.models.layers.decoder import Params
from hajax.models.qwen3_5.config import Config
from hajax.models.qwen3_5.weights import records

_TEXT = "model."
_MULTIMODAL = "model.language_model."
_SKIPPED = {"model.visual.": "vision", "mtp.": "multi-token prediction"}


def load_params(
    folder: str | os.PathLike[str],
    config: Config,
    dtype: jax.typing.DTypeLike | None = None,
    *,
    progress: bool | None = None,
) -> Params:
    """The weights in a folder, as copies: nothing refers to the files afterwards.

    dtype: of matrices; None keeps each as stored. Norms and gate constants are fp32 always. progress: a bar on standard
    error; None shows it on a terminal. Vision and mtp tensors are skipped, with one logged line that counts them.
    Raises FileNotFoundError or ValueError, before any data is read, naming the tensor, what was expected and what came.
    """
    return _checkpoint.load(folder, records(config), key=_key, skip=_skip, dtype=dtype, progress=progress)


def save(folder: str | os.PathLike[str], params: Params, config: Config, *, dtype: jax.typing.DTypeLike | None = None) -> None:
    """Writes config.json, generation_config.json and model.safetensors in the text-only layout; config.json comes last.

    dtype: of all tensors but A_log and the GDN norm, which stay fp32 as in published checkpoints; None keeps each as it is.
    Each file appears whole or not at all.
    """
    _checkpoint.save(folder, params, records(config), config.to_dict, prefix=_TEXT, dtype=dtype)


def _key(name: str, keys: Collection[str]) -> str:
    multimodal = _checkpoint.full_name("embed_tokens.weight", _MULTIMODAL) in keys
    return _checkpoint.full_name(name, _MULTIMODAL if multimodal else _TEXT)


def _skip(key: str) -> str | None:
    return next((kind for start, kind in _SKIPPED.items() if key.startswith(start)), None)
