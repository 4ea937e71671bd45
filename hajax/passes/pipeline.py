"""Emission order of a body: steps of its stages, on different chunks, side by side; and addresses that let them overlap.

The body is lowered stage by stage; list scheduling over a model of pipes, queues and memories puts it in one order.
"""

import dataclasses
from collections.abc import Mapping, Sequence

from hajax.passes.dependencies import require_versions, unpipelined
from hajax.passes.known_orders import known_order
from hajax.passes.list_schedule import Found, Search, Taste, modelled_cycles
from hajax.passes.step_graph import StepGraph
from hajax.plans import Note
from hajax.plans.footprint import Dims
from hajax.plans.program import Program
from hajax.targets import NpuTarget

# Of 36 on 9 programs, walked and as source, the three whose best is best: within 1 % of the best of all on average.
_TASTES = (
    Taste(100.0, closing=0.0, opening=0.0, weight=0.2),
    Taste(30.0, closing=3000.0, opening=30.0),
    Taste(30.0, closing=0.0, opening=0.0, weight=0.8),
)
# Closer to the order of lowering, less is open at a time.
_CAREFUL = tuple(Taste(30.0, closing=6000.0, opening=30.0, slack=30.0, lookahead=steps) for steps in (64, 16))


def pipeline(
    program: Program, dims: Dims, target: NpuTarget, searches: int = len(_TASTES), *, carried: bool = False, known: bool = True
) -> tuple[Program, Note]:
    """The program with its body in the order found, and addresses for the buffers that live within an iteration.

    searches: how many preferences are tried; each takes some 20 ms. Without an order that fits and is faster, stages follow one
    another, the last one first. known: take an order that was searched for beforehand, if there is one; carried says whether
    flags or a barrier order an iteration behind the last one.
    """
    if not 1 <= searches <= len(_TASTES):
        raise ValueError(f"searches: expected 1 to {len(_TASTES)}, got {searches}")
    base = dataclasses.replace(program, body=unpipelined(program.body))
    if not base.body:
        return base, Note("pipeline", "nothing to order", "", "")
    graph = StepGraph(base, dims, target)
    require_versions(base, graph.areas)
    if known and (one := known_order(base, graph, target, carried)) is not None:
        note = Note(
            "pipeline",
            f"{one.cycles:.0f} modelled cycles an iteration in steady state, searched for beforehand",
            f"the busiest unit needs {graph.bound:.0f}",
            f"{len(one.order)} steps",
        )
        return _in_order(base, one.order, one.addresses), note
    before = modelled_cycles(graph, range(graph.count))
    found: list[Found] = []
    for tastes in (_TASTES[:searches], _TASTES[searches:], _CAREFUL):
        found = [one for one in (Search(graph, taste).run() for taste in tastes) if one is not None]
        if found:
            break
    best = min(found, key=lambda one: one[2], default=None)
    if best is None or best[2] >= before:
        told = f"{before:.0f} modelled cycles an iteration"
        return base, Note("pipeline", "one stage after the other", "no order that fits and is faster", told)
    order, addresses, cycles = best
    assert graph.keeps_edges(order), "pipeline: an order broke a dependency"
    note = Note(
        "pipeline",
        f"{cycles:.0f} modelled cycles an iteration",
        f"{before:.0f} with one stage after the other",
        f"{before - cycles:.0f} cycles; the busiest unit needs {graph.bound:.0f}, the longest path {max(graph.path):.0f}",
    )
    return _in_order(base, order, addresses), note


def _in_order(base: Program, order: Sequence[int], addresses: Mapping[str, int]) -> Program:
    buffers = tuple(dataclasses.replace(b, address=addresses.get(b.name)) for b in base.buffers)
    return dataclasses.replace(base, body=tuple(base.body[at] for at in order), buffers=buffers)
