"""A body's steps, their dependencies, costs and buffers as numbers: what a search for an emission order asks for."""

from collections.abc import Sequence
from functools import cached_property

from hajax.passes.buffer_lives import Life, lifetimes
from hajax.passes.dependencies import edges, of_program, touches
from hajax.passes.place_buffers import available_bytes, fixed_part
from hajax.passes.step_cost import PIPES, StepCost, step_costs
from hajax.plans.footprint import Dims
from hajax.plans.program import SPACES, Program
from hajax.targets import NpuTarget

FLAG_CYCLES = 3.0  # of the scalar unit for a step's flags, about; and on the way from pipe to pipe
_LOADS = ("load_a", "load_b")
_SCARCE = (SPACES.index("L0A"), SPACES.index("L0B"))  # memories that are too small for much to overlap
_AHEAD = 100.0  # cycles by which the scalar unit is ahead of a pipe, about


class StepGraph:
    """A body in an order that is right, and what a search needs of it, made when asked for. Local buffers live within an
    iteration.
    """

    def __init__(self, base: Program, dims: Dims, target: NpuTarget):
        self._steps = base.body
        self.count = len(base.body)
        self._tails: dict[float, list[float]] = {}
        self._closers: dict[int, list[int]] = {}
        self.depth = target.queue_depth
        self.issue = target.issue_cycles + target.argument_cycles
        self.costs: list[StepCost] = step_costs(base.body, dims, target)
        found, body = of_program(base, dims), slice(len(base.setup), len(base.setup) + self.count)
        self.areas = found[body]
        every = touches(found)
        touched = every[body]
        self._edges = edges(touched)
        self.before = [tuple(sorted((*a, *b))) for a, b in zip(self._edges.true, self._edges.other, strict=True)]
        self._place(base, lifetimes(base, dims, every), target)
        numbers = {name: number for number, name in enumerate(self.names)}
        used = [sorted({name for (name, _), _ in (*its.reads, *its.writes)} & numbers.keys()) for its in touched]
        self.uses = [tuple(numbers[name] for name in names) for names in used]

    @cached_property
    def after(self) -> list[list[int]]:
        """Of each step, those that have to follow it."""
        after: list[list[int]] = [[] for _ in self.before]
        for at, earlier in enumerate(self.before):
            for one in earlier:
                after[one].append(at)
        return after

    @cached_property
    def ancestors(self) -> list[int]:
        """Of each step, all that it has to follow, as bits."""
        ancestors = [0] * self.count
        for at, earlier in enumerate(self.before):
            for one in earlier:
                ancestors[at] |= ancestors[one] | 1 << one
        return ancestors

    @cached_property
    def path(self) -> list[float]:
        """Of each step, the modelled cycles from its start to the end of all that waits for it."""
        path = [0.0] * self.count
        for at in reversed(range(self.count)):
            cost = self.costs[at]
            path[at] = cost.busy + cost.latency + FLAG_CYCLES + max((path[one] for one in self.after[at]), default=0.0)
        return path

    def tails(self, slack: float) -> list[float]:
        """Of each step, modelled cycles from its start to the end of all, pipes and scalar unit shared: greedily from the end.

        Of the steps that can be the next one towards the start within `slack` cycles, that with the longest way there is.
        """
        if slack in self._tails:
            return self._tails[slack]
        heads, costs = self._heads(), self.costs
        left = [len(later) for later in self.after]
        ready = [at for at in range(self.count) if not left[at]]
        from_end = [cost.latency for cost in costs]
        pipes = [cost.pipe for cost in costs]
        tails = [0.0] * self.count
        free, scalar = [0.0] * len(PIPES), 0.0
        while ready:
            starts = [(max(free[pipes[at]], from_end[at], scalar - _AHEAD), at) for at in ready]
            limit = min(starts)[0] + slack
            _, at, start = max([(heads[at], at, start) for start, at in starts if start <= limit])
            tails[at] = free[pipes[at]] = start + costs[at].busy
            scalar += costs[at].scalar + FLAG_CYCLES + costs[at].instructions * self.issue
            ready.remove(at)
            for one in self.before[at]:
                from_end[one] = max(from_end[one], tails[at] + costs[one].latency + FLAG_CYCLES)
                left[one] -= 1
                if not left[one]:
                    ready.append(one)
        self._tails[slack] = tails
        return tails

    def _heads(self) -> list[float]:
        """Of each step, modelled cycles of the longest way to its start."""
        heads = [0.0] * self.count
        for at, earlier in enumerate(self.before):
            costs = ((heads[one], self.costs[one]) for one in earlier)
            heads[at] = max((head + cost.busy + cost.latency + FLAG_CYCLES for head, cost in costs), default=0.0)
        return heads

    @cached_property
    def joined(self) -> list[bool]:
        """Of each step, whether it is a load into L0 that is emitted with the first step that reads it.

        A load that something else than its readers waits for is a step like others where that could keep a reader waiting.
        """
        readers: list[list[int]] = [[] for _ in self._steps]
        for at, producers in enumerate(self._edges.true):
            for one in producers:
                readers[one].append(at)
        joined = [False] * self.count
        for at, step in enumerate(self._steps):
            if step.opcode not in _LOADS or not readers[at] or any(joined[one] for one in self.before[at]):
                continue
            others = set(self.after[at]) - set(readers[at])
            joined[at] = not any(self.ancestors[readers[at][0]] >> one & 1 for one in others)
        return joined

    @cached_property
    def loads(self) -> list[tuple[int, ...]]:
        """Of each step, the joined loads that it reads."""
        joined = self.joined
        return [tuple(one for one in producers if joined[one]) for producers in self._edges.true]

    @cached_property
    def needs(self) -> list[tuple[int, ...]]:
        """What a step, emitted with its loads, has to follow."""
        found = []
        for at, earlier in enumerate(self.before):
            own = set(earlier) - set(self.loads[at])
            found.append(tuple(sorted(own.union(*(self.before[load] for load in self.loads[at])))))
        return found

    @cached_property
    def natural(self) -> list[int]:
        """The base order with loads right before their first reader."""
        order: list[int] = []
        placed: set[int] = set()
        for at in range(self.count):
            if not self.joined[at]:
                group = [load for load in self.loads[at] if load not in placed]
                placed.update(group)
                order += [*group, at]
        return order

    @cached_property
    def stages(self) -> list[int]:
        """Of each step."""
        return [step.stage for step in self._steps]

    @cached_property
    def by_stage(self) -> dict[int, list[int]]:
        """Steps by stage in their natural order."""
        found: dict[int, list[int]] = {}
        for at in self.natural:
            found.setdefault(self.stages[at], []).append(at)
        return found

    @cached_property
    def ranks(self) -> list[int]:
        """Of each step, its number in its stage."""
        ranks = [0] * self.count
        for mine in self.by_stage.values():
            for rank, at in enumerate(mine):
                ranks[at] = rank
        return ranks

    @cached_property
    def bound(self) -> float:
        """Cycles of the busiest pipe or of the scalar unit, flags left out."""
        busy = [0.0] * (len(PIPES) + 1)
        for cost in self.costs:
            busy[cost.pipe] += cost.busy
            busy[-1] += cost.scalar + cost.instructions * self.issue
        return max(busy)

    def _place(self, base: Program, lives: Sequence[Life], target: NpuTarget) -> None:
        """Local buffers, and by memory the bytes from .. to that they share."""
        inside = range(len(base.setup), len(base.setup) + self.count)
        local = [life for life in lives if not life.whole and life.first in inside]
        self.names = [life.name for life in local]
        self.bytes = [life.bytes for life in local]
        self.spaces = [SPACES.index(life.space) for life in local]
        self.rooms: list[tuple[int, int]] = []
        for space in SPACES:
            _, _, start = fixed_part(space, [life for life in lives if life.space == space])
            self.rooms.append((start, available_bytes(space, base, target)))
        sizes = [max(1, end - start) for start, end in self.rooms]
        self.shares = [size / sizes[space] for size, space in zip(self.bytes, self.spaces, strict=True)]

    @cached_property
    def users(self) -> list[int]:
        """Of each local buffer, how many steps use it."""
        users = [0] * len(self.names)
        for numbers in self.uses:
            for number in numbers:
                users[number] += 1
        return users

    @cached_property
    def closing(self) -> list[int]:
        """Of each local buffer, all steps that come before its end, as bits."""
        closing = [0] * len(self.names)
        for at, numbers in enumerate(self.uses):
            for number in numbers:
                closing[number] |= self.ancestors[at] | 1 << at
        return closing

    @cached_property
    def by_space(self) -> list[list[tuple[int, tuple[int, ...]]]]:
        """By memory, the steps that use local buffers of it, in their natural order, and which ones."""
        found: list[list[tuple[int, tuple[int, ...]]]] = [[] for _ in SPACES]
        for at in self.natural:
            mine: dict[int, list[int]] = {}
            for number in self.uses[at]:
                mine.setdefault(self.spaces[number], []).append(number)
            for space, numbers in mine.items():
                found[space].append((at, tuple(numbers)))
        return found

    @cached_property
    def scarce(self) -> list[tuple[int, ...]]:
        """Of each step, the buffers in small memories that it and its loads use."""
        return [
            tuple(n for one in (*self.loads[at], at) for n in self.uses[one] if self.spaces[n] in _SCARCE)
            for at in range(self.count)
        ]

    @cached_property
    def peaks(self) -> list[int]:
        """By memory, most bytes of local buffers that are alive together in the natural order."""
        return [self._peak(users) for users in self.by_space]

    def closers(self, number: int) -> list[int]:
        """The steps that come before the end of a local buffer, its users among them."""
        if number not in self._closers:
            bits = self.closing[number]
            self._closers[number] = [at for at in range(self.count) if bits >> at & 1]
        return self._closers[number]

    def _peak(self, steps: Sequence[tuple[int, tuple[int, ...]]]) -> int:
        left = list(self.users)
        live = peak = 0
        for _, numbers in steps:
            for number in numbers:
                live += self.bytes[number] if left[number] == self.users[number] else 0
                left[number] -= 1
            peak = max(peak, live)
            live -= sum(self.bytes[number] for number in numbers if not left[number])
        return peak

    def keeps_edges(self, order: Sequence[int]) -> bool:
        """Whether the order is one of all steps, and each comes behind what it has to follow."""
        place = {at: number for number, at in enumerate(order)}
        if len(place) != self.count or len(order) != self.count:
            return False
        return all(place[one] < place[at] for at in range(self.count) for one in self.before[at])
