"""Choices of CPU plans that `hajax tune` measured, kept beside the plans: one a problem, length bucket and machine.

A choice counts on the machine that it was measured on alone: the key holds the target, the CPU's model, hajax's and the planner's
version. An entry that is damaged or no longer fits is a miss and one warning.
"""

import functools
import json
import math
from dataclasses import asdict, dataclass, fields, replace
from importlib import metadata
from pathlib import Path

from hajax import abi, cache
from hajax.mechanisms import Mechanism
from hajax.plans import Shape
from hajax.targets import CpuTarget


@dataclass(frozen=True, slots=True)
class Choice:
    """What a CPU plan leaves open: the kernel, and the fields of `Fused` that passes choose. Equal ones hash alike."""

    isa: str
    panel: int
    chunk: int
    group: int
    column_blocks: int
    token_steps: int
    workers: int
    bf16_dot: bool


@dataclass(frozen=True, slots=True)
class Tuned:
    """A choice with its figures: seconds of a call of `tokens` tokens, its own and of what the cost model would have chosen."""

    choice: Choice
    tokens: int
    seconds: float
    planned_seconds: float


def bucket(tokens: int) -> int:
    """The power of two that is nearest as a ratio: lengths of one bucket share a choice."""
    return 1 << round(math.log2(max(tokens, 1)))


def key_of(mechanism: Mechanism, shape: Shape, target: CpuTarget, planner: int) -> str:
    """Everything that a choice depends on, as one line of JSON. shape.tokens is known."""
    assert shape.tokens is not None, "a choice is of a length"
    key = {
        "mechanism": asdict(mechanism),
        "shape": asdict(replace(shape, tokens=bucket(shape.tokens))),
        "target": target.fingerprint,
        "cpu": _cpu_model(),
        "planner": planner,
        "hajax": _version(),
        "abi": abi.digest(),
    }
    return json.dumps(key, sort_keys=True, separators=(",", ":"))


def read(mechanism: Mechanism, shape: Shape, target: CpuTarget, planner: int) -> Tuned | None:
    """What was measured for this problem's length bucket on this machine, or None."""
    if shape.tokens is None:
        return None
    key = key_of(mechanism, shape, target, planner)
    text = cache.read(key, cache.TUNED)
    if text is None:
        return None
    try:
        return from_json(text)
    except ValueError as error:
        cache.warn_stale(key, str(error), cache.TUNED)
        return None


def write(mechanism: Mechanism, shape: Shape, target: CpuTarget, planner: int, tuned: Tuned) -> None:
    """Stores a choice for the length bucket of shape.tokens, over an older one."""
    cache.write(key_of(mechanism, shape, target, planner), json.dumps(asdict(tuned)), cache.TUNED)


def from_json(text: str) -> Tuned:
    """Raises ValueError when a field is missing, unknown or of another type."""
    try:
        data = dict(json.loads(text))
        choice = Choice(**data.pop("choice"))
        tuned = Tuned(choice=choice, **data)
    except (TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"not a measured choice ({error})") from None
    for part in (choice, tuned):
        for field in fields(part):
            if field.type not in (int, str, bool, float):
                continue
            value = getattr(part, field.name)
            if type(value) is not field.type or (isinstance(value, float) and not value > 0):
                raise ValueError(f"{field.name}: expected a {field.type.__name__}, got {value!r}")
    return tuned


@functools.cache
def _version() -> str:
    try:
        return metadata.version("hajax")
    except metadata.PackageNotFoundError:
        return "unknown"


@functools.cache
def _cpu_model() -> str:
    """Empty where the system does not say."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split("\n\n", 1)[0].splitlines()
    except OSError:
        return ""
    named = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return "/".join(named.get(name, "") for name in ("vendor_id", "model name", "cpu family", "model", "stepping"))
