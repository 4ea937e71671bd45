"""FlashQLA: the solve over all chunks, then one fused launch for states and output (docs/schedules/flashqla.md)."""

from hajax.lowering import staged_channel, staged_scalar
from hajax.lowering.assembler import Dims
from hajax.mechanisms import Mechanism
from hajax.plans import Plan, Shape
from hajax.schedules.ascend import CHUNK
from hajax.schedules.staged import Stage, System, schedule_stages
from hajax.targets import NpuTarget

_SCALAR = (
    Stage("solve", staged_scalar.build_solve, writes=("A",)),
    Stage("states and output", staged_scalar.build_fused, reads=("A",), serial=True),
)
_PER_CHANNEL = (
    Stage("scores and solve", staged_channel.build_scores, writes=("A", "P")),
    Stage("states and output", staged_channel.build_fused, reads=("A", "P"), serial=True),
)


def schedule_flashqla(mechanism: Mechanism, shape: Shape, target: NpuTarget, version: int, parts: int = 2) -> Plan:
    """Two launches. parts: as of schedule_hanpu."""
    full = Dims(CHUNK, shape.key_dim, shape.value_dim, 1, False)
    if mechanism.decay == "per_channel":
        system = System("flashqla", _PER_CHANNEL, staged_channel.tiles_of(full, parts), parts)
    else:
        system = System("flashqla", _SCALAR, staged_scalar.tiles_of(full, parts), parts)
    return schedule_stages(system, mechanism, shape, target, version)
