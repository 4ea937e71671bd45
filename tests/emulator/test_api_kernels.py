"""Kernels on the Ascend C headers: results against numpy, and what the API refuses of values."""

import numpy as np
import pytest
from api_kernels import output, run

from hajax.backends import sim

TYPES = [(np.float16, "half"), (np.float32, "float")]
ZEROS = np.zeros(4096, np.float16)
COMPARISONS = [np.less, np.greater, np.equal, np.less_equal, np.greater_equal, np.not_equal]  # in the order of CMPMODE


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def half_steps(rng, count, dtype, low=-8, high=9):
    """Few different values, among them 0, with exact sums and products."""
    return (rng.integers(low, high, count) / 2).astype(dtype)


# --- whole kernels


@pytest.mark.parametrize(("target", "blocks"), [("ascend310p1", 1), ("ascend310p1", 8), ("ascend310b1", 1)])
def test_queues_with_two_buffers(rng, target, blocks):
    x, y = (rng.standard_normal(8192).astype(np.float16) for _ in range(2))
    done = run("add_queue", "add_queue", x, y, output(8192, np.float16), 8192, target=target, blocks=blocks)
    assert np.array_equal(done.arrays[2], x + y)


@pytest.mark.parametrize("kernel", ["matmul_queue", "matmul_flags"])
@pytest.mark.parametrize("shape", [(16, 16, 16), (32, 48, 64), (80, 16, 144)])
def test_matmul(rng, kernel, shape):
    m, n, k = shape
    a, b = half_steps(rng, (m, k), np.float16), half_steps(rng, (k, n), np.float16)
    done = run("matmul", kernel, a, b, output((m, n), np.float32), m, n, k)
    assert np.array_equal(done.arrays[2], a.astype(np.float32) @ b.astype(np.float32))  # exact: multiples of 1/4 below 2^20


# --- vector calls

COUNT_CALLS = [
    ("Add", lambda a, b, s: a + b), ("Sub", lambda a, b, s: a - b), ("Mul", lambda a, b, s: a * b),
    ("Div", lambda a, b, s: a / b),
    ("Max", lambda a, b, s: np.maximum(a, b)), ("Min", lambda a, b, s: np.minimum(a, b)),
    ("AddRelu", lambda a, b, s: np.maximum(a + b, 0)), ("SubRelu", lambda a, b, s: np.maximum(a - b, 0)),
    ("FusedMulAdd", lambda a, b, s: a * b + b), ("FusedMulAddRelu", lambda a, b, s: np.maximum(a * b + b, 0)),
    ("MulAddDst", lambda a, b, s: b + a * b), ("Abs", lambda a, b, s: np.abs(a)), ("Exp", lambda a, b, s: np.exp(a)),
    ("Ln", lambda a, b, s: np.log(b)), ("Reciprocal", lambda a, b, s: 1 / b), ("Sqrt", lambda a, b, s: np.sqrt(b)),
    ("Rsqrt", lambda a, b, s: 1 / np.sqrt(b)), ("Relu", lambda a, b, s: np.maximum(a, 0)), ("Adds", lambda a, b, s: a + s),
    ("Muls", lambda a, b, s: a * s), ("Maxs", lambda a, b, s: np.maximum(a, s)), ("Mins", lambda a, b, s: np.minimum(a, s)),
    ("LeakyRelu", lambda a, b, s: np.where(a > 0, a, a * s)), ("Axpy", lambda a, b, s: b + a * s),
    ("Duplicate", lambda a, b, s: np.full(a.shape, s)), ("CreateVecIndex", lambda a, b, s: np.arange(a.size) + s),
    ("operator+", lambda a, b, s: a + b), ("operator/", lambda a, b, s: a / b),
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "name", "target"), [(*one, "ascend310p1") for one in TYPES] + [(*TYPES[1], "ascend310b1")])
def test_calls_on_a_count(rng, dtype, name, target):
    padded, count = 208, 203
    a, b = half_steps(rng, padded, dtype), half_steps(rng, padded, dtype, 1)
    for which, (call, expected) in enumerate(COUNT_CALLS):
        got = run("calls", f"call_{name}", a, b, output(padded, dtype), count, which, 0, target=target).arrays[2]
        want = expected(a.astype(np.float64), b.astype(np.float64), 2.0).astype(dtype)
        whole = a.size if call.startswith("operator") else count  # these work on all of dst
        untouched = b if call in ("FusedMulAdd", "FusedMulAddRelu", "MulAddDst", "Axpy") else np.zeros(padded)
        # Roots, logarithms and quotients may differ in the last place of what numpy rounds to.
        np.testing.assert_array_max_ulp(got[:whole], want[:whole], 2)
        assert np.array_equal(got[whole:], untouched[whole:]), call


