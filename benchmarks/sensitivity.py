"""Whether the ranking of the systems hangs on a cost that nobody measured: each constant of the chip halved and doubled.

    python benchmarks/sensitivity.py [--quick] [--json] [--length 4096] [--heads 16x16,16x32] [--mechanism gdn|kda|both]
                                     [--jobs 2]

The plans are those of a 310P1 as it is; the chip they run on has one constant changed: a rate, a latency, a cost of the scalar
unit, of a launch or of cores meeting, the depth of a queue, or an instruction's row of costs (start and per unit together), if it
occurs. A share that would pass 1 becomes 1. Sizes of memories and cores stay, as do constants of energy, which take no time.

First each constant is made dearer (a cost doubled, a rate halved) for heads 16x16 at 512 tokens. Those that move no system by 1 %
there are named under slight, with what they move, and left. All others are made dearer at --length, and cheaper. A run's time
is a longest path, so convex in each cost: half of one saves at most half of what twice of it adds. Where that much changes no
order of two systems the cheaper chip is not run (bounded); where it might, the systems concerned are. That the bound holds is
checked wherever both ran.

Left out: vllm_ascend, of which the output says how many times the slowest other it takes: below 2 it could be reached.
fla_megakernel runs the programs of fla, so it moves as fla does where a constant is not one of global memory, launches or cores
that meet: there it is run too.

A row: mechanism, Hk, Hv, T, constant, status (documented, profiled, borrowed, assumed), factor, cycles (modelled, by system),
bounded, ranking, changed. changes: of those rows the ones with another ranking. The program fails when one makes hajax other than
first, or the bound does not hold; a ranking of the others that hangs on an unmeasured constant is said, by name. --quick: 16x16,
the five constants that move most.
"""

import argparse
import concurrent.futures
import dataclasses
import multiprocessing
import sys
from collections.abc import Mapping
from typing import Any

import _ascend
import _cells
import _harness
import _machine
from _cells import SYSTEMS, Place

from hajax import abi, plans
from hajax.backends import npu as emulated
from hajax.targets import NpuTarget, npu

TARGET = "ascend310p1"
SCREENED_AT = 512
SCREENED_HEADS = (16, 16)
SLIGHT = 0.01
FAR = "vllm_ascend"
REACHED = 2.0  # one constant changes a time at most twofold
BOUND_SLACK = 0.005  # the order in which cores reach L2 may change
QUICK = 5
FACTS = (
    "gm_ddr_read_rate", "gm_ddr_write_rate", "gm_l2_read_rate", "gm_l2_write_rate", "l1_to_l0a_rate", "l1_to_l0b_rate",
    "l1_to_ub_rate", "ub_to_l1_rate", "l0c_to_ub_rate", "ub_to_l0c_rate", "ub_to_ub_rate", "sustained_share",
    "gm_read_latency", "gm_write_latency", "l1_latency", "cube_latency", "issue_cycles", "argument_cycles", "flag_cycles",
    "scalar_load_cycles", "scalar_gm_cycles", "sync_all_cycles", "launch_cycles", "queue_depth",
)  # fmt: skip
APART = ("gm_", "sustained_share", "scalar_gm_cycles", "sync_all_cycles", "launch_cycles")  # fla_megakernel from fla
MEETING = ("sync_all_cycles", "launch_cycles")  # never slight: they are what tells these two apart
Cycles = Mapping[str, float]


@dataclasses.dataclass(frozen=True, slots=True)
class Constant:
    """A fact's name, or cost.<instruction>."""

    name: str

    @property
    def tells_apart(self) -> bool:
        """Whether fla_megakernel may move otherwise than fla."""
        return self.name.startswith(APART)

    @property
    def dearer(self) -> float:
        """The factor that makes everything slower."""
        return 0.5 if self.name.endswith(("_rate", "_share", "_depth")) else 2.0

    @property
    def status(self) -> str:
        return npu.provenance(TARGET)[self.name].status

    @property
    def measured(self) -> bool:
        return npu.provenance(TARGET)[self.name].measured

    def on(self, chip: NpuTarget, factor: float) -> NpuTarget:
        """The chip with this constant times so much."""
        if self.name.startswith("cost."):
            name = self.name.removeprefix("cost.")
            start, unit = chip.costs[name]
            return dataclasses.replace(chip, costs={**chip.costs, name: (start * factor, unit * factor)})
        value = getattr(chip, self.name)
        changed = max(1, round(value * factor)) if isinstance(value, int) else value * factor
        return _ascend.replaced(chip, **{self.name: min(changed, 1.0) if self.name.endswith("_share") else changed})


