"""Whether flags and barriers order every dependent pair of steps. Knows pipes, flags and addresses, nothing of who set them.

A pipe runs its steps in order but starts one before the last has ended; only a barrier, or a flag that went to another pipe and
came back, says that a step is over. Sections and iterations end with a barrier of all pipes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hajax import abi
from hajax.plans.footprint import UNIT, Access, Dims, pipe, products
from hajax.plans.program import SPACES, Buffer, Flag, Program, Step
from hajax.plans.verify_blocks import Touch, meets, touches
from hajax.plans.verify_intervals import SECTIONS, Accesses
from hajax.targets import NpuTarget

PIPES = ("S", "MTE2", "MTE1", "M", "V", "MTE3")
_NOTHING = -1
Array = np.ndarray[Any, np.dtype[np.int64]]


def verify_order(program: Program, where: str, dims: Dims, target: NpuTarget, touched: Accesses) -> None:
    """Raises ValueError for the first pair of steps that nothing orders, and for flags that do not pair up."""
    buffers = {buffer.name: buffer for buffer in program.buffers}
    ids = min(target.flags_per_pair, target.first_reserved_flag)
    parities = 1 if _versions_apart(program) else 2
    for name in SECTIONS:
        steps = getattr(program, name)
        here = f"{where}.{name}"
        known = _known(steps, here, ids)
        for step, number in zip(steps, range(len(steps)), strict=True):
            _check_products(step, f"{here}[{number}]", target)
        exact: dict[int, tuple[Touch, ...]] = {}
        for odd in range(parities):
            accesses = _accesses(steps, touched[name], program, buffers, odd, name)
            for one, other in _unordered(steps, accesses, known, target):
                if _really_meet(steps, touched[name], program, dims, exact, accesses, (one, other)):
                    first, second = accesses.step[one], accesses.step[other]
                    raise ValueError(
                        f"{here}[{second}] {_tell(steps[second])}: expected to start after step {first} {_tell(steps[first])}, "
                        f"with which it shares bytes of {SPACES[accesses.space[one]]}; no flag or barrier orders them"
                    )


def step_flags(step: Step) -> tuple[list[Flag], list[Flag]]:
    """Waits and sets, those in p of a sync step among them."""
    waits, sets = list(step.waits), list(step.sets)
    if step.opcode == "sync" and step.count:
        waits += [_flag(number) for number in step.p[:4] if number]
        sets += [_flag(number) for number in step.p[4:] if number]
    return waits, sets


def _flag(number: int) -> Flag:
    rows = {int(row[0]): (str(row[2]), str(row[3])) for row in abi.rows("flags")}
    source, target = rows.get(number // 8, ("", ""))
    return Flag(source, target, number % 8)


def _tell(step: Step) -> str:
    return f"({step.label or step.opcode})"


def _known(steps: Sequence[Step], where: str, ids: int) -> Array:
    """[steps, pipes]: the last step of each pipe that is over when a step starts. Checks the flags on the way."""
    pairs = set(abi.names("flags"))
    clocks = np.full((len(PIPES), len(PIPES)), _NOTHING, np.int64)
    last = [_NOTHING] * len(PIPES)  # of each pipe, its last step
    up: dict[Flag, Array] = {}  # set and not waited for: what the pipe that set it knew
    taken: dict[Flag, int] = {}  # the step in front of which a flag was last waited for
    known = np.empty((len(steps), len(PIPES)), np.int64)
    for number, step in enumerate(steps):
        here = f"{where}[{number}] {_tell(step)}"
        own = PIPES.index(pipe(step))
        waits, sets = step_flags(step)
        for flag in (*waits, *sets):
            if f"{flag.source}_{flag.target}" not in pairs or not 0 <= flag.event < ids:
                raise ValueError(f"{here}: expected a pair of flags.def and an id from 0 to {ids - 1}, got {_name(flag)}")
        for flag in waits:
            if flag.target != PIPES[own] and step.opcode != "sync":
                raise ValueError(f"{here}: expected waits of {PIPES[own]}, its pipe, got {_name(flag)}")
            if flag not in up:
                raise ValueError(f"{here}: waits for {_name(flag)}, which no step before sets, or which was taken already")
            at = PIPES.index(flag.target)
            clocks[at] = np.maximum(clocks[at], up.pop(flag))
            taken[flag] = number
        if step.barrier:
            clocks[own, own] = last[own]
        known[number] = clocks[own]
        last[own] = number
        for flag in sets:
            if flag.source != PIPES[own] and step.opcode != "sync":
                raise ValueError(f"{here}: expected sets from {PIPES[own]}, its pipe, got {_name(flag)}")
            if flag in up:
                raise ValueError(f"{here}: sets {_name(flag)} a second time with no wait between")
            source = PIPES.index(flag.source)
            _check_taken(steps, flag, taken, clocks[source], here)
            told = clocks[source].copy()
            told[source] = last[source]
            up[flag] = told
    if up:
        raise ValueError(f"{where}: expected a wait for every set, got none for {_name(min(up, key=_name))}")
    return known


def _check_taken(steps: Sequence[Step], flag: Flag, taken: dict[Flag, int], clock: Array, here: str) -> None:
    """A flag may be set again when its pipe knows that the last wait for it is over: a step behind that wait has ended."""
    if flag not in taken:
        return
    over = clock[PIPES.index(flag.target)]
    behind = next((n for n in range(taken[flag], len(steps)) if pipe(steps[n]) == flag.target), None)
    if behind is None or over < behind:
        raise ValueError(f"{here}: sets {_name(flag)} again, though {flag.source} cannot know that {flag.target} has taken it")


def _name(flag: Flag) -> str:
    return f"{flag.source}_{flag.target}:{flag.event}"


def _check_products(step: Step, where: str, target: NpuTarget) -> None:
    """Small products of one step that add to, or write, the same fractals need barriers between them."""
    if step.opcode != "mmad" or step.p[6] & 4:
        return
    busy: list[tuple[int, int]] = []
    for one in products(step):
        start, end = one.dst, one.dst + step.p[0] * one.n
        if step.p[0] * one.n < target.cube_barrier_tiles and any(s < end and start < e for s, e in busy):
            raise ValueError(
                f"{where} {_tell(step)}: expected p[6] with 4, a barrier between products of {step.p[0] * one.n} tiles that meet "
                f"in L0C, got {step.p[6]}; from {target.cube_barrier_tiles} tiles on none is needed"
            )
        busy.append((start, end))


@dataclass(frozen=True, slots=True)
class _Accesses:
    """Of a section's steps in one parity of the iteration, in order: memory, bytes, write, step, and which one of the step."""

    space: Array
    start: Array
    end: Array
    write: Array
    step: Array
    which: Array


