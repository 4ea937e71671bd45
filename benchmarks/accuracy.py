"""Accuracy of the fused kernel on the emulated chip against the delta rule in fp64, over many instances, all checks on.

    python benchmarks/accuracy.py --instances 360 --json [--mechanism gdn|kda|both] [--jobs 2] [--only 17]

Instances: T 1 to 4096, few and many heads, grouped and packed ones, head sizes 16 to 128, decays from none to total with sudden
ones between, keys from random to identical, with and without an initial state (_instances.py). Inputs: fp16 q, k, v, fp32 gates
and states; output fp16. Compared with the chunkwise rule in fp64 (_recurrence.py) on the very same inputs.

A row: mechanism, B, T, Hk, Hv, Dk, Dv, decay, output_nmse, state_nmse, saturations, findings. findings counts what the
emulator's checks objected to, and values that are not finite; NMSE is null then. A summary a mechanism: the worst of each, by
decay and for a single head; the output's error when the fp64 output is only rounded to fp16; whether the bounds hold.
The program fails when a bound of gdn is broken, or any mechanism has a finding.
"""

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import _ascend
import _harness
import _instances
import _machine
import _recurrence
import numpy as np
from _instances import Instance

from hajax import conformance, plans
from hajax.backends import npu as emulated
from hajax.targets import NpuTarget

OUTPUT_BOUND, STATE_BOUND = 5.23e-8, 9.38e-12  # published maxima over 360 instances of the gated delta rule
CHECKED = emulated.SimOptions(threads=1, timeline=False)


def judge(instance: Instance, target: NpuTarget) -> tuple[dict[str, Any], dict[str, Any]]:
    """The row of an instance, and what the summary needs beside it."""
    heads = _ascend.Heads(
        instance.mechanism, instance.tokens, instance.key_heads, instance.value_heads, instance.key_dim, instance.value_dim,
        instance.batch, instance.sequences,
    )  # fmt: skip
    arrays = _instances.arrays_of(instance)
    plan = _ascend.plan_of(heads, target)
    row = {
        "mechanism": instance.mechanism, "B": instance.batch, "T": instance.tokens, "Hk": instance.key_heads,
        "Hv": instance.value_heads, "Dk": instance.key_dim, "Dv": instance.value_dim, "decay": instance.decay,
        "output_nmse": None, "state_nmse": None, "saturations": None, "findings": 1,
    }  # fmt: skip
    more: dict[str, Any] = {"instance": str(instance), "programs": program_names(plan)}
    try:
        output, states, runs = emulated.execute(
            plans.to_bytes(plan), arrays, scale=instance.key_dim**-0.5, target=target, options=CHECKED
        )
    except emulated.SimFault as fault:
        return row, more | {"fault": fault.text}
    row["saturations"] = sum(run.counts["saturated"] for run in runs)
    row["findings"] = 0
    if not (np.isfinite(output).all() and np.isfinite(states).all()):
        return row | {"findings": 1}, more | {"fault": "values that are not finite"}
    expected, final = _recurrence.chunkwise(arrays)
    row["output_nmse"] = conformance.nmse(output, expected)
    row["state_nmse"] = conformance.nmse(states, final)
    more["head_output_nmse"] = worst_head(output, expected, 2)
    more["head_state_nmse"] = worst_head(states, final, 2)
    more["rounding"] = conformance.nmse(expected.astype(np.float16), expected)
    return row, more


def worst_head(got: np.ndarray, expected: np.ndarray, axis: int) -> float:
    return max(
        conformance.nmse(got.take(head, axis=axis), expected.take(head, axis=axis)) for head in range(expected.shape[axis])
    )


def program_names(plan: plans.Plan) -> list[str]:
    """What the plan's items run: launches, and of each program its heads and columns."""
    made = _ascend.programs_of(plan)
    launches = "" if len(made.launches) == 1 else f" of {len(made.launches)} launches"
    return [f"{program.heads}x{program.columns}{launches}" for program in made.programs]


