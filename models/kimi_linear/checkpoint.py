"""Weights from and to a Hugging Face folder of Kimi Linear."""

from __future__ import annotations

import os
from collections.abc import Collection

import jax
from hajax.models import _checkpoint
from hajax.models.kda_mla.weights import records
from hajax.models.kimi_linear.config import Config
from hajax.models.layers.decoder import Params

_PREFIX = "model."


def load_params(
    folder: str | os.PathLike[str],
    config: Config,
    dtype: jax.typing.DTypeLike | None = None,
    *,
    progress: bool | None = None,
) -> Params:
    """The weights in a folder, as copies; arguments and errors as in `qwen3_5.load_params`.

    Norms, gate constants, convolutions and routers are fp32 always.
    """
    return _checkpoint.load(folder, records(config), key=_key, skip=lambda key: None, dtype=dtype, progress=progress)


def save(folder: str | os.PathLike[str], params: Params, config: Config, *, dtype: jax.typing.DTypeLike | None = None) -> None:
    """Writes config.json, generation_config.json and model.safetensors; config.json comes last.

    dtype: of all tensors but convolutions, gate constants and routers, which stay fp32; None keeps each as it is.
    """
    _checkpoint.save(folder, params, records(config), config.to_dict, prefix=_PREFIX, dtype=dtype)


def _key(name: str, keys: Collection[str]) -> str:
    """transformers writes a dense layer's matrices under the experts' name; the published files have `mlp`."""
    full = _checkpoint.full_name(name, _PREFIX)
    other = full.replace(".mlp.", ".block_sparse_moe.")
    return other if full not in keys and other in keys else full
