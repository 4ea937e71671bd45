"""An order keeps what every read sees, fits the chip, overlaps what can overlap, and is the same one every time."""

import dataclasses
import random

import pytest
from step_programs import CHIP, DIMS, program_of, random_buffers, random_steps, walk

from hajax.lowering import cube_scalar
from hajax.lowering.assembler import Constants
from hajax.lowering.assembler import Dims as ProgramDims
from hajax.passes.dependencies import check_dataflow, unpipelined
from hajax.passes.list_schedule import Search, Taste, modelled_cycles
from hajax.passes.pipeline import pipeline
from hajax.passes.place_buffers import place_buffers
from hajax.passes.rooms import Room
from hajax.passes.step_cost import simulate
from hajax.passes.step_graph import StepGraph
from hajax.passes.sync import synchronise
from hajax.plans.program import LOAD, MAP, STATE, Buffer, Operand, Step

LOWERED = {
    "one head": cube_scalar.build(ProgramDims(64, 128, 128, 1, False), Constants()),
    "two heads": cube_scalar.build(ProgramDims(64, 128, 128, 2, False), Constants()),
    "few columns": cube_scalar.build(ProgramDims(64, 128, 32, 2, True), Constants()),
    "no correction": cube_scalar.build(ProgramDims(64, 128, 64, 1, False), Constants(), delta=False),
}


def planned(program, chip=CHIP):
    found, note = pipeline(program, DIMS, chip)
    placed, _ = place_buffers(found, DIMS, chip)
    flagged, _ = synchronise(placed, DIMS, chip)
    return found, flagged, note


@pytest.mark.parametrize("name", LOWERED)
def test_a_lowered_program_keeps_its_meaning_and_every_pair_is_ordered(name):
    program = LOWERED[name]
    found, flagged, _ = planned(program)
    check_dataflow(found, DIMS, program.body)
    for odd in (False, True):
        walk(flagged.body, flagged, odd=odd)


@pytest.mark.parametrize("name", LOWERED)
def test_overlap_saves_a_third_of_the_cycles_at_least(name):
    program = LOWERED[name]
    _, flagged, note = planned(program)
    base = dataclasses.replace(program, body=unpipelined(program.body))
    serial, _ = synchronise(place_buffers(base, DIMS, CHIP)[0], DIMS, CHIP)
    cycles, before = (simulate(one.body, DIMS, CHIP).cycles for one in (flagged, serial))
    assert cycles < before * 2 / 3
    assert max(simulate(flagged.body, DIMS, CHIP).busy) <= cycles
    assert note.by == "pipeline" and "modelled cycles" in note.choice


def test_setup_finish_and_the_steps_themselves_stay():
    program = LOWERED["few columns"]
    found, _, _ = planned(program)
    assert (found.setup, found.finish) == (program.setup, program.finish)
    assert sorted(map(repr, found.body)) == sorted(map(repr, program.body))
    assert found.body != program.body


def test_equal_programs_get_equal_orders_and_addresses():
    assert pipeline(LOWERED["one head"], DIMS, CHIP) == pipeline(LOWERED["one head"], DIMS, CHIP)


