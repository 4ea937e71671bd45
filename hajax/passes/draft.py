"""A plan in the making: what passes hand to one another."""

import dataclasses
from typing import Any

from hajax.mechanisms import Mechanism
from hajax.plans import Fused, Note, Plan, Shape


@dataclasses.dataclass(frozen=True, slots=True)
class Draft:
    """The problem, and each choice once its pass has made it."""

    mechanism: Mechanism
    shape: Shape
    chunk: int | None = None
    token_steps: int | None = None
    group: int | None = None
    column_blocks: int | None = None
    workers: int | None = None
    bf16_dot: bool | None = None
    scratch_bytes: int | None = None
    notes: tuple[Note, ...] = ()

    def chosen(self, note: Note, **choices: Any) -> "Draft":
        """This draft with more choices made, and the note that says why."""
        return dataclasses.replace(self, notes=(*self.notes, note), **choices)


def finish(draft: Draft, *, version: int, target: str, schedule: str, isa: str, panel: int) -> Plan:
    """The plan of a draft in which every choice is made."""
    fields = ("chunk", "group", "column_blocks", "token_steps", "workers", "bf16_dot", "scratch_bytes")
    choices = {name: getattr(draft, name) for name in fields}
    missing = [name for name, value in choices.items() if value is None]
    assert not missing, f"schedule {schedule} left {missing} open"
    launch = Fused(isa=isa, panel=panel, **choices)
    return Plan(version, draft.mechanism, draft.shape, target, schedule, launch, draft.notes)
