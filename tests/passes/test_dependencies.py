"""What must come before what: byte by byte, over versions of a buffer and over the iterations of a body."""

import random

import pytest
from step_programs import DIMS, program_of, random_buffers, random_steps

from hajax.passes.dependencies import Edges, areas, check_dataflow, edges, require_versions, touches, unpipelined
from hajax.plans.footprint import footprint
from hajax.plans.program import LOAD, MAP, STATE, Buffer, Operand, Step

X, X2, Y = Buffer("x", "L1", 4096), Buffer("x", "L1", 4096, versions=2), Buffer("y", "UB", 4096)


def write(stage=STATE, offset=0, size=16):
    return Step("constant_to_l1", dst=Operand("x", offset), size=size, stage=stage, label=f"write {stage}")


def read(stage=STATE, offset=0, size=16, to=0):
    return Step("l1_to_ub", dst=Operand("y", to), src0=Operand("x", offset), size=size, stage=stage, label=f"read {stage}")


def need_versions(body, buffers, dims):
    program = program_of(body, buffers)
    require_versions(program, areas(body, program, dims))


def edges_of(steps, buffers):
    return edges(touches(areas(steps, program_of(steps, buffers), DIMS)))


def test_true_anti_and_output_dependencies_count_bytes():
    steps = [write(), write(offset=512), read(), write(), read(offset=512, to=512), read(offset=1024, to=1024)]
    found = edges_of(steps, [X, Y])
    assert found.true == ((), (), (0,), (), (1,), ())
    assert found.other == ((), (), (), (0, 2), (), ())


def test_a_whole_write_hides_what_was_before_it():
    found = edges_of([write(), write(size=8), read(size=8), read(to=512)], [X, Y])
    assert found.true == ((), (), (1,), (0, 1))


@pytest.mark.parametrize("seed", range(20))
def test_edges_order_all_pairs_that_conflict_and_no_others(seed):
    buffers = random_buffers(seed)
    steps = random_steps(seed, 60, buffers)
    found = edges_of(steps, buffers)
    reach = []
    for at in range(len(steps)):
        direct = {*found.true[at], *found.other[at]}
        reach.append(direct.union(*(reach[one] for one in direct)))
        for one in range(at):
            pairs = [(a, b) for a in footprint(steps[one], DIMS) for b in footprint(steps[at], DIMS)]
            clash = any(a.buffer == b.buffer and a.start < b.end and b.start < a.end and (a.write or b.write) for a, b in pairs)
            if clash:
                assert one in reach[at]
            if one in direct:
                assert clash


def edges_one_by_one(touched, addresses):
    """By the definition: of every block, who wrote it last and who has read it since."""
    writer, readers, true, other = {}, {}, [], []
    for number, step in enumerate(touched):
        read, written = (
            {
                (addresses[place][0], addresses[place][1] + at)
                for place, mask in its
                for at in range(mask.bit_length())
                if mask >> at & 1
            }
            for its in (step.reads, step.writes)
        )
        producers = {writer[block] for block in read if block in writer}
        earlier = {writer[block] for block in written if block in writer}.union(*(readers.pop(block, ()) for block in written))
        for block in read:
            readers.setdefault(block, set()).add(number)
        writer |= dict.fromkeys(written, number)
        true.append(tuple(sorted(producers)))
        other.append(tuple(sorted(earlier - producers)))
    return Edges(tuple(true), tuple(other))


@pytest.mark.parametrize("count", [0, 1, 2, 60])
@pytest.mark.parametrize("seed", range(10))
def test_edges_are_those_of_the_definition_where_buffers_share_addresses(seed, count):
    buffers = random_buffers(seed)
    steps = random_steps(seed, count, buffers)
    touched = touches(areas(steps, program_of(steps, buffers), DIMS))
    touched = [*touched, *touched]
    choose = random.Random(seed)
    apart = {(buffer.name, 0): (buffer.name, 0) for buffer in buffers}
    shared = {(buffer.name, 0): (buffer.space, choose.randrange(200)) for buffer in buffers}
    assert edges(touched) == edges_one_by_one(touched, apart)
    assert edges(touched, shared) == edges_one_by_one(touched, shared)


