"""Weights from and to a Hugging Face folder, for any model: which tensors it wants is said by records."""

from __future__ import annotations

import json
import logging
import os
from collections import Counter
from collections.abc import Callable, Collection
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from hajax.models import _safetensors
from hajax.models._progress import Progress
from hajax.models._weights import Record, fill, leaves_of
from hajax.models.layers.decoder import Params

HEAD = "lm_head.weight"
_log = logging.getLogger("hajax.models")


def load(
    folder: str | os.PathLike[str],
    records: Params,
    *,
    key: Callable[[str, Collection[str]], str],
    skip: Callable[[str], str | None],
    dtype: jax.typing.DTypeLike | None,
    progress: bool | None,
) -> Params:
    """The weights in a folder, as copies: nothing refers to the files afterwards.

    key(name, keys of the folder): a record's name as the folder has it. skip(key): what kind of tensor that is when it is
    left out on purpose, else None; one logged line counts those. dtype: of matrices; None keeps each as stored.
    Raises FileNotFoundError or ValueError, before any data is read, naming the tensor, what was expected and what came.
    """
    folder = os.fspath(folder)
    leaves = leaves_of(records)
    matched = _matched(folder, leaves, _safetensors.find(folder), key, skip)
    arrays: list[jax.Array] = []
    with Progress("loading", sum(entry.nbytes for parts in matched for entry in parts), progress) as bar:
        for record, parts in zip(leaves, matched, strict=True):
            wanted = np.dtype(jnp.float32) if record.wide else None if dtype is None else np.dtype(dtype)
            arrays.append(_read(record, parts, wanted).block_until_ready())  # what was read is let go before the next is
            bar.advance(sum(entry.nbytes for entry in parts))
    return fill(records, arrays)


def save(
    folder: str | os.PathLike[str],
    params: Params,
    records: Params,
    describe: Callable[[str], dict[str, Any]],
    *,
    prefix: str,
    dtype: jax.typing.DTypeLike | None,
) -> None:
    """Writes config.json, generation_config.json and model.safetensors; config.json comes last.

    describe(dtype's name): the config.json. dtype: of all tensors but pinned ones; None keeps each as it is. Each file appears
    whole or not at all.
    """
    folder = os.fspath(folder)
    os.makedirs(folder, exist_ok=True)
    leaves, found = leaves_of(records), jax.tree.leaves(params)
    if len(leaves) != len(found):
        raise ValueError(f"save params: expected {len(leaves)} tensors as config says, got {len(found)}")
    tensors: dict[str, np.ndarray] = {}
    for record, leaf in zip(leaves, found, strict=True):
        if leaf.shape != record.shape:
            raise ValueError(f"save {record.name}: expected shape {list(record.shape)}, got {list(leaf.shape)}")
        value = leaf if dtype is None or record.pinned else leaf.astype(dtype)
        parts = np.asarray(value).reshape(len(record.names), *record.stored)
        tensors |= {full_name(name, prefix): part for name, part in zip(record.names, parts, strict=True)}
    stored = (params.embed if dtype is None else params.embed.astype(dtype)).dtype.name
    _safetensors.write(os.path.join(folder, _safetensors.SINGLE), tensors, {"format": "pt"})
    index = os.path.join(folder, _safetensors.INDEX)
    if os.path.exists(index):
        os.unlink(index)  # an index of what was here before would win over the new file
    text = describe(stored)
    _write_json(os.path.join(folder, "generation_config.json"), {"eos_token_id": text["eos_token_id"]})
    _write_json(os.path.join(folder, "config.json"), text)


def full_name(name: str, prefix: str) -> str:
    return name if name == HEAD else prefix + name


def _read(record: Record, parts: list[_safetensors.Entry], wanted: np.dtype | None) -> jax.Array:
    if len(parts) == 1:
        array = jnp.asarray(_safetensors.read(parts[0]).reshape(record.shape))
        return array if wanted is None else array.astype(wanted)
    kind = np.dtype(_safetensors.DTYPES[parts[0].dtype]) if wanted is None else wanted
    joined = np.empty((len(parts), *record.stored), kind)
    for place, part in zip(joined, _safetensors.read_all(parts), strict=True):
        place[...] = part.astype(kind)
    return jnp.asarray(joined.reshape(record.shape))


def _write_json(path: str, data: dict[str, Any]) -> None:
    with _safetensors.replacing(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        file.write(json.dumps(data, indent=2) + "\n")


def _matched(
    folder: str,
    leaves: list[Record],
    entries: dict[str, _safetensors.Entry],
    key: Callable[[str, Collection[str]], str],
    skip: Callable[[str], str | None],
) -> list[list[_safetensors.Entry]]:
    """The entries of each record; every other tensor of the folder must be one that is skipped on purpose."""
    names = [[key(name, entries.keys()) for name in record.names] for record in leaves]
    wanted = [name for parts in names for name in parts]
    missing = [name for name in wanted if name not in entries]
    if missing:
        raise ValueError(f"{folder}: missing tensor {missing[0]!r}{_and_more(missing)}")
    for record, parts in zip(leaves, names, strict=True):
        for name in parts:
            _check(entries[name], name, record)
    rest = sorted(set(entries) - set(wanted))
    tied = HEAD not in wanted
    skipped = {name: "tied lm_head" if tied and name == HEAD else skip(name) for name in rest}
    unexpected = [name for name, kind in skipped.items() if kind is None]
    if unexpected:
        raise ValueError(f"{folder}: unexpected tensor {unexpected[0]!r}{_and_more(unexpected)}")
    if skipped:
        counts = ", ".join(f"{count} {kind}" for kind, count in Counter(skipped.values()).items())
        _log.warning("%s: skipped %s tensors (a text model needs none of them)", folder, counts)
    return [[entries[name] for name in parts] for parts in names]


def _check(entry: _safetensors.Entry, name: str, record: Record) -> None:
    if entry.shape != record.stored:
        wanted = list(record.stored)
        raise ValueError(f"{entry.path}: {name}: expected shape {wanted} as config.json says, got {list(entry.shape)}")
    if entry.dtype not in _safetensors.DTYPES:
        raise ValueError(f"{entry.path}: {name}: expected dtype {', '.join(_safetensors.DTYPES)}, got {entry.dtype}")


def _and_more(names: list[str]) -> str:
    return f" and {len(names) - 1} more" if len(names) > 1 else ""