def summary_of(mechanism: str, judged: Sequence[tuple[dict[str, Any], dict[str, Any]]]) -> dict[str, Any]:
    """What the rows of a mechanism come to."""
    rows = [row for row, _ in judged]
    scored = [(row, more) for row, more in judged if row["output_nmse"] is not None]

    def worst(name: str) -> dict[str, Any]:
        row, more = max(scored, key=lambda pair: pair[0][name])
        return {"nmse": row[name], "instance": more["instance"]}

    by_decay = {}
    for decay in dict.fromkeys(row["decay"] for row, _ in scored):
        of = [row for row, _ in scored if row["decay"] == decay]
        by_decay[decay] = {"instances": len(of)} | {name: max(row[name] for row in of) for name in ("output_nmse", "state_nmse")}
    return {
        "mechanism": mechanism,
        "instances": len(rows),
        "output_bound": OUTPUT_BOUND,
        "state_bound": STATE_BOUND,
        "worst_output": worst("output_nmse") if scored else None,
        "worst_state": worst("state_nmse") if scored else None,
        "worst_head_output_nmse": max((more["head_output_nmse"] for _, more in scored), default=None),
        "worst_head_state_nmse": max((more["head_state_nmse"] for _, more in scored), default=None),
        "worst_rounding_of_output": max((more["rounding"] for _, more in scored), default=None),
        "over_output_bound": sum(row["output_nmse"] > OUTPUT_BOUND for row, _ in scored),
        "over_state_bound": sum(row["state_nmse"] > STATE_BOUND for row, _ in scored),
        "saturations": sum(row["saturations"] for row, _ in scored),
        "findings": sum(row["findings"] for row in rows),
        "faults": [{"instance": more["instance"], "fault": more["fault"]} for _, more in judged if "fault" in more],
        "by_decay": by_decay,
        "programs": sorted({name for _, more in judged for name in more["programs"]}),
    }


def show(report: dict[str, Any]) -> None:
    for one in report["summary"]:
        print(f"{one['mechanism']}: {one['instances']} instances, {one['findings']} findings, {one['saturations']} saturations")
        print(f"{'decay':<12}{'instances':>10}{'worst output':>14}{'worst state':>14}")
        for decay, of in one["by_decay"].items():
            print(f"{decay:<12}{of['instances']:>10}{of['output_nmse']:>14.3g}{of['state_nmse']:>14.3g}")
        for name, bound in (("output", OUTPUT_BOUND), ("state", STATE_BOUND)):
            worst, over = one[f"worst_{name}"], one[f"over_{name}_bound"]
            if worst is not None:
                print(f"worst {name} {worst['nmse']:.3g} (bound {bound:.3g}, {over} over it): {worst['instance']}")
        for fault in one["faults"]:
            print(f"FINDING {fault['instance']}: {fault['fault']}")
        print(f"programs (heads x columns): {', '.join(one['programs'])}")
    for absent in report["missing"]:
        print(f"missing: {absent['mechanism']}: {absent['reason']}")
    print("NMSE of the emulated kernel against fp64; nothing here was measured on a device")


def broken(summary: dict[str, Any]) -> bool:
    over = summary["over_output_bound"] + summary["over_state_bound"] if summary["mechanism"] == "gdn" else 0
    return bool(summary["findings"] or over)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object {machine, rows, missing, summary}")
    parser.add_argument("--instances", type=int, default=360, help="of each mechanism")
    parser.add_argument("--mechanism", choices=(*_instances.MECHANISMS, "both"), default="both")
    parser.add_argument("--jobs", type=int, default=_machine.usable_cpus(), help="instances side by side")
    parser.add_argument("--target", default="ascend310p1")
    parser.add_argument("--only", type=int, help="one instance, by its number")
    given = parser.parse_args()
    for name in ("instances", "jobs"):
        if getattr(given, name) < 1:
            parser.error(f"--{name}: expected at least 1, got {getattr(given, name)}")
    if given.only is not None and not 0 <= given.only < given.instances:
        parser.error(f"--only: expected 0 to {given.instances - 1}, got {given.only}")
    target = _ascend.chip(given.target)
    rows, summary, missing = [], [], []
    for mechanism in _instances.MECHANISMS if given.mechanism == "both" else (given.mechanism,):
        if (reason := _ascend.lacking(mechanism, target)) is not None:
            missing.append({"mechanism": mechanism, "reason": reason})
            continue
        wanted = _instances.instances(mechanism, given.instances)
        wanted = wanted if given.only is None else wanted[given.only : given.only + 1]
        judged = []
        with ThreadPoolExecutor(given.jobs) as pool:
            for done, one in enumerate(pool.map(lambda instance: judge(instance, target), wanted), 1):
                judged.append(one)
                if done % 20 == 0:
                    _harness.progress(f"{mechanism}: {done} of {len(wanted)}")
        rows += [row for row, _ in judged]
        summary.append(summary_of(mechanism, judged))
    _harness.publish({"machine": _machine.facts(), "rows": rows, "missing": missing, "summary": summary}, given.json, show)
    if any(map(broken, summary)):
        sys.exit("accuracy: a bound is broken, or a check objected")


if __name__ == "__main__":
    main()