def _accesses(
    steps: Sequence[Step],
    touched: Sequence[Sequence[Access]],
    program: Program,
    buffers: dict[str, Buffer],
    odd: int,
    section: str,
) -> _Accesses:
    rows = []
    for number, (step, accesses) in enumerate(zip(steps, touched, strict=True)):
        for which, access in enumerate(accesses):
            buffer = buffers[access.buffer]
            base = _base(program, buffer, step, odd, section)
            rows.append((SPACES.index(buffer.space), base + access.start, base + access.end, access.write, number, which))
    return _Accesses(*np.array(rows, np.int64).reshape(-1, 6).T)


def _versions_apart(program: Program) -> bool:
    """Whether first versions, second versions and all other buffers lie in ranges of their own: then both parities are alike."""
    for space in SPACES:
        here = [buffer for buffer in program.buffers if buffer.space == space]
        twice = [buffer for buffer in here if buffer.versions == 2]
        if not twice:
            continue
        first = min(buffer.address or 0 for buffer in twice)
        slot = program.slot_bytes[space]
        if max((buffer.address or 0) + buffer.bytes for buffer in twice) > first + slot:
            return False
        ends = ((buffer.address or 0, (buffer.address or 0) + buffer.bytes) for buffer in here if buffer.versions == 1)
        if any(start < first + 2 * slot and first < end for start, end in ends):
            return False
    return True


def _base(program: Program, buffer: Buffer, step: Step, odd: int, section: str) -> int:
    """Where the version of a buffer starts that a step uses in this parity: the step's own chunk decides in the body."""
    assert buffer.address is not None, "addresses were checked before"
    second = {"setup": step.last, "finish": odd, "body": (odd + step.stage) % 2}[section]
    return buffer.address + (program.slot_bytes.get(buffer.space, 0) if buffer.versions == 2 and second else 0)


def _unordered(steps: Sequence[Step], a: _Accesses, known: Array, target: NpuTarget) -> Iterator[tuple[int, int]]:
    """Pairs of accesses of which one writes, that share bytes and that nothing orders, by their intervals."""
    pipes = np.array([PIPES.index(pipe(step)) for step in steps], np.int64)
    many = np.array([step.opcode == "mmad" and step.p[0] * _least_n(step) >= target.cube_barrier_tiles for step in steps], bool)
    for space in range(len(SPACES)):
        (rows,) = np.nonzero(a.space == space)
        if rows.size == 0:
            continue
        start, end, write, step = a.start[rows], a.end[rows], a.write[rows] > 0, a.step[rows]
        clash = (start[:, None] < end) & (start < end[:, None]) & (write[:, None] | write) & (step[:, None] < step)
        clash &= known[step[None, :], pipes[step][:, None]] < step[:, None]
        if SPACES[space] == "L0C":
            clash &= ~((pipes[step][:, None] == pipes[step]) & many[step][None, :])
        for one, other in np.argwhere(clash):
            yield int(rows[one]), int(rows[other])


def _least_n(step: Step) -> int:
    return min((one.n for one in products(step)), default=0)


def _really_meet(
    steps: Sequence[Step],
    touched: Sequence[Sequence[Access]],
    program: Program,
    dims: Dims,
    exact: dict[int, tuple[Touch, ...]],
    a: _Accesses,
    pair: tuple[int, int],
) -> bool:
    """Whether two accesses whose intervals overlap share a block: strided ones may lie in each other's gaps."""
    found = []
    for at in pair:
        step, which = int(a.step[at]), int(a.which[at])
        if step not in exact:
            exact[step] = touches(steps[step], program, dims)
        found.append((exact[step][which], (int(a.start[at]) - touched[step][which].start) // UNIT))
    (one, base), (other, other_base) = found
    return meets(one, other, other_base - base)
