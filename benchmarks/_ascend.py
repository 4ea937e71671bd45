"""Plans for emulated Ascend chips, what they need to run, and the bytes that a call cannot do without.

Plans are those of the code at hand: the cache on disk is off.
"""

import dataclasses
import functools
import os
from collections.abc import Mapping

import numpy as np

from hajax import planner, plans
from hajax.backends import npu as emulated
from hajax.mechanisms import MECHANISMS
from hajax.targets import NpuTarget, npu

os.environ["HAJAX_CACHE"] = "0"

FAST = emulated.SimOptions(check_races=False, check_written=False, timeline=False)
COUNTS = dataclasses.replace(FAST, counts_only=True)
NAMES = {"gdn": "gated_delta_rule", "kda": "kda"}
READS = ("gm_to_l1", "gm_to_ub", "gm_to_l0a", "gm_to_l0b", "gm_to_s")
WRITES = ("ub_to_gm", "s_to_gm")
MODELLED = "counted and modelled on an emulated chip; nothing here was measured on a device"


@dataclasses.dataclass(frozen=True, slots=True)
class Heads:
    """A problem without its contents: one row a sequence when there is one sequence a row."""

    mechanism: str  # gdn or kda
    tokens: int
    key_heads: int
    value_heads: int
    key_dim: int = 128
    value_dim: int = 128
    batch: int = 1
    sequences: int = 1


@functools.lru_cache(maxsize=512)
def plan_of(heads: Heads, target: NpuTarget, schedule: str = "hajax") -> plans.Plan:
    """The planner's plan. Raises ValueError when a schedule has none for such a problem."""
    shape = plans.Shape(
        heads.batch, heads.tokens, heads.sequences, heads.key_heads, heads.value_heads, heads.key_dim, heads.value_dim,
        "float16", "float16",
    )  # fmt: skip
    return planner.plan(MECHANISMS[NAMES[heads.mechanism]], shape, target, schedule)


def programs_of(plan: plans.Plan) -> plans.Programs:
    """The programs, launches and items of a plan, unpacked."""
    launch = plans.opened(plan).launch
    assert isinstance(launch, plans.Programs)
    return launch


def lacking(mechanism: str, target: NpuTarget, schedule: str = "hajax") -> str | None:
    """Why a schedule has no plan for a mechanism, or None when it has."""
    try:
        plan_of(Heads(mechanism, 64, 1, 1), target, schedule)
    except ValueError as error:
        return str(error)
    return None


def blank(heads: Heads) -> dict[str, np.ndarray]:
    """Arrays of zeros, for a run that only counts."""
    rows = (heads.batch, heads.tokens)
    gates = (*rows, heads.value_heads)
    ends = np.linspace(0, heads.tokens, heads.sequences + 1).astype(np.int32)
    return {
        "query": np.zeros((*rows, heads.key_heads, heads.key_dim), np.float16),
        "key": np.zeros((*rows, heads.key_heads, heads.key_dim), np.float16),
        "value": np.zeros((*gates, heads.value_dim), np.float16),
        "log_decay": np.zeros((*gates, heads.key_dim) if heads.mechanism == "kda" else gates, np.float32),
        "beta": np.zeros(gates, np.float32),
        "state_in": np.zeros(
            (heads.batch, heads.sequences, heads.value_heads, heads.key_dim, heads.value_dim), np.float32
        ),
        "bounds": np.tile(ends, (heads.batch, 1)),
    }  # fmt: skip


def count(
    heads: Heads,
    target: NpuTarget,
    schedule: str = "hajax",
    options: emulated.SimOptions = COUNTS,
    chip: NpuTarget | None = None,
) -> tuple[emulated.SimRun, ...]:
    """Runs a problem without its arithmetic. `chip`: run the target's plan on another one, for a what-if."""
    code = plans.to_bytes(plan_of(heads, target, schedule))
    return emulated.execute(code, blank(heads), scale=1.0, target=chip or target, options=options)[2]


def gm_bytes(counts: Mapping[str, int]) -> int:
    """To and from global memory, by any pipe."""
    return sum(counts[path] for path in (*READS, *WRITES))


def least_bytes(heads: Heads) -> int:
    """Per head and token q, k, v, gates in and o out, once; per head the state in and out. No head shares another's keys."""
    gates = 4 * (heads.key_dim + 1 if heads.mechanism == "kda" else 2)
    token = 2 * (2 * heads.key_dim + 2 * heads.value_dim) + gates
    state = 2 * 4 * heads.key_dim * heads.value_dim
    return heads.batch * heads.value_heads * (heads.tokens * token + heads.sequences * state)


def replaced(target: NpuTarget, **facts: float | int) -> NpuTarget:
    """The chip with other facts under its own name."""
    return dataclasses.replace(target, **facts)  # type: ignore[arg-type]


def chip(name: str) -> NpuTarget:
    """A chip of hajax/targets."""
    return npu.load(name)
