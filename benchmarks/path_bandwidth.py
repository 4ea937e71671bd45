"""Bandwidths that the cycle model gives for three copy loops on one core, beside the figures profiled on a 310P.

    python benchmarks/path_bandwidth.py [--json] [--target ascend310p1] [--rounds 8]

Each loop (kernels/copy_loops.cpp) copies a tile of 192 KiB that L2 holds, five times a round. Modelled: what a second half of the
rounds adds to the time, so neither the launch nor the first, cold copy counts. Profiled, by others: one core, sustained.

A row: path, target, modelled_gb_per_s, profiled_gb_per_s, ratio (modelled over profiled), bytes (counted, on the last leg).
"""

import argparse
from pathlib import Path
from typing import Any

import _harness
import _machine
import numpy as np

from hajax.backends import sim

KERNEL = Path(__file__).parent / "kernels" / "copy_loops.cpp"
TILE_BYTES = 192 * 1024
# Profiled on an Ascend 310P by the system that this project follows, one core: published figures, not measured here.
PROFILED_GB_PER_S = {"ub_to_l1": 205.0, "gm_to_l1": 95.0, "ub_to_gm_to_l1": 48.0}
LAST_LEG = {"ub_to_l1": "ub_to_l1", "gm_to_l1": "gm_to_l1", "ub_to_gm_to_l1": "gm_to_l1"}


def bandwidth(library: Path, path: str, target: str, rounds: int) -> dict[str, Any]:
    """One row."""
    tile = np.arange(TILE_BYTES // 2, dtype=np.uint16).view(np.float16)
    once, twice = (sim.run(library, path, (tile, count), target=target) for count in (rounds, 2 * rounds))
    moved = twice.counts[LAST_LEG[path]] - once.counts[LAST_LEG[path]]
    microseconds = twice.timing["microseconds"] - once.timing["microseconds"]
    modelled = moved / microseconds / 1e3
    return {
        "path": path,
        "target": target,
        "modelled_gb_per_s": round(modelled, 2),
        "profiled_gb_per_s": PROFILED_GB_PER_S[path],
        "ratio": round(modelled / PROFILED_GB_PER_S[path], 3),
        "bytes": moved,
    }


def show(report: dict[str, Any]) -> None:
    print(f"{'path':<16}{'modelled GB/s':>16}{'profiled GB/s':>16}{'ratio':>8}")
    for row in report["rows"]:
        print(f"{row['path']:<16}{row['modelled_gb_per_s']:>16.1f}{row['profiled_gb_per_s']:>16.1f}{row['ratio']:>8.2f}")
    print("modelled: copy loops on one core; profiled: on a 310P, by others. Nothing here was measured on a device.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object {machine, rows, missing}")
    parser.add_argument(
        "--target", default="ascend310p1", choices=("ascend310p1", "ascend310p3"), help="the profiled chips are 310Ps"
    )
    parser.add_argument("--rounds", type=int, default=8, help="of five copies each; twice as many are run too")
    given = parser.parse_args()
    if given.rounds < 1:
        parser.error(f"--rounds: expected at least 1, got {given.rounds}")
    library = sim.compile_kernel(KERNEL, given.target)
    rows = [bandwidth(library, path, given.target, given.rounds) for path in PROFILED_GB_PER_S]
    _harness.publish({"machine": _machine.facts(), "rows": rows, "missing": []}, given.json, show)


if __name__ == "__main__":
    main()
