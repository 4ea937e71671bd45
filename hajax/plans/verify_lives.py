"""Whether every read finds what its own buffer holds: runs chunks by ownership of bytes instead of values.

Two buffers may share addresses as long as nobody reads one after the other has been written; that is what is tried here. First
by intervals, which is quick; memories in which gaps between strided blocks might have misled that, again block by block.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hajax.plans.footprint import UNIT, Dims
from hajax.plans.program import SPACES, Buffer, Program
from hajax.plans.verify_blocks import Touch, touches
from hajax.plans.verify_intervals import FINISH, ITEMS, MOMENTS, SECTIONS, SETUP, Accesses, misled_by_intervals, walk

Array = np.ndarray[Any, np.dtype[np.int32]]


@dataclass(frozen=True, slots=True)
class _Place:
    """What a step touches in one version of its buffers: blocks of a memory, by the buffer's number."""

    space: str
    blocks: Any
    write: bool
    owner: int
    kept: bool


def verify_lives(program: Program, where: str, dims: Dims, accesses: Accesses) -> None:
    """Raises ValueError for a read of bytes that another buffer, another chunk or nobody has written."""
    misled = misled_by_intervals(program, accesses)
    if not misled:
        return
    blocks = _blocks(program)
    numbers = {buffer.name: number for number, buffer in enumerate(program.buffers)}
    spaces = {buffer.name: buffer.space for buffer in program.buffers}
    places: dict[str, list[list[list[_Place]]]] = {}
    for name in SECTIONS:
        places[name] = []
        for step, its in zip(getattr(program, name), accesses[name], strict=True):
            wanted = any(spaces[access.buffer] in misled for access in its)
            found = [touch for touch in touches(step, program, dims) if spaces[touch.buffer] in misled] if wanted else []
            places[name].append(_places(found, program, numbers))
    names = [name for buffer in program.buffers for name in (buffer.name, f"{buffer.name} (odd)")]
    owners = {space: np.full(blocks[space], -1, np.int32) for space in SPACES}
    for again, chunks in enumerate(ITEMS):
        if again:
            _forget(program, places, owners)
        for section, number, version, moment in walk(program, chunks, bool(again)):
            step = getattr(program, section)[number]
            here = f"{where}.{section}[{number}] ({step.label or step.opcode})"
            _touch(places[section][number][version], owners, moment, here, names)


def _blocks(program: Program) -> dict[str, int]:
    found = dict.fromkeys(SPACES, 0)
    for buffer in program.buffers:
        assert buffer.address is not None, "addresses were checked before"
        second = program.slot_bytes.get(buffer.space, 0) if buffer.versions == 2 else 0
        found[buffer.space] = max(found[buffer.space], -(-(buffer.address + second + buffer.bytes) // UNIT))
    return found


def _places(found: Sequence[Touch], program: Program, numbers: dict[str, int]) -> list[list[_Place]]:
    """What a step touches with the versions of even chunks, and of odd ones."""
    versions: list[list[_Place]] = [[], []]
    for touch in found:
        number = numbers[touch.buffer]
        buffer = program.buffers[number]
        for odd in (0, 1):
            second = odd == 1 and buffer.versions == 2
            moved = _moved(touch, buffer, program, second)
            versions[odd].append(_Place(buffer.space, moved, touch.write, 2 * number + second, buffer.kept))
    return versions


def _moved(touch: Touch, buffer: Buffer, program: Program, second: bool) -> Any:
    assert buffer.address is not None, "addresses were checked before"
    start = (buffer.address + (program.slot_bytes[buffer.space] if second else 0)) // UNIT
    if isinstance(touch.blocks, slice):
        return slice(touch.blocks.start + start, touch.blocks.stop + start)
    return touch.blocks + start


def _forget(program: Program, places: dict[str, list[list[list[_Place]]]], owners: dict[str, Array]) -> None:
    """Between two items of a program only what setup writes for the first one lasts, as long as it is still whole."""
    for space, owner in owners.items():
        lasting = np.zeros(owner.shape, bool)
        for step, versions in zip(program.setup, places["setup"], strict=True):
            for place in versions[step.last] if step.first else ():
                if place.write and place.space == space:
                    lasting[place.blocks] |= owner[place.blocks] == place.owner * MOMENTS + SETUP
        owner[~lasting] = -1


def _touch(places: Sequence[_Place], owners: dict[str, Array], moment: int, here: str, names: Sequence[str]) -> None:
    for place in places:
        mine = place.owner * MOMENTS
        owner = owners[place.space]
        if place.write:
            owner[place.blocks] = mine + moment
            continue
        found = owner[place.blocks]
        if place.kept:
            wrong = (found < mine) | (found > mine + moment)
        else:
            wrong = (found != mine + moment) & (found != mine + SETUP)
        if wrong.any():
            first = int(np.argmax(wrong))
            got = int(found[first])
            raise ValueError(
                f"{here}: expected {_tell(mine + moment, names)}{' or of an earlier chunk' if place.kept else ''} in "
                f"{place.space}, got {_tell(got, names)}"
            )


def _tell(owner: int, names: Sequence[str]) -> str:
    if owner < 0:
        return "bytes that nobody has written"
    number, moment = divmod(owner, MOMENTS)
    when = {SETUP: "setup", FINISH: "finish"}.get(moment, f"chunk {moment - 1}")
    return f"bytes of {names[number]} of {when}"
