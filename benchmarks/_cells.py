"""Cells of ascend_core.py: one system on one problem, chip and kind of operands, counted, modelled and held against fp64."""

import dataclasses
import functools
import hashlib
import itertools
from collections.abc import Mapping
from typing import Any
from unittest import mock

import _ascend
import _instances
import _macs
import _recurrence
import numpy as np

from hajax import conformance, planner, plans, schedules
from hajax.backends import npu as emulated
from hajax.mechanisms import MECHANISMS
from hajax.plans.program import Item, Launch
from hajax.targets import NpuTarget, npu

CHUNK = 64
TILE = 16**3  # MACs of a cycle and core
SYSTEMS = schedules.COMPARED
# For the published comparison alone: FlashQLA as its constants for a larger chip have it, with segments of heads that fill cores.
BESIDE = "flashqla_segments"
MAKERS = {**schedules.ASCEND, BESIDE: functools.partial(schedules.schedule_flashqla, always_segments=True)}
CHECKED = 512  # tokens that run with arithmetic
FAST = dataclasses.replace(_ascend.FAST, threads=1)
COUNTING = dataclasses.replace(FAST, counts_only=True)
MEMORIES = ("ub", "l1", "l0a", "l0b", "l0c")
SINGLE = "single"
PARTS = {"split": 2, SINGLE: 1}  # of fp16, of an operand that is not exact in it
# Affine in the chunks; peaks and launches are not in them.
ADDED = (
    "gm_bytes", "l1_to_l0_bytes", "executed_macs", "transform_bytes", "modelled_cycles", "modelled_ms", "modelled_mj",
)  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """A problem on a chip: what the systems of a table have in common."""

    mechanism: str  # gdn or kda
    target: str
    key_heads: int
    value_heads: int

    def heads(self, tokens: int) -> _ascend.Heads:
        return _ascend.Heads(self.mechanism, tokens, self.key_heads, self.value_heads)

    def __str__(self) -> str:
        return f"{self.mechanism} {self.target} {self.key_heads}x{self.value_heads}"


@functools.cache
def target_of(name: str) -> NpuTarget:
    """The chip, or what the kernel would do on one of its sizes and rates."""
    return npu.as_kernel_chip(name)


@functools.lru_cache(maxsize=128)
def plan_of(place: Place, tokens: int, system: str, operands: str) -> plans.Plan:
    """With the names of its steps. Raises ValueError when there is none."""
    more = {} if PARTS[operands] == 2 else {"parts": PARTS[operands]}
    shape = _ascend.shape_of(place.heads(tokens))
    return MAKERS[system](MECHANISMS[_ascend.NAMES[place.mechanism]], shape, target_of(place.target), planner.VERSION, **more)


def lacking(system: str, operands: str) -> str | None:
    """Why a system has no such plans."""
    return "its operands are always split" if (system, operands) == ("hajax", SINGLE) else None


def auto(place: Place, tokens: int) -> str:
    """What the planner chooses from all systems, each planned once for this and for the rows."""

    def memoised(name: str) -> Any:
        return lambda mechanism, shape, target, version: plan_of(place, tokens, name, "split")

    mechanism = MECHANISMS[_ascend.NAMES[place.mechanism]]
    with mock.patch.dict(schedules.ASCEND, {name: memoised(name) for name in SYSTEMS}):
        return planner.plan(mechanism, _ascend.shape_of(place.heads(tokens)), target_of(place.target), planner.AUTO).schedule


@functools.lru_cache(maxsize=64)
def count(place: Place, tokens: int, system: str, operands: str, chip: NpuTarget | None = None) -> Mapping[str, Any]:
    """What a whole run does. `chip`: of this chip, with the plan of the place's own."""
    target = target_of(place.target)
    code = plans.to_bytes(plan_of(place, tokens, system, operands))
    blank = _blank(place, tokens)
    return summary(emulated.execute(code, blank, scale=1.0, target=chip or target, options=COUNTING)[2], target)


@functools.lru_cache(maxsize=2)
def _blank(place: Place, tokens: int) -> Mapping[str, np.ndarray]:
    return _ascend.blank(place.heads(tokens))


def summary(runs: tuple[emulated.SimRun, ...], target: NpuTarget) -> dict[str, Any]:
    """The figures of a run's launches: sums, and peaks of the launch that has the highest one."""
    cycles = sum(run.timing["cycles"] for run in runs)
    peaks = max(({name: run.counts[f"peak_{name}"] for name in MEMORIES} for run in runs), key=lambda one: sum(one.values()))
    energy = sum(run.timing[f"{kind}_microjoules"] for run in runs for kind in ("dynamic", "static"))
    return {
        "gm_bytes": sum(_ascend.gm_bytes(run.counts) for run in runs),
        "l1_to_l0_bytes": sum(run.counts[f"l1_to_l0{side}"] for run in runs for side in "ab"),
        "executed_macs": sum(run.counts["macs"] for run in runs),
        "transform_bytes": sum(run.counts["transform_bytes"] for run in runs),
        "launches": len(runs),
        "peak_kernel_bytes": sum(peaks.values()),
        "peaks": peaks,
        "modelled_cycles": cycles,
        "modelled_ms": cycles / (1e3 * target.clock_mhz),
        "modelled_mj": energy / 1e3,
    }


def stages(place: Place, tokens: int, system: str, operands: str) -> list[dict[str, Any]]:
    """Of each launch, by its number."""
    target = target_of(place.target)
    code = plans.to_bytes(plan_of(place, tokens, system, operands))
    runs = emulated.execute(code, _blank(place, tokens), scale=1.0, target=target, options=COUNTING)[2]
    wanted = ("gm_bytes", "l1_to_l0_bytes", "executed_macs", "modelled_cycles")
    return [{"launch": number, **{name: summary((run,), target)[name] for name in wanted}} for number, run in enumerate(runs)]


