"""Which bytes that the launches of a plan have moved a later one finds in L2. Modelled, and simpler than a cache:

bytes are there if no more than L2 holds was touched since, which the chunks' places in their cores' work tell; of bytes that
several cores read side by side, each misses its share; what is written for the first time misses.
"""

import functools
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from hajax.passes.gm_traffic import Move, Piece, Place, Tensor, Traffic
from hajax.plans.program import Item

_OF_KEY_HEADS = ("query", "key")
_REMEMBERED = 4  # launches that touched the same bytes
_SAMPLES = 8  # chunks of a piece whose way through L2 is looked at

_Before = tuple[tuple[int, tuple[int, ...]], ...]  # launches that touched the same bytes, and which of their programs did


@dataclass(frozen=True, slots=True)
class _Past:
    """A launch: its cores' pieces, programs and the columns from which they work, and the bytes that it touches, each once."""

    cores: list[list[Piece]]
    used: tuple[tuple[int, int], ...]
    bytes: float


class Reuse:
    """Launches one after the other, and what the last one of them finds in L2."""

    def __init__(self, traffic: Sequence[Traffic], columns: Sequence[int], grouped: int, l2_bytes: int):
        """columns: from which items may work."""
        self._traffic, self._grouped, self._l2 = traffic, grouped, float(l2_bytes)
        self._past: list[_Past] = []
        self._sums = [0.0]  # of their bytes, up to each
        cuts: dict[str, set[int]] = {}
        for move in {move for one in traffic for move in one.moves}:
            for column in columns:
                cuts.setdefault(move.tensor[0], set()).update(move.place(column)[1:])
        # By name, where places begin and end, and of each part between what touched it before.
        self._cuts = {name: sorted(found) for name, found in cuts.items()}
        self._before: dict[str, list[_Before]] = {name: [() for _ in found] for name, found in cuts.items()}
        self._shares: dict[Tensor, float] = {}
        self._spans = functools.cache(self._spans_of)
        self._lost = functools.cache(self._lost_of)

    def launch(self, cores: list[list[Piece]]) -> None:
        """The next one."""
        if self._past:
            self._remember(len(self._past) - 1, self._past[-1].used)
        self._shares = self._shares_of(cores, apart=False)
        if self._bytes(cores) > self._l2:
            self._shares = self._shares_of(cores, apart=True)
        used = tuple(sorted({(piece.item.program, piece.item.column) for core in cores for piece in core}))
        self._past.append(_Past(cores, used, self._bytes(cores)))
        self._sums.append(self._sums[-1] + self._past[-1].bytes)

    def missed(self, move: Move, piece: Piece) -> float:
        """Of what a piece of this launch moves, the share that is not in L2."""
        place = move.place(piece.item.column)
        before, whole, sizes = self._before[place[0]], 0, dict[_Before, int]()
        earlier = (one.place(piece.item.column) for one in self._traffic[piece.item.program].earlier.get(move, ()))
        there = {at for one in earlier for at, _ in self._parts(one)}
        for at, size in self._parts(place):
            whole += size
            if at not in there:
                sizes[before[at]] = sizes.get(before[at], 0) + size
        number, grouped = len(self._past), self._head_of(move.tensor)
        lost = sum(self._lost(number, piece, by, grouped) * size for by, size in sizes.items()) / whole
        return lost if move.write else self._shares[move.tensor] * lost

    def gone(self, move: Move) -> bool:
        """Whether this launch finds nothing of what the items of a program keep."""
        place = move.place(0)
        before = [self._before[place[0]][at] for at, _ in self._parts(place)]
        return not all(before) or any(self._since(by[-1][0], 1.0, 0.0) > self._l2 for by in before)

    def _parts(self, place: Place) -> list[tuple[int, int]]:
        """By number, with their bytes."""
        cuts = self._cuts[place[0]]
        return [(at, cuts[at + 1] - cuts[at]) for at in range(bisect_left(cuts, place[1]), bisect_left(cuts, place[2]))]

    def _remember(self, number: int, used: tuple[tuple[int, int], ...]) -> None:
        """What the programs of a launch touched."""
        touched: dict[tuple[str, int], dict[int, None]] = {}
        for program, column in used:
            for place in {move.place(column) for move in self._traffic[program].moves}:
                for at, _ in self._parts(place):
                    touched.setdefault((place[0], at), {})[program] = None
        for (name, at), programs in touched.items():
            self._before[name][at] = (*self._before[name][at][-_REMEMBERED + 1 :], (number, tuple(programs)))

    def _head_of(self, tensor: Tensor) -> int:
        """Value heads that share one head of a tensor."""
        return self._grouped if tensor[0] in _OF_KEY_HEADS else 1

    def _lost_of(self, number: int, piece: Piece, by: _Before, grouped: int) -> float:
        if not by:
            return 1.0
        step, lost = -(-piece.chunks // _SAMPLES), list[bool]()
        for at in range(step // 2, piece.chunks, step):
            when = piece.begin + (at + 0.5) / piece.chunks * (piece.end - piece.begin)
            lost.append(self._is_lost(by, grouped, piece.item, piece.item.first_chunk + at, when))
        return sum(lost) / len(lost)

    def _is_lost(self, by: _Before, grouped: int, item: Item, chunk: int, when: float) -> bool:
        for past, programs in reversed(by):
            for first, chunks, begin, end in self._spans(past, programs, grouped).get((item.sequence, item.head // grouped), ()):
                if first <= chunk < first + chunks:
                    then = begin + (chunk - first + 0.5) / chunks * (end - begin)
                    return self._since(past, then, when) > self._l2
        return True

    def _since(self, past: int, then: float, when: float) -> float:
        """Bytes touched from this place in a launch of the past to that in the last one."""
        between = self._sums[-2] - self._sums[past + 1]
        return (1 - then) * self._past[past].bytes + between + when * self._past[-1].bytes

    def _spans_of(
        self, number: int, programs: tuple[int, ...], grouped: int
    ) -> dict[tuple[int, int], list[tuple[int, int, float, float]]]:
        """By sequence and head, which chunks such programs work on in a launch, and when."""
        spans: dict[tuple[int, int], list[tuple[int, int, float, float]]] = {}
        for piece in (piece for core in self._past[number].cores for piece in core):
            item = piece.item
            if item.program in programs:
                for tensor_head in {(item.head + one) // grouped for _, one in self._traffic[item.program].heads}:
                    found = spans.setdefault((item.sequence, tensor_head), [])
                    found.append((item.first_chunk, piece.chunks, piece.begin, piece.end))
        return spans

    def _shares_of(self, cores: list[list[Piece]], apart: bool) -> dict[Tensor, float]:
        """By tensor, of the bytes that items move, the part that none has moved before. apart: only what cores do side by side
        is found.
        """
        every: dict[Tensor, int] = {}
        ranges: dict[Tensor, dict[tuple[int, ...], list[tuple[int, int]]]] = {}
        for piece in (piece for core in cores for piece in core):
            item = piece.item
            for tensor, head in self._traffic[item.program].heads:
                at = piece.round if apart else 0, item.column if tensor[1] else 0
                of = (item.sequence, (item.head + head) // self._head_of(tensor), *at)
                every[tensor] = every.get(tensor, 0) + piece.chunks
                ends = item.first_chunk, item.first_chunk + piece.chunks
                ranges.setdefault(tensor, {}).setdefault(of, []).append(ends)
        return {tensor: sum(map(_union, of.values())) / every[tensor] for tensor, of in ranges.items()}

    def _bytes(self, cores: list[list[Piece]]) -> float:
        each: dict[int, tuple[float, ...]] = {}
        total = 0.0
        for piece in (piece for core in cores for piece in core):
            program = piece.item.program
            if program not in each:
                both = self._traffic[program].body, self._traffic[program].ends
                each[program] = tuple(sum(self._shares[move.tensor] * size for move, size in of.items()) for of in both)
            total += piece.chunks * each[program][0] + each[program][1]
        return total


def _union(ranges: list[tuple[int, int]]) -> int:
    """How many numbers are in any of these."""
    found, until = 0, 0
    for first, end in sorted(ranges):
        found += max(0, end - max(first, until))
        until = max(until, end)
    return found
