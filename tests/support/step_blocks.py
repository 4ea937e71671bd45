"""Which blocks of 32 bytes a step touches, block by block in numpy: what the masks of `hajax.plans.block_masks` must be."""

import functools
from dataclasses import dataclass

import numpy as np

from hajax.plans.footprint import UNIT, VECTOR, Dims, footprint, groups, products, wide
from hajax.plans.program import Operand, Program, Step
from hajax.plans.verify_blocks import Blocks, repeats_of

_HALF, _FULL = 16, 32  # blocks of a fractal of fp16 and of fp32


@dataclass(frozen=True, slots=True)
class Touch:
    """Blocks of a buffer, counted from its start, sorted; a slice where they follow one another."""

    buffer: str
    blocks: slice | Blocks
    write: bool

    def numbers(self) -> Blocks:
        """The blocks, one by one."""
        return np.arange(self.blocks.start, self.blocks.stop) if isinstance(self.blocks, slice) else self.blocks


def touches(step: Step, program: Program, dims: Dims) -> tuple[Touch, ...]:
    """What a step touches, reads before writes, as `footprint` orders them."""
    start = step.dst.offset % UNIT if step.dst is not None else 0
    mask = program.masks[step.index] if step.opcode in VECTOR else (0, 0)
    exact = _of_kind(step.opcode, step.count, step.index, step.size, step.p, start, mask)
    accesses, found = footprint(step, dims), []
    assert exact is None or len(exact) == len(accesses), f"{step.opcode}: footprint and blocks name other accesses"
    for which, access in enumerate(accesses):
        first, behind = access.start // UNIT, -(-access.end // UNIT)
        if exact is not None:
            blocks = exact[which]
            moved = slice(first + blocks.start, first + blocks.stop) if isinstance(blocks, slice) else blocks + first
            found.append(Touch(access.buffer, moved, access.write))
        else:
            found.append(Touch(access.buffer, slice(first, behind), access.write))
    return tuple(found)


@functools.lru_cache(maxsize=4096)  # many steps, fewer kinds of them
def _of_kind(
    opcode: str, count: int, index: int, size: int, p: tuple[int, ...], start: int, mask: tuple[int, int]
) -> tuple[slice | Blocks, ...] | None:
    """Of each access of such a step, its blocks from the operand's start on; None: all of the footprint.

    start: dst's first byte within its first block.
    """
    step = Step(opcode, Operand("", start), count=count, index=index, size=size, p=p)
    exact = _vector(step, mask) if opcode in VECTOR else _moved(step)
    return None if exact is None else tuple(_sorted(blocks) for blocks in exact)


def _sorted(blocks: Blocks) -> slice | Blocks:
    """Each block once."""
    low, high = int(blocks.min()), int(blocks.max())
    seen = np.zeros(high - low + 1, bool)
    seen[blocks - low] = True
    return slice(low, high + 1) if seen.all() else np.flatnonzero(seen) + low


def _grid(*axes: tuple[int, int]) -> Blocks:
    """Sums of one member of each arithmetic series (count, distance)."""
    found = np.zeros(1, np.int64)
    for count, distance in axes:
        found = (found[:, None] + np.arange(count, dtype=np.int64) * distance).ravel()
    return found


def _moved(step: Step) -> list[Blocks] | None:
    """Relative to each operand's start; None: all of the footprint."""
    match step.opcode:
        case "load_a" | "load_b":
            source = np.add.outer(np.array(groups(step), np.int64) * _HALF, _grid((step.size, step.p[0] * _HALF), (_HALF, 1)))
            target = _grid((step.count, step.p[3] * _HALF), (step.size * _HALF, 1))
            return [source.ravel(), target] * (2 if wide(step.p, 5) else 1)  # low parts, if there are any, lie alike
        case "l1_to_ub" | "ub_to_l1":
            return [_grid((step.count, step.size + wide(step.p, at)), (step.size, 1)) for at in (0, 2)]
        case "c_to_ub32" | "c_to_ub16" | "ub_to_c32":
            written = _HALF if step.opcode == "c_to_ub16" else _FULL
            pairs = ((step.p[0], _FULL), (step.p[1], written))
            return [_grid((step.count, (step.size + gap) * width), (step.size * width, 1)) for gap, width in pairs]
        case "mmad":
            m, each = step.p[0], products(step)
            left = [one.src0 * _HALF + _grid((m * one.k * _HALF, 1)) for one in each]
            right = [one.src1 * _HALF + _grid((one.k * one.n * _HALF, 1)) for one in each]
            result = np.concatenate([one.dst * _FULL + _grid((m * one.n * _FULL, 1)) for one in each])
            parts = [_twice(np.concatenate(left), step.p[7]), _twice(np.concatenate(right), step.index)]
            return [*parts, *[result] * (1 if step.p[6] & 1 else 2)]
    return None


def _twice(blocks: Blocks, low: int) -> Blocks:
    """With those of a low part, so many fractals further on; 0: there is none."""
    return np.concatenate([blocks, blocks + low * _HALF]) if low else blocks


def _vector(step: Step, mask: tuple[int, int]) -> list[Blocks]:
    lanes = VECTOR[step.opcode]
    operands = ((lanes.src0, 1), (lanes.src1, 2), (0 if lanes.sums else lanes.dst, 0))
    found = [repeats_of(step, mask, at, element).ravel() for element, at in operands if element]
    if lanes.sums:
        assert step.dst is not None, "an opcode's operand is missing"
        start = step.dst.offset % UNIT
        found.append(_grid((-(-(start + 4 * step.size) // UNIT), 1)))
    return [*found, found[-1]] if lanes.adds else found