@pytest.mark.parametrize(("dtype", "name"), TYPES)
def test_calls_with_masks_and_strides(rng, dtype, name):
    lanes = 256 // np.dtype(dtype).itemsize
    block = lanes // 8
    count = 18 * block
    a, b = half_steps(rng, count, dtype), half_steps(rng, count, dtype)
    expected = [
        (2, a - b), (2, np.abs(a)), (2, a * 2), (2, np.full(count, 2)), (2, np.arange(count) + 2), (1, a - b),
    ]  # fmt: skip
    which = 0
    for forms, values in expected:
        want = np.zeros(count, dtype)
        for repeat in range(2):
            want[repeat * 10 * block :][:20] = values[repeat * lanes :][:20]
        for _ in range(forms):
            got = run("calls", f"call_{name}", a, b, output(count, dtype), count, which, 1).arrays[2]
            assert np.array_equal(got, want), which
            which += 1


CASTS = [
    (0, np.float16, np.float32, "CAST_NONE", lambda x: x), (1, np.float32, np.float16, "CAST_NONE", lambda x: x),
    (2, np.float32, np.int32, "CAST_RINT", np.rint), (2, np.float32, np.int32, "CAST_FLOOR", np.floor),
    (2, np.float32, np.int32, "CAST_CEIL", np.ceil), (2, np.float32, np.int32, "CAST_TRUNC", np.trunc),
    (2, np.float32, np.int32, "CAST_ROUND", lambda x: np.trunc(x + np.copysign(0.5, x))),
    (3, np.int32, np.float32, "CAST_NONE", lambda x: x), (4, np.float16, np.int32, "CAST_FLOOR", np.floor),
    (5, np.int16, np.float16, "CAST_NONE", lambda x: x), (6, np.float16, np.int16, "CAST_RINT", np.rint),
    (7, np.uint8, np.float16, "CAST_NONE", lambda x: x), (8, np.float16, np.int8, "CAST_CEIL", np.ceil),
    (9, np.int32, np.int16, "CAST_NONE", lambda x: x),
]  # fmt: skip
MODES = ["CAST_NONE", "CAST_RINT", "CAST_FLOOR", "CAST_CEIL", "CAST_ROUND", "CAST_TRUNC", "CAST_ODD"]


@pytest.mark.parametrize(("which", "source", "target", "mode", "rounded"), CASTS)
def test_cast(rng, which, source, target, mode, rounded):
    x = (rng.integers(0 if source == np.uint8 else -200, 200, 96) / 2).astype(source)
    got = run("calls", "cast", x, output(96, target), 96, which, MODES.index(mode)).arrays[1]
    assert np.array_equal(got, rounded(x.astype(np.float64)).astype(target))


def test_dequantisation(rng):
    x = rng.integers(-200, 200, 128).astype(np.int16)
    scales, offsets = np.arange(16) * 0.25, -np.arange(16)
    expected = [np.rint(x * 0.5 + 3), np.rint(x.reshape(8, 16) * scales + offsets).reshape(-1)]
    for which, want in enumerate(expected):
        got = run("scaled", "dequantize", x, output(256, np.int8), 128, which).arrays[1].reshape(8, 2, 16)
        assert np.array_equal(got[:, which].reshape(-1), np.clip(want, -128, 127))
        assert not got[:, 1 - which].any()


def test_conversions_with_more_in_one(rng):
    i, j = (rng.integers(-100, 100, 96).astype(np.int32) for _ in range(2))
    a, b = half_steps(rng, 96, np.float16), half_steps(rng, 96, np.float16)
    expected = [i / 8, np.maximum((i + j) / 8, 0)]
    for which, want in enumerate(expected):
        got = run("scaled", "from_int32", i, j, output(96, np.float16), 96, which).arrays[2]
        assert np.array_equal(got, want.astype(np.float16))
    for which, value in enumerate([np.maximum(a + b, 0), np.maximum(a - b, 0), a * b]):
        got = run("scaled", "to_int8", a, b, output(96, np.int8), 96, which).arrays[2]
        assert np.array_equal(got, np.rint(value))
    got = run("scaled", "to_half", a.astype(np.float32), b.astype(np.float32), output(96, np.float16), 96).arrays[2]
    assert np.array_equal(got, np.maximum(a - b, 0))
    wide = [1 + a.astype(np.float32) * b.astype(np.float32), 1 + a.astype(np.float32) * np.float32(0.5)]
    for which, want in enumerate(wide):
        assert np.array_equal(run("scaled", "widening", a, b, output(96, np.float32), 96, which).arrays[2], want)
    x = rng.integers(-1000, 1000, 256).astype(np.int32)
    scale = int(np.float32(0.25).view(np.uint32))
    assert np.array_equal(
        run("scaled", "result_scaled", x, output(256, np.float16), scale).arrays[1], (x * 0.25).astype(np.float16)
    )


