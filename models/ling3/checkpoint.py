"""Weights from and to a Hugging Face folder of Ling 3.0."""

from __future__ import annotations

import os
import re

import jax
from hajax.models import _checkpoint
from hajax.models.kda_mla.weights import records
from hajax.models.layers.decoder import Params
from hajax.models.ling3.config import Config

_PREFIX = "model."


def load_params(
    folder: str | os.PathLike[str],
    config: Config,
    dtype: jax.typing.DTypeLike | None = None,
    *,
    progress: bool | None = None,
) -> Params:
    """The weights in a folder, as copies; arguments and errors as in `qwen3_5.load_params`.

    Norms, gate constants, convolutions and routers are fp32 always. The layers behind the last (multi-token
    prediction) are skipped, with one logged line that counts them.
    """

    def skip(key: str) -> str | None:
        layer = re.match(r"model\.layers\.(\d+)\.", key)
        return "multi-token prediction" if layer and int(layer[1]) >= config.num_hidden_layers else None

    return _checkpoint.load(
        folder,
        records(config),
        key=lambda name, keys: _checkpoint.full_name(name, _PREFIX),
        skip=skip,
        dtype=dtype,
        progress=progress,
    )


def save(folder: str | os.PathLike[str], params: Params, config: Config, *, dtype: jax.typing.DTypeLike | None = None) -> None:
    """Writes config.json, generation_config.json and model.safetensors; config.json comes last.

    dtype: of all tensors but convolutions, gate constants and routers, which stay fp32; None keeps each as it is.
    """
    _checkpoint.save(folder, params, records(config), config.to_dict, prefix=_PREFIX, dtype=dtype)
