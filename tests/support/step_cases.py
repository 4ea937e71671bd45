"""One step or more of every opcode with designed strides, and what each computes, element by element in plain loops."""

import numpy as np

from hajax import abi
from hajax.plans.interpret_memory import Global, Sequence
from hajax.plans.interpret_moves import Spot
from hajax.plans.program import Buffer, Operand, Program, Step

CHUNK, KEY_DIM, VALUE_DIM, HEADS, GROUP = 32, 64, 48, 4, 2
TENSOR = abi.table("tensors")
MASKS = ((2**64 - 1, 2**64 - 1), (0xFFFF, 0), (0x8001_0000_FFFF_00F0, 0x1))
SCALARS = (0.75, -1.5, 1.0e-3)
SIZES = {"l1": 65536, "l0a": 32768, "l0b": 32768, "l0c": 65536, "f32": 65536, "f16": 65536}
SPACE = {"l1": "L1", "l0a": "L0A", "l0b": "L0B", "l0c": "L0C", "f32": "UB", "f16": "UB"}
FLOATS = ("l0c", "f32")
PROGRAM = Program(
    2, 32, tuple(Buffer(name, SPACE[name], size) for name, size in SIZES.items()), (), (), (), MASKS, (0.0, *SCALARS), {}
)
SPOT = Spot(head=2, column=16, sequence=Sequence(token=5, gate=64, tokens=70, state=1), chunk=2, rows=6)
SCALE = 0.625


def o(buffer, offset=0):
    return Operand(buffer, offset)


def p(*numbers):
    return (*numbers, *[0] * (8 - len(numbers)))


def _vector():
    plain = p(1, 1, 1, 8, 8, 8, 1)
    strided = p(2, 1, 3, 16, 9, 24, 2)
    broadcast = p(1, 1, 0, 8, 8, 1, 0)
    for name in ("add32", "sub32", "mul32", "div32", "max32", "min32", "mla32"):
        for number, fields in enumerate((plain, strided, broadcast)):
            yield Step(name, o("f32", 32768), o("f32", 0), o("f32", 16384), size=3, index=number, p=fields)
    yield Step("add32", o("f32", 64), o("f32", 64), o("f32", 32768), size=5, p=plain, label="in place")
    for name in ("exp32", "ln32", "muls32", "adds32", "maxs32", "mins32", "rsqrt32", "sqrt32", "axpy32"):
        for number, fields in enumerate((plain, strided, broadcast)):
            yield Step(name, o("f32", 32768), o("f32", 0), size=3, index=number, p=fields)
    for name in ("mul16", "add16", "sub16"):
        for number, fields in enumerate((plain, strided, broadcast)):
            yield Step(name, o("f16", 32768), o("f16", 0), o("f16", 16384), size=3, index=number, p=fields)
    for number, fields in enumerate((plain, strided)):
        yield Step("muls16", o("f16", 32768), o("f16", 0), size=3, index=number, p=fields)
        yield Step("dup16", o("f16", 32768), size=3, index=number, p=fields)
        yield Step("dup32", o("f32", 32768), size=3, index=number, p=fields)
        yield Step("cadd32", o("f32", 32772), o("f32", 0), size=9, index=number, p=fields)
    for number in (0, 1):
        yield Step("to16", o("f16", 32), o("f32", 32), size=4, index=number, p=p(1, 1, 0, 4, 8, 0, 0))
        yield Step("to16", o("f16", 32), o("f32", 32), size=2, index=number, p=p(2, 3, 0, 9, 30, 0, 0))
        yield Step("to32", o("f32", 32), o("f16", 32), size=4, index=number, p=p(1, 1, 0, 8, 4, 0, 0))
        yield Step("axpy16", o("f32", 32), o("f16", 32), size=3, index=number, p=p(2, 1, 0, 16, 5, 0, 1))


