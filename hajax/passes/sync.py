"""Flags and barriers: the fewest that order every dependent pair of steps of a section, on placed addresses.

A flag carries all that its pipe knows, so later ones are often not needed. A section ends with a barrier of all pipes, an
iteration of the body too unless its flags are carried on to the next one.
"""

import dataclasses
from collections.abc import Sequence

from hajax.passes.carry import carry, needs_of, unrolled, within
from hajax.passes.dependencies import Area, Edges, Place, Section, areas, edges, touches
from hajax.passes.flag_order import PIPES, Code, Link, Pair, force, order_of
from hajax.passes.place_buffers import STEP_BYTES
from hajax.plans import Note
from hajax.plans.footprint import UNIT, Dims, pipe
from hajax.plans.program import Buffer, Flag, Program, Step, with_flags
from hajax.targets import NpuTarget

SLOTS = 2  # flags that a step waits for, and that it sets
_ROUNDS = 64


_Numbered = tuple[dict[Pair, list[Link]], dict[Pair, list[int]]]  # links and their event ids


@dataclasses.dataclass(frozen=True, slots=True)
class _Flagged:
    """What a section's steps wait for."""

    kinds: Sequence[_Numbered]
    barriers: set[int]


@dataclasses.dataclass(frozen=True, slots=True)
class _Flowing:
    """A body with flags, those that are set in one iteration and taken in the next, and its code as it is between barriers."""

    body: tuple[Step, ...]
    flags: list[Flag]
    apart: Code


def synchronise(program: Program, dims: Dims, target: NpuTarget, carried: bool = False) -> tuple[Program, Note]:
    """The program with waits, sets, barriers and, where a step has no room for its flags, sync steps.

    carried: the body's iterations are not parted by a barrier, where event ids and UB suffice for the flags between them.
    """
    if program.carried:
        raise ValueError("program: expected iterations parted by a barrier, got carried=True: they have flags already")
    sections: tuple[tuple[Section, tuple[Step, ...]], ...]
    sections = (("setup", program.setup), ("body", program.body), ("finish", program.finish))
    ids = min(target.flags_per_pair, target.first_reserved_flag)
    codes: list[Code] = []
    emitted: list[tuple[Step, ...]] = []
    for _, steps in sections:
        _check_bare(steps)
    flowing = _carried(program, dims, target, ids) if carried and program.body and program.finish else None
    addresses = _addresses(program)
    for section, steps in sections:
        if section == "body" and flowing is not None:
            codes.append(flowing.apart)
            emitted.append(())
            continue
        code = _code(steps, edges(touches(areas(steps, program, dims, section)), addresses), target)
        codes.append(code)
        emitted.append(_emit(steps, _apart(code, ids)))
    if flowing is not None:
        ends = _ends(flowing.flags, program.stages - 1)
        found = dataclasses.replace(
            program,
            setup=(*emitted[0], *ends[0]),
            body=flowing.body,
            finish=(*ends[1], *emitted[2]),
            carried=True,
        )
        if _fits(found, target):
            return found, _note(program, found, codes, len(flowing.flags))
        emitted[1] = _emit(program.body, _apart(flowing.apart, ids))
    found = dataclasses.replace(program, setup=emitted[0], body=emitted[1], finish=emitted[2])
    return found, _note(program, found, codes, 0)


def _apart(code: Code, ids: int) -> _Flagged:
    """Orders of a section with a barrier behind it."""

    def numbering(_: Pair, count: int) -> list[int]:
        return [number % ids for number in range(count)]

    for _ in range(_ROUNDS):
        order = order_of(code)
        if not force(code, order, numbering):
            numbers = {pair: numbering(pair, len(links)) for pair, links in order.links.items()}
            return _Flagged([(order.links, numbers)], order.barriers)
    raise AssertionError("sync: no assignment of event ids found")


def _carried(program: Program, dims: Dims, target: NpuTarget, ids: int) -> _Flowing | None:
    """The body for iterations without a barrier between them; None where the event ids do not suffice."""
    steps = program.body
    touched = areas(steps, program, dims)
    found = unrolled(touched, flipped(touched, program), _addresses(program))
    once = Edges(found.true[: len(steps)], found.other[: len(steps)])
    code = _code(steps, within(found, len(steps)), target)
    flowing = carry(code, needs_of(code.pipes, [is_many(step, target) for step in steps], found), ids)
    if flowing is None:
        return None
    kinds = [(flowing.order.links, flowing.numbers), (flowing.between, flowing.between_numbers)]
    flags = [flag for flag, _ in _flags(kinds[1:])]
    return _Flowing(_emit(steps, _Flagged(kinds, flowing.order.barriers)), flags, _code(steps, once, target))


