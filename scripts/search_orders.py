"""Searches emission orders for the programs of common shapes and writes hajax/passes/known_orders.json.

    python scripts/search_orders.py [--seconds 120] [--jobs 2] [--seeds 1] [--only TEXT] [--problems FOLDER [--collect | --merge]]

Needs g++. Each program is searched twice, for kernels that walk a plan and for those made of it, whose scalar loads are free.
The table only gets better: a search begins with what it holds, and what is not better is not taken. --only: programs whose
name has this in it; without it, orders of programs that no shape needs any more are dropped. --collect writes the problems and
ends, so that they can be searched elsewhere (hajax_order_search PROBLEM SECONDS SEED > PROBLEM.SEED.found); --merge takes those
results.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.progress import track

from hajax.mechanisms import DELTA_RULE, GATED_DELTA_RULE, GATED_LINEAR_ATTENTION, KDA, RETENTION, Mechanism
from hajax.passes.dependencies import unpipelined
from hajax.passes.known_orders import TABLE, UNIT, KnownOrder, digest, known_order
from hajax.passes.order_problem import problem_text
from hajax.passes.pipeline import pipeline
from hajax.passes.place_buffers import place_buffers
from hajax.passes.step_graph import StepGraph
from hajax.plans import Note, Shape
from hajax.plans.footprint import Dims
from hajax.plans.program import Program
from hajax.schedules import ASCEND, ascend
from hajax.targets import NpuTarget, npu

REPO = Path(__file__).resolve().parent.parent
PATH = REPO / "hajax" / "passes" / TABLE
SOURCES = sorted((REPO / "native" / "tools" / "order_search").glob("*.cpp"))
HEADS = ((16, 16), (16, 32), (1, 1), (1, 2), (2, 2), (1, 3))  # key x value heads; those of models, and what rests of them
CHIPS = ("ascend310p1", "ascend310p3", "ascend310b1")
EQUAL = 0.1  # cycles, of an iteration


@dataclass(frozen=True, slots=True)
class Case:
    """Programs that are planned for a shape on a chip."""

    schedule: str
    mechanism: Mechanism
    heads: tuple[int, int]
    dim: int
    tokens: int
    chip: str


@dataclass(frozen=True, slots=True)
class Problem:
    """A program to search for, and what the table knows of it."""

    name: str
    digest: str
    loads: float  # cycles of a scalar load
    text: str
    known: KnownOrder | None

    @property
    def file(self) -> str:
        return f"{self.digest}.{self.loads:g}"


def cases() -> Iterator[Case]:
    """The programs of shapes that people have."""
    for chip in CHIPS:
        for heads in HEADS:
            for schedule in ("hajax", "hanpu"):
                for mechanism in (GATED_DELTA_RULE, KDA):
                    for tokens in (512, 4096):
                        yield Case(schedule, mechanism, heads, 128, tokens, chip)
        for mechanism in (DELTA_RULE, RETENTION, GATED_LINEAR_ATTENTION):
            yield Case("hajax", mechanism, (16, 16), 128, 4096, chip)
        for schedule in ("hajax", "hanpu"):
            yield Case(schedule, GATED_DELTA_RULE, (4, 8), 32, 4096, chip)  # the demo model
    for mechanism in (GATED_DELTA_RULE, KDA):
        yield Case("chunk_head", mechanism, (16, 16), 128, 4096, CHIPS[0])
        for chip in CHIPS:
            for heads in HEADS[:2]:
                for schedule in ("fla", "flashqla"):  # so that what hajax is compared with has no worse orders
                    yield Case(schedule, mechanism, heads, 128, 4096, chip)


def problems(some: Sequence[Case], only: str) -> list[Problem]:
    """Each program once, by listening to the planner while it plans these cases."""
    every: dict[str, Problem] = {}
    found: dict[str, Problem] = {}  # of the case at hand
    now = ""  # what the case at hand is called

    def listening(
        program: Program, dims: Dims, target: NpuTarget, searches: int = 1, *, carried: bool = False
    ) -> tuple[Program, Note]:
        base = replace(program, body=unpipelined(program.body))
        its = f"{now}, {program.heads} head{'s' * (program.heads > 1)} of {program.columns} columns, {len(base.body)} steps"
        for loads in (target.scalar_load_cycles, 0.0) if only in its else ():
            chip = replace(target, scalar_load_cycles=loads)
            graph = StepGraph(base, dims, chip)
            key = digest(base, graph, carried)
            if f"{key}.{loads:g}" in every:
                continue
            known = known_order(base, graph, chip, carried)
            start = (known.order, known.addresses) if known is not None else _greedy(program, base, dims, chip)
            text = problem_text(base, graph, dims, chip, carried, *start)
            found[f"{key}.{loads:g}"] = Problem(its, key, loads, text, known)
        return pipeline(program, dims, target, 1, carried=carried)

    ascend.pipeline = listening  # type: ignore[assignment]
    for case in track(some, "planning", transient=True):
        target = npu.load(case.chip)
        now = f"{case.schedule} {case.mechanism.name} {case.dim} {case.chip}"
        key_heads, value_heads = case.heads
        shape = Shape(1, case.tokens, 1, key_heads, value_heads, case.dim, case.dim, "float16", "float16")
        found.clear()
        try:
            ASCEND[case.schedule](case.mechanism, shape, target, 0)
            every.update(found)
        except ValueError as error:  # some do not fit some chips
            print(f"{now}: {error}", file=sys.stderr)
    return list(every.values())


def _greedy(program: Program, base: Program, dims: Dims, chip: NpuTarget) -> tuple[list[int], dict[str, int]]:
    """The order that the planner would take, as numbers of the base's steps, and its addresses."""
    planned, _ = place_buffers(pipeline(program, dims, chip, known=False)[0], dims, chip)
    places: dict[str, list[int]] = {}
    for at, step in enumerate(base.body):
        places.setdefault(repr(step), []).append(at)
    addresses = {buffer.name: buffer.address for buffer in planned.buffers if buffer.address is not None}
    return [places[repr(step)].pop(0) for step in planned.body], addresses


