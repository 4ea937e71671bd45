"""Flags and barriers: the fewest that order every dependent pair of steps of a section, on placed addresses.

A flag carries all that its pipe knows, so later ones are often not needed. A section ends with a barrier of all pipes.
"""

import dataclasses
from collections.abc import Sequence

from hajax.passes.dependencies import Area, Edges, Section, areas, edges, touches
from hajax.plans import Note
from hajax.plans.footprint import UNIT, Dims, pipe
from hajax.plans.program import Buffer, Flag, Program, Step
from hajax.targets import NpuTarget

PIPES = ("MTE2", "MTE1", "M", "V", "MTE3")
SLOTS = 2  # flags that a step waits for, and that it sets
SYNC_SLOTS = 6  # likewise of a sync step
_ROUNDS = 64


@dataclasses.dataclass(frozen=True, slots=True)
class _Link:
    """An order between two pipes: set behind step `producer`, waited for in front of step `consumer`."""

    producer: int
    consumer: int


@dataclasses.dataclass(slots=True)
class _Code:
    """A section's steps as the pass sees them. `forced`: of each step, further (pipe, step) that it waits for."""

    pipes: list[int]
    own: list[int]  # the latest step of the same pipe that must be complete, -1: none
    needs: list[list[tuple[int, int]]]  # by step: (pipe, latest step of it that must be complete)
    forced: dict[int, dict[int, int]]


@dataclasses.dataclass(slots=True)
class _Order:
    links: dict[tuple[int, int], list[_Link]]  # by (pipe of the producer, pipe of the consumer), in order
    barriers: set[int]
    known: list[tuple[int, ...]]  # of each step, the steps of every pipe that are complete when it starts


def synchronise(program: Program, dims: Dims, target: NpuTarget) -> tuple[Program, Note]:
    """The program with waits, sets, barriers and, where a step has no room for its flags, sync steps."""
    if program.carried:
        raise ValueError(
            "program: expected iterations parted by a barrier, got carried=True: this pass sets no flags across them"
        )
    counts = [0, 0, 0, 0]  # dependent pairs of pipes, flags, barriers, sync steps
    sections = []
    of_program: tuple[tuple[Section, tuple[Step, ...]], ...]
    of_program = (("setup", program.setup), ("body", program.body), ("finish", program.finish))
    for section, steps in of_program:
        found = edges(touches(placed_areas(steps, program, dims, section)))
        sections.append(_section(steps, found, target, counts))
    setup, body, finish = sections
    pairs, flags, barriers, extra = counts
    note = Note(
        "sync",
        f"{flags} flags, {barriers} barriers, {extra} sync steps",
        f"{pairs} flags, one for each step and pipe that it depends on",
        f"{pairs - flags} flags",
    )
    return dataclasses.replace(program, setup=setup, body=body, finish=finish), note


