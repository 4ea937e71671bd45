"""Safetensors files: one, or shards behind an index, read by memory map; written whole or not at all.

Format: 8 bytes of little-endian header length, a JSON header of name -> dtype, shape, data offsets, then the data.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import mmap
import os
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

import ml_dtypes
import numpy as np

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
DTYPES: dict[str, Any] = {"F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16}
_MAX_HEADER_BYTES = 100 << 20


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """Where one tensor lies: bytes [start, stop) of a file."""

    path: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int


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
        return read_header(single)
    others = sorted(name for name in os.listdir(folder) if name.endswith((".safetensors", ".bin", ".pt", ".pth", ".gguf")))
    found = f"found {', '.join(others[:3])}" if others else "found no weights"
    raise FileNotFoundError(f"{folder}: expected {SINGLE} or {INDEX}, {found}")


def _sharded(folder: str, index: str) -> dict[str, Entry]:
    try:
        with open(index, encoding="utf-8") as file:
            names = json.load(file)["weight_map"]
        shards = sorted(set(names.values()))
        if not shards or not all(isinstance(shard, str) and os.path.basename(shard) == shard for shard in shards):
            raise ValueError("weight_map does not name files of this folder")
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"{index}: expected a JSON object with a weight_map of tensor to file ({error})") from None
    absent = [shard for shard in shards if not os.path.isfile(os.path.join(folder, shard))]
    if absent:
        raise FileNotFoundError(
            f"{folder}: {len(absent)} of {len(shards)} shards that {INDEX} names are absent: {', '.join(absent[:3])}"
        )
    entries: dict[str, Entry] = {}
    for shard in shards:
        held = read_header(os.path.join(folder, shard))
        for name in held:
            if name in names and names[name] == shard:
                entries[name] = held[name]
        wanted = [name for name, where in names.items() if where == shard and name not in held]
        if wanted:
            raise ValueError(f"{os.path.join(folder, shard)}: expected tensor {wanted[0]!r} as {INDEX} says, not in the file")
    return entries


def read_header(path: str) -> dict[str, Entry]:
    """The tensors of one file. Checks that every one lies within the file."""
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        first = file.read(8)
        length = int.from_bytes(first, "little")
        if len(first) < 8 or length > _MAX_HEADER_BYTES or 8 + length > size:
            raise ValueError(f"{path}: truncated or not a safetensors file (header of {length} bytes in a file of {size})")
        try:
            header = json.loads(file.read(length))
            header.pop("__metadata__", None)
            entries = {name: _entry(path, 8 + length, fields) for name, fields in header.items()}
        except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"{path}: expected a safetensors header ({error})") from None
    for name, entry in entries.items():
        if entry.stop > size:
            raise ValueError(f"{path}: truncated: tensor {name!r} ends at byte {entry.stop}, the file has {size}")
    return entries


def _entry(path: str, base: int, fields: Any) -> Entry:
    start, stop = (int(offset) for offset in fields["data_offsets"])
    shape = tuple(int(n) for n in fields["shape"])
    if start < 0 or stop < start or any(n < 0 for n in shape):
        raise ValueError(f"bad offsets {start}, {stop} for shape {list(shape)}")
    dtype = str(fields["dtype"])
    if dtype in DTYPES and stop - start != int(np.prod(shape, dtype=np.int64)) * np.dtype(DTYPES[dtype]).itemsize:
        raise ValueError(f"{stop - start} bytes for a {dtype} tensor of shape {list(shape)}")
    return Entry(path, dtype, shape, base + start, base + stop)


@contextlib.contextmanager
def mapped() -> Iterator[Any]:
    """A function Entry -> read-only numpy view, valid inside the context; each file is mapped once."""
    maps: dict[str, mmap.mmap] = {}

    def view(entry: Entry) -> np.ndarray:
        if entry.path not in maps:
            with open(entry.path, "rb") as file:
                maps[entry.path] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        raw = np.frombuffer(maps[entry.path], np.uint8, entry.stop - entry.start, entry.start)
        typed: np.ndarray = raw.view(DTYPES[entry.dtype])
        return typed.reshape(entry.shape)

    try:
        yield view
    finally:
        for held in maps.values():
            with contextlib.suppress(BufferError):  # a view that an error's traceback still holds keeps its map
                held.close()


def write(path: str, tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> None:
    """Writes a safetensors file; a reader sees the old file or the whole new one."""
    names = {np.dtype(kind): name for name, kind in DTYPES.items()}
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    offset = 0
    for name, tensor in tensors.items():
        header[name] = {
            "dtype": names[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [offset, offset + tensor.nbytes],
        }
        offset += tensor.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with replacing(path) as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in tensors.values():
            file.write(np.ascontiguousarray(tensor).reshape(-1).view(np.uint8).data)


@contextlib.contextmanager
def replacing(path: str) -> Iterator[Any]:
    """A binary file that takes `path`'s place when the context ends well, and vanishes otherwise."""
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(path), prefix=f".{os.path.basename(path)}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
