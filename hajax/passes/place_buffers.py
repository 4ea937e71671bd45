"""Addresses of a program's buffers in the memories of a core. After the emission order: that decides who is alive together.

UB holds the kernel's frame first, then the buffers, then the steps, of which `sync` may still add some.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from hajax import abi
from hajax.passes.dependencies import Touches, of_program, touches
from hajax.plans import Note
from hajax.plans.footprint import Dims
from hajax.plans.program import SPACES, Program, Step
from hajax.targets import NpuTarget

ALIGNMENT: Mapping[str, int] = {"L1": 512, "L0A": 512, "L0B": 512, "L0C": 1024, "UB": 32}
FRAME_BYTES = abi.constant("HJ_FRAME_BYTES")
STEP_BYTES = 8 * abi.constant("HJ_STEP_WORDS")
_SYNC_SHARE = 16  # of so many steps, one more may be a sync step
_DISTANCES = (10**6, 128, 96, 64, 48, 32, 24, 16, 12, 8, 6, 4, 3, 2, 1, 0)  # steps for which freed bytes rest if there is room


class DoesNotFit(ValueError):
    """A memory is too small: its name, the bytes that are needed and there, and the buffers alive at the worst moment."""

    def __init__(self, space: str, needed: int, available: int, buffers: Sequence[tuple[str, int]]):
        self.space, self.needed, self.available, self.buffers = space, needed, available, tuple(buffers)
        listed = ", ".join(f"{name} {size}" for name, size in self.buffers)
        super().__init__(f"{space}: expected at most {available} bytes, got {needed}: {listed}")


@dataclasses.dataclass(frozen=True, slots=True)
class Life:
    """A buffer's bytes, aligned, and the steps from the first to the last one that it is alive at, over all three sections."""

    name: str
    space: str
    bytes: int
    versions: int
    first: int
    last: int


def place_buffers(program: Program, dims: Dims, target: NpuTarget) -> tuple[Program, Note]:
    """The program with addresses, slot_bytes and step_address, without buffers that nobody touches. Raises DoesNotFit."""
    lives = lifetimes(program, dims)
    sections = (len(program.setup), len(program.setup) + len(program.body))
    addresses: dict[str, int] = {}
    slots: dict[str, int] = {}
    for space in SPACES:
        start = FRAME_BYTES if space == "UB" else 0
        twice = sorted((life for life in lives if life.space == space and life.versions == 2), key=_ORDERS[0])
        once = [life for life in lives if life.space == space and life.versions == 1]
        if twice:
            slots[space] = sum(life.bytes for life in twice)
        addresses.update(_stack(twice, start))
        base = start + 2 * slots.get(space, 0)
        available = available_bytes(space, program, target)
        offsets = _pack(once, available - base, sections)
        if offsets is None:
            alive = _worst(once)
            needed = base + max(sum(life.bytes for life in alive), min(_place(sorted(once, key=order))[1] for order in _ORDERS))
            named = [(life.name, life.bytes * life.versions) for life in (*twice, *alive)]
            raise DoesNotFit(space, needed, available, sorted(named, key=lambda one: (-one[1], one[0])))
        addresses.update((name, base + offset) for name, offset in offsets.items())
    kept = [dataclasses.replace(b, address=addresses[b.name]) for b in program.buffers if b.name in addresses]
    placed = dataclasses.replace(program, buffers=tuple(kept), slot_bytes=slots)
    placed = dataclasses.replace(placed, step_address=_up(_tops(placed)["UB"], 32))
    return placed, _note(placed)


def _note(placed: Program) -> Note:
    tops = {space: top for space, top in _tops(placed).items() if any(b.space == space for b in placed.buffers)}
    whole = {space: sum(b.bytes * b.versions for b in placed.buffers if b.space == space) for space in tops}
    saved = sum(whole.values()) - sum(tops.values()) + (FRAME_BYTES if "UB" in tops else 0)
    return Note(
        "buffers",
        ", ".join(f"{space} {top} B" for space, top in tops.items()),
        "without reuse " + ", ".join(f"{space} {size} B" for space, size in whole.items()),
        f"{max(0, saved)} B; the steps come at {placed.step_address} of UB",
    )


def _tops(program: Program) -> dict[str, int]:
    """By memory, where its last buffer ends; in UB the frame counts."""
    tops = dict.fromkeys(SPACES, 0) | {"UB": FRAME_BYTES}
    for buffer in program.buffers:
        assert buffer.address is not None, f"{buffer.name} has no address"
        slot = program.slot_bytes[buffer.space] if buffer.versions == 2 else 0
        tops[buffer.space] = max(tops[buffer.space], buffer.address + slot + buffer.bytes)
    return tops


