"""Every dependent pair of steps is ordered, event ids are never set twice in flight, and no flag or barrier is one too many."""

import dataclasses

import pytest
from step_programs import CHIP, DIMS, PIPES, Faulty, program_of, random_buffers, random_steps, side_by_side, walk

from hajax.passes.sync import synchronise
from hajax.plans.program import Buffer, Flag, Operand, Step

SEEDS = range(30)


def synchronised(seed, count=80, **more):
    buffers = random_buffers(seed, alternating=seed % 2 == 1)
    stages = (0, 1, 2) if seed % 3 == 0 else (2,)
    program = side_by_side(program_of(random_steps(seed, count, buffers, stages=stages, **more), buffers))
    return synchronise(program, DIMS, CHIP)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_dependent_pair_is_ordered_in_even_and_odd_iterations(seed):
    program, _ = synchronised(seed)
    for odd in (False, True):
        walk(program.body, program, odd=odd)


@pytest.mark.parametrize("seed", SEEDS[:8])
def test_steps_keep_their_order_and_all_but_their_flags(seed):
    buffers = random_buffers(seed)
    steps = random_steps(seed, 60, buffers)
    program, _ = synchronise(side_by_side(program_of(steps, buffers)), DIMS, CHIP)
    left = [dataclasses.replace(step, barrier=False, waits=(), sets=()) for step in program.body if step.opcode != "sync"]
    assert left == steps


def without_flag(steps, flag, nth):
    """The steps without the nth set of a flag and the wait for it."""
    found = []
    counts = {"waits": 0, "sets": 0}
    for old in steps:
        step = old
        for side in ("waits", "sets"):
            kept = []
            for one in getattr(step, side):
                counts[side] += one == flag
                if one != flag or counts[side] - 1 != nth:
                    kept.append(one)
            step = dataclasses.replace(step, **{side: tuple(kept)})
        found.append(step)
    return found


@pytest.mark.parametrize("seed", SEEDS[:6])
def test_without_any_one_flag_or_barrier_some_pair_is_not_ordered(seed):
    program, _ = synchronised(seed, count=60)
    tried = {}
    for at, step in enumerate(program.body):
        if step.barrier:
            steps = [*program.body[:at], dataclasses.replace(step, barrier=False), *program.body[at + 1 :]]
            with pytest.raises(Faulty, match="not ordered"):
                walk(steps, program)
        for flag in step.sets:
            steps = without_flag(program.body, flag, tried.setdefault(flag, 0))
            tried[flag] += 1
            with pytest.raises(Faulty, match=r"not ordered|last wait has passed|second time"):
                walk(steps, program)
    assert len(tried) > 5


def chain(producers, consumers):
    """Loads into UB, each used by its own vector step, in a given order of both."""
    buffers = [Buffer(f"in{i}", "UB", 64, address=1024 + 64 * i) for i in range(producers)]
    out = [Buffer(f"out{i}", "UB", 256, address=8192 + 256 * i) for i in range(producers)]
    loads = [Step("constant_to_ub", dst=Operand(f"in{i}"), size=2) for i in range(producers)]
    used = [Step("muls32", dst=Operand(f"out{i}"), src0=Operand(f"in{i}"), size=1, p=(0, 0, 0, 0, 0, 0, 1, 0)) for i in consumers]
    return program_of([*loads, *used], [*buffers, *out])


def test_more_flags_under_way_than_ids_are_merged():
    program, _ = synchronise(chain(30, range(30)), DIMS, CHIP)
    walk(program.body, program)
    flags = [flag for step in program.body for flag in step.sets]
    assert len(flags) == 8 and len(set(flags)) == 8
    first = next(step for step in program.body if step.opcode == "muls32")
    assert first.waits, "the first vector step still waits for a load"


def test_one_wait_for_the_last_of_several_loads_covers_the_others():
    program, _ = synchronise(chain(5, reversed(range(5))), DIMS, CHIP)
    walk(program.body, program)
    assert [flag for step in program.body for flag in step.waits] == [Flag("MTE2", "V", 0)]


