"""Whether flags and barriers order every dependent pair of steps. Knows pipes, flags and addresses, nothing of who set them.

A pipe runs its steps in order but starts one before the last has ended; only a barrier, or a flag that went to another pipe and
came back, says that a step is over. Sections end with a barrier of all pipes, iterations too unless they carry flags.
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

ITERATIONS = 4  # that are run without barriers between them: what orders any two of these orders later ones
PIPES = ("S", "MTE2", "MTE1", "M", "V", "MTE3")
_NOTHING = -1
Array = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class _Part:
    """A section, or an iteration of the body, as it runs: its first step's number, and of each of its steps its pipe and the
    last one of each pipe that is over when it starts."""

    section: str
    steps: tuple[Step, ...]
    start: int
    pipes: Array
    known: Array


def verify_order(program: Program, where: str, dims: Dims, target: NpuTarget, touched: Accesses) -> None:
    """Raises ValueError for the first pair of steps that nothing orders, and for flags that do not pair up."""
    for name in SECTIONS:
        for number, step in enumerate(getattr(program, name)):
            _check_products(step, f"{where}.{name}[{number}]", target)
    ids = min(target.flags_per_pair, target.first_reserved_flag)
    parities = 1 if _versions_apart(program) else 2
    if program.carried:
        parts = _run(("setup", *["body"] * ITERATIONS, "finish"), program, where, ids)
        between = [(i, j) for i in range(ITERATIONS) for j in range(i, ITERATIONS) if i < parities or (i < j and parities == 2)]
        bodies = [(parts[1 + i], i % 2, parts[1 + j], j % 2) for i, j in between]
    else:
        parts = [part for name in SECTIONS for part in _run((name,), program, where, ids)]
        bodies = [(parts[1], odd, parts[1], odd) for odd in range(parities)]
    ends = [(part, odd, part, odd) for part in (parts[0], parts[-1]) for odd in range(parities)]
    checker = _Checker(program, where, dims, target, touched)
    for pair in (*ends, *bodies):
        checker.check(*pair)


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


def _run(sections: Sequence[str], program: Program, where: str, ids: int) -> list[_Part]:
    """One behind the other, with barriers of all pipes but between two iterations of the body. Checks the flags on the way."""
    prepared = {name: _prepared(getattr(program, name), f"{where}.{name}", ids) for name in dict.fromkeys(sections)}
    clocks = [[_NOTHING] * len(PIPES) for _ in PIPES]
    last = [_NOTHING] * len(PIPES)  # of each pipe, its last step
    up: dict[Flag, list[int]] = {}  # set and not waited for: what the pipe that set it knew
    taken: dict[Flag, int] = {}  # the step in front of which a flag was last waited for
    pipes: list[int] = []  # of each step so far
    parts: list[_Part] = []
    for section in sections:
        mine = getattr(program, section)
        known: list[tuple[int, ...]] = []
        start = len(pipes)
        if parts and not section == parts[-1].section == "body":
            clocks = [list(last) for _ in PIPES]
            taken.clear()
        for step, (own, waits, sets, here) in zip(mine, prepared[section], strict=True):
            number = len(pipes)
            pipes.append(own)
            for flag in waits:
                if flag.target != PIPES[own] and step.opcode != "sync":
                    raise ValueError(f"{here}: expected waits of {PIPES[own]}, its pipe, got {_name(flag)}")
                if flag not in up:
                    raise ValueError(f"{here}: waits for {_name(flag)}, which no step before sets, or which was taken already")
                target = PIPES.index(flag.target)
                clocks[target] = list(map(max, clocks[target], up.pop(flag)))
                taken[flag] = number
            if step.barrier:
                clocks[own][own] = last[own]
            known.append(tuple(clocks[own]))
            last[own] = number
            for flag in sets:
                if flag.source != PIPES[own] and step.opcode != "sync":
                    raise ValueError(f"{here}: expected sets from {PIPES[own]}, its pipe, got {_name(flag)}")
                if flag in up:
                    raise ValueError(f"{here}: sets {_name(flag)} a second time with no wait between")
                source = PIPES.index(flag.source)
                _check_taken(pipes, flag, taken, clocks[source], here)
                up[flag] = [*clocks[source][:source], last[source], *clocks[source][source + 1 :]]
        parts.append(
            _Part(section, mine, start, np.array(pipes[start:], np.int64), np.array(known, np.int64).reshape(-1, len(PIPES)))
        )
    if up:
        end = f"{where}.{sections[-1]}"
        raise ValueError(f"{end}: expected a wait for every set, got none for {_name(min(up, key=_name))}")
    return parts


def _prepared(steps: Sequence[Step], where: str, ids: int) -> list[tuple[int, list[Flag], list[Flag], str]]:
    """Of each step its pipe, its waits and sets, all of them flags that there are, and how an error names it."""
    pairs = set(abi.names("flags"))
    found = []
    for at, step in enumerate(steps):
        waits, sets = step_flags(step)
        here = f"{where}[{at}] {_tell(step)}" if waits or sets else ""
        for flag in (*waits, *sets):
            if f"{flag.source}_{flag.target}" not in pairs or not 0 <= flag.event < ids:
                raise ValueError(f"{here}: expected a pair of flags.def and an id from 0 to {ids - 1}, got {_name(flag)}")
        found.append((PIPES.index(pipe(step)), waits, sets, here))
    return found


def _check_taken(pipes: Sequence[int], flag: Flag, taken: dict[Flag, int], clock: Sequence[int], here: str) -> None:
    """A flag may be set again when its pipe knows that the last wait for it is over: a step behind that wait has ended."""
    if flag not in taken:
        return
    target = PIPES.index(flag.target)
    behind = next((n for n in range(taken[flag], len(pipes)) if pipes[n] == target), None)
    if behind is None or clock[target] < behind:
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


class _Checker:
    """Looks for pairs of accesses that nothing orders."""

    def __init__(self, program: Program, where: str, dims: Dims, target: NpuTarget, touched: Accesses) -> None:
        self.program, self.where, self.dims, self.touched = program, where, dims, touched
        self.accesses: dict[tuple[str, int], _Accesses] = {}
        self.exact: dict[tuple[str, int], tuple[Touch, ...]] = {}
        self.many = {name: _many(getattr(program, name), target) for name in SECTIONS}

    def check(self, first: _Part, first_odd: int, second: _Part, second_odd: int) -> None:
        """Of two parts of one section, or of one with itself, as they are in these parities of the iteration."""
        one, other = self._accesses(first, first_odd), self._accesses(second, second_odd)
        for at, behind in _unordered(first, one, second, other, self.many[second.section]):
            if self._really_meet(first.section, (one, at), (other, behind)):
                step, earlier = int(other.step[behind]), int(one.step[at])
                before = "" if first is second else " of an iteration before"
                raise ValueError(
                    f"{self.where}.{second.section}[{step}] {_tell(second.steps[step])}: expected to start after step {earlier} "
                    f"{_tell(first.steps[earlier])}{before}, with which it shares bytes of {SPACES[one.space[at]]}; "
                    "no flag or barrier orders them"
                )

    def _accesses(self, part: _Part, odd: int) -> _Accesses:
        if (part.section, odd) not in self.accesses:
            buffers = {buffer.name: buffer for buffer in self.program.buffers}
            touched = self.touched[part.section]
            self.accesses[part.section, odd] = _accesses(part.steps, touched, self.program, buffers, odd, part.section)
        return self.accesses[part.section, odd]

    def _really_meet(self, section: str, *pair: tuple[_Accesses, int]) -> bool:
        """Whether two accesses whose intervals overlap share a block: strided ones may lie in each other's gaps."""
        found = []
        for a, at in pair:
            step, which = int(a.step[at]), int(a.which[at])
            if (section, step) not in self.exact:
                steps = getattr(self.program, section)
                self.exact[section, step] = touches(steps[step], self.program, self.dims)
            moved = (int(a.start[at]) - self.touched[section][step][which].start) // UNIT
            found.append((self.exact[section, step][which], moved))
        (one, base), (other, other_base) = found
        return meets(one, other, other_base - base)


