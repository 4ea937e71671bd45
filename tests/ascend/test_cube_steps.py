"""Steps of the cube against numpy: loads with their groups, products with all their ways to walk, results between L0C and UB."""

import numpy as np
import pytest
import steps
from steps import FREE, ZERO_BYTES, flag, step

from hajax.backends import npu

FRACTAL = 512
L1_MTE1, MTE1_M, M_V, V_M, MTE2_V = (flag(name, 0) for name in ("MTE2_MTE1", "MTE1_M", "M_V", "V_M", "MTE2_V"))
OVERWRITES, DEPTH, BARRIER, WIDTH, TRIANGLE, RIGHT, LEFT = (1 << i for i in range(7))
WINDOW = 24 << 10


def fractals(count, seed):
    """Small whole numbers, so that sums in fp32 are exact."""
    return np.random.default_rng(seed).integers(-4, 5, (count, 16, 16)).astype(np.float16)


def run(loads, product, results, left, right, before=None):
    """L1 holds `left` and behind it `right` fractals; UB (and L0C, when a step moves it there) `before`. UB afterwards."""
    data = left.tobytes() + right.tobytes()
    window = np.zeros(WINDOW // 4, np.float32) if before is None else before
    at = ZERO_BYTES + WINDOW
    bring = [step("constant_to_l1", dst=0, src0=at, size=len(data) // 32, set=[L1_MTE1])]
    body = [*bring, *loads, *product, *results]
    found, done = steps.run_on_ub(body, window.tobytes() + data)
    return np.frombuffer(found, np.float32)[: WINDOW // 4], done


def load(side, dst, src, size, wait=(), set=(), count=1, p=()):
    return step(f"load_{side}", dst, src, size=size, wait=wait, set=set, count=count, p=p)


def nz(m, n, c):
    """c [16 m, 16 n] as L0C holds it: columns of fractals."""
    return c.reshape(m, 16, n, 16).transpose(2, 0, 1, 3).reshape(-1)


def check(size, count, p, left, right, expected, *, low=(0, 0), before=None, barrier=False):
    """mmad over all of `left` in L0A and `right` in L0B, as it lies; the first fractals of L0C are `expected`."""
    total = expected.size // 256
    results = [step("c_to_ub32", FREE, 0, size=total, wait=[M_V])]
    loads = [
        load("a", 0, 0, left.shape[0], wait=[L1_MTE1], p=(1,)),
        load("b", 0, left.shape[0] * FRACTAL, right.shape[0], set=[MTE1_M], p=(1,)),
    ]
    first = []
    if before is not None:
        first = [step("ub_to_c32", 0, FREE, size=total, set=[V_M])]
    product = step("mmad", 0, 0, 0, count=count, index=low[1], p=(*size, *p, low[0]), set=[M_V],
                   wait=[MTE1_M, *([V_M] if first else [])])  # fmt: skip
    found, done = run([*loads, *first], [product], results, left, right, before)
    np.testing.assert_array_equal(found[: expected.size], expected)
    return done


def matrix(parts, rows, columns):
    """Fractals in rows as one matrix."""
    return parts[: rows * columns].astype(np.float32).reshape(rows, columns, 16, 16).transpose(0, 2, 1, 3).reshape(16 * rows, -1)


def right_matrix(parts, k, n):
    """L0B's fractals hold their block transposed: loaded plainly, element (i, j) is row j, column i."""
    return matrix(parts.transpose(0, 2, 1), k, n)


@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (2, 3, 4), (4, 4, 8)])
def test_a_product_overwrites(m, n, k):
    left, right = fractals(m * k, 1), fractals(k * n, 2)
    done = check((m, n, k), 1, (0, 0, 0, OVERWRITES), left, right, nz(m, n, matrix(left, m, k) @ right_matrix(right, k, n)))
    assert done.counts["macs"] == m * n * k * 4096


def test_a_product_adds_to_what_is_there():
    left, right = fractals(6, 1), fractals(6, 2)
    before = np.arange(WINDOW // 4, dtype=np.float32) % 100
    expected = nz(2, 2, matrix(left, 2, 3) @ right_matrix(right, 3, 2)) + before[: 4 * 256]
    check((2, 2, 3), 1, (0, 0, 0, 0), left, right, expected, before=before)


def test_products_side_by_side_move_all_three_operands():
    left, right = fractals(3 * 4, 1), fractals(3 * 2, 2)
    tiles = [nz(2, 1, matrix(left[4 * i :], 2, 2) @ right_matrix(right[2 * i :], 2, 1)) for i in range(3)]
    check((2, 1, 2), 3, (2, 4, 2, OVERWRITES), left, right, np.concatenate(tiles))


def test_products_that_add_up_take_barriers():
    left, right = fractals(4, 1), fractals(4, 2)
    expected = sum(nz(1, 1, matrix(left[i:], 1, 1) @ right_matrix(right[i:], 1, 1)) for i in range(4))
    before = np.zeros(WINDOW // 4, np.float32)
    check((1, 1, 1), 4, (0, 1, 1, BARRIER), left, right, expected, before=before)
    with pytest.raises(Exception, match=r"race|barrier"):
        check((1, 1, 1), 4, (0, 1, 1, 0), left, right, expected, before=before)


def test_depth_grows_and_the_left_side_moves_by_it():
    left, right = fractals(6, 1), fractals(3, 2)
    tiles = [nz(1, 1, matrix(left[at:], 1, k) @ right_matrix(right, k, 1)) for at, k in ((0, 1), (1, 2), (3, 3))]
    check((1, 1, 1), 3, (1, 0, 0, OVERWRITES | DEPTH | LEFT), left, right, np.concatenate(tiles))


def test_width_grows_and_the_right_side_moves_by_what_was_multiplied():
    left, right = fractals(2, 1), fractals(2 * (1 + 2 + 3), 2)
    tiles = [nz(1, n, matrix(left, 1, 2) @ right_matrix(right[2 * at :], 2, n)) for at, n in ((0, 1), (1, 2), (3, 3))]
    check((1, 1, 2), 3, (0, 0, 0, OVERWRITES | WIDTH | RIGHT), left, right, np.concatenate(tiles))


def test_a_triangle_multiplies_rows_with_the_columns_up_to_theirs():
    left, right = fractals(3 * 2, 1), fractals(3 * 2, 2)
    tiles = [nz(1, 1, matrix(left[2 * i :], 1, 2) @ right_matrix(right[2 * j :], 2, 1)) for i in range(3) for j in range(i + 1)]
    check((1, 1, 2), 3, (1, 2, 2, OVERWRITES | TRIANGLE), left, right, np.concatenate(tiles))


@pytest.mark.parametrize(("low_left", "low_right"), [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("side", [2, 4])
def test_low_parts_are_multiplied_with_high_ones_only(low_left, low_right, side):
    size = side * side
    left, right = fractals(2 * size, 1), fractals(2 * size, 2)
    high, low = (matrix(left[at:], side, side) for at in (0, size))
    top, bottom = (right_matrix(right[at:], side, side) for at in (0, size))
    expected = high @ top + (high @ bottom if low_right else 0) + (low @ top if low_left else 0)
    check((side, side, side), 1, (0, 0, 0, OVERWRITES), left, right, nz(side, side, expected),
          low=(size * low_left, size * low_right))  # fmt: skip


def loaded(side, count, size, p, sources, total):
    """What a load with these fields leaves in L0, seen through a product with the identity."""
    unit = np.eye(16, dtype=np.float16)[None]
    left, right = (sources, unit) if side == "a" else (unit, sources)
    place = 0 if side == "a" else FRACTAL
    other = load("b", 0, sources.shape[0] * FRACTAL, 1, set=[MTE1_M]) if side == "a" else load("a", 0, 0, 1, set=[MTE1_M])
    loads = [load(side, 0, place, size, wait=[L1_MTE1], count=count, p=p), other]
    moves = (1, 0) if side == "a" else (0, 1)
    product = [step("mmad", 0, 0, 0, count=total, p=(1, 1, 1, 1, *moves, OVERWRITES), wait=[MTE1_M], set=[M_V])]
    found, done = run(loads, product, [step("c_to_ub32", FREE, 0, size=total, wait=[M_V])], left, right)
    tiles = found[: 256 * total].reshape(total, 16, 16)
    assert done.counts[f"load_cbuf_to_c{side}"] == count * (2 if p[5] | p[6] << 8 else 1) + 0
    return tiles if side == "a" else tiles.transpose(0, 2, 1)


@pytest.mark.parametrize("side", ["a", "b"])
def test_a_load_takes_groups_of_fractals(side):
    sources = fractals(40, 3)
    found = loaded(side, 3, 2, (3, 8, 0, 2, 0, 0, 0, 0), sources, 6)
    assert (found == sources[[0, 3, 8, 11, 16, 19]]).all()


@pytest.mark.parametrize("side", ["a", "b"])
def test_a_load_transposes_each_fractal(side):
    sources = fractals(8, 3)
    assert (loaded(side, 2, 2, (2, 1, 0, 2, 1, 0, 0, 0), sources, 4) == sources[[0, 2, 1, 3]].transpose(0, 2, 1)).all()


@pytest.mark.parametrize("side", ["a", "b"])
def test_the_distance_between_groups_grows(side):
    sources = fractals(30, 3)
    assert (loaded(side, 4, 1, (1, 4, 0, 1, 2, 0, 0, 0), sources, 4) == sources[[0, 4, 9, 15]]).all()


@pytest.mark.parametrize("side", ["a", "b"])
def test_a_load_brings_the_low_part_too(side):
    sources = fractals(30, 3)
    assert (loaded(side, 2, 2, (1, 4, 0, 2, 0, 20, 0, 4), sources, 8) == sources[[0, 1, 4, 5, 20, 21, 24, 25]]).all()


def test_results_leave_in_runs_with_gaps_as_fp32_and_fp16():
    data = (np.arange(12288) % 1000 + 1 / 3).astype(np.float32)
    body = [
        step("ub_to_c32", 2048, FREE, count=2, size=3, p=(1, 2)),
        step("c_to_ub32", FREE + (16 << 10), 2048, count=2, size=2, p=(3, 1), barrier=True),
        step("c_to_ub16", FREE + (32 << 10), 2048, count=2, size=1, p=(4, 3), barrier=True),
    ]
    found = np.frombuffer(steps.run_on_ub(body, data.tobytes())[0], np.float32)
    c = {2 + i: data[256 * i : 256 * (i + 1)] for i in range(3)} | {7 + i: data[256 * (4 + i) : 256 * (5 + i)] for i in range(3)}
    out = found[4096:].reshape(-1, 256)
    for at, source in ((0, 2), (1, 3), (3, 7), (4, 8)):
        assert (out[at] == c[source]).all()
    assert (out[2] == data[4096 + 512 : 4096 + 768]).all()
    halves = found[8192:].view(np.float16).reshape(-1, 256)
    assert (halves[0] == c[2].astype(np.float16)).all()
    assert (halves[4] == c[7].astype(np.float16)).all()


def test_results_beyond_fp16_saturate_and_are_counted():
    data = np.full(4096, 1e6, np.float32)
    body = [step("ub_to_c32", 0, FREE, size=1), step("c_to_ub16", FREE, 0, size=1, barrier=True)]
    found, done = steps.run_on_ub(body, data.tobytes(), options=npu.SimOptions())
    assert (np.frombuffer(found, np.float16)[:256] == 65504).all()
    assert done.counts["saturated"] == 256
