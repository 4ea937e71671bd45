"""Look up, else schedule, verify, store. Planning is deterministic: equal inputs give equal bytes on any machine, except where
`hajax tune` measured a better CPU plan on this one."""

import functools
import json
from dataclasses import asdict, replace

from hajax import abi, cache, schedules, tuned
from hajax.mechanisms import Mechanism
from hajax.passes.plan_cycles import plan_cycles
from hajax.plans import Fused, Note, Packed, Plan, Shape, from_json, packed, to_json, verify
from hajax.plans.verify_shape import verify_shape
from hajax.schedules.ascend import checked_sequences
from hajax.targets import CpuTarget, NpuTarget

VERSION = 9
AUTO = "auto"  # the schedule of schedules.COMPARED that takes the least modelled time; of a CPU its only one
Target = CpuTarget | NpuTarget


def default_schedule(target: Target) -> str:
    """The schedule that a target gets when nobody names one."""
    return "hajax" if isinstance(target, NpuTarget) else "cpu_fused"


def cache_key(mechanism: Mechanism, shape: Shape, target: Target, schedule: str) -> str:
    """Everything a plan depends on, as one line of JSON."""
    return _key(mechanism, shape, _fingerprint(target), schedule)


def _key(mechanism: Mechanism, shape: Shape, fingerprint: str, schedule: str) -> str:
    key = {
        "mechanism": asdict(mechanism),
        "shape": asdict(shape),
        "target": fingerprint,
        "schedule": [AUTO, *schedules.COMPARED] if schedule == AUTO else schedule,
        "planner": VERSION,
        "abi": abi.digest(),
    }
    return json.dumps(key, sort_keys=True, separators=(",", ":"))


@functools.lru_cache(maxsize=4096)
def plan(mechanism: Mechanism, shape: Shape, target: Target, schedule: str | None = None) -> Plan:
    """The plan for a problem on a target: from memory, from disk, or made now and stored. An Ascend plan's programs are packed.
    What `hajax tune` measured for a CPU goes before all of it.

    schedule: "auto" is the one of the least modelled time, whose plan says what that beat; its `schedule` is its own name.
    Raises ValueError for a schedule that is unknown or another target's, and for a problem that no plan can serve.
    """
    known = schedules.ASCEND if isinstance(target, NpuTarget) else schedules.CPU
    if schedule is None or (schedule == AUTO and isinstance(target, CpuTarget)):
        schedule = default_schedule(target)
    if schedule not in (*known, AUTO):
        raise ValueError(f"schedule: expected one of {sorted((*known, AUTO))}, got {schedule!r}")
    if isinstance(target, CpuTarget) and (measured := _measured(mechanism, shape, target)) is not None:
        return measured
    fingerprint = _fingerprint(target)
    key = _key(mechanism, shape, fingerprint, schedule)
    wanted = (mechanism, shape, fingerprint, VERSION)
    if (text := cache.read(key)) is not None:
        try:
            stored = from_json(text)
            made_for = (stored.mechanism, stored.shape, stored.target, stored.version)
            if made_for == wanted and _is_by(stored, schedule) and _fits(stored, target):
                return stored
            raise ValueError("it is another problem's plan")
        except ValueError as error:
            cache.warn_stale(key, str(error))
    made = _make(mechanism, shape, target, schedule)
    cache.write(key, to_json(made))
    return made


def _measured(mechanism: Mechanism, shape: Shape, target: CpuTarget) -> Plan | None:
    """The plan of the choice that was measured for this length bucket, if there is one."""
    found = tuned.read(mechanism, shape, target, VERSION)
    if found is None:
        return None
    faster = found.planned_seconds / found.seconds
    note = Note(
        "tuned (measured)",
        f"{describe_choice(found.choice)}: {1e6 * found.seconds:.0f} us at T={found.tokens}",
        f"the cost model's choice: {1e6 * found.planned_seconds:.0f} us",
        f"{faster:.2f}x as fast on this machine",
    )
    try:
        return choice_plan(mechanism, shape, target, found.choice, note)
    except ValueError as error:
        cache.warn_stale(tuned.key_of(mechanism, shape, target, VERSION), str(error), cache.TUNED)
        return None


