"""Programs of move and cube instructions: run on the emulated chip, and what they should do, on numpy images of the memories."""

import functools
import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from hajax.backends import sim

ENTRY = Path(__file__).parents[1] / "emulator" / "move_entry.cpp"
OPCODES = {name: int(code) for code, name in re.findall(r"\bCASE\(\s*(\d+),\s*(\w+),", ENTRY.read_text(encoding="utf-8"))}
SPACES = ("L1", "L0A", "L0B", "L0C", "UB")
PIPES = ("S", "V", "M", "MTE1", "MTE2", "MTE3", "ALL")
WORDS = 16
BLOCK, FRACTAL = 32, 512

CRMODES = (
    "NONE", "F32toF16_NONE", "F32toF16_RELU", "S32toF16_NONE", "F16toF32_NONE", "NONE_RELU", "F16_MUL", "S32toF16_DEQSCALE_SPR",
    "DEQSCALE_VDEQ8", "DEQSCALE_DEQ8", "DEQSCALE_VDEQ16", "DEQSCALE_DEQ16", "DEQSCALE_VDEQS16", "DEQSCALE_DEQS16",
)  # fmt: skip
DTYPES = {
    "f16": np.float16, "f32": np.float32, "s32": np.int32, "u32": np.uint32, "s8": np.int8, "u8": np.uint8, "s16": np.int16,
}  # fmt: skip


@functools.cache
def library(target="ascend310p1"):
    """move_entry.cpp, compiled."""
    return sim.compile_kernel(ENTRY, target)


@dataclass
class Program:
    """Rows of instructions, each followed by a barrier for all pipes unless it is added with `together`."""

    rows: list = field(default_factory=list)

    def together(self, name, *words):
        self.rows.append([OPCODES[name], *map(int, words)] + [0] * (WORDS - 1 - len(words)))
        return self

    def add(self, name, *words):
        return self.together(name, *words).together("pipe_barrier", PIPES.index("ALL"))

    def run(self, images, gm, target="ascend310p1", **options):
        """(images and GM afterwards, the run). Memories without an image are never written."""
        windows = np.array([images[s].nbytes if s in images else 0 for s in SPACES], np.int64)
        before = np.concatenate([images[s].view(np.uint8).ravel() for s in SPACES if s in images] or [np.zeros(BLOCK, np.uint8)])
        rows = np.array(self.rows, np.int64).reshape(-1, WORDS)
        after = sim.Output((max(int(windows.sum()), BLOCK),), np.uint8)
        done = sim.run(
            library(target), "program", [rows, len(rows), windows, before, after, gm], target=target,
            options=sim.SimOptions(threads=1, timeline=False, **options),
        )  # fmt: skip
        flat, ends = done.arrays[3], np.cumsum(windows)
        found = {s: flat[end - size : end] for s, size, end in zip(SPACES, windows, ends, strict=True) if size}
        return found | {"GM": done.arrays[4]}, done


def runs(count, length, gap, unit=BLOCK):
    """Byte indices of `count` runs of `length` units with `gap` bytes between them."""
    starts = np.arange(count)[:, None] * (length * unit + gap)
    return (starts + np.arange(length * unit)).ravel()


def half_of_float(values):
    """To nearest even, clamped to the largest half."""
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float16)
    return np.where(np.isinf(narrow), np.copysign(np.float16(65504), narrow), narrow).astype(np.float16)


def relu(values):
    return np.where(values <= 0, values.dtype.type(0), values)  # NaN stays


def convert(values, to, mode, scale=0):
    """What a move between L0C and UB makes of the values."""
    if mode == "NONE":
        return values
    if mode == "NONE_RELU":
        return relu(values)
    if mode in ("F32toF16_NONE", "F32toF16_RELU"):
        return half_of_float(relu(values) if mode.endswith("RELU") else values)
    if mode == "F16toF32_NONE":
        return values.astype(np.float32)
    if mode == "DEQSCALE_DEQ16":
        factor = np.array([scale & 0xFFFFFFFF], np.uint32).view(np.float32)[0]
        scaled = values.astype(np.float32) * factor
        return half_of_float(relu(scaled) if scale >> 47 & 1 else scaled)
    assert mode in ("F16_MUL", "S32toF16_NONE") and to == np.float16
    return half_of_float(values.astype(np.float32) * np.array([scale & 0xFFFF], np.uint16).view(np.float16).astype(np.float32)[0])


def zz(matrix):
    """[m, k] as fractals of 16 x 32 bytes in rows, each row by row (L0A)."""
    depth = BLOCK // matrix.dtype.itemsize
    m, k = matrix.shape
    return matrix.reshape(m // 16, 16, k // depth, depth).transpose(0, 2, 1, 3).ravel()


def zn(matrix):
    """[k, n] as fractals of 32 bytes x 16 in rows, each column by column (L0B)."""
    depth = BLOCK // matrix.dtype.itemsize
    k, n = matrix.shape
    return matrix.reshape(k // depth, depth, n // 16, 16).transpose(0, 2, 3, 1).ravel()


def nz(matrix):
    """[m, n] as fractals of 16 x 16 in columns, each row by row (L0C)."""
    m, n = matrix.shape
    return matrix.reshape(m // 16, 16, n // 16, 16).transpose(2, 0, 1, 3).ravel()


def of_nz(flat, m, n):
    """The matrix of nz()."""
    return flat.reshape(n // 16, m // 16, 16, 16).transpose(1, 2, 0, 3).reshape(m, n)


def up(value, multiple=16):
    return -(-value // multiple) * multiple
