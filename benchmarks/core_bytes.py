"""Bytes to and from global memory of the fused kernel, counted, over the least that a head and chunk needs.

    python benchmarks/core_bytes.py [--json] [--lengths 512,1024,...] [--mechanism gdn|kda|both] [--heads 16x16,16x32]

For the cores of the Qwen3.5 models (key heads x value heads of 128 channels) at each length, on an emulated Ascend chip. Least:
q, k, v and gates in and o out for each value head and token, the state at the ends of a sequence. What the kernel moves beside
that is its plan and constants, once a core, and the keys again where a head's columns lie on several cores; where two value
heads of one key head run side by side their keys and queries are read once, so a ratio may be below 1.

A row: mechanism, T, Hk, Hv, launches, gm_bytes, least_bytes, ratio (over least_bytes), item_bytes (the least when each item
reads its head's keys and gates for itself), item_ratio, plan_bytes (of the rest: plan and constants), within (ratio <= 1.02).
The program fails when a ratio is above 1.02 or a plan has more than one launch.
"""

import argparse
import sys
from typing import Any

import _ascend
import _harness
import _machine

from hajax.targets import NpuTarget

LENGTHS = (512, 1024, 2048, 4096, 8192, 16384, 32768, 65536)
HEADS = ("16x16", "16x32")  # Qwen3.5-0.8B and -2B; -4B and -9B
BOUND = 1.02


def measure(heads: _ascend.Heads, target: NpuTarget) -> dict[str, Any]:
    """One row."""
    runs = _ascend.count(heads, target)
    counted = sum(_ascend.gm_bytes(run.counts) for run in runs)
    least, by_items = _ascend.least_bytes(heads), _ascend.item_bytes(heads, target)
    return {
        "mechanism": heads.mechanism,
        "T": heads.tokens,
        "Hk": heads.key_heads,
        "Hv": heads.value_heads,
        "launches": len(runs),
        "gm_bytes": counted,
        "least_bytes": least,
        "ratio": round(counted / least, 5),
        "item_bytes": by_items,
        "item_ratio": round(counted / by_items, 5),
        "plan_bytes": counted - by_items,
        "within": counted <= BOUND * least,
    }


def show(report: dict[str, Any]) -> None:
    print(f"{'':<5}{'T':>6}{'Hk':>4}{'Hv':>4}{'launches':>9}{'GM bytes':>14}{'of least':>10}{'of items':>10}{'plan':>10}")
    for row in report["rows"]:
        print(
            f"{row['mechanism']:<5}{row['T']:>6}{row['Hk']:>4}{row['Hv']:>4}{row['launches']:>9}{row['gm_bytes']:>14}"
            f"{row['ratio']:>10.4f}{row['item_ratio']:>10.4f}{row['plan_bytes']:>10}{'' if row['within'] else '  OVER'}"
        )
    for absent in report["missing"]:
        print(f"missing: {absent['mechanism']}: {absent['reason']}")
    print("counted on an emulated chip")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object {machine, rows, missing}")
    parser.add_argument("--lengths", default=",".join(map(str, LENGTHS)))
    parser.add_argument("--heads", default=",".join(HEADS), help="key heads x value heads, comma-separated")
    parser.add_argument("--mechanism", choices=(*_ascend.NAMES, "both"), default="both")
    parser.add_argument("--target", default="ascend310p1")
    given = parser.parse_args()
    target = _ascend.chip(given.target)
    lengths = [_ascend.positive(parser, "lengths", text) for text in given.lengths.split(",")]
    heads = [_ascend.head_counts(parser, "heads", text) for text in given.heads.split(",")]
    rows, missing = [], []
    for mechanism in _ascend.NAMES if given.mechanism == "both" else (given.mechanism,):
        if (reason := _ascend.lacking(mechanism, target)) is not None:
            missing.append({"mechanism": mechanism, "reason": reason})
            continue
        for tokens in lengths:
            for key_heads, value_heads in heads:
                _harness.progress(f"{mechanism} T={tokens} {key_heads}x{value_heads}")
                rows.append(measure(_ascend.Heads(mechanism, tokens, key_heads, value_heads), target))
    _harness.publish({"machine": _machine.facts(), "rows": rows, "missing": missing}, given.json, show)
    if any(not row["within"] or row["launches"] != 1 for row in rows):
        sys.exit("core_bytes: more bytes or launches than claimed")


if __name__ == "__main__":
    main()
