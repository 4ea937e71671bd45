"""The vector form of a scalar decay: within the bounds of the study whatever its order and layouts, in one chip's memories."""

import dataclasses
import functools

import numpy as np
import pytest
from vector_problem import LENGTHS, assert_close, drawn, interpreted

from hajax.lowering.assembler import Constants, Dims
from hajax.lowering.vector_scalar import build
from hajax.lowering.vector_state import spill_bytes
from hajax.lowering.vector_steps import Layouts, layouts_of
from hajax.passes.pipeline import pipeline
from hajax.passes.place_buffers import DoesNotFit, peak_bytes, place_buffers
from hajax.passes.step_cost import step_cost
from hajax.passes.sync import synchronise
from hajax.plans import footprint
from hajax.plans.footprint import element_bytes, pipe, tile_rows
from hajax.targets import npu

CHIP = npu.load("ascend310p1")
FULL = Dims(64, 128, 128, 1, False)
SIZES = footprint.Dims(64, 128)
DENSE = Layouts(*["dense"] * 6)
UB_BYTES = 248 * 1024
EVERY = ",".join(map(str, LENGTHS))
SMALL = "B=2 T=150 lengths=150,64 Hv=1 dtype=float16"


@functools.cache
def built(**switches):
    return build(FULL, Constants(), **switches)


@pytest.mark.parametrize("decay", ["none", "weak", "usual", "strong", "mixed", "resets"])
def test_results_are_within_the_bounds(decay):
    arrays = drawn(f"B=6 T=256 lengths={EVERY} Hv=1 Dk=128 Dv=128 dtype=float16 decay={decay}")
    assert_close(arrays, interpreted(arrays, build))


@pytest.mark.parametrize("decay", ["none", "usual", "mixed"])
def test_repeated_keys_are_within_the_bounds(decay):
    arrays = drawn(f"B=2 T=150 lengths=150,64 Hv=1 Dk=128 Dv=128 dtype=float16 decay={decay} keys=repeated")
    assert_close(arrays, interpreted(arrays, build))


def test_columns_may_be_shared_out():
    arrays = drawn(f"{SMALL} Dk=48 Dv=96")
    whole = interpreted(arrays, build)
    assert_close(arrays, whole)
    for part, of_all in zip(interpreted(arrays, build, columns=32), whole, strict=True):
        assert (part == of_all).all()


VARIANTS = [
    {"layouts": DENSE},
    {"layouts": {"residual": "dense", "write_rows": "dense", "update": "dense"}},
    {"order": "definition"},
    {"order": "spilled"},
    {"order": "spilled", "layouts": DENSE},
]


@pytest.mark.parametrize(
    ("switches", "dims"), [*((one, "Dk=80 Dv=48") for one in VARIANTS), (VARIANTS[-1], "Dk=128 Dv=128")], ids=str
)
def test_neither_layouts_nor_orders_change_a_bit(switches, dims):
    arrays = drawn(f"{SMALL} {dims}")
    expected, got = interpreted(arrays, build), interpreted(arrays, build, **switches)
    assert all((a == b).all() for a, b in zip(expected, got, strict=True))


@pytest.mark.parametrize("switches", [{}, {"layouts": DENSE, "order": "spilled"}], ids=str)
def test_multiplied_keys_are_within_the_bounds(switches):
    arrays = drawn(f"{SMALL} Dk=64 Dv=32 decay=mixed")
    assert_close(arrays, interpreted(arrays, build, reordered=False, **switches))


def through_passes(program):
    """Emission order, addresses, flags."""
    program, _ = pipeline(program, SIZES, CHIP)
    return synchronise(place_buffers(program, SIZES, CHIP)[0], SIZES, CHIP)[0]


def test_the_planned_order_fits_and_computes_the_same_with_addresses():
    arrays = drawn(f"{SMALL} Dk=128 Dv=128")

    def planned(programs):
        program = through_passes(programs.programs[0])
        assert all(size <= CHIP_BYTES[space] for space, size in peak_bytes(program).items())
        return dataclasses.replace(programs, programs=(program,))

    expected, got = interpreted(arrays, build), interpreted(arrays, build, change=planned)
    assert all((a == b).all() for a, b in zip(expected, got, strict=True))


