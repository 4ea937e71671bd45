"""How long planning takes for an emulated Ascend chip: a plan made anew, and one that lies in the cache on disk.

    python benchmarks/planning_time.py [--json] [--lengths 512,4096,65536] [--heads 16x16,16x32] [--mechanism gdn|kda|both]
        [--schedules hajax,hanpu] [--runs 5]

CPU time of this process, so that what others do on the machine hardly enters; medians. Cold: nothing that an earlier plan left
in memory or on disk is used; imports, the lists of hajax/abi and the chip's facts are read before. Hit: the plan is on disk and
not in memory.

A row: mechanism, schedule, T, Hk, Hv, programs, runs, cold_ms, hit_ms, within (cold below 200 ms, a hit below 1 ms).
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from typing import Any

import _ascend
import _harness
import _machine

from hajax import cache, planner
from hajax.mechanisms import MECHANISMS
from hajax.plans import Plan
from hajax.targets import NpuTarget

LENGTHS = (512, 4096, 65536)
HEADS = ("16x16", "16x32")  # Qwen3.5-0.8B and -2B; -4B and -9B
SCHEDULES = ("hajax", "hanpu")
COLD_MS, HIT_MS = 200.0, 1.0
_MAKERS = (
    "hajax.planner",
    "hajax.schedules",
    "hajax.lowering",
    "hajax.passes",
    "hajax.plans.block_masks",
    "hajax.plans.footprint",
    "hajax.plans.verify_",
    "hajax.graph",
)


def forget() -> None:
    """Empties what planning keeps in memory between two plans."""
    for name, module in list(sys.modules.items()):
        for value in vars(module).values() if name.startswith(_MAKERS) else ():
            if hasattr(value, "cache_clear"):
                value.cache_clear()


def timed(heads: _ascend.Heads, target: NpuTarget, schedule: str) -> tuple[float, Plan]:
    """Milliseconds of one call of the planner, and its plan."""
    mechanism, shape = MECHANISMS[_ascend.NAMES[heads.mechanism]], _ascend.shape_of(heads)
    start = time.process_time()
    plan = planner.plan(mechanism, shape, target, schedule)
    return 1e3 * (time.process_time() - start), plan


def measure(heads: _ascend.Heads, target: NpuTarget, schedule: str, runs: int) -> dict[str, Any]:
    """One row. The first cold run warms up."""
    cold, hit = [], []
    for turn in range(runs + 1):
        cache.clear()
        forget()
        made, plan = timed(heads, target, schedule)
        planner.plan.cache_clear()
        found, again = timed(heads, target, schedule)
        assert again == plan, "the cache gave another plan"
        if turn:
            cold.append(made)
            hit.append(found)
    cold_ms, hit_ms = statistics.median(cold), statistics.median(hit)
    return {
        "mechanism": heads.mechanism,
        "schedule": schedule,
        "T": heads.tokens,
        "Hk": heads.key_heads,
        "Hv": heads.value_heads,
        "programs": len(_ascend.programs_of(plan).programs),
        "runs": runs,
        "cold_ms": round(cold_ms, 1),
        "hit_ms": round(hit_ms, 3),
        "within": cold_ms < COLD_MS and hit_ms < HIT_MS,
    }


def show(report: dict[str, Any]) -> None:
    print(f"{'':<5}{'schedule':<10}{'T':>6}{'Hk':>4}{'Hv':>4}{'programs':>9}{'cold ms':>9}{'hit ms':>8}")
    for row in report["rows"]:
        print(
            f"{row['mechanism']:<5}{row['schedule']:<10}{row['T']:>6}{row['Hk']:>4}{row['Hv']:>4}{row['programs']:>9}"
            f"{row['cold_ms']:>9.1f}{row['hit_ms']:>8.3f}{'' if row['within'] else '  OVER'}"
        )
    for absent in report["missing"]:
        print(f"missing: {absent['mechanism']} with {absent['schedule']}: {absent['reason']}")
    facts = report["machine"]
    print(f"CPU time, measured on {facts['cpu']}, {facts['date']}, commit {facts['commit']}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object {machine, rows, missing}")
    parser.add_argument("--lengths", default=",".join(map(str, LENGTHS)))
    parser.add_argument("--heads", default=",".join(HEADS), help="key heads x value heads, comma-separated")
    parser.add_argument("--mechanism", choices=(*_ascend.NAMES, "both"), default="both")
    parser.add_argument("--schedules", default=",".join(SCHEDULES))
    parser.add_argument("--runs", default="5")
    parser.add_argument("--target", default="ascend310p1")
    given = parser.parse_args()
    target, runs = _ascend.chip(given.target), _ascend.positive(parser, "runs", given.runs)
    lengths = [_ascend.positive(parser, "lengths", text) for text in given.lengths.split(",")]
    heads = [_ascend.head_counts(parser, "heads", text) for text in given.heads.split(",")]
    rows, missing = [], []
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"HAJAX_CACHE": "1", "HAJAX_CACHE_DIR": folder}
        for mechanism in _ascend.NAMES if given.mechanism == "both" else (given.mechanism,):
            for schedule in given.schedules.split(","):
                if (reason := _ascend.lacking(mechanism, target, schedule)) is not None:
                    missing.append({"mechanism": mechanism, "schedule": schedule, "reason": reason})
                    continue
                for key_heads, value_heads in heads:
                    for tokens in lengths:
                        _harness.progress(f"{mechanism} {schedule} T={tokens} {key_heads}x{value_heads}")
                        problem = _ascend.Heads(mechanism, tokens, key_heads, value_heads)
                        rows.append(measure(problem, target, schedule, runs))
    _harness.publish({"machine": _machine.facts(), "rows": rows, "missing": missing}, given.json, show)


if __name__ == "__main__":
    main()