def test_the_version_of_an_even_distance_is_the_same_one():
    steps = unpipelined([write(LOAD), read(MAP), read(STATE, to=512)])
    assert [step.stage for step in steps] == [STATE, MAP, LOAD]
    found = edges_of(steps, [X2, Y])
    assert found.other[2] == (0,), "a load may overwrite what the state stage has read, not what the map stage reads"
    found = edges_of(unpipelined([write(LOAD), read(MAP)]), [X, Y])
    assert found.other[1] == (0,)


def test_a_chunk_may_not_overwrite_what_the_chunk_before_it_still_needs():
    need_versions([write(LOAD), read(STATE)], [X2, Y], DIMS)
    need_versions([write(LOAD), read(MAP)], [X, Y], DIMS)
    need_versions([write(LOAD), read(STATE, offset=512)], [X, Y], DIMS)
    for body in ([write(LOAD), read(STATE)], [read(LOAD), write(STATE)], [write(LOAD), write(STATE)]):
        with pytest.raises(ValueError, match="buffer x: expected versions=2, got 1"):
            need_versions(body, [X, Y], DIMS)


def test_dataflow_of_a_right_order_and_of_a_wrong_one():
    body = [write(LOAD), read(MAP), read(STATE, to=512)]
    check_dataflow(program_of(unpipelined(body), [X2, Y]), DIMS, body)
    with pytest.raises(
        ValueError, match=r"read 2.* of chunk 0 of 3: expected to read what write 0 of chunk 0 wrote, got write 0 of chunk 2"
    ):
        check_dataflow(program_of(body, [X2, Y]), DIMS, body)
    with pytest.raises(ValueError, match=r"read 1.* of chunk 0 of 2"):
        check_dataflow(program_of(body[:2], [X, Y]), DIMS)
    with pytest.raises(ValueError, match=r"read 2.* of chunk 0 of 2"):
        check_dataflow(program_of(unpipelined(body), [X, Y]), DIMS)
    with pytest.raises(ValueError, match=r"read 2.* of chunk 0 of 1: expected to read what write 2 .*got setup"):
        check_dataflow(program_of([read(), write()], [X, Y]), DIMS, [write(), read()])


def test_dataflow_wants_a_permutation():
    for body in ([write()], [write(), write()], [write(), read(), read()]):
        with pytest.raises(ValueError, match="expected a permutation"):
            check_dataflow(program_of(body, [X, Y]), DIMS, [write(), read()])


@pytest.mark.parametrize("seed", range(20))
def test_any_order_that_keeps_the_edges_keeps_the_dataflow(seed):
    choose = random.Random(seed)
    buffers = random_buffers(seed, alternating=True)
    body = random_steps(seed, 25, buffers, stages=(MAP, STATE) if seed % 2 else (STATE,), most=6)
    base = unpipelined(body)
    found = edges_of(base, buffers)
    waits = [{*found.true[at], *found.other[at]} for at in range(len(base))]
    order, left = [], set(range(len(base)))
    while left:
        at = choose.choice(sorted(at for at in left if not waits[at] & left))
        order.append(at)
        left.remove(at)
    check_dataflow(program_of([base[at] for at in order], buffers), DIMS, body)
    broken = 0
    for at, needed in enumerate(waits):
        for one in needed:
            swapped = [*range(len(base))]
            swapped.remove(at)
            swapped.insert(swapped.index(one), at)
            try:
                check_dataflow(program_of([base[n] for n in swapped], buffers), DIMS, body)
            except ValueError:
                broken += 1
    assert broken > 5


def test_an_access_beyond_its_buffer_is_refused():
    with pytest.raises(ValueError, match=r"step 'write 2': expected bytes of x within 0 .. 4096, got some up to 4608"):
        edges_of([write(offset=3584, size=32)], [X])
    with pytest.raises(ValueError, match="expected one of the program's buffers, got 'x'"):
        edges_of([write()], [Y])
