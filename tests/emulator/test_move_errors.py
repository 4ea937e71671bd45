"""Moves that the emulated chip refuses: values that fields cannot hold, wrong places, bytes that nothing wrote."""

import numpy as np
import pytest
from move_model import BROADCASTS, COPIES, FILLS, LOADS, RESULTS, WINDOW
from move_program import BLOCK, SPACES, Program

from hajax import abi
from hajax.backends.sim import Output, SimFault

pytestmark = pytest.mark.native
FULL = {"L1": 1 << 20, "L0A": 1 << 16, "L0B": 1 << 16, "L0C": 1 << 18, "UB": (1 << 18) - (1 << 13), "GM": WINDOW["GM"]}
EACH_FIELD = [
    *(
        (name, field, low, high)
        for name in COPIES
        for field, low, high in ((2, 1, 4095), (3, 1, 65535), (4, 0, 65535), (5, 0, 65535))
    ),
    *((name, field, 0, high) for name in LOADS for field, high in ((2, 65535), (3, 255), (4, 65535), (5, 65535))),
    *((name, 1, 0, 255) for name in FILLS),
    *(
        (f"copy_{kind}_{way}_f32_f32", field, low, high)
        for kind in ("matrix", "vector")
        for way in ("cc_to_ubuf", "ubuf_to_cc")
        for field, low, high in ((2, 1, 4095), (3, 1, 65535), (4, 0, 65535), (5, 0, 65535))
    ),
    *(("broadcast_ub_to_cc_f32", field, low, 255) for field, low in ((2, 1), (3, 1), (4, 0), (5, 0))),
]


@pytest.mark.parametrize(("name", "field", "low", "high"), EACH_FIELD)
def test_a_value_that_a_field_cannot_hold_is_an_error(name, field, low, high):
    for value in (low - 1, high + 1, 1 << 40):
        words = [0, 0, 1, 1, 0, 0, 0]
        words[field] = value
        with pytest.raises(SimFault, match=rf"expected {low} to {high}, got {value}\b") as caught:
            Program().add(name, *words).run({}, np.zeros(BLOCK, np.uint8))
        assert caught.value.check == "limit"


def test_a_load_that_goes_below_the_first_fractal_is_an_error():
    with pytest.raises(SimFault, match="last fractal: expected 0 to 65535, got -1") as caught:
        Program().add("load_gm_to_cbuf", 0, 0, 1, 3, 1, 0, 1).run({}, np.zeros(4096, np.uint8))
    assert caught.value.check == "limit"


def operands(name):
    """(space, words with the first or second operand at this offset) of an instruction."""
    if name in COPIES:
        return {COPIES[name][i]: (lambda at, i=i: [*((at, 0) if i == 0 else (0, at)), 2, 1, 0, 0, 0]) for i in (0, 1)}
    if name in LOADS:
        return {LOADS[name][i]: (lambda at, i=i: [*((at, 0) if i == 0 else (0, at)), 0, 2, 1, 0, 0, 0]) for i in (0, 1)}
    if name in FILLS:
        return {FILLS[name]: lambda at: [at, 2, 0]}
    l0c_first = "to_cc" in name
    mode = [] if "broadcast" in name else [0]
    return {
        "L0C": lambda at: [*((at, 0) if l0c_first else (0, at)), 2, 1, 0, 0, *mode],
        "UB": lambda at: [*((0, at) if l0c_first else (at, 0)), 2, 1, 0, 0, *mode],
    }


PLACES = [
    (name, space)
    for name in [
        *COPIES,
        *LOADS,
        *FILLS,
        *(result for result in RESULTS if result.endswith("_f32_f32")),
        *BROADCASTS,
    ]
    for space in operands(name)
]
ALIGNMENT = {str(row[1]): int(row[2]) for row in abi.rows("spaces")}


def alignment_of(name, space):
    return (512 if name.endswith("_f16") else 1024) if space == "L0C" else ALIGNMENT[space]


def filled(*without):
    return {space: np.zeros(FULL[space], np.uint8) for space in SPACES if space not in without}


