"""From which step to which one each buffer of a program holds something that is still needed."""

import dataclasses
from collections.abc import Mapping, Sequence

from hajax.passes.dependencies import Touches, of_program, touches
from hajax.plans.footprint import Dims
from hajax.plans.program import Program, Step

ALIGNMENT: Mapping[str, int] = {"L1": 512, "L0A": 512, "L0B": 512, "L0C": 1024, "UB": 32}
# By marks `first` and `last` of a step, those of steps that run whenever it does.
_RUN_WITH = {
    (False, False): ((False, False),),
    (True, False): ((False, False), (True, False)),
    (False, True): ((False, False), (False, True)),
    (True, True): ((False, False), (True, False), (False, True), (True, True)),
}


@dataclasses.dataclass(frozen=True, slots=True)
class Life:
    """A buffer's bytes, aligned, and the steps from the first to the last one that it is alive at, over all three sections.

    whole: it is alive through the whole body, in whatever order that is.
    """

    name: str
    space: str
    bytes: int
    versions: int
    first: int
    last: int
    whole: bool


def lifetimes(program: Program, dims: Dims, touched: Sequence[Touches] | None = None) -> list[Life]:
    """Of every buffer that a step touches. Steps are numbered through setup, body and finish.

    touched: what they touch, where that is known.
    """
    steps = (*program.setup, *program.body, *program.finish)
    touched = touches(of_program(program, dims)) if touched is None else touched
    body = range(len(program.setup), len(program.setup) + len(program.body))
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for number, step in enumerate(touched):
        for (name, _), _ in (*step.reads, *step.writes):
            first.setdefault(name, number)
            last[name] = number
    carried = _carried(steps, touched, body)
    lasting = _lasting(program, touched)
    found = []
    for buffer in program.buffers:
        if buffer.versions not in (1, 2):
            raise ValueError(f"buffer {buffer.name}: expected versions 1 or 2, got {buffer.versions}")
        if buffer.name not in first:
            continue
        begin, end, whole = first[buffer.name], last[buffer.name], True
        if buffer.kept or buffer.versions == 2 or buffer.name in lasting:
            begin, end = 0, len(steps) - 1
        elif buffer.name in carried or (end >= body.start and begin < body.stop and (begin < body.start or end >= body.stop)):
            begin, end = min(begin, body.start), max(end, body.stop - 1)  # what one iteration leaves, the next one finds
        else:
            whole = False
        size = up(buffer.bytes, ALIGNMENT[buffer.space])
        found.append(Life(buffer.name, buffer.space, size, buffer.versions, begin, end, whole))
    return found


def _carried(steps: Sequence[Step], touched: Sequence[Touches], body: range) -> set[str]:
    """Buffers of which an iteration reads what an earlier one wrote, or that steps of several stages use."""
    carried: set[str] = set()
    stages: dict[str, int] = {}
    written: dict[tuple[bool, bool], dict[str, int]] = {}  # by the marks of the steps that wrote
    for number in body:
        step, its = steps[number], touched[number]
        before = [written[marks] for marks in _RUN_WITH[step.first, step.last] if marks in written]
        for (name, _), mask in its.reads:
            rest = mask
            for blocks in before:
                rest &= ~blocks.get(name, 0)
            if rest:
                carried.add(name)
        mine = written.setdefault((step.first, step.last), {})
        for (name, _), mask in its.writes:
            mine[name] = mine.get(name, 0) | mask
        for (name, _), _ in (*its.reads, *its.writes):
            if stages.setdefault(name, step.stage) != step.stage:
                carried.add(name)
    return carried


def _lasting(program: Program, touched: Sequence[Touches]) -> set[str]:
    """Buffers that setup fills only when the program changes, and that somebody reads for every item."""
    once = {name for step, its in zip(program.setup, touched, strict=False) if step.first for (name, _), _ in its.writes}
    others = [its for at, its in enumerate(touched) if at >= len(program.setup) or not program.setup[at].first]
    return once & {name for its in others for (name, _), _ in its.reads}


def up(count: int, multiple: int) -> int:
    return -(-count // multiple) * multiple
