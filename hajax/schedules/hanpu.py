"""The published system's own form: whole heads on cores, one launch, elementwise work on the vector unit, the state in UB.

Its three ideas are the passes: mapping, operator order, layouts.
"""

from collections.abc import Callable, Mapping

from hajax import graph
from hajax.lowering import vector_channel, vector_scalar, vector_steps
from hajax.lowering.assembler import Constants, Dims
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


def schedule_hanpu(mechanism: Mechanism, shape: Shape, target: NpuTarget, version: int) -> Plan:
    """rewrite -> order -> layouts -> mapping -> lowering -> pipeline -> buffers -> sync."""
    _require(mechanism, "hanpu")
    rewritten, notes = rewrite(graph.build(mechanism, CHUNK, shape.key_dim, shape.value_dim), HANPU_RULES)
    ordered, order_note = order(rewritten)
    chosen, layout_note = layouts(rewritten, ordered.names, target)
    of_operators = {name: chain.layout for chain in chosen.chains for name in chain.operators}
    form = Form(_build(mechanism, of_operators), pairs=False, shares_keys=False, slot_bytes=None)
    return schedule("hanpu", mechanism, shape, target, version, form, (*notes, order_note, layout_note))


def schedule_chunk_head(mechanism: Mechanism, shape: Shape, target: NpuTarget, version: int) -> Plan:
    """What hanpu's mapping is compared with: every chunk's state-free work is spread over the cores in a launch of its own and
    handed on through GM, then heads take up the states; all chains dense, with transforms at every boundary.
    """
    _require(mechanism, "chunk_head")
    if mechanism.decay == "per_channel":
        raise ValueError(f"mechanism: schedule chunk_head has no lowering for {mechanism.name}")
    build = _build(mechanism, vector_steps.DENSE)
    form = Form(
        build, pairs=False, shares_keys=False, family="chunk-parallel",
        slot_bytes=lambda dims: vector_scalar.slot_bytes(dims, mechanism.delta),
    )  # fmt: skip
    return schedule("chunk_head", mechanism, shape, target, version, form)


def _require(mechanism: Mechanism, name: str) -> None:
    if mechanism.strengths != 1:
        raise ValueError(f"mechanism: schedule {name} has no lowering for {mechanism.name}: two strengths")


def _build(
    mechanism: Mechanism, chosen: Mapping[str, Layout] | vector_steps.Layouts
) -> Callable[[Dims, Constants, Kind], Program]:
    def build(dims: Dims, constants: Constants, kind: Kind) -> Program:
        if mechanism.decay == "per_channel":
            assert kind == "whole"
            return vector_channel.build(dims, constants, delta=mechanism.delta, layouts=chosen)
        return vector_scalar.build(dims, constants, delta=mechanism.delta, layouts=chosen, kind=kind)

    return build
