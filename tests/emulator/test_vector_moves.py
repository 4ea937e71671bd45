"""Vector instructions of the emulated chip that fill, rearrange, gather and requantise, against numpy."""

from typing import Any

import numpy as np
import pytest
import vector_oracle as oracle
from hypothesis import given, settings
from hypothesis import strategies as st
from vector_cases import Operand, blank, fill, lanes_of, layouts, masks, repeat_counts, seeds, values
from vector_check import Expected, check, write
from vector_oracle import TYPES
from vector_program import BLOCK, IMAGE, Case, Entry, Mask, entries, listed

pytestmark = pytest.mark.native
Drawn = tuple[Case, Expected, np.ndarray]
NO_MASK = Mask()


def bits_of(value: np.ndarray) -> int:
    return int(value.view({1: np.uint8, 2: np.uint16, 4: np.uint32}[value.itemsize])[0])


@pytest.fixture(autouse=True)
def any_values():
    """Overflow and NaN are among what is drawn."""
    with np.errstate(all="ignore"):
        yield


@st.composite
def fills(draw: st.DrawFn, entry: Entry) -> Drawn:
    dtype = TYPES[entry.types[0]]
    lanes = lanes_of(*entry.types)
    repeat = draw(repeat_counts())
    mask = draw(masks(lanes, repeat))
    (to,) = draw(layouts([8], mask.repeats(lanes, repeat)))
    image, rng = blank(draw(seeds()))
    scalar = values(rng, dtype, 1)
    expected = Expected(image.copy(), [])
    for r, on in enumerate(mask.active(lanes, repeat)):
        found = np.repeat(scalar, lanes)
        if entry.function == "vci":
            counted = oracle.widen(scalar).astype(np.float64) + r * lanes + np.arange(lanes)
            found = oracle.convert(counted if found.dtype.kind == "f" else counted.astype(np.int64), dtype)[0]
        write(expected, to, oracle.Lanes(found, np.zeros(lanes, bool)), r, on)
        expected.lanes += int(on.sum())
    if entry.function == "vector_dup":
        expected.loose = []  # whatever the bits are
    return Case(entry, mask, (to.offset, bits_of(scalar), repeat, to.block, to.repeat)), expected, image


@pytest.mark.parametrize("name", [*listed("DUP"), "vci-half", "vci-float", "vci-int16_t", "vci-int32_t"])
def test_fills(name: str) -> None:
    @settings(max_examples=3)
    @given(st.lists(fills(entries()[name]), min_size=4, max_size=4))
    def drawn(cases: list[Drawn]) -> None:
        check(cases, "ascend310p1" if name.startswith("vector_dup") else "ascend310b1")

    drawn()


@st.composite
def broadcasts(draw: st.DrawFn, entry: Entry) -> Drawn:
    dtype = TYPES[entry.types[0]]
    per_block = BLOCK // np.dtype(dtype).itemsize
    repeat = draw(st.integers(0, 20))
    to = Operand(8192, draw(st.integers(1, 4)), draw(st.integers(0, 40)))
    image, _ = blank(draw(seeds()))
    expected = Expected(image.copy(), [], lanes=repeat * 8 * per_block)
    source = image[: repeat * 8 * np.dtype(dtype).itemsize].view(dtype).reshape(repeat, 8)
    for r in range(repeat):
        to.write(expected.image, np.repeat(source[r], per_block), r, np.ones(8 * per_block, bool))
    return Case(entry, NO_MASK, (to.offset, 0, to.block, to.repeat, repeat)), expected, image


@pytest.mark.parametrize("name", ["vbrcb-uint16_t", "vbrcb-uint32_t"])
def test_broadcast_of_elements_to_blocks(name: str) -> None:
    @settings(max_examples=3)
    @given(st.lists(broadcasts(entries()[name]), min_size=4, max_size=4))
    def drawn(cases: list[Drawn]) -> None:
        check(cases, "ascend310b1")

    drawn()