def _many(steps: Sequence[Step], target: NpuTarget) -> Array:
    """Whether each step is one of products so large that the next one needs no barrier."""
    return np.array([step.opcode == "mmad" and step.p[0] * _least_n(step) >= target.cube_barrier_tiles for step in steps], bool)


def _unordered(first: _Part, a: _Accesses, second: _Part, b: _Accesses, many: Array) -> Iterator[tuple[int, int]]:
    """Pairs of accesses of which one writes, that share bytes and that nothing orders, by their intervals."""
    pipes = first.pipes
    for space in range(len(SPACES)):
        (rows,), (columns,) = np.nonzero(a.space == space), np.nonzero(b.space == space)
        if rows.size == 0 or columns.size == 0:
            continue
        one, other = a.step[rows][:, None], b.step[columns]
        clash = first.start + one > second.known[other][:, pipes[a.step[rows]]].T
        if first is second:
            clash &= one < other
        clash &= (a.write[rows][:, None] > 0) | (b.write[columns] > 0)
        clash &= (a.start[rows][:, None] < b.end[columns]) & (b.start[columns] < a.end[rows][:, None])
        if SPACES[space] == "L0C":
            clash &= ~((pipes[one] == pipes[other]) & many[other])
        for at, behind in np.argwhere(clash):
            yield int(rows[at]), int(columns[behind])


def _least_n(step: Step) -> int:
    return min((one.n for one in products(step)), default=0)
