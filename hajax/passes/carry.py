"""Flags from one iteration of a body to the next, so that no barrier of all pipes has to part them.

Every iteration sets and waits for the same flags, so what orders one iteration behind the two in front of it orders all: bytes
that two iterations touch further apart are touched by those between them, too.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from hajax.passes.dependencies import Area, Edges, Place, edges, touches
from hajax.passes.flag_order import PIPES, Code, Link, Numbering, Order, Pair, ask, demand, force, last_uses, order_of, take

ITERATIONS = 3  # walked, one behind the other: each pair of one and the two behind it
_MOST = 3  # links between iterations of a pair of pipes; neighbours beyond are merged
_ROUNDS = 64
Between = dict[Pair, list[Link]]
Lacking = Callable[[int, list[int], dict[int, int], list[dict[int, int]]], bool]  # step, clock, needs, links; go on


@dataclasses.dataclass(frozen=True, slots=True)
class Needs:
    """Of each step, by pipe, its own among them: the latest step that must be complete, counted from the iteration's start.

    Below 0, down to -steps, it is of the iteration before; else of the one before that.
    """

    of: tuple[dict[int, int], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Carried:
    """A body's order, and the links whose consumer is in the iteration behind their producer's; event ids of both."""

    order: Order
    between: Between
    numbers: dict[Pair, list[int]]  # of the order's links
    between_numbers: dict[Pair, list[int]]


def unrolled(
    even: Sequence[Sequence[Area]], odd: Sequence[Sequence[Area]], addresses: Mapping[Place, tuple[str, int]] | None = None
) -> Edges:
    """Edges of successive iterations, even and odd ones in turn: the last two of them have all that they can have before them.

    addresses: as for `edges`.
    """
    both = (touches(even), touches(odd))
    return edges([step for number in range(ITERATIONS + 1) for step in both[number % 2]], addresses)


def within(found: Edges, steps: int) -> Edges:
    """Of those, the edges within an iteration, whether it is an even or an odd one."""

    def kept(kind: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
        pairs = zip(kind[:steps], kind[steps : 2 * steps], strict=True)
        return tuple(tuple(sorted({*even, *(one - steps for one in odd if one >= steps)})) for even, odd in pairs)

    return Edges(kept(found.true), kept(found.other))


def needs_of(pipes: Sequence[int], many: Sequence[bool], found: Edges) -> Needs:
    """What iterations ask of those before them. many: these steps need not wait for their own pipe."""
    steps = len(pipes)
    needs: list[dict[int, int]] = [{} for _ in pipes]
    for number in range((ITERATIONS - 1) * steps, (ITERATIONS + 1) * steps):
        iteration, at = divmod(number, steps)
        mine, own, start = needs[at], pipes[at], iteration * steps
        for earlier in (*found.true[number], *found.other[number]):
            relative = earlier - start
            if (1 - ITERATIONS) * steps <= relative < 0:
                p = pipes[earlier % steps]
                if relative > mine.get(p, -ITERATIONS * steps) and not (many[at] and p == own):
                    mine[p] = relative
    return Needs(tuple(needs))


def carry(code: Code, needs: Needs, ids: int) -> Carried | None:
    """The fewest links that were found, or None where none were found that the event ids suffice for."""
    room: dict[Pair, int] = {}  # ids that links between iterations take

    def numbering(pair: Pair, count: int) -> list[int]:
        return rounds(count, ids - room.get(pair, 0))

    for _ in range(_ROUNDS):
        order = _ordered(code, numbering)
        if order is None:
            return None
        wanted = _with_reuse(order, needs, numbering)
        walk = _Walk(code, order, wanted)
        between = _found(walk)
        changed = _grown(room, between)
        if max(room.values(), default=0) >= ids:
            return None
        if not (walk.demands(between) or changed):
            return _numbered(walk.pruned(between), order, numbering, ids)
    return None


def rounds(count: int, ids: int) -> list[int]:
    """Event ids of a pair's links, as many links as possible between two with the same id, in the next iteration too.

    Rounds of d or of d + 1 ids follow one another, so that a link always comes at least d behind the last one with its id.
    """
    if count <= ids:
        return list(range(count))
    for least in range(ids, 0, -1):
        longer = count % least
        shorter = count // least - longer
        if shorter >= 0 and (least < ids or not longer):
            longer, shorter = (longer + shorter // (least + 1) * least, shorter % (least + 1)) if least < ids else (0, shorter)
            return [number for size in [least + 1] * longer + [least] * shorter for number in range(size)]
    raise AssertionError("rounds of one id always fit")


def _ordered(code: Code, numbering: Numbering) -> Order | None:
    for _ in range(_ROUNDS):
        order = order_of(code)
        if not force(code, order, numbering):
            return order
    return None


def _with_reuse(order: Order, needs: Needs, numbering: Numbering) -> Needs:
    """Also that an id is set in an iteration only when its last wait in the one before has passed."""
    steps = len(needs.of)
    found = [dict(one) for one in needs.of]
    for pair, links in order.links.items():
        numbers = numbering(pair, len(links))
        last = {number: at for at, number in enumerate(numbers)}
        for link, number, before in zip(links, numbers, last_uses(numbers), strict=True):
            if before < 0:
                relative = links[last[number]].consumer - steps
                mine = found[link.producer]
                mine[pair[1]] = max(mine.get(pair[1], relative), relative)
    return Needs(tuple(found))


def _found(walk: "_Walk") -> Between:
    """Links between iterations, no more than _MOST of a pair."""
    between = walk.grown({})
    while True:
        merged = {pair: _merged(links) for pair, links in between.items()}
        if merged == between:
            return between
        between = walk.grown(merged)


def _merged(links: Sequence[Link]) -> list[Link]:
    """Where there are too many, an earlier step of the consumers waits for a later one of the producers."""
    found = sorted(links, key=lambda link: link.consumer)
    while len(found) > _MOST:
        at = min(range(len(found) - 1), key=lambda i: (abs(found[i + 1].producer - found[i].producer), i))
        one, other = found[at : at + 2]
        found[at : at + 2] = [Link(max(one.producer, other.producer), one.consumer)]
    return found


def _grown(room: dict[Pair, int], between: Between) -> bool:
    changed = False
    for pair, links in between.items():
        if len(links) > room.get(pair, 0):
            room[pair] = len(links)
            changed = True
    return changed


def _numbered(between: Between, order: Order, numbering: Numbering, ids: int) -> Carried:
    """Links between iterations have the highest ids."""
    numbers = {pair: list(numbering(pair, len(links))) for pair, links in order.links.items()}
    others = {pair: [ids - 1 - number for number in range(len(links))] for pair, links in between.items()}
    return Carried(order, between, numbers, others)


class _Walk:
    """Walks iterations with the links within each one, knowing nothing of what came before the first."""

    def __init__(self, code: Code, order: Order, needs: Needs) -> None:
        self.code, self.needs = code, needs
        self.barriers = order.barriers
        self.steps = len(code.pipes)
        self.first = {p: code.pipes.index(p) for p in set(code.pipes)}
        self.waits: list[list[tuple[int, int]]] = [[] for _ in code.pipes]
        for (p, _), links in order.links.items():
            for link in links:
                self.waits[link.consumer].append((p, link.producer))
        self.known: list[tuple[int, ...]] = []  # of each step of the iterations, as in an Order
        self.demanded = False
        self._first: tuple[int, list[list[int]], list[tuple[int, ...]]] | None = None  # and barriers that were known

    def grown(self, between: Between) -> Between:
        """These links and those without which an iteration lacks something; also barriers, and demands on the code."""
        given = self._given(between)
        self._walk(given, self._ask)
        found: Between = {}
        for at, mine in enumerate(given):
            for p, one in sorted(mine.items()):
                found.setdefault((p, self.code.pipes[at]), []).append(Link(one, at))
        return found

    def demands(self, between: Between) -> bool:
        """Whether the code now asks for more within an iteration, among others that a link's last wait has passed when it is
        set again."""
        for (_, consumer), link in self._untaken(between):
            demand(self.code, link.producer, consumer, link.consumer)
            self.demanded = True
        return self.demanded

    def _untaken(self, between: Between) -> list[tuple[Pair, Link]]:
        """Links whose flag is set again though its pipe cannot know that it has been taken."""
        found = []
        for pair, links in between.items():
            for link in links:
                assert link.consumer < link.producer, "a flag is taken before it is set again"
                if self.known[self.steps + link.producer][pair[1]] < self.steps + link.consumer:
                    found.append((pair, link))
        return found

    def _walk(self, given: list[dict[int, int]], lacking: Lacking) -> bool:
        """Ends early, with False, when told so by `lacking`."""
        steps, pipes, needs, waits, barriers = self.steps, self.code.pipes, self.needs.of, self.waits, self.barriers
        knows, known = self._behind_first()
        self.known = known
        for number in range(steps, ITERATIONS * steps):
            at = number % steps
            start, mine = number - at, pipes[at]
            clock = knows[mine]
            for p, one in waits[at]:
                take(clock, p, start + one, known)
            for p, one in given[at].items():
                take(clock, p, start - steps + one, known)
            if at in barriers:
                clock[mine] = number - 1
            for p, one in needs[at].items():
                if start + one > clock[p]:
                    wanted = {p: one for p, one in needs[at].items() if start + one > clock[p]}
                    if not lacking(number, clock, wanted, given):
                        return False
                    break
            known.append(tuple(clock))
        return True

    def _behind_first(self) -> tuple[list[list[int]], list[tuple[int, ...]]]:
        """What pipes and steps know when the first iteration is over, in which nothing of an earlier one can be lacking."""
        if self._first is None or self._first[0] != len(self.barriers):
            knows = [[-1] * len(PIPES) for _ in PIPES]
            known: list[tuple[int, ...]] = []
            for at, mine in enumerate(self.code.pipes):
                for p, one in self.waits[at]:
                    take(knows[mine], p, one, known)
                if at in self.barriers:
                    knows[mine][mine] = at - 1
                known.append(tuple(knows[mine]))
            self._first = len(self.barriers), knows, known
        return [list(clock) for clock in self._first[1]], list(self._first[2])

    def _ask(self, number: int, clock: list[int], wanted: dict[int, int], given: list[dict[int, int]]) -> bool:
        iteration, at = divmod(number, self.steps)
        start, mine = iteration * self.steps, self.code.pipes[at]
        own = wanted.pop(mine, None)
        told = {}
        for p, one in wanted.items():
            # Behind anything of a pipe in an iteration, all that it did in the iterations before is complete.
            before = one + self.steps if one >= -self.steps else self.first[p]
            told[p] = start - self.steps + before if before > at else start + self.first[p]
        for p, one in ask(clock, {p: (one, self.known[one]) for p, one in told.items()}):
            if one < start:
                given[at][p] = max(given[at].get(p, -1), one - start + self.steps)
            else:
                demand(self.code, at, p, one - start)
                self.demanded = True
        if own is not None and start + own > clock[mine]:
            self.barriers.add(at)
            clock[mine] = number - 1
        return True

    def pruned(self, between: Between) -> Between:
        """Without the links that later ones made unnecessary."""
        kept = {pair: list(links) for pair, links in between.items()}
        for pair, link in [(pair, link) for pair, links in between.items() for link in links]:
            fewer = {**kept, pair: [one for one in kept[pair] if one != link]}
            if self._enough(fewer):
                kept = fewer
        return {pair: links for pair, links in kept.items() if links}

    def _enough(self, between: Between) -> bool:
        return self._walk(self._given(between), lambda *_: False) and not self._untaken(between)

    def _given(self, between: Between) -> list[dict[int, int]]:
        given: list[dict[int, int]] = [{} for _ in self.code.pipes]
        for (p, _), links in between.items():
            for link in links:
                given[link.consumer][p] = link.producer
        return given
