"""From a checkpoint folder to a Model."""

from __future__ import annotations

import functools
import os
from types import ModuleType

import jax
import jax.numpy as jnp
from hajax.models import kimi_linear, ling3, qwen3_5
from hajax.models._config import token_ids
from hajax.models._json import read_json
from hajax.models._model import Model

from hajax import abi
from hajax._jit import jit

FAMILIES: dict[str, ModuleType] = {
    "qwen3_5": qwen3_5,
    "qwen3_5_text": qwen3_5,
    "kimi_linear": kimi_linear,
    "bailing_hybrid": ling3,
}
_DTYPES = abi.names("dtypes")


def load(
    folder: str | os.PathLike[str],
    dtype: jax.typing.DTypeLike | None = None,
    *,
    implementation: str | None = None,
    backend: str | None = None,
    progress: bool | None = None,
) -> Model:
    """The model in a Hugging Face checkpoint folder: config.json, safetensors (one file or shards), maybe a tokenizer.

    dtype: of weights and activations (float32, bfloat16, float16); None keeps the checkpoint's. Gate constants, norms and
    recurrent states are fp32 always. implementation: as in `hajax.gated_delta_rule`; backend: as in `hajax.jit`. progress: a
    bar on standard error; None shows it on a terminal. Nothing is downloaded.

    Raises FileNotFoundError or ValueError naming the file, key or tensor, what was expected and what came.
    """
    compiler = functools.partial(jit, backend=backend)
    compiler(lambda: None, implementation=implementation)  # refuses a backend that cannot be used before anything is read
    folder = os.fspath(folder)
    if not os.path.isdir(folder):
        what = "not a folder" if os.path.exists(folder) else "no such folder"
        raise FileNotFoundError(f"{folder}: {what} (a checkpoint is a local folder with config.json; nothing is downloaded)")
    wanted = None if dtype is None else _checked_dtype(dtype)
    data = read_json(folder)
    model_type = data.get("model_type")
    if model_type not in tuple(FAMILIES):  # by comparison: JSON may hold what cannot be hashed
        raise ValueError(f"{folder}: config model_type: expected one of {', '.join(FAMILIES)}, got {model_type!r}")
    family = FAMILIES[model_type]
    try:
        config = family.Config.from_dict(data)
    except ValueError as error:
        raise ValueError(f"{folder}: {error}") from None
    eos = config.eos_token_ids
    generation = os.path.join(folder, "generation_config.json")
    if os.path.isfile(generation):
        eos = token_ids(read_json(generation).get("eos_token_id"), f"{generation}: eos_token_id") or eos
    params = family.load_params(folder, config, wanted, progress=progress)
    return Model(family, config, params, folder=folder, eos=eos, implementation=implementation, jit=compiler)


def _checked_dtype(dtype: jax.typing.DTypeLike) -> jnp.dtype:
    try:
        found = jnp.dtype(dtype)
    except TypeError:
        found = None
    if found is None or found.name not in _DTYPES:
        raise ValueError(f"dtype: expected None or one of {', '.join(_DTYPES)}, got {dtype!r}")
    return found
