"""Which steps of a section must come before which others, by blocks of 32 bytes.

What a body means is what it does chunk after chunk: of one chunk the stages in turn, of one stage the steps in list order.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from hajax.passes.block_masks import block_masks
from hajax.plans.footprint import UNIT, VECTOR, Dims
from hajax.plans.program import LOAD, STATE, Buffer, Program, Step

Place = tuple[str, int]  # a buffer and its version, or a memory and 0
Area = tuple[Place, int, bool]  # a place, its blocks as bits, written
_MANY = 12  # accesses of a place from which on comparing all of their blocks at once is quicker
Section = Literal["setup", "body", "finish"]
Definition = tuple[int, int]  # who wrote a piece: (step of the lowered body, chunk); (-1, ...) for the other sections


@dataclass(frozen=True, slots=True)
class Touches:
    """What a step reads and writes: each place once, with its blocks as bits."""

    reads: tuple[tuple[Place, int], ...]
    writes: tuple[tuple[Place, int], ...]


@dataclass(frozen=True, slots=True)
class Edges:
    """Of each step, the earlier ones that it has to follow: those whose results it reads, and the others."""

    true: tuple[tuple[int, ...], ...]
    other: tuple[tuple[int, ...], ...]


def version(buffer: Buffer, step: Step, section: Section) -> int:
    """Which version of an alternating buffer a step uses, told by how many chunks lie between it and the last stage's.

    Setup works on the first chunk, or with `last` on what odd chunks use; finish works on one chunk, whichever that is.
    """
    if buffer.versions != 2 or section == "finish":
        return 0
    return int(step.last) if section == "setup" else step.stage & 1


def areas(steps: Sequence[Step], program: Program, dims: Dims, section: Section = "body") -> list[list[Area]]:
    """What each of these steps touches, by buffer and version as they are within one iteration of a body."""
    named = {buffer.name: buffer for buffer in program.buffers}
    found = []
    for step in steps:
        touched: list[Area] = []
        lanes = program.masks[step.index] if step.opcode in VECTOR else (0, 0)
        for name, blocks, write in block_masks(step, dims, lanes):
            buffer = _named(named, name, step)
            if blocks.bit_length() * UNIT > -(-buffer.bytes // UNIT) * UNIT:
                raise ValueError(
                    f"step {step.label or step.opcode!r}: expected bytes of {name} within 0 .. {buffer.bytes}, "
                    f"got some up to {blocks.bit_length() * UNIT}"
                )
            touched.append(((name, version(buffer, step, section)), blocks, write))
        found.append(touched)
    return found


def of_program(program: Program, dims: Dims) -> list[list[Area]]:
    """Areas of all steps: of setup, then of the body, then of finish."""
    sections: tuple[tuple[Section, tuple[Step, ...]], ...]
    sections = (("setup", program.setup), ("body", program.body), ("finish", program.finish))
    return [step for section, steps in sections for step in areas(steps, program, dims, section)]


def touches(touched: Sequence[Sequence[Area]]) -> list[Touches]:
    """The areas of each step, put together."""
    found = []
    for step in touched:
        masks: tuple[dict[Place, int], dict[Place, int]] = ({}, {})
        for place, blocks, write in step:
            masks[write][place] = masks[write].get(place, 0) | blocks
        found.append(Touches(tuple(masks[0].items()), tuple(masks[1].items())))
    return found


def edges(touched: Sequence[Touches]) -> Edges:
    """Of straight-line code in this order. What follows from the other edges of a step's predecessors may be left out."""
    pieces, count = _pieces(touched)
    cut = {at: _in_pieces(step, pieces) for at, step in {id(step): step for step in touched}.items()}  # some come up repeatedly
    writer = [-1] * count  # of each piece, the last step that wrote it
    readers: list[list[int]] = [[] for _ in range(count)]  # and those that have read it since
    true, other = [], []
    for number, step in enumerate(touched):
        read, written = cut[id(step)]
        producers = {writer[piece] for piece in read}
        producers.discard(-1)
        earlier = {writer[piece] for piece in written}
        for piece in written:
            if readers[piece]:
                earlier.update(readers[piece])
                readers[piece] = []
        earlier.discard(-1)
        true.append(tuple(sorted(producers)))
        other.append(tuple(sorted(earlier - producers)))
        for piece in read:
            readers[piece].append(number)
        for piece in written:
            writer[piece] = number
    return Edges(tuple(true), tuple(other))


