"""FLA's chunk forward: a launch a stage, every intermediate through GM (docs/schedules/fla.md); and its stages in one launch."""

from hajax.lowering import staged_channel, staged_scalar
from hajax.lowering.assembler import Dims
from hajax.mechanisms import Mechanism
from hajax.plans import Plan, Shape
from hajax.schedules.ascend import CHUNK
from hajax.schedules.staged import Stage, System, schedule_stages
from hajax.targets import NpuTarget


def schedule_fla(mechanism: Mechanism, shape: Shape, target: NpuTarget, version: int, parts: int = 2) -> Plan:
    """Solve, then w and u, then states, then output: four launches. parts: as of schedule_hanpu."""
    return _schedule("fla", mechanism, shape, target, version, parts, synced=False)


def schedule_fla_megakernel(mechanism: Mechanism, shape: Shape, target: NpuTarget, version: int, parts: int = 2) -> Plan:
    """The same stages in one launch, with a barrier of all cores between them."""
    return _schedule("fla_megakernel", mechanism, shape, target, version, parts, synced=True)


def _schedule(name: str, mechanism: Mechanism, shape: Shape, target: NpuTarget, version: int, parts: int, synced: bool) -> Plan:
    full = Dims(CHUNK, shape.key_dim, shape.value_dim, 1, False)
    if mechanism.decay == "per_channel":
        system = System(name, _per_channel(full), staged_channel.tiles_of(full, parts), parts, synced)
    else:
        system = System(name, _SCALAR, staged_scalar.tiles_of(full, parts), parts, synced)
    return schedule_stages(system, mechanism, shape, target, version)


_SCALAR = (
    Stage("solve", staged_scalar.build_solve, writes=("A",)),
    Stage("erased keys and values", staged_scalar.build_erased, reads=("A",), writes=("w", "u")),
    Stage("states", staged_scalar.build_state, reads=("w", "u"), writes=("h", "x"), serial=True),
    Stage("output", staged_scalar.build_output, reads=("h", "x")),
)


def _per_channel(full: Dims) -> tuple[Stage, ...]:
    kept = staged_channel.kept_keys(full)
    return (
        Stage("scores and solve", staged_channel.build_scores, writes=("A", "P")),
        Stage("erased keys and values", staged_channel.build_erased, reads=("A",), writes=("w", "u", "decay", *kept)),
        Stage("states", staged_channel.build_state, reads=("w", "u", "decay", *kept), writes=("h", "x"), serial=True),
        Stage("output", staged_channel.build_output, reads=("P", "h", "x")),
    )
