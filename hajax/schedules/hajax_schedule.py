"""hajax's own schedule: whole heads on cores, one launch, the cube dataflow, stages of different chunks side by side."""

import functools

from hajax import graph
from hajax.lowering import cube_per_channel, cube_scalar
from hajax.lowering.assembler import Constants, Dims
from hajax.mechanisms import Mechanism
from hajax.passes.heads_to_cores import Kind
from hajax.passes.rewrite import HAJAX_RULES, rewrite
from hajax.plans import Plan, Shape
from hajax.plans.program import Program
from hajax.schedules.ascend import CHUNK, Form, schedule
from hajax.targets import NpuTarget


def schedule_hajax(mechanism: Mechanism, shape: Shape, target: NpuTarget, version: int) -> Plan:
    """rewrite (cube dataflow) -> mapping -> lowering -> pipeline -> buffers -> sync."""
    _, notes = rewrite(graph.build(mechanism, CHUNK, shape.key_dim, shape.value_dim), HAJAX_RULES)
    return schedule("hajax", mechanism, shape, target, version, form_of(mechanism, target), notes)


def form_of(mechanism: Mechanism, target: NpuTarget | None = None) -> Form:
    """How a member is lowered. target None: for a chip with room for tiles side by side."""
    if mechanism.decay == "per_channel":
        return _per_channel(mechanism.delta, mechanism.strengths, None if target is None else target.l0c_bytes)
    return _SCALAR[mechanism.delta, mechanism.strengths]


def _scalar(delta: bool, strengths: int) -> Form:
    def build(dims: Dims, constants: Constants, kind: Kind) -> Program:
        return cube_scalar.build(dims, constants, delta=delta, strengths=strengths, kind=kind)

    def slot_bytes(dims: Dims) -> int:
        return cube_scalar.slot_bytes(dims, delta, strengths)

    return Form(build, pairs=True, shares_keys=True, slot_bytes=slot_bytes, carried=True)


@functools.cache  # planning costs are kept by form
def _per_channel(delta: bool, strengths: int, l0c_bytes: int | None) -> Form:
    def build(dims: Dims, constants: Constants, kind: Kind) -> Program:
        assert kind == "whole"
        side_by_side = l0c_bytes is None or cube_per_channel.l0c_bytes(dims) <= l0c_bytes
        return cube_per_channel.build(dims, constants, delta=delta, strengths=strengths, side_by_side=side_by_side)

    return Form(build, pairs=False, shares_keys=False, slot_bytes=None, carried=True)


_MEMBERS = ((False, 1), (True, 1), (True, 2))  # with a correction or not, strengths
_SCALAR = {member: _scalar(*member) for member in _MEMBERS}