@dataclasses.dataclass(frozen=True, slots=True)
class Job:
    """Systems on a problem and a chip. constant None: the chip as it is."""

    place: Place
    tokens: int
    systems: tuple[str, ...]
    constant: Constant | None = None
    factor: float = 1.0


def measure(job: Job) -> tuple[dict[str, float], set[str]]:
    """Modelled cycles by system, and the instructions that occur."""
    chip = _cells.target_of(job.place.target)
    changed = chip if job.constant is None else job.constant.on(chip, job.factor)
    cycles, met = {}, set()
    for system in job.systems:
        code = plans.to_bytes(_cells.plan_of(job.place, job.tokens, system, "split"))
        blank = _ascend.blank(job.place.heads(job.tokens))
        runs = emulated.execute(code, blank, scale=1.0, target=changed, options=_cells.COUNTING)[2]
        cycles[system] = sum(run.timing["cycles"] for run in runs)
        met |= {str(name) for name in abi.names("instructions") for run in runs if run.counts[str(name)]}
    return cycles, met


def ranking(cycles: Cycles) -> list[str]:
    """The fastest first."""
    return sorted(cycles, key=lambda system: cycles[system])


def floor_of(base: Cycles, dearer: Cycles) -> dict[str, float]:
    """What no system goes below with half of a cost, from what twice of it adds."""
    return {system: base[system] - max(0.0, dearer[system] - base[system]) / 2 for system in base}