def search(problem: Problem, tool: Path, folder: Path, seconds: float, seeds: int) -> None:
    """Leaves a result for each seed beside the problem."""
    path = folder / problem.file
    path.write_text(problem.text)
    for seed in range(seeds):
        command = [tool, path, str(seconds), str(seed)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        Path(f"{path}.{seed}.found").write_text(done.stdout)


def merge(table: dict[str, Any], problem: Problem, folder: Path) -> str:
    """Puts the best result into the table if it is better; tells."""
    known = problem.known if problem.loads in map(float, table.get(problem.digest, {}).get("orders", {})) else None
    best = known.cycles if known is not None else float("inf")
    told = f"{best:.1f}"
    for path in sorted(folder.glob(f"{problem.file}.*.found")):
        cycles, order, addresses = path.read_text().splitlines()
        if float(cycles) < best - EQUAL:
            best = float(cycles)
            units = " ".join(str(int(address) // UNIT) for address in addresses.split())
            entry = table.setdefault(problem.digest, {"program": problem.name, "orders": {}})
            entry["orders"][f"{problem.loads:g}"] = {"cycles": best, "order": order, "addresses": units}
    return f"{told} -> {best:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Searches emission orders for the programs of common shapes.")
    parser.add_argument("--seconds", type=float, default=120.0, help="of one search")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--only", default="", help="programs whose name has this in it")
    parser.add_argument("--problems", type=Path, help="where problems and results are; a temporary folder")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--collect", action="store_true", help="only write the problems")
    what.add_argument("--merge", action="store_true", help="only take results")
    given = parser.parse_args()
    if (given.collect or given.merge) and given.problems is None:
        parser.error("--collect and --merge need --problems FOLDER")
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.problems or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        every = problems(list(cases()), given.only)
        if given.collect:
            for problem in every:
                (folder / problem.file).write_text(problem.text)
            print(f"{len(every)} problems in {folder}")
            return
        if not given.merge:
            tool = Path(scratch) / "hajax_order_search"
            subprocess.run(["g++", "-std=c++17", "-O3", "-march=native", f"-I{REPO}", *SOURCES, "-o", tool], check=True)
            with ThreadPoolExecutor(given.jobs) as pool:
                runs = pool.map(lambda problem: search(problem, tool, folder, given.seconds, given.seeds), every)
                list(track(runs, "searching", total=len(every)))
        table = json.loads(PATH.read_text())
        if not given.only:
            needed = {problem.digest for problem in every}
            table = {key: entry for key, entry in table.items() if key in needed}
        for problem in every:
            print(f"{problem.name}, loads {problem.loads:g}: {merge(table, problem, folder)}")
        fresh = PATH.with_suffix(".new")
        fresh.write_text(json.dumps(dict(sorted(table.items())), indent=1) + "\n")
        fresh.replace(PATH)


if __name__ == "__main__":
    main()
