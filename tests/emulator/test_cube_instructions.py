"""Mmad on the emulated chip against numpy, to the bit: products added in the order of k, in float."""

import subprocess
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from move_program import BLOCK, DTYPES, FRACTAL, Program, half_of_float, nz, of_nz, up, zn, zz

from hajax.backends import sim
from hajax.backends.sim import SimFault

pytestmark = pytest.mark.native
ROOT = Path(__file__).parents[2]
L0, L0C = 64 * 1024, 256 * 1024
NO_GM = np.zeros(BLOCK, np.uint8)

# name: dtypes of C, A and B
FORMS = {
    "mad_f32_f16": (np.float32, np.float16, np.float16),
    "mad_f16_f16": (np.float16, np.float16, np.float16),
    "mad_s32_s8": (np.int32, np.int8, np.int8),
    "mad_s32_u8_s8": (np.int32, np.uint8, np.int8),
    "mad_s32_u8": (np.int32, np.uint8, np.uint8),
}


def draw_matrix(rng, shape, dtype, spread=4.0):
    if np.issubdtype(dtype, np.integer):
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    return (rng.standard_normal(shape) * 2.0 ** rng.uniform(-spread, spread, shape)).astype(dtype)


def expected_product(a, b, c, dtype):
    """(c + a @ b in the emulator's order, how many results were clamped)."""
    if np.issubdtype(dtype, np.integer):
        exact = a.astype(np.int64) @ b.astype(np.int64) + c
        held = np.clip(exact, -(1 << 31), (1 << 31) - 1)
        return held.astype(np.int32), int((held != exact).sum())
    total = c.astype(np.float32)
    for k in range(a.shape[1]):
        total = total + a[:, k, None].astype(np.float32) * b[k].astype(np.float32)
    if dtype == np.float32:
        return total, 0
    with np.errstate(over="ignore"):
        return half_of_float(total), int(np.isinf(total.astype(np.float16)).sum())


