"""A guard against losing speed: the native kernel against the in-repo jnp form, and instructions where valgrind counts them.

    python benchmarks/guard.py [--json] [--update] [--replay FILE] [--ratio-only]

Exit code 1, with a line for each, when something is worse than guard.json allows; not part of the tests, as it times.

* ratio: hajax.gated_delta_rule (and kda) with implementation "cpu" over "xla", one thread, CPU seconds, runs in turn, least of
  each. Allowed: twice the stored ratio. Both run in this process on the same machine, so that it says little of the machine.
* instructions: of hajax_replay (cmake -DHAJAX_BUILD_TOOLS=ON; --replay names it) on a dumped call under valgrind
  --tool=callgrind, within hajax_execute, with the AVX2 kernel as valgrind knows no AVX-512. Allowed: 1.1 x the stored count.

--update stores what is measured now. What this machine cannot count is named under `missing` and fails nothing.
"""

import argparse
import dataclasses
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["NPROC"] = os.environ["HAJAX_CPU_THREADS"] = "1"
os.environ["HAJAX_CACHE"] = "0"

import _harness
import _machine
import jax
import numpy as np

import hajax
from hajax import abi, backends, conformance, plans

STORED = Path(__file__).with_name("guard.json")
SLACK = {"ratio": 2.0, "instructions": 1.1}
CASES = {
    "gdn prefill": "T=1024 Hk=2 Hv=4 Dk=128 Dv=128 l2norm=1",
    "kda prefill": "T=1024 Hk=2 Hv=2 Dk=128 Dv=128 l2norm=1 op=kda",
    "gdn decode": "T=1 Hk=16 Hv=32 Dk=128 Dv=128 l2norm=1",
}
NAMES = ("query", "key", "value", "log_decay", "beta", "initial_state")
COUNTED_ISA = "avx2"


def ratio(text: str, runs: int = 7) -> float:
    """The native kernel's CPU seconds over those of plain jnp."""
    case = conformance.parse(text)
    arrays = conformance.inputs(case)
    operands = [jax.numpy.asarray(arrays[name]) for name in NAMES]
    operator = hajax.kda if case.op == "kda" else hajax.gated_delta_rule

    def of(implementation: str) -> Callable[[], float]:
        call = jax.jit(lambda *xs: operator(*xs[:5], initial_state=xs[5], l2norm_eps=1e-6, implementation=implementation))
        jax.block_until_ready(call(*operands))

        def seconds() -> float:
            start = time.process_time()
            for _ in range(3):
                jax.block_until_ready(call(*operands))
            return time.process_time() - start

        return seconds

    native, plain = of("cpu"), of("xla")
    pairs = [(native(), plain()) for _ in range(runs)]
    return min(pair[0] for pair in pairs) / min(pair[1] for pair in pairs)


def dump(text: str, file: Path) -> None:
    """A call for hajax_replay: the planner's plan for one thread of the counted kernel, and the case's inputs."""
    case = conformance.parse(text)
    arrays = conformance.inputs(case)
    library = backends.open_library()
    panel = int(library.lib.hajax_cpu_panel(abi.table("isas")[COUNTED_ISA]))
    target = dataclasses.replace(backends.cpu_target(), isa=COUNTED_ISA, panel=panel, bf16_dot=False, threads=1)
    plan = hajax.plan(
        conformance.OPS[case.op], tokens=case.tokens, key_heads=case.key_heads, value_heads=case.value_heads,
        key_dim=case.key_dim, value_dim=case.value_dim, target=target,
    )  # fmt: skip
    code = plans.to_bytes(plan)
    head = b"HJDUMP01" + struct.pack("=4q2f", len(code), 1, case.tokens, 1, case.key_dim**-0.5, 1e-6)
    bounds = np.array([[0, case.tokens]], np.int32)
    parts = [np.ascontiguousarray(arrays[name]).tobytes() for name in NAMES]
    file.write_bytes(b"".join((head, code, *parts, bounds.tobytes())))


def instructions(text: str, replay: Path, folder: Path) -> int:
    """Executed by a replay of the case. Raises RuntimeError with what valgrind or the replay said."""
    file = folder / "call.bin"
    dump(text, file)
    command = [
        "valgrind",
        "--tool=callgrind",
        "--toggle-collect=hajax_execute",
        "--callgrind-out-file=/dev/null",
        str(replay),
        str(file),
    ]
    process = subprocess.run(command, capture_output=True, text=True)
    found = re.search(r"Collected\s*:\s*(\d+)", process.stderr)
    if process.returncode or not found or found.group(1) == "0":
        raise RuntimeError((process.stderr.strip().splitlines() or ["valgrind said nothing"])[-1])
    return int(found.group(1))


def measure(replay: Path | None) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    """Rows (case, kind, value) and what is missing."""
    rows = [{"case": name, "kind": "ratio", "value": round(ratio(text), 4)} for name, text in CASES.items()]
    if replay is None or shutil.which("valgrind") is None or COUNTED_ISA not in backends.available_isas():
        return rows, [{"peer": "instructions", "reason": f"needs valgrind, hajax_replay and {COUNTED_ISA}"}]
    missing = []
    with tempfile.TemporaryDirectory(prefix="hajax-guard-") as folder:
        for name, text in CASES.items():
            try:
                rows.append({"case": name, "kind": "instructions", "value": instructions(text, replay, Path(folder))})
            except RuntimeError as error:
                missing.append({"peer": f"instructions of {name}", "reason": str(error)})
    return rows, missing


def compare(rows: list[dict[str, Any]], stored: dict[str, dict[str, float]]) -> list[str]:
    """Adds what was stored and allowed to the rows; a line for each that is worse."""
    worse = []
    for row in rows:
        before = stored.get(row["kind"], {}).get(row["case"])
        row["stored"], row["allowed"] = before, None if before is None else round(before * SLACK[row["kind"]], 4)
        row["ok"] = before is None or row["value"] <= row["allowed"]
        if not row["ok"]:
            worse.append(f"WORSE: {row['kind']} of {row['case']} is {row['value']}, allowed {row['allowed']} (stored {before})")
    return worse


def show(report: dict[str, Any]) -> None:
    """A line a row."""
    for row in report["rows"]:
        print(f"{row['case']:<14}{row['kind']:<14}{row['value']:>14} stored {row['stored']} allowed {row['allowed']}")
    for absent in report["missing"]:
        print(f"missing: {absent['peer']}: {absent['reason']}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object {machine, rows, missing}")
    parser.add_argument("--update", action="store_true", help="store what is measured now")
    parser.add_argument("--ratio-only", action="store_true", help="no instruction counts")
    parser.add_argument("--replay", type=Path, help="hajax_replay; build/native/hajax_replay when it is there")
    given = parser.parse_args()
    built = Path(__file__).parents[1] / "build" / "native" / "hajax_replay"
    replay = None if given.ratio_only else given.replay or (built if built.is_file() else None)
    if given.replay is not None and not given.replay.is_file():
        parser.error(f"--replay: expected a file, got {given.replay}")
    rows, missing = measure(replay)
    stored = json.loads(STORED.read_text()) if STORED.is_file() else {}
    if given.update:
        for row in rows:
            stored.setdefault(row["kind"], {})[row["case"]] = row["value"]
        STORED.write_text(json.dumps(stored, indent=1) + "\n")
    worse = compare(rows, stored)
    _harness.publish({"machine": _machine.facts(), "rows": rows, "missing": missing}, given.json, show)
    for line in worse:
        print(line, file=sys.stderr)
    sys.exit(1 if worse else 0)


if __name__ == "__main__":
    main()