@st.composite
def matrices(draw: st.DrawFn, entry: Entry) -> Drawn:
    dtype = TYPES[entry.types[0]]
    size = np.dtype(dtype).itemsize
    image, _ = blank(draw(seeds()))
    if entry.function == "vtranspose":
        rows, columns = 16, 16
        to = draw(st.sampled_from([0, 512, 1024]))  # in place, or behind
        words: tuple[int, ...] = (to, 0)
    else:
        pixels, channels = draw(st.integers(1, 12)) * BLOCK // size, draw(st.integers(1, 40))
        channels_last = draw(st.booleans())
        rows, columns = (pixels, channels) if channels_last else (channels, pixels)
        to = IMAGE // 2
        words = (to, 0, pixels, channels, int(channels_last))
    expected = Expected(image.copy(), [], lanes=rows * columns)
    source = image[: rows * columns * size].view(dtype).reshape(rows, columns)
    expected.image[to : to + source.nbytes] = np.ascontiguousarray(source.T).view(np.uint8).ravel()
    return Case(entry, NO_MASK, words), expected, image


@pytest.mark.parametrize("name", ["vtranspose-uint16_t", "v4dtrans-uint8_t", "v4dtrans-uint16_t", "v4dtrans-uint32_t"])
def test_matrices_are_transposed(name: str) -> None:
    @settings(max_examples=4)
    @given(st.lists(matrices(entries()[name]), min_size=3, max_size=3))
    def drawn(cases: list[Drawn]) -> None:
        check(cases)

    drawn()