def _in_pieces(step: Touches, pieces: dict[tuple[Place, int], list[int]]) -> tuple[list[int], list[int]]:
    """What the step reads and what it writes."""
    read, written = ([pieces[access] for access in its] for its in (step.reads, step.writes))
    return list(itertools.chain(*read)), list(itertools.chain(*written))


def _pieces(touched: Sequence[Touches]) -> tuple[dict[tuple[Place, int], list[int]], int]:
    """Blocks that every step touches all or none of are a piece, with a number: of each access its pieces, and how many exist."""
    masks: dict[Place, list[int]] = {}
    steps = {id(step): step for step in touched}.values()
    for place, mask in dict.fromkeys([access for step in steps for access in (*step.reads, *step.writes)]):
        masks.setdefault(place, []).append(mask)
    found: dict[tuple[Place, int], list[int]] = {}
    count = 0
    for place, mine in masks.items():
        several = _cut if len(mine) < _MANY else _cut_many
        parts, behind = several(mine, count)
        for mask, numbers in zip(mine, parts, strict=True):
            found[place, mask] = numbers
        count = behind
    return found, count


def _cut(masks: Sequence[int], start: int) -> tuple[list[list[int]], int]:
    """Of each mask, the numbers of the pieces that it is made up of, from `start` on; and the number behind the last one."""
    pieces: list[int] = []
    for mask in masks:
        left = mask
        for at in range(len(pieces)):
            both = pieces[at] & left
            if both and both != pieces[at]:
                pieces.append(pieces[at] ^ both)
                pieces[at] = both
            left ^= both
        if left:
            pieces.append(left)
    return [[start + at for at, piece in enumerate(pieces) if piece & mask] for mask in masks], start + len(pieces)


