"""A greedy search for an emission order, with pipes, queues and memories in modelled time."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from hajax.passes.rooms import Room
from hajax.passes.step_cost import PIPES
from hajax.passes.step_graph import FLAG_CYCLES, StepGraph
from hajax.plans.program import SPACES

_Candidate = tuple[tuple[float, float], int, float, bool]  # key, the smallest first; step, its start, room was found
Found = tuple[list[int], dict[str, int], float]  # order, addresses of local buffers, modelled cycles
_MTE1 = PIPES.index("MTE1")


@dataclass(frozen=True, slots=True)
class Taste:
    """How a search prefers steps, by when they can start and by priority.

    Priority is the step's tail in cycles (StepGraph.tails with `tail_slack`), plus `closing` for each L0 that an open buffer
    fills and that the step helps to close, less `opening` for each one that it would fill, times the steps that have to come
    before that is closed again. With a `weight`, the step with the least start less weight times priority comes next; without,
    that of the highest priority of those that can start within `slack` cycles of the first one.
    """

    tail_slack: float
    closing: float
    opening: float
    slack: float = 0.0
    weight: float = 0.0
    lookahead: int = 10**6  # steps of its stage that a step may be moved ahead of


def modelled_cycles(graph: StepGraph, order: Sequence[int]) -> float:
    """Cycles of an order, with a flag wherever steps depend on one another; no two buffers share bytes."""
    clock = Clock(graph)
    for at in order:
        clock.emit(at, max((clock.done[one] for one in graph.before[at]), default=0.0))
    return clock.end()


class Clock:
    """The pipes in modelled time: the scalar unit issues in order into queues, and each pipe works in order."""

    __slots__ = ("costs", "depth", "done", "free", "issue", "latest", "left", "scalar")

    def __init__(self, graph: StepGraph):
        self.costs = graph.costs
        self.depth = graph.depth
        self.issue = graph.issue
        self.scalar = 0.0
        self.free = [0.0] * len(PIPES)
        self.latest = [0.0] * len(PIPES)  # when all of a pipe's work is complete
        self.left: list[list[float]] = [[] for _ in PIPES]  # when each instruction left the queue
        self.done = [0.0] * graph.count

    def emit(self, at: int, ready: float) -> None:
        """Issues a step whose operands are there from `ready` on."""
        cost = self.costs[at]
        pipe, depth, issue, cycles = cost.pipe, self.depth, self.issue, cost.cycles
        left, free = self.left[pipe], self.free[pipe]
        if ready > free:
            free = ready
        scalar = self.scalar + cost.scalar + FLAG_CYCLES
        pause, run = cost.latency, cost.run
        free += cost.first
        for number in range(cost.instructions):
            if len(left) >= depth and left[-depth] > scalar:
                scalar = left[-depth]
            scalar += issue
            if number and number % run == 0:
                free += pause
            begin = free if free > scalar else scalar
            left.append(begin)
            free = begin + cycles
        self.scalar = scalar
        self.free[pipe] = free
        done = free + cost.latency
        if self.latest[pipe] > done:
            done = self.latest[pipe]
        self.latest[pipe] = self.done[at] = done

    def end(self) -> float:
        """When everything is complete."""
        return max(self.scalar, *self.latest)


class Search:
    """One greedy walk: always a step that can start about first; of several, the one with the highest priority.

    A step is taken only when the buffers that it opens fit, and when everything open can then still be brought to its end.
    """

    def __init__(self, graph: StepGraph, taste: Taste):
        self.graph, self.taste = graph, taste
        self.clock = Clock(graph)
        self.rooms = [Room(*room) for room in graph.rooms]
        self.order: list[int] = []
        self.emitted = bytearray(graph.count)
        self.pending = (1 << graph.count) - 1  # a bit for each step that is not emitted
        self.tails = graph.tails(taste.tail_slack)
        self.boosts = [0.0] * graph.count
        self.limits: list[float] = []
        self.left = list(graph.users)  # steps that still use a local buffer
        self.live = [0] * len(SPACES)
        self.address = [-1] * len(graph.names)
        self.until = [0.0] * len(graph.names)
        self.missing = [len(needs) for needs in graph.needs]
        self.waiters: list[list[int]] = [[] for _ in range(graph.count)]
        for at, needs in enumerate(graph.needs):
            for one in needs if not graph.joined[at] else ():
                self.waiters[one].append(at)
        self.ready = [at for at in range(graph.count) if not graph.joined[at] and not graph.needs[at]]
        self.ready_at = [0.0] * graph.count
        self.next_rank = dict.fromkeys(graph.by_stage, 0)
        self.sequences = [list(users) for users in graph.by_space]

    def run(self) -> Found | None:
        """None when the walk ended before all steps were placed."""
        while self.ready:
            at = self._choose()
            if at is None:
                return None
            self.ready.remove(at)
            for load in self.graph.loads[at]:
                if not self.emitted[load]:
                    self._emit(load)
            self._emit(at)
        return self.order, dict(zip(self.graph.names, self.address, strict=True)), self.clock.end()

    def _starts(self) -> list[tuple[float, int]]:
        """Of the steps within reach, when each could start, if its buffers fit."""
        clock, costs, emitted, graph = self.clock, self.graph.costs, self.emitted, self.graph
        scalar, free, done, ready_at, loads = clock.scalar, clock.free, clock.done, self.ready_at, graph.loads
        limits = {stage: rank + self.taste.lookahead for stage, rank in self.next_rank.items()}
        starts = []
        for at in self.ready:
            if graph.ranks[at] >= limits[graph.stages[at]]:
                continue
            cost, ready = costs[at], ready_at[at]
            start = max(scalar + cost.scalar, free[cost.pipe], ready)
            for load in loads[at]:
                if emitted[load]:
                    over = done[load]
                else:
                    its = costs[load]
                    over = max(scalar + its.scalar, free[_MTE1], ready) + its.busy + its.latency
                if over > start:
                    start = over
            starts.append((start, at))
        return starts

    def _choose(self) -> int | None:
        """The preferred step that fits; one whose bytes become free later counts as starting then."""
        heap = self._preferred(self._starts())
        heapify(heap)
        while heap:
            key, at, start, placed = heappop(heap)
            if not placed:
                when = self._when_room(at)
                if when is None:
                    continue
                if when > start:
                    heappush(heap, (self._later(key, start, when), at, when, True))
                    continue
            if self._can_end(at):
                return at
        return None

    def _preferred(self, starts: list[tuple[float, int]]) -> list[_Candidate]:
        weight = self.taste.weight
        if weight:
            return [((0.0, start - weight * self._priority(at)), at, start, False) for start, at in starts]
        starts.sort()
        found: list[_Candidate] = []
        limit, self.limits = -1.0, []
        for start, at in starts:
            if start > limit:
                limit = start + self.taste.slack
                self.limits.append(limit)
            block = len(self.limits) - 1
            found.append(((float(block), -self._priority(at)), at, start, False))
        return found

    def _later(self, key: tuple[float, float], start: float, when: float) -> tuple[float, float]:
        """The key of a candidate that has to wait for room."""
        if self.taste.weight:
            return (0.0, key[1] + when - start)
        return (float(bisect_left(self.limits, when)), key[1])

    def _priority(self, at: int) -> float:
        value = self.tails[at] + self.boosts[at]
        for number in self.graph.scarce[at] if self.taste.opening else ():
            if self.address[number] < 0:
                before = (self.graph.closing[number] & self.pending).bit_count()
                value -= self.taste.opening * before * self.graph.shares[number]
        return value

    def _boost(self, number: int, sign: int) -> None:
        """A buffer fills a part of an L0, or does no longer: what closes it gets ahead, or back."""
        gain = sign * self.taste.closing * self.graph.shares[number]
        for at in self.graph.closers(number) if gain else ():
            self.boosts[at] += gain

    def _opens(self, at: int) -> list[int]:
        """Buffers that the step and its loads open."""
        found = []
        for one in (*self.graph.loads[at], at):
            if not self.emitted[one]:
                found += [number for number in self.graph.uses[one] if self.address[number] < 0 and number not in found]
        return found

    def _when_room(self, at: int) -> float | None:
        """From when on there is room for what the step opens; None: there is none."""
        when = 0.0
        tried: dict[int, Room] = {}
        opens = self._opens(at)
        for number in opens:
            space, size = self.graph.spaces[number], self.graph.bytes[number]
            room = tried.get(space, self.rooms[space])
            found = room.find(size, self.clock.scalar)
            if found is None:
                return None
            if found[0] > when:
                when = found[0]
            if len(opens) > 1:
                copy = Room(0, 0)
                copy.pieces = room.pieces
                copy.take(found[1], size)
                tried[space] = copy
        return when

    def _can_end(self, at: int) -> bool:
        """Whether all open buffers can still be closed after this step, one stage after another, without more room."""
        group = [one for one in (*self.graph.loads[at], at) if not self.emitted[one]]
        opens = self._opens(at)
        if not opens:
            return True
        left: dict[int, int] = {}
        for one in group:
            for number in self.graph.uses[one]:
                left[number] = left.get(number, self.left[number]) - 1
        for space in sorted({self.graph.spaces[number] for number in opens if left[number]}):
            start, end = self.graph.rooms[space]
            live = self.live[space]
            live += sum(self.graph.bytes[number] for number in opens if self.graph.spaces[number] == space)
            mine = {n: count for n, count in left.items() if self.graph.spaces[n] == space}
            live -= sum(self.graph.bytes[number] for number, count in mine.items() if not count)
            peak = self.graph.peaks[space]  # of all steps in their natural order
            if peak > end - start or live + peak <= end - start:
                continue
            if not self._drains(space, live, end - start, mine, group):
                return False
        return True

    def _drains(self, space: int, live: int, room: int, left: dict[int, int], group: list[int]) -> bool:
        graph, users = self.graph, self.graph.users
        needed = 0
        for number, count in enumerate(self.left):
            if graph.spaces[number] == space and 0 < left.get(number, count) < users[number]:
                needed |= graph.closing[number]
        steps = [(at, numbers) for at, numbers in self.sequences[space] if not self.emitted[at] and at not in group]
        self.sequences[space] = [(at, n) for at, n in self.sequences[space] if not self.emitted[at]]
        first = [one for one in steps if needed >> one[0] & 1]
        rest = [one for one in steps if not needed >> one[0] & 1]
        return any(self._fits_in_order(order, live, room, left) for order in ((*first, *rest), steps))

    def _fits_in_order(self, steps: Sequence[tuple[int, tuple[int, ...]]], live: int, room: int, left: dict[int, int]) -> bool:
        graph = self.graph
        users, size, now = graph.users, graph.bytes, self.left
        left = dict(left)
        for _, numbers in steps:
            for number in numbers:
                count = left.get(number)
                if count is None:
                    count = now[number]
                if count == users[number]:
                    live += size[number]
                    if live > room:
                        return False
                left[number] = count - 1
            for number in numbers:
                if not left[number]:
                    live -= size[number]
        return True

    def _emit(self, at: int) -> None:
        graph, clock = self.graph, self.clock
        ready = max((clock.done[one] for one in graph.before[at]), default=0.0)
        for number in graph.uses[at]:
            if self.address[number] < 0:
                space, size = graph.spaces[number], graph.bytes[number]
                found = self.rooms[space].find(size, clock.scalar)
                assert found is not None, "there was room when the step was chosen"
                self.rooms[space].take(found[1], size)
                self.address[number] = found[1]
                self.live[space] += size
                if number in graph.scarce[at]:
                    self._boost(number, 1)
                ready = max(ready, found[0])
        clock.emit(at, ready)
        self.order.append(at)
        self.emitted[at] = True
        self.pending &= ~(1 << at)
        done = clock.done[at]
        for number in graph.uses[at]:
            self.until[number] = max(self.until[number], done)
            self.left[number] -= 1
            if not self.left[number]:
                if number in graph.scarce[at]:
                    self._boost(number, -1)
                space, size = graph.spaces[number], graph.bytes[number]
                self.rooms[space].give(self.address[number], size, self.until[number], clock.scalar)
                self.live[space] -= size
        for one in self.waiters[at]:
            self.missing[one] -= 1
            if not self.missing[one]:
                self.ready.append(one)
                self.ready_at[one] = max(clock.done[need] for need in graph.needs[one])
        self._advance_rank(at)

    def _advance_rank(self, at: int) -> None:
        """Moves the stage's first step that is not emitted yet, which limits how far ahead others may be taken."""
        stage = self.graph.stages[at]
        steps, first = self.graph.by_stage[stage], self.next_rank[stage]
        while first < len(steps) and self.emitted[steps[first]]:
            first += 1
        self.next_rank[stage] = first
