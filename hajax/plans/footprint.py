"""Which bytes of which buffers a step reads and writes, and on which pipe: properties of the opcodes, read from its fields.

An access is the half-open interval around all that a step touches there; with a reduced mask it is that of the full one.
"""

import functools
from dataclasses import dataclass
from types import MappingProxyType

from hajax import abi
from hajax.plans.program import Operand, Step

UNIT = abi.constant("HJ_ADDRESS_UNIT")
HALF_FRACTAL, FULL_FRACTAL = 512, 1024  # bytes of 16 x 16 fp16 and fp32 elements
BLOCKS = 8  # blocks of 32 bytes in a repeat; half as many on the fp16 side of an instruction that mixes widths


@dataclass(frozen=True, slots=True)
class Dims:
    """What sizes of steps depend on, beside their own fields: tokens of a chunk, and the state's rows."""

    chunk: int
    key_dim: int


@dataclass(frozen=True, slots=True)
class Access:
    """Bytes start .. end - 1 of a buffer, counted from its start."""

    buffer: str
    start: int
    end: int
    write: bool


@dataclass(frozen=True, slots=True)
class Lanes:
    """The operands of a vector opcode: bytes of an element of each (0: not there), and whether it adds to dst."""

    dst: int
    src0: int = 0
    src1: int = 0
    adds: bool = False
    sums: bool = False

    @property
    def count(self) -> int:
        """Lanes of a repeat: 64, or 128 where every operand is fp16."""
        return 64 if 4 in (self.dst, self.src0, self.src1) else 128

    def blocks(self, element: int) -> int:
        """Blocks of 32 bytes that a repeat of an operand has."""
        return self.count * element // UNIT


_BINARY32, _UNARY32, _BINARY16 = Lanes(4, 4, 4), Lanes(4, 4), Lanes(2, 2, 2)
VECTOR = MappingProxyType(
    {
        **dict.fromkeys(("add32", "sub32", "mul32", "div32", "max32", "min32"), _BINARY32),
        **dict.fromkeys(("exp32", "ln32", "muls32", "adds32", "maxs32", "mins32", "rsqrt32", "sqrt32"), _UNARY32),
        **dict.fromkeys(("mul16", "add16", "sub16"), _BINARY16),
        "mla32": Lanes(4, 4, 4, adds=True),
        "axpy32": Lanes(4, 4, adds=True),
        "axpy16": Lanes(4, 2, adds=True),
        "to16": Lanes(2, 4),
        "to32": Lanes(4, 2),
        "dup32": Lanes(4),
        "dup16": Lanes(2),
        "muls16": Lanes(2, 2),
        "cadd32": Lanes(4, 4, sums=True),
    }
)
_SPACES = MappingProxyType(
    {
        "sync": ("", "", ""),
        **dict.fromkeys(("rows_to_l1", "constant_to_l1", "workspace_to_l1"), ("L1", "", "")),
        **dict.fromkeys(("rows_to_ub", "gate_to_ub", "constant_to_ub", "workspace_to_ub"), ("UB", "", "")),
        **dict.fromkeys(("rows_from_ub", "workspace_from_ub"), ("", "UB", "")),
        **dict.fromkeys(("c_to_ub32", "c_to_ub16"), ("UB", "L0C", "")),
        "load_a": ("L0A", "L1", ""),
        "load_b": ("L0B", "L1", ""),
        "l1_to_ub": ("UB", "L1", ""),
        "ub_to_l1": ("L1", "UB", ""),
        "mmad": ("L0C", "L0A", "L0B"),
        "ub_to_c32": ("L0C", "UB", ""),
    }
)


@functools.cache
def operand_spaces(opcode: str) -> tuple[str, str, str]:
    """The memories of dst, src0 and src1, "" where the opcode has no such operand on the core."""
    if opcode in VECTOR:
        lanes = VECTOR[opcode]
        return ("UB", "UB" if lanes.src0 else "", "UB" if lanes.src1 else "")
    return _SPACES[opcode]


@functools.cache
def _pipes() -> dict[str, str]:
    return {str(row[1]): str(row[2]) for row in abi.rows("opcodes")}


@functools.cache
def _tensors() -> tuple[tuple[str, int], ...]:
    return tuple((str(row[1]), int(row[2])) for row in abi.rows("tensors"))


def pipe(step: Step) -> str:
    """The pipe that runs the step, of pipes.def."""
    return _pipes()[step.opcode]


def wide(p: tuple[int, ...], at: int) -> int:
    """A 16-bit number in two fields of a step, the low one first."""
    return p[at] | p[at + 1] << 8


def chunks_back(step: Step) -> int:
    """How many chunks before its own one a step reads the workspace."""
    return wide(step.p, 2) if step.opcode in ("workspace_to_l1", "workspace_to_ub") else 0


def tile_rows(step: Step, dims: Dims) -> int:
    """Rows of the UB tile of rows_to_ub and rows_from_ub: a chunk's, the state's, or the blocks of the state that it names."""
    if step.p[4] == 0:
        return dims.chunk
    return 16 * step.p[6] if step.p[6] else dims.key_dim


def element_bytes(step: Step) -> int:
    """Bytes of an element of the tensor in p[0], for rows_to_l1 and rows_to_ub."""
    return _tensors()[step.p[0]][1]


