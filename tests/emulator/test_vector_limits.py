"""What the emulated vector unit refuses, what it leaves in registers, and that no instruction was forgotten."""

import dataclasses

import numpy as np
import pytest
from vector_cases import blank
from vector_program import ALL, BLOCK, IMAGE, Case, Entry, Mask, entries, execute, listed

from hajax import abi
from hajax.backends.sim import SimFault, SimOptions

pytestmark = pytest.mark.native
FULL = Mask(0, ALL)
HALVES = Mask(ALL, ALL)
UB_BYTES = 256 * 1024 - 8 * 1024  # of 310P, without the API's reserve
PLAIN = SimOptions(threads=1, timeline=False)


def run(
    entry: Entry, words: tuple[int, ...], mask: Mask = FULL, target: str = "ascend310p1", options: SimOptions = PLAIN, **more
):
    image, _ = blank(3)
    case = Case(entry, mask, words, **more)
    images, registers, done = execute([case], image[None], target, options)
    return images[0], image, registers[0], done


def fault(entry: str, words: tuple[int, ...], mask: Mask = FULL, **more) -> SimFault:
    with pytest.raises(SimFault) as raised:
        run(entries()[entry], words, mask, **more)
    return raised.value


def binary(dst=0, src0=4096, src1=8192, repeat=1, blocks=(1, 1, 1), repeats=(8, 8, 8)) -> tuple[int, ...]:
    return (dst, src0, src1, repeat, *blocks, *repeats)


def unary(dst=0, src=4096, repeat=1, blocks=(1, 1), repeats=(8, 8)) -> tuple[int, ...]:
    return (dst, src, repeat, *blocks, *repeats)


def test_every_vector_instruction_has_a_case() -> None:
    wanted = {str(row[1]) for row in abi.rows("instructions") if row[2] == "V" and row[3] != "move"}
    assert {entry.instruction for entry in entries().values()} == wanted
    every = listed("BINARY", "TERNARY", "UNARY", "SCALAR", "SCALAR_TERNARY", "REDUCE", "EXTREME", "DUP")
    assert set(every) < set(entries())


LIMITS = {
    "repeat above its 8 bits": ("vadd-float-float", binary(repeat=256)),
    "negative repeat": ("vadd-float-float", binary(repeat=-1)),
    "repeat of one source": ("vexp-half-half", unary(repeat=300)),
    "repeat of a reduction": ("vcadd-float-float", (0, 4096, 256, 1, 1, 8)),
    "repeat of a transpose": ("scatter_vnchwconv_b16-uint16_t", (256, 0, 0, 0, 0, *[0] * 16, *[512] * 16)),
    "block stride above 8 bits": ("vmul-float-float", binary(blocks=(1, 256, 1))),
    "repeat stride above 8 bits": ("vmul-float-float", binary(repeats=(8, 8, 256))),
    "block stride above 16 bits": ("vabs-float-float", unary(blocks=(1, 65536))),
    "repeat stride of one source above 8 bits": ("vabs-float-float", unary(repeats=(256, 8))),
    "destination's block stride 0": ("vadd-float-float", binary(blocks=(0, 1, 1))),
    "register for two repeats": ("vcmp_lt-float", (64, 4096, 8192, 2, 1, 1, 1, 8, 8, 8)),
    "side of a matrix": ("v4dtrans-uint16_t", (0, 4096, 4096, 1, 0)),
    "pattern": ("vreduce-uint16_t", (0, 4096, 0, 1, 1, 7, 8, 0)),
    "scale for the other sign": ("vconv_deqs162b8-int8_t", (0, 4096, 1, 1, 1, 8, 8, 0)),
}


@pytest.mark.parametrize(("entry", "words"), LIMITS.values(), ids=LIMITS)
def test_values_that_do_not_fit_their_field(entry: str, words: tuple[int, ...]) -> None:
    assert fault(entry, words).check == "limit"


@pytest.mark.parametrize(
    ("entry", "mask"),
    [
        ("vadd-float-float", Mask(0, 0)),
        ("vadd-half-half", Mask(0, 0)),
        ("vadd-float-float", Mask(0, 0, counter=True)),
        ("vadd-half-half", Mask(0, 1 << 32, counter=True)),
        ("vadd-float-float", Mask(1, ALL)),
        ("vadd-float-float", Mask(ALL, 1)),
    ],
)
def test_masks_that_mean_nothing(entry: str, mask: Mask) -> None:
    assert fault(entry, binary(), mask).check == "limit"


def test_a_count_for_an_instruction_that_ignores_the_mask_is_of_whole_repeats() -> None:
    assert fault("vcmpv_lt-float", binary(), Mask(0, 63, counter=True)).check == "limit"


