"""Which blocks of 32 bytes a step touches, gaps left out: integers with a bit for each block of a buffer."""

import functools
from collections.abc import Sequence

from hajax.plans.footprint import UNIT, VECTOR, Dims, footprint, groups, products, wide
from hajax.plans.program import Operand, Step

Blocks = tuple[str, int, bool]  # a buffer, its blocks as bits, written
_Exact = tuple[Operand | None, int, bool]  # blocks from the operand's start on
_OVERWRITES = 1  # of an mmad's p[6]
_HALF, _FULL = 16, 32  # blocks of a fractal of fp16 and of fp32


@functools.lru_cache(maxsize=4096)  # every pass asks for those of every step
def block_masks(step: Step, dims: Dims, lanes: tuple[int, int]) -> tuple[Blocks, ...]:
    """What the step touches, reads before writes. lanes: its vector mask."""
    exact = _vector(step, lanes) if step.opcode in VECTOR else _moved(step)
    if exact is None:
        exact = [
            (Operand(one.buffer, one.start), _run(-(-(one.start % UNIT + one.end - one.start) // UNIT)), one.write)
            for one in footprint(step, dims)
        ]
    found = []
    for operand, bits, write in exact:
        if operand is None or operand.offset < 0:
            raise ValueError(f"step {step.label or step.opcode!r}: expected operands at offsets from 0 on, got {operand}")
        found.append((operand.buffer, bits << operand.offset // UNIT, write))
    return tuple(found)


def _run(count: int) -> int:
    return (1 << count) - 1


def _series(bits: int, count: int, distance: int) -> int:
    """`count` times the same blocks, at equal distances."""
    if count <= 1 or distance == 0:
        return bits if count else 0
    if distance >= bits.bit_length():
        return bits * (_run(distance * count) // _run(distance))
    return _moved_by(bits, [number * distance for number in range(count)])


def _moved_by(bits: int, distances: Sequence[int]) -> int:
    found = 0
    for distance in distances:
        found |= bits << distance
    return found


def _moved(step: Step) -> list[_Exact] | None:
    """By operand, from its start on; None: all of the footprint."""
    match step.opcode:
        case "load_a" | "load_b":
            low = wide(step.p, 5)
            source = _moved_by(_series(_run(_HALF), step.size, step.p[0] * _HALF), [at * _HALF for at in groups(step)])
            target = _series(_run(step.size * _HALF), step.count, step.p[3] * _HALF)
            return [(step.src0, _with_low(source, low), False), (step.dst, _with_low(target, step.p[7] if low else 0), True)]
        case "l1_to_ub" | "ub_to_l1":
            source, target = (_series(_run(step.size), step.count, step.size + wide(step.p, at)) for at in (0, 2))
            return [(step.src0, source, False), (step.dst, target, True)]
        case "c_to_ub32" | "c_to_ub16" | "ub_to_c32":
            written = _HALF if step.opcode == "c_to_ub16" else _FULL
            pairs = ((step.p[0], _FULL), (step.p[1], written))
            source, target = (_series(_run(step.size * width), step.count, (step.size + gap) * width) for gap, width in pairs)
            return [(step.src0, source, False), (step.dst, target, True)]
        case "mmad":
            return _product_operands(step)
    return None


def _product_operands(step: Step) -> list[_Exact]:
    m, left, right, result = step.p[0], 0, 0, 0
    for one in products(step):
        left |= _run(m * one.k * _HALF) << one.src0 * _HALF
        right |= _run(one.k * one.n * _HALF) << one.src1 * _HALF
        result |= _run(m * one.n * _FULL) << one.dst * _FULL
    added: list[_Exact] = [] if step.p[6] & _OVERWRITES else [(step.dst, result, False)]
    factors = [(step.src0, _with_low(left, step.p[7]), False), (step.src1, _with_low(right, step.index), False)]
    return [*factors, *added, (step.dst, result, True)]


def _with_low(bits: int, fractals: int) -> int:
    """With the same blocks of a low part, so many fractals further on; 0: there is none."""
    return bits | bits << fractals * _HALF


def _vector(step: Step, lanes: tuple[int, int]) -> list[_Exact]:
    kinds = VECTOR[step.opcode]
    operands = ((step.src0, kinds.src0, 1), (step.src1, kinds.src1, 2))
    found: list[_Exact] = [(one, _repeats(step, lanes, at, element), False) for one, element, at in operands if element]
    if kinds.sums:
        start = step.dst.offset % UNIT if step.dst else 0
        return [*found, (step.dst, _run(-(-(start + 4 * step.size) // UNIT)), True)]
    written = _repeats(step, lanes, 0, kinds.dst)
    return [*found, *([(step.dst, written, False)] if kinds.adds else []), (step.dst, written, True)]


def _repeats(step: Step, lanes: tuple[int, int], at: int, element: int) -> int:
    kinds = VECTOR[step.opcode]
    on, each = lanes[0] | lanes[1] << 64, kinds.count // kinds.blocks(element)
    active = [number for number in range(kinds.blocks(element)) if on >> number * each & _run(each)]
    return _series(_moved_by(1, [number * step.p[at] for number in active]), step.size, step.p[3 + at])
