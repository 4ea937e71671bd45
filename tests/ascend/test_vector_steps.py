"""Vector steps of a plan against numpy: every opcode, with strides, masks and scalars; one machine instruction each."""

import numpy as np
import pytest
import steps
from steps import FREE, run_on_ub, vector

from hajax import abi

SIZE = 16 << 10
BLOCK = 32
SCALARS = (0.75, -1.5)  # numbers 1 and 2
EVERY_THIRD = (sum(1 << i for i in range(0, 64, 3)), 0)
FIRST_40 = ((1 << 40) - 1, 0)
FIRST_100 = (2**64 - 1, (1 << 36) - 1)
HALF, FLOAT = np.float16, np.float32


def once(function):
    """Exact, then one rounding."""
    return lambda *x: function(*(np.asarray(v, np.float64) for v in x))


# name: dtypes of dst, src0, src1; meaning on (src0, src1, scalar, dst); relative error allowed
CASES = {
    "add32": (FLOAT, FLOAT, FLOAT, once(lambda a, b, s, d: a + b), 0),
    "sub32": (FLOAT, FLOAT, FLOAT, once(lambda a, b, s, d: a - b), 0),
    "mul32": (FLOAT, FLOAT, FLOAT, once(lambda a, b, s, d: a * b), 0),
    "div32": (FLOAT, FLOAT, FLOAT, once(lambda a, b, s, d: a / b), 2**-22),
    "max32": (FLOAT, FLOAT, FLOAT, once(lambda a, b, s, d: np.maximum(a, b)), 0),
    "min32": (FLOAT, FLOAT, FLOAT, once(lambda a, b, s, d: np.minimum(a, b)), 0),
    "mla32": (FLOAT, FLOAT, FLOAT, lambda a, b, s, d: a * b + d, 2**-22),
    "exp32": (FLOAT, FLOAT, None, once(lambda a, b, s, d: np.exp(a)), 2**-22),
    "ln32": (FLOAT, FLOAT, None, once(lambda a, b, s, d: np.log(a)), 2**-22),
    "sqrt32": (FLOAT, FLOAT, None, once(lambda a, b, s, d: np.sqrt(a)), 2**-22),
    "rsqrt32": (FLOAT, FLOAT, None, once(lambda a, b, s, d: 1 / np.sqrt(a)), 2**-22),
    "muls32": (FLOAT, FLOAT, None, once(lambda a, b, s, d: a * s), 0),
    "adds32": (FLOAT, FLOAT, None, once(lambda a, b, s, d: a + s), 0),
    "maxs32": (FLOAT, FLOAT, None, once(lambda a, b, s, d: np.maximum(a, s)), 0),
    "mins32": (FLOAT, FLOAT, None, once(lambda a, b, s, d: np.minimum(a, s)), 0),
    "axpy32": (FLOAT, FLOAT, None, lambda a, b, s, d: a * s + d, 2**-22),
    "axpy16": (FLOAT, HALF, None, lambda a, b, s, d: a.astype(FLOAT) * s + d, 2**-22),
    "to16": (HALF, FLOAT, None, once(lambda a, b, s, d: a), 0),
    "to32": (FLOAT, HALF, None, once(lambda a, b, s, d: a), 0),
    "dup32": (FLOAT, None, None, lambda a, b, s, d: s, 0),
    "dup16": (HALF, None, None, lambda a, b, s, d: s, 0),
    "mul16": (HALF, HALF, HALF, once(lambda a, b, s, d: a * b), 0),
    "muls16": (HALF, HALF, None, once(lambda a, b, s, d: a * s), 0),
    "add16": (HALF, HALF, HALF, once(lambda a, b, s, d: a + b), 0),
    "sub16": (HALF, HALF, HALF, once(lambda a, b, s, d: a - b), 0),
    "cadd32": (FLOAT, FLOAT, None, None, 0),
}
NAMES = {"mla32": "vmla", "axpy32": "vaxpy", "axpy16": "vaxpy", "to16": "vconv", "to32": "vconv", "dup32": "vector_dup",
         "dup16": "vector_dup", "cadd32": "vcadd"}  # fmt: skip


def test_every_vector_opcode_has_a_case():
    assert set(CASES) == {row[1] for row in abi.rows("opcodes") if row[0] >= 32}


def lanes_of(name):
    dst, src0, _, _, _ = CASES[name]
    return 64 if FLOAT in (dst, src0) else 128


