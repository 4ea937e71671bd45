"""The published system's own form: whole heads on cores, one launch, elementwise work on the vector unit, the state in UB.

Its three ideas are the passes: mapping, operator order, layouts.
"""

from collections.abc import Callable

from hajax import graph
from hajax.lowering import vector_scalar
from hajax.lowering.assembler import Constants, Dims
from hajax.mechanisms import Mechanism
from hajax.passes.heads_to_cores import Kind
from hajax.passes.layouts import Layouts, layouts
from hajax.passes.order import order
from hajax.passes.rewrite import HANPU_RULES, rewrite
from hajax.plans import Plan, Shape
from hajax.plans.program import Program
from hajax.schedules.ascend import CHUNK, Form, schedule
from hajax.targets import NpuTarget


def schedule_hanpu(mechanism: Mechanism, shape: Shape, target: NpuTarget, version: int) -> Plan:
    """rewrite -> order -> layouts -> mapping -> lowering -> pipeline -> buffers -> sync."""
    if mechanism.decay == "per_channel" or not mechanism.delta or mechanism.strengths != 1:
        raise ValueError(
            f"mechanism: schedule hanpu has a lowering for gated_delta_rule and delta_rule, not for {mechanism.name}"
        )
    rewritten, notes = rewrite(graph.build(mechanism, CHUNK, shape.key_dim, shape.value_dim), HANPU_RULES)
    ordered, order_note = order(rewritten)
    chosen, layout_note = layouts(rewritten, ordered.names, target)
    form = Form(_build(chosen), pairs=False, shares_keys=False, slot_bytes=None)
    return schedule("hanpu", mechanism, shape, target, version, form, (*notes, order_note, layout_note))


def _build(chosen: Layouts) -> Callable[[Dims, Constants, Kind], Program]:
    of_operators = {name: chain.layout for chain in chosen.chains for name in chain.operators}

    def build(dims: Dims, constants: Constants, kind: Kind) -> Program:
        assert kind == "whole"
        return vector_scalar.build(dims, constants, layouts=of_operators)

    return build
