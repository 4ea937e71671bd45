"""Pieces of memories: blocks that every access of some code touches all or none of, so that who touched them is told once."""

from collections.abc import Hashable, Sequence

import numpy as np

Access = tuple[Hashable, int, int]  # a memory, a first block, and which blocks from there on as bits
_Masks = Sequence[tuple[int, int]]  # first blocks and bits, of one memory
_MANY = 12  # accesses of a memory from which on comparing all of their blocks at once is quicker


def pieces_of(accesses: Sequence[Access]) -> list[tuple[int, ...]]:
    """Of each access, the numbers of the pieces that it is made up of; they count from 0 through all memories."""
    memories: dict[Hashable, list[int]] = {}
    for number, (memory, _, _) in enumerate(accesses):
        memories.setdefault(memory, []).append(number)
    found: list[tuple[int, ...]] = [()] * len(accesses)
    count = 0
    for numbers in memories.values():
        cut = _cut if len(numbers) < _MANY else _cut_many
        parts, count = cut([accesses[number][1:] for number in numbers], count)
        for number, part in zip(numbers, parts, strict=True):
            found[number] = part
    return found


def _cut(masks: _Masks, start: int) -> tuple[list[tuple[int, ...]], int]:
    """Of each mask, the numbers of its pieces, from `start` on; and the number behind the last one."""
    whole = [bits << first for first, bits in masks]
    pieces: list[int] = []
    for mask in whole:
        left = mask
        for at in range(len(pieces)):
            both = pieces[at] & left
            if both and both != pieces[at]:
                pieces.append(pieces[at] ^ both)
                pieces[at] = both
            left ^= both
        if left:
            pieces.append(left)
    return [tuple([start + at for at, piece in enumerate(pieces) if piece & mask]) for mask in whole], start + len(pieces)


def _cut_many(masks: _Masks, start: int) -> tuple[list[tuple[int, ...]], int]:
    """As `_cut`, by comparing blocks: only where some mask begins or ends can who touches one differ from the block before."""
    ends = 0
    for first, bits in masks:
        ends |= (bits ^ bits << 1) << first
    size = -(-ends.bit_length() // 8)
    (blocks,) = np.nonzero(np.unpackbits(np.frombuffer(ends.to_bytes(size, "little"), np.uint8), bitorder="little"))
    rows = np.frombuffer(b"".join([(bits << first).to_bytes(size, "little") for first, bits in masks]), np.uint8)
    bytes_of = rows.reshape(len(masks), size).T[blocks >> 3]
    touched = (bytes_of & (1 << (blocks & 7)).astype(np.uint8)[:, None]) != 0
    packed = np.packbits(touched, axis=1)
    width = packed.shape[1]
    data = packed.tobytes()
    alike = {data[at * width : (at + 1) * width]: at for at in range(len(blocks))}
    alike.pop(bytes(width), None)
    mask, piece = np.nonzero(touched[sorted(alike.values())].T)
    return grouped(mask, piece + start, len(masks)), start + len(alike)


def grouped(owners: np.ndarray, values: np.ndarray, count: int) -> list[tuple[int, ...]]:
    """The values of each of `count` owners; theirs come in turn."""
    ends = np.cumsum(np.bincount(owners, minlength=count)).tolist()
    listed = values.tolist()
    return [tuple(listed[begin:end]) for begin, end in zip([0, *ends], ends, strict=False)]
