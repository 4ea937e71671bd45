"""Whether a plan can be run as it stands. Knows the rules of the launch, nothing of the passes that chose its numbers."""

from hajax import abi
from hajax.plans.model import Fused, Packed, Plan, Shape
from hajax.plans.program import Programs
from hajax.plans.verify_programs import verify_programs
from hajax.plans.wire_programs import check_header, target_name
from hajax.targets import NpuTarget, npu

CHUNKS = (16, 32, 64, 128)
CACHE_LINE = 64
MOST_WORKERS = 4096


def verify(plan: Plan, target: NpuTarget | None = None) -> Plan:
    """The plan itself; raises ValueError naming the field, what it must be and what it is.

    target: the chip, when it is not the one that the plan names. Packed programs were verified before they were packed, and
    whoever runs them checks their bounds: only their header is looked at.
    """
    match plan.launch:
        case Fused():
            _verify_fused(plan.shape, plan.launch)
        case Programs():
            verify_programs(plan.shape, plan.launch, target or npu.load(target_name(plan)))
        case Packed(data):
            check_header(data)
    return plan


def _verify_fused(shape: Shape, launch: Fused) -> None:
    panels = -(-shape.value_dim // max(launch.panel, 1))
    shared = shape.value_heads // max(shape.key_heads, 1)
    dtypes, isas = abi.names("dtypes"), abi.names("isas")
    rules: list[tuple[str, bool, str, object]] = [
        ("shape.batch", shape.batch is None or shape.batch >= 1, ">= 1 or None", shape.batch),
        ("shape.tokens", shape.tokens is None or shape.tokens >= 1, ">= 1 or None", shape.tokens),
        ("shape.sequences", shape.sequences >= 1, ">= 1", shape.sequences),
        ("shape.input_dtype", shape.input_dtype in dtypes, f"one of {dtypes}", shape.input_dtype),
        ("shape.output_dtype", shape.output_dtype in dtypes, f"one of {dtypes}", shape.output_dtype),
        ("shape.key_heads", shape.key_heads >= 1, ">= 1", shape.key_heads),
        (
            "shape.value_heads",
            shape.value_heads >= 1 and shape.value_heads % max(shape.key_heads, 1) == 0,
            f"a multiple of key_heads={shape.key_heads}",
            shape.value_heads,
        ),
        ("shape.key_dim", shape.key_dim % 8 == 0 and 8 <= shape.key_dim <= 256, "a multiple of 8 up to 256", shape.key_dim),
        (
            "shape.value_dim",
            shape.value_dim % 8 == 0 and 8 <= shape.value_dim <= 256,
            "a multiple of 8 up to 256",
            shape.value_dim,
        ),
        ("launch.isa", launch.isa in isas, f"one of {isas}", launch.isa),
        ("launch.chunk", launch.chunk in CHUNKS, f"one of {CHUNKS}", launch.chunk),
        ("launch.panel", launch.panel in (4, 8, 16, 32, 64), "a panel width", launch.panel),
        ("launch.group", launch.group >= 1 and shared % launch.group == 0, f"a divisor of {shared}", launch.group),
        ("launch.column_blocks", 1 <= launch.column_blocks <= panels, f"from 1 to {panels}", launch.column_blocks),
        ("launch.token_steps", launch.token_steps >= 0, ">= 0", launch.token_steps),
        ("launch.workers", 1 <= launch.workers <= MOST_WORKERS, f"from 1 to {MOST_WORKERS}", launch.workers),
        (
            "launch.bf16_dot",
            not launch.bf16_dot or shape.input_dtype == "bfloat16",
            "False for inputs that are not bfloat16",
            launch.bf16_dot,
        ),
        (
            "launch.scratch_bytes",
            launch.scratch_bytes > 0 and launch.scratch_bytes % CACHE_LINE == 0,
            f"a positive multiple of {CACHE_LINE}",
            launch.scratch_bytes,
        ),
    ]
    for field, holds, expected, got in rules:
        if not holds:
            raise ValueError(f"plan.{field}: expected {expected}, got {got!r}")
