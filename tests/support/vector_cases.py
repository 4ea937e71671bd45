"""Drawn cases of vector instructions: operands laid out in UB, designed values in them, and reads and writes of lanes."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st
from vector_oracle import TYPES
from vector_program import ALL, BLOCK, IMAGE, Mask

REPEAT_BYTES = 256
TOP = 8192  # of the image, which layouts leave to the tests
SPECIALS = {
    np.float16: [0.0, -0.0, 2.0**-24, -(2.0**-24), 2.0**-14, 6.0e-5, 1.0, -1.0, 65504.0, -65504.0, 256.0,
                 np.inf, -np.inf, np.nan],
    np.float32: [0.0, -0.0, 1e-45, -1e-40, 1.1754944e-38, 1.0, -1.0, 65504.0, 65519.996, 65520.0, -65536.0, 0.5, 1.5, -2.5,
                 2.0**31, -(2.0**31), 3.4e38, -3.4e38, 88.72, -103.9, np.inf, -np.inf, np.nan],
}  # fmt: skip


@functools.cache
def _row(size: int, lanes: int, block: int) -> np.ndarray:
    lane = np.arange(lanes)
    start = lane // (BLOCK // size) * block * BLOCK + lane % (BLOCK // size) * size
    return start[:, None] + np.arange(size)


@dataclasses.dataclass(frozen=True)
class Operand:
    """Where the lanes of an operand lie: UB offset, strides in blocks."""

    offset: int
    block: int
    repeat: int

    def places(self, dtype: Any, lanes: int, repeat: int) -> np.ndarray:
        """Byte offsets of one repeat's elements, [lanes, size]."""
        return _row(np.dtype(dtype).itemsize, lanes, self.block) + (self.offset + repeat * self.repeat * BLOCK)

    def read(self, image: np.ndarray, dtype: Any, lanes: int, repeat: int) -> np.ndarray:
        """One repeat's elements."""
        return image[self.places(dtype, lanes, repeat)].view(dtype)[:, 0].copy()

    def write(self, image: np.ndarray, values: np.ndarray, repeat: int, active: np.ndarray) -> np.ndarray:
        """Stores the active lanes; returns the byte offsets of their elements."""
        places = self.places(values.dtype, len(values), repeat)[active]
        image[places] = np.ascontiguousarray(values[active]).view(np.uint8).reshape(places.shape)
        return places[:, 0]


def lanes_of(*types: str) -> int:
    """Lanes of a repeat: those of the widest element."""
    return REPEAT_BYTES // max(np.dtype(TYPES[t]).itemsize for t in types)


def values(rng: np.random.Generator, dtype: Any, count: int) -> np.ndarray:
    """Designed values: small, large, special, and any bits at all."""
    if np.dtype(dtype).kind in "iu":
        info = np.iinfo(dtype)
        small = rng.integers(max(info.min, -100), min(info.max, 100), count)
        edges = rng.choice(np.array([info.min, info.max, info.min + 1, info.max - 1, 0, 1]), count)
        anything = rng.integers(info.min, info.max, count, endpoint=True)
        return np.choose(rng.choice(3, count, p=[0.5, 0.2, 0.3]), [small, edges, anything]).astype(dtype)
    bits = np.uint16 if dtype is np.float16 else np.uint32
    small = rng.standard_normal(count) * 4
    wide = rng.standard_normal(count) * 2.0 ** rng.integers(-20, 17, count)
    anything = rng.integers(0, np.iinfo(bits).max, count, endpoint=True).astype(bits).view(dtype)
    special = rng.choice(np.array(SPECIALS[dtype]), count)
    with np.errstate(over="ignore"):
        kinds = [small.astype(dtype), wide.astype(dtype), special.astype(dtype), anything]
    return np.choose(rng.choice(4, count, p=[0.45, 0.25, 0.15, 0.15]), kinds).astype(dtype)


def blank(seed: int) -> tuple[np.ndarray, np.random.Generator]:
    """An image of any bytes, and the generator that fills it further."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, IMAGE, dtype=np.uint8), rng


def fill(image: np.ndarray, rng: np.random.Generator, operand: Operand, dtype: Any, lanes: int, repeats: int) -> None:
    """Designed values in every lane of an operand."""
    places = operand.places(dtype, lanes, 0) + (np.arange(repeats) * operand.repeat * BLOCK)[:, None, None]
    image[places] = values(rng, dtype, lanes * repeats).view(np.uint8).reshape(places.shape)


@st.composite
def masks(draw: st.DrawFn, lanes: int, repeat: int) -> Mask:
    """Full, the first lanes, any lanes, or a count of elements for at most `repeat` repeats."""
    kind = draw(st.sampled_from(["full", "full", "first", "any", "counter", "counter"]))
    if kind == "counter":
        return Mask(0, draw(st.integers(1, lanes * max(repeat, 1))), counter=True)
    if kind == "full":
        return Mask(ALL if lanes > 64 else draw(st.sampled_from([0, ALL])), ALL)
    if kind == "first":
        bits = (1 << draw(st.integers(1, lanes))) - 1
    else:
        bits = draw(st.integers(1, (1 << lanes) - 1))
    return Mask(bits >> 64, bits & ALL)


@st.composite
def layouts(
    draw: st.DrawFn, blocks: Sequence[int], repeats: int, in_place: int = -1, sum_of: bool = False
) -> tuple[Operand, ...]:
    """Operands of `blocks` blocks a repeat, destination first, apart from one another. in_place: the source that may be the
    destination itself. sum_of: the destination is read too, so that its repeats are apart or all the same."""
    overlaps = ["apart", "apart", "same", "accumulate"] if in_place > 0 and blocks[0] == blocks[in_place] else ["apart"]
    shared = draw(st.sampled_from(overlaps))
    found: list[Operand] = []
    next_block = draw(st.integers(0, 3))
    room = (IMAGE - TOP) // BLOCK // len(blocks) - 4
    for i, count in enumerate(blocks):
        if i == in_place and shared != "apart":
            found.append(found[0])
            continue
        plain = draw(st.integers(0, 2)) != 0
        block = 1 if plain else draw(st.integers(1 if i == 0 else 0, 5))
        extent = (count - 1) * block + 1
        step = count if plain else draw(st.integers(0, 24))
        if i == 0 and (shared == "same" or (sum_of and step != 0)):
            step = max(step, extent)
        if i == 0 and shared == "accumulate":
            step = 0
        if (repeats - 1) * step + extent > room:
            block, extent, step = 1, count, 0 if step == 0 else count
        found.append(Operand(next_block * BLOCK, block, step))
        next_block += max(repeats - 1, 0) * step + extent + draw(st.integers(0, 2))
    assert next_block * BLOCK <= IMAGE - TOP
    return tuple(found)


def repeat_counts() -> st.SearchStrategy[int]:
    """Few repeats, now and then many, now and then none."""
    return st.one_of(st.integers(1, 5), st.integers(1, 5), st.integers(0, 40))


def seeds() -> st.SearchStrategy[int]:
    """Of the values in the image."""
    return st.integers(0, 1 << 30)
