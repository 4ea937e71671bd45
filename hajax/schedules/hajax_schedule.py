"""hajax's own schedule: whole heads on cores, one launch, the cube dataflow, stages of different chunks side by side."""

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
    """How a member is lowered. target None: for a chip with room in L0C for tiles side by side.

    Never by dims: what the mapping knows of wide heads it takes from narrow ones, in the same form.
    """
    if mechanism.decay != "per_channel":
        return _SCALAR[mechanism.delta, mechanism.strengths]
    side_by_side = target is None or target.l0c_bytes >= cube_per_channel.SIDE_BY_SIDE_BYTES
    return _PER_CHANNEL[mechanism.delta, mechanism.strengths, side_by_side]


def _scalar(delta: bool, strengths: int) -> Form:
    def build(dims: Dims, constants: Constants, kind: Kind) -> Program:
        return cube_scalar.build(dims, constants, delta=delta, strengths=strengths, kind=kind)

    def slot_bytes(dims: Dims) -> int:
        return cube_scalar.slot_bytes(dims, delta, strengths)

    return Form(build, pairs=True, shares_keys=True, slot_bytes=slot_bytes, carried=True)


def _per_channel(delta: bool, strengths: int, side_by_side: bool) -> Form:
    def build(dims: Dims, constants: Constants, kind: Kind) -> Program:
        assert kind == "whole"
        return cube_per_channel.build(dims, constants, delta=delta, strengths=strengths, side_by_side=side_by_side)

    return Form(build, pairs=False, shares_keys=False, slot_bytes=None, carried=True)


_MEMBERS = ((False, 1), (True, 1), (True, 2))  # with a correction or not, strengths
_PER_CHANNEL = {
    (*member, side_by_side): _per_channel(*member, side_by_side) for member in _MEMBERS for side_by_side in (True, False)
}
_SCALAR = {member: _scalar(*member) for member in _MEMBERS}
