"""How much of the cube's peak the fused kernel uses, which pipe bounds it, and how far the figure hangs on assumed costs.

    python benchmarks/utilisation.py [--json] [--length 4096] [--heads 16x16] [--mechanism gdn|kda|both] [--specialised]
                                     [--no-sensitivity]

Useful MACs are those of the unsplit products: K K^T, Q K^T, A W and P x (C C D each), K S, Q S and K^T x (C D D each), for each
value head and chunk, whatever a kernel executes for them; for heads of 128 channels and chunks of 64 that is 5 C D D. The rest
of what the cube executes is low parts of split operands, diagonal scalings, sums of gates and merges of the inverse. Peak: a
16 x 16 x 16 product a cycle and core. A pipe's bound is the utilisation if nothing but that pipe's busy cycles took time; the
critical one has the least. --specialised: the kernel made of a plan's programs too, planned for a chip without loads of steps.

A row: mechanism, T, Hk, Hv, kernel (walked or specialised), change (of which assumed constant of the chip, or none), cycles,
useful_macs, macs (executed), utilisation, executed_utilisation, cores, and of the busiest core critical (pipe), busy_cycles,
waiting_cycles and bounds by pipe, v_instructions and scalar_cycles a chunk and head.
The program fails when the unchanged utilisation is below 20 % (gdn) or 6 % (kda).
"""

import argparse
import sys
from typing import Any

import _ascend
import _harness
import _machine

from hajax.backends import npu as emulated
from hajax.targets import NpuTarget, npu

CHUNK = 64
TILE = 16**3  # MACs of a cycle and core
LEAST = {"gdn": 0.20, "kda": 0.06}
# Constants that nobody measured on the chip, or that decide most: by what they are multiplied.
CHANGES: dict[str, dict[str, float]] = {
    "none": {},
    "scalar loads free": {"scalar_load_cycles": 0.0},
    "scalar loads twice": {"scalar_load_cycles": 2.0},
    "issue half": {"issue_cycles": 0.5},
    "issue twice": {"issue_cycles": 2.0},
    "arguments free": {"argument_cycles": 0.0},
    "arguments twice": {"argument_cycles": 2.0},
    "flags twice": {"flag_cycles": 2.0},
    "GM half": dict.fromkeys(("gm_ddr_read_rate", "gm_ddr_write_rate", "gm_l2_read_rate", "gm_l2_write_rate"), 0.5),
    "GM twice": dict.fromkeys(("gm_ddr_read_rate", "gm_ddr_write_rate", "gm_l2_read_rate", "gm_l2_write_rate"), 2.0),
    "L0C to UB half": {"l0c_to_ub_rate": 0.5, "ub_to_l0c_rate": 0.5},
}


