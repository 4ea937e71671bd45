"""Whether a plan can be run as it stands. Knows the rules of the launch, nothing of the passes that chose its numbers."""

from hajax import abi
from hajax.plans.model import Fused, Packed, Plan, Shape, check_plan
from hajax.plans.program import Programs
from hajax.plans.verify_programs import verify_chip_shape, verify_programs
from hajax.plans.verify_shape import MOST_SIZE, verify_shape
from hajax.plans.wire_programs import check_header, target_name
from hajax.targets import ON_TILES, NpuTarget, npu

CHUNKS = (16, 32, 64, 128)
CACHE_LINE = 64
MOST_WORKERS = 4096
MOST_SCRATCH = 2**63  # hj_cpu_plan.scratch_bytes is an int64_t


def verify(plan: Plan, target: NpuTarget | None = None) -> Plan:
    """The plan itself; raises ValueError naming the field, what it must be and what it is.

    target: the chip, when it is not the one that the plan names. Packed programs were verified before they were packed, and
    whoever runs them checks their bounds: only their header is looked at.
    """
    check_plan(plan)
    verify_shape(plan.shape)
    match plan.launch:
        case Fused():
            _verify_fused(plan, plan.launch)
        case Programs():
            verify_programs(plan.shape, plan.launch, target or npu.load(target_name(plan)))
        case Packed(data):
            verify_chip_shape(plan.shape)
            check_header(data)
        case _:
            raise TypeError(f"plan.launch: expected Fused, Programs or Packed, got {type(plan.launch).__name__}")
    return plan


def groups_of(shape: Shape) -> tuple[int, ...]:
    """Value heads that a task may carry: some of one key head's, or all of some key heads'."""
    shared = shape.value_heads // shape.key_heads
    some = [group for group in range(1, shared + 1) if shared % group == 0]
    return (*some, *(shared * heads for heads in range(2, shape.key_heads + 1) if shape.key_heads % heads == 0))


def _verify_fused(plan: Plan, launch: Fused) -> None:
    shape = plan.shape
    panels = -(-shape.value_dim // max(launch.panel, 1))
    isas = abi.names("isas")
    rules: list[tuple[str, bool, str, object]] = [
        *(
            (f"shape.{name}", size % 8 == 0 and 8 <= size <= 256, "a multiple of 8 up to 256", size)
            for name, size in (("key_dim", shape.key_dim), ("value_dim", shape.value_dim))
        ),
        ("launch.isa", launch.isa in isas, f"one of {isas}", launch.isa),
        ("launch.chunk", launch.chunk in CHUNKS, f"one of {CHUNKS}", launch.chunk),
        ("launch.panel", launch.panel in (4, 8, 16, 32, 64), "a panel width", launch.panel),
        ("launch.group", launch.group in groups_of(shape), f"one of {groups_of(shape)}", launch.group),
        ("launch.column_blocks", 1 <= launch.column_blocks <= panels, f"from 1 to {panels}", launch.column_blocks),
        ("launch.token_steps", 0 <= launch.token_steps <= MOST_SIZE, f"from 0 to {MOST_SIZE}", launch.token_steps),
        ("launch.workers", 1 <= launch.workers <= MOST_WORKERS, f"from 1 to {MOST_WORKERS}", launch.workers),
        (
            "launch.bf16_dot",
            not launch.bf16_dot or launch.isa in ON_TILES or shape.input_dtype == "bfloat16",
            "False for inputs that are not bfloat16",
            launch.bf16_dot,
        ),
        (
            "launch.bf16_dot",
            not launch.bf16_dot or plan.mechanism.decay != "per_channel",
            "False with a decay per channel",
            launch.bf16_dot,
        ),
        (
            "launch.scratch_bytes",
            0 < launch.scratch_bytes < MOST_SCRATCH and launch.scratch_bytes % CACHE_LINE == 0,
            f"a positive multiple of {CACHE_LINE} below {MOST_SCRATCH}",
            launch.scratch_bytes,
        ),
    ]
    for field, holds, expected, got in rules:
        if not holds:
            raise ValueError(f"plan.{field}: expected {expected}, got {got!r}")