@pytest.mark.parametrize("words", [binary(dst=16), binary(src0=4096 + 8), binary(src1=8192 + 4)])
def test_operands_start_at_blocks(words: tuple[int, ...]) -> None:
    assert fault("vadd-float-float", words).check == "misaligned"


@pytest.mark.parametrize(
    ("entry", "dst"), [("vcadd-half-half", 1), ("vcmax-half-half", 2), ("vcmin-float-float", 4), ("vcgadd-half-half", 8)]
)
def test_results_of_reductions_start_at_their_own_size(entry: str, dst: int) -> None:
    assert fault(entry, (dst, 4096, 1, 1, 1, 8, 0), HALVES if "half" in entry else FULL).check == "misaligned"


@pytest.mark.parametrize("words", [binary(dst=UB_BYTES - 128), binary(dst=-BLOCK), binary(repeat=255, repeats=(255, 8, 8))])
def test_operands_lie_in_ub(words: tuple[int, ...]) -> None:
    assert fault("vadd-float-float", words).check == "out_of_bounds"


def test_lanes_that_are_off_may_lie_outside() -> None:
    words = (UB_BYTES - 128, 7, 1, 1, 8)
    assert fault("vector_dup-float", words).check == "out_of_bounds"
    run(entries()["vector_dup-float"], words, Mask(0, (1 << 32) - 1))


def test_never_written_operands() -> None:
    assert fault("vabs-float-float", unary(src=IMAGE)).check == "uninitialized"
    run(entries()["vabs-float-float"], unary(src=IMAGE - 128), Mask(0, (1 << 32) - 1))


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("vadd-float-float", binary(src0=BLOCK)),
        ("vadd-float-float", binary(src1=224)),
        ("vabs-float-float", unary(src=0, repeat=2, repeats=(4, 4))),
        ("vabs-float-float", unary(src=256, dst=512, repeat=3)),
        ("vconv_f162f32-float-half", unary(src=0)),
        ("vmla-float-float", binary(repeat=2, repeats=(4, 8, 8))),
        ("vcadd-float-float", (512, 0, 4, 1, 1, 8)),
        ("vcpadd-half-half", (256, 0, 3, 1, 1, 8)),
        ("v4dtrans-uint16_t", (BLOCK, 0, 16, 2, 0)),
        ("vreduce-uint16_t", (0, 0, 8192, 1, 1, 1, 8, 0)),
    ],
)
def test_overlap_in_part(entry: str, words: tuple[int, ...]) -> None:
    assert fault(entry, words, HALVES if "half" in entry.split("-")[-1] else FULL).check == "partial_overlap"


def offsets_image(offsets: list[int]) -> np.ndarray:
    image, _ = blank(4)
    image[: 4 * len(offsets)] = np.array(offsets, np.uint32).view(np.uint8)
    return image


@pytest.mark.parametrize(
    ("entry", "offsets", "check"),
    [
        ("vgather-uint32_t", [0, 2], "misaligned"),
        ("vgather-uint32_t", [0, UB_BYTES], "out_of_bounds"),
        ("vgather-uint32_t", [0, IMAGE], "uninitialized"),
        ("vgather-uint16_t", [0, 4096], "partial_overlap"),
        ("vscatter-uint32_t", [64, 1], "misaligned"),
        ("vscatter-uint16_t", [64, UB_BYTES + 64], "out_of_bounds"),
        ("vscatter-uint32_t", [64, 64], "limit"),
        ("vscatter-uint32_t", [64, 4096], "partial_overlap"),
        ("vscatter-uint32_t", [64, 4], "partial_overlap"),
    ],
)
def test_offsets_that_lead_nowhere(entry: str, offsets: list[int], check: str) -> None:
    first = (4096, 0) if "gather" in entry else (0, 4096)
    case = Case(entries()[entry], Mask(0, 3), (*first, 0, 8, 8, 1))
    with pytest.raises(SimFault) as raised:
        execute([case], offsets_image(offsets)[None])
    assert raised.value.check == check


def test_gathered_elements_may_take_the_place_of_their_offsets() -> None:
    image = offsets_image([8192 + 4 * i for i in range(128)])
    case = Case(entries()["vgather-uint32_t"], FULL, (0, 0, 0, 8, 8, 2))
    images, _, _ = execute([case], image[None])
    assert np.array_equal(images[0, :512], image[8192:8704])
    with pytest.raises(SimFault) as raised:
        execute([dataclasses.replace(case, words=(0, 0, 0, 4, 8, 2))], image[None])
    assert raised.value.check == "partial_overlap"


@pytest.mark.parametrize("entry", ["vbrcb-uint16_t", "vci-float"])
def test_what_310p_lacks(entry: str) -> None:
    assert fault(entry, (0, 4096, 1, 8, 1) if "brcb" in entry else (0, 0, 1, 1, 8)).check == "unsupported"