def test_a_flag_that_comes_round_spares_the_barrier():
    ub = [Buffer(name, "UB", 512, address=1024 + 512 * i) for i, name in enumerate("ab")]
    l1 = [Buffer("c", "L1", 512, address=0)]
    v = (1, 1, 1, 8, 8, 8, 1, 0)
    make = Step("muls32", dst=Operand("a"), src0=Operand("b"), size=2, p=v)
    away = Step("ub_to_l1", dst=Operand("c"), src0=Operand("a"), size=16)
    back = Step("l1_to_ub", dst=Operand("b"), src0=Operand("c"), size=16)
    program, _ = synchronise(program_of([make, away, back, make], [*ub, *l1]), DIMS, CHIP)
    walk(program.body, program)
    assert not any(step.barrier for step in program.body)
    direct, _ = synchronise(program_of([make, make], [*ub, *l1]), DIMS, CHIP)
    assert [step.barrier for step in direct.body] == [False, True]


@pytest.mark.parametrize(("tiles", "barrier"), [(9, True), (10, False)])
def test_only_products_of_few_tiles_need_a_barrier_before_they_accumulate(tiles, barrier):
    spaces = {"L0A": 512, "L0B": 512, "L0C": 1024}
    buffers = [Buffer(space, space, size * tiles, address=0) for space, size in spaces.items()]
    add = Step("mmad", dst=Operand("L0C"), src0=Operand("L0A"), src1=Operand("L0B"), p=(tiles, 1, 1, 0, 0, 0, 0, 0))
    program, _ = synchronise(program_of([add, add], buffers), DIMS, CHIP)
    assert [step.barrier for step in program.body] == [False, barrier]


def test_flags_beyond_the_two_of_a_step_go_into_a_sync_step():
    buffers = [Buffer(n, "UB", 512, address=1024 + 512 * i) for i, n in enumerate(("x", "y", "z"))]
    buffers += [Buffer("l1", "L1", 1024, address=0), Buffer("c", "L0C", 1024, address=0)]
    buffers += [Buffer("a", "L0A", 512, address=0), Buffer("b", "L0B", 512, address=0)]
    steps = [
        Step("constant_to_ub", dst=Operand("x"), size=16),
        Step("l1_to_ub", dst=Operand("y"), src0=Operand("l1"), size=16),
        Step("ub_to_l1", dst=Operand("l1", 512), src0=Operand("z"), size=16),
        Step("mul32", dst=Operand("z"), src0=Operand("x"), src1=Operand("y"), size=2, p=(1, 1, 1, 8, 8, 8, 0, 0)),
    ]
    program, note = synchronise(program_of(steps, buffers), DIMS, CHIP)
    walk(program.body, program)
    assert [step.opcode for step in program.body].count("sync") == 1
    assert "1 sync steps" in note.choice


def test_a_pass_that_has_run_is_refused():
    program, _ = synchronised(1)
    with pytest.raises(ValueError, match="expected no flags or barriers yet"):
        synchronise(program, DIMS, CHIP)


def test_iterations_without_a_barrier_between_them_are_refused():
    program = dataclasses.replace(side_by_side(program_of([], [])), carried=True)
    with pytest.raises(ValueError, match="expected iterations parted by a barrier"):
        synchronise(program, DIMS, CHIP)


def test_buffers_without_addresses_are_refused():
    buffers = random_buffers(1)
    with pytest.raises(ValueError, match=r"buffer .*expected an address"):
        synchronise(program_of(random_steps(1, 5, buffers), buffers), DIMS, CHIP)


def test_equal_programs_get_equal_flags():
    assert synchronised(5) == synchronised(5)


@pytest.mark.parametrize("seed", SEEDS[:10])
def test_few_ids_are_enough(seed):
    buffers = random_buffers(seed)
    program = side_by_side(program_of(random_steps(seed, 200, buffers), buffers))
    chip = dataclasses.replace(CHIP, flags_per_pair=2)
    found, _ = synchronise(program, DIMS, chip)
    walk(found.body, found)
    assert all(flag.event < 2 for step in found.body for flag in (*step.sets, *step.waits))
    assert {flag.source for step in found.body for flag in step.sets} <= set(PIPES)