def footprint(step: Step, dims: Dims) -> tuple[Access, ...]:
    """What the step touches in the core's memories; GM is left out. Reads come before writes."""
    lanes = VECTOR.get(step.opcode)
    if lanes is not None:
        return _vector(step, lanes)
    match step.opcode:
        case "sync":
            return ()
        case "rows_to_l1":
            return (_access(step.dst, step.count * dims.chunk * UNIT, True),)
        case "rows_to_ub":
            return (_access(step.dst, tile_rows(step, dims) * step.count * 16 * element_bytes(step), True),)
        case "gate_to_ub":
            return (_access(step.dst, dims.chunk * 4, True),)
        case "constant_to_l1" | "constant_to_ub" | "workspace_to_l1" | "workspace_to_ub":
            return (_access(step.dst, step.size * UNIT, True),)
        case "workspace_from_ub":
            return (_access(step.src0, step.size * UNIT, False),)
        case "load_a" | "load_b":
            return _load(step)
        case "l1_to_ub" | "ub_to_l1":
            source, target = (_run(step.count, step.size, step.size + wide(step.p, at)) * UNIT for at in (0, 2))
            return (_access(step.src0, source, False), _access(step.dst, target, True))
        case "mmad":
            return _mmad(step)
        case "c_to_ub32" | "c_to_ub16" | "ub_to_c32":
            source, target = (_run(step.count, step.size, step.size + gap) for gap in step.p[:2])
            written = HALF_FRACTAL if step.opcode == "c_to_ub16" else FULL_FRACTAL
            return (_access(step.src0, source * FULL_FRACTAL, False), _access(step.dst, target * written, True))
        case "rows_from_ub":
            return (_access(step.src0, tile_rows(step, dims) * step.count * 16 * step.p[7], False),)
    raise ValueError(f"step.opcode: expected one of {', '.join(_pipes())}, got {step.opcode!r}")


def _access(operand: Operand | None, size: int, write: bool) -> Access:
    assert operand is not None, "an opcode's operand is missing"
    return Access(operand.buffer, operand.offset, operand.offset + size, write)


def _run(count: int, size: int, distance: int) -> int:
    """From the first to behind the last of `count` things of a size, starting at equal distances."""
    return (count - 1) * distance + size if count > 0 and size > 0 else 0


def groups(step: Step) -> tuple[int, ...]:
    """Of each group of a load_a or load_b step, fractals from the source's start to the group's."""
    distance, grows = wide(step.p, 1), step.p[4] >> 1 & 1
    return tuple(i * distance + grows * (i * (i - 1) // 2) for i in range(step.count))


def _load(step: Step) -> tuple[Access, ...]:
    """Groups of fractals from L1 to L0A or L0B; a group's fractals lie side by side at the destination. Low parts lie apart."""
    group = _run(step.size, 1, step.p[0])
    source = groups(step)[-1] + group if step.count > 0 else 0
    target = _run(step.count, step.size, step.p[3])
    found = []
    low = wide(step.p, 5)
    for source_part, target_part in ((0, 0), (low, step.p[7])) if low else ((0, 0),):
        for operand, moved, size, write in ((step.src0, source_part, source, False), (step.dst, target_part, target, True)):
            assert operand is not None, "an opcode's operand is missing"
            start = operand.offset + moved * HALF_FRACTAL
            found.append(Access(operand.buffer, start, start + size * HALF_FRACTAL, write))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Product:
    """One product of an mmad step: fractals by which its operands have moved, and its sizes in blocks of 16."""

    dst: int
    src0: int
    src1: int
    n: int
    k: int


def products(step: Step) -> tuple[Product, ...]:
    """The products of an mmad step in their order; m is p[0] for all of them."""
    return _products(step.count, step.p)


@functools.lru_cache(maxsize=1024)  # many steps, few kinds of them
def _products(count: int, p: tuple[int, ...]) -> tuple[Product, ...]:
    n, k, dst, src0, src1 = p[1:6]
    if p[6] & 16:
        places = [(i, j) for i in range(count) for j in range(i + 1)]
        return tuple(Product(at * dst, i * src0, j * src1, n, k) for at, (i, j) in enumerate(places))
    k_grows, n_grows, src1_moves, src0_moves = (p[6] >> bit & 1 for bit in (1, 3, 5, 6))
    moved, found = (0, 0, 0), []
    for _ in range(count):
        found.append(Product(*moved, n, k))
        moved = (moved[0] + dst + n_grows * n, moved[1] + src0 + src0_moves * k, moved[2] + src1 + src1_moves * n * k)
        n, k = n + n_grows, k + k_grows
    return tuple(found)


def _mmad(step: Step) -> tuple[Access, ...]:
    m, each = step.p[0], products(step)
    result = max((one.dst + m * one.n for one in each), default=0) * FULL_FRACTAL
    left = (max((one.src0 + m * one.k for one in each), default=0) + step.p[7]) * HALF_FRACTAL
    right = (max((one.src1 + one.k * one.n for one in each), default=0) + step.index) * HALF_FRACTAL
    added = () if step.p[6] & 1 else (_access(step.dst, result, False),)
    return (_access(step.src0, left, False), _access(step.src1, right, False), *added, _access(step.dst, result, True))


def _vector(step: Step, lanes: Lanes) -> tuple[Access, ...]:
    """Repeats of one instruction: blocks and repeats start at the step's strides, in 32 bytes. cadd32 writes a list of sums."""
    found = []
    for operand, element, at in ((step.src0, lanes.src0, 1), (step.src1, lanes.src1, 2)):
        if element:
            found.append(_strided(operand, lanes.blocks(element), step.p[at], step.size, step.p[3 + at], False))
    if lanes.sums:
        return (*found, _access(step.dst, 4 * step.size, True))
    written = _strided(step.dst, lanes.blocks(lanes.dst), step.p[0], step.size, step.p[3], True)
    if lanes.adds:
        found.append(Access(written.buffer, written.start, written.end, False))
    return (*found, written)


def _strided(operand: Operand | None, blocks: int, block: int, repeats: int, repeat: int, write: bool) -> Access:
    last = (blocks - 1) * block + (repeats - 1) * repeat + 1 if repeats > 0 else 0
    return _access(operand, last * UNIT, write)
