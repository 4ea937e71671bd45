"""Whether flags and barriers order every dependent pair of steps. Knows pipes, flags and addresses, nothing of who set them.

A pipe runs its steps in order but starts one before the last has ended; only a barrier, or a flag that went to another pipe and
came back, says that a step is over. Sections end with a barrier of all pipes, iterations too unless they carry flags.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hajax import abi
from hajax.plans.footprint import pipe, products
from hajax.plans.program import SPACES, Flag, Program, Step
from hajax.plans.verify_pieces import SECTIONS, Array, Touched
from hajax.targets import NpuTarget

ITERATIONS = 4  # that are run without barriers between them: what orders any two of these orders later ones
PIPES = ("S", "MTE2", "MTE1", "M", "V", "MTE3")
_NOTHING = -1
_L0C = SPACES.index("L0C")


@dataclass(frozen=True, slots=True)
class _Part:
    """A section, or an iteration of the body, as it runs: its first step's number, and of each of its steps its pipe and the
    last one of each pipe that is over when it starts."""

    section: str
    steps: tuple[Step, ...]
    start: int
    pipes: Array
    known: Array


def verify_order(program: Program, where: str, target: NpuTarget, touched: Touched) -> None:
    """Raises ValueError for the first pair of steps that nothing orders, and for flags that do not pair up.

    What is over when a step starts includes what was over when steps before it started, so neighbours at a piece are enough.
    """
    for name in SECTIONS:
        for number, step in enumerate(getattr(program, name)):
            _check_products(step, f"{where}.{name}[{number}]", target)
    ids = min(target.flags_per_pair, target.first_reserved_flag)
    if program.carried:
        parts = _run(("setup", *["body"] * ITERATIONS, "finish"), program, where, ids)
        setup, body, finish = parts[:1], parts[1:-1], parts[-1:]
    else:
        setup, body, finish = (_run((name,), program, where, ids) for name in SECTIONS)
    parities = (0,) if program.carried else (0, 1)  # several iterations have both, and the first one is even
    for run, odds in ((setup, (0,)), (body, parities), (finish, (0, 1))):
        for odd in odds:
            _check(run, odd, where, touched, _many(run[0].steps, target))


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


def _check(run: Sequence[_Part], odd: int, where: str, touched: Touched, many: Array) -> None:
    """Of parts of one section that follow one another, the first in this parity of the iteration.

    Neighbours are found as in `passes.dependencies.edges`, and apart from it, so that a fault there shows here.
    """
    section, steps, count = run[0].section, run[0].steps, len(run[0].steps)
    if not count:
        return
    first = touched.start[section]
    numbers = np.concatenate([np.arange(first, first + count) for _ in run])
    versions = np.concatenate([_second(steps, section, odd + iteration) for iteration in range(len(run))])
    pipes, known = np.concatenate([part.pipes for part in run]), np.concatenate([part.known for part in run])
    rows, place = touched.rows(numbers, versions)
    piece, write, number = touched.piece[rows], touched.write[rows], np.arange(len(rows))
    last = np.maximum.accumulate(np.where(write, number, -1))
    before = np.concatenate(([-1], last))[:-1]  # of each access, the last write in front of it
    following = np.minimum.accumulate(np.where(write, number, len(rows))[::-1])[::-1]  # of a read, the first write behind it
    later = np.concatenate((number, following[~write]))
    earlier = np.concatenate((before, number[~write]))
    there = (earlier >= 0) & (later < len(rows))
    later, earlier = later[there], earlier[there]
    alike = piece[later] == piece[earlier]
    at, one, other = piece[later][alike], place[earlier[alike]], place[later[alike]]
    clash = (one != other) & (run[0].start + one > known[other, pipes[one]])
    clash &= ~((touched.spaces[at] == _L0C) & (pipes[one] == pipes[other]) & many[other % count])
    if clash.any():
        found = np.flatnonzero(clash)
        pair = found[np.lexsort((one[found], other[found]))[0]]
        step, behind = int(other[pair]) % count, int(one[pair]) % count
        before_it = "" if other[pair] // count == one[pair] // count else " of an iteration before"
        raise ValueError(
            f"{where}.{section}[{step}] {_tell(steps[step])}: expected to start after step {behind} {_tell(steps[behind])}"
            f"{before_it}, with which it shares bytes of {SPACES[touched.spaces[at[pair]]]}; no flag or barrier orders them"
        )


def _second(steps: Sequence[Step], section: str, iteration: int) -> Array:
    """Whether each step uses second versions: the step's own chunk decides in the body."""
    if section == "body":
        return np.array([iteration + step.stage & 1 for step in steps], np.int64)
    return np.array([step.last if section == "setup" else iteration & 1 for step in steps], np.int64)


def _many(steps: Sequence[Step], target: NpuTarget) -> Array:
    """Whether each step is one of products so large that the next one needs no barrier."""
    return np.array([step.opcode == "mmad" and step.p[0] * _least_n(step) >= target.cube_barrier_tiles for step in steps], bool)


def _least_n(step: Step) -> int:
    return min((one.n for one in products(step)), default=0)
