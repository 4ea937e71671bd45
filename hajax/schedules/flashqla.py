"""FlashQLA: the solve over all chunks, then one fused launch for states and output, of segments where heads are few
(docs/schedules/flashqla.md).
"""

from dataclasses import replace
from functools import partial

from hajax.lowering import segments, staged_channel, staged_scalar
from hajax.lowering.assembler import Dims
from hajax.mechanisms import Mechanism
from hajax.plans import Plan, Shape
from hajax.schedules.ascend import CHUNK, chunks_of
from hajax.schedules.segmented import launches_of, segment_chunks, segmented
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


def schedule_flashqla(
    mechanism: Mechanism, shape: Shape, target: NpuTarget, version: int, parts: int = 2, *, always_segments: bool = False
) -> Plan:
    """Two launches; four with segments, where heads are fewer than cores and they have fewer modelled cycles.

    parts: as of schedule_hanpu. always_segments: wherever a sequence is longer than one, as FlashQLA's constants, which are those
    of a chip of 132 cores, have it for up to 40 heads.
    """
    full = Dims(CHUNK, shape.key_dim, shape.value_dim, 1, False)
    per_channel = mechanism.decay == "per_channel"
    form, stages = (staged_channel, _PER_CHANNEL) if per_channel else (staged_scalar, _SCALAR)
    tiles = form.tiles_of(full, parts)
    system = System("flashqla", stages, tiles, parts)
    heads, cores = (shape.batch or 1) * shape.sequences * shape.value_heads, target.ai_cores
    length = segment_chunks(heads, chunks_of(shape), cores)
    too_wide = shape.key_dim > shape.value_dim  # for items: M's columns are the keys'
    if length >= chunks_of(shape) or too_wide or (heads >= cores and not always_segments):
        return schedule_stages(system, mechanism, shape, target, version)
    cut = segmented(stages[0], form.build_summary, form.build_fused, length)
    other = System("flashqla", cut.stages, tiles | segments.tiles_of(full), parts)
    launches = partial(launches_of, stages=cut, length=length)
    if always_segments:
        system = replace(system, families=())
    return schedule_stages(system, mechanism, shape, target, version, ((other, launches),))
