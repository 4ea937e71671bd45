"""What the steps of a program touch, in pieces of memories: bytes that every step touches all or none of.

Exact: the gaps that strides and masks leave are nobody's. So one look at a piece tells who had it before.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hajax.plans.block_masks import block_masks
from hajax.plans.footprint import UNIT, VECTOR, Dims
from hajax.plans.pieces import Access as Mask
from hajax.plans.pieces import pieces_of
from hajax.plans.program import SPACES, Buffer, Program

SECTIONS = ("setup", "body", "finish")
Array = np.ndarray[Any, np.dtype[np.int64]]
Marks = np.ndarray[Any, np.dtype[np.bool_]]
_Row = tuple[int, bool, int, bool]  # access, write, owner, kept


@dataclass(frozen=True, slots=True)
class Touched:
    """Rows, one a step, access and piece: the piece, whether it is written, whose bytes they are, whether that buffer is kept.

    An owner is a version of a buffer: 2 * the buffer's number, 1 more for a second version. first, count: the rows of each step
    with the versions of even chunks and of odd ones, as [steps of all sections, 2]; reads come before writes. start: of each
    section, its first step. spaces: of each piece, its memory.
    """

    piece: Array
    write: Marks
    owner: Array
    kept: Marks
    first: Array
    count: Array
    start: Mapping[str, int]
    spaces: Array

    def rows(self, steps: Array, odd: Array) -> tuple[Array, Array]:
        """The rows of such a run of steps, piece after piece, each in the order of the run; and of each row, the step's place."""
        first, count = self.first[steps, odd], self.count[steps, odd]
        place = np.repeat(np.arange(len(steps)), count)
        rows = np.arange(len(place)) + np.repeat(first - (np.cumsum(count) - count), count)
        by_piece = np.argsort(self.piece[rows], kind="stable")
        return rows[by_piece], place[by_piece]


def touched_by(program: Program, dims: Dims) -> Touched:
    """Of a program whose addresses are within their memories."""
    owners = {buffer.name: (number, buffer, _first_blocks(buffer, program)) for number, buffer in enumerate(program.buffers)}
    known: dict[Mask, int] = {}
    listed: list[_Row] = []
    first: list[tuple[int, int]] = []
    count: list[tuple[int, int]] = []
    start: dict[str, int] = {}
    for section in SECTIONS:
        start[section] = len(first)
        for step in getattr(program, section):
            lanes = program.masks[step.index] if step.opcode in VECTOR else (0, 0)
            versions: tuple[list[_Row], list[_Row]] = ([], [])
            for name, bits, write in block_masks(step, dims, lanes):
                number, buffer, blocks = owners[name]
                for second, block in enumerate(blocks):
                    which = known.setdefault((buffer.space, block, bits), len(known))
                    versions[second].append((which, write, 2 * number + second, buffer.kept))
                if len(blocks) == 1:
                    versions[1].append(versions[0][-1])
            first.append((len(listed), len(listed) + len(versions[0])))
            count.append((len(versions[0]), len(versions[1])))
            listed += [*versions[0], *versions[1]]
    return _spread(known, listed, np.array(first).reshape(-1, 2), np.array(count).reshape(-1, 2), start)


def _first_blocks(buffer: Buffer, program: Program) -> tuple[int, ...]:
    """Of each version."""
    assert buffer.address is not None, "addresses were checked before"
    starts = (buffer.address, buffer.address + program.slot_bytes.get(buffer.space, 0))
    return tuple([start // UNIT for start in starts[: buffer.versions]])


def _spread(known: Mapping[Mask, int], listed: Sequence[_Row], first: Array, count: Array, start: Mapping[str, int]) -> Touched:
    """Accesses, one behind the other, as their pieces."""
    pieces = pieces_of(tuple(known))
    spaces = np.zeros(1 + max(map(max, filter(None, pieces)), default=0), np.int64)
    for (space, _, _), its in zip(known, pieces, strict=True):
        spaces[list(its)] = SPACES.index(str(space))
    sizes = np.array([len(its) for its in pieces], np.int64)
    which, write, owner, kept = np.array(listed, np.int64).reshape(-1, 4).T
    many = sizes[which]
    ends = np.concatenate(([0], np.cumsum(many)))
    begin = (np.cumsum(sizes) - sizes)[which] - ends[:-1]
    flat = np.fromiter(itertools.chain.from_iterable(pieces), np.min_scalar_type(len(spaces)))  # 16 bits are sorted fast
    piece = flat[np.arange(ends[-1]) + np.repeat(begin, many)]
    write, owner, kept = (np.repeat(each, many) for each in (write, owner, kept))
    return Touched(piece, write > 0, owner, kept > 0, ends[first], ends[first + count] - ends[first], start, spaces)
