"""The published system's own form: heads stay on cores, elementwise work on the vector unit, the state in UB.

Its three ideas are the passes: mapping, operator order, layouts. One launch.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import ModuleType

from hajax import graph
from hajax.lowering import vector_channel, vector_scalar, vector_steps
from hajax.lowering.assembler import Constants, Dims
from hajax.lowering.vector_state import Order
from hajax.lowering.vector_tiles import Layout
from hajax.mechanisms import Mechanism
from hajax.passes.heads_to_cores import Kind
from hajax.passes.layouts import layouts
from hajax.passes.order import order
from hajax.passes.rewrite import HANPU_RULES, rewrite
from hajax.plans import Plan, Shape
from hajax.plans.program import Program
from hajax.schedules.ascend import CHUNK, Form, schedule
from hajax.targets import NpuTarget

SPILLED: Order = "spilled"
# Rows and scores of a decay per channel have no dense lowering.
PLAIN = {
    "none": vector_steps.DENSE,
    "scalar": vector_steps.DENSE,
    "per_channel": replace(vector_steps.DENSE, rows="blocked", scores="blocked"),
}


def schedule_hanpu(mechanism: Mechanism, shape: Shape, target: NpuTarget, version: int, parts: int = 2) -> Plan:
    """rewrite -> order -> layouts -> mapping -> lowering -> pipeline -> buffers -> sync.

    parts: of fp16 that an operand is kept in; 1 is for comparisons, and holds no error bound.
    """
    _require(mechanism, "hanpu")
    rewritten, notes = rewrite(graph.build(mechanism, CHUNK, shape.key_dim, shape.value_dim), HANPU_RULES)
    ordered, order_note = order(rewritten)
    chosen, layout_note = layouts(rewritten, ordered.names, target)
    of_operators = {name: chain.layout for chain in chosen.chains for name in chain.operators}
    form = form_of(mechanism, "planned", of_operators, parts)
    return schedule("hanpu", mechanism, shape, target, version, form, (*notes, order_note, layout_note))


def schedule_chunk_head(mechanism: Mechanism, shape: Shape, target: NpuTarget, version: int) -> Plan:
    """What hanpu is compared with, none of its three ideas: every chunk of every head is an item of its own, whose results that
    need no state are handed on through GM; then heads take up the states, in the definition's order, which hands each on
    through GM as well; all chains dense that can be, with transforms at every boundary.
    """
    _require(mechanism, "chunk_head")
    form = form_of(mechanism, SPILLED, PLAIN[mechanism.decay])
    form = replace(form, family="chunk and head", slot_bytes=_slot_bytes(mechanism, SPILLED))
    return schedule("chunk_head", mechanism, shape, target, version, form)


def form_of(mechanism: Mechanism, state: Order, chosen: Mapping[str, Layout] | vector_steps.Layouts, parts: int = 2) -> Form:
    """How a member is lowered, with its state in this order and these layouts."""
    lowering = _lowering(mechanism)

    def build(dims: Dims, constants: Constants, kind: Kind) -> Program:
        return lowering.build(dims, constants, delta=mechanism.delta, layouts=chosen, order=state, kind=kind, parts=parts)

    return Form(build, pairs=False, shares_keys=False, slot_bytes=None)


def _slot_bytes(mechanism: Mechanism, state: Order) -> Callable[[Dims], int]:
    return lambda dims: _lowering(mechanism).slot_bytes(dims, mechanism.delta, state)


def _lowering(mechanism: Mechanism) -> ModuleType:
    return vector_channel if mechanism.decay == "per_channel" else vector_scalar


def _require(mechanism: Mechanism, name: str) -> None:
    if mechanism.strengths != 1:
        raise ValueError(
            f"mechanism: schedule {name} has no lowering for separate erase and write strengths ({mechanism.name}), hajax has"
        )