def describe_choice(choice: tuned.Choice) -> str:
    """In one line, for notes and tables."""
    how = f"chunk {choice.chunk}, {choice.group} value heads a task, {choice.column_blocks} column blocks"
    steps = f", up to {choice.token_steps} tokens one by one" if choice.token_steps else ""
    return f"{choice.isa}, {how}, {choice.workers} threads{steps}{', bf16 dot' if choice.bf16_dot else ''}"


def choice_plan(mechanism: Mechanism, shape: Shape, target: CpuTarget, choice: tuned.Choice, note: Note) -> Plan:
    """A CPU plan with its choices given. Raises ValueError when they fit neither the problem nor the target's threads."""
    verify_shape(shape)
    if choice.workers > target.threads:
        raise ValueError(f"workers: expected at most {target.threads} threads, got {choice.workers}")
    return verify(schedules.schedule_cpu_choice(mechanism, shape, target, VERSION, choice, note))


@functools.lru_cache(maxsize=64)
def _fingerprint(target: Target) -> str:
    """Once a target: it takes a fifth of what a hit does."""
    return target.fingerprint


def _make(mechanism: Mechanism, shape: Shape, target: Target, schedule: str) -> Plan:
    verify_shape(shape)  # before the passes, some of which count heads one by one
    if isinstance(target, NpuTarget):
        checked_sequences(shape)
        if schedule == AUTO:
            return packed(verify(_least(mechanism, shape, target), target))
        return packed(verify(schedules.ASCEND[schedule](mechanism, shape, target, VERSION), target))
    return verify(schedules.CPU[schedule](mechanism, shape, target, VERSION))


def _least(mechanism: Mechanism, shape: Shape, target: NpuTarget) -> Plan:
    """The compared schedules' plan of the least modelled time; of equals the first. Its first note says what it beat."""
    made: dict[str, Plan] = {}
    refused: dict[str, str] = {}
    for name in schedules.COMPARED:
        try:
            made[name] = schedules.ASCEND[name](mechanism, shape, target, VERSION)
        except ValueError as error:
            refused[name] = str(error)
    if not made:
        told = set(refused.values())
        raise ValueError(told.pop() if len(told) == 1 else "; ".join(f"{name}: {why}" for name, why in refused.items()))
    cycles = {name: sum(plan_cycles(one, target)) for name, one in made.items()}
    best, *rest = sorted(made, key=lambda name: cycles[name])
    beaten = [f"{name} {cycles[name]:.0f}" for name in rest] + [f"{name}, which has none: {why}" for name, why in refused.items()]
    saved = f"{cycles[rest[0]] - cycles[best]:.0f} modelled cycles, beside {rest[0]}" if rest else "no other has a plan"
    note = Note(AUTO, f"schedule {best}, {cycles[best]:.0f} modelled cycles with its launches", "; ".join(beaten), saved)
    return replace(made[best], notes=(note, *made[best].notes))


def _is_by(stored: Plan, schedule: str) -> bool:
    """Whether a stored plan is one of this schedule; of "auto" it is one of those compared, and says so."""
    if schedule == AUTO:
        return stored.schedule in schedules.COMPARED and any(note.by == AUTO for note in stored.notes)
    return stored.schedule == schedule


def _fits(stored: Plan, target: Target) -> bool:
    """Whether a stored plan is one for this target. Of packed programs, which were verified before they were stored, only the
    header is looked at; the library that runs them checks every byte again."""
    match stored.launch:
        case Fused():
            verify(stored)
            return isinstance(target, CpuTarget) and (stored.launch.isa, stored.launch.panel) == (target.isa, target.panel)
        case Packed():
            verify(stored)
            return isinstance(target, NpuTarget)
    return False
