"""How far the CPU planner's choices are from the best that can be measured, and what its cost model's constants ought to be.

    python benchmarks/planner_choices.py [--json] [--quick] [--fit] [--threads 1,2] [--tokens N,...] [--mechanisms a,b]

A place is a mechanism, T, Hv/Hk, dtype and number of threads; its choices are all that `hajax tune` would try with this kernel
(HAJAX_CPU_ISA names another): chunk length, value heads a task, column blocks, threads that take part, token by token. All of a
place are run in turns, the least time of each counts, and those far behind after the first turn are left out of later ones. One
thread is timed in its own CPU seconds, which what other processes do hardly enters; several are timed by the wall clock.

A row is a choice: microseconds, over_best (1 = the best), chosen (by the planner). `summary` says in how many places the
planner's choice is within 10 % of the best. --fit also prints the constants of hajax/cost.py that fit the single-threaded
chunked rows best.
"""

import argparse
import dataclasses
import os
import time
from collections.abc import Iterator
from typing import Any

import _harness
import _machine
import numpy as np

os.environ["HAJAX_CACHE"] = "0"

from hajax import _tune, backends, cost, planner, tuned
from hajax.mechanisms import MECHANISMS
from hajax.plans import Shape

KEY_HEADS, DIM = 8, 128
TOKENS = (1, 4, 16, 64, 256, 1024, 4096)
FAR = 1.3  # times the best of a first turn: not measured again
WITHIN = 1.10


def places(given: argparse.Namespace) -> Iterator[_tune.Problem]:
    """Shortest first; `quick` is one."""
    everything = backends.cpu_target()
    for threads in given.threads:
        target = dataclasses.replace(everything, threads=threads)
        for tokens in given.tokens:
            for name in given.mechanisms:
                for shared in (1,) if given.quick else (1, 2):
                    for dtype in given.dtypes:
                        shape = Shape(1, tokens, 1, KEY_HEADS, KEY_HEADS * shared, DIM, DIM, dtype, dtype)
                        yield _tune.Problem(MECHANISMS[name], shape, target, (target,))


def measure(problem: _tune.Problem, turns: int) -> list[dict[str, Any]]:
    """One row a choice."""
    alone = problem.target.threads == 1
    timed = _tune.measurer(problem, clock=time.thread_time if alone else time.perf_counter)
    plans = {choice: _tune.plan_of(problem, choice) for choice in _tune.candidates(problem)}
    own = _tune.planned(problem)
    least = {choice: timed(plan) for choice, plan in plans.items()}
    bound = FAR * min(least.values())
    for _ in range(turns):
        for choice, plan in plans.items():
            if least[choice] <= bound or choice == own:
                least[choice] = min(least[choice], timed(plan))
    best = min(least.values())
    shape = problem.shape
    place = {
        "mechanism": problem.mechanism.name, "T": shape.tokens, "Hk": shape.key_heads, "Hv": shape.value_heads,
        "D": shape.key_dim, "dtype": shape.input_dtype, "threads": problem.target.threads,
    }  # fmt: skip
    return [
        {
            **place,
            **dataclasses.asdict(choice),
            "microseconds": round(1e6 * seconds, 2),
            "over_best": round(seconds / best, 3),
            "chosen": choice == own,
        }
        for choice, seconds in least.items()
    ]


