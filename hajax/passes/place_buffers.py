"""Addresses of a program's buffers in the memories of a core. After the emission order: that decides who is alive together.

UB holds the kernel's frame first, then the buffers, then the steps, of which `sync` may still add some.
"""

import dataclasses
from bisect import insort
from collections.abc import Callable, Sequence

from hajax import abi
from hajax.passes.buffer_lives import Life, lifetimes, up
from hajax.plans import Note
from hajax.plans.footprint import Dims
from hajax.plans.program import SPACES, Program, at_address
from hajax.targets import NpuTarget

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


def place_buffers(program: Program, dims: Dims, target: NpuTarget) -> tuple[Program, Note]:
    """The program with addresses, slot_bytes and step_address, without buffers that nobody touches. Raises DoesNotFit.

    Addresses that buffers have already are kept: `pipeline` gives some.
    """
    lives = lifetimes(program, dims)
    sections = (len(program.setup), len(program.setup) + len(program.body))
    addresses: dict[str, int] = {}
    slots = {}
    for space in SPACES:
        mine = [life for life in lives if life.space == space]
        fixed, slot, start = fixed_part(space, mine)
        available = available_bytes(space, program, target)
        given = {b.name: b.address for b in program.buffers if b.space == space and b.address is not None}
        found = _pack(mine, {**given, **fixed}, start, available, sections)
        if found is None:
            raise _does_not_fit(space, mine, start, available)
        addresses.update(found)
        if slot:
            slots[space] = slot
    kept = [at_address(buffer, addresses[buffer.name]) for buffer in program.buffers if buffer.name in addresses]
    placed = dataclasses.replace(program, buffers=tuple(kept), slot_bytes=slots)
    tops = _tops(placed)
    placed = dataclasses.replace(placed, step_address=up(tops["UB"], 32))
    return placed, _note(placed, tops)


def fixed_part(space: str, lives: Sequence[Life]) -> tuple[dict[str, int], int, int]:
    """Addresses of the buffers of a memory that live through the body in any order, at its bottom: alternating ones first.

    Also how far the versions of the alternating ones are apart, and where the other buffers may begin.
    """
    start = FRAME_BYTES if space == "UB" else 0
    addresses: dict[str, int] = {}
    at = start
    for versions in (2, 1):
        for life in sorted((one for one in lives if one.whole and one.versions == versions), key=_ORDERS[0]):
            addresses[life.name] = at
            at += life.bytes
        if versions == 2:
            slot = at - start
            at += slot
    return addresses, slot, at


def _does_not_fit(space: str, lives: Sequence[Life], start: int, available: int) -> DoesNotFit:
    whole = [life for life in lives if life.whole]
    others = [life for life in lives if not life.whole]
    alive = _worst(others)
    lowest = min(_place(sorted(others, key=order), {}, start)[1] for order in _ORDERS)
    named = [(life.name, life.bytes * life.versions) for life in (*whole, *alive)]
    needed = max(lowest, start + sum(life.bytes for life in alive))
    return DoesNotFit(space, needed, available, sorted(named, key=lambda one: (-one[1], one[0])))


def _note(placed: Program, tops: dict[str, int]) -> Note:
    tops = {space: top for space, top in tops.items() if any(b.space == space for b in placed.buffers)}
    whole = {space: sum(b.bytes * b.versions for b in placed.buffers if b.space == space) for space in tops}
    saved = sum(whole.values()) - sum(tops.values()) + (FRAME_BYTES if "UB" in tops else 0)
    return Note(
        "buffers",
        "ends at " + ", ".join(f"{space} {top} B" for space, top in tops.items()),
        "a place of its own for each: " + ", ".join(f"{space} {size} B" for space, size in whole.items()),
        f"{max(0, saved)} B, as late as there is room for; the steps come at {placed.step_address} of UB",
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
    return target.ub_bytes - target.ub_reserved_bytes - up((steps + steps // _SYNC_SHARE + 1) * STEP_BYTES, 32)


def peak_bytes(program: Program) -> dict[str, int]:
    """Bytes that a placed program uses of each memory, the frame and the steps in UB included."""
    steps = len(program.setup) + len(program.body) + len(program.finish)
    return _tops(program) | {"UB": program.step_address + up(steps * STEP_BYTES, 32)}


def _worst(lives: Sequence[Life]) -> list[Life]:
    """The buffers that are alive at the step at which they need the most bytes."""
    change: dict[int, int] = {}
    for life in lives:
        change[life.first] = change.get(life.first, 0) + life.bytes
        change[life.last + 1] = change.get(life.last + 1, 0) - life.bytes
    live, most, worst = 0, -1, 0
    for step in sorted(change):
        live += change[step]
        if live > most:
            most, worst = live, step
    return [life for life in lives if life.first <= worst <= life.last]


_ORDERS: tuple[Callable[[Life], tuple[int, ...]], ...] = (
    lambda life: (-life.bytes, life.first - life.last, life.first),
    lambda life: (life.first - life.last, -life.bytes, life.first),
    lambda life: (life.bytes * (life.first - life.last - 1), life.first),
    lambda life: (life.first, -life.bytes),
)


def _pack(
    lives: Sequence[Life], given: dict[str, int], start: int, available: int, sections: tuple[int, int]
) -> dict[str, int] | None:
    """Addresses, with as many steps as there is room for between a buffer's end and the next one in its place."""
    others = [life for life in lives if life.name not in given]
    there = {life: given[life.name] for life in lives if life.name in given}
    for distance in _DISTANCES if others else (0,):
        rested = [_rested(life, distance, sections) for life in others]
        if sum(life.bytes for life in _worst(rested)) > available - start:
            continue
        for order in _ORDERS:
            addresses, top = _place(sorted(rested, key=order), there, start)
            if top <= available:
                return addresses
    return None


def _rested(life: Life, distance: int, sections: tuple[int, int]) -> Life:
    """The buffer as if it lived longer, but not beyond its section: every section ends with a barrier of all pipes."""
    end = next((start - 1 for start in sections if life.last < start), life.last + distance)
    last = max(life.last, min(life.last + distance, end))
    return Life(life.name, life.space, life.bytes, life.versions, life.first, last, life.whole)


def _place(lives: Sequence[Life], there: dict[Life, int], start: int) -> tuple[dict[str, int], int]:
    """Each in turn at the smallest gap from `start` on that holds it among those alive with it: addresses and the highest end."""
    placed = [(at, at + life.bytes, life.first, life.last) for life, at in there.items()]
    placed.sort()
    addresses = {life.name: at for life, at in there.items()}
    top = max((end for _, end, _, _ in placed), default=start)
    for life in lives:
        at, best, gap = start, -1, 1 << 62
        for begin, end, first, last in placed:
            if first > life.last or last < life.first:
                continue
            if life.bytes <= begin - at < gap:
                best, gap = at, begin - at
            at = max(at, end)
        chosen = at if best < 0 else best
        addresses[life.name] = chosen
        top = max(top, chosen + life.bytes)
        insort(placed, (chosen, chosen + life.bytes, life.first, life.last))
    return addresses, top
