"""Orders that were searched for beforehand are there for the shapes people have, right, and worth what the table says."""

import dataclasses
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from step_programs import CHIP, DIMS, program_of, random_buffers, random_steps

from hajax.lowering import cube_scalar
from hajax.lowering.assembler import Constants
from hajax.lowering.assembler import Dims as ProgramDims
from hajax.mechanisms import GATED_DELTA_RULE, KDA
from hajax.passes import known_orders
from hajax.passes.dependencies import check_dataflow, unpipelined
from hajax.passes.order_problem import problem_text
from hajax.passes.pipeline import pipeline
from hajax.passes.place_buffers import place_buffers
from hajax.passes.step_cost import steady_cycles
from hajax.passes.step_graph import StepGraph
from hajax.passes.sync import synchronise
from hajax.plans import Shape
from hajax.plans.footprint import Dims
from hajax.schedules import ASCEND
from hajax.targets import npu

ROOT = Path(__file__).parents[2]
TABLE = json.loads((ROOT / "hajax/passes" / known_orders.TABLE).read_text())
CARRIED = (True, False)
PAIR = cube_scalar.build(ProgramDims(64, 128, 128, 2, False), Constants())


def based(program):
    return dataclasses.replace(program, body=unpipelined(program.body))


def flagged(program, carried, chip=CHIP, **how):
    """The program after pipeline, buffers and sync, and the pipeline's note."""
    found, note = pipeline(program, DIMS, chip, carried=carried, **how)
    placed, _ = place_buffers(found, DIMS, chip)
    return synchronise(placed, DIMS, chip, carried=carried)[0], note


@pytest.mark.parametrize("chip", ["ascend310p1", "ascend310p3"])
@pytest.mark.parametrize("heads", [(16, 16), (16, 32)])
@pytest.mark.parametrize("mechanism", [GATED_DELTA_RULE, KDA], ids=lambda m: m.name)
@pytest.mark.parametrize("schedule", ["hajax", "hanpu"])
def test_the_shapes_of_qwen_and_their_kda_twins_have_searched_orders(schedule, mechanism, heads, chip):
    shape = Shape(1, 4096, 1, *heads, 128, 128, "float16", "float16")
    plan = ASCEND[schedule](mechanism, shape, npu.load(chip), 0)
    (note,) = [note for note in plan.notes if note.by == "pipeline"]
    assert "searched for beforehand" in note.choice, "run scripts/search_orders.py: a program has changed"


@pytest.mark.parametrize("free", [False, True], ids=["walked", "specialised"])
def test_a_searched_order_keeps_the_meaning_beats_the_greedy_one_and_costs_what_the_table_says(free):
    chip = dataclasses.replace(CHIP, scalar_load_cycles=0.0) if free else CHIP
    known, note = flagged(PAIR, True, chip)
    greedy, other = flagged(PAIR, True, chip, known=False)
    assert "beforehand" in note.choice and "beforehand" not in other.choice
    assert known.carried and greedy.carried
    check_dataflow(
        dataclasses.replace(known, body=tuple(bare(step) for step in known.body if step.opcode != "sync")), DIMS, PAIR.body
    )
    told = known_orders.known_order(based(PAIR), StepGraph(based(PAIR), DIMS, chip), chip, True).cycles
    assert steady_cycles(known, DIMS, chip) == pytest.approx(told, rel=0.01)
    assert told < 0.9 * steady_cycles(greedy, DIMS, chip)


def bare(step):
    return dataclasses.replace(step, waits=(), sets=(), barrier=False)


def test_each_entry_has_an_order_of_all_steps_for_either_kernel():
    assert TABLE
    for entry in TABLE.values():
        assert entry["orders"].keys() == {"0", "5"}
        for found in entry["orders"].values():
            order = [int(at) for at in found["order"].split()]
            assert sorted(order) == list(range(len(order)))
            assert f"{len(order)} steps" in entry["program"]
            assert found["cycles"] > 0