@pytest.mark.parametrize(("name", "space"), [place for place in PLACES if place[1] != "GM"])
def test_a_misaligned_operand_is_an_error(name, space):
    alignment = alignment_of(name, space)
    words = operands(name)[space](alignment // 2)
    with pytest.raises(SimFault, match=rf"{space} offset .* a multiple of {alignment} bytes") as caught:
        Program().add(name, *words).run({}, np.zeros(8192, np.uint8))
    assert caught.value.check == "misaligned"


@pytest.mark.parametrize(("name", "space"), PLACES)
@pytest.mark.parametrize("before", [False, True])
def test_an_operand_out_of_bounds_is_an_error(name, space, before):
    step = max(alignment_of(name, space), BLOCK)
    words = operands(name)[space](-step if before else FULL[space] - step)  # two runs or fractals do not fit
    with pytest.raises(SimFault, match=space) as caught:
        Program().add(name, *words).run({}, np.zeros(FULL["GM"], np.uint8))
    assert caught.value.check == "out_of_bounds"


def source_of(name):
    return {**COPIES, **LOADS}[name][1] if name in COPIES or name in LOADS else "L0C" if "cc_to" in name else "UB"


@pytest.mark.parametrize("name", [name for name in dict(PLACES) if name not in FILLS and source_of(name) != "GM"])
def test_a_read_of_bytes_that_nothing_wrote_is_an_error(name):
    space = source_of(name)
    with pytest.raises(SimFault, match=f"src reads {space} byte 0 that nothing has written") as caught:
        Program().add(name, *operands(name)[space](0)).run(filled(space), np.zeros(8192, np.uint8))
    assert caught.value.check == "uninitialized"


def test_ub_to_ub_must_not_overlap_in_part():
    program = Program().add("copy_ubuf_to_ubuf", 32, 0, 1, 4, 0, 0)
    with pytest.raises(SimFault) as caught:
        program.run(filled(), np.zeros(BLOCK, np.uint8))
    assert caught.value.check == "partial_overlap"


@pytest.mark.parametrize(
    ("name", "words", "text"),
    [
        ("copy_gm_to_cbuf", (0, 0, 1, 1, 0, 0, 1), "pad: expected PAD_NONE, got 1"),
        ("load_cbuf_to_ca_s8", (0, 0, 0, 1, 1, 0, 1, 0), "transpose: expected elements of 2 bytes, got 1"),
        ("load_cbuf_to_ca_f32", (0, 0, 0, 1, 1, 0, 0, 0), "elements of 4 bytes: only on __NPU_ARCH__ 3002"),
        ("create_ca_matrix_b32", (0, 1, 0), "elements of 4 bytes: only on __NPU_ARCH__ 3002"),
        ("set_atomic_s32", (), "atomic addition of int32_t: only on __NPU_ARCH__ 3002"),
    ],
)
def test_what_the_310p_lacks_is_an_error(name, words, text):
    with pytest.raises(SimFault, match=text) as caught:
        Program().add(name, *words).run(filled(), np.zeros(8192, np.uint8))
    assert caught.value.check == "unsupported"


def test_messages_name_the_source_line():
    with pytest.raises(SimFault, match=r"move_entry\.cpp:\d+"):
        Program().add("copy_gm_to_ubuf", 0, 0, 0, 1, 0, 0).run({}, np.zeros(BLOCK, np.uint8))


def test_an_atomic_copy_to_gm_that_nothing_wrote_is_an_error():
    rows = Program().add("set_atomic_f32").add("copy_ubuf_to_gm", 0, 0, 1, 2, 0, 0).rows
    before = {"UB": np.zeros(64, np.uint8)}
    Program(list(rows)).run(before, np.zeros(64, np.uint8))
    with pytest.raises(SimFault, match=r"dst reads GM byte \d+, byte 0 of its allocation, that nothing has written") as caught:
        Program(list(rows)).run(before, Output((64,), np.uint8))
    assert caught.value.check == "uninitialized"