def _moves():
    yield Step("sync")
    yield Step("rows_to_l1", o("l1", 512), count=2, p=p(TENSOR.query, 1, 1))
    yield Step("rows_to_l1", o("l1"), count=1, p=p(TENSOR.value, 0, 1))
    for layout in (0, 1):
        yield Step("rows_to_ub", o("f16", 64), count=2, p=p(TENSOR.value, 1, 0, layout, 0))
        yield Step("rows_to_ub", o("f32", 64), count=3, p=p(TENSOR.log_decay, 1, 1, layout, 0))
        yield Step("rows_to_ub", o("f32", 64), count=2, p=p(TENSOR.state_in, 1, 0, layout, 1))
        yield Step("rows_to_ub", o("f32", 64), count=2, p=p(TENSOR.state_in, 0, 0, layout, 1, 1, 2))
    yield Step("gate_to_ub", o("f32", 32), p=p(TENSOR.beta, 1))
    yield Step("constant_to_l1", o("l1", 32), size=5, constant=3)
    yield Step("constant_to_ub", o("f32", 32), size=5, constant=3)
    yield Step("workspace_to_l1", o("l1", 64), size=7, constant=2, p=p(0, 1))
    yield Step("workspace_to_ub", o("f32", 64), size=7, constant=2, p=p(0, 1))
    yield Step("workspace_from_ub", src0=o("f32", 64), size=7, constant=2, p=p(0, 1))
    yield Step("workspace_to_l1", o("l1", 64), size=7, constant=2, p=p(0, 1, 2, 0, 3))
    yield Step("workspace_to_ub", o("f32", 64), size=7, constant=2, p=p(0, 0, 1, 0, 5))
    yield Step("workspace_from_ub", src0=o("f32", 64), size=7, constant=2, p=p(0, 1, 0, 0, 4))
    for name, to in (("load_a", "l0a"), ("load_b", "l0b")):
        for turns in (0, 1, 2, 3):
            yield Step(name, o(to, 512), o("l1", 1024), count=3, size=4, p=p(2, 9, 0, 5, turns))
        yield Step(name, o(to), o("l1"), count=1, size=3, p=p(0, 0, 1, 0, 0))
        yield Step(name, o(to, 512), o("l1"), count=2, size=3, p=p(1, 4, 0, 3, 1, 20, 0, 8), label="both parts")
    for name, dst, src0 in (("l1_to_ub", "f16", "l1"), ("ub_to_l1", "l1", "f16")):
        yield Step(name, o(dst, 32), o(src0, 96), count=4, size=3, p=p(5, 0, 0, 1))
        yield Step(name, o(dst), o(src0), count=1, size=16)
    for name, dst, src0 in (("c_to_ub32", "f32", "l0c"), ("c_to_ub16", "f16", "l0c"), ("ub_to_c32", "l0c", "f32")):
        yield Step(name, o(dst, 1024), o(src0, 2048), count=3, size=2, p=p(1, 3))
    for layout in (0, 1, 2):
        yield Step("rows_from_ub", src0=o("f16", 32), count=2, p=p(TENSOR.output, 1, 0, layout, 0, 0, 0, 2))
        yield Step("rows_from_ub", src0=o("f32", 32), count=2, p=p(TENSOR.state_out, 1, 0, layout, 1, 0, 0, 4))
        yield Step("rows_from_ub", src0=o("f32", 32), count=1, p=p(TENSOR.state_out, 0, 1, layout, 1, 1, 2, 4))


def _products():
    a, b, c = o("l0a", 512), o("l0b", 1024), o("l0c", 2048)
    for overwrites in (0, 1):
        yield Step("mmad", c, a, b, p=p(2, 3, 2, 0, 0, 0, overwrites))
        yield Step("mmad", c, a, b, count=3, p=p(1, 2, 2, 3, 2, 1, overwrites))
    yield Step("mmad", c, a, b, count=4, p=p(1, 2, 1, 0, 1, 2, 4), label="adds up in one place")
    for bits in (2, 2 | 64, 8, 8 | 32, 2 | 8 | 32 | 64):
        yield Step("mmad", c, a, b, count=3, p=p(1, 2, 1, 1, 1, 2, bits | 1))
    yield Step("mmad", c, a, b, count=4, p=p(1, 1, 3, 2, 3, 1, 16 | 1), label="lower triangle")
    for overwrites in (0, 1):
        yield Step("mmad", c, a, b, index=9, p=p(2, 2, 2, 0, 0, 0, overwrites, 7), label="low parts of both")
        yield Step("mmad", c, a, b, count=2, p=p(1, 2, 2, 3, 2, 1, overwrites, 11), label="of the left one")
        yield Step("mmad", c, a, b, count=2, index=13, p=p(1, 2, 2, 2, 2, 1, overwrites), label="of the right one")


CASES = (*_vector(), *_moves(), *_products())


