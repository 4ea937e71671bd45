"""What the steps of the cube and the vector unit mean, with the roundings of the emulated chip.

fp16 results are to nearest even and saturate at 65504; products that are added to something are rounded first.
"""

from collections.abc import Callable

import numpy as np

from hajax.plans.footprint import VECTOR, Dims, Product, footprint, products
from hajax.plans.interpret_memory import Array, Memory
from hajax.plans.interpret_moves import Meaning, Spot, to_half
from hajax.plans.program import Operand, Step

_BLOCK = 32
_SIDE = 16
_HALF, _FULL = 512, 1024  # bytes of a fractal
_NO_DIMS = Dims(0, 0)  # vector steps depend on none
_FLOAT, _DOUBLE = np.float32, np.float64


def multiply(step: Step, memory: Memory, odd: bool) -> Meaning:
    """The products of an mmad step: of the high parts, then with the low part of either side."""
    rounds = [(0, 0, bool(step.p[6] & 1))]
    rounds += [(0, step.index, False)] if step.index else []
    rounds += [(step.p[7], 0, False)] if step.p[7] else []
    each = [_round(step, memory, odd, left, right, overwrites) for left, right, overwrites in rounds]

    def meaning(spot: Spot) -> None:
        for one in each:
            one(spot)

    return meaning


def _round(step: Step, memory: Memory, odd: bool, left: int, right: int, overwrites: bool) -> Meaning:
    """Products one after the other unless they are alike and cannot meet; operands `left` and `right` fractals further on."""
    alike = not step.p[6] & (2 | 8 | 16 | 32 | 64)
    if alike and (step.count == 1 or step.p[3] >= step.p[0] * step.p[1]):
        return _products(step, memory, odd, Product(0, left, right, step.p[1], step.p[2]), step.count, overwrites)
    moved = [Product(one.dst, one.src0 + left, one.src1 + right, one.n, one.k) for one in products(step)]
    each = [_products(step, memory, odd, product, 1, overwrites) for product in moved]

    def meaning(spot: Spot) -> None:
        for product in each:
            product(spot)

    return meaning


def _products(step: Step, memory: Memory, odd: bool, first: Product, count: int, overwrites: bool) -> Meaning:
    """`count` products like the first one, side by side."""
    m, n, k = step.p[0], first.n, first.k
    strides = ((step.p[4] * _HALF, k * _HALF, _HALF, 32, 2), (step.p[5] * _HALF, n * _HALF, _HALF, 2, 32))
    a = memory.view(step.src0, odd, np.float16, (count, m, k, _SIDE, _SIDE), strides[0], first.src0 * _HALF)
    b = memory.view(step.src1, odd, np.float16, (count, k, n, _SIDE, _SIDE), strides[1], first.src1 * _HALF)
    result = (step.p[3] * _FULL, m * _FULL, 64, 4)
    c = memory.view(step.dst, odd, np.float32, (count, n, m * _SIDE, _SIDE), result, first.dst * _FULL)

    def meaning(_: Spot) -> None:
        # A column of fractals at a time, as they lie in L0C: larger products would wake BLAS's threads for too little work.
        left = a.transpose(0, 1, 3, 2, 4).astype(_FLOAT).reshape(count, 1, m * _SIDE, k * _SIDE)
        right = b.transpose(0, 2, 1, 3, 4).astype(_FLOAT).reshape(count, n, k * _SIDE, _SIDE)
        product = np.matmul(left, right)
        c[...] = product if overwrites else c + product

    return meaning


_FUNCTIONS: dict[str, Callable[..., Array]] = {
    "add32": np.add,
    "sub32": np.subtract,
    "mul32": np.multiply,
    "div32": np.divide,
    "max32": np.maximum,
    "min32": np.minimum,
    "mla32": lambda x, y, d: x * y + d,
    "exp32": lambda x: np.exp(x.astype(_DOUBLE)).astype(_FLOAT),
    "ln32": lambda x: np.log(x.astype(_DOUBLE)).astype(_FLOAT),
    "rsqrt32": lambda x: (1 / np.sqrt(x.astype(_DOUBLE))).astype(_FLOAT),
    "sqrt32": np.sqrt,
    "muls32": np.multiply,
    "adds32": np.add,
    "maxs32": np.maximum,
    "mins32": np.minimum,
    "axpy32": lambda x, s, d: s * x + d,
    "axpy16": lambda x, s, d: s.astype(_FLOAT) * x.astype(_FLOAT) + d,
    "to16": to_half,
    "to32": lambda x: x.astype(_FLOAT),
    "dup32": lambda s: s,
    "dup16": lambda s: s,
    "mul16": lambda x, y: to_half(x.astype(_FLOAT) * y.astype(_FLOAT)),
    "add16": lambda x, y: to_half(x.astype(_FLOAT) + y.astype(_FLOAT)),
    "sub16": lambda x, y: to_half(x.astype(_FLOAT) - y.astype(_FLOAT)),
    "muls16": lambda x, s: to_half(x.astype(_FLOAT) * s.astype(_FLOAT)),
}
_SCALAR = ("muls32", "adds32", "maxs32", "mins32", "axpy32", "axpy16", "dup32", "dup16", "muls16")
_HALF_SCALAR = ("axpy16", "dup16", "muls16")


