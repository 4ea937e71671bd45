"""Which steps of a section must come before which others, by blocks of 32 bytes.

What a body means is what it does chunk after chunk: of one chunk the stages in turn, of one stage the steps in list order.
"""

import itertools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from hajax.plans.block_masks import block_masks
from hajax.plans.footprint import UNIT, VECTOR, Dims
from hajax.plans.pieces import Access, grouped, pieces_of
from hajax.plans.program import LOAD, STATE, Program, Step

Place = tuple[str, int]  # a buffer and its version, or a memory and 0
Area = tuple[Place, int, bool]  # a place, its blocks as bits, written
Section = Literal["setup", "body", "finish"]
_DENSE = 1 << 24  # numbers, for which a mark each is not too much
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


def _second(step: Step, section: Section) -> int:
    """Which version of an alternating buffer a step uses, told by how many chunks lie between it and the last stage's.

    Setup works on the first chunk, or with `last` on what odd chunks use; finish works on one chunk, whichever that is.
    """
    match section:
        case "finish":
            return 0
        case "setup":
            return int(step.last)
    return step.stage & 1


def areas(steps: Sequence[Step], program: Program, dims: Dims, section: Section = "body") -> list[list[Area]]:
    """What each of these steps touches, by buffer and version as they are within one iteration of a body."""
    # By name: its blocks, its bytes, and the places of its versions, which are one where it has no second.
    named = {b.name: (-(-b.bytes // UNIT), b.bytes, ((b.name, 0), (b.name, b.versions - 1))) for b in program.buffers}
    found = []
    for step in steps:
        touched: list[Area] = []
        lanes = program.masks[step.index] if step.opcode in VECTOR else (0, 0)
        second = _second(step, section)
        for name, blocks, write in block_masks(step, dims, lanes):
            if name not in named:
                raise ValueError(f"step {step.label or step.opcode!r}: expected one of the program's buffers, got {name!r}")
            most, size, places = named[name]
            if blocks.bit_length() > most:
                raise ValueError(
                    f"step {step.label or step.opcode!r}: expected bytes of {name} within 0 .. {size}, "
                    f"got some up to {blocks.bit_length() * UNIT}"
                )
            touched.append((places[second], blocks, write))
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
        reads: dict[Place, int] = {}
        writes: dict[Place, int] = {}
        for place, blocks, write in step:
            masks = writes if write else reads
            masks[place] = masks[place] | blocks if place in masks else blocks
        found.append(Touches(tuple(reads.items()), tuple(writes.items())))
    return found


def edges(touched: Sequence[Touches], addresses: Mapping[Place, tuple[str, int]] | None = None) -> Edges:
    """Of straight-line code in this order. What follows from the other edges of a step's predecessors may be left out.

    addresses: in which memory each place lies and with which block it begins; without them, no two places share any.
    """
    count = len(touched)
    found = _by_piece(touched, addresses)
    written = found & 1 == 1
    steps, pieces = np.divmod(found >> 1, max(1, count))[::-1]
    number = np.arange(len(found))
    last = np.maximum.accumulate(np.where(written, number, -1))
    before = np.concatenate(([-1], last))[:-1]  # of each access, the last write in front of it
    following = np.minimum.accumulate(np.where(written, number, len(found))[::-1])[::-1]  # and of a read, the first one behind it

    def pairs(later: np.ndarray, earlier: np.ndarray) -> np.ndarray:
        """Steps of accesses, one of which follows the other, as later * count + earlier; only those of the same piece."""
        there = (earlier >= 0) & (later < len(found))
        later, earlier = later[there], earlier[there]
        alike = (pieces[later] == pieces[earlier]) & (steps[later] != steps[earlier])
        return steps[later[alike]] * count + steps[earlier[alike]]

    true = _distinct(pairs(number[~written], before[~written]), count**2)
    anti = pairs(following[~written], number[~written])
    other = _distinct(np.concatenate((pairs(number[written], before[written]), anti)), count**2, true)
    return Edges(*(tuple(grouped(*np.divmod(kind, max(1, count)), count)) for kind in (true, other)))


def _distinct(numbers: np.ndarray, behind: int, without: np.ndarray | None = None) -> np.ndarray:
    """Sorted, each once, those of `without` left out; all are below `behind`. Marking them in a row is quicker than sorting."""
    if behind > _DENSE:
        return np.unique(numbers) if without is None else np.setdiff1d(numbers, without)
    seen = np.zeros(behind, bool)
    seen[numbers] = True
    if without is not None:
        seen[without] = False
    return np.flatnonzero(seen)


def _by_piece(touched: Sequence[Touches], addresses: Mapping[Place, tuple[str, int]] | None) -> np.ndarray:
    """Accesses to pieces as 2 * (piece * len(touched) + step), 1 more where it writes, sorted."""
    accesses: dict[Access, int] = {}
    numbers: dict[tuple[Place, int], int] = {}
    numbered: dict[int, list[int]] = {}
    for at, step in {id(step): step for step in touched}.items():  # some come up repeatedly
        for access in (*step.reads, *step.writes):
            if access not in numbers:
                place, blocks = access
                memory: tuple[Hashable, int] = (place, 0) if addresses is None else addresses[place]
                numbers[access] = accesses.setdefault((*memory, blocks), len(accesses))
        numbered[at] = [2 * numbers[access] for access in step.reads] + [2 * numbers[access] + 1 for access in step.writes]
    mine = [numbered[id(step)] for step in touched]
    which = np.array(list(itertools.chain(*mine)), np.int64)
    steps = np.repeat(np.arange(len(touched)), [len(its) for its in mine])
    pieces = pieces_of(tuple(accesses))
    sizes = np.array([len(its) for its in pieces], np.int64)
    many = sizes[which >> 1]
    first = (np.cumsum(sizes) - sizes)[which >> 1] - (np.cumsum(many) - many)
    piece = np.array(list(itertools.chain(*pieces)), np.int64)[np.arange(many.sum()) + np.repeat(first, many)]
    return _distinct(
        piece * 2 * len(touched) + np.repeat(2 * steps + (which & 1), many), 2 * len(touched) * (piece.max(initial=0) + 1)
    )


def unpipelined(body: Sequence[Step]) -> tuple[Step, ...]:
    """The order that is always right: what a later stage still reads comes before what an earlier one writes anew."""
    return tuple(sorted(body, key=lambda step: -step.stage))


def require_versions(program: Program, touched: Sequence[Sequence[Area]]) -> None:
    """Raises ValueError when a chunk's first stage would overwrite what the last stage of the chunk before still uses.

    touched: what the steps of the body touch.
    """
    used: dict[tuple[str, int, bool], int] = {}
    for step, its in zip(program.body, touched, strict=True):
        for (name, _), blocks, write in its:
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
