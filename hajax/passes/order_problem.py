"""A body as the text of a problem that native/tools/order_search reads: numbers only, so that it knows nothing of programs."""

from collections.abc import Mapping, Sequence

from hajax.passes.carry import ITERATIONS, unrolled
from hajax.passes.dependencies import areas
from hajax.passes.step_cost import mask_cycles
from hajax.passes.step_graph import StepGraph
from hajax.passes.sync import flipped, is_many
from hajax.plans.footprint import Dims
from hajax.plans.program import Program
from hajax.targets import NpuTarget


def problem_text(
    base: Program,
    graph: StepGraph,
    dims: Dims,
    target: NpuTarget,
    carried: bool,
    start: Sequence[int],
    addresses: Mapping[str, int],
) -> str:
    """Steps with costs, what they have to follow and the buffers that they use; buffers; memories; an order to start from, with
    addresses for it."""
    before, earlier = [_latest(graph, at) for at in range(graph.count)], _earlier(base, graph, dims)
    costs = (target.issue_cycles, target.argument_cycles, target.flag_cycles, mask_cycles(target))
    lines: list[Sequence[float]] = [
        (graph.count, len(graph.names), len(graph.rooms), graph.depth, *costs, int(carried)),
    ]
    for at, cost in enumerate(graph.costs):
        of_unit = (cost.pipe, cost.instructions, cost.cycles, cost.first, cost.latency, cost.scalar, cost.run, cost.mask)
        lists = (before[at], [number for pair in earlier[at] for number in pair], graph.uses[at])
        sizes = (len(before[at]), len(earlier[at]), len(graph.uses[at]))
        lines.append((*of_unit, int(is_many(base.body[at], target)), *sizes, *(number for its in lists for number in its)))
    lines += zip(graph.spaces, graph.bytes, strict=True)
    lines += graph.rooms
    lines += [start, [addresses[name] for name in graph.names]]
    return "".join(" ".join(map(str, line)) + "\n" for line in lines)


def _latest(graph: StepGraph, at: int) -> list[int]:
    """What a step has to follow, without what others of the same pipe among these follow themselves."""
    found = graph.before[at]
    return [
        one
        for one in found
        if not any(graph.ancestors[other] >> one & 1 and graph.costs[other].pipe == graph.costs[one].pipe for other in found)
    ]


def _earlier(base: Program, graph: StepGraph, dims: Dims) -> list[list[tuple[int, int]]]:
    """Of each step, what it has to follow of earlier iterations: (iterations back, step). Local buffers have no address yet."""
    local = set(graph.names)
    touched = [[area for area in step if area[0][0] not in local] for step in areas(base.body, base, dims)]
    found = unrolled(touched, flipped(touched, base))
    earlier: list[list[tuple[int, int]]] = [[] for _ in base.body]
    for iteration in (ITERATIONS - 1, ITERATIONS):  # an even and an odd one
        for at, mine in enumerate(earlier):
            number = iteration * graph.count + at
            for one in (*found.true[number], *found.other[number]):
                pair = (iteration - one // graph.count, one % graph.count)
                if 0 < pair[0] < ITERATIONS and pair not in mine:
                    mine.append(pair)
    return earlier
