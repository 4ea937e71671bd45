"""Stages that hand tiles on: what a system's slot holds, and the tensor operators of a solve row by row against numpy.

Operators run one launch after the other in the interpreter, on one chunk whose system stands in the constants.
"""

from functools import cache, partial

import numpy as np
import pytest

from hajax import conformance
from hajax.lowering import operators, staged_scalar
from hajax.lowering.assembler import FULL, UNIT, Assembler, Constants, Dims
from hajax.lowering.exchange import two_stages
from hajax.lowering.slots import FP32, LINE, put_tile, slot_bytes, slot_of
from hajax.lowering.vector_tiles import Tile
from hajax.mechanisms import MECHANISMS
from hajax.plans import Shape, interpret
from hajax.plans.program import MAP, Item, Launch, Programs
from hajax.schedules import ASCEND
from hajax.schedules.staged import Stage, System
from hajax.targets import npu

CHUNK, KEYS, VALUES = 64, 32, 48
DIMS = Dims(CHUNK, KEYS, VALUES, 1, False)
CHIP = npu.load("ascend310p1")
KIB = 1024


# A system's slot


def stage(name, reads=(), writes=()):
    return Stage(name, staged_scalar.build_solve, reads, writes)


def system(*stages):
    return System("some", stages, dict.fromkeys("abc", (1, 1, FP32)))


def test_tiles_live_from_the_stage_that_writes_them_first_to_the_one_that_reads_them_last():
    kept = system(stage("1", (), "a"), stage("2", "a", "b"), stage("3", "ab", "c")).slot()
    assert slot_bytes(kept) == 3 * FULL
    shared = system(stage("1", (), "a"), stage("2", "a", "b"), stage("3", "b", "c")).slot()
    assert slot_bytes(shared) == 2 * FULL and shared["a"].place == shared["c"].place != shared["b"].place
    again = system(stage("1", (), "a"), stage("2", "a", "a"), stage("3", (), "b"), stage("4", "ab", "c")).slot()
    assert slot_bytes(again) == 3 * FULL


@pytest.mark.parametrize(
    "stages", [(stage("1", "a"),), (stage("1", (), "a"), stage("2", "b")), (stage("1", "a"), stage("2", (), "a"))], ids=[1, 2, 3]
)
def test_what_is_read_before_it_is_written_is_refused(stages):
    with pytest.raises(AssertionError, match=r"^some: [ab] is read before it is written$"):
        system(*stages).slot()


SLOTS = {  # KiB of a chunk and head of 64 x 128 with two parts, and with one
    ("fla", "gated_delta_rule"): (160, 80),  # w, u, h and x at once; A, which is gone by then, lies under one of them
    ("fla", "kda"): (210, 109),  # w, u, kg, e^G_C, h, x and P
    ("flashqla", "gated_delta_rule"): (16, 8),  # A
    ("flashqla", "kda"): (26, 13),  # A and P
}


@pytest.mark.parametrize(("schedule", "name"), SLOTS)
def test_slots_of_the_systems(schedule, name):
    shape = Shape(1, 128, 1, 16, 16, 128, 128, "float16", "float16")
    for parts, wanted in zip((2, 1), SLOTS[schedule, name], strict=True):
        plan = ASCEND[schedule](MECHANISMS[name], shape, CHIP, 1, parts=parts)
        assert plan.launch.workspace_slot_bytes == wanted * KIB + LINE  # an odd number of lines


def test_no_plan_has_programs_that_nothing_runs():
    """Heads are tried whole and in columns of several widths."""
    shape = Shape(1, 200, 1, 1, 1, 32, 128, "float16", "float16")
    for schedule in ("fla", "flashqla"):
        launch = ASCEND[schedule](MECHANISMS["kda"], shape, CHIP, 1).launch
        used = {item.program for one in launch.launches for core in one.cores for item in core}
        assert used == set(range(len(launch.programs)))


# Row operators

TILES = {
    "T": (DIMS.triangle, 1, FP32),
    "product": (DIMS.triangle, 1, FP32),
    "value": (DIMS.rows, DIMS.values, FP32),
    "scaled": (DIMS.rows, DIMS.keys, FP32),
    "u": (DIMS.rows, DIMS.values, FP32),
    "w32": (DIMS.rows, DIMS.keys, FP32),
}
SLOT = slot_of(TILES, dict.fromkeys(TILES, (0, 0)))
LOWER = [(row, column) for row in range(DIMS.rows) for column in range(row + 1)]


def packed(matrix):
    """fp32 fractals of the lower triangle."""
    return np.stack([matrix[16 * r : 16 * r + 16, 16 * c : 16 * c + 16] for r, c in LOWER]).astype(np.float32)


def unpacked(fractals):
    found = np.zeros((CHUNK, CHUNK))
    for (r, c), fractal in zip(LOWER, fractals, strict=True):
        found[16 * r : 16 * r + 16, 16 * c : 16 * c + 16] = fractal
    return found


