"""Look up, else schedule, verify, store. Planning is deterministic: equal inputs give equal bytes on any machine."""

import functools
import json
from dataclasses import asdict

from hajax import abi, cache, schedules
from hajax.mechanisms import Mechanism
from hajax.plans import Fused, Packed, Plan, Shape, from_json, packed, to_json, verify
from hajax.plans.verify_shape import verify_shape
from hajax.targets import CpuTarget, NpuTarget

VERSION = 6
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
        "schedule": schedule,
        "planner": VERSION,
        "abi": abi.digest(),
    }
    return json.dumps(key, sort_keys=True, separators=(",", ":"))


@functools.lru_cache(maxsize=4096)
def plan(mechanism: Mechanism, shape: Shape, target: Target, schedule: str | None = None) -> Plan:
    """The plan for a problem on a target: from memory, from disk, or made now and stored. An Ascend plan's programs are packed.

    Raises ValueError for a schedule that is unknown or another target's, and for a problem that no plan can serve.
    """
    schedule = default_schedule(target) if schedule is None else schedule
    known = schedules.ASCEND if isinstance(target, NpuTarget) else schedules.CPU
    if schedule not in known:
        raise ValueError(f"schedule: expected one of {sorted(known)}, got {schedule!r}")
    fingerprint = _fingerprint(target)
    key = _key(mechanism, shape, fingerprint, schedule)
    wanted = (mechanism, shape, fingerprint, schedule, VERSION)
    if (text := cache.read(key)) is not None:
        try:
            stored = from_json(text)
            made_for = (stored.mechanism, stored.shape, stored.target, stored.schedule, stored.version)
            if made_for == wanted and _fits(stored, target):
                return stored
            raise ValueError("it is another problem's plan")
        except ValueError as error:
            cache.warn_stale(key, str(error))
    made = _make(mechanism, shape, target, schedule)
    cache.write(key, to_json(made))
    return made


@functools.lru_cache(maxsize=64)
def _fingerprint(target: Target) -> str:
    """Once a target: it takes a fifth of what a hit does."""
    return target.fingerprint


def _make(mechanism: Mechanism, shape: Shape, target: Target, schedule: str) -> Plan:
    verify_shape(shape)  # before the passes, some of which count heads one by one
    if isinstance(target, NpuTarget):
        return packed(verify(schedules.ASCEND[schedule](mechanism, shape, target, VERSION), target))
    return verify(schedules.CPU[schedule](mechanism, shape, target, VERSION))


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