def contents(seed=0):
    """Bytes of every buffer: numbers of its kind, positive ones first, of many sizes; the cube's are small whole ones."""
    draw = np.random.default_rng(seed)
    made = {}
    for name, size in SIZES.items():
        dtype = np.float32 if name in FLOATS else np.float16
        made[name] = np.exp(draw.uniform(-4, 4, size // np.dtype(dtype).itemsize)).astype(dtype)
        made[name][size // 8 :] *= draw.choice([-1, 1], made[name][size // 8 :].size).astype(dtype)
    for name in ("l0a", "l0b", "l0c"):
        made[name] = draw.integers(-9, 10, made[name].size).astype(made[name].dtype)
    made["f32"][100:110] = 1e6  # which saturate as fp16
    made["f16"][100:110] = 60000
    return {name: array.view(np.uint8) for name, array in made.items()}


def global_memory(seed=1):
    draw = np.random.default_rng(seed)

    def floats(*size):
        return draw.standard_normal(size).astype(np.float32)

    keys = HEADS // GROUP
    tensors = {
        "query": floats(90, keys, KEY_DIM).astype(np.float16),
        "key": floats(90, keys, KEY_DIM).astype(np.float16),
        "value": floats(90, HEADS, VALUE_DIM).astype(np.float16),
        "log_decay": floats(90, HEADS, KEY_DIM),
        "beta": floats(HEADS, 192),
        "state_in": floats(3, HEADS, KEY_DIM, VALUE_DIM),
        "output": floats(90, HEADS, VALUE_DIM).astype(np.float16),
        "state_out": floats(3, HEADS, KEY_DIM, VALUE_DIM),
        "workspace": draw.integers(0, 200, (HEADS, 6, 512)).astype(np.uint8),
    }
    return Global(tensors, (SPOT.sequence,), draw.integers(0, 200, 512).astype(np.uint8), GROUP, CHUNK, KEY_DIM)


VECTOR = {
    "add32": lambda x, y: x + y,
    "sub32": lambda x, y: x - y,
    "mul32": lambda x, y: x * y,
    "div32": lambda x, y: x / y,
    "max32": lambda x, y: x if x > y else y,
    "min32": lambda x, y: x if x < y else y,
    "mla32": lambda x, y, d: x * y + d,
    "exp32": lambda x: np.exp(np.float64(x)),
    "ln32": lambda x: np.log(np.float64(x)),
    "rsqrt32": lambda x: 1 / np.sqrt(np.float64(x)),
    "sqrt32": np.sqrt,
    "muls32": lambda x, s: x * s,
    "adds32": lambda x, s: x + s,
    "maxs32": lambda x, s: x if x > s else s,
    "mins32": lambda x, s: x if x < s else s,
    "axpy32": lambda x, s, d: s * x + d,
    "axpy16": lambda x, s, d: s * np.float32(x) + d,
    "to16": lambda x: x,
    "to32": lambda x: x,
    "dup32": lambda s: s,
    "dup16": lambda s: s,
    "mul16": lambda x, y: np.float32(x) * np.float32(y),
    "add16": lambda x, y: np.float32(x) + np.float32(y),
    "sub16": lambda x, y: np.float32(x) - np.float32(y),
    "muls16": lambda x, s: np.float32(x) * s,
}
HALVES = {  # dst, src0, src1: True for fp16
    "to16": (True, False, False),
    "to32": (False, True, False),
    "axpy16": (False, True, False),
    **dict.fromkeys(("mul16", "add16", "sub16", "muls16", "dup16"), (True, True, True)),
}
TWO = ("add32", "sub32", "mul32", "div32", "max32", "min32", "mla32", "mul16", "add16", "sub16")
NONE = ("dup32", "dup16")
WITH_SCALAR = ("muls32", "adds32", "maxs32", "mins32", "axpy32", "axpy16", "dup32", "dup16", "muls16")
ADDING = ("mla32", "axpy32", "axpy16")


def half(value):
    return np.float16(min(max(np.float32(value), np.float32(-65504)), np.float32(65504)))


def expected(step, memory, gm, spot=SPOT):
    """The memories after the step: {buffer: bytes}, and GM's tensors that it writes."""
    after = {name: data.copy() for name, data in memory.items()}
    written = {name: gm.tensors[name].copy() for name in ("output", "state_out", "workspace")}
    if step.opcode == "cadd32":
        _sums(step, memory, after)
    elif step.opcode in VECTOR:
        _lanes(step, after)
    elif step.opcode != "sync":
        _others(step, memory, after, gm, spot, written)
    return after, written


def _view(memory, operand, moved, dtype):
    """One element at an address."""
    size = np.dtype(dtype).itemsize
    at = operand.offset + moved
    return memory[operand.buffer][at : at + size].view(dtype)


def _on(step, lane):
    return MASKS[step.index][lane // 64] >> lane % 64 & 1


def _lanes(step, after):
    kinds = HALVES.get(step.opcode, (False, False, False))
    lanes = 128 if all(kinds) else 64
    scalar = np.float32((SCALE, *SCALARS)[step.p[6]])
    if step.opcode in ("axpy16", "dup16", "muls16"):
        scalar = np.float32(half(scalar))
    operands = (step.dst, step.src0, step.src1)
    count = 2 if step.opcode in TWO else 0 if step.opcode in NONE else 1

    def place(which, repeat, lane):
        size = 2 if kinds[which] else 4
        block, inside = divmod(lane * size, 32)
        moved = step.p[3 + which] * 32 * repeat + step.p[which] * 32 * block + inside
        return _view(after, operands[which], moved, np.float16 if kinds[which] else np.float32)

    for repeat in range(step.size):
        results = []
        for lane in range(lanes):
            values = [place(which, repeat, lane)[0] for which in range(1, 1 + count)]
            values += [scalar] if step.opcode in WITH_SCALAR else []
            values += [place(0, repeat, lane)[0]] if step.opcode in ADDING else []
            with np.errstate(all="ignore"):
                results.append(VECTOR[step.opcode](*values))
        for lane, result in enumerate(results):
            if _on(step, lane):
                place(0, repeat, lane)[0] = half(result) if kinds[0] else np.float32(result)


def _sums(step, memory, after):
    for repeat in range(step.size):
        values = []
        for lane in range(64):
            moved = step.p[4] * 32 * repeat + step.p[1] * 32 * (lane // 8) + lane % 8 * 4
            values.append(_view(memory, step.src0, moved, np.float32)[0] if _on(step, lane) else np.float32(0))
        while len(values) > 1:
            values = [values[i] + values[i + 1] for i in range(0, len(values), 2)]
        _view(after, step.dst, 4 * repeat, np.float32)[0] = values[0]


def _copy(after, to, to_moved, data, from_moved, size, source):
    after[to.buffer][to.offset + to_moved : to.offset + to_moved + size] = source[data][from_moved : from_moved + size]


def _others(step, memory, after, gm, spot, written):
    f = step.p
    match step.opcode:
        case "constant_to_l1" | "constant_to_ub":
            _copy(after, step.dst, 0, "c", 32 * step.constant, 32 * step.size, {"c": gm.constants})
        case "workspace_to_l1" | "workspace_to_ub":
            slot = gm.tensors["workspace"][spot.head + f[1], spot.sequence.gate // CHUNK + spot.chunk - f[2] - 256 * f[3]]
            start = 32 * (step.constant + (f[4] + 256 * f[5]) * (spot.column // 16))
            _copy(after, step.dst, 0, "w", start, 32 * step.size, {"w": slot})
        case "workspace_from_ub":
            slot = written["workspace"][spot.head + f[1], spot.sequence.gate // CHUNK + spot.chunk]
            start = 32 * (step.constant + (f[4] + 256 * f[5]) * (spot.column // 16))
            for i in range(32 * step.size):
                slot[start + i] = memory[step.src0.buffer][step.src0.offset + i]
        case "l1_to_ub" | "ub_to_l1":
            for i in range(step.count):
                source = step.src0.offset + i * 32 * (step.size + f[0] + 256 * f[1])
                _copy(after, step.dst, i * 32 * (step.size + f[2] + 256 * f[3]), step.src0.buffer, source, 32 * step.size, memory)
        case "load_a" | "load_b":
            _load(step, memory, after)
        case "c_to_ub32" | "c_to_ub16" | "ub_to_c32":
            small = step.opcode == "c_to_ub16"
            for run in range(step.count):
                for i in range(step.size * 256):
                    value = _view(memory, step.src0, 1024 * run * (step.size + f[0]) + 4 * i, np.float32)[0]
                    start = run * (step.size + f[1]) * 256 + i
                    _view(after, step.dst, start * (2 if small else 4), np.float16 if small else np.float32)[0] = (
                        half(value) if small else value
                    )
        case "mmad":
            _mmad(step, memory, after)
        case "gate_to_ub":
            row = gm.tensors[abi.names("tensors")[f[0]]][spot.head + f[1]]
            for i in range(CHUNK):
                _view(after, step.dst, 4 * i, np.float32)[0] = row[spot.sequence.gate + spot.chunk * CHUNK + i]
        case _:
            _rows(step, memory, after, gm, spot, written)


def _load(step, memory, after):
    low = step.p[5] + 256 * step.p[6]
    _load_part(step, memory, after, 0, 0)
    if low:
        _load_part(step, memory, after, low, step.p[7])


def _load_part(step, memory, after, source_low, target_low):
    f, start = step.p, 0
    for group in range(step.count):
        for fractal in range(step.size):
            for row in range(16):
                for column in range(16):
                    source = 512 * (source_low + start + fractal * f[0]) + 2 * (16 * row + column)
                    moved = (column, row) if f[4] & 1 else (row, column)
                    target = 512 * (target_low + group * f[3] + fractal) + 2 * (16 * moved[0] + moved[1])
                    _view(after, step.dst, target, np.float16)[0] = _view(memory, step.src0, source, np.float16)[0]
        start += f[1] + 256 * f[2] + (group if f[4] & 2 else 0)


def _mmad(step, memory, after):
    m, n, k, to, left, right, bits = step.p[:7]
    if bits & 16:
        places, at = [], 0
        for row in range(step.count):
            for column in range(row + 1):
                places.append((at, row * left, column * right, n, k))
                at += to
    else:
        places, dst, a, b = [], 0, 0, 0
        for _ in range(step.count):
            places.append((dst, a, b, n, k))
            dst += to + (n if bits & 8 else 0)
            a += left + (k if bits & 64 else 0)
            b += right + (n * k if bits & 32 else 0)
            n += 1 if bits & 8 else 0
            k += 1 if bits & 2 else 0
    first = [(dst, a, b, columns, depth, bits & 1) for dst, a, b, columns, depth in places]
    lows = [(0, step.index)] * (step.index > 0) + [(step.p[7], 0)] * (step.p[7] > 0)
    again = [(dst, a + x, b + y, columns, depth, 0) for x, y in lows for dst, a, b, columns, depth in places]
    for dst, a, b, columns, depth, overwrites in (*first, *again):
        for i in range(16 * m):
            for j in range(16 * columns):
                terms = []
                for h in range(16 * depth):
                    x = 512 * (a + i // 16 * depth + h // 16) + 2 * (16 * (i % 16) + h % 16)
                    y = 512 * (b + h // 16 * columns + j // 16) + 2 * (16 * (j % 16) + h % 16)
                    terms.append((x, y))
                xs = [_view(memory, step.src0, x, np.float16)[0] for x, _ in terms]
                ys = [_view(memory, step.src1, y, np.float16)[0] for _, y in terms]
                place = _view(after, step.dst, 1024 * (dst + j // 16 * m + i // 16) + 4 * (16 * (i % 16) + j % 16), np.float32)
                place[0] = np.dot(np.float64(xs), np.float64(ys)) + (0 if overwrites else np.float64(place[0]))


def _rows(step, memory, after, gm, spot, written):
    f, name = step.p, abi.names("tensors")[step.p[0]]
    outward, to_l1 = step.opcode == "rows_from_ub", step.opcode == "rows_to_l1"
    tensor = written[name] if outward else gm.tensors[name]
    size, dtype = tensor.dtype.itemsize, tensor.dtype
    head = (spot.head + f[1]) // GROUP if name in ("query", "key") else spot.head + f[1]
    first_column = 16 * f[2] + (spot.column if name in ("value", "output", "state_in", "state_out") else 0)
    layout = 1 if to_l1 else f[3]
    of_state = not to_l1 and f[4] == 1
    rows = (16 * f[6] or KEY_DIM) if of_state else CHUNK
    for row in range(rows):
        for column in range(16 * step.count):
            block, inside = divmod(column, 16)
            index = {
                0: row * 16 * step.count + column,
                1: block * rows * 16 + row * 16 + inside,
                2: (row // 16 * step.count + block) * 256 + row % 16 * 16 + inside,
            }[layout]
            there = row < spot.rows or of_state
            if of_state:
                place = (spot.sequence.state, head, 16 * f[5] + row, first_column + column)
            else:
                place = (spot.sequence.token + spot.chunk * CHUNK + row, head, first_column + column)
            if outward and there:
                tensor[place] = _view(memory, step.src0, index * size, dtype)[0]
            elif not outward:
                _view(after, step.dst, index * size, dtype)[0] = tensor[place] if there else 0
