"""Buffers that are alive together never share bytes, placed programs fit and are aligned, and what cannot fit is refused."""

import dataclasses
import itertools
import random

import pytest
from step_programs import CHIP, DIMS, program_of, random_buffers, random_steps, walk

from hajax.passes.buffer_lives import ALIGNMENT, lifetimes
from hajax.passes.place_buffers import FRAME_BYTES, STEP_BYTES, DoesNotFit, peak_bytes, place_buffers
from hajax.passes.sync import synchronise
from hajax.plans.program import MAP, STATE, Buffer, Operand, Step

SIZES = {"L1": "l1_bytes", "L0A": "l0a_bytes", "L0B": "l0b_bytes", "L0C": "l0c_bytes", "UB": "ub_bytes"}


def small_chip(seed, program):
    """A chip whose memories are hardly larger than what the program needs at once: lives must share bytes."""
    chip = CHIP
    lives = lifetimes(program, DIMS)
    for space, field in SIZES.items():
        mine = [life for life in lives if life.space == space]
        fixed = 512 * 50 if space == "UB" else 0
        alive = max((sum(o.bytes for o in mine if o.first <= life.first <= o.last) for life in mine), default=0)
        twice = sum(2 * 1024 * -(-b.bytes // 1024) for b in program.buffers if b.space == space and b.versions == 2)
        chip = dataclasses.replace(chip, **{field: int(1.35 * alive) + twice + fixed + 4096})
    return dataclasses.replace(chip, ub_reserved_bytes=0)


def local_program(seed, groups=40):
    """Groups of steps with buffers of their own, a little interleaved; setup and finish use some of them."""
    choose = random.Random(seed)
    buffers, chains = [], []
    for group in range(groups):
        mine = [dataclasses.replace(b, name=f"{b.name}.{group}") for b in random_buffers(seed * 100 + group, each=1, fractals=9)]
        buffers += mine
        covered = [cover(buffer) for buffer in mine if buffer.space in ("L1", "UB")]
        chains.append([*covered, *random_steps(seed * 100 + group, 5, mine, kinds=("ub_to_l1", "l1_to_ub", "add32"), most=4)])
    body = []
    while chains:
        chain = chains[min(choose.randrange(3), len(chains) - 1)]
        body.append(chain.pop(0))
        chains = [one for one in chains if one]
    return program_of(body, buffers, setup=[cover(buffers[0])], finish=[cover(buffers[-1])])


def cover(buffer):
    return Step(f"constant_to_{buffer.space.lower()}", dst=Operand(buffer.name), size=buffer.bytes // 32)


def assert_apart(program):
    """By definition, without the pass's own lifetimes: two buffers share bytes only if one is dead before the other begins."""
    spans = {}
    steps = (*program.setup, *program.body, *program.finish)
    inside = range(len(program.setup), len(program.setup) + len(program.body))
    for at, step in enumerate(steps):
        for operand in (step.dst, step.src0, step.src1):
            if operand is not None:
                spans.setdefault(operand.buffer, []).append(at)
    for first in program.buffers:
        for second in program.buffers:
            if first.name >= second.name or first.space != second.space:
                continue
            if not (first.address < second.address + second.bytes and second.address < first.address + first.bytes):
                continue
            assert not first.kept and not second.kept
            assert first.versions == second.versions == 1
            a, b = spans[first.name], spans[second.name]
            assert max(a) < min(b) or max(b) < min(a)
            for mine, other in ((a, b), (b, a)):
                outside = any(at not in inside for at in mine)
                assert not (outside and any(at in inside for at in mine) and any(at in inside for at in other))


@pytest.mark.parametrize("seed", range(12))
def test_buffers_alive_together_are_apart_even_where_memory_is_scarce(seed):
    program = local_program(seed)
    placed, _ = place_buffers(program, DIMS, small_chip(seed, program))
    assert_apart(placed)
    for buffer in placed.buffers:
        assert buffer.address % ALIGNMENT[buffer.space] == 0
    total = sum(b.bytes for b in placed.buffers if b.space == "UB")
    assert peak_bytes(placed)["UB"] < total, "nothing was reused, so nothing was tested"


@pytest.mark.parametrize("seed", range(8))
def test_reused_bytes_are_ordered_by_the_sync_pass(seed):
    program = local_program(seed)
    placed, _ = place_buffers(program, DIMS, small_chip(seed, program))
    found, _ = synchronise(placed, DIMS, CHIP)
    walk(found.body, found)


@pytest.mark.parametrize("seed", range(6))
def test_peaks_are_within_the_chip_and_the_frame_and_the_steps_stay_free(seed):
    buffers = random_buffers(seed, each=4, fractals=14, alternating=True)
    program = program_of(random_steps(seed, 100, buffers, stages=(1,), most=6), buffers)
    placed, note = place_buffers(program, DIMS, CHIP)
    peaks = peak_bytes(placed)
    assert all(peaks[space] <= getattr(CHIP, field) for space, field in SIZES.items())
    assert peaks["UB"] <= CHIP.ub_bytes - CHIP.ub_reserved_bytes
    assert placed.step_address % 32 == 0
    for buffer in placed.buffers:
        if buffer.space != "UB" or buffer.address is None:
            continue
        end = buffer.address + buffer.bytes + (placed.slot_bytes["UB"] if buffer.versions == 2 else 0)
        assert buffer.address >= FRAME_BYTES and end <= placed.step_address
    assert peaks["UB"] >= placed.step_address + 100 * STEP_BYTES
    assert note.by == "buffers"


def test_versions_lie_one_distance_apart_and_share_with_nobody():
    twice = [Buffer(f"t{i}", "L1", 512 * (i + 1), versions=2) for i in range(4)]
    once = [Buffer("o", "L1", 1024), Buffer("k", "L1", 512, kept=True)]
    program = program_of([cover(b) for b in (*twice, *once)], [*twice, *once])
    placed, _ = place_buffers(program, DIMS, CHIP)
    ranges = []
    for buffer in placed.buffers:
        for number in range(buffer.versions):
            start = buffer.address + number * placed.slot_bytes["L1"]
            ranges.append((start, start + buffer.bytes))
    ranges.sort()
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(ranges))


def life_of(name, body, buffers, **more):
    return next(life for life in lifetimes(program_of(body, buffers, **more), DIMS) if life.name == name)


def test_what_an_iteration_leaves_for_the_next_lives_through_the_body():
    x, y = Buffer("x", "L1", 512), Buffer("y", "UB", 512)
    read, write = Step("l1_to_ub", dst=Operand("y"), src0=Operand("x"), size=16), cover(x)
    pad = [Step("constant_to_ub", dst=Operand("y"), size=16)] * 3
    assert (life_of("x", [*pad, write, read, *pad], [x, y]).first, life_of("x", [*pad, write, read, *pad], [x, y]).last) == (3, 4)
    for body in (
        [*pad, read, write, *pad],
        [*pad, dataclasses.replace(write, first=True), read, *pad],
        [*pad, dataclasses.replace(write, stage=MAP), dataclasses.replace(read, stage=STATE), *pad],
        [*pad, dataclasses.replace(write, size=15), read, *pad],
    ):
        life = life_of("x", body, [x, y])
        assert (life.first, life.last) == (0, len(body) - 1)
    both = [dataclasses.replace(step, first=True) for step in (write, read)]
    assert life_of("x", [*pad, *both, *pad], [x, y]).first == 3


def test_a_buffer_of_two_sections_lives_through_the_body_between_them():
    x, y = Buffer("x", "L1", 512), Buffer("y", "UB", 512)
    read = Step("l1_to_ub", dst=Operand("y"), src0=Operand("x"), size=16)
    pad = [Step("constant_to_ub", dst=Operand("y"), size=16)]
    life = life_of("x", pad * 4, [x, y], setup=[*pad, cover(x)], finish=[read, *pad])
    assert (life.first, life.last) == (1, 6)
    life = life_of("x", [*pad, read, *pad], [x, y], setup=[cover(x), *pad])
    assert (life.first, life.last) == (0, 4)
    kept = dataclasses.replace(x, kept=True)
    life = life_of("x", [*pad, cover(x), *pad], [kept, y])
    assert (life.first, life.last) == (0, 2)


def test_what_does_not_fit_is_refused_with_bytes_and_names():
    large = [Buffer(f"l{i}", "L0A", 24 * 1024) for i in range(3)]
    load = [Step("load_a", dst=Operand(b.name), src0=Operand("x"), size=48, p=(1, *[0] * 7)) for b in large]
    use = [Step("mmad", dst=Operand("c"), src0=Operand(b.name), src1=Operand("b"), p=(48, 1, 1, *[0] * 5)) for b in large]
    rest = [Buffer("x", "L1", 24 * 1024), Buffer("c", "L0C", 48 * 1024), Buffer("b", "L0B", 512)]
    with pytest.raises(DoesNotFit, match=r"L0A: expected at most 65536 bytes, got 73728: l0 24576, l1 24576, l2 24576") as error:
        place_buffers(program_of([*load, *use], [*large, *rest]), DIMS, CHIP)
    assert (error.value.space, error.value.needed, error.value.available) == ("L0A", 73728, 65536)
    place_buffers(program_of([s for pair in zip(load, use, strict=True) for s in pair], [*large, *rest]), DIMS, CHIP)


def test_bytes_rest_before_they_are_used_again_where_there_is_room():
    buffers = [Buffer(f"b{i}", "L0B", 16 * 1024) for i in range(8)]
    load = [Step("load_b", dst=Operand(b.name), src0=Operand("x"), size=32, p=(1, *[0] * 7)) for b in buffers]
    placed, _ = place_buffers(program_of(load, [*buffers, Buffer("x", "L1", 16 * 1024)]), DIMS, CHIP)
    addresses = [b.address for b in placed.buffers if b.space == "L0B"]
    assert all(len(set(addresses[i : i + 4])) == 4 for i in range(5))


def test_a_buffer_of_three_versions_is_refused():
    x = Buffer("x", "L1", 512, versions=3)
    with pytest.raises(ValueError, match="buffer x: expected versions 1 or 2, got 3"):
        place_buffers(program_of([cover(x)], [x]), DIMS, CHIP)


def test_equal_programs_get_equal_addresses():
    program = local_program(3)
    assert place_buffers(program, DIMS, CHIP) == place_buffers(program, DIMS, CHIP)
