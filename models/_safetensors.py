"""Safetensors files: one, or shards behind an index, read a tensor at a time; written whole or not at all."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import math
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import ml_dtypes  # without it numpy knows no bfloat16, and safetensors cannot read one
import numpy as np
import safetensors
import safetensors.numpy

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
DTYPES: dict[str, Any] = {"F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16}


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """What a file's header says of one tensor. dtype is the format's name for it, perhaps none of DTYPES."""

    path: str
    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * np.dtype(DTYPES[self.dtype]).itemsize


def find(folder: str | os.PathLike[str]) -> dict[str, Entry]:
    """The tensors of a checkpoint folder by name, from headers alone.

    Raises FileNotFoundError or ValueError naming the folder, file or shard, what was expected and what came.
    """
    folder = os.fspath(folder)
    index = os.path.join(folder, INDEX)
    if os.path.isfile(index):
        return _sharded(folder, index)
    single = os.path.join(folder, SINGLE)
    if os.path.isfile(single):
        return _entries(single)
    others = sorted(name for name in os.listdir(folder) if name.endswith((".safetensors", ".bin", ".pt", ".pth", ".gguf")))
    found = f"found {', '.join(others[:3])}" if others else "found no weights"
    raise FileNotFoundError(f"{folder}: expected {SINGLE} or {INDEX}, {found}")


def read(entry: Entry) -> np.ndarray:
    """A tensor's data, as a copy.

    The file is opened anew each time: pages of a mapping that stays count as memory of this process, a whole file in the end.
    """
    with _opened(entry.path) as file:
        tensor: np.ndarray = file.get_tensor(entry.name)
    return tensor


def read_all(entries: Sequence[Entry]) -> Iterator[np.ndarray]:
    """`read` of each in turn; neighbours of one file come from one opening of it."""
    for path, group in itertools.groupby(entries, key=lambda entry: entry.path):
        with _opened(path) as file:
            for entry in group:
                yield file.get_tensor(entry.name)


def write(path: str, tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> None:
    """Writes a safetensors file; a reader sees the old file or the whole new one."""
    # safetensors 0.8 writes the bytes from an array's first element on, whatever its strides
    dense = {name: np.require(tensor, requirements="C") for name, tensor in tensors.items()}
    with replacing(path) as temporary:
        safetensors.numpy.save_file(dense, temporary, dict(metadata))


@contextlib.contextmanager
def replacing(path: str) -> Iterator[str]:
    """Names a file to write, which takes `path`'s place when the context ends well, and vanishes otherwise."""
    temporary = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.{secrets.token_hex(8)}")
    try:
        with open(temporary, "xb") as file:
            mode = os.fstat(file.fileno()).st_mode
        yield temporary
        os.chmod(temporary, mode)  # safetensors keeps its files to their owner
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def _sharded(folder: str, index: str) -> dict[str, Entry]:
    try:
        with open(index, encoding="utf-8") as file:
            names = json.load(file)["weight_map"]
        shards = sorted(set(names.values()))
        if not shards or not all(isinstance(shard, str) and os.path.basename(shard) == shard for shard in shards):
            raise ValueError("weight_map does not name files of this folder")
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise ValueError(f"{index}: expected a JSON object with a weight_map of tensor to file ({error})") from None
    absent = [shard for shard in shards if not os.path.isfile(os.path.join(folder, shard))]
    if absent:
        raise FileNotFoundError(
            f"{folder}: {len(absent)} of {len(shards)} shards that {INDEX} names are absent: {', '.join(absent[:3])}"
        )
    held = {shard: _entries(os.path.join(folder, shard)) for shard in shards}
    for name, shard in names.items():
        if name not in held[shard]:
            raise ValueError(f"{os.path.join(folder, shard)}: expected tensor {name!r} as {INDEX} says, not in the file")
    return {name: held[shard][name] for name, shard in names.items()}


def _entries(path: str) -> dict[str, Entry]:
    """The tensors of one file. Opening it checks that the header fits the file's size."""
    with _opened(path) as file:
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 (not iterable itself)
        return {name: Entry(path, name, held.get_dtype(), tuple(held.get_shape())) for name, held in slices.items()}


@contextlib.contextmanager
def _opened(path: str) -> Iterator[Any]:
    try:
        with safetensors.safe_open(path, framework="np") as file:
            yield file
    except safetensors.SafetensorError as error:
        raise ValueError(
            f"{path}: truncated or damaged: expected a safetensors header and the data that it describes, "
            f"got {os.path.getsize(path)} bytes ({error})"
        ) from None
    except OSError as error:
        raise type(error)(f"{path}: expected a file that can be read ({error})") from None