def _ends(flags: Sequence[Flag], stage: int) -> tuple[list[Step], list[Step]]:
    """What sets the flags that the first iteration takes, and takes those that the last one has set."""
    sets = [Step("sync", stage=stage, sets=group, label="flags for the first iteration") for group in _groups(flags)]
    return sets, [Step("sync", stage=stage, waits=group, label="flags of the last iteration") for group in _groups(flags)]


def _fits(program: Program, target: NpuTarget) -> bool:
    steps = len(program.setup) + len(program.body) + len(program.finish)
    return program.step_address + steps * STEP_BYTES <= target.ub_bytes - target.ub_reserved_bytes


def _note(bare: Program, found: Program, codes: Sequence[Code], between: int) -> Note:
    steps = (*found.setup, *found.body, *found.finish)
    flags = sum(len(step.waits) for step in steps) - (between if found.carried else 0)
    pairs = sum(len(its) for code in codes for its in code.needs)
    barriers = sum(step.barrier for step in steps)
    extra = len(steps) - len(bare.setup) - len(bare.body) - len(bare.finish)
    carried = f"; {between} flags from one iteration to the next instead of a barrier" if found.carried else ""
    return Note(
        "sync",
        f"{flags} flags, {barriers} barriers, {extra} sync steps{carried}",
        f"{pairs} flags, one for each step and pipe that it depends on",
        f"{pairs - flags} flags",
    )


def _addresses(program: Program) -> dict[Place, tuple[str, int]]:
    """In which memory each version of each buffer lies, and with which block it begins there."""
    found: dict[Place, tuple[str, int]] = {}
    for buffer in program.buffers:
        for version in range(buffer.versions):
            slot = program.slot_bytes[buffer.space] * version if version else 0
            found[buffer.name, version] = buffer.space, (_address(buffer) + slot) // UNIT
    return found


def flipped(found: Sequence[Sequence[Area]], program: Program) -> list[list[Area]]:
    """The same areas one iteration later: of alternating buffers, the other version."""
    versions = {buffer.name: buffer.versions for buffer in program.buffers}
    return [
        [((name, versions[name] - 1 - version), blocks, write) for (name, version), blocks, write in touched] for touched in found
    ]


def _address(buffer: Buffer) -> int:
    if buffer.address is None:
        raise ValueError(f"buffer {buffer.name}: expected an address, got None: sync runs after place_buffers")
    return buffer.address


def _check_bare(steps: Sequence[Step]) -> None:
    taken = [step for step in steps if step.barrier or step.waits or step.sets or step.opcode == "sync"]
    if taken:
        raise ValueError(f"step {taken[0].label or taken[0].opcode!r}: expected no flags or barriers yet")


def _code(steps: Sequence[Step], found: Edges, target: NpuTarget) -> Code:
    pipes = [PIPES.index(pipe(step)) for step in steps]
    own, needs = [], []
    for at, step in enumerate(steps):
        latest: dict[int, int] = {}
        for one in (*found.true[at], *found.other[at]):
            latest[pipes[one]] = max(latest.get(pipes[one], -1), one)
        mine = latest.pop(pipes[at], -1)
        own.append(-1 if is_many(step, target) else mine)
        needs.append(sorted(latest.items()))
    return Code(pipes, own, needs, {})


def is_many(step: Step, target: NpuTarget) -> bool:
    """So many tiles keep the cube busy until the first of them is there: no barrier before the next product."""
    return step.opcode == "mmad" and step.p[0] * step.p[1] >= target.cube_barrier_tiles


def _flags(kinds: Sequence[_Numbered]) -> list[tuple[Flag, Link]]:
    found = []
    for links, numbers in kinds:
        for pair, mine in links.items():
            for number, link in zip(numbers[pair], mine, strict=True):
                found.append((Flag(PIPES[pair[0]], PIPES[pair[1]], number), link))
    return found


def _emit(steps: Sequence[Step], flagged: _Flagged) -> tuple[Step, ...]:
    """The steps with their flags; what a step has no room for goes into a sync step of its own."""
    waits: list[list[Flag]] = [[] for _ in steps]
    sets: list[list[Flag]] = [[] for _ in steps]
    for flag, link in _flags(flagged.kinds):
        sets[link.producer].append(flag)
        waits[link.consumer].append(flag)
    emitted: list[Step] = []
    for at, step in enumerate(steps):
        label = f"flags of {step.label or step.opcode}"
        emitted += [Step("sync", stage=step.stage, waits=group, label=label) for group in _groups(waits[at][SLOTS:])]
        emitted.append(with_flags(step, at in flagged.barriers, tuple(waits[at][:SLOTS]), tuple(sets[at][:SLOTS])))
        emitted += [Step("sync", stage=step.stage, sets=group, label=label) for group in _groups(sets[at][SLOTS:])]
    return tuple(emitted)


def _groups(flags: Sequence[Flag]) -> list[tuple[Flag, ...]]:
    """What sync steps hold, each as many as any other step."""
    return [tuple(flags[at : at + SLOTS]) for at in range(0, len(flags), SLOTS)]
