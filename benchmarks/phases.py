"""Where the CPU kernel's time goes, phase by phase: samples of its instructions, each named by the inlined function it came from.

    python benchmarks/phases.py --library build-g/libhajax_cpu.so [--json] [--cases "T=4096 Hk=2 Hv=4 ...;..."] [--seconds S]

Needs perf and addr2line, and a library built with -DCMAKE_CXX_FLAGS=-g (which changes no instruction). perf samples by the
CPU's clock where a virtual machine hides its counters. A row is a phase of a case: its share of the samples in the kernel. One
thread, the planner's plan, the state updated in place.
"""

import argparse
import collections
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import _harness
import _machine

from hajax import conformance

CASES = (
    "T=4096 Hk=4 Hv=8 Dk=128 Dv=128 l2norm=1",
    "T=4096 Hk=4 Hv=4 Dk=128 Dv=128 l2norm=1 op=kda",
    "T=1 Hk=16 Hv=32 Dk=128 Dv=128 l2norm=1",
)
PHASES = {  # the innermost of these on a sample's stack of inlined calls
    "solve_tile": "K S and the solve", "output_tile": "output", "update_state": "state update", "lower_product": "K K^T, Q K^T",
    "triangular_weights": "weights", "decay_factors": "weights", "decay_channels": "decay by channel",
    "load_rows": "rows", "transpose_keys": "rows", "stage_values": "values in", "store_outputs": "outputs out",
    "pack_state": "state in and out", "unpack_state": "state in and out", "prefetch_next": "prefetch",
    "read_state": "token: read the state", "write_state": "token: write the state", "step_token": "token: rest",
    "prepare_token": "token: rest",
}  # fmt: skip


def child(text: str, seconds: float) -> None:
    """What is sampled: the case, again and again, on one thread."""
    import dataclasses

    from hajax import _tune, backends, planner
    from hajax.mechanisms import MECHANISMS
    from hajax.plans import Shape

    case = conformance.parse(text)
    sizes = (case.key_heads, case.value_heads, case.key_dim, case.value_dim)
    shape = Shape(1, case.tokens, 1, *sizes, case.dtype, case.dtype)
    target = dataclasses.replace(backends.cpu_target(), threads=1)
    mechanism = MECHANISMS[conformance.OPS[case.op]]
    measure = _tune.measurer(_tune.Problem(mechanism, shape, target, (target,)), least_seconds=0.2)
    plan = planner.plan(mechanism, shape, target)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        measure(plan)


def phases(text: str, library: Path, seconds: float) -> dict[str, float]:
    """Phase -> share of the samples in the kernel's task."""
    environment = os.environ | {"HAJAX_LIBRARY": str(library), "HAJAX_CACHE": "0", "HAJAX_CPU_THREADS": "1"}
    with tempfile.TemporaryDirectory(prefix="hajax-perf-") as folder:
        data = f"{folder}/data"
        command = ["perf", "record", "-q", "-o", data, sys.executable, __file__, "--child", text, "--seconds", str(seconds)]
        subprocess.run(command, check=True, env=environment, capture_output=True)
        script = ["perf", "script", "-i", data, "-F", "ip,sym,symoff", "--show-mmap-events"]
        lines = subprocess.run(script, check=True, capture_output=True, text=True).stdout.splitlines()
    base = next(_offset(line) for line in lines if library.name in line and "r-xp" in line)
    hits = collections.Counter(
        int(line.split()[0], 16) - base for line in lines if "run_task" in line and re.match(r"\s*[0-9a-f]+ ", line)
    )
    addresses = "\n".join(hex(address) for address in hits)
    command = ["addr2line", "-a", "-i", "-f", "-C", "-e", str(library)]
    stacks = subprocess.run(command, input=addresses, check=True, capture_output=True, text=True).stdout
    shares: collections.Counter[str] = collections.Counter()
    for address, stack in re.findall(r"^(0x[0-9a-f]+)\n((?:(?!0x).*\n?)+)", stacks, re.MULTILINE):
        names = [re.sub(r"<.*|\(.*", "", line.split("::")[-1]) for line in _calls(stack)]
        phase = next((PHASES[name] for name in names if name in PHASES), "rest")
        shares[phase] += hits[int(address, 16)]
    total = sum(shares.values())
    return {phase: round(count / total, 3) for phase, count in shares.most_common()}


def _calls(stack: str) -> list[str]:
    """The function names of an addr2line stack, innermost first, without template arguments and parameters."""
    names = []
    for line in stack.splitlines()[::2]:
        bare, depth = "", 0
        for character in line.replace("(anonymous namespace)::", "").split("{lambda")[0]:
            depth += character in "<("
            bare += character if depth == 0 else ""
            depth -= character in ">)"
        names.append(bare.split()[-1] if bare.split() else "")
    return names


def _offset(line: str) -> int:
    """Of a PERF_RECORD_MMAP2 line: what is subtracted from an address to find it in the file."""
    start, _, page = re.search(r"\[0x([0-9a-f]+)\((0x[0-9a-f]+)\) @ (0x[0-9a-f]+|0)", line).groups()  # type: ignore[union-attr]
    return int(start, 16) - int(page, 16)


def show(report: dict[str, Any]) -> None:
    """A line a row."""
    for row in report["rows"]:
        print(f"{row['case']:<52}{row['phase']:<28}{row['share']:>7.1%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object {machine, rows, missing}")
    parser.add_argument("--library", type=Path, help="libhajax_cpu.so built with -g")
    parser.add_argument("--cases", default=";".join(CASES), help="conformance cases with semicolons")
    parser.add_argument("--seconds", type=float, default=4.0, help="of sampling each case")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(given.child, given.seconds)
        return
    if given.library is None or not given.library.is_file():
        parser.error(f"--library: expected a library built with -g, got {given.library}")
    rows = []
    for case in given.cases.split(";"):
        found = phases(case.strip(), given.library.resolve(), given.seconds)
        rows += [{"case": case.strip(), "phase": phase, "share": share} for phase, share in found.items()]
    _harness.publish({"machine": _machine.facts(), "rows": rows, "missing": []}, given.json, show)


if __name__ == "__main__":
    main()
