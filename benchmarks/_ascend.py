"""Plans for emulated Ascend chips, what they need to run, and the bytes that a call cannot do without.

Plans are those of the code at hand: the cache on disk is off.
"""

import argparse
import dataclasses
import functools
import os
from collections.abc import Mapping

import numpy as np

from hajax import planner, plans, schedules
from hajax.backends import npu as emulated
from hajax.mechanisms import MECHANISMS
from hajax.targets import NpuTarget, npu

os.environ["HAJAX_CACHE"] = "0"

FAST = emulated.SimOptions(check_races=False, check_written=False, timeline=False)
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
    return planner.plan(MECHANISMS[NAMES[heads.mechanism]], shape_of(heads), target, schedule)


def labelled_plan_of(heads: Heads, target: NpuTarget, schedule: str = "hajax") -> plans.Plan:
    """The same before it is packed: its buffers and steps have names."""
    if schedule not in schedules.ASCEND:
        raise ValueError(f"there is no schedule {schedule}")
    return schedules.ASCEND[schedule](MECHANISMS[NAMES[heads.mechanism]], shape_of(heads), target, planner.VERSION)


def shape_of(heads: Heads) -> plans.Shape:
    """The planner's words for it."""
    return plans.Shape(
        heads.batch, heads.tokens, heads.sequences, heads.key_heads, heads.value_heads, heads.key_dim, heads.value_dim,
        "float16", "float16",
    )  # fmt: skip


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
    """Arrays of zeros: what a run counts does not depend on them."""
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
    options: emulated.SimOptions = FAST,
    chip: NpuTarget | None = None,
    specialised: bool = False,
) -> tuple[emulated.SimRun, ...]:
    """Runs a problem of zeros to see what it does. `chip`: run the target's plan on another one, for a what-if."""
    code = plans.to_bytes(plan_of(heads, target, schedule))
    more = {"specialised": True} if specialised else {}
    return emulated.execute(code, blank(heads), scale=1.0, target=chip or target, options=options, **more)[2]


def gm_bytes(counts: Mapping[str, int]) -> int:
    """To and from global memory, by any pipe."""
    return sum(counts[path] for path in (*READS, *WRITES))


def least_bytes(heads: Heads) -> int:
    """Per value head and token q, k, v, gates in and o out, once; per head the state in and out. No two heads share keys."""
    token = 2 * (2 * heads.key_dim + 2 * heads.value_dim) + _gate_bytes(heads)
    state = 2 * 4 * heads.key_dim * heads.value_dim
    return heads.batch * heads.value_heads * (heads.tokens * token + heads.sequences * state)


def item_bytes(heads: Heads, target: NpuTarget, schedule: str = "hajax") -> int:
    """The same of each item of the plan: keys once for heads side by side that share them, again for each piece of columns.

    For plans of one launch, with one sequence a row.
    """
    made = _programs(heads, target, schedule)
    grouped = heads.value_heads // heads.key_heads
    total = 0
    for item in (item for launch in made.launches for core in launch.cores for item in core):
        program = made.programs[item.program]
        key_heads = len({(item.head + i) // grouped for i in range(program.heads)})
        token = 4 * heads.key_dim * key_heads + program.heads * (4 * program.columns + _gate_bytes(heads))
        total += heads.tokens * token + program.heads * 2 * 4 * heads.key_dim * program.columns
    return total


def _gate_bytes(heads: Heads) -> int:
    """fp32 log decay and beta of a head's token."""
    return 4 * (heads.key_dim + 1 if heads.mechanism == "kda" else 2)


def _programs(heads: Heads, target: NpuTarget, schedule: str) -> plans.Programs:
    return programs_of(plan_of(heads, target, schedule))


def replaced(target: NpuTarget, **facts: float | int) -> NpuTarget:
    """The chip with other facts under its own name."""
    return dataclasses.replace(target, **facts)  # type: ignore[arg-type]


def chip(name: str) -> NpuTarget:
    """A chip of hajax/targets."""
    return npu.load(name)


def positive(parser: argparse.ArgumentParser, name: str, text: str) -> int:
    """A positive integer, or the parser's error."""
    if not text.strip().isdecimal() or int(text) < 1:
        parser.error(f"--{name}: expected positive integers, got {text!r}")
    return int(text)


def head_counts(parser: argparse.ArgumentParser, name: str, text: str) -> tuple[int, int]:
    """Key and value heads of "16x32", or the parser's error."""
    key_heads, _, value_heads = text.partition("x")
    counts = positive(parser, name, key_heads), positive(parser, name, value_heads)
    if counts[1] % counts[0]:
        parser.error(f"--{name}: expected value heads that are a multiple of the key heads, got {text!r}")
    return counts
