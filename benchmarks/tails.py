"""Heads that do not fill the cores: counted work of each core, and the modelled makespan over total work / cores.

    python benchmarks/tails.py [--json] [--cases 16x10,1x10,32x8,3x1] [--lengths 512,4096] [--mechanism gdn|kda|both]

A case is value heads x cores (a 310P1 has 10, a 310P3 8; other counts are what-ifs of the same chip), with as many key heads.
Total work, unsplit: the modelled time of a pair of heads alone on a core (of one head where their number is odd) times how many
there are. Executed: of every core's items, run alone. Both over the cores, without the launch's overhead, are the bounds.

A row: mechanism, heads, cores, T, mapping (what the plan's note says), programs, launches, core_macs, core_v_instructions (by
core, all launches), imbalance_macs, imbalance_v (the most over the mean of all cores), makespan_cycles, unsplit_cycles and
executed_cycles (bounds), over_unsplit, over_executed (makespan over them), within (over_unsplit <= 1.15; null where pieces of 16
columns are too few for the cores).
The program fails when a row is not within.
"""

import argparse
import dataclasses
import sys
from typing import Any

import _ascend
import _harness
import _machine

from hajax import plans
from hajax.backends import npu as emulated
from hajax.plans.program import Item, Launch
from hajax.targets import NpuTarget

CASES = ("16x10", "1x10", "32x8", "3x1")
BOUND = 1.15
COLUMNS = 16  # of a piece, at least


def target_for(cores: int) -> NpuTarget:
    """The 310P with so many cores; 310P1 and 310P3 as they are."""
    known = {chip.ai_cores: chip for chip in (_ascend.chip("ascend310p3"), _ascend.chip("ascend310p1"))}
    return known.get(cores) or _ascend.replaced(_ascend.chip("ascend310p1"), ai_cores=cores)


def cycles(runs: tuple[emulated.SimRun, ...]) -> float:
    """From the first instruction to the last of a launch; what lies between launches counts."""
    return sum(run.timing["cycles"] for run in runs) - runs[0].timing["launch_cycles"]


def unsplit_cycles(heads: _ascend.Heads, target: NpuTarget) -> float:
    """All heads, one after the other, in the way that costs a core least."""
    one_core = _ascend.replaced(target, ai_cores=1)
    together = 2 - heads.value_heads % 2
    alone = dataclasses.replace(heads, key_heads=together, value_heads=together)
    return cycles(_ascend.count(alone, one_core)) * heads.value_heads / together


def executed_cycles(heads: _ascend.Heads, target: NpuTarget) -> float:
    """The sum over cores of the time that each takes alone. Cores with like items take as long."""
    plan = _ascend.plan_of(heads, target)
    made = _ascend.programs_of(plan)
    known: dict[tuple[Any, ...], float] = {}
    total = 0.0
    for launch in made.launches:
        for core in launch.cores:
            kinds = tuple((item.program, item.first_chunk, item.chunks) for item in core)
            if core and kinds not in known:
                known[kinds] = _alone(plan, made, core, heads, target)
            total += known.get(kinds, 0.0)
    return total


def _alone(plan: plans.Plan, made: plans.Programs, core: tuple[Item, ...], heads: _ascend.Heads, target: NpuTarget) -> float:
    one = dataclasses.replace(made, launches=(Launch((core,)),))
    code = plans.to_bytes(dataclasses.replace(plan, launch=one))
    runs = emulated.execute(code, _ascend.blank(heads), scale=1.0, target=target, options=_ascend.FAST)[2]
    return cycles(runs)


def measure(heads: _ascend.Heads, cores: int) -> dict[str, Any]:
    """One row."""
    target = target_for(cores)
    plan = _ascend.plan_of(heads, target)
    made = _ascend.programs_of(plan)
    runs = _ascend.count(heads, target)
    macs, vectors = (by_core(runs, name, cores) for name in ("macs", "V_instructions"))
    makespan = cycles(runs)
    unsplit, executed = unsplit_cycles(heads, target) / cores, executed_cycles(heads, target) / cores
    fills = heads.value_heads * heads.value_dim // COLUMNS >= cores
    over = makespan / unsplit
    return {
        "mechanism": heads.mechanism,
        "heads": heads.value_heads,
        "cores": cores,
        "T": heads.tokens,
        "mapping": next((note.choice for note in plan.notes if note.by == "heads_to_cores"), None),
        "programs": [f"{program.heads}x{program.columns}" for program in made.programs],
        "launches": len(runs),
        "core_macs": macs,
        "core_v_instructions": vectors,
        "imbalance_macs": round(max(macs) * cores / sum(macs), 4),
        "imbalance_v": round(max(vectors) * cores / sum(vectors), 4),
        "makespan_cycles": round(makespan),
        "unsplit_cycles": round(unsplit),
        "executed_cycles": round(executed),
        "over_unsplit": round(over, 4),
        "over_executed": round(makespan / executed, 4),
        "within": over <= BOUND if fills else None,
    }


def by_core(runs: tuple[emulated.SimRun, ...], name: str, cores: int) -> list[int]:
    """Sums over the launches; cores that a launch does not use did nothing."""
    sums = [0] * cores
    for run in runs:
        for core, counts in enumerate(run.core_counts):
            sums[core] += counts[name]
    return sums


def show(report: dict[str, Any]) -> None:
    print(f"{'':<5}{'heads':>6}{'cores':>6}{'T':>6}{'makespan':>10}{'/unsplit':>10}{'/executed':>10}{'MACs':>7}{'V':>7}  mapping")
    for row in report["rows"]:
        print(
            f"{row['mechanism']:<5}{row['heads']:>6}{row['cores']:>6}{row['T']:>6}{row['makespan_cycles']:>10}"
            f"{row['over_unsplit']:>10.3f}{row['over_executed']:>10.3f}{row['imbalance_macs']:>7.3f}{row['imbalance_v']:>7.3f}"
            f"  {', '.join(row['programs'])}{'  OVER' if row['within'] is False else ''}"
        )
    for absent in report["missing"]:
        print(f"missing: {absent['mechanism']}: {absent['reason']}")
    print(f"MACs, V: counted, the most of a core over the mean. Cycles: modelled. {_ascend.MODELLED}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object {machine, rows, missing}")
    parser.add_argument("--cases", default=",".join(CASES), help="value heads x cores, comma-separated")
    parser.add_argument("--lengths", default="512,4096")
    parser.add_argument("--mechanism", choices=(*_ascend.NAMES, "both"), default="both")
    given = parser.parse_args()
    cases = [
        tuple(_ascend.positive(parser, "cases", part) for part in f"{text}x".split("x")[:2]) for text in given.cases.split(",")
    ]
    lengths = [_ascend.positive(parser, "lengths", text) for text in given.lengths.split(",")]
    rows, missing = [], []
    for mechanism in _ascend.NAMES if given.mechanism == "both" else (given.mechanism,):
        if (reason := _ascend.lacking(mechanism, _ascend.chip("ascend310p1"))) is not None:
            missing.append({"mechanism": mechanism, "reason": reason})
            continue
        for tokens in lengths:
            for heads, cores in cases:
                _harness.progress(f"{mechanism} {heads} heads on {cores} cores, T={tokens}")
                rows.append(measure(_ascend.Heads(mechanism, tokens, heads, heads), cores))
    _harness.publish({"machine": _machine.facts(), "rows": rows, "missing": missing}, given.json, show)
    if any(row["within"] is False for row in rows):
        sys.exit("tails: a makespan is further from its bound than claimed")


if __name__ == "__main__":
    main()