def test_the_key_is_what_decides_which_orders_are_legal():
    def key(program, carried=True):
        return known_orders.digest(based(program), StepGraph(based(program), DIMS, CHIP), carried)

    told = key(PAIR)
    relabelled = dataclasses.replace(PAIR, body=tuple(dataclasses.replace(step, label="x") for step in PAIR.body))
    assert key(relabelled) == told
    assert key(PAIR, carried=False) != told
    wider = dataclasses.replace(PAIR, body=(*PAIR.body[:-1], dataclasses.replace(PAIR.body[-1], stage=1)))
    assert key(wider) != told
    smaller = known_orders.digest(
        based(PAIR), StepGraph(based(PAIR), DIMS, dataclasses.replace(CHIP, l0c_bytes=CHIP.l0c_bytes // 2)), True
    )
    assert smaller != told


def test_a_program_that_nobody_searched_for_gets_a_greedy_order():
    program = program_of(random_steps(5, 40, random_buffers(5), stages=(0,)), random_buffers(5))
    _, note = pipeline(program, DIMS, CHIP)
    assert "beforehand" not in note.choice


def in_natural_order(base, graph, dims):
    placed, _ = place_buffers(dataclasses.replace(base, body=tuple(base.body[at] for at in graph.natural)), dims, CHIP)
    return placed


def addresses_of(placed):
    return {buffer.name: buffer.address for buffer in placed.buffers}


@pytest.fixture(scope="module")
def tool(tmp_path_factory):
    """The search, with sanitizers."""
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    program = tmp_path_factory.mktemp("order_search") / "hajax_order_search"
    sources = sorted((ROOT / "native/tools/order_search").glob("*.cpp"))
    flags = ["-std=c++17", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-I", ROOT]
    subprocess.run([compiler, *flags, *sources, "-o", program], check=True)
    return program


def searched(tool, folder, text, seconds):
    path = folder / "problem"
    path.write_text(text)
    return subprocess.run([tool, path, seconds, "0"], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("carried", CARRIED)
@pytest.mark.parametrize("columns", [16, 32])
def test_a_search_finds_a_legal_order_that_costs_what_it_says_and_is_better_than_its_start(tool, tmp_path, carried, columns):
    program = cube_scalar.build(ProgramDims(64, 32, columns, 1, False), Constants())
    dims = Dims(64, 32)
    base = based(program)
    graph = StepGraph(base, dims, CHIP)
    natural = in_natural_order(base, graph, dims)
    text = problem_text(base, graph, dims, CHIP, carried, graph.natural, addresses_of(natural))
    done = searched(tool, tmp_path, text, "4")
    assert done.returncode == 0, done.stderr
    cycles, order, addresses = done.stdout.splitlines()
    order = [int(at) for at in order.split()]
    assert graph.keeps_edges(order)
    places = dict(zip(graph.names, map(int, addresses.split()), strict=True))
    ordered = dataclasses.replace(
        base,
        body=tuple(base.body[at] for at in order),
        buffers=tuple(dataclasses.replace(b, address=places.get(b.name)) for b in base.buffers),
    )
    check_dataflow(ordered, dims, program.body)
    placed, _ = place_buffers(ordered, dims, CHIP)
    told = steady_cycles(synchronise(placed, dims, CHIP, carried=carried)[0], dims, CHIP)
    assert told == pytest.approx(float(cycles), rel=0.02)
    assert told < 0.8 * steady_cycles(synchronise(natural, dims, CHIP, carried=carried)[0], dims, CHIP)


def test_problems_that_make_no_sense_are_refused(tool, tmp_path):
    program = cube_scalar.build(ProgramDims(64, 32, 16, 1, False), Constants())
    base, dims = based(program), Dims(64, 32)
    graph = StepGraph(base, dims, CHIP)
    places = addresses_of(in_natural_order(base, graph, dims))
    text = problem_text(base, graph, dims, CHIP, True, graph.natural, places)
    *others, order, addresses = text.splitlines()
    same = " ".join(["0"] * len(graph.names))
    broken = {
        "expected a number for address": text[: -len(addresses) // 2],
        "keeps what steps depend on": "\n".join([*others, " ".join(reversed(order.split())), addresses]),
        "expected a start of all steps": "\n".join([*others, " ".join(["0"] * graph.count), addresses]),
        "keep buffers apart": "\n".join([*others, order, same]),
        "expected pipe from 0 to 4, got 9": "\n".join([others[0], "9" + others[1][1:], *others[2:], order, addresses]),
        "expected a number for steps": "",
    }
    for reason, wrong in broken.items():
        done = searched(tool, tmp_path, wrong, "0.01")
        assert done.returncode == 1 and reason in done.stderr, (reason, done.stderr)
