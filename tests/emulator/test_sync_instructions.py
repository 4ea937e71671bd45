"""Flags, barriers and scalar instructions: what they accept, and what the scalar functions compute."""

import numpy as np
import pytest
from move_program import BLOCK, OPCODES, PIPES, Program, library

from hajax import abi
from hajax.backends import sim
from hajax.backends.sim import SimFault

pytestmark = pytest.mark.native
NO_GM = np.zeros(BLOCK, np.uint8)
S, V, M, MTE1, MTE2, MTE3, ALL = range(7)
PAIRS = [(a, b) for a in range(ALL) for b in range(ALL) if a != b]


def test_every_instruction_has_a_case():
    assert {str(row[1]) for row in abi.rows("instructions") if row[3] == "sync"} == {"set_flag", "wait_flag", "pipe_barrier"}
    assert {"set_flag", "wait_flag", "pipe_barrier", "dcci"} <= set(OPCODES)
    assert PIPES[:ALL] == tuple(str(row[1]) for row in abi.rows("pipes"))


@pytest.mark.parametrize(("source", "to"), PAIRS)
def test_a_flag_goes_between_any_two_pipes(source, to):
    program = Program()
    for event in range(8):
        program.together("set_flag", source, to, event).together("wait_flag", source, to, event)
    _, done = program.run({}, NO_GM)
    assert (done.counts["set_flag"], done.counts["wait_flag"]) == (8, 8)


@pytest.mark.parametrize("name", ["set_flag", "wait_flag"])
@pytest.mark.parametrize(
    ("words", "check", "text"),
    [
        ((MTE2, MTE2, 0), "flag_pipe", "MTE2"),
        ((ALL, V, 0), "flag_pipe", "from: expected one of S, V, M, MTE1, MTE2, MTE3, got pipe_t 6"),
        ((V, 10, 0), "flag_pipe", "to: expected one of S, V, M, MTE1, MTE2, MTE3, got pipe_t 10"),
        ((MTE2, V, 8), "limit", "expected 0 to 7, got 8"),
        ((MTE2, V, -1), "limit", "expected 0 to 7, got -1"),
    ],
)
def test_flags_that_do_not_exist_are_errors(name, words, check, text):
    with pytest.raises(SimFault, match=text) as caught:
        Program().together(name, *words).run({}, NO_GM)
    assert caught.value.check == check


def test_a_flag_that_nobody_waits_for_is_an_error():
    with pytest.raises(SimFault) as caught:
        Program().together("set_flag", MTE2, V, 3).run({}, NO_GM)
    assert caught.value.check == "flag_unpaired"


def test_a_flag_orders_two_pipes_and_its_absence_is_a_race():
    copy = Program().together("copy_gm_to_ubuf", 0, 0, 1, 4, 0, 0)
    back = ("copy_ubuf_to_gm", 0, 0, 1, 4, 0, 0)
    gm = np.arange(128, dtype=np.uint8)
    with pytest.raises(SimFault) as caught:
        Program(list(copy.rows)).together(*back).run({}, gm)
    assert caught.value.check == "race"
    ordered = copy.together("set_flag", MTE2, MTE3, 0).together("wait_flag", MTE2, MTE3, 0).together(*back)
    found, _ = ordered.run({}, gm)
    np.testing.assert_array_equal(found["GM"], gm)


@pytest.mark.parametrize("pipe", range(1, ALL + 1))
def test_barriers_of_each_pipe_and_of_all(pipe):
    _, done = Program().together("pipe_barrier", pipe).run({}, NO_GM)
    assert done.counts["pipe_barrier"] == 2  # and the entry's own


@pytest.mark.parametrize(
    ("pipe", "check", "text"),
    [(S, "unsupported", "S, which orders itself"), (9, "flag_pipe", "pipe: expected one of .* got pipe_t 9")],
)
def test_barriers_that_do_not_exist_are_errors(pipe, check, text):
    with pytest.raises(SimFault, match=text) as caught:
        Program().together("pipe_barrier", pipe).run({}, NO_GM)
    assert caught.value.check == check


