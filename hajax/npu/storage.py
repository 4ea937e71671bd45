"""Which results share storage, which buffers a program may write into, and after which step a slot is let go.

Every output gets storage of its own: a later call may be given it to write into.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch

from hajax.npu.rules.registry import Operation
from hajax.npu.steps import Slot, Step


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """A torch function, its operands (slots, tensors, numbers) and the numbers of its results."""

    name: str
    operation: Operation
    fresh: bool
    operands: tuple[Any, ...]
    results: tuple[int, ...]
    many: bool
    about: str


@dataclasses.dataclass(frozen=True, slots=True)
class Finished:
    """Steps in order, outputs as slots, and the inputs that some step writes into."""

    steps: tuple[Step, ...]
    outputs: tuple[Any, ...]
    written: frozenset[int]


@dataclasses.dataclass(frozen=True, slots=True)
class _Storage:
    """roots: numbers of the buffers that a slot may be part of. plain: it is one of them, or a view without overlaps."""

    roots: frozenset[int]
    plain: bool


def assign(calls: Sequence[Call], inputs: Sequence[int], outputs: Sequence[Any], donated: frozenset[int]) -> Finished:
    """Puts calls into their final form. `donated`: positions among `inputs`."""

    def slots(values: Sequence[Any]) -> list[int]:
        return [x.number for x in values if isinstance(x, Slot)]

    last: dict[int, int] = dict.fromkeys(inputs, -1)
    for index, call in enumerate(calls):
        for number in (*call.results, *slots(call.operands)):
            last[number] = index
    end = len(calls)
    for number in slots(outputs):
        last[number] = end

    held: dict[int, _Storage] = {number: _Storage(frozenset((number,)), True) for number in inputs}
    owned = {inputs[position] for position in donated}
    sharers: dict[int, set[int]] = {number: {number} for number in inputs}
    written: set[int] = set()
    steps: list[Step] = []

    def free_to_write(call: Call, index: int) -> bool:
        operand = call.operands[call.operation.target]
        if call.operation.in_place is None or not isinstance(operand, Slot):
            return False
        mine = held[operand.number]
        others = [x for i, x in enumerate(call.operands) if i != call.operation.target]
        return (
            mine.plain
            and mine.roots <= owned
            and all(last[number] <= index for root in mine.roots for number in sharers[root])
            and not any(mine.roots & held[number].roots for number in slots(others))
        )

    for index, call in enumerate(calls):
        operation, in_place = call.operation, free_to_write(call, index)
        for position, number in enumerate(call.results):
            if in_place and position == operation.result:
                held[number] = held[call.operands[operation.target].number]
                written |= held[number].roots
            elif call.fresh:
                held[number] = _Storage(frozenset((number,)), True)
                owned.add(number)
            else:
                sources = slots(call.operands)
                roots = frozenset().union(*(held[x].roots for x in sources)) if sources else frozenset((number,))
                held[number] = _Storage(roots, operation.view and held[sources[0]].plain if sources else False)
            for root in held[number].roots:
                sharers.setdefault(root, set()).add(number)
        function = operation.in_place if in_place else operation.run
        assert function is not None
        used = dict.fromkeys((*slots(call.operands), *call.results))
        frees = tuple(number for number in used if last[number] == index and (number not in call.results))
        results = tuple(number if last[number] > index else None for number in call.results)
        steps.append(Step(call.name, function, call.operands, results, call.many, frees, operation.syncs, call.about))

    count = max((*inputs, *(n for call in calls for n in call.results)), default=-1) + 1
    made = {number for call in calls if call.fresh for number in call.results}
    sharing = [held[value.number].roots if isinstance(value, Slot) else frozenset[int]() for value in outputs]
    final: list[Slot] = []
    for value, roots in zip(outputs, sharing, strict=True):
        mine = isinstance(value, Slot) and held[value.number].plain and roots <= owned
        if mine and sum(bool(roots & others) for others in sharing) == 1:
            if value.number in made:  # row-major, or as torch likes it
                final.append(value)
                continue
            own: Any = _contiguous
        else:
            own = _copy
        steps.append(Step(own.__name__.strip("_"), own, (value,), (count,), False, (), False, "an output"))
        final.append(Slot(count))
        count += 1
    positions = {number: position for position, number in enumerate(inputs)}
    return Finished(tuple(steps), tuple(final), frozenset(positions[root] for root in written if root in positions))


def _copy(x: torch.Tensor) -> torch.Tensor:
    return x.clone(memory_format=torch.contiguous_format)


def _contiguous(x: torch.Tensor) -> torch.Tensor:
    return x.contiguous()