def extend(shorter: Mapping[str, Any], longer: Mapping[str, Any], lengths: tuple[int, int], tokens: int) -> dict[str, Any]:
    """Sums on the line through two lengths; all else as of the longer one."""
    steps = (tokens - lengths[1]) / (lengths[1] - lengths[0])
    found = dict(longer)
    for name in ADDED:
        value = longer[name] + (longer[name] - shorter[name]) * steps
        found[name] = round(value) if isinstance(longer[name], int) else value
    return found


def alike(place: Place, lengths: tuple[int, ...], system: str, operands: str) -> bool:
    """Whether plans for these lengths have the same programs, launches and items, but for which chunks an item has."""
    made = [_launch(plan_of(place, tokens, system, operands)) for tokens in lengths]
    first = made[0]
    for other in made[1:]:
        if other.programs != first.programs or len(other.launches) != len(first.launches):
            return False
        for one, two in zip(first.launches, other.launches, strict=True):
            if one.synced != two.synced or _whole(one) != _whole(two):
                return False
    return True


def _whole(launch: Launch) -> list[list[Item]]:
    """Items of each core that have all chunks."""
    return [[item for item in core if item.chunks < 0 and item.first_chunk == 0] for core in launch.cores]


def _launch(plan: plans.Plan) -> plans.Programs:
    assert isinstance(plan.launch, plans.Programs)
    return plan.launch


def counted(place: Place, tokens: int, system: str, operands: str, longest: int) -> tuple[Mapping[str, Any], list[int] | None]:
    """What a run does, and the lengths that it is extended from: beyond `longest`, from there and a half or a quarter less."""
    for shorter in (longest // 2, longest * 3 // 4):
        lengths = (shorter, longest)
        if tokens > longest and alike(place, (*lengths, tokens), system, operands):
            one, two = (count(place, length, system, operands) for length in lengths)
            return extend(one, two, lengths, tokens), list(lengths)
    return count(place, tokens, system, operands), None


def macs(place: Place, tokens: int, system: str, operands: str) -> _macs.Macs:
    """By what they are for, from the plan."""
    return _macs.macs_of(_launch(plan_of(place, tokens, system, operands)), -(-tokens // CHUNK))


def workspace_bytes(place: Place, tokens: int, system: str, operands: str) -> int:
    """In GM, of what launches hand on: a slot for each head's chunk."""
    slot = _launch(plan_of(place, tokens, system, operands)).workspace_slot_bytes
    return slot * place.value_heads * -(-tokens // CHUNK)


def tensor_bytes(place: Place, tokens: int) -> int:
    """In GM, of inputs, output and states."""
    return sum(array.nbytes for array in _blank(place, tokens).values()) + sum(
        _blank(place, tokens)[name].nbytes for name in ("value", "state_in")
    )


@functools.lru_cache(maxsize=2)
def reference(mechanism: str, key_heads: int, value_heads: int, tokens: int) -> tuple[Mapping[str, Any], np.ndarray, np.ndarray]:
    """Inputs with output and states in fp64: keys and queries of norm one, gates as models initialise them, a state."""
    instance = _instances.Instance(
        5, mechanism, 1, 1, key_heads, value_heads, 128, 128, tokens, "usual", "silu", "sigmoid", True
    )  # fmt: skip
    arrays = _instances.arrays_of(instance)
    return arrays, *_recurrence.chunkwise(arrays)


@dataclasses.dataclass(frozen=True, slots=True)
class Checked:
    """An output with its errors against fp64."""

    output: np.ndarray
    output_nmse: float
    state_nmse: float
    saturated: int


class Checker:
    """Runs plans with arithmetic; those that do the same to the tokens that are run share one run."""

    def __init__(self, place: Place):
        self._place = place
        self._found: dict[tuple[str, int], Checked] = {}

    def check(self, tokens: int, system: str, operands: str) -> Checked:
        """The first CHECKED tokens of the cell's own plan."""
        some = min(tokens, CHECKED)
        place = self._place
        plan = plan_of(place, tokens, system, operands)
        key = (_digest(plan, -(-some // CHUNK)), some)
        if key not in self._found:
            arrays, output, states = reference(place.mechanism, place.key_heads, place.value_heads, some)
            scale = arrays["key"].shape[-1] ** -0.5
            got, final, runs = emulated.execute(
                plans.to_bytes(plan), arrays, scale=scale, target=target_of(place.target), options=FAST
            )
            clamped = sum(run.counts["saturated"] for run in runs)
            self._found[key] = Checked(got, conformance.nmse(got, output), conformance.nmse(final, states), clamped)
        return self._found[key]


def _digest(plan: plans.Plan, chunks: int) -> str:
    """Of all that a plan does to so many chunks."""
    launch = _launch(plan)
    clipped = tuple(
        dataclasses.replace(one, cores=tuple(tuple(_clipped(core, chunks)) for core in one.cores)) for one in launch.launches
    )
    same = dataclasses.replace(plan, launch=dataclasses.replace(launch, launches=clipped))
    return hashlib.sha256(plans.to_bytes(same)).hexdigest()


def _clipped(core: tuple[Item, ...], chunks: int) -> list[Item]:
    found = []
    for item in core:
        own = chunks - item.first_chunk if item.chunks < 0 else min(item.chunks, chunks - item.first_chunk)
        if own > 0:
            found.append(dataclasses.replace(item, chunks=own))
    return found


def most_apart(outputs: list[np.ndarray]) -> float:
    """The largest NMSE of one output against another."""
    return max((conformance.nmse(one, two.astype(np.float64)) for one, two in itertools.combinations(outputs, 2)), default=0.0)