def useful_macs(heads: _ascend.Heads) -> int:
    """Of the unsplit products, padding of a last chunk included."""
    chunks = -(-heads.tokens // CHUNK) * heads.sequences * heads.batch * heads.value_heads
    inside = 2 * CHUNK * CHUNK * (heads.key_dim + heads.value_dim)  # K K^T, Q K^T; A W, P x
    return chunks * (inside + 3 * CHUNK * heads.key_dim * heads.value_dim)


def changed(target: NpuTarget, change: dict[str, float]) -> NpuTarget:
    return _ascend.replaced(target, **{name: getattr(target, name) * factor for name, factor in change.items()})


def measure(heads: _ascend.Heads, target: NpuTarget, change: str, specialised: bool) -> dict[str, Any]:
    """One row."""
    planned_for = npu.specialised(target) if specialised else target
    runs = _ascend.count(heads, planned_for, chip=changed(target, CHANGES[change]), specialised=specialised)
    cycles = sum(run.timing["cycles"] for run in runs)
    useful = useful_macs(heads)
    busiest = {pipe: max(sum(run.busy_cycles[core][pipe] for run in runs if core < run.blocks) for core in range(target.ai_cores))
               for pipe in runs[0].busy_cycles[0]}  # fmt: skip
    peak = TILE * target.ai_cores
    critical = max(busiest, key=lambda pipe: busiest[pipe])
    chunks = -(-heads.tokens // CHUNK) * heads.value_heads * heads.batch
    return {
        "mechanism": heads.mechanism,
        "T": heads.tokens,
        "Hk": heads.key_heads,
        "Hv": heads.value_heads,
        "kernel": "specialised" if specialised else "walked",
        "change": change,
        "cycles": round(cycles),
        "useful_macs": useful,
        "macs": _total(runs, "macs"),
        "utilisation": round(useful / (peak * cycles), 4),
        "executed_utilisation": round(_total(runs, "macs") / (peak * cycles), 4),
        "cores": target.ai_cores,
        "critical": critical,
        "busy_cycles": {pipe: round(busy) for pipe, busy in busiest.items()},
        "waiting_cycles": {pipe: round(cycles - busy) for pipe, busy in busiest.items()},
        "bounds": {pipe: round(useful / (peak * busy), 4) for pipe, busy in busiest.items() if busy},
        "of_bound": round(busiest[critical] / cycles, 4),
        "v_instructions": round(_total(runs, "V_instructions") / chunks, 1),
        "scalar_cycles": round(_total(runs, "scalar_cycles") / chunks, 1),
    }


def _total(runs: tuple[emulated.SimRun, ...], name: str) -> int:
    return sum(run.counts[name] for run in runs)


def show(report: dict[str, Any]) -> None:
    for row in report["rows"]:
        if row["change"] == "none":
            place = f"{row['mechanism']} T={row['T']} {row['Hk']}x{row['Hv']}, {row['kernel']}"
            print(f"{place}: {row['cycles']} cycles, useful {row['utilisation']:.1%}, executed {row['executed_utilisation']:.1%}")
            print(f"  {'pipe':<6}{'busy':>10}{'waiting':>10}{'bound':>8}   (busiest core)")
            for pipe, busy in row["busy_cycles"].items():
                mark = "  critical" if pipe == row["critical"] else ""
                bound = format(row["bounds"][pipe], ".1%") if busy else ""
                print(f"  {pipe:<6}{busy:>10}{row['waiting_cycles'][pipe]:>10}{bound:>8}{mark}")
            print(f"  the critical pipe is busy {row['of_bound']:.1%} of the time")
        else:
            print(f"  {row['change']:<20}{row['utilisation']:>8.1%}{row['cycles']:>10} cycles, critical {row['critical']}")
    for absent in report["missing"]:
        print(f"missing: {absent['mechanism']}: {absent['reason']}")
    print(_ascend.MODELLED)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object {machine, rows, missing}")
    parser.add_argument("--length", default="4096")
    parser.add_argument("--heads", default="16x16", help="key heads x value heads")
    parser.add_argument("--mechanism", choices=(*_ascend.NAMES, "both"), default="both")
    parser.add_argument("--specialised", action="store_true", help="the kernel made of the plan's programs too")
    parser.add_argument("--no-sensitivity", action="store_true", help="only the chip as it is")
    parser.add_argument("--target", default="ascend310p1")
    given = parser.parse_args()
    target = _ascend.chip(given.target)
    tokens, (key_heads, value_heads) = (
        _ascend.positive(parser, "length", given.length),
        _ascend.head_counts(parser, "heads", given.heads),
    )
    rows, missing = [], []
    for mechanism in _ascend.NAMES if given.mechanism == "both" else (given.mechanism,):
        if (reason := _ascend.lacking(mechanism, target)) is not None:
            missing.append({"mechanism": mechanism, "reason": reason})
            continue
        heads = _ascend.Heads(mechanism, tokens, key_heads, value_heads)
        for specialised in (False, True) if given.specialised else (False,):
            for change in ("none",) if given.no_sensitivity else CHANGES:
                _harness.progress(f"{mechanism} {'specialised' if specialised else 'walked'}: {change}")
                rows.append(measure(heads, target, change, specialised))
    _harness.publish({"machine": _machine.facts(), "rows": rows, "missing": missing}, given.json, show)
    short = [row for row in rows if row["change"] == "none" and row["utilisation"] < LEAST[row["mechanism"]]]
    if short and tokens >= 4096:
        sys.exit("utilisation: less than claimed")


if __name__ == "__main__":
    main()
