"""Which blocks of 32 bytes the repeats of a vector step touch, and whether they meet."""

import functools
from typing import Any

import numpy as np

from hajax.plans.footprint import VECTOR
from hajax.plans.program import Step

Blocks = np.ndarray[Any, np.dtype[np.int64]]


def reads_what_it_wrote(step: Step, mask: tuple[int, int], at: int, element: int, distance: int) -> bool:
    """Whether a repeat of a vector step reads a block that an earlier one wrote, or that it writes for other lanes.

    at, element: which source, and its bytes of an element; distance: blocks from its start to dst's.
    """
    return _reads_what_it_wrote(step.opcode, step.size, step.p, mask, at, element, distance)


@functools.lru_cache(maxsize=4096)
def _reads_what_it_wrote(
    opcode: str, size: int, p: tuple[int, ...], mask: tuple[int, int], at: int, element: int, distance: int
) -> bool:
    step, width = Step(opcode, size=size, p=p), VECTOR[opcode].dst
    read, written = repeats_of(step, mask, at, element), repeats_of(step, mask, 0, width) + distance
    low, high = int(written.min()), int(written.max())
    writer = np.full(high - low + 1, -1)  # of each block, the last repeat that writes it
    lane = np.full(high - low + 1, -1)  # and which one of the repeat's blocks it is
    repeats, each = np.indices(written.shape)
    writer[written - low], lane[written - low] = repeats, each
    inside = (read >= low) & (read <= high)
    repeats, each = np.indices(read.shape)[:, inside]
    found = read[inside] - low
    other = (lane[found] != each) if element == width else np.ones(found.shape, bool)
    return bool(((writer[found] >= 0) & ((writer[found] < repeats) | ((writer[found] == repeats) & other))).any())


def writes_twice(step: Step, mask: tuple[int, int]) -> bool:
    """Whether two repeats, or two blocks of one, of a vector step write the same block."""
    return _writes_twice(step.opcode, step.size, step.p, mask)


@functools.lru_cache(maxsize=4096)
def _writes_twice(opcode: str, size: int, p: tuple[int, ...], mask: tuple[int, int]) -> bool:
    written = repeats_of(Step(opcode, size=size, p=p), mask, 0, VECTOR[opcode].dst).ravel()
    return bool(np.any(np.bincount(written) > 1))


def repeats_of(step: Step, mask: tuple[int, int], at: int, element: int) -> Blocks:
    """[repeats, blocks of a repeat]: blocks from the operand's start."""
    active = _active(mask, VECTOR[step.opcode].count, VECTOR[step.opcode].blocks(element))
    return np.add.outer(np.arange(step.size, dtype=np.int64) * step.p[3 + at], active * step.p[at])


@functools.cache
def _active(mask: tuple[int, int], lanes: int, blocks: int) -> Blocks:
    """Which blocks of a repeat have a lane that is on."""
    word, each = mask[0] | mask[1] << 64, lanes // blocks
    return np.array([b for b in range(blocks) if word >> b * each & ((1 << each) - 1)], np.int64)
