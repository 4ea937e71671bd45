"""vllm-ascend on a 310P: tensor operators up to w and u, a launch each, then a state and an output kernel
(docs/schedules/vllm_ascend.md).
"""

import functools

from hajax.lowering import operators, staged_channel, staged_scalar
from hajax.lowering.assembler import Dims
from hajax.lowering.slots import FP32, Field, slot_of
from hajax.mechanisms import Mechanism
from hajax.plans import Plan, Shape
from hajax.schedules.ascend import CHUNK
from hajax.schedules.staged import Stage, System, schedule_stages
from hajax.targets import NpuTarget


def schedule_vllm_ascend(mechanism: Mechanism, shape: Shape, target: NpuTarget, version: int, parts: int = 2) -> Plan:
    """One launch a tensor operator: two for each of the 63 rows of the solve. parts: as of schedule_hanpu."""
    full = Dims(CHUNK, shape.key_dim, shape.value_dim, 1, False)
    per_channel = mechanism.decay == "per_channel"
    slot = _slot(full, parts, per_channel)
    stages = (*_system(per_channel), *_rows(), *_erased(parts, per_channel))
    system = System("vllm_ascend", stages, slot, parts, families=("whole heads",))  # as its state kernel is
    return schedule_stages(system, mechanism, shape, target, version)


def _slot(full: Dims, parts: int, per_channel: bool) -> dict[str, Field]:
    rows, keys, values, triangle = full.rows, full.keys, full.values, full.triangle
    tiles = {
        "T": (triangle, 1, FP32),
        "product": (triangle, 1, FP32),
        "scaled": (rows, keys, FP32),
        "value": (rows, values, FP32),
        "w32": (rows, keys, FP32),
        "w": (rows, keys, parts),
        "u": (rows, values, FP32 if parts == 2 else 1),
        "h": (keys, values, parts),
        "x": (rows, values, parts),
    }
    if parts == 1:
        tiles["u32"] = (rows, values, FP32)
    if per_channel:
        more = staged_channel.slot_for(full, parts, ("P", "kg", "decay"))
        tiles |= {name: (field.rows, field.columns, field.parts) for name, field in more.items()}
    else:
        tiles |= {"key": (rows, keys, FP32), "decay": (triangle, 1, FP32)}
    return slot_of(tiles)


def _system(per_channel: bool) -> tuple[Stage, ...]:
    values = Stage("values as fp32", functools.partial(operators.build_rows, source="value", target="value"))
    if per_channel:
        return (values, Stage("system and scores", staged_channel.build_system))
    return (
        Stage("keys as fp32", functools.partial(operators.build_rows, source="key", target="key")),
        values,
        Stage("decays", operators.build_decays),
        Stage("K K^T", operators.build_products),
        Stage("system", operators.build_system),
    )


def _rows() -> list[Stage]:
    found = []
    for row in range(1, CHUNK):
        found.append(Stage(f"row {row} times T", functools.partial(operators.build_row_products, row=row)))
        found.append(Stage(f"row {row}", functools.partial(operators.build_row_sum, row=row)))
    return found


def _erased(parts: int, per_channel: bool) -> list[Stage]:
    form = staged_channel if per_channel else staged_scalar
    free = "u" if parts == 2 else "u32"
    stages = [
        Stage("identity", operators.build_with_identity),
        Stage("u", functools.partial(operators.build_solved, source="value", target=free, exact=True)),
        Stage("scaled keys", staged_channel.build_scaled_keys if per_channel else operators.build_scaled_keys),
        Stage("w", functools.partial(operators.build_solved, source="scaled", target="w32", exact=False)),
        Stage("w to fp16", functools.partial(operators.build_cast, source="w32", target="w")),
    ]
    if parts == 1:
        stages.append(Stage("u to fp16", functools.partial(operators.build_cast, source="u32", target="u")))
    return [*stages, Stage("states", form.build_state, serial=True), Stage("output", form.build_output)]
