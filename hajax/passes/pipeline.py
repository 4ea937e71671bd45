"""Emission order of a body: steps of its stages, on different chunks, side by side; and addresses that let them overlap.

The body is lowered stage by stage; list scheduling over a model of pipes, queues and memories puts it in one order.
"""

import dataclasses

from hajax.passes.dependencies import require_versions, unpipelined
from hajax.passes.list_schedule import Search, modelled_cycles
from hajax.passes.step_graph import StepGraph
from hajax.plans import Note
from hajax.plans.footprint import Dims
from hajax.plans.program import Program
from hajax.targets import NpuTarget

_SLACK = 30.0  # cycles: which of the steps that can start so close to one another comes first, their paths decide
_LOOKAHEADS = (10**6, 64, 16)  # steps of its stage that a step may be moved ahead of


def pipeline(program: Program, dims: Dims, target: NpuTarget) -> tuple[Program, Note]:
    """The program with its body in the order found, and addresses for the buffers that live within an iteration.

    Without an order that fits and is faster, stages follow one another: the last one first.
    """
    require_versions(program.body, program.buffers, dims)
    base = dataclasses.replace(program, body=unpipelined(program.body))
    if not base.body:
        return base, Note("pipeline", "nothing to order", "", "")
    graph = StepGraph(base, dims, target)
    before = modelled_cycles(graph, range(graph.count))
    for lookahead in _LOOKAHEADS:
        found = Search(graph, _SLACK, lookahead).run()
        if found is None or found[2] >= before:
            continue
        order, addresses, cycles = found
        assert graph.keeps_edges(order), "pipeline: an order broke a dependency"
        buffers = tuple(dataclasses.replace(b, address=addresses.get(b.name)) for b in program.buffers)
        note = Note(
            "pipeline",
            f"{cycles:.0f} modelled cycles an iteration",
            f"{before:.0f} with one stage after the other",
            f"{before - cycles:.0f} cycles; the busiest unit needs {graph.bound:.0f}",
        )
        return dataclasses.replace(base, body=tuple(base.body[at] for at in order), buffers=buffers), note
    return base, Note("pipeline", "one stage after the other", "no order that fits", f"{before:.0f} modelled cycles an iteration")