def placed_areas(steps: Sequence[Step], program: Program, dims: Dims, section: Section) -> list[list[Area]]:
    """What each step touches of the memories; of an alternating buffer, the version that it has in even iterations."""
    named = {buffer.name: buffer for buffer in program.buffers}
    found = []
    for touched in areas(steps, program, dims, section):
        placed: list[Area] = []
        for (name, version), blocks, write in touched:
            buffer = named[name]
            base = _address(buffer) + (program.slot_bytes[buffer.space] if version else 0)
            placed.append(((buffer.space, 0), blocks << base // UNIT, write))
        found.append(placed)
    return found


def _address(buffer: Buffer) -> int:
    if buffer.address is None:
        raise ValueError(f"buffer {buffer.name}: expected an address, got None: sync runs after place_buffers")
    return buffer.address


def _section(steps: Sequence[Step], found: Edges, target: NpuTarget, counts: list[int]) -> tuple[Step, ...]:
    taken = [step for step in steps if step.barrier or step.waits or step.sets or step.opcode == "sync"]
    if taken:
        raise ValueError(f"step {taken[0].label or taken[0].opcode!r}: expected no flags or barriers yet")
    code = _code(steps, found, target)
    ids = min(target.flags_per_pair, target.first_reserved_flag)
    for _ in range(_ROUNDS):
        order = _order(code)
        if not _force(code, order, ids):
            break
    else:
        raise AssertionError("sync: no assignment of event ids found")
    pipes = code.pipes
    dependent = {(pipes[one], pipes[at], one, at) for at, its in enumerate(code.needs) for _, one in its}
    emitted = _emit(steps, order, ids)
    counts[0] += len(dependent)
    counts[1] += sum(len(links) for links in order.links.values())
    counts[2] += len(order.barriers)
    counts[3] += len(emitted) - len(steps)
    return emitted


def _code(steps: Sequence[Step], found: Edges, target: NpuTarget) -> _Code:
    pipes = [PIPES.index(pipe(step)) for step in steps]
    own, needs = [], []
    for at, step in enumerate(steps):
        latest: dict[int, int] = {}
        for one in (*found.true[at], *found.other[at]):
            latest[pipes[one]] = max(latest.get(pipes[one], -1), one)
        mine = latest.pop(pipes[at], -1)
        # So many tiles keep the cube busy until the first of them is there: no barrier before the next product.
        many = step.opcode == "mmad" and step.p[0] * step.p[1] >= target.cube_barrier_tiles
        own.append(-1 if many else mine)
        needs.append(sorted(latest.items()))
    return _Code(pipes, own, needs, {})


def _order(code: _Code) -> _Order:
    """Walks the steps in order, knowing of every pipe what the others have told it; asks where that is not enough."""
    knows = [[-1] * len(PIPES) for _ in PIPES]
    known: list[tuple[int, ...]] = []
    links: dict[tuple[int, int], list[_Link]] = {}
    barriers = set()
    for at, mine in enumerate(code.pipes):
        clock = knows[mine]
        wanted = [(p, one) for p, one in code.needs[at] if one > clock[p]]
        forced = code.forced.get(at)
        if forced:
            merged = dict(wanted)
            for p, one in forced.items():
                if one > max(clock[p], merged.get(p, -1)):
                    merged[p] = one
            wanted = sorted(merged.items())
        if wanted:
            told = [(p, one, _told(known[one], p, one)) for p, one in wanted]
            for p, one, _ in told:
                if any(other[p] >= one for q, _, other in told if q != p):
                    continue  # another one of these knows it too
                links.setdefault((p, mine), []).append(_Link(one, at))
            for _, _, other in told:
                clock[:] = map(max, clock, other)
        if code.own[at] > clock[mine]:
            barriers.add(at)
            clock[mine] = at - 1
        known.append(tuple(clock))
    return _Order(links, barriers, known)


def _told(known: tuple[int, ...], p: int, one: int) -> tuple[int, ...]:
    """What a flag that pipe p sets behind step `one` says: what that step knew, and that it is complete."""
    return (*known[:p], one, *known[p + 1 :])


def _force(code: _Code, order: _Order, ids: int) -> bool:
    """Asks for the orders without which some pair of pipes runs out of event ids. False: there are enough.

    The links of a pair are set and waited for in the same order, so the ids go round: a flag may be set when its pipe knows
    that the wait `ids` flags ago has passed.
    """
    asked = [_force_pair(code, order, pair, links, ids) for pair, links in order.links.items()]
    return any(asked)


def _force_pair(code: _Code, order: _Order, pair: tuple[int, int], links: Sequence[_Link], ids: int) -> bool:
    producer, consumer = pair
    changed = False
    granted = -1  # the step of the consumer's pipe that orders asked for here make known
    k = ids
    while k < len(links):
        passed, at = links[k - ids].consumer, links[k].producer
        if max(order.known[at][consumer], granted) >= passed:
            k += 1
            continue
        changed = True
        if passed < at:
            granted = _granted(links, k, ids)
            _ask(code, at, consumer, granted)
        else:
            links = _merge(code, producer, links, k, ids)
    return changed


def _granted(links: Sequence[_Link], k: int, ids: int) -> int:
    """How far the consumer's pipe shall be before flag k is set: far enough for several more flags, if they lie behind."""
    behind = [link.consumer for link in links[k - ids : k - ids // 2] if link.consumer < links[k].producer]
    return max(behind)


def _merge(code: _Code, producer: int, links: Sequence[_Link], k: int, ids: int) -> list[_Link]:
    """More flags are under way than there are ids: one wait takes the next flag, which is set only a little later."""
    first = k - ids
    at = min(range(first, k), key=lambda i: (links[i + 1].producer - links[i].producer, i))
    merged = _Link(links[at + 1].producer, links[at].consumer)
    assert merged.producer < merged.consumer, "a flag under way is set before anybody waits"
    _ask(code, merged.consumer, producer, merged.producer)
    return [*links[:at], merged, *links[at + 2 :]]


def _ask(code: _Code, at: int, other: int, step: int) -> None:
    asked = code.forced.setdefault(at, {})
    asked[other] = max(asked.get(other, -1), step)


def _emit(steps: Sequence[Step], order: _Order, ids: int) -> tuple[Step, ...]:
    """The steps with their flags; what a step has no room for goes into a sync step of its own."""
    waits: list[list[Flag]] = [[] for _ in steps]
    sets: list[list[Flag]] = [[] for _ in steps]
    for (producer, consumer), links in order.links.items():
        for number, link in enumerate(links):
            flag = Flag(PIPES[producer], PIPES[consumer], number % ids)
            sets[link.producer].append(flag)
            waits[link.consumer].append(flag)
    emitted: list[Step] = []
    for at, step in enumerate(steps):
        if len(waits[at]) > SLOTS:
            emitted.append(_sync_step(waits[at][SLOTS:], (), step))
        changed = dataclasses.replace(
            step, barrier=at in order.barriers, waits=tuple(waits[at][:SLOTS]), sets=tuple(sets[at][:SLOTS])
        )
        emitted.append(changed)
        if len(sets[at]) > SLOTS:
            emitted.append(_sync_step((), sets[at][SLOTS:], step))
    return tuple(emitted)


def _sync_step(waits: Sequence[Flag], sets: Sequence[Flag], beside: Step) -> Step:
    assert max(len(waits), len(sets)) <= SYNC_SLOTS, "there are only so many pipes"
    label = f"flags of {beside.label or beside.opcode}"
    return Step("sync", stage=beside.stage, waits=tuple(waits), sets=tuple(sets), label=label)
