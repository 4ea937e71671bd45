"""Weights from and to a Hugging Face folder, in the text-only layout or in the multimodal one (text part only)."""

from __future__ import annotations

import json
import logging
import os
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from hajax.models import _safetensors
from hajax.models._progress import Progress
from hajax.models.qwen3_5.config import Config
from hajax.models.qwen3_5.weights import Params, Record, from_leaves, record_leaves

_TEXT = "model."
_MULTIMODAL = "model.language_model."
_SKIPPED = {"model.visual.": "vision", "mtp.": "multi-token prediction"}
_HEAD = "lm_head.weight"
_log = logging.getLogger("hajax.models")


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
    folder = os.fspath(folder)
    leaves = record_leaves(config)
    entries = _matched(folder, config, leaves, _safetensors.find(folder))
    arrays: list[jax.Array] = []
    with Progress("loading", sum(entry.nbytes for entry in entries), progress) as bar:
        for record, entry in zip(leaves, entries, strict=True):
            array = jnp.asarray(_safetensors.read(entry).reshape(record.shape))
            wanted = jnp.float32 if record.wide else dtype
            array = array if wanted is None else array.astype(wanted)
            arrays.append(array.block_until_ready())  # what was read is let go before the next is
            bar.advance(entry.nbytes)
    return from_leaves(config, arrays)


def save(folder: str | os.PathLike[str], params: Params, config: Config, *, dtype: jax.typing.DTypeLike | None = None) -> None:
    """Writes config.json, generation_config.json and model.safetensors in the text-only layout; config.json comes last.

    dtype: of all tensors but A_log and the GDN norm, which stay fp32 as in published checkpoints; None keeps each as it is.
    Each file appears whole or not at all.
    """
    folder = os.fspath(folder)
    os.makedirs(folder, exist_ok=True)
    leaves, found = record_leaves(config), jax.tree.leaves(params)
    if len(leaves) != len(found):
        raise ValueError(f"save params: expected {len(leaves)} tensors as config says, got {len(found)}")
    tensors: dict[str, np.ndarray] = {}
    for record, leaf in zip(leaves, found, strict=True):
        if leaf.shape != record.shape:
            raise ValueError(f"save {record.name}: expected shape {list(record.shape)}, got {list(leaf.shape)}")
        pinned = record.name.endswith(("A_log", "linear_attn.norm.weight"))
        value = leaf if dtype is None or pinned else leaf.astype(dtype)
        tensors[_full_name(record, _TEXT)] = np.asarray(value).reshape(record.stored)
    stored = next(tensor for name, tensor in tensors.items() if name.endswith("embed_tokens.weight")).dtype.name
    _safetensors.write(os.path.join(folder, _safetensors.SINGLE), tensors, {"format": "pt"})
    index = os.path.join(folder, _safetensors.INDEX)
    if os.path.exists(index):
        os.unlink(index)  # an index of what was here before would win over the new file
    text = config.to_dict(dtype=stored)
    _write_json(os.path.join(folder, "generation_config.json"), {"eos_token_id": text["eos_token_id"]})
    _write_json(os.path.join(folder, "config.json"), text)


def _write_json(path: str, data: dict[str, Any]) -> None:
    with _safetensors.replacing(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        file.write(json.dumps(data, indent=2) + "\n")


def _matched(
    folder: str, config: Config, leaves: list[Record], entries: dict[str, _safetensors.Entry]
) -> list[_safetensors.Entry]:
    """The entry of each record; every other tensor of the folder must be one that is skipped on purpose."""
    prefix = _MULTIMODAL if any(name.startswith(_MULTIMODAL) for name in entries) else _TEXT
    names = [_full_name(record, prefix) for record in leaves]
    missing = [name for name in names if name not in entries]
    if missing:
        raise ValueError(f"{folder}: missing tensor {missing[0]!r}{_and_more(missing)}")
    for record, name in zip(leaves, names, strict=True):
        entry = entries[name]
        if entry.shape != record.stored:
            wanted = list(record.stored)
            raise ValueError(f"{entry.path}: {name}: expected shape {wanted} as config.json says, got {list(entry.shape)}")
        if entry.dtype not in _safetensors.DTYPES:
            raise ValueError(f"{entry.path}: {name}: expected dtype {', '.join(_safetensors.DTYPES)}, got {entry.dtype}")
    rest = sorted(set(entries) - set(names))
    skipped = {what: sum(name.startswith(start) for name in rest) for start, what in _SKIPPED.items()}
    if config.tie_word_embeddings and _HEAD in rest:
        skipped["tied lm_head"] = 1
    unexpected = [
        name for name in rest if not name.startswith(tuple(_SKIPPED)) and not (name == _HEAD and config.tie_word_embeddings)
    ]
    if unexpected:
        raise ValueError(f"{folder}: unexpected tensor {unexpected[0]!r}{_and_more(unexpected)}")
    if any(skipped.values()):
        counts = ", ".join(f"{count} {what}" for what, count in skipped.items() if count)
        _log.warning("%s: skipped %s tensors (a text model needs none of them)", folder, counts)
    return [entries[name] for name in names]


def _full_name(record: Record, prefix: str) -> str:
    return record.name if record.name == _HEAD else prefix + record.name


def _and_more(names: list[str]) -> str:
    return f" and {len(names) - 1} more" if len(names) > 1 else ""
