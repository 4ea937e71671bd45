"""Orders between the pipes of straight-line code: the links that flags make, found greedily, and event ids that suffice.

A link carries all that its pipe knows, so later ones are often not needed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

PIPES = ("MTE2", "MTE1", "M", "V", "MTE3")
Pair = tuple[int, int]  # pipe of the producer, pipe of the consumer


@dataclass(frozen=True, slots=True)
class Link:
    """An order between two pipes: set behind step `producer`, waited for in front of step `consumer`."""

    producer: int
    consumer: int


@dataclass(slots=True)
class Code:
    """A section's steps as the pass sees them. `forced`: of each step, further (pipe, step) that it waits for."""

    pipes: list[int]
    own: list[int]  # the latest step of the same pipe that must be complete, -1: none
    needs: list[list[tuple[int, int]]]  # by step: (pipe, latest step of it that must be complete)
    forced: dict[int, dict[int, int]]


@dataclass(slots=True)
class Order:
    links: dict[Pair, list[Link]]  # of each pair of pipes, in order
    barriers: set[int]
    known: list[tuple[int, ...]]  # of each step, the steps of every pipe that are complete when it starts


Numbering = Callable[[Pair, int], Sequence[int]]  # event ids of a pair's links, given how many there are


def order_of(code: Code) -> Order:
    """Walks the steps in order, knowing of every pipe what the others have told it; asks where that is not enough."""
    knows = [[-1] * len(PIPES) for _ in PIPES]
    known: list[tuple[int, ...]] = []
    links: dict[Pair, list[Link]] = {}
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
            for p, one in ask(clock, {p: (one, known[one]) for p, one in wanted}):
                links.setdefault((p, mine), []).append(Link(one, at))
        if code.own[at] > clock[mine]:
            barriers.add(at)
            clock[mine] = at - 1
        known.append(tuple(clock))
    return Order(links, barriers, known)


def ask(clock: list[int], wanted: Mapping[int, tuple[int, tuple[int, ...]]]) -> list[tuple[int, int]]:
    """Of the wanted steps, by pipe with what they knew when they started, those to ask for; the clock then knows all of them."""
    if len(wanted) == 1:  # as most often
        ((p, (one, knew)),) = wanted.items()
        clock[:] = map(max, clock, _told(knew, p, one))
        return [(p, one)]
    told = [(p, one, _told(knew, p, one)) for p, (one, knew) in wanted.items()]
    asked = [(p, one) for p, one, _ in told if not any(other[p] >= one for q, _, other in told if q != p)]
    for _, _, other in told:
        clock[:] = map(max, clock, other)
    return asked


def _told(known: tuple[int, ...], p: int, one: int) -> tuple[int, ...]:
    """What a flag that pipe p sets behind step `one` says: what that step knew, and that it is complete."""
    return (*known[:p], one, *known[p + 1 :])


def take(clock: list[int], p: int, one: int, known: Sequence[tuple[int, ...]]) -> None:
    """A wait for what pipe p sets behind step `one`: nothing new where the clock has it, or a later step of p, from elsewhere."""
    if clock[p] < one:
        for q, other in enumerate(known[one]):
            if other > clock[q]:
                clock[q] = other
        clock[p] = one


def last_uses(numbers: Sequence[int]) -> list[int]:
    """Of each link, the one before it with the same event id, or -1."""
    last: dict[int, int] = {}
    found = []
    for at, number in enumerate(numbers):
        found.append(last.get(number, -1))
        last[number] = at
    return found


def force(code: Code, order: Order, numbering: Numbering) -> bool:
    """Asks for the orders without which some pair of pipes runs out of event ids. False: there are enough.

    The links of a pair are set and waited for in the same order, so the ids go round: a flag may be set when its pipe knows
    that the wait for the last flag with this id has passed.
    """
    asked = [_force_pair(code, order, pair, links, numbering) for pair, links in order.links.items()]
    return any(asked)


def _force_pair(code: Code, order: Order, pair: Pair, links: Sequence[Link], numbering: Numbering) -> bool:
    producer, consumer = pair
    changed = False
    granted = -1  # the step of the consumer's pipe that orders asked for here make known
    before = last_uses(numbering(pair, len(links)))
    k = 0
    while k < len(links):
        if before[k] < 0:
            k += 1
            continue
        passed, at = links[before[k]].consumer, links[k].producer
        if max(order.known[at][consumer], granted) >= passed:
            k += 1
            continue
        changed = True
        if passed < at:
            granted = _granted(links, before[k], k)
            demand(code, at, consumer, granted)
        else:
            links = _merge(code, producer, links, before[k], k)
            before = last_uses(numbering(pair, len(links)))
    return changed


def _granted(links: Sequence[Link], first: int, k: int) -> int:
    """How far the consumer's pipe shall be before flag k is set: far enough for several more flags, if they lie behind."""
    behind = [link.consumer for link in links[first : k - (k - first) // 2] if link.consumer < links[k].producer]
    return max(behind)


def _merge(code: Code, producer: int, links: Sequence[Link], first: int, k: int) -> list[Link]:
    """More flags are under way than there are ids: one wait takes the next flag, which is set only a little later."""
    at = min(range(first, k), key=lambda i: (links[i + 1].producer - links[i].producer, i))
    merged = Link(links[at + 1].producer, links[at].consumer)
    assert merged.producer < merged.consumer, "a flag under way is set before anybody waits"
    demand(code, merged.consumer, producer, merged.producer)
    return [*links[:at], merged, *links[at + 2 :]]


def demand(code: Code, at: int, other: int, step: int) -> None:
    """From now on, step `at` waits for this step of another pipe."""
    asked = code.forced.setdefault(at, {})
    asked[other] = max(asked.get(other, -1), step)