def available_bytes(space: str, program: Program, target: NpuTarget) -> int:
    """What buffers may use of a memory, counted from its start: in UB, the steps and some sync steps come on top."""
    sizes = {"L1": target.l1_bytes, "L0A": target.l0a_bytes, "L0B": target.l0b_bytes, "L0C": target.l0c_bytes}
    if space != "UB":
        return sizes[space]
    steps = len(program.setup) + len(program.body) + len(program.finish)
    return target.ub_bytes - target.ub_reserved_bytes - _up((steps + steps // _SYNC_SHARE + 1) * STEP_BYTES, 32)


def peak_bytes(program: Program) -> dict[str, int]:
    """Bytes that a placed program uses of each memory, the frame and the steps in UB included."""
    steps = len(program.setup) + len(program.body) + len(program.finish)
    return _tops(program) | {"UB": program.step_address + _up(steps * STEP_BYTES, 32)}


def lifetimes(program: Program, dims: Dims) -> list[Life]:
    """Of every buffer that a step touches. Steps are numbered through setup, body and finish."""
    steps = (*program.setup, *program.body, *program.finish)
    touched = touches(of_program(program, dims))
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
        begin, end = first[buffer.name], last[buffer.name]
        if buffer.kept or buffer.versions == 2 or buffer.name in lasting:
            begin, end = 0, len(steps) - 1
        elif buffer.name in carried or (end >= body.start and begin < body.stop and (begin < body.start or end >= body.stop)):
            begin, end = min(begin, body.start), max(end, body.stop - 1)  # what one iteration leaves, the next one finds
        found.append(Life(buffer.name, buffer.space, _up(buffer.bytes, ALIGNMENT[buffer.space]), buffer.versions, begin, end))
    return found


def _carried(steps: Sequence[Step], touched: Sequence[Touches], body: range) -> set[str]:
    """Buffers of which an iteration reads what an earlier one wrote, or that steps of several stages use."""
    carried: set[str] = set()
    stages: dict[str, int] = {}
    written: dict[tuple[str, bool, bool], int] = {}
    for number in body:
        step = steps[number]
        for (name, _), mask in touched[number].reads:
            rest = mask
            for first in {False, step.first}:
                for last in {False, step.last}:  # a write that runs whenever this read does
                    rest &= ~written.get((name, first, last), 0)
            if rest:
                carried.add(name)
        for (name, _), mask in touched[number].writes:
            written[name, step.first, step.last] = written.get((name, step.first, step.last), 0) | mask
        for (name, _), _ in (*touched[number].reads, *touched[number].writes):
            if stages.setdefault(name, step.stage) != step.stage:
                carried.add(name)
    return carried


def _lasting(program: Program, touched: Sequence[Touches]) -> set[str]:
    """Buffers that setup fills only when the program changes, and that somebody reads for every item."""
    once = {name for step, its in zip(program.setup, touched, strict=False) if step.first for (name, _), _ in its.writes}
    others = [its for at, its in enumerate(touched) if at >= len(program.setup) or not program.setup[at].first]
    return once & {name for its in others for (name, _), _ in its.reads}


def _up(count: int, multiple: int) -> int:
    return -(-count // multiple) * multiple


def _worst(lives: Sequence[Life]) -> list[Life]:
    """The buffers that are alive at the step at which they need the most bytes."""
    alive = [[life for life in lives if life.first <= at.first <= life.last] for at in lives]
    return max(alive, key=lambda those: sum(life.bytes for life in those), default=[])


_ORDERS: tuple[Callable[[Life], tuple[int, ...]], ...] = (
    lambda life: (-life.bytes, life.first - life.last, life.first),
    lambda life: (life.first - life.last, -life.bytes, life.first),
    lambda life: (life.bytes * (life.first - life.last - 1), life.first),
    lambda life: (life.first, -life.bytes),
)


def _pack(lives: Sequence[Life], available: int, sections: tuple[int, int]) -> dict[str, int] | None:
    """Offsets, with as many steps as there is room for between a buffer's end and the next one in its place."""
    if sum(life.bytes for life in lives) <= available:
        return _stack(lives, 0)
    for distance in _DISTANCES:
        rested = [_rested(life, distance, sections) for life in lives]
        if sum(life.bytes for life in _worst(rested)) > available:
            continue
        for order in _ORDERS:
            offsets, top = _place(sorted(rested, key=order))
            if top <= available:
                return offsets
    return None


def _stack(lives: Sequence[Life], start: int) -> dict[str, int]:
    offsets = {}
    for life in lives:
        offsets[life.name] = start
        start += life.bytes
    return offsets


def _rested(life: Life, distance: int, sections: tuple[int, int]) -> Life:
    """The buffer as if it lived longer, but not beyond its section: every section ends with a barrier of all pipes."""
    end = next((start - 1 for start in sections if life.last < start), life.last + distance)
    return dataclasses.replace(life, last=max(life.last, min(life.last + distance, end)))


def _place(lives: Sequence[Life]) -> tuple[dict[str, int], int]:
    """Each in turn at the smallest gap that holds it among those alive with it. Returns offsets, and the highest end."""
    placed: list[tuple[int, int, int, int]] = []  # offset, end, first, last
    offsets: dict[str, int] = {}
    top = 0
    for life in lives:
        at, best, gap = 0, -1, 1 << 62
        for offset, end, first, last in placed:
            if first > life.last or last < life.first:
                continue
            if life.bytes <= offset - at < gap:
                best, gap = at, offset - at
            at = max(at, end)
        chosen = at if best < 0 else best
        offsets[life.name] = chosen
        top = max(top, chosen + life.bytes)
        placed.append((chosen, chosen + life.bytes, life.first, life.last))
        placed.sort()
    return offsets, top
