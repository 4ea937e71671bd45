"""Which steps of a section must come before which others, byte by byte.

What a body means is what it does chunk after chunk: of one chunk the stages in turn, of one stage the steps in list order.
"""

import functools
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from hajax.plans.footprint import Dims, footprint
from hajax.plans.program import LOAD, STATE, Buffer, Program, Step

Place = tuple[str, int]  # a buffer and its version, or a memory and 0
Area = tuple[Place, int, int, bool]  # a place, start, end, written
Section = Literal["setup", "body", "finish"]
Definition = tuple[int, int]  # who wrote a piece: (step of the lowered body, chunk); (-1, ...) for the other sections


_footprint = functools.lru_cache(maxsize=4096)(footprint)  # every pass asks for that of every step


@dataclass(frozen=True, slots=True)
class Touches:
    """What a step reads and writes: (place, mask), with a bit for every piece into which all the accesses cut a place."""

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


def areas(steps: Sequence[Step], buffers: Sequence[Buffer], dims: Dims, section: Section = "body") -> list[list[Area]]:
    """What each step touches, by buffer and version as they are within one iteration of a body."""
    named = {buffer.name: buffer for buffer in buffers}
    found = []
    for step in steps:
        touched: list[Area] = []
        for access in _footprint(step, dims):
            buffer = _named(named, access.buffer, step)
            end = min(access.end, buffer.bytes) if step.index else access.end  # a reduced mask may leave out the end
            if access.start < 0 or end > buffer.bytes:
                raise ValueError(
                    f"step {step.label or step.opcode!r}: expected bytes of {buffer.name} within 0 .. {buffer.bytes}, "
                    f"got {access.start} .. {end}"
                )
            touched.append(((buffer.name, version(buffer, step, section)), access.start, end, access.write))
        found.append(touched)
    return found


def of_program(program: Program, dims: Dims) -> list[list[Area]]:
    """Areas of all steps: of setup, then of the body, then of finish."""
    sections: tuple[tuple[Section, tuple[Step, ...]], ...]
    sections = (("setup", program.setup), ("body", program.body), ("finish", program.finish))
    return [step for section, steps in sections for step in areas(steps, program.buffers, dims, section)]


def touches(touched: Sequence[Sequence[Area]]) -> list[Touches]:
    """The areas of all steps as masks."""
    cuts: dict[Place, set[int]] = {}
    for step in touched:
        for place, start, end, _ in step:
            cuts.setdefault(place, set()).update((start, end))
    sorted_cuts = {place: sorted(ends) for place, ends in cuts.items()}
    found = []
    for step in touched:
        masks: tuple[dict[Place, int], dict[Place, int]] = ({}, {})
        for place, start, end, write in step:
            at = sorted_cuts[place]
            mask = (1 << bisect_left(at, end)) - (1 << bisect_left(at, start))
            masks[write][place] = masks[write].get(place, 0) | mask
        found.append(Touches(tuple(masks[0].items()), tuple(masks[1].items())))
    return found


def edges(touched: Sequence[Touches]) -> Edges:
    """Of straight-line code in this order. What follows from the other edges of a step's predecessors may be left out."""
    history: dict[Place, list[tuple[int, int, bool]]] = {}  # by place: (step, mask, written), in order
    seen: dict[tuple[Place, bool], int] = {}  # by place: pieces that anybody read or wrote
    true, other = [], []
    for number, step in enumerate(touched):
        producers: set[int] = set()
        earlier: set[int] = set()
        for place, mask in step.reads:
            rest = mask & seen.get((place, True), 0)
            for one, their, written in reversed(history.get(place, ())):
                if not rest:
                    break
                if written and their & rest:
                    producers.add(one)
                    rest &= ~their
        for place, mask in step.writes:
            rest = mask & (seen.get((place, True), 0) | seen.get((place, False), 0))
            for one, their, written in reversed(history.get(place, ())):
                if not rest:
                    break
                if their & rest:
                    earlier.add(one)
                    if written:
                        rest &= ~their
        true.append(tuple(sorted(producers)))
        other.append(tuple(sorted(earlier - producers)))
        for written, accesses in ((False, step.reads), (True, step.writes)):
            for place, mask in accesses:
                history.setdefault(place, []).append((number, mask, written))
                seen[place, written] = seen.get((place, written), 0) | mask
    return Edges(tuple(true), tuple(other))


def unpipelined(body: Sequence[Step]) -> tuple[Step, ...]:
    """The order that is always right: what a later stage still reads comes before what an earlier one writes anew."""
    return tuple(sorted(body, key=lambda step: -step.stage))


def require_versions(body: Sequence[Step], buffers: Sequence[Buffer], dims: Dims) -> None:
    """Raises ValueError when a chunk's first stage would overwrite what the last stage of the chunk before still uses."""
    used: dict[tuple[str, int, bool], list[tuple[int, int]]] = {}
    for step, touched in zip(body, areas(body, buffers, dims), strict=True):
        for place, start, end, write in touched:
            used.setdefault((place[0], step.stage, write), []).append((start, end))
    for buffer in buffers:
        if buffer.versions == 2:
            continue
        for written in (LOAD, STATE):
            mine = used.get((buffer.name, written, True), ())
            theirs = [area for write in (False, True) for area in used.get((buffer.name, STATE - written, write), ())]
            if any(start < end2 and start2 < end for start, end in mine for start2, end2 in theirs):
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
    cut = touches([[((name, 0), start, end, write) for (name, _), start, end, write in step] for step in found])
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
            if wanted[key] != got[key]:
                who = "setup or finish" if key[0] < 0 else f"step {key[0]} ({original[key[0]].label or original[key[0]].opcode})"
                raise ValueError(
                    f"{who} of chunk {key[1]} of {chunks}: expected to read what {_tell(original, wanted[key])} wrote, "
                    f"got {_tell(original, got[key])}"
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
) -> dict[tuple[int, int], list[Definition]]:
    """Who wrote the pieces that each (step, chunk) of the body reads, setup as (-2, 0), finish as (-1, chunks - 1)."""
    memory: dict[tuple[str, int, int], Definition] = {}
    seen: dict[tuple[int, int], list[Definition]] = {}

    def touch(at: int, who: Definition, key: tuple[int, int], odd: int) -> None:
        step = cut[at]
        for (name, _), mask in step.reads:
            turn = odd if name in alternating else 0
            seen.setdefault(key, []).extend(memory.get((name, turn, piece), (-1, -1)) for piece in _bits(mask))
        for (name, _), mask in step.writes:
            turn = odd if name in alternating else 0
            memory.update(((name, turn, piece), who) for piece in _bits(mask))

    for number, step in enumerate(program.setup):
        touch(number, (-1, number), (-2, 0), int(step.last))
    for number, chunk in order:
        step = body[number]
        if not (step.first and chunk != 0) and not (step.last and chunk != chunks - 1):
            touch(len(program.setup) + number, (number, chunk), (number, chunk), chunk & 1)
    for number in range(len(program.setup) + len(body), len(cut)):
        touch(number, (-1, number), (-1, chunks - 1), chunks - 1 & 1)
    return seen


def _bits(mask: int) -> list[int]:
    return [at for at in range(mask.bit_length()) if mask >> at & 1]


def _tell(body: Sequence[Step], seen: Sequence[Definition]) -> str:
    named = {f"{body[number].label or body[number].opcode} of chunk {at}" for number, at in seen if number >= 0}
    return ", ".join(sorted(named)) or "setup"