def compute(step: Step, memory: Memory, odd: bool, mask: tuple[int, int], scalar: float) -> Meaning:
    """The meaning of a vector step; `mask` and `scalar` are those that it names."""
    lanes = VECTOR[step.opcode]
    operands = ((step.src0, lanes.src0, 1), (step.src1, lanes.src1, 2))
    sources = [_repeats(step, memory, odd, operand, element, at) for operand, element, at in operands if element]
    active = _active(mask, lanes.count)
    if lanes.sums:
        return _sums(memory.view(step.dst, odd, _FLOAT, (step.size,)), sources[0], active)
    dst = _repeats(step, memory, odd, step.dst, lanes.dst, 0)
    shape = (-1, *dst.shape[1:])  # where widths are mixed, a source's blocks are cut like those of dst
    where = None if active.all() else active.reshape(1, *dst.shape[1:])
    scalars = _scalars(step.opcode, scalar)
    added = [dst] if lanes.adds else []
    function = _FUNCTIONS[step.opcode]
    parts = [slice(None)] if _independent(step, len(sources)) else [slice(i, i + 1) for i in range(step.size)]

    def meaning(_: Spot) -> None:
        for part in parts:
            result = function(*(source[part].reshape(shape) for source in sources), *scalars, *(d[part] for d in added))
            np.copyto(dst[part], result, where=True if where is None else where)

    return meaning


def _scalars(opcode: str, scalar: float) -> list[Array]:
    """The scalar operand as the instruction takes it: fp16 where src0 is."""
    if opcode not in _SCALAR:
        return []
    return [to_half(np.asarray(scalar, _FLOAT)) if opcode in _HALF_SCALAR else np.asarray(scalar, _FLOAT)]


def _repeats(step: Step, memory: Memory, odd: bool, operand: Operand | None, element: int, at: int) -> Array:
    """[repeats, blocks, elements of a block], in the operand's strides. fp16 beside fp32 has half as many blocks."""
    lanes = VECTOR[step.opcode]
    blocks, inside = lanes.blocks(element), _BLOCK // element
    strides = (step.p[3 + at] * _BLOCK, step.p[at] * _BLOCK, element)
    return memory.view(operand, odd, np.float16 if element == 2 else _FLOAT, (step.size, blocks, inside), strides)


def _active(mask: tuple[int, int], lanes: int) -> Array:
    return np.array([mask[lane // 64] >> lane % 64 & 1 for lane in range(lanes)], np.bool_)


def _independent(step: Step, sources: int) -> bool:
    """Whether no repeat can meet another one's result, so that all of them may be computed at once."""
    if step.size > 1 and (step.p[3] == 0 or step.p[0] == 0):
        return False
    accesses = footprint(step, _NO_DIMS)
    target = accesses[-1]
    for access, at in zip(accesses[:sources], (1, 2), strict=False):
        meets = access.buffer == target.buffer and access.start < target.end and target.start < access.end
        same = access.start == target.start and (step.p[at], step.p[3 + at]) == (step.p[0], step.p[3])
        if meets and not same:
            return False
    return True


def _sums(target: Array, source: Array, active: Array) -> Meaning:
    """Of each repeat, as a binary tree over neighbours; lanes that are off add nothing."""

    def meaning(_: Spot) -> None:
        values = np.where(active, source.reshape(source.shape[0], -1), _FLOAT(0))
        while values.shape[1] > 1:
            values = values[:, 0::2] + values[:, 1::2]
        target[...] = values[:, 0]

    return meaning