def fit(rows: list[dict[str, Any]], isa: str) -> dict[str, float]:
    """The cost model's constants, least squares of relative errors, none below 0; `unit_ps` is a multiply-accumulate's time.

    With matrix tiles, of the choices that use them. The model is linear in its constants, so each one's share of a row is the
    model with that one alone at 1.
    """
    names = [field.name for field in dataclasses.fields(cost.KernelCosts) if field.name not in ("row_tile", "parallel_units")]
    names.remove("token_state")
    on_tiles = backends.cpu_target().matrix_tiles and any(row["bf16_dot"] for row in rows)
    kernel = cost.KERNELS["matrix" if on_tiles else cost.DEFAULT]
    none = dataclasses.replace(kernel, **dict.fromkeys((*names, "token_state"), 0.0))
    kept = [row for row in rows if row["threads"] == 1 and row["token_steps"] == 0 and row["T"] >= 64]
    kept = [row for row in kept if row["bf16_dot"] or not on_tiles]
    table, times = [], []
    for row in kept:
        target = dataclasses.replace(backends.cpu_target(), threads=1)
        shape = Shape(1, row["T"], 1, row["Hk"], row["Hv"], row["D"], row["D"], row["dtype"], row["dtype"])

        def units(costs: cost.KernelCosts, row: dict[str, Any] = row, shape: Shape = shape, target: Any = target) -> float:
            mechanism, group = MECHANISMS[row["mechanism"]], row["group"]
            task = cost.cpu_chunked_cost(mechanism, shape, target, row["chunk"], row["T"], group=group, costs=costs)
            return task * row["Hv"] / group

        base = units(none)
        table.append([base, *(units(dataclasses.replace(none, **{name: 1.0})) - base for name in names)])
        times.append(1e6 * row["microseconds"])  # picoseconds
    left = np.array(table) / np.array(times)[:, None]
    used = list(range(left.shape[1]))
    while True:  # drops what would be negative, one at a time; where that is the unit, what takes most from it
        found, *_ = np.linalg.lstsq(left[:, used], np.ones(len(left)), rcond=None)
        others = found[1:]
        if found[0] > 0 and (others >= 0).all():
            break
        shares = left[:, used[1:]].mean(0) * others
        used.pop(1 + int(others.argmin() if (others < 0).any() else shares.argmax()))
    constants = dict(zip(used, found, strict=True))
    errors = np.abs(left[:, used] @ found - 1)
    unit = constants[0]
    rounded = {name: round(float(constants.get(i + 1, 0.0) / unit), 1) for i, name in enumerate(names)}
    return {"isa": isa, "unit_ps": round(float(unit), 2), **rounded, "median_error": round(float(np.median(errors)), 3)}


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    picks = [row["over_best"] for row in rows if row["chosen"]]
    return {"places": len(picks), "within_10_percent": sum(over <= WITHIN for over in picks), "worst": max(picks)}


def show(report: dict[str, Any]) -> None:
    """One line a place: the planner's choice, the best one, and their ratio."""
    by_place: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in report["rows"]:
        by_place.setdefault(tuple(row[n] for n in ("mechanism", "T", "Hv", "dtype", "threads")), []).append(row)
    for place, rows in by_place.items():
        pick, best = next(row for row in rows if row["chosen"]), min(rows, key=lambda row: row["over_best"])
        named = [
            planner.describe_choice(tuned.Choice(**{f.name: row[f.name] for f in dataclasses.fields(tuned.Choice)}))
            for row in (pick, best)
        ]
        told = "" if pick is best else f"; best {best['microseconds']:.0f} us: {named[1]}"
        print(
            "{} T={} Hv={} {} {} threads".format(*place),
            f"{pick['over_best']:.2f}x: {pick['microseconds']:.0f} us: {named[0]}{told}",
        )
    found = report["summary"]
    print(
        f"the planner is within 10 % of the best measured in {found['within_10_percent']} of {found['places']} places; "
        f"worst {found['worst']:.2f}x"
    )
    if "fit" in report:
        print("fit:", ", ".join(f"{name} {value}" for name, value in report["fit"].items()))


def _words(text: str) -> list[str]:
    return text.split(",")


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object {machine, rows, summary, missing}")
    parser.add_argument("--quick", action="store_true", help="one place, T=64")
    parser.add_argument("--threads", type=_numbers, default=sorted({1, _machine.usable_cpus()}))
    parser.add_argument("--tokens", type=_numbers, default=list(TOKENS))
    parser.add_argument("--mechanisms", type=_words, default=["gated_delta_rule", "kda"])
    parser.add_argument("--dtypes", type=_words, default=["float32", "bfloat16"])
    parser.add_argument("--turns", type=int, default=4, help="after the first")
    parser.add_argument("--fit", action="store_true", help="constants for hajax/cost.py")
    given = parser.parse_args()
    if given.quick:
        given.threads, given.tokens, given.mechanisms, given.dtypes = [1], [64], ["gated_delta_rule"], ["float32"]
    rows = []
    for problem in places(given):
        rows += measure(problem, given.turns)
    report = {"machine": _machine.facts(), "rows": rows, "summary": summary(rows), "missing": []}
    if given.fit:
        report["fit"] = fit(rows, backends.cpu_target().isa)
    _harness.publish(report, given.json, show)


if __name__ == "__main__":
    main()
