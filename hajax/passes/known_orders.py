"""Emission orders of the programs that common shapes need, searched for beforehand (scripts/search_orders): data, by program.

A search that takes minutes finds orders that a planner with milliseconds does not, and looking one up takes none.
"""

import functools
import hashlib
import json
from dataclasses import dataclass
from importlib import resources
from typing import Any

from hajax.passes.step_graph import StepGraph
from hajax.plans.program import Operand, Program
from hajax.targets import NpuTarget

TABLE = "known_orders.json"
UNIT = 32  # bytes of an address in the table


@dataclass(frozen=True, slots=True)
class KnownOrder:
    """cycles: of an iteration once iterations follow one another steadily, modelled for the chip that it was searched for."""

    cycles: float
    order: tuple[int, ...]
    addresses: dict[str, int]


def digest(base: Program, graph: StepGraph, carried: bool) -> str:
    """Of all that decides which orders are legal, and whether a barrier parts iterations. Not of costs, nor of labels."""
    steps = [
        (
            *(step.opcode, *map(_place, (step.dst, step.src0, step.src1))),
            *(step.count, step.index, step.size, step.p, step.constant, step.stage, step.first, step.last),
        )
        for step in base.body
    ]
    buffers = [(buffer.name, buffer.versions, buffer.kept) for buffer in base.buffers]
    told = repr((steps, base.masks, buffers, graph.names, graph.bytes, graph.spaces, graph.rooms, carried))
    return hashlib.sha256(told.encode()).hexdigest()[:32]


def _place(operand: Operand | None) -> tuple[str, int] | None:
    return None if operand is None else (operand.buffer, operand.offset)


def known_order(base: Program, graph: StepGraph, target: NpuTarget, carried: bool) -> KnownOrder | None:
    """The order that was searched for a kernel whose scalar loads cost about as much: they decide which order is good."""
    entry = _table().get(digest(base, graph, carried))
    if entry is None:
        return None
    loads = min(entry["orders"], key=lambda loads: (abs(float(loads) - target.scalar_load_cycles), float(loads)))
    found = entry["orders"][loads]
    order = tuple(map(int, found["order"].split()))
    addresses = [UNIT * int(address) for address in found["addresses"].split()]
    assert graph.keeps_edges(order), "known orders: an order broke a dependency"
    return KnownOrder(found["cycles"], order, dict(zip(graph.names, addresses, strict=True)))


@functools.cache
def _table() -> dict[str, Any]:
    text = resources.files("hajax.passes").joinpath(TABLE).read_text(encoding="utf-8")
    table: dict[str, Any] = json.loads(text)
    return table