def _cut_many(masks: Sequence[int], start: int) -> tuple[list[list[int]], int]:
    """As `_cut`, by comparing columns of bits: only where some mask begins or ends can a column differ from the one before."""
    ends = 0
    for mask in masks:
        ends |= mask ^ mask << 1
    size = -(-ends.bit_length() // 8)
    (columns,) = np.nonzero(np.unpackbits(np.frombuffer(ends.to_bytes(size, "little"), np.uint8), bitorder="little"))
    rows = np.frombuffer(b"".join([mask.to_bytes(size, "little") for mask in masks]), np.uint8).reshape(len(masks), size)
    bits = rows[:, columns >> 3] >> (columns & 7).astype(np.uint8) & 1
    width = -(-len(masks) // 8)
    each = np.packbits(bits, axis=0).T.tobytes()
    alike = {each[at * width : (at + 1) * width]: at for at in range(len(columns))}
    alike.pop(bytes(width), None)
    chosen = bits[:, sorted(alike.values())]
    return [(np.flatnonzero(row) + start).tolist() for row in chosen], start + len(alike)


def unpipelined(body: Sequence[Step]) -> tuple[Step, ...]:
    """The order that is always right: what a later stage still reads comes before what an earlier one writes anew."""
    return tuple(sorted(body, key=lambda step: -step.stage))


def require_versions(body: Sequence[Step], program: Program, dims: Dims) -> None:
    """Raises ValueError when a chunk's first stage would overwrite what the last stage of the chunk before still uses."""
    used: dict[tuple[str, int, bool], int] = {}
    for step, touched in zip(body, areas(body, program, dims), strict=True):
        for (name, _), blocks, write in touched:
            used[name, step.stage, write] = used.get((name, step.stage, write), 0) | blocks
    for buffer in program.buffers:
        for written in (LOAD, STATE) if buffer.versions == 1 else ():
            other = STATE - written
            theirs = used.get((buffer.name, other, False), 0) | used.get((buffer.name, other, True), 0)
            if used.get((buffer.name, written, True), 0) & theirs:
                raise ValueError(
                    f"buffer {buffer.name}: expected versions=2, got {buffer.versions}: stages {LOAD} and {STATE} both use it "
                    "and two chunks are between them"
                )


def check_dataflow(program: Program, dims: Dims, lowered: Sequence[Step] | None = None) -> None:
    """Runs a few chunks by name, in the body's order and chunk after chunk; raises ValueError at the first difference.

    lowered: the body in its original order, of which the program's is a permutation.
    """
    original = tuple(program.body if lowered is None else lowered)
    numbers = _match(original, program.body)
    by_chunk = sorted(range(len(original)), key=lambda number: original[number].stage)
    found = of_program(replace(program, body=original), dims)
    cut = touches([[((name, 0), blocks, write) for (name, _), blocks, write in step] for step in found])
    alternating = frozenset(buffer.name for buffer in program.buffers if buffer.versions == 2)
    for chunks in range(1, 2 * program.stages):
        reference = [(number, chunk) for chunk in range(chunks) for number in by_chunk]
        emitted = [
            (number, at - original[number].stage)
            for at in range(chunks + program.stages - 1)
            for number in numbers
            if 0 <= at - original[number].stage < chunks
        ]
        wanted, got = (_simulate(program, original, cut, alternating, order, chunks) for order in (reference, emitted))
        for key in sorted(wanted):
            if wanted[key] != got.get(key):
                who = "setup or finish" if key[0] < 0 else f"step {key[0]} ({original[key[0]].label or original[key[0]].opcode})"
                raise ValueError(
                    f"{who} of chunk {key[1]} of {chunks}: expected to read what {_tell(original, wanted[key])} wrote, "
                    f"got {_tell(original, got.get(key, []))}"
                )


def _named(named: dict[str, Buffer], name: str, step: Step) -> Buffer:
    if name not in named:
        raise ValueError(f"step {step.label or step.opcode!r}: expected one of the program's buffers, got {name!r}")
    return named[name]


def _match(original: Sequence[Step], order: Sequence[Step]) -> list[int]:
    """The number in `original` of each step of `order`; equal steps keep their order."""
    places: dict[Step, list[int]] = {}
    for number, step in enumerate(original):
        places.setdefault(step, []).append(number)
    if len(original) != len(order) or any(step not in places for step in order):
        raise ValueError("body: expected a permutation of the lowered steps")
    taken: dict[Step, int] = {}
    found = []
    for step in order:
        at = taken.get(step, 0)
        if at == len(places[step]):
            raise ValueError("body: expected a permutation of the lowered steps")
        found.append(places[step][at])
        taken[step] = at + 1
    return found


def _simulate(
    program: Program,
    body: Sequence[Step],
    cut: Sequence[Touches],
    alternating: frozenset[str],
    order: Sequence[tuple[int, int]],
    chunks: int,
) -> dict[tuple[int, int], list[tuple[str, Definition, int]]]:
    """Who wrote the blocks that each (step, chunk) of the body reads, setup as (-2, 0), finish as (-1, chunks - 1)."""
    memory: dict[tuple[str, int], dict[Definition, int]] = {}  # by buffer and version: the blocks that are somebody's
    seen: dict[tuple[int, int], list[tuple[str, Definition, int]]] = {}

    def touch(at: int, who: Definition, key: tuple[int, int], odd: int) -> None:
        step = cut[at]
        for (name, _), mask in step.reads:
            holds = memory.get((name, odd if name in alternating else 0), {})
            found = [(name, their, blocks & mask) for their, blocks in holds.items() if blocks & mask]
            seen.setdefault(key, []).extend(sorted(found))
        for (name, _), mask in step.writes:
            place = (name, odd if name in alternating else 0)
            kept = {their: blocks & ~mask for their, blocks in memory.get(place, {}).items() if blocks & ~mask}
            memory[place] = {**kept, who: kept.get(who, 0) | mask}

    for number, step in enumerate(program.setup):
        touch(number, (-1, number), (-2, 0), int(step.last))
    for number, chunk in order:
        step = body[number]
        if not (step.first and chunk != 0) and not (step.last and chunk != chunks - 1):
            touch(len(program.setup) + number, (number, chunk), (number, chunk), chunk & 1)
    for number in range(len(program.setup) + len(body), len(cut)):
        touch(number, (-1, number), (-1, chunks - 1), chunks - 1 & 1)
    return seen


def _tell(body: Sequence[Step], seen: Sequence[tuple[str, Definition, int]]) -> str:
    named = {f"{body[number].label or body[number].opcode} of chunk {at}" for _, (number, at), _ in seen if number >= 0}
    return ", ".join(sorted(named)) or "setup"
