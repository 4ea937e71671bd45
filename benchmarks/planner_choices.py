"""How far the CPU planner's choices are from the best that can be measured, and what its cost model's constants ought to be.

    python benchmarks/planner_choices.py [--json] [--quick] [--repeats N] [--only chunk,tokens,group]

Plans are the planner's own with one choice replaced, run by `hajax.backends.execute` on one thread and timed in that thread's
CPU seconds, the least of several runs in turn: what other processes do hardly enters. Three questions, one row a plan:

* chunk: 16, 32, 64, 128 tokens, at several T, Dk = Dv and Hv/Hk, for long and for padded rows
* tokens: token by token against one chunk, at T = 1 .. 32
* group: all value heads of a key head in one task, or one

A row: question, Hv_per_Hk, D, T, dtype, choice, microseconds (a key head's), chosen (by the planner), over_best (1 = the best).
"""

import argparse
import dataclasses
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import _harness
import _machine
import numpy as np

os.environ["HAJAX_CACHE"] = "0"

import hajax
from hajax import backends, conformance, plans
from hajax.plans.verify import CHUNKS

HEADS = {"chunk": 2, "tokens": 16, "group": 2}  # key heads of a problem, one after another; many where a call takes microseconds


def candidates(question: str, plan: plans.Plan) -> Iterator[tuple[str, plans.Plan]]:
    """The planner's plan with one choice replaced by each that it had."""
    shape = plan.shape
    assert shape.tokens is not None
    if question == "chunk":
        for chunk in CHUNKS:
            yield str(chunk), _with(plan, chunk=chunk, token_steps=0)
    elif question == "tokens":
        yield "tokens", _with(plan, token_steps=shape.tokens)
        yield "chunk", _with(plan, token_steps=0)
    else:
        for group in {1, shape.value_heads // shape.key_heads}:
            yield str(group), _with(plan, group=group, token_steps=0)


def chosen(question: str, plan: plans.Plan) -> str:
    assert plan.shape.tokens is not None
    tokens = {True: "tokens", False: "chunk"}[plan.shape.tokens <= plan.launch.token_steps]
    return {"chunk": str(plan.launch.chunk), "tokens": tokens, "group": str(plan.launch.group)}[question]


def _with(plan: plans.Plan, **choices: Any) -> plans.Plan:
    """A plan for one thread with other choices, its scratch as the library wants it for them."""
    launch = dataclasses.replace(plan.launch, workers=1, column_blocks=1, **choices)
    code = plans.to_bytes(dataclasses.replace(plan, launch=launch))
    needed = int(backends.open_library().lib.hajax_cpu_scratch_bytes(code, len(code)))
    return plans.verify(dataclasses.replace(plan, launch=dataclasses.replace(launch, scratch_bytes=needed)))


def runner(plan: plans.Plan, arrays: dict[str, np.ndarray]) -> Callable[[], float]:
    """A call that runs the plan once and returns the thread's CPU seconds."""
    code = plans.to_bytes(plan)

    def run() -> float:
        start = time.thread_time()
        backends.execute(
            code, arrays, scale=1.0, l2norm_eps=1e-6, output_dtype=arrays["value"].dtype, scratch_bytes=plan.launch.scratch_bytes
        )
        return time.thread_time() - start

    return run


def problem(heads: int, tokens: int, shared: int, dim: int, dtype: str) -> dict[str, np.ndarray]:
    case = conformance.Case(
        tokens, key_heads=heads, value_heads=heads * shared, key_dim=dim, value_dim=dim, dtype=dtype, l2norm=True, state=True
    )
    arrays = conformance.inputs(case)
    arrays["state_in"] = arrays.pop("initial_state")[:, None]
    arrays["bounds"] = np.array([[0, tokens]], np.int32)
    return arrays


def measure(question: str, tokens: int, shared: int, dim: int, dtype: str, repeats: int) -> list[dict[str, Any]]:
    """One row a candidate."""
    heads = HEADS[question]
    plan = hajax.plan(tokens=tokens, key_heads=heads, value_heads=heads * shared, key_dim=dim, value_dim=dim, dtype=dtype)
    arrays = problem(heads, tokens, shared, dim, dtype)
    runs = {name: runner(made, arrays) for name, made in candidates(question, plan)}
    once = max(min(run() for _ in range(2)) for run in runs.values())
    rounds = max(3, min(200, int(repeats * 0.02 / max(once, 1e-6))))
    best = {name: min(run() for _ in range(2)) for name, run in runs.items()}
    for _ in range(rounds):
        for name, run in runs.items():
            best[name] = min(best[name], run())
    least = min(best.values())
    pick = chosen(question, plan)
    place = {"question": question, "Hv_per_Hk": shared, "D": dim, "T": tokens, "dtype": dtype}
    return [
        {
            **place,
            "choice": name,
            "microseconds": round(1e6 * t / heads, 2),
            "chosen": name == pick,
            "over_best": round(t / least, 3),
        }
        for name, t in best.items()
    ]


def places(question: str, quick: bool) -> Iterator[tuple[int, int, int, str]]:
    """(T, Hv/Hk, D, dtype)"""
    tokens = {
        "chunk": (256,) if quick else (17, 48, 64, 100, 150, 512, 2048),
        "tokens": (4,) if quick else (1, 2, 3, 4, 6, 8, 12, 16, 24, 32),
        "group": (256,) if quick else (64, 512, 2048),
    }[question]
    shares = (2,) if question == "group" and quick else (1,) if quick else (2, 3) if question == "group" else (1, 2, 3)
    for dim in (64,) if quick else (64, 128, 256):
        for shared in shares:
            for count in tokens:
                for dtype in ("float32",) if quick or dim != 128 else ("float32", "bfloat16"):
                    yield count, shared, dim, dtype


def show(report: dict[str, Any]) -> None:
    """One line a place: microseconds of each choice, and what the planner's pick costs over the best."""
    lines: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in report["rows"]:
        lines.setdefault(tuple(row[name] for name in ("question", "D", "Hv_per_Hk", "T", "dtype")), []).append(row)
    for place, rows in lines.items():
        pick = next((row for row in rows if row["chosen"]), None)
        cells = "  ".join(f"{row['choice']}: {row['microseconds']:.1f}" for row in rows)
        verdict = f"{pick['choice']} {pick['over_best']:.2f}x" if pick else "none of these"
        print("{} D={} Hv/Hk={} T={} {}".format(*place).ljust(44), cells, " | planner:", verdict)
    picks = [row["over_best"] for row in report["rows"] if row["chosen"]]
    within = sum(over <= 1.05 for over in picks)
    print(f"the planner is within 5 % of the best measured in {within} of {len(picks)} places; worst {max(picks):.2f}x")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object {machine, rows, missing}")
    parser.add_argument("--quick", action="store_true", help="one place a question")
    parser.add_argument("--repeats", type=int, default=10, help="about 20 ms of each plan for each")
    parser.add_argument("--only", default="chunk,tokens,group", help="questions, comma-separated")
    given = parser.parse_args()
    rows = []
    for question in given.only.split(","):
        for place in places(question, given.quick):
            rows += measure(question, *place, repeats=given.repeats)
    report = {"machine": _machine.facts(), "rows": rows, "missing": []}
    _harness.publish(report, given.json, show)


if __name__ == "__main__":
    main()
