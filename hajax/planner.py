"""Look up, else schedule, verify, store. Planning is deterministic: equal inputs give equal bytes on any machine."""

import functools
import json
from dataclasses import asdict

from hajax import abi, cache, schedules
from hajax.mechanisms import Mechanism
from hajax.plans import Plan, Shape, from_json, to_json, verify
from hajax.targets import CpuTarget

VERSION = 3


def cache_key(mechanism: Mechanism, shape: Shape, target: CpuTarget, schedule: str) -> str:
    """Everything a plan depends on, as one line of JSON."""
    key = {
        "mechanism": asdict(mechanism),
        "shape": asdict(shape),
        "target": target.fingerprint,
        "schedule": schedule,
        "planner": VERSION,
        "abi": abi.digest(),
    }
    return json.dumps(key, sort_keys=True, separators=(",", ":"))


@functools.lru_cache(maxsize=4096)
def plan(mechanism: Mechanism, shape: Shape, target: CpuTarget, schedule: str = "cpu_fused") -> Plan:
    """The plan for a problem on a target: from memory, from disk, or made now and stored.

    Raises ValueError for an unknown schedule or a shape that no plan can serve.
    """
    if schedule not in schedules.SCHEDULES:
        raise ValueError(f"schedule: expected one of {sorted(schedules.SCHEDULES)}, got {schedule!r}")
    key = cache_key(mechanism, shape, target, schedule)
    wanted = (mechanism, shape, target.fingerprint, schedule, VERSION)
    if (text := cache.read(key)) is not None:
        try:
            stored = verify(from_json(text))
            made_for = (stored.mechanism, stored.shape, stored.target, stored.schedule, stored.version)
            if (*made_for, stored.launch.isa, stored.launch.panel) == (*wanted, target.isa, target.panel):
                return stored
            raise ValueError("it is another problem's plan")
        except ValueError as error:
            cache.warn_stale(key, str(error))
    made = verify(schedules.SCHEDULES[schedule](mechanism, shape, target, VERSION))
    cache.write(key, to_json(made))
    return made