def test_registers_and_the_cache_cost_scalar_time():
    _, nothing = Program().together("pipe_barrier", ALL).run({}, NO_GM)
    program = Program().together("set_fmatrix", 1).together("set_padding", 2).together("set_l1_3d_size", 3)
    _, done = program.together("set_atomic_f32").together("set_atomic_none").together("dcci", 0, 1).run({}, NO_GM)
    assert done.counts["set_register"] == 6  # set_atomic_f32 is two in the entry
    assert done.counts["dcci"] == 1
    assert done.counts["scalar_cycles"] > nothing.counts["scalar_cycles"]


def test_a_trap_ends_the_kernel():
    with pytest.raises(SimFault, match="trap") as caught:
        Program().together("trap").run({}, NO_GM)
    assert caught.value.check == "launch"


def scalar(number, values, **options):
    values = np.array([int(v) & (1 << 64) - 1 for v in values], np.uint64)
    done = sim.run(library(), "scalars", [number, values, len(values), sim.Output(values.shape, np.int64)], **options)
    return done.arrays[1].tolist()


WORDS = [0, 1, 2, 32, 0xFF00, 0xFF, 1 << 63, (1 << 63) - 1, (1 << 64) - 1, 0x0100000000000020, 0x00F0000000000000, 0xDEADBEEF]


def signed(word):
    return word - (1 << 64) if word >> 63 else word


@pytest.mark.parametrize(
    ("number", "function"),
    [
        (0, lambda x: next((i for i in range(64) if not x >> i & 1), -1)),
        (1, lambda x: next((i for i in range(64) if x >> i & 1), -1)),
        (2, lambda x: 64 - x.bit_count()),
        (3, lambda x: x.bit_count()),
        (4, lambda x: 64 - x.bit_length()),
        (5, lambda x: -1 if signed(x) in (0, -1) else 63 - (x if x >> 63 == 0 else ~x & (1 << 64) - 1).bit_length()),
        (6, lambda x: signed(x & ~32)),
        (7, lambda x: signed(x | 32)),
    ],
)
def test_bits_of_words(number, function):
    assert scalar(number, WORDS) == [function(word) for word in WORDS]


FLOATS = np.array(
    [0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 1e-8, -1e-8, 123456.7, -123456.7, 2147483520, 2147483648, 3e9, -2147483648, -3e9, np.inf,
     -np.inf, np.nan, 8388607.5, 65504, 65505, 1e6, 3.14159, -3.14159, 2.0**-25], np.float32,
)  # fmt: skip


@pytest.mark.parametrize(
    ("number", "rounding"),
    [(9, lambda x: np.sign(x) * np.floor(np.abs(x) + 0.5)), (10, np.ceil), (11, np.floor), (12, np.rint)],
)
def test_floats_become_integers_by_each_rounding(number, rounding):
    with np.errstate(invalid="ignore"):
        whole = np.nan_to_num(np.clip(rounding(FLOATS.astype(np.float64)), -(2.0**31), 2.0**31 - 1), nan=0)
    assert scalar(number, FLOATS.view(np.uint32)) == whole.astype(np.int64).tolist()


def test_floats_become_halves_with_an_odd_last_bit_where_inexact():
    found = np.array(scalar(8, FLOATS.view(np.uint32)), np.uint16).view(np.float16)
    for value, half in zip(FLOATS, found, strict=True):
        if np.isnan(value):
            assert half.view(np.uint16) == 0
        elif abs(value) > 65504:
            assert half == np.copysign(np.float16(65504), np.float16(np.sign(value)))
        else:
            exact = np.float32(half) == value
            assert exact or (half.view(np.uint16) & 1 == 1 and abs(np.float32(half) - value) < np.spacing(np.abs(half)))
            assert np.signbit(half) == np.signbit(value)


@pytest.mark.parametrize("blocks", [1, 3])
def test_a_core_knows_its_index_and_how_many_there_are(blocks):
    done = sim.run(library(), "cores", [sim.Output((blocks,), np.int64)], blocks=blocks)
    assert done.arrays[0].tolist() == [blocks] * blocks
