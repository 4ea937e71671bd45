"""vllm-ascend on a 310P: tensor operators up to w and u, a launch each, then a state and an output kernel
(docs/schedules/vllm_ascend.md).
"""

from functools import partial

from hajax.lowering import operators, staged_channel, staged_scalar
from hajax.lowering.assembler import Dims
from hajax.lowering.slots import FP32
from hajax.mechanisms import Mechanism
from hajax.plans import Plan, Shape
from hajax.schedules.ascend import CHUNK
from hajax.schedules.staged import Stage, System, schedule_stages
from hajax.targets import NpuTarget


def schedule_vllm_ascend(mechanism: Mechanism, shape: Shape, target: NpuTarget, version: int, parts: int = 2) -> Plan:
    """One launch a tensor operator: two for each of the 63 rows of the solve. parts: as of schedule_hanpu."""
    full = Dims(CHUNK, shape.key_dim, shape.value_dim, 1, False)
    per_channel = mechanism.decay == "per_channel"
    stages = (*_system(per_channel), *_rows(), *_erased(full, parts, per_channel), *_states(full, per_channel))
    tiles = _tiles(full, parts, per_channel)
    system = System("vllm_ascend", stages, tiles, parts, families=("whole heads",))  # as its state kernel is
    return schedule_stages(system, mechanism, shape, target, version)


def _tiles(full: Dims, parts: int, per_channel: bool) -> dict[str, tuple[int, int, int]]:
    rows, keys, values, triangle = full.rows, full.keys, full.values, full.triangle
    return {
        "decay": (triangle, 1, FP32),
        **(staged_channel if per_channel else staged_scalar).tiles_of(full, parts),
        "T": (triangle, 1, FP32),
        "product": (triangle, 1, FP32),
        "key": (rows, keys, FP32),
        "value": (rows, values, FP32),
        "scaled": (rows, keys, FP32),
        "w32": (rows, keys, FP32),
        "u32": (rows, values, FP32),
    }


def _system(per_channel: bool) -> tuple[Stage, ...]:
    values = Stage("values as fp32", partial(operators.build_rows, source="value", target="value"), writes=("value",))
    if per_channel:
        return (values, Stage("system and scores", staged_channel.build_system, writes=("T", "P")))
    return (
        Stage("keys as fp32", partial(operators.build_rows, source="key", target="key"), writes=("key",)),
        values,
        Stage("decays", operators.build_decays, writes=("decay",)),
        Stage("K K^T", operators.build_products, reads=("key",), writes=("T",)),
        Stage("system", operators.build_system, reads=("T", "decay"), writes=("T",)),
    )


def _rows() -> list[Stage]:
    found = []
    for row in range(1, CHUNK):
        products = partial(operators.build_row_products, row=row)
        found.append(Stage(f"row {row} times T", products, reads=("T",), writes=("product",)))
        found.append(Stage(f"row {row}", partial(operators.build_row_sum, row=row), reads=("T", "product"), writes=("T",)))
    return found


def _erased(full: Dims, parts: int, per_channel: bool) -> list[Stage]:
    free = "u" if parts == 2 else "u32"
    solved_values = partial(operators.build_solved, source="value", target=free, exact=True)
    solved_keys = partial(operators.build_solved, source="scaled", target="w32", exact=False)
    if per_channel:
        written = ("scaled", "decay", *staged_channel.kept_keys(full))
        scaled = Stage("scaled keys", staged_channel.build_scaled_keys, writes=written)
    else:
        scaled = Stage("scaled keys", operators.build_scaled_keys, reads=("key",), writes=("scaled",))
    stages = [
        Stage("identity", operators.build_with_identity, reads=("T",), writes=("T",)),
        Stage("u", solved_values, reads=("T", "value"), writes=(free,)),
        scaled,
        Stage("w", solved_keys, reads=("T", "scaled"), writes=("w32",)),
        Stage("w to fp16", partial(operators.build_cast, source="w32", target="w"), reads=("w32",), writes=("w",)),
    ]
    if parts != 2:
        cast = partial(operators.build_cast, source="u32", target="u")
        stages.append(Stage("u to fp16", cast, reads=("u32",), writes=("u",)))
    return stages


def _states(full: Dims, per_channel: bool) -> tuple[Stage, ...]:
    form = staged_channel if per_channel else staged_scalar
    kept = ("decay", *staged_channel.kept_keys(full)) if per_channel else ()
    scores = ("P",) if per_channel else ()
    return (
        Stage("states", form.build_state, reads=("w", "u", *kept), writes=("h", "x"), serial=True),
        Stage("output", form.build_output, reads=("h", "x", *scores)),
    )