def test_comparisons_on_310b_want_every_lane() -> None:
    words = (64, 4096, 8192, 1, 1, 1, 1, 8, 8, 8)
    assert fault("vcmpv_lt-float", words, Mask(0, 7), target="ascend310b1").check == "unsupported"
    run(entries()["vcmpv_lt-float"], words, target="ascend310b1")


@pytest.mark.parametrize("entry", ["vadd-float-float", "vmla-half-half"])
def test_no_repeats_change_nothing(entry: str) -> None:
    after, before, _, done = run(entries()[entry], binary(repeat=0), Mask(0, 0))
    assert np.array_equal(after, before)
    assert done.counts[entry.split("-")[0]] == 1
    assert done.counts["vector_lanes"] == 0


def test_blocks_and_pairs_without_lanes_on_310b_get_the_neutral_value() -> None:
    for entry, fill in [("vcgadd", 0.0), ("vcgmax", -np.inf), ("vcgmin", np.inf)]:
        after, before, _, _ = run(entries()[f"{entry}-float-float"], (0, 4096, 1, 1, 1, 8), Mask(0, 0xFF), target="ascend310b1")
        assert np.array_equal(after[4:BLOCK].view(np.float32), np.full(7, fill, np.float32))
        after, _, _, _ = run(entries()[f"{entry}-half-half"], (0, 4096, 1, 1, 1, 8), Mask(0, 0xFFFF), target="ascend310b1")
        assert np.array_equal(after[2:16].view(np.float16), np.clip(np.full(7, fill), -65504, 65504).astype(np.float16))
        after, before, _, _ = run(entries()[f"{entry}-float-float"], (0, 4096, 1, 1, 1, 8), Mask(0, 0xFF))
        assert np.array_equal(after[4:BLOCK], before[4:BLOCK])
    after, _, _, _ = run(entries()["vcpadd-float-float"], (0, 4096, 1, 1, 1, 8), Mask(0, 3), target="ascend310b1")
    assert not after[4:128].any()


def test_registers_after_reductions() -> None:
    image, _ = blank(5)
    numbers = np.arange(192, dtype=np.float32)
    numbers[100], numbers[150] = 1000.0, -7.0
    image[4096 : 4096 + numbers.nbytes] = numbers.view(np.uint8)
    words = (0, 4096, 3, 1, 1, 8)
    cases = [Case(entries()[f"{name}-float-float"], FULL, (*words, 0)) for name in ("vcadd", "vcmax", "vcmin")]
    _, registers, _ = execute(cases, np.stack([image] * 3))
    assert np.uint32(registers[0, 0]).view(np.float32) == np.float32(numbers.sum())
    assert (np.uint32(registers[1, 1] & 0xFFFFFFFF).view(np.float32), registers[1, 1] >> 32) == (1000.0, 100 - 64)
    assert (np.uint32(registers[2, 1] & 0xFFFFFFFF).view(np.float32), registers[2, 1] >> 32) == (-7.0, 150 - 128)
    assert all(registers[:, 3] == 1 << 53)  # CTRL after the mode was set back: saturation, no counter


def test_saturation_is_fatal_on_request() -> None:
    image, _ = blank(6)
    image[4096:8192] = np.full(2048, 60000, np.float16).view(np.uint8)
    case = Case(entries()["vadd-half-half"], HALVES, binary(src1=4096))
    _, _, done = execute([case], image[None])
    assert done.counts["saturated"] == 128
    with pytest.raises(SimFault) as raised:
        execute([case], image[None], options=SimOptions(threads=1, fatal_saturation=True))
    assert raised.value.check == "saturated"
    assert "vadd" in str(raised.value)


def test_rearranging_counts_as_layout_transform() -> None:
    expected = {
        "vtranspose-uint16_t": 512,
        "v4dtrans-uint16_t": 16 * 3 * 2,
        "scatter_vnchwconv_b8-uint8_t": 2 * 256,
        "vabs-half-half": 0,
    }
    words = {
        "vtranspose-uint16_t": (0, 4096), "v4dtrans-uint16_t": (0, 4096, 16, 3, 0), "vabs-half-half": unary(),
        "scatter_vnchwconv_b8-uint8_t": (2, 16, 16, 0, 0, *range(0, 512, BLOCK), *range(8192, 8704, BLOCK)),
    }  # fmt: skip
    for entry, count in expected.items():
        _, _, _, done = run(entries()[entry], words[entry], HALVES)
        assert done.counts["transform_bytes"] == count, entry


def test_scattered_address_lists_are_refused() -> None:
    random = [int(i) * BLOCK for i in np.random.default_rng(0).permutation(64)[:16]]
    words = (1, 0, 0, 0, 0, *random, *range(8192, 8704, BLOCK))
    assert fault("scatter_vnchwconv_b16-uint16_t", words, HALVES).check == "unsupported"