def chains(seed, count):
    """Chains of steps over buffers of their own, in stages of their own: much can overlap, and memory may be short."""
    choose = random.Random(seed)
    buffers, body = [], []
    for number in range(count):
        mine = [
            dataclasses.replace(b, name=f"{b.name}.{number}") for b in random_buffers(seed * 50 + number, each=1, fractals=16)
        ]
        stage = choose.randrange(3)
        fill = [
            Step("constant_to_l1", dst=Operand(mine[0].name), size=mine[0].bytes // 32, stage=stage),
            Step("constant_to_ub", dst=Operand(mine[4].name), size=mine[4].bytes // 32, stage=stage),
            Step("load_a", dst=Operand(mine[1].name), src0=Operand(mine[0].name), size=16, p=(1, *[0] * 7), stage=stage),
            Step("load_b", dst=Operand(mine[2].name), src0=Operand(mine[0].name), size=16, p=(1, *[0] * 7), stage=stage),
        ]
        p = (16, 1, 1, 0, 0, 0, 1, 0)
        fill.append(Step("mmad", Operand(mine[3].name), Operand(mine[1].name), Operand(mine[2].name), p=p, stage=stage))
        buffers += mine
        body += [
            *fill,
            *random_steps(seed * 50 + number, 4, mine, kinds=("ub_to_l1", "add32", "c_to_ub16"), stages=(stage,), most=4),
        ]
    return program_of(body, buffers)


@pytest.mark.parametrize("seed", range(10))
def test_random_chains_keep_their_meaning_even_where_memory_is_scarce(seed):
    program = chains(seed, 12)
    chip = dataclasses.replace(CHIP, l0a_bytes=20 * 1024, l0b_bytes=20 * 1024, l0c_bytes=40 * 1024, ub_bytes=64 * 1024)
    for one in (CHIP, chip):
        found, flagged, _ = planned(program, one)
        check_dataflow(found, DIMS, program.body)
        walk(flagged.body, flagged)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "taste", [Taste(30.0, 0.0, 0.0), Taste(100.0, 3000.0, 30.0, weight=0.5), Taste(0.0, 0.0, 0.0, lookahead=4)]
)
def test_buffers_of_a_search_are_apart_while_both_are_alive(seed, taste):
    program = chains(seed, 10)
    base = dataclasses.replace(program, body=unpipelined(program.body))
    graph = StepGraph(base, DIMS, dataclasses.replace(CHIP, l0a_bytes=24 * 1024, l0b_bytes=24 * 1024, l0c_bytes=64 * 1024))
    found = Search(graph, taste).run()
    assert found is not None
    order, addresses, cycles = found
    assert graph.keeps_edges(order) and cycles > 0
    place = {at: number for number, at in enumerate(order)}
    lives = {}
    for at, uses in enumerate(graph.uses):
        for number in uses:
            first, last = lives.get(number, (place[at], place[at]))
            lives[number] = (min(first, place[at]), max(last, place[at]))
    shared = 0
    for one, (first, last) in lives.items():
        start, end = addresses[graph.names[one]], addresses[graph.names[one]] + graph.bytes[one]
        low, high = graph.rooms[graph.spaces[one]]
        assert low <= start and end <= high
        for other, (first2, last2) in lives.items():
            start2 = addresses[graph.names[other]]
            if other <= one or graph.spaces[other] != graph.spaces[one]:
                continue
            if start < start2 + graph.bytes[other] and start2 < end:
                assert last < first2 or last2 < first
                shared += 1
    assert shared > 0, "memory was not scarce, so nothing was tested"


def test_a_buffer_that_two_chunks_would_share_is_refused():
    x, y = Buffer("x", "L1", 512), Buffer("y", "UB", 512)
    load = Step("constant_to_l1", dst=Operand("x"), size=16, stage=LOAD)
    use = Step("l1_to_ub", dst=Operand("y"), src0=Operand("x"), size=16, stage=STATE)
    with pytest.raises(ValueError, match="buffer x: expected versions=2"):
        pipeline(program_of([load, use], [x, y]), DIMS, CHIP)
    found, _ = pipeline(program_of([load, use], [dataclasses.replace(x, versions=2), y]), DIMS, CHIP)
    check_dataflow(found, DIMS, [load, use])


def test_an_order_that_breaks_an_edge_is_noticed():
    program = dataclasses.replace(LOWERED["few columns"], body=unpipelined(LOWERED["few columns"].body))
    graph = StepGraph(program, DIMS, CHIP)
    natural = graph.natural
    assert graph.keeps_edges(natural)
    at = next(at for at in natural if graph.before[at])
    moved = [one for one in natural if one != at]
    moved.insert(moved.index(graph.before[at][0]), at)
    assert not graph.keeps_edges(moved)
    assert not graph.keeps_edges(natural[:-1]) and not graph.keeps_edges([natural[0], *natural[:-1]])


def test_no_order_beats_the_busiest_unit_or_the_longest_path():
    program = LOWERED["one head"]
    graph = StepGraph(dataclasses.replace(program, body=unpipelined(program.body)), DIMS, CHIP)
    cycles = modelled_cycles(graph, graph.natural)
    assert cycles >= graph.bound and cycles >= max(tail for tail in graph.path) - 10
    found = Search(graph, Taste(30.0, 0.0, 0.0)).run()
    assert found is not None and graph.bound <= found[2] < cycles


def test_fewer_searches_find_an_order_too():
    program = LOWERED["few columns"]
    found, _ = pipeline(program, DIMS, CHIP, searches=1)
    check_dataflow(found, DIMS, program.body)
    assert found.body != unpipelined(program.body)
    for wrong in (0, 4):
        with pytest.raises(ValueError, match=f"searches: expected 1 to 3, got {wrong}"):
            pipeline(program, DIMS, CHIP, searches=wrong)


def test_an_empty_body_has_nothing_to_order():
    found, note = pipeline(program_of([], []), DIMS, CHIP)
    assert found.body == () and note.choice == "nothing to order"


@pytest.mark.parametrize("seed", range(5))
def test_a_room_gives_free_bytes_only_and_all_of_them_come_back(seed):
    choose = random.Random(seed)
    room, taken, now = Room(512, 16 * 1024), [], 0.0
    refused = 0
    for _ in range(300):
        now += 1
        if taken and choose.random() < 0.45:
            start, size = taken.pop(choose.randrange(len(taken)))
            room.give(start, size, now + choose.choice((-3, 5)), now)
            continue
        size = 512 * choose.choice((1, 2, 3, 4, 8))
        found = room.find(size, now)
        if found is None:
            refused += 1
            continue
        when, start = found
        assert when >= now and start >= 512 and start + size <= 16 * 1024
        assert all(start + size <= other or other + length <= start for other, length in taken)
        room.take(start, size)
        taken.append((start, size))
    assert refused > 0
    for start, size in taken:
        room.give(start, size, now, now + 1)
    assert sum(end - start for start, end, _ in room.pieces) == 15 * 1024 + 512
    assert room.find(15 * 1024, now + 9) is not None


def test_stages_are_what_the_program_says():
    assert [step.stage for step in unpipelined([Step("sync", stage=s) for s in (LOAD, MAP, STATE, MAP)])] == [2, 1, 1, 0]
