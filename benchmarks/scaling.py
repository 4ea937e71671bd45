"""How the CPU kernel's time grows with tokens, and shrinks with threads: with many heads, one head, and rows in a batch.

    python benchmarks/scaling.py [--json] [--quick] [--threads 1,2] [--mechanisms ...] [--runs N]

Calls of libhajax_cpu on the library's own threads, plans by the planner, D=128, fp32, zero initial state; runs take turns and the
least time of each counts. Questions, one row each place:

* tokens: T = 1024 .. 65536 with Hk=2, Hv=4 on one thread in its own CPU seconds; efficiency is the time a token at T=4096 over
  that at T (1 = linear)
* threads: T=4096 with Hk=8, Hv=16; efficiency is one thread's time over threads x time
* one_head: T=4096 with Hk=Hv=1, whose state columns are split
* batch: B=8, T=512, Hk=Hv=2

A machine whose CPUs others use, or whose clock falls when more cores work, shows less than the kernel's own efficiency:
`machine` says how many CPUs there are, and the row `load` what others used meanwhile.
"""

import argparse
import dataclasses
import os
import time
from collections.abc import Callable
from typing import Any

import _harness
import _machine

os.environ["HAJAX_CACHE"] = "0"

from hajax import _tune, backends, planner
from hajax.mechanisms import MECHANISMS
from hajax.plans import Shape

DIM = 128
BASE_TOKENS = 4096
TOKENS = (1024, 4096, 16384, 65536)
THREADED = {"threads": (1, 4096, 8, 16), "one_head": (1, 4096, 1, 1), "batch": (8, 512, 2, 2)}


def call_of(mechanism: str, sizes: tuple[int, int, int, int], threads: int, clock: Callable[[], float]) -> Callable[[], float]:
    """Seconds of one call with the planner's plan for so many threads."""
    batch, tokens, key_heads, value_heads = sizes
    shape = Shape(batch, tokens, 1, key_heads, value_heads, DIM, DIM, "float32", "float32")
    target = dataclasses.replace(backends.cpu_target(), threads=threads)
    problem = _tune.Problem(MECHANISMS[mechanism], shape, target, (target,))
    measure, plan = _tune.measurer(problem, clock=clock), planner.plan(problem.mechanism, shape, target)
    return lambda: measure(plan)


def rows_of(
    question: str, mechanism: str, places: list[tuple[tuple[int, int, int, int], int]], runs: int, clock: Callable[[], float]
) -> list[dict[str, Any]]:
    """Rows without efficiency; places are (sizes, threads)."""
    calls = [call_of(mechanism, sizes, threads, clock) for sizes, threads in places]
    least = [float("inf")] * len(calls)
    watch = _machine.Stopwatch()
    for _ in range(runs):
        least = [min(seconds, call()) for seconds, call in zip(least, calls, strict=True)]
    load = watch.stop().others
    return [
        {
            "question": question, "mechanism": mechanism, "B": b, "T": t, "Hk": hk, "Hv": hv, "D": DIM, "threads": threads,
            "ms": round(1e3 * seconds, 3), "ns_per_token_head": round(1e9 * seconds / (b * t * hv), 2), "load": round(load, 3),
        }
        for ((b, t, hk, hv), threads), seconds in zip(places, least, strict=True)
    ]  # fmt: skip


def measure(
    mechanism: str, tokens: tuple[int, ...], threads: list[int], threaded: dict[str, Any], runs: int
) -> list[dict[str, Any]]:
    rows = rows_of("tokens", mechanism, [((1, t, 2, 4), 1) for t in tokens], runs, time.thread_time)
    base = next(row for row in rows if row["T"] == (BASE_TOKENS if BASE_TOKENS in tokens else tokens[0]))
    for row in rows:
        row["efficiency"] = round(base["ns_per_token_head"] / row["ns_per_token_head"], 3)
    for question, sizes in threaded.items():
        more = rows_of(question, mechanism, [(sizes, count) for count in threads], runs, time.perf_counter)
        for row in more:
            row["efficiency"] = round(more[0]["ms"] * threads[0] / (row["threads"] * row["ms"]), 3)
        rows += more
    return rows


def show(report: dict[str, Any]) -> None:
    """A line a row."""
    for row in report["rows"]:
        place = f"{row['mechanism']} {row['question']}: B={row['B']} T={row['T']} Hv={row['Hv']}, {row['threads']} threads"
        figures = f"{row['ms']:.2f} ms, {row['ns_per_token_head']:.0f} ns a token and head, efficiency {row['efficiency']:.2f}"
        print(f"{place:<62}{figures}; others used {row['load']:.0%}")


def _threads(text: str) -> list[int]:
    words = text.split(",")
    if not all(word.isdecimal() and 1 <= int(word) <= _machine.usable_cpus() for word in words):
        raise argparse.ArgumentTypeError(f"expected numbers from 1 to {_machine.usable_cpus()}, the CPUs at hand, got {text!r}")
    return sorted({int(word) for word in words})


def main() -> None:
    cpus = _machine.usable_cpus()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object {machine, rows, missing}")
    parser.add_argument("--quick", action="store_true", help="short sequences, one thread, two runs")
    parser.add_argument("--threads", type=_threads, default=sorted({1, *(n for n in (2, 4, 8, 16, 32) if n < cpus), cpus}))
    parser.add_argument("--mechanisms", type=lambda text: text.split(","), default=["gated_delta_rule", "kda"])
    parser.add_argument("--runs", type=int, default=7)
    given = parser.parse_args()
    tokens, threaded = TOKENS, THREADED
    if given.quick:
        tokens, threaded, given.threads, given.runs = (128, 256), {"one_head": (1, 128, 1, 1)}, [1], 2
    rows = [row for name in given.mechanisms for row in measure(name, tokens, given.threads, threaded, given.runs)]
    _harness.publish({"machine": _machine.facts(), "rows": rows, "missing": []}, given.json, show)


if __name__ == "__main__":
    main()