def place(area, base, block_stride, repeat_stride, repeat, lane, dtype):
    """One element of an operand, by the rules of repeats and blocks."""
    per_block = BLOCK // np.dtype(dtype).itemsize
    at = base + (repeat * repeat_stride + lane // per_block * block_stride) * BLOCK + lane % per_block * np.dtype(dtype).itemsize
    return area[at : at + np.dtype(dtype).itemsize].view(dtype)


def expected(name, area, bases, repeats, blocks, strides, mask, scalar):
    dst, src0, src1, meaning, _ = CASES[name]
    result = area.copy()
    for repeat in range(repeats):
        lanes = [lane for lane in range(lanes_of(name)) if mask[lane // 64] >> lane % 64 & 1]
        if name == "cadd32":
            values = [place(area, bases[1], blocks[1], strides[1], repeat, lane, src0)[0] for lane in lanes]
            result[bases[0] + 4 * repeat :][:4].view(FLOAT)[0] = np.sum(values, dtype=np.float64)
            continue
        for lane in lanes:
            a = place(area, bases[1], blocks[1], strides[1], repeat, lane, src0)[0] if src0 else None
            b = place(area, bases[2], blocks[2], strides[2], repeat, lane, src1)[0] if src1 else None
            before = place(area, bases[0], blocks[0], strides[0], repeat, lane, dst)[0]
            used = [np.float64("nan") if x is None else x for x in (a, b, scalar, before)]
            place(result, bases[0], blocks[0], strides[0], repeat, lane, dst)[0] = meaning(*used)
    return result


def check(name, *, repeats=3, blocks=None, strides=None, mask=0, scalar=1, seed=0):
    dst, src0, _, _, error = CASES[name]
    random = np.random.default_rng(seed)
    area = np.empty(SIZE, np.uint8)
    # dst, src0 and src1 lie 4 KiB apart: the first two in their type, as dst may be read too
    parts = [(dst, 0), (src0 or FLOAT, 4096), (CASES[name][2] or FLOAT, 8192), (FLOAT, 12288)]
    for dtype, at in parts:
        area[at : at + 4096].view(dtype)[:] = random.uniform(0.25, 4, 4096 // np.dtype(dtype).itemsize)
    half_dst, half_src = dst is HALF and lanes_of(name) == 64, src0 is HALF and lanes_of(name) == 64
    blocks = blocks or (1, 1, 1)
    strides = strides or (4 if half_dst else 8, 4 if half_src else 8, 8)
    masks = (EVERY_THIRD, FIRST_40, FIRST_100)
    step = vector(name, FREE, FREE + 4096, FREE + 8192, repeats=repeats, blocks=blocks, strides=strides, scalar=scalar, mask=mask)
    found, run = run_on_ub([step], area.tobytes(), masks=masks, scalars=SCALARS, scale=0.5)
    wanted = expected(name, area, (0, 4096, 8192), repeats, blocks, strides, (steps.ALL_LANES, *masks)[mask],
                      dtype_of(name)((0.5, *SCALARS)[scalar]))  # fmt: skip
    found = np.frombuffer(found, np.uint8)
    if error == 0 and name != "cadd32":
        np.testing.assert_array_equal(found, wanted)
    else:
        np.testing.assert_allclose(found.view(FLOAT), wanted.view(FLOAT), rtol=error or 2**-20)
    instruction = NAMES.get(name, f"v{name.rstrip('1236')}")
    assert run.counts[instruction] == 1
    assert sum(run.counts[row[1]] for row in abi.rows("instructions") if row[2] == "V") == 1


def dtype_of(name):
    return HALF if name in ("dup16", "muls16", "axpy16") else FLOAT


@pytest.mark.parametrize("name", CASES)
def test_a_step_means_what_numpy_says(name):
    check(name)


@pytest.mark.parametrize("name", CASES)
def test_a_mask_leaves_lanes_out(name):
    check(name, mask=3 if lanes_of(name) == 128 else 1)


@pytest.mark.parametrize("name", CASES)
def test_strides_reach_blocks_and_repeats(name):
    narrow = lanes_of(name) == 128 or CASES[name][0] is FLOAT
    check(name, repeats=2, blocks=(2, 1, 3), strides=(16 if narrow else 8, 9, 1), mask=0, scalar=2)


@pytest.mark.parametrize("name", ["muls32", "dup32", "axpy32", "muls16"])
def test_scalar_number_0_is_the_calls_scale(name):
    check(name, scalar=0)


def test_a_mask_is_set_only_when_its_number_changes():
    body = [vector("adds32", FREE + 256 * i, FREE + 256 * i, scalar=1, mask=mask) for i, mask in enumerate((0, 0, 1, 1, 1, 0))]
    area = np.ones(SIZE // 4, FLOAT).tobytes()
    found, run = run_on_ub(body, area, masks=(EVERY_THIRD,), scalars=SCALARS)
    assert run.counts["set_vector_mask"] == 3  # of the steps: the kernel does not set one when it starts
    assert (np.frombuffer(found, FLOAT)[:384].reshape(6, 64) == 1.75).sum() == 3 * 64 + 3 * 22


def test_dependent_steps_take_their_barrier():
    add = {"scalar": 1}
    body = [vector("adds32", FREE, FREE, **add), vector("adds32", FREE, FREE, **add, barrier=True)]
    found, _ = run_on_ub(body, np.zeros(SIZE // 4, FLOAT).tobytes(), scalars=SCALARS)
    assert (np.frombuffer(found, FLOAT)[:64] == 1.5).all()
    with pytest.raises(Exception, match="pipe_race"):
        run_on_ub([body[0], vector("adds32", FREE, FREE, **add)], np.zeros(SIZE // 4, FLOAT).tobytes(), scalars=SCALARS)