class Case:
    """Operands of one Mmad, with noise where A and B are not valid and where C lies."""

    def __init__(self, name, m, k, n, seed, spread=4.0):
        self.name, self.m, self.k, self.n = name, m, k, n
        self.dtype, a_type, b_type = FORMS[name]
        rng = np.random.default_rng(seed)
        depth = up(k, BLOCK // np.dtype(a_type).itemsize)
        self.a, self.b = draw_matrix(rng, (up(m), depth), a_type, spread), draw_matrix(rng, (depth, up(n)), b_type, spread)
        self.c = draw_matrix(rng, (up(m), up(n)), self.dtype, spread)
        flat_a = np.concatenate([self.a[0, :k], np.zeros(-k * self.a.itemsize % FRACTAL // self.a.itemsize, a_type)])
        c = np.append(nz(self.c), nz(self.c[:16, :16]))  # and a fractal behind it
        self.images = {"L0A": flat_a if m == 1 else zz(self.a), "L0B": zn(self.b), "L0C": c}

    def row(self, init):
        return self.name, 0, 0, 0, self.m, self.k, self.n, init

    def check(self, init):
        found, done = Program().add(*self.row(init)).run(self.images, NO_GM)
        m, k, n = self.m, self.k, self.n
        start = np.zeros((m, n), self.dtype) if init else self.c[:m, :n]
        expected, clamped = expected_product(self.a[:m, :k], self.b[:k, :n], start, self.dtype)
        flat = found["L0C"].view(self.dtype)
        result = of_nz(flat[: self.c.size], *self.c.shape)
        bits = f"u{result.itemsize}"
        np.testing.assert_array_equal(result[:m, :n].view(bits), expected.view(bits))
        spoilt = np.ones(result.shape, bool)
        spoilt[:m, :n] = False
        assert (np.ascontiguousarray(result[spoilt]).view(np.uint8) == 0xFF).all()
        np.testing.assert_array_equal(flat[self.c.size :].view(bits), nz(self.c[:16, :16]).view(bits))
        np.testing.assert_array_equal(found["L0A"], self.images["L0A"].view(np.uint8))
        depth = BLOCK // self.a.itemsize
        macs = up(m) * up(n) * up(k, depth)
        assert (done.counts["mad"], done.counts["macs"], done.counts["useful_macs"]) == (1, macs, m * n * k)
        assert done.counts["saturated"] == clamped
        return done


def sizes(item_bytes):
    """(m, k, n) whose operands fit into L0A and L0B."""
    edges = st.sampled_from([1, 2, 15, 16, 17, 31, 32, 33, 48])
    return st.tuples(st.one_of(edges, st.integers(1, 80)), st.one_of(edges, st.integers(1, 200 // item_bytes)),
                     st.one_of(edges, st.integers(1, 80)))  # fmt: skip


@settings(max_examples=40)
@given(st.data(), st.sampled_from(sorted(FORMS)), st.booleans(), st.integers(0, 1 << 30))
def test_products_are_added_in_the_order_of_k(data, name, init, seed):
    m, k, n = data.draw(sizes(np.dtype(FORMS[name][1]).itemsize))
    note(f"case {name} m={m} k={k} n={n} init={init} seed={seed}")
    Case(name, m, k, n, seed).check(init)


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (1, 300, 37), (16, 16, 16), (17, 33, 18), (1, 4095, 5), (2, 600, 3)])
@pytest.mark.parametrize("init", [True, False])
def test_each_form(name, m, k, n, init):
    if m == 2:
        k = min(k, L0 // 16 // np.dtype(FORMS[name][1]).itemsize)
    if k == 4095 and FORMS[name][1] == np.float16:
        k = 2048  # the right matrix of 16 columns fills L0B
    Case(name, m, k, n, 5).check(init)


def test_halves_of_every_size_and_clamped_results():
    done = Case("mad_f16_f16", 40, 64, 40, 9, spread=14).check(True)
    assert done.counts["saturated"] > 0


@pytest.mark.parametrize("sign", [1, -1])
def test_sums_of_integers_are_clamped(sign):
    a = np.full((16, 32), 127 if sign > 0 else -128, np.int8)
    b = np.full((32, 16), 127, np.int8)
    c = np.full((16, 16), sign * ((1 << 31) - 1000), np.int32)
    before = {"L0A": zz(a), "L0B": zn(b), "L0C": nz(c)}
    found, done = Program().add("mad_s32_s8", 0, 0, 0, 16, 32, 16, 0).run(before, NO_GM)
    assert (found["L0C"].view(np.int32) == ((1 << 31) - 1 if sign > 0 else -(1 << 31))).all()
    assert done.counts["saturated"] == 256


def test_a_nan_is_the_same_on_every_host():
    a, b = np.zeros((16, 16), np.float16), np.zeros((16, 16), np.float16)
    a[0, 0] = np.inf
    b[1, 1] = np.nan
    found, _ = Program().add("mad_f32_f16", 0, 0, 0, 16, 16, 16, 1).run(
        {"L0A": zz(a), "L0B": zn(b), "L0C": np.zeros(1024, np.uint8)}, NO_GM)  # fmt: skip
    bits = found["L0C"].view(np.uint32).reshape(16, 16)
    assert (bits[0] == 0x7FC00000).all() and (bits[:, 1] == 0x7FC00000).all()
    assert (bits[1:, 2:] == 0).all()


@pytest.mark.parametrize(("m", "n"), [(16, 16), (48, 64), (33, 20), (1, 64)])
def test_a_product_split_along_k_is_the_whole(m, n):
    rng = np.random.default_rng(11)
    a, b = draw_matrix(rng, (up(m), 96), np.float16), draw_matrix(rng, (96, up(n)), np.float16)
    shape = lambda part: part[0] if m == 1 else zz(part)
    whole = {"L0A": shape(a), "L0B": zn(b), "L0C": np.zeros(up(m) * up(n), np.float32)}
    split = whole | {"L0A": np.concatenate([shape(np.ascontiguousarray(a[:, s : s + 32])) for s in (0, 32, 64)])}
    if m == 1:  # each part starts at a multiple of 512 bytes
        split["L0A"] = np.concatenate([np.pad(a[0, s : s + 32], (0, 224)) for s in (0, 32, 64)])
    step = FRACTAL if m == 1 else up(m) * 32 * 2
    program = Program()
    for i in range(3):
        program.add("mad_f32_f16", 0, i * step, i * 32 * up(n) * 2, m, 32, n, i == 0)
    left, _ = Program().add("mad_f32_f16", 0, 0, 0, m, 96, n, 1).run(whole, NO_GM)
    right, _ = program.run(split, NO_GM)
    np.testing.assert_array_equal(left["L0C"], right["L0C"])


def exact_fma(a, b, c):
    """a * b + c rounded once to float32, by integers."""
    total = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    if total == 0:
        return np.float32(0)
    exponent = int(np.floor(np.log2(abs(float(total))))) - 23
    scaled = total / Fraction(2) ** exponent
    while abs(scaled) >= 1 << 24:
        exponent, scaled = exponent + 1, scaled / 2
    while abs(scaled) < 1 << 23:
        exponent, scaled = exponent - 1, scaled * 2
    return np.float32(round(scaled) * 2.0**exponent)  # round() is to even


def test_310b_multiplies_floats_with_one_rounding_a_step():
    rng = np.random.default_rng(12)
    m, k, n = 5, 19, 18
    a, b = draw_matrix(rng, (up(m), up(k, 8)), np.float32), draw_matrix(rng, (up(k, 8), up(n)), np.float32)
    before = {"L0A": zz(a), "L0B": zn(b), "L0C": np.zeros(16 * 32, np.float32)}
    found, _ = Program().add("mad_310b_f32", 0, 0, 0, m, k, n, 1, 0, 0, 0).run(before, NO_GM, "ascend310b1")
    result = of_nz(found["L0C"].view(np.float32), 16, 32)
    for i in range(m):
        for j in range(n):
            total = np.float32(0)
            for step in range(k):
                total = exact_fma(a[i, step], b[step, j], total)
            assert result[i, j] == total


@pytest.mark.parametrize(("name", "form"), [("mad_310b_f32_f16", "mad_f32_f16"), ("mad_310b_s32_s8", "mad_s32_s8")])
def test_310b_takes_the_other_operands_as_the_310p_does(name, form):
    case = Case(form, 20, 40, 30, 13)
    left, _ = Program().add(*case.row(1)).run(case.images, NO_GM)
    right, _ = Program().add(name, *case.row(1)[1:], 0, 0, 0).run(case.images, NO_GM, "ascend310b1")
    np.testing.assert_array_equal(left["L0C"], right["L0C"])


FULL = {"L0A": np.zeros(L0, np.uint8), "L0B": np.zeros(L0, np.uint8), "L0C": np.zeros(L0C, np.uint8)}


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("size", ["m", "k", "n"])
@pytest.mark.parametrize("value", [0, 4096, -1, 1 << 40])
def test_sizes_beyond_the_fields_are_errors(name, size, value):
    words = {"m": 16, "k": 16, "n": 16} | {size: value}
    with pytest.raises(SimFault, match=rf"{size}: expected 1 to 4095, got {value}") as caught:
        Program().add(name, 0, 0, 0, *words.values(), 1).run({}, NO_GM)
    assert caught.value.check == "limit"


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize(("operand", "space"), [(0, "L0C"), (1, "L0A"), (2, "L0B")])
def test_operands_start_at_fractals(name, operand, space):
    fractal = 256 * np.dtype(FORMS[name][0]).itemsize if space == "L0C" else FRACTAL
    offsets = [0, 0, 0]
    offsets[operand] = fractal // 2
    with pytest.raises(SimFault, match=rf"{space} offset .* a multiple of {fractal} bytes") as caught:
        Program().add(name, *offsets, 16, 16, 16, 1).run({}, NO_GM)
    assert caught.value.check == "misaligned"


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize(("operand", "space"), [(0, "L0C"), (1, "L0A"), (2, "L0B")])
@pytest.mark.parametrize("below", [False, True])
def test_operands_end_inside_their_memories(name, operand, space, below):
    size = L0C if space == "L0C" else L0
    offsets = [0, 0, 0]
    offsets[operand] = -1024 if below else size - 1024
    with pytest.raises(SimFault, match=space) as caught:
        Program().add(name, *offsets, 32, 64, 32, 1).run({}, NO_GM)
    assert caught.value.check == "out_of_bounds"


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize(("space", "operand"), [("L0A", "a"), ("L0B", "b"), ("L0C", "c")])
@pytest.mark.parametrize("m", [1, 16, 20])
def test_operands_that_nothing_wrote_are_errors(name, space, operand, m):
    before = {s: image for s, image in FULL.items() if s != space}
    program = Program().add(name, 0, 0, 0, m, 16, 16, 0)
    with pytest.raises(SimFault, match=f"{operand} reads {space} byte 0 that nothing has written") as caught:
        program.run(before, NO_GM)
    assert caught.value.check == "uninitialized"
    if space == "L0C":
        Program().add(name, 0, 0, 0, m, 16, 16, 1).run(before, NO_GM)  # overwriting needs nothing there


# 18 rows: a fractal and two rows of the next. 3 columns: three blocks of a fractal.
@pytest.mark.parametrize(("a_bytes", "b_bytes", "fits"), [(576, 96, True), (544, 96, False), (576, 64, False)])
def test_rows_and_columns_beyond_the_sizes_need_not_be_written(a_bytes, b_bytes, fits):
    before = {"L0A": np.zeros(a_bytes, np.uint8), "L0B": np.zeros(b_bytes, np.uint8)}
    program = Program().add("mad_f32_f16", 0, 0, 0, 18, 16, 3, 1)
    if fits:
        program.run(before, NO_GM)
        return
    with pytest.raises(SimFault) as caught:
        program.run(before, NO_GM)
    assert caught.value.check == "uninitialized"


@pytest.mark.parametrize(("m", "n", "ordered"), [(16, 16, False), (48, 48, False), (32, 80, True), (160, 9, True)])
def test_few_tiles_need_a_barrier_between_products_and_many_do_not(m, n, ordered):
    row = ("mad_f32_f16", 0, 0, 0, m, 16, n)
    program = Program().together(*row, 1).together(*row, 0)
    if ordered:
        program.run(FULL, NO_GM)
        return
    with pytest.raises(SimFault, match="M may still be") as caught:
        program.run(FULL, NO_GM)
    assert caught.value.check == "pipe_race"
    Program().together(*row, 1).together("pipe_barrier", 2).together(*row, 0).run(FULL, NO_GM)


@pytest.mark.parametrize(
    ("name", "target", "words"),
    [
        ("mad_310b_f32", "ascend310p1", (0, 0, 0)),
        ("mad_f16_f16", "ascend310b1", ()),
        ("mad_s32_u8_s8", "ascend310b1", ()),
        ("mad_s32_u8", "ascend310b1", ()),
        ("mad_310b_f32_f16", "ascend310b1", (2, 0, 0)),
        ("mad_310b_f32_f16", "ascend310b1", (0, 1, 0)),
        ("mad_310b_f32_f16", "ascend310b1", (0, 0, 1)),
    ],
)
def test_forms_that_a_chip_lacks_are_errors(name, target, words):
    with pytest.raises(SimFault) as caught:
        Program().add(name, 0, 0, 0, 16, 16, 16, 1, *words).run({}, NO_GM, target)
    assert caught.value.check == "unsupported"


def test_every_version_of_the_arithmetic_gives_the_same_bits(tmp_path):
    sources = [ROOT / "tests/emulator/gemm_versions.cpp", ROOT / "native/emulator/core/half.cpp",
               *sorted((ROOT / "native/emulator/instructions").glob("gemm*.cpp"))]  # fmt: skip
    program = tmp_path / "gemm_versions"
    flags = ["-std=c++17", "-O1", "-ffp-contract=off", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    command = [*sim.find_compiler(), *flags, "-I", ROOT, *sources, "-o", program]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    done = subprocess.run([program], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()


def test_the_dtypes_of_forms_are_those_of_their_names():
    assert {name.split("_")[1] for name in FORMS} <= set(DTYPES)