@st.composite
def address_lists(draw: st.DrawFn, start: int) -> list[int]:
    """Sixteen blocks: in one sequence, in two halves, or in two that alternate."""
    kind, stride = draw(st.sampled_from(["one", "halves", "alternate"])), draw(st.integers(1, 8))
    if kind == "one":
        blocks = [i * stride for i in range(16)]
    elif kind == "halves":
        blocks = [i * stride for i in range(8)] + [200 + i * stride for i in range(8)]
    else:
        blocks = [i // 2 * stride + i % 2 * 150 for i in range(16)]
    return [start + block * BLOCK for block in blocks]


@st.composite
def block_transposes(draw: st.DrawFn, entry: Entry) -> Drawn:
    dtype = TYPES[entry.types[0]]
    columns = 8 if np.dtype(dtype).itemsize == 4 else 16
    repeat = draw(st.sampled_from([0, 1, 1, 2, 5]))
    dst_stride, src_stride = draw(st.integers(0, 20)), draw(st.integers(0, 20))
    upper = [draw(st.booleans()) for _ in range(2)] if columns * np.dtype(dtype).itemsize < BLOCK else [False, False]
    source, target = draw(address_lists(0)), draw(address_lists(IMAGE // 2))
    image, _ = blank(draw(seeds()))
    expected = Expected(image.copy(), [], lanes=repeat * 16 * columns)
    bytes_in_row = columns * np.dtype(dtype).itemsize
    for r in range(repeat):
        shift = 1 if repeat == 1 else r  # one repeat alone starts a stride behind the addresses
        at = [a + shift * src_stride * BLOCK + upper[1] * 16 for a in source]
        rows = np.stack([expected.image[a : a + bytes_in_row] for a in at]).view(dtype)
        blocks = np.ascontiguousarray(rows.T).reshape(16, columns)
        for a, block in zip(target, blocks, strict=True):
            first = a + shift * dst_stride * BLOCK + upper[0] * 16
            expected.image[first : first + bytes_in_row] = block.view(np.uint8)
    words = (repeat, dst_stride, src_stride, int(upper[0]), int(upper[1]), *target, *source)
    return Case(entry, NO_MASK, words), expected, image


@pytest.mark.parametrize(
    "name", ["scatter_vnchwconv_b8-uint8_t", "scatter_vnchwconv_b16-uint16_t", "scatter_vnchwconv_b32-uint32_t"]
)
def test_sixteen_blocks_are_transposed(name: str) -> None:
    @settings(max_examples=6)
    @given(st.lists(block_transposes(entries()[name]), min_size=4, max_size=4))
    def drawn(cases: list[Drawn]) -> None:
        check(cases)

    drawn()


@st.composite
def indexed(draw: st.DrawFn, entry: Entry) -> Drawn:
    dtype = TYPES[entry.types[0]]
    size = np.dtype(dtype).itemsize
    lanes = lanes_of(*entry.types)
    repeat = draw(st.integers(0, 6))
    mask = draw(masks(lanes, repeat))
    repeats = mask.repeats(lanes, repeat)
    image, rng = blank(draw(seeds()))
    table, offsets, row = IMAGE // 2, 0, Operand(IMAGE // 4, 1, draw(st.integers(0, 16)))
    spread = draw(st.sampled_from([lanes * max(repeats, 1), 5000]))
    places = rng.permutation(max(spread, lanes * max(repeats, 1)))[: lanes * repeats].astype(np.uint32) * size
    base = draw(st.integers(0, 8)) * size
    image[offsets : offsets + places.nbytes] = places.view(np.uint8)
    expected = Expected(image.copy(), [])
    for r, on in enumerate(mask.active(lanes, repeat)):
        at = (table + base + places[r * lanes : (r + 1) * lanes])[:, None] + np.arange(size)
        if entry.function == "vgather":
            row.write(expected.image, expected.image[at].view(dtype)[:, 0], r, on)
        else:
            expected.image[at[on]] = row.read(expected.image, dtype, lanes, r)[on].view(np.uint8).reshape(-1, size)
        expected.lanes += int(on.sum())
    strides = (row.repeat, 0) if entry.function == "vgather" else (0, row.repeat)
    first = (row.offset, offsets) if entry.function == "vgather" else (offsets, row.offset)
    return Case(entry, mask, (*first, table + base, *strides, repeat)), expected, image


@pytest.mark.parametrize("name", ["vgather-uint16_t", "vgather-uint32_t", "vscatter-uint16_t", "vscatter-uint32_t"])
def test_elements_go_where_offsets_say(name: str) -> None:
    @settings(max_examples=5)
    @given(st.lists(indexed(entries()[name]), min_size=4, max_size=4))
    def drawn(cases: list[Drawn]) -> None:
        check(cases)

    drawn()


PATTERNS = {1: [1, 0, 1, 0], 2: [0, 1, 0, 1], 3: [1, 0, 0, 0], 4: [0, 1, 0, 0], 5: [0, 0, 1, 0], 6: [0, 0, 0, 1]}


@st.composite
def compactions(draw: st.DrawFn, entry: Entry) -> tuple[Drawn, int]:
    dtype = TYPES[entry.types[0]]
    lanes = lanes_of(*entry.types)
    repeat = draw(st.integers(0, 6))
    mask = Mask(0, draw(st.integers(1, lanes * max(repeat, 1))), counter=True) if draw(st.booleans()) else Mask(3, 5)
    pattern, stride = draw(st.integers(0, 6)), draw(st.integers(0, 3))
    (source,) = draw(layouts([8], mask.repeats(lanes, repeat)))
    image, _ = blank(draw(seeds()))
    expected = Expected(image.copy(), [])
    bits, to = IMAGE // 2, IMAGE - 16384
    kept = []
    for r in range(mask.repeats(lanes, repeat)):
        on = mask.active(lanes, repeat)[r] if mask.counter else np.ones(lanes, bool)  # in normal mode the mask does not count
        start = bits + r * stride * BLOCK
        chosen = np.unpackbits(image[start : start + lanes // 8], bitorder="little") if pattern == 0 else PATTERNS[pattern]
        kept.append(source.read(image, dtype, lanes, r)[on & np.resize(chosen, lanes).astype(bool)])
        expected.lanes += int(on.sum())
    packed = np.concatenate([*kept, np.empty(0, dtype)]).astype(dtype)
    expected.image[to : to + packed.nbytes] = packed.view(np.uint8)
    words = (to, source.offset, bits, repeat, source.block, pattern, source.repeat, stride)
    return (Case(entry, mask, words), expected, image), len(packed)


@pytest.mark.parametrize("name", ["vreduce-uint16_t", "vreduce-uint32_t"])
def test_chosen_elements_are_packed(name: str) -> None:
    @settings(max_examples=10)
    @given(st.lists(compactions(entries()[name]), min_size=4, max_size=4))
    def drawn(cases: list[tuple[Drawn, int]]) -> None:
        registers, _ = check([case for case, _ in cases])
        assert [int(n) for n in registers[:, 2]] == [kept for _, kept in cases]

    drawn()


def quantization(rng: np.random.Generator, has_sign: bool) -> tuple[int, float, int]:
    """A scale's word, the scale with the 10 bits of mantissa that the chip keeps, and the offset."""
    raw = np.float32(rng.standard_normal() * 2.0 ** int(rng.integers(-12, 2))).view(np.uint32)
    offset = int(rng.integers(-256, 256))
    word = int(raw) | (offset & 0x1FF) << 37 | int(has_sign) << 46
    return word, float((raw & np.uint32(0xFFFFE000)).view(np.float32)), offset


@st.composite
def dequantizations(draw: st.DrawFn, entry: Entry) -> Drawn:
    dtype = TYPES[entry.types[0]]
    repeat = draw(repeat_counts())
    mask = draw(masks(128, repeat))
    to, source = draw(layouts([8, 8], mask.repeats(128, repeat)))
    upper = draw(st.booleans())
    image, rng = blank(draw(seeds()))
    fill(image, rng, source, np.int16, 128, mask.repeats(128, repeat))
    count = 16 if entry.function == "vconv_vdeqs162b8" else 1
    words, scales, offsets = zip(*(quantization(rng, dtype is np.int8) for _ in range(count)), strict=True)
    at = IMAGE - 128
    image[at : at + 8 * count] = np.array(words, np.uint64).view(np.uint8)
    expected = Expected(image.copy(), [])
    for r, on in enumerate(mask.active(128, repeat)):
        value = source.read(image, np.int16, 128, r).astype(np.float64)
        rounded, lost = oracle.to_integer(np.rint(value * np.resize(scales, 128) + np.resize(offsets, 128)), dtype)
        lane = np.flatnonzero(on)
        place: Any = to.offset + r * to.repeat * BLOCK + lane // 16 * to.block * BLOCK + lane % 16 + 16 * upper
        expected.image[place] = rounded[on].view(np.uint8)
        expected.clamped += int((lost & on).sum())
        expected.lanes += len(lane)
    arguments = (to.offset, source.offset, repeat, to.block, source.block, to.repeat, source.repeat, int(upper), at)
    return Case(entry, mask, arguments, scale=words[0]), expected, image


DEQUANTIZATIONS = [f"{function}-{of}" for function in ("vconv_deqs162b8", "vconv_vdeqs162b8") for of in ("int8_t", "uint8_t")]


@pytest.mark.parametrize("name", DEQUANTIZATIONS)
def test_requantised_values(name: str) -> None:
    @settings(max_examples=4)
    @given(st.lists(dequantizations(entries()[name]), min_size=4, max_size=4))
    def drawn(cases: list[Drawn]) -> None:
        check(cases)

    drawn()


def test_the_compare_mask_register_is_sixteen_bytes() -> None:
    image, _ = blank(1)
    expected = Expected(image.copy(), [])
    expected.image[64:80] = image[160:176]
    check([(Case(entries()["get_cmpmask"], NO_MASK, (64, 160)), expected, image)])
    check([(Case(entries()["set_cmpmask"], NO_MASK, (160,)), Expected(image.copy(), []), image)])
