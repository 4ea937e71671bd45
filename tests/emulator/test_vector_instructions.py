"""Vector instructions of the emulated chip against numpy, over drawn operands, masks, strides, repeats and types."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import vector_oracle as oracle
from hypothesis import given, settings
from hypothesis import strategies as st
from vector_cases import Operand, blank, fill, lanes_of, layouts, masks, repeat_counts, seeds, values
from vector_check import Expected, check, compare, write
from vector_oracle import TYPES
from vector_program import BLOCK, IMAGE, Case, Entry, Mask, entries, execute, listed

pytestmark = pytest.mark.native
EXAMPLES = 3
BATCH = 6


@pytest.fixture(autouse=True)
def any_values():
    """Overflow and NaN are what is tested."""
    with np.errstate(all="ignore"):
        yield


# Element-wise instructions.

TERNARY = ["vmla", "vmadd", "vmaddrelu"]
SCALAR = ["vadds", "vmuls", "vmaxs", "vmins", "vlrelu", "vaxpy"]
UNARY = ["vexp", "vln", "vabs", "vrec", "vsqrt", "vrsqrt", "vrelu", "vnot", "vconv"]


@st.composite
def elementwise(draw: st.DrawFn, entry: Entry) -> tuple[Case, int, tuple[Operand, ...]]:
    lanes = lanes_of(*entry.types)
    repeat = draw(repeat_counts())
    mask = draw(masks(lanes, repeat))
    repeats = mask.repeats(lanes, repeat)
    sizes = [np.dtype(TYPES[t]).itemsize for t in entry.types]
    sources = 1 if entry.instruction in UNARY + SCALAR else 2
    blocks = [lanes * sizes[0] // BLOCK, *[lanes * sizes[1] // BLOCK] * sources]
    in_place = draw(st.integers(1, sources)) if sizes[0] == sizes[1] else -1
    operands = draw(layouts(blocks, repeats, in_place=in_place, sum_of=entry.instruction in (*TERNARY, "vaxpy")))
    seed = draw(seeds())
    rng = np.random.default_rng(seed)
    scale = int(values(rng, np.float16, 1).view(np.uint16)[0]) if "deq" in entry.function else 0
    words: list[int] = [operand.offset for operand in operands]
    if entry.instruction in SCALAR:
        scalar = values(rng, TYPES[entry.types[1]], 1)
        words.append(int(scalar.view({2: np.uint16, 4: np.uint32}[scalar.itemsize])[0]))
    words += [repeat if not mask.counter else draw(st.integers(0, 255))]
    words += [operand.block for operand in operands] + [operand.repeat for operand in operands]
    return Case(entry, mask, tuple(words), scale), seed, operands


def expect_elementwise(case: Case, seed: int, operands: tuple[Operand, ...]) -> tuple[Case, Expected, np.ndarray]:
    entry = case.entry
    to, of = TYPES[entry.types[0]], TYPES[entry.types[1]]
    lanes = lanes_of(*entry.types)
    image, rng = blank(seed)
    repeat = case.words[len(operands) + (entry.instruction in SCALAR)]
    active = case.mask.active(lanes, repeat)
    for i, operand in enumerate(operands):
        fill(image, rng, operand, of if i else to, lanes, len(active))
    expected = Expected(image.copy(), [])
    scale = float(np.uint16(case.scale).view(np.float16))
    for r, on in enumerate(active):
        inputs = [operand.read(expected.image, of, lanes, r) for operand in operands[1:]]
        if entry.instruction == "vaxpy":
            scalar = np.array([case.words[2]], np.uint32).view(np.uint8)[: np.dtype(of).itemsize].view(of)
            inputs = [np.repeat(scalar, lanes), inputs[0]]
        if entry.instruction in (*TERNARY, "vaxpy"):
            inputs.append(operands[0].read(expected.image, to, lanes, r))
        elif entry.instruction in SCALAR:
            scalar = np.array([case.words[2]], np.uint32).view(np.uint8)[: np.dtype(of).itemsize].view(of)
            inputs.append(np.repeat(scalar, lanes))
        write(expected, operands[0], oracle.lanes(entry.function, to, inputs, scale), r, on)
        expected.lanes += int(on.sum())
    return case, expected, image


ELEMENTWISE = listed("BINARY", "TERNARY", "UNARY", "SCALAR", "SCALAR_TERNARY")


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_lanes_hold_what_their_operands_give(name: str) -> None:
    @settings(max_examples=EXAMPLES)
    @given(st.lists(elementwise(entries()[name]), min_size=BATCH, max_size=BATCH))
    def drawn(cases: list[tuple[Case, int, tuple[Operand, ...]]]) -> None:
        check([expect_elementwise(*case) for case in cases])

    drawn()


# Reductions.

REDUCED_UNIT = {"vcadd": 1, "vcmax": 2, "vcmin": 2, "vcgadd": 8, "vcgmax": 8, "vcgmin": 8}  # elements of one repeat's result


@st.composite
def reductions(draw: st.DrawFn, entry: Entry) -> tuple[Case, int, Operand, int, bool]:
    size = np.dtype(TYPES[entry.types[0]]).itemsize
    lanes = lanes_of(*entry.types)
    repeat = draw(repeat_counts())
    mask = draw(masks(lanes, repeat))
    repeats = mask.repeats(lanes, repeat)
    (src,) = draw(layouts([8], repeats))
    unit = REDUCED_UNIT.get(entry.function, 128 // size) * size
    stride = draw(st.sampled_from([1, 1, 2, 3, 0]))
    behind = src.offset + (max(repeats - 1, 0) * src.repeat + 7 * src.block + 1) * BLOCK
    offset = -(-behind // 128) * 128 + draw(st.integers(0, 7)) * max(unit, BLOCK if unit == 128 else unit)
    if draw(st.integers(0, 3)) == 0 and src.repeat >= 8 and stride * unit <= 64:
        offset = src.offset  # the result over what was just reduced
    index_first = draw(st.booleans())
    words = [offset, src.offset, repeat if not mask.counter else 255, stride, src.block, src.repeat, int(index_first)]
    return Case(entry, mask, tuple(words)), draw(seeds()), src, stride * unit, index_first


def reduced(entry: Entry, found: np.ndarray, on: np.ndarray, index_first: bool) -> tuple[np.ndarray, np.ndarray, int]:
    """Results of one repeat, which of them are written, and how many sums were clamped."""
    dtype = found.dtype.type
    if entry.function in ("vcmax", "vcmin"):
        best = oracle.first_extreme(found, on, entry.function == "vcmax")
        index = np.array([best], np.uint16 if dtype is np.float16 else np.uint32).view(dtype)
        value = oracle.saturated(found[best : best + 1])
        return np.concatenate([index, value] if index_first else [value, index]), np.ones(2, bool), 0
    shape = {"vcadd": (1, -1), "vcpadd": (-1, 2)}.get(entry.function, (8, -1))
    written = on.reshape(shape).any(axis=1)
    if entry.function in ("vcgmax", "vcgmin"):
        rows = [np.flatnonzero(row) for row in on.reshape(shape)]
        largest = entry.function == "vcgmax"
        choose = oracle.larger if largest else oracle.smaller
        results = np.zeros(8, dtype)
        for i, row in enumerate(rows):
            for lane in row:
                one = found.reshape(shape)[i, lane : lane + 1]
                results[i] = one[0] if lane == row[0] else choose(results[i : i + 1], one)[0]
        return oracle.saturated(results), written, 0
    neutral = np.where(on, found, dtype(-0.0)).astype(dtype)
    sums, clamped = oracle.add_neighbours(neutral.reshape(shape), 1, dtype)
    return sums[:, 0], written, clamped if np.isfinite(found[on]).all() else 0


def expect_reduction(case: Case, seed: int, src: Operand, stride: int, index_first: bool) -> tuple[Case, Expected, np.ndarray]:
    dtype = TYPES[case.entry.types[0]]
    lanes = lanes_of(*case.entry.types)
    active = case.mask.active(lanes, case.words[2])
    image, rng = blank(seed)
    fill(image, rng, src, dtype, lanes, len(active))
    expected = Expected(image.copy(), [])
    for r, on in enumerate(active):
        results, written, clamped = reduced(case.entry, src.read(expected.image, dtype, lanes, r), on, index_first)
        places = case.words[0] + r * stride + np.flatnonzero(written) * results.itemsize
        expected.image[places[:, None] + np.arange(results.itemsize)] = results[written].view(np.uint8).reshape(len(places), -1)
        expected.loose += [(int(place), dtype, 0) for place in places]
        expected.clamped += clamped
        expected.lanes += int(on.sum())
    return case, expected, image


REDUCTIONS = listed("REDUCE", "EXTREME")


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_give_trees_of_neighbours_and_first_extremes(name: str) -> None:
    @settings(max_examples=2 * EXAMPLES)
    @given(st.lists(reductions(entries()[name]), min_size=BATCH, max_size=BATCH))
    def drawn(cases: list[tuple[Case, int, Operand, int, bool]]) -> None:
        check([expect_reduction(*case) for case in cases])

    drawn()


# Comparisons and selection.

COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "lt": np.less, "gt": np.greater, "eq": np.equal, "le": np.less_equal, "ge": np.greater_equal, "ne": np.not_equal,
}  # fmt: skip
COMPARISONS = [f"{kind}_{suffix}-{of}" for kind in ("vcmp", "vcmpv", "vcmpvs") for suffix in COMPARE for of in ("half", "float")]


@st.composite
def comparisons(draw: st.DrawFn, entry: Entry) -> tuple[Case, int, tuple[Operand, ...]]:
    lanes = lanes_of(*entry.types)
    to_register = entry.instruction == "vcmp"
    repeat = 1 if to_register else draw(repeat_counts())
    mask = draw(masks(lanes, repeat))
    if mask.counter and not to_register:  # the mask does not count, so that whole repeats are asked for
        mask = Mask(0, -(-mask.low // lanes) * lanes, counter=True)
    sources = 1 if entry.instruction == "vcmpvs" else 2
    _, *operands = draw(layouts([8] * (sources + 1), mask.repeats(lanes, repeat)))
    seed = draw(seeds())
    rng = np.random.default_rng(seed)
    words = [IMAGE - 2048, *(operand.offset for operand in operands)]
    if sources == 1:
        scalar = values(rng, TYPES[entry.types[0]], 1)
        words.append(int(scalar.view({2: np.uint16, 4: np.uint32}[scalar.itemsize])[0]))
    words += [repeat, 1, *(operand.block for operand in operands), 8, *(operand.repeat for operand in operands)]
    return Case(entry, mask, tuple(words)), seed, tuple(operands)


def expect_comparison(case: Case, seed: int, operands: tuple[Operand, ...]) -> tuple[Case, Expected, np.ndarray]:
    entry, dtype = case.entry, TYPES[case.entry.types[0]]
    lanes = lanes_of(*entry.types)
    active = case.mask.active(lanes, case.words[3])
    image, rng = blank(seed)
    for operand in operands:
        fill(image, rng, operand, dtype, lanes, len(active))
    if len(operands) == 2:  # equal pairs
        same = operands[0].places(dtype, lanes, 0)[::3]
        image[operands[1].places(dtype, lanes, 0)[::3]] = image[same]
    expected = Expected(image.copy(), [])
    at = case.words[0]
    for r, on in enumerate(active):
        found = [operand.read(image, dtype, lanes, r) for operand in operands]
        if len(operands) == 1:
            found.append(np.array([case.words[2]], np.uint32).view(np.uint8)[: np.dtype(dtype).itemsize].view(dtype))
        bits = COMPARE[entry.function.split("_")[1]](*found)
        if entry.instruction == "vcmp":
            register = np.concatenate([bits & on, np.zeros(128 - lanes, bool)])
            expected.image[at : at + 16] = np.packbits(register, bitorder="little")
            expected.lanes += int(on.sum())
        else:
            start = at + r * lanes // 8
            expected.image[start : start + lanes // 8] = np.packbits(bits, bitorder="little")
            expected.lanes += lanes
    return case, expected, image


@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons_give_a_bit_a_lane(name: str) -> None:
    @settings(max_examples=2)
    @given(st.lists(comparisons(entries()[name]), min_size=BATCH, max_size=BATCH))
    def drawn(cases: list[tuple[Case, int, tuple[Operand, ...]]]) -> None:
        check([expect_comparison(*case) for case in cases])

    drawn()


SELECTIONS = [f"vsel_{mode}-{of}" for mode in ("short", "register", "scalar", "tensor") for of in ("half", "float")]


@st.composite
def selections(draw: st.DrawFn, entry: Entry) -> tuple[Case, int, tuple[Operand, ...]]:
    lanes = lanes_of(*entry.types)
    repeat = draw(repeat_counts())
    mask = draw(masks(lanes, repeat))
    operands = draw(layouts([8, 8, 8], mask.repeats(lanes, repeat), in_place=draw(st.integers(1, 2))))
    bits, register = IMAGE - 4096, IMAGE - 64
    third = bits if entry.function == "vsel_scalar" else operands[2].offset
    words = [operands[0].offset, operands[1].offset, third, repeat if not mask.counter else 7]
    words += [operand.block for operand in operands] + [operand.repeat for operand in operands] + [bits, register]
    compare_mask = -1 if entry.function == "vsel_tensor" else register
    return Case(entry, mask, tuple(words), compare_mask=compare_mask), draw(seeds()), operands


def expect_selection(case: Case, seed: int, operands: tuple[Operand, ...]) -> tuple[Case, Expected, np.ndarray]:
    entry, dtype = case.entry, TYPES[case.entry.types[0]]
    raw = {2: np.uint16, 4: np.uint32}[np.dtype(dtype).itemsize]
    lanes = lanes_of(*entry.types)
    active = case.mask.active(lanes, case.words[3])
    image, _ = blank(seed)
    expected = Expected(image.copy(), [])
    bits, register = case.words[10:]
    for r, on in enumerate(active):
        start = register if entry.function in ("vsel_short", "vsel_register") else bits + r * lanes // 8
        chosen = np.unpackbits(image[start : start + lanes // 8], bitorder="little").astype(bool)
        a, b = (operand.read(expected.image, raw, lanes, r) for operand in operands[1:])
        if entry.function == "vsel_scalar":
            b = np.repeat(image[register : register + b.itemsize].view(raw), lanes)
        operands[0].write(expected.image, np.where(chosen, a, b), r, on)
        expected.lanes += int(on.sum())
    return case, expected, image


@pytest.mark.parametrize("name", SELECTIONS)
def test_selection_moves_whole_elements(name: str) -> None:
    @settings(max_examples=EXAMPLES)
    @given(st.lists(selections(entries()[name]), min_size=BATCH, max_size=BATCH))
    def drawn(cases: list[tuple[Case, int, tuple[Operand, ...]]]) -> None:
        drawn_images = [expect_selection(*case) for case in cases]
        images, _, run = execute([case for case, _, _ in drawn_images], np.stack([image for _, _, image in drawn_images]))
        for (case, expected, _), image in zip(drawn_images, images, strict=True):
            if case.entry.function == "vsel_tensor":  # the bits' address went through UB
                expected.image[case.words[11] : case.words[11] + 4] = image[case.words[11] : case.words[11] + 4]
            compare(case, image, expected)
        assert run.counts["vsel"] == len(cases)
        assert run.counts["vector_lanes"] == sum(expected.lanes for _, expected, _ in drawn_images)

    drawn()