CHIP_BYTES = {"L1": CHIP.l1_bytes, "L0A": CHIP.l0a_bytes, "L0B": CHIP.l0b_bytes, "L0C": CHIP.l0c_bytes, "UB": UB_BYTES}


def test_a_second_state_version_does_not_fit():
    with pytest.raises(DoesNotFit, match=r"^UB: ") as refused:
        place_buffers(built(order="definition"), SIZES, CHIP)
    assert {"state", "next state"} <= {name for name, _ in refused.value.buffers}


@pytest.mark.parametrize(
    "switches", [{"order": "spilled"}, {"layouts": DENSE}, {"order": "spilled", "layouts": DENSE, "reordered": False}], ids=str
)
def test_what_ablations_run_fits(switches):
    placed, _ = place_buffers(built(**switches), SIZES, CHIP)
    assert peak_bytes(placed)["UB"] <= UB_BYTES


def gm_bytes(program):
    """Of a whole chunk."""
    moved = 0
    for step in program.body:
        if step.opcode.startswith("rows"):
            rows = 64 if step.opcode == "rows_to_l1" else tile_rows(step, SIZES)
            size = step.p[7] if step.opcode == "rows_from_ub" else element_bytes(step)
            moved += rows * step.count * 16 * size
        elif step.opcode.startswith("workspace"):
            moved += step.size * 32
        elif step.opcode == "gate_to_ub":
            moved += 256
    return moved


def test_a_chunk_moves_its_rows_once_and_a_spilled_state_twice():
    least = 64 * 128 * 2 * 4 + 2 * 256
    assert gm_bytes(built()) == gm_bytes(built(layouts=DENSE)) == gm_bytes(built(reordered=False)) == least
    assert gm_bytes(built(order="spilled")) == least + 2 * spill_bytes(FULL)


def vector_cycles(program):
    costs = [step_cost(step, SIZES, CHIP) for step in program.body if pipe(step) == "V"]
    return sum(cost.busy for cost in costs)


def test_vector_cycles_of_a_chunk_stay_below_the_studys():
    """numerics.md, B3: 11.6k for the plain form; each switch of the planned form makes it cheaper."""
    planned = vector_cycles(built())
    assert planned <= 11600
    assert planned < vector_cycles(built(order="spilled"))
    assert planned < vector_cycles(built(reordered=False))
    assert planned < vector_cycles(built(layouts=DENSE))


def test_layouts_of_operators_make_chains():
    assert layouts_of({}) == Layouts()
    assert layouts_of({"update": "dense", "split_state_in": "dense", "output": "dense"}) == Layouts(state="dense", output="dense")
    with pytest.raises(ValueError, match="layouts: expected one layout of split_x, end_rows, split_x_end, got both"):
        layouts_of({"split_x": "dense", "end_rows": "blocked"})


@pytest.mark.parametrize("switches", [{}, {"layouts": DENSE, "order": "spilled"}], ids=str)
def test_without_a_correction(switches):
    arrays = drawn(f"{SMALL} Dk=48 Dv=32 op=ret")
    assert_close(arrays, interpreted(arrays, build, delta=False, **switches), delta=False)


@pytest.mark.parametrize("dims", [Dims(64, 128, 128, 2, False), Dims(32, 128, 128, 1, False)])
def test_other_sizes_are_refused(dims):
    with pytest.raises(ValueError, match=r"dims: expected 1 head and chunks of 64, got"):
        build(dims, Constants())


def test_decays_that_nothing_survives_leave_finite_numbers():
    arrays = drawn(f"{SMALL} Dk=32 Dv=32 decay=infinite beta=edges")
    got = interpreted(arrays, build)
    assert_close(arrays, got)
    assert np.count_nonzero(got[0]) > got[0].size // 4
