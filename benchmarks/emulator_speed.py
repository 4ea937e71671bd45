"""How fast the emulator is: MACs a second on one host thread, with all checks and in fast mode.

    python benchmarks/emulator_speed.py [--json] [--size 1024] [--runs 5] [--target ascend310p1]

The worked matmul (examples/ascend/matmul.cpp) of size x size x size on one emulated core. Modes: checked (the default: races,
never-written bytes, bounds, flags), fast (races and never-written bytes off), counts (no arithmetic). Measured: wall clock of
run(), copies to and from the device's memory and the clock's replay included. Modes are interleaved; medians.

A row: mode, gmac, runs, seconds_median, seconds_min, gmac_per_s, counts_equal (all counts as in checked mode).
"""

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

import _harness
import _machine
import numpy as np

from hajax.backends import sim

KERNEL = Path(__file__).parents[1] / "examples" / "ascend" / "matmul.cpp"
MODES = {
    "checked": sim.SimOptions(),
    "fast": sim.SimOptions(check_races=False, check_written=False),
    "counts": sim.SimOptions(check_races=False, check_written=False, counts_only=True),
}


def measure(size: int, runs: int, target: str) -> list[dict[str, Any]]:
    random = np.random.default_rng(1)
    a, b = (random.standard_normal((size, size)).astype(np.float16) for _ in range(2))
    library = sim.compile_kernel(KERNEL, target)
    seconds: dict[str, list[float]] = {mode: [] for mode in MODES}
    counts: dict[str, Any] = {}
    for turn in range(runs + 1):  # the first warms up
        for mode, options in MODES.items():
            arguments = [a, b, np.zeros((size, size), np.float32), size, size, size]
            start = time.perf_counter()
            done = sim.run(library, "matmul", arguments, target=target, blocks=1, options=options)
            if turn:
                seconds[mode].append(time.perf_counter() - start)
            counts[mode] = done.counts
    macs = size**3
    return [
        {
            "mode": mode,
            "gmac": round(macs / 1e9, 3),
            "runs": runs,
            "seconds_median": round(statistics.median(times), 4),
            "seconds_min": round(min(times), 4),
            "gmac_per_s": round(macs / statistics.median(times) / 1e9, 4),
            "counts_equal": counts[mode] == counts["checked"],
        }
        for mode, times in seconds.items()
    ]


def show(report: dict[str, Any]) -> None:
    print(f"{'mode':<10}{'GMAC':>8}{'s median':>10}{'s least':>10}{'GMAC/s':>9}  counts as checked")
    for row in report["rows"]:
        print(
            f"{row['mode']:<10}{row['gmac']:>8}{row['seconds_median']:>10}{row['seconds_min']:>10}{row['gmac_per_s']:>9}"
            f"  {'yes' if row['counts_equal'] else 'NO'}"
        )
    facts = report["machine"]
    print(f"measured on {facts['cpu']}, one host thread, {facts['date']}, commit {facts['commit']}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--target", default="ascend310p1")
    options = parser.parse_args()
    if options.size < 16 or options.size % 16:
        parser.error(f"--size: expected a positive multiple of 16, got {options.size}")
    if options.runs < 1:
        parser.error(f"--runs: expected at least 1, got {options.runs}")
    rows = measure(options.size, options.runs, options.target)
    _harness.publish({"machine": _machine.facts(), "rows": rows, "missing": []}, options.json, show)


if __name__ == "__main__":
    main()
