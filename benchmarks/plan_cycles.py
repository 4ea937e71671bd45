"""How far the planner's model of a whole plan's cycles, by which schedule="auto" chooses, is from the emulated chip.

    python benchmarks/plan_cycles.py [--json] [--lengths 64,512,2048,4096] [--heads 1,4,16,32] [--targets ascend310p1,ascend310p3]

A row: target, mechanism, T, heads, schedule, modelled_cycles (passes/plan_cycles.py, nothing is run), emulated_cycles, ratio (the
first over the second). Both are modelled, never measured. The exit code is 1 when two schedules whose emulated cycles differ by
more than 3 % rank the other way round.
"""

import argparse
import dataclasses
import itertools
import sys
from typing import Any

import _ascend
import _harness
import _machine

from hajax import schedules
from hajax.passes.plan_cycles import plan_cycles

APART = 0.03
COUNTS = dataclasses.replace(_ascend.FAST, counts_only=True)


def measure(name: str, mechanism: str, tokens: int, heads: int) -> list[dict[str, Any]]:
    """A row a schedule."""
    target, problem = _ascend.chip(name), _ascend.Heads(mechanism, tokens, heads, heads)
    rows = []
    for schedule in schedules.COMPARED:
        runs = _ascend.count(problem, target, schedule, COUNTS)
        emulated = sum(run.timing["cycles"] for run in runs)
        modelled = sum(plan_cycles(_ascend.plan_of(problem, target, schedule), target))
        rows.append(
            {
                "target": name,
                "mechanism": mechanism,
                "T": tokens,
                "heads": heads,
                "schedule": schedule,
                "modelled_cycles": round(modelled),
                "emulated_cycles": round(emulated),
                "ratio": modelled / emulated,
            }
        )
    return rows


def inversions(rows: list[dict[str, Any]]) -> list[str]:
    """Pairs of a problem that rank the other way round."""
    found = []
    for one, other in itertools.permutations(rows, 2):
        clearly = one["emulated_cycles"] < (1 - APART) * other["emulated_cycles"]
        if clearly and one["modelled_cycles"] >= other["modelled_cycles"]:
            where = f"{one['mechanism']} {one['target']} T={one['T']} heads={one['heads']}"
            found.append(f"{where}: {one['schedule']} is faster than {other['schedule']}, the model says it is not")
    return found


def show(report: dict[str, Any]) -> None:
    for row in report["rows"]:
        where = f"{row['mechanism']} {row['target']} T={row['T']:<6} heads={row['heads']:<3} {row['schedule']:<15}"
        print(f"{where}{row['modelled_cycles']:>12}{row['emulated_cycles']:>12}{row['ratio']:>8.3f}")
    for text in report["inversions"]:
        print(text)
    print(_ascend.MODELLED)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object {machine, rows, missing, inversions}")
    parser.add_argument("--lengths", default="64,512,2048,4096")
    parser.add_argument("--heads", default="1,4,16,32")
    parser.add_argument("--targets", default="ascend310p1,ascend310p3")
    given = parser.parse_args()
    lengths = [_ascend.positive(parser, "lengths", text) for text in given.lengths.split(",")]
    heads = [_ascend.positive(parser, "heads", text) for text in given.heads.split(",")]
    rows: list[dict[str, Any]] = []
    wrong: list[str] = []
    for name, mechanism, tokens, count in itertools.product(given.targets.split(","), _ascend.NAMES, lengths, heads):
        _harness.progress(f"{mechanism} on {name}, T={tokens}, {count} heads")
        some = measure(name, mechanism, tokens, count)
        rows += some
        wrong += inversions(some)
    _harness.publish({"machine": _machine.facts(), "rows": rows, "missing": [], "inversions": wrong}, given.json, show)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