def undecided(base: Cycles, floor: Cycles, together: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """Systems whose order half of a cost might change: the slower one of a pair may come to where the faster one was.

    together: those that stay as far from one another.
    """
    order = ranking(base)
    found = {
        system
        for at, faster in enumerate(order)
        for slower in order[at + 1 :]
        if floor[slower] * (1 - BOUND_SLACK) <= base[faster] and not {faster, slower} <= together
        for system in (faster, slower)
    }
    return tuple(system for system in base if system in found)


class Runs:
    """Jobs in processes of their own, each once."""

    def __init__(self, pool: concurrent.futures.Executor):
        self._pool = pool

    def all(self, jobs: list[Job]) -> list[tuple[dict[str, float], set[str]]]:
        asked = [self._pool.submit(measure, job) for job in jobs]
        found = []
        for number, (job, one) in enumerate(zip(jobs, asked, strict=True), 1):
            found.append(one.result())
            what = "the chip as it is" if job.constant is None else f"{job.constant.name} x {job.factor:g}"
            _harness.progress(f"{number}/{len(jobs)} {job.place} T={job.tokens} {what}: {', '.join(job.systems)}")
        return found


def screen(runs: Runs, mechanisms: tuple[str, ...], systems: tuple[str, ...]) -> dict[Constant, float]:
    """Every constant of which something occurs, with the most that it moves a system by at 512 tokens, the weightiest first."""
    places = [Place(mechanism, TARGET, *SCREENED_HEADS) for mechanism in mechanisms]
    base = runs.all([Job(place, SCREENED_AT, (*systems, "fla_megakernel")) for place in places])
    met = set().union(*(names for _, names in base))
    constants = [*map(Constant, FACTS), *(Constant(f"cost.{name}") for name in abi.names("instructions") if name in met)]
    jobs = [Job(place, SCREENED_AT, systems, constant, constant.dearer) for constant in constants for place in places]
    moved: dict[Constant, float] = dict.fromkeys(constants, 0.0)
    for job, (cycles, _) in zip(jobs, runs.all(jobs), strict=True):
        before = base[places.index(job.place)][0]
        assert job.constant is not None
        moved[job.constant] = max(moved[job.constant], *(abs(cycles[s] / before[s] - 1) for s in systems))
    return dict(sorted(moved.items(), key=lambda one: -one[1]))


def _asked(constant: Constant) -> tuple[str, ...]:
    """Systems that are run with it changed."""
    return tuple(s for s in SYSTEMS if s != FAR and (s != "fla_megakernel" or constant.tells_apart))


def _like_fla(cycles: dict[str, float], base: Cycles) -> dict[str, float]:
    """With fla_megakernel as far from fla as it was, where it was not run."""
    if "fla_megakernel" in cycles or "fla" not in cycles:
        return cycles
    return cycles | {"fla_megakernel": cycles["fla"] + base["fla_megakernel"] - base["fla"]}


def sweep(
    runs: Runs, places: list[Place], tokens: int, constants: list[Constant]
) -> tuple[list[dict[str, Any]], dict[Place, Cycles]]:
    """Rows of all constants, dearer and cheaper, and each place on the chip as it is."""
    every = tuple(SYSTEMS)
    base = {place: found[0] for place, found in zip(places, runs.all([Job(p, tokens, every) for p in places]), strict=True)}
    near = {place: {system: cycles[system] for system in every if system != FAR} for place, cycles in base.items()}
    jobs = [Job(place, tokens, _asked(c), c, c.dearer) for place in places for c in constants]
    rows, again = [], []
    for job, (cycles, _) in zip(jobs, runs.all(jobs), strict=True):
        known, constant = near[job.place], job.constant
        assert constant is not None
        dearer = _like_fla(cycles, known)
        rows.append(_row(job, constant.dearer, known, dearer, job.systems))
        floor = floor_of(known, dearer)
        together = frozenset() if constant.tells_apart else frozenset(("fla", "fla_megakernel"))
        found = set(_asked(constant) if constant.name == "queue_depth" else undecided(known, floor, together))
        if found & together:
            found = (found | {"fla"}) - {"fla_megakernel"}
        wanted = tuple(system for system in known if system in found)
        again.append((Job(job.place, tokens, wanted, constant, 1 / constant.dearer), floor))
    ran = dict(zip([job for job, _ in again if job.systems], runs.all([job for job, _ in again if job.systems]), strict=True))
    for job, floor in again:
        assert job.constant is not None
        known = near[job.place]
        cycles = _like_fla(dict(ran[job][0]), known) if job in ran else {}
        row = _row(job, job.factor, known, {**known, **cycles}, job.systems)
        capped = job.constant.name in ("queue_depth", "sustained_share")  # no cost, and not halved
        low = [cycles[system] / floor[system] - 1 for system in job.systems]
        row["over_bound"] = None if capped or not low else round(min(low), 5)
        rows.append(row)
    return rows, base


def _row(job: Job, factor: float, base: Cycles, cycles: Cycles, ran: tuple[str, ...]) -> dict[str, Any]:
    """`cycles` of systems that were not run are those of the chip as it is: they only rank."""
    assert job.constant is not None
    order = ranking(cycles)
    shown = {system: round(cycles[system]) if cycles[system] != base[system] or system in ran else None for system in base}
    return {
        "mechanism": job.place.mechanism, "Hk": job.place.key_heads, "Hv": job.place.value_heads, "T": job.tokens,
        "constant": job.constant.name, "status": job.constant.status, "measured": job.constant.measured, "factor": factor,
        "cycles": shown, "bounded": [system for system in base if shown[system] is None], "ranking": order,
        "changed": order != ranking(base),
    }  # fmt: skip


def claims(rows: list[dict[str, Any]], base: Mapping[Place, Cycles]) -> list[dict[str, Any]]:
    """fails: whether the program does when it does not hold."""
    others = [row for row in rows if row["ranking"][0] != "hajax"]
    hanging = sorted({row["constant"] for row in rows if row["changed"] and not row["measured"]})
    low = [row["over_bound"] for row in rows if row.get("over_bound") is not None]
    far = {str(place): cycles[FAR] / max(v for s, v in cycles.items() if s != FAR) for place, cycles in base.items()}
    return [
        {
            "claim": "hajax is first with each constant halved and doubled", "fails": True, "holds": not others,
            "figures": {"not_with": sorted({f"{row['constant']} x {row['factor']:g}" for row in others})},
        },
        {
            "claim": "the ranking of all systems does not hang on one constant that was not measured", "fails": False,
            "holds": not hanging, "figures": {"hangs_on": hanging},
        },
        {
            "claim": f"{FAR} takes {REACHED:g} times what the slowest other does, so that no one constant lets it be reached",
            "fails": True, "holds": min(far.values()) >= REACHED, "figures": {p: round(v, 2) for p, v in far.items()},
        },
        {
            "claim": "half of a cost saves at most half of what twice of it adds", "fails": True,
            "holds": min(low, default=0.0) >= -BOUND_SLACK,
            "figures": {"runs": len(low), "least_over_bound": min(low, default=None)},
        },
    ]  # fmt: skip


def show(report: dict[str, Any]) -> None:
    for place in report["base"]:
        order = ", ".join(f"{system} {place['cycles'][system] / 1e3:.1f}" for system in place["ranking"])
        print(f"{place['mechanism']} {place['Hk']}x{place['Hv']} T={place['T']}, the chip as it is, k cycles: {order}")
    print(f"\n{'constant':<32}{'status':<12}{'factor':>7}  {'place':<12}{'k cycles, the fastest first'}")
    for row in report["rows"]:
        place = f"{row['mechanism']} {row['Hk']}x{row['Hv']}"
        cells = [
            f"{s} {row['cycles'][s] / 1e3:.1f}" if row["cycles"][s] is not None else f"{s} (bounded)" for s in row["ranking"]
        ]
        mark = "  CHANGED" if row["changed"] else ""
        print(f"{row['constant']:<32}{row['status']:<12}{row['factor']:>7g}  {place:<12}{', '.join(cells)}{mark}")
    slight = ", ".join(f"{name} {moved:.2%}" for name, moved in report["slight"].items())
    print(f"\nslight at T={SCREENED_AT}, dearer: {slight}")
    print("\nconstants that change the ranking:")
    for row in report["changes"]:
        place = f"{row['mechanism']} {row['Hk']}x{row['Hv']}"
        print(f"  {row['constant']} x {row['factor']:g} ({row['status']}), {place}: {', '.join(row['ranking'])}")
    for claim in report["claims"]:
        print(f"{'true ' if claim['holds'] else 'FALSE'} {claim['claim']}: {claim['figures']}")
    print(_ascend.MODELLED)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object {machine, rows, base, changes, slight, claims}"
    )
    parser.add_argument("--quick", action="store_true", help="16x16, the constants that move most")
    parser.add_argument("--length", default="4096")
    parser.add_argument("--heads", help="key heads x value heads, comma-separated")
    parser.add_argument("--mechanism", choices=(*_ascend.NAMES, "both"), default="both")
    parser.add_argument("--jobs", default="2", help="processes")
    given = parser.parse_args()
    tokens = _ascend.positive(parser, "length", given.length)
    texts = (given.heads or ("16x16" if given.quick else "16x16,16x32")).split(",")
    heads = [_ascend.head_counts(parser, "heads", text) for text in texts]
    mechanisms = tuple(_ascend.NAMES) if given.mechanism == "both" else (given.mechanism,)
    jobs = _ascend.positive(parser, "jobs", given.jobs)
    near = tuple(system for system in SYSTEMS if system not in (FAR, "fla_megakernel"))
    with concurrent.futures.ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        runs = Runs(pool)
        moved = screen(runs, mechanisms, near)
        wanted = [constant for constant, most in moved.items() if most >= SLIGHT or constant.name in MEETING]
        constants = wanted[:QUICK] if given.quick else wanted
        places = [Place(mechanism, TARGET, *of) for mechanism in mechanisms for of in heads]
        rows, base = sweep(runs, places, tokens, constants)
    report = {
        "machine": _machine.facts(),
        "rows": rows,
        "missing": [],
        "base": [
            {
                "mechanism": place.mechanism, "Hk": place.key_heads, "Hv": place.value_heads, "T": tokens,
                "cycles": {system: round(value) for system, value in cycles.items()}, "ranking": ranking(cycles),
            }
            for place, cycles in base.items()
        ],
        "changes": [row for row in rows if row["changed"]],
        "slight": {constant.name: round(most, 5) for constant, most in moved.items() if constant not in wanted},
        "not_run": [constant.name for constant in wanted if constant not in constants],
        "claims": claims(rows, base),
    }  # fmt: skip
    _harness.publish(report, given.json, show)
    if false := [claim["claim"] for claim in report["claims"] if claim["fails"] and not claim["holds"]]:
        sys.exit(f"sensitivity: not true: {'; '.join(false)}")


if __name__ == "__main__":
    main()
