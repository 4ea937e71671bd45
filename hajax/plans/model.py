"""What a plan says, as frozen data without behaviour. Passes make it; wire, text, verify and report read it."""

from dataclasses import dataclass

from hajax.mechanisms import Mechanism
from hajax.plans.program import Programs


@dataclass(frozen=True, slots=True)
class Shape:
    """The problem: B rows of T tokens holding N sequences each. batch and tokens are None when not known at compile time."""

    batch: int | None
    tokens: int | None
    sequences: int
    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    input_dtype: str
    output_dtype: str


@dataclass(frozen=True, slots=True)
class Fused:
    """A launch of the fused CPU kernel; the fields are those of hj_cpu_plan in abi/plan.h."""

    isa: str
    chunk: int
    panel: int
    group: int
    column_blocks: int
    token_steps: int
    workers: int
    bf16_dot: bool
    scratch_bytes: int


@dataclass(frozen=True, slots=True)
class Packed:
    """Programs as the bytes that the kernel reads: what the planner hands out and the cache keeps.

    A hit must take less than a millisecond, and making hundreds of steps again takes ten. `opened` gives the Programs, without
    labels; whole ones have a JSON form too, for people.
    """

    data: bytes


@dataclass(frozen=True, slots=True)
class Note:
    """What one pass chose, what that beat, and what it saved, in words and numbers for people."""

    by: str
    choice: str
    beaten: str
    saved: str


@dataclass(frozen=True, slots=True)
class Plan:
    """A pure function of mechanism, shape, target, schedule and planner version."""

    version: int
    mechanism: Mechanism
    shape: Shape
    target: str
    schedule: str
    launch: Fused | Programs | Packed
    notes: tuple[Note, ...]


def check_plan(value: object) -> None:
    """Raises TypeError for what is no plan."""
    if not isinstance(value, Plan):
        raise TypeError(f"plan: expected a Plan, got {type(value).__name__}")
