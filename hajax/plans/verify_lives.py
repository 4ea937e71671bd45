"""Whether every read finds what its own buffer holds: runs chunks by ownership of bytes instead of values.

Two buffers may share addresses as long as nobody reads one after the other has been written; that is what is tried here.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hajax.plans.program import SPACES, Program
from hajax.plans.verify_pieces import SECTIONS, Array, Touched

SETUP, FINISH = 0, 63  # moments; chunks lie between them
MOMENTS = 64
_NOBODY = -1


@dataclass(frozen=True, slots=True)
class _Walk:
    """Steps of one item in their order: which, with which version, and at which moment."""

    steps: Array
    odd: Array
    moments: Array


def verify_lives(program: Program, where: str, touched: Touched) -> None:
    """Raises ValueError for a read of bytes that another buffer, another chunk or nobody has written."""
    held = np.full(len(touched.spaces), _NOBODY)  # of each piece, what is there: owner * MOMENTS + moment
    for again, chunks in enumerate((1, program.stages + 1)):  # of two items: a single one, and more than there are stages
        if again:
            held = _lasting(program, touched, held)
        held = _run(program, where, touched, _walk(program, touched, chunks, bool(again)), held)


def _walk(program: Program, touched: Touched, chunks: int, again: bool) -> _Walk:
    """again: the item before it on the core ran the same program."""
    setup = [number for number, step in enumerate(program.setup) if not (step.first and again)]
    steps = [setup]
    odd = [[int(program.setup[number].last) for number in setup]]
    moments = [[SETUP] * len(setup)]
    marks = [(step.stage, step.first, step.last) for step in program.body]
    start = touched.start["body"]
    for iteration in range(chunks + program.stages - 1):
        there = [
            (start + number, iteration - stage)
            for number, (stage, first, last) in enumerate(marks)
            if 0 <= iteration - stage < chunks
            and (iteration == stage or not first)
            and (iteration - stage == chunks - 1 or not last)
        ]
        steps.append([number for number, _ in there])
        odd.append([chunk & 1 for _, chunk in there])
        moments.append([chunk + 1 for _, chunk in there])
    finish = len(program.finish)
    steps.append(list(range(touched.start["finish"], touched.start["finish"] + finish)))
    odd.append([chunks - 1 & 1] * finish)
    moments.append([FINISH] * finish)
    return _Walk(*(np.array(list(itertools.chain(*each)), np.int64) for each in (steps, odd, moments)))


def _run(program: Program, where: str, touched: Touched, walk: _Walk, held: Array) -> Array:
    """What is in each piece after an item. Raises ValueError for the first read that finds something else than it should."""
    rows, place = touched.rows(walk.steps, walk.odd)
    piece, write, mine = touched.piece[rows], touched.write[rows], touched.owner[rows] * MOMENTS
    written = mine + walk.moments[place]
    number = np.arange(len(rows))
    last = np.maximum.accumulate(np.where(write, number, -1))  # a read's last write, if that is one of the same piece
    known = (last >= 0) & (piece[last] == piece)
    found = np.where(known, written[last], held[piece])
    right = np.where(touched.kept[rows], (mine <= found) & (found <= written), (found == written) | (found == mine + SETUP))
    if not (right | write).all():
        wrong = np.flatnonzero(~(right | write))
        at = wrong[np.argmin(place[wrong])]
        _refuse(program, where, touched, int(walk.steps[place[at]]), int(rows[at]), int(written[at]), int(found[at]))
    after = held.copy()
    ends = np.flatnonzero(np.append(piece[1:] != piece[:-1], True)) if len(rows) else number
    after[piece[ends]] = np.where(known[ends], written[last[ends]], held[piece[ends]])
    return after


def _lasting(program: Program, touched: Touched, held: Array) -> Array:
    """Between two items of a program only what setup writes for the first one lasts, as long as it is still whole."""
    numbers = np.array([number for number, step in enumerate(program.setup) if step.first], np.int64)
    odd = np.array([int(program.setup[number].last) for number in numbers], np.int64)
    rows, _ = touched.rows(numbers, odd)
    rows = rows[touched.write[rows]]
    kept = rows[held[touched.piece[rows]] == touched.owner[rows] * MOMENTS + SETUP]
    after = np.full_like(held, _NOBODY)
    after[touched.piece[kept]] = held[touched.piece[kept]]
    return after


def _refuse(program: Program, where: str, touched: Touched, number: int, row: int, wanted: int, found: int) -> None:
    section = max(SECTIONS, key=lambda name: (touched.start[name] <= number, touched.start[name]))
    at = number - touched.start[section]
    step = getattr(program, section)[at]
    names = [name for buffer in program.buffers for name in (buffer.name, f"{buffer.name} (odd)")]
    raise ValueError(
        f"{where}.{section}[{at}] ({step.label or step.opcode}): expected {_tell(wanted, names)}"
        f"{' or of an earlier chunk' if touched.kept[row] else ''} in {SPACES[touched.spaces[touched.piece[row]]]}, "
        f"got {_tell(found, names)}"
    )


def _tell(owner: int, names: Sequence[str]) -> str:
    if owner < 0:
        return "bytes that nobody has written"
    number, moment = divmod(owner, MOMENTS)
    when = {SETUP: "setup", FINISH: "finish"}.get(moment, f"chunk {moment - 1}")
    return f"bytes of {names[number]} of {when}"
