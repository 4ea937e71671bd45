"""The vector form of a decay per channel: within the bounds whatever its order and layouts, in one chip's memories."""

import dataclasses

import pytest
from vector_problem import assert_close, drawn, interpreted

from hajax.lowering.assembler import Constants, Dims
from hajax.lowering.vector_channel import build
from hajax.lowering.vector_steps import Layouts
from hajax.passes.pipeline import pipeline
from hajax.passes.place_buffers import peak_bytes, place_buffers
from hajax.passes.sync import synchronise
from hajax.plans import footprint
from hajax.targets import npu

CHIP = npu.load("ascend310p1")
SIZES = footprint.Dims(64, 128)
CHIP_BYTES = {"L1": CHIP.l1_bytes, "L0A": CHIP.l0a_bytes, "L0B": CHIP.l0b_bytes, "L0C": CHIP.l0c_bytes, "UB": 248 * 1024}
DENSE = Layouts(residual="dense", x="dense", output="dense", state="dense")
SMALL = "B=2 T=150 lengths=150,64 Hv=1 dtype=float16 op=kda"


@pytest.mark.parametrize("decay", ["none", "weak", "usual", "strong", "mixed", "resets", "wide", "bounded"])
def test_results_are_within_the_bounds(decay):
    arrays = drawn(f"B=4 T=150 lengths=1,63,65,150 Hv=1 Dk=128 Dv=128 dtype=float16 op=kda decay={decay}")
    assert_close(arrays, interpreted(arrays, build))


@pytest.mark.parametrize("decay", ["none", "mixed"])
def test_repeated_keys_are_within_the_bounds(decay):
    arrays = drawn(f"{SMALL} Dk=128 Dv=128 decay={decay} keys=repeated")
    assert_close(arrays, interpreted(arrays, build))


def test_columns_may_be_shared_out():
    arrays = drawn(f"{SMALL} Dk=48 Dv=64")
    whole = interpreted(arrays, build)
    assert_close(arrays, whole)
    for part, of_all in zip(interpreted(arrays, build, columns=32), whole, strict=True):
        assert (part == of_all).all()


@pytest.mark.parametrize(
    "switches", [{"layouts": DENSE}, {"order": "definition"}, {"order": "spilled", "layouts": DENSE}], ids=str
)
def test_neither_layouts_nor_orders_change_a_bit(switches):
    arrays = drawn(f"{SMALL} Dk=80 Dv=48")
    expected, got = interpreted(arrays, build), interpreted(arrays, build, **switches)
    assert all((a == b).all() for a, b in zip(expected, got, strict=True))


def test_channels_in_one_piece_are_within_the_bounds():
    arrays = drawn(f"{SMALL} Dk=128 Dv=64 decay=mixed")
    assert_close(arrays, interpreted(arrays, build, piece=8))


@pytest.mark.parametrize("switches", [{}, {"order": "spilled", "layouts": DENSE}], ids=str)
def test_without_a_correction(switches):
    arrays = drawn("B=2 T=150 lengths=150,64 Hv=1 dtype=float16 op=gla Dk=48 Dv=32")
    assert_close(arrays, interpreted(arrays, build, delta=False, **switches), delta=False)


def test_the_planned_order_fits_and_computes_the_same_with_addresses():
    arrays = drawn(f"{SMALL} Dk=128 Dv=128")

    def planned(programs):
        program, _ = pipeline(programs.programs[0], SIZES, CHIP)
        program = synchronise(place_buffers(program, SIZES, CHIP)[0], SIZES, CHIP)[0]
        assert all(size <= CHIP_BYTES[space] for space, size in peak_bytes(program).items())
        return dataclasses.replace(programs, programs=(program,))

    expected, got = interpreted(arrays, build), interpreted(arrays, build, change=planned)
    assert all((a == b).all() for a, b in zip(expected, got, strict=True))


@pytest.mark.parametrize("switches", [{"order": "spilled"}, {"order": "spilled", "layouts": DENSE}], ids=str)
def test_what_ablations_run_fits(switches):
    placed, _ = place_buffers(build(Dims(64, 128, 128, 1, False), Constants(), **switches), SIZES, CHIP)
    assert peak_bytes(placed)["UB"] <= 248 * 1024


@pytest.mark.parametrize("dims", [Dims(64, 128, 128, 2, False), Dims(32, 128, 128, 1, False)])
def test_other_sizes_are_refused(dims):
    with pytest.raises(ValueError, match=r"dims: expected 1 head and chunks of 64, got"):
        build(dims, Constants())


@pytest.mark.parametrize(
    ("switches", "message"),
    [
        ({"piece": 2}, "piece: expected a multiple of 4, got 2"),
        ({"layouts": Layouts(rows="dense")}, "layouts: expected blocked rows and scores of a decay per channel, got dense ones"),
    ],
    ids=str,
)
def test_switches_that_there_are_not_are_refused(switches, message):
    with pytest.raises(ValueError, match=message):
        build(Dims(64, 128, 128, 1, False), Constants(), **switches)