def blocked(matrix):
    """fp32 in column blocks."""
    rows, columns = matrix.shape
    return matrix.reshape(rows, columns // 16, 16).transpose(1, 0, 2).astype(np.float32)


def build_given(dims, constants, slot, parts, name, array):
    """A tile of the slot as it is wanted."""
    asm = Assembler(dims, constants, parts)
    kept = asm.buffer(name, "UB", array.nbytes, kept=True)
    asm.emit("constant_to_ub", kept, constant=constants.place(array), size=array.nbytes // UNIT, first=True, label=name)
    asm.section = "body"
    asm.stage = MAP
    put_tile(asm, Tile(kept, slot[name].rows, slot[name].columns, "blocked"), slot[name], name)
    return two_stages(asm.program())


def solve(system, value, scaled, parts):
    """A as the row operators leave it, A V and A times the scaled keys, each as it goes to the slot."""
    constants, rows = Constants(), []
    for row in range(1, CHUNK):
        rows += [partial(operators.build_row_products, row=row), partial(operators.build_row_sum, row=row)]
    builds = (
        partial(build_given, name="T", array=packed(system)),
        partial(build_given, name="scaled", array=blocked(scaled)),
        partial(operators.build_rows, source="value", target="value"),
        *rows,
        operators.build_with_identity,
        partial(operators.build_solved, source="value", target="u", exact=True),
        partial(operators.build_solved, source="scaled", target="w32", exact=False),
    )
    programs = tuple(build(DIMS, constants, SLOT, parts) for build in builds)
    launches = tuple(Launch(((Item(number, 0, 0, 0),),)) for number in range(len(programs)))
    made = Programs(CHIP.npu_arch, CHUNK, programs, launches, constants.to_bytes(), slot_bytes(SLOT))
    found = {}

    def observe(step, spot, memory, odd):
        if step.opcode == "workspace_from_ub" and step.label in ("A out", "u", "w32"):
            found[step.label] = memory.view(step.src0, odd, np.float32, (step.size * UNIT // FULL, 16, 16)).astype(np.float64)

    keys = np.zeros((1, CHUNK, 1, KEYS), np.float16)
    gates, state = np.zeros((1, CHUNK, 1), np.float32), np.zeros((1, 1, 1, KEYS, VALUES), np.float32)
    interpret.run(made, interpret.Inputs(keys, keys, value[None, :, None], gates, gates, state), 1.0, observe)
    return unpacked(found["A out"]), unblocked(found["u"]), unblocked(found["w32"])


def unblocked(fractals):
    columns = len(fractals) // DIMS.rows
    return fractals.reshape(columns, DIMS.rows * 16, 16).transpose(1, 0, 2).reshape(DIMS.rows * 16, columns * 16)


def lower(kind):
    """N, strictly lower."""
    rng = np.random.default_rng(3)
    drawn = {
        "random": rng.uniform(-0.3, 0.3, (CHUNK, CHUNK)),
        "alike": np.full((CHUNK, CHUNK), -0.9),  # as keys that are all the same have it
        "decayed": -(10.0 ** rng.uniform(-30, 0, (CHUNK, CHUNK))),
        "some rows": np.where(rng.random((CHUNK, 1)) < 0.5, 0.0, rng.normal(size=(CHUNK, CHUNK))),
        "zeros": np.zeros((CHUNK, CHUNK)),
    }
    return np.tril(drawn[kind], -1).astype(np.float32)


@cache
def problem(kind):
    """N, V in fp16, K in fp32."""
    rng = np.random.default_rng(4)
    return lower(kind), rng.normal(size=(CHUNK, VALUES)).astype(np.float16), rng.normal(size=(CHUNK, KEYS)).astype(np.float32)


@cache
def solved(kind, parts):
    return solve(*problem(kind), parts)


def relative(got, wanted):
    return np.sqrt(conformance.nmse(got, wanted))


KINDS = ["random", "alike", "decayed", "some rows", "zeros"]


@pytest.mark.parametrize("kind", KINDS)
def test_all_63_rows_invert_the_system(kind):
    wanted = np.linalg.inv(np.eye(CHUNK) - problem(kind)[0].astype(np.float64))
    inverse, *_ = solved(kind, 2)
    assert relative(inverse, wanted) <= 1e-6
    assert (np.triu(inverse, 1) == 0).all() and (np.diag(inverse) == 1).all()
    if kind == "zeros":
        assert (inverse == np.eye(CHUNK)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_what_it_is_applied_to_is_as_exact_with_split_operands(kind):
    system, value, scaled = problem(kind)
    inverse = np.linalg.inv(np.eye(CHUNK) - system.astype(np.float64))
    _, *got = solved(kind, 2)
    for one, wanted in zip(got, (inverse @ value, inverse @ scaled), strict=True):
        assert relative(one, wanted) <= 1e-6


def test_one_part_rounds_what_is_applied_and_not_the_solve():
    """The rows are fp32 on the vector unit in both; 2^-12 is half of fp16's rounding."""
    _, value, scaled = problem("random")
    (inverse, *single), (same, *_) = (solved("random", parts) for parts in (1, 2))
    assert (inverse == same).all()
    for one, wanted in zip(single, (inverse @ value, inverse @ scaled), strict=True):
        assert 1e-5 < relative(one, wanted) < 2**-11