def test_a_rounding_mode_that_the_types_do_not_have():
    x = np.ones(96, np.float32)
    with pytest.raises(sim.SimFault, match=r"Cast to half from float: roundMode: expected one of CAST_NONE CAST_ODD") as caught:
        run("calls", "cast", x, output(96, np.float16), 96, 1, MODES.index("CAST_RINT"))
    assert caught.value.check == "unsupported"
    assert "calls.cpp:" in str(caught.value)


# --- comparison and selection


@pytest.mark.parametrize(("dtype", "name"), TYPES)
def test_compare_and_select(rng, dtype, name):
    n = 512
    a, b, s = half_steps(rng, n, dtype), half_steps(rng, n, dtype), dtype(0.5)
    lanes = 256 // a.itemsize
    for mode, compared in enumerate(COMPARISONS):
        repeated = np.tile(compared(a, s)[:lanes], n // lanes)
        expected = [  # values, and how many elements the call writes
            (np.where(compared(a, b), a, b), n), (np.where(compared(a, s), a, s), n), (np.where(repeated, a, b), n),
            (np.where(compared(a, b), a, b), lanes), (np.where(compared(a, b), a, b), 40), (np.where(a < b, a, s), 40),
            (np.where(compared(a, b), a, b), 64),
        ]  # fmt: skip
        for which, (values, written) in enumerate(expected):
            got = run("selects", f"select_{name}", a, b, output(n, dtype), n, which, mode).arrays[2]
            assert np.array_equal(got, np.where(np.arange(n) < written, values, 0)), (which, mode)


def test_comparisons_of_more_than_one_instruction(rng):
    x = half_steps(rng, 600 * 128, np.float16)
    got = run("selects", "many", x, output(x.size // 8, np.uint8), x.size).arrays[1]
    assert np.array_equal(np.unpackbits(got, bitorder="little"), x < 0.5)


def test_comparisons_take_whole_repeats():
    x = np.ones(160, np.float32)
    with pytest.raises(sim.SimFault, match=r"Compare: bytes of the count: expected a multiple of 256, got 640") as caught:
        run("selects", "select_float", x, x, output(160, np.float32), 160, 0, 0)
    assert caught.value.check == "limit"


# --- reductions


@pytest.mark.parametrize(("dtype", "name"), TYPES)
@pytest.mark.parametrize("repeats", [0.5, 1, 3, 3.25, 70.125, 150])
def test_reductions_of_tensors(rng, dtype, name, repeats):
    lanes = 256 // np.dtype(dtype).itemsize
    n = int(repeats * lanes)
    a = half_steps(rng, n, dtype, -1, 2)  # sums stay exact in fp16
    a[rng.integers(n)], a[rng.integers(n)] = 9, -9
    index_type = np.uint16 if dtype == np.float16 else np.uint32
    values = [a.astype(np.float64).sum(), a.max(), a.min(), a.max(), a.min()]
    indices = [None, None, None, a.argmax(), a.argmin()]
    for which, (value, index) in enumerate(zip(values, indices, strict=True)):
        got = run("reductions", f"reduce_{name}", a, output(16, dtype), n, 16, which).arrays[1]
        assert got[0] == value, which
        assert index is None or got[1:2].view(index_type)[0] == index, which


@pytest.mark.parametrize(("dtype", "name"), TYPES)
def test_reductions_of_repeats_blocks_and_pairs(rng, dtype, name):
    lanes = 256 // np.dtype(dtype).itemsize
    repeats = 6
    n = repeats * lanes
    a = half_steps(rng, n, dtype)
    by_repeat, by_block, by_pair = a.reshape(repeats, lanes), a.reshape(-1, lanes // 8), a.reshape(-1, 2)
    index = np.uint16 if dtype == np.float16 else np.uint32
    value_first = np.stack([by_repeat.max(1), by_repeat.argmax(1).astype(index).view(dtype)], 1).reshape(-1)
    index_first = np.stack([by_repeat.argmin(1).astype(index).view(dtype), by_repeat.min(1)], 1).reshape(-1)
    expected = {
        5: a.sum(), 6: np.array([a.max(), np.array([a.argmax()]).astype(index).view(dtype)[0]]), 7: by_repeat.sum(1),
        8: value_first, 9: index_first, 10: by_block.sum(1), 11: by_block.max(1), 12: by_block.min(1), 13: by_pair.sum(1),
        14: by_repeat.sum(1), 15: by_repeat.sum(1), 16: a.max(),
    }  # fmt: skip
    for which, values in expected.items():
        got = run("reductions", f"reduce_{name}", a, output(n, dtype), n, n, which).arrays[1]
        want = np.atleast_1d(values).astype(dtype)
        assert np.array_equal(got[: want.size].view(index), want.view(index)), which


@pytest.mark.parametrize(("count", "index", "needed"), [(64, 0, 8), (640, 0, 24), (640, 1, 32), (80, 1, 8)])
def test_the_work_buffer_is_large_enough(count, index, needed):
    a = np.arange(count, dtype=np.float32)
    got = run("reductions", "reduce_small", a, output(8, np.float32), count, needed, index).arrays[1]
    assert got[0] == count - 1
    with pytest.raises(sim.SimFault, match=rf"elements of sharedTmpBuffer: expected {needed} to \d+, got {needed - 1}") as caught:
        run("reductions", "reduce_small", a, output(8, np.float32), count, needed - 1, index)
    assert caught.value.check == "limit"
    assert "reductions.cpp:" in str(caught.value)


@pytest.mark.parametrize("which", range(17))
def test_runs_that_only_count(rng, which):
    """Results are not there then, and neither are the indices that some steps read."""
    a = rng.standard_normal(6400).astype(np.float32)
    options = [sim.SimOptions(counts_only=only) for only in (False, True)]
    full, counted = (
        run("reductions", "reduce_float", a, output(6400, np.float32), 6400, 6400, which, options=o) for o in options
    )
    assert full.counts == counted.counts


# --- copies


@pytest.mark.parametrize(("dtype", "matrices", "rows", "columns", "src_row"), [
    (np.float16, 1, 16, 16, 16), (np.float16, 1, 80, 96, 96), (np.float16, 2, 33, 40, 45), (np.float32, 1, 20, 24, 32),
    (np.float32, 2, 5, 13, 13),
])  # fmt: skip
def test_nd_to_nz(rng, dtype, matrices, rows, columns, src_row):
    x = rng.standard_normal((matrices, rows, src_row)).astype(dtype)
    block = 32 // x.itemsize
    blocks = -(-columns // block)
    nz = np.zeros((matrices, rows, blocks * block), dtype)
    nz[:, :, :columns] = x[:, :, :columns]
    want = nz.reshape(matrices, rows, blocks, block).transpose(0, 2, 1, 3)
    slack = np.zeros(64, dtype)  # the last row's copy reads a whole block
    flat = np.concatenate([x.reshape(-1), slack])
    done = run("copies", "nd_to_nz", flat, output(want.shape, dtype), x.itemsize, matrices, rows, columns, src_row)
    assert np.array_equal(done.arrays[1], want)


@pytest.mark.parametrize(("rows", "columns", "dst_row"), [(16, 16, 16), (20, 48, 64), (9, 32, 37)])
def test_nz_to_nd(rng, rows, columns, dst_row):
    x = rng.standard_normal((columns // 16, rows, 16)).astype(np.float16)
    y = np.full((rows, dst_row), -1, np.float16)
    got = run("copies", "nz_to_nd", x, y, rows, columns, dst_row).arrays[1]
    assert np.array_equal(got[:, :columns], x.transpose(1, 0, 2).reshape(rows, columns))
    assert (got[:, columns:] == -1).all()


def test_slices():
    x = np.arange(3 * 87, dtype=np.float32).reshape(3, 87)
    got = run("copies", "slices", x, output((2, 48), np.float32)).arrays[1]
    assert np.array_equal(got, np.concatenate([x[::2, 16:40], x[::2, 47:71]], 1))


def test_results_of_the_cube(rng):
    a = half_steps(rng, (16, 16), np.float16)
    c = (a.astype(np.float32).sum(1, keepdims=True) * 0.25) * np.ones(16, np.float32)
    assert np.array_equal(run("copies", "product", a, output((16, 16), np.float32), 0).arrays[1], c)
    half = run("copies", "product", a, output((16, 16), np.float16), 1).arrays[1]
    assert np.array_equal(half, np.maximum(c, 0).astype(np.float16))
    biased = run("copies", "product", a, output((16, 16), np.float32), 2).arrays[1]
    assert np.array_equal(biased, np.maximum(c + np.arange(1, 17, dtype=np.float32), 0))
    assert np.array_equal(run("copies", "preset", a, output((16, 16), np.float32)).arrays[1], a.astype(np.float32))


def test_strided_copies():
    x = np.arange(4 * 24, dtype=np.int32)
    y = np.full(4 * 24, -1, np.int32)
    got = run("copies", "strided", x, y).arrays[1].reshape(4, 24)
    assert np.array_equal(got[:, :16], x.reshape(4, 24)[:, :16])
    assert (got[:, 16:] == -1).all()


@pytest.mark.parametrize(("kernel", "arguments", "check", "text"), [
    ("odd_count", (24,), "limit", "DataCopy: bytes of the count: expected a multiple of 32, got 48"),
    ("odd_count", (0,), "limit", "DataCopy: count in blocks of 32 bytes: expected 1 to 65535, got 0"),
    ("no_path", (), "unsupported", r"DataCopy: dav-m200 \(310P\) has no path from GM to L0C"),
    ("nd_to_nz", (ZEROS, 2, 1, 16, 32, 16), "limit", "srcDValue, at least dValue: expected 32 to 65535, got 16"),
    ("nz_to_nd", (ZEROS, 16, 24, 32), "limit", "dValue: expected a multiple of 16, got 24"),
])  # fmt: skip
def test_copies_that_are_refused(kernel, arguments, check, text):
    with pytest.raises(sim.SimFault, match=text) as caught:
        run("copies", kernel, ZEROS, *arguments)
    assert caught.value.check == check
    assert "copies.cpp:" in str(caught.value)


# --- rearrangement


@pytest.mark.parametrize(("dtype", "name"), TYPES)
def test_gather_and_scatter(rng, dtype, name):
    n = 200 if dtype == np.float32 else 208
    data = rng.standard_normal(2 * n).astype(dtype)
    order = rng.permutation(n).astype(np.uint32)
    offsets = order * np.uint32(data.itemsize)
    got = run("rearrange", f"gather_{name}", data, offsets, output(n, dtype), n, 0).arrays[2]
    assert np.array_equal(got, data[order])
    got = run("rearrange", f"gather_{name}", data, offsets, output(n, dtype), n, 1).arrays[2]
    want = np.empty(n, dtype)
    want[order] = data[:n]
    assert np.array_equal(got, want)


@pytest.mark.parametrize(("dtype", "name"), TYPES)
def test_gather_mask(rng, dtype, name):
    n = 512
    a = rng.standard_normal(n).astype(dtype)
    lanes = 256 // a.itemsize
    chosen = rng.random(n) < 0.3
    bits = np.zeros(n * a.itemsize, np.uint8)  # each repeat's bits in a block of 32 bytes
    packed = np.packbits(chosen.reshape(-1, lanes), axis=1, bitorder="little")
    bits.reshape(-1, 32)[: packed.shape[0], : packed.shape[1]] = packed
    patterns = [(1, slice(0, None, 2)), (2, slice(1, None, 2)), (3, slice(0, None, 4)), (6, slice(3, None, 4))]
    cases = [(pattern, 0, a[places]) for pattern, places in patterns]
    cases += [(0, 0, a[chosen]), (0, lanes + 10, a[: lanes + 10][chosen[: lanes + 10]])]
    for pattern, mask, want in cases:
        got = run("rearrange", f"mask_{name}", a, bits.view(dtype), output(n, dtype), n, pattern, mask).arrays[2]
        assert got[-1] == want.size, (pattern, mask)
        assert np.array_equal(got[: want.size], want), (pattern, mask)


@pytest.mark.parametrize(("dtype", "name"), TYPES)
@pytest.mark.parametrize("stride", [1, 2])
def test_brcb(rng, dtype, name, stride):
    a = rng.standard_normal(32).astype(dtype)
    block = 32 // a.itemsize
    want = np.zeros((32, stride, block), dtype)
    want[:, 0] = a[:, None]
    done = run("rearrange", f"spread_{name}", a, output(want.shape, dtype), 32, stride)
    assert np.array_equal(done.arrays[1], want)


@pytest.mark.parametrize("which", range(5))
def test_transposes(rng, which):
    a = rng.standard_normal(256).astype(np.float16)
    got = run("rearrange", "transpose", a, output(256, np.float16), which).arrays[1]
    if which < 3:
        want = a.reshape(16, 16).T
    else:
        want = a.reshape(2, 4, 32).transpose(0, 2, 1) if which == 3 else a.reshape(2, 32, 4).transpose(0, 2, 1)
    assert np.array_equal(got, want.reshape(-1))
