"""Does the emulator catch broken kernels? Single small faults, one at a time, in kernels and in what the fused kernel runs.

    python benchmarks/mutations.py [--json] [--kernels vector_add,...,plan] [--target ascend310p1] [--most 40] [--jobs 2] [--all]

Worked kernels (vector_add, matmul, row_softmax), every fault: flag (each SetFlag and WaitFlag removed), barrier (each PipeBarrier
removed), buffer (each InitBuffer 32 bytes smaller), offset (each tensor operand 16 bytes further on), repeat (each count one
more or fewer). delta_rule: the fused kernel's source; _kernel_mutants.py lists its kinds. plan: the steps of a plan that it
runs; _plan_mutants.py lists its kinds. Of these two at most --most of a kind, evenly spread; 0: all of them.
A mutant is caught by a check of the emulator or of the host that reads the plan, or by its result. One that is neither is a
survivor: each is listed with the reason why it is no fault, and an unexplained one makes the program fail.

A row: kernel, kind, total, caught, by_check, by_result, survivors.
"""

import argparse
import ctypes
import re
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import _harness
import _kernel_mutants
import _machine
import _mutants
import _plan_mutants
import numpy as np

from hajax.backends import sim

KERNELS = Path(__file__).parents[1] / "examples" / "ascend"


@dataclass(frozen=True, slots=True)
class Problem:
    """A kernel with arguments that reach every line of it, and what numpy says the last array must be."""

    blocks: int
    arguments: Callable[[], tuple[list[Any], np.ndarray]]
    tolerance: float


def _vector_add() -> tuple[list[Any], np.ndarray]:
    random = np.random.default_rng(1)
    count = 4096 * 9 + 1000  # five tiles for one of two cores, the last one short
    x, y = (random.standard_normal(count).astype(np.float32) for _ in range(2))
    return [x, y, np.zeros_like(x), count], x + y


def _matmul() -> tuple[list[Any], np.ndarray]:
    random = np.random.default_rng(2)
    m, n, k = 160, 144, 400  # whole and short tiles in every direction; a corner of 32 x 16 needs the barrier
    a, b = (random.standard_normal(shape).astype(np.float16) for shape in ((m, k), (k, n)))
    return [a, b, np.zeros((m, n), np.float32), m, n, k], a.astype(np.float64) @ b.astype(np.float64)


def _row_softmax() -> tuple[list[Any], np.ndarray]:
    random = np.random.default_rng(3)
    rows, columns = 5, 8192  # as wide as the buffers
    x = (4 * random.standard_normal((rows, columns))).astype(np.float32)
    x[1, -1], x[2, 0] = 200, 200  # maxima at the ends too, so large that exp needs them
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    return [x, np.zeros_like(x), rows, columns], e / e.sum(1, keepdims=True)


PROBLEMS = {
    "vector_add": Problem(2, _vector_add, 0.0),
    "matmul": Problem(2, _matmul, 1e-3),
    "row_softmax": Problem(2, _row_softmax, 1e-5),
}

# (kernel, what was done) -> why the kernel is as right as before.
HARMLESS: dict[tuple[str, str], str] = {
    ("row_softmax", "work_buffer_ 32 bytes smaller"): "the reductions need less than a row of work space, which they check",
}


# Of the fused kernel and its plans, by what was done to them: the same bits for every input, as the reason says.
MORE = "does more than is needed, in room that nobody reads before it is written again"
EQUAL: dict[str, tuple[tuple[str, str], ...]] = {
    "plan": (
        (r"^count: .*one more$", MORE),
        (r"^field: mmad .*: p\[[01]\] one more$", MORE),
        (r"^address: ub_to_l1 .*\((sums|zeros)\)", "the same constants go on, and zeros outside of the triangle are not read"),
        (r"^count: ub_to_l1 .*\(zeros\): size one fewer", "its end is not read"),
        (r"\((factor diagonals|factors to L1)\): size one fewer", "of the last factor, the chunk's decay, one block is read"),
        (
            r"\((A|between) to L0[AB]\): size one fewer",
            "what was loaded before (A by columns, sums) left the same last fractal there",
        ),
        (r"exp32 \d+ \(chunk decay\): (src0|p\[[14]\])", "all rows of a sum's fractal are equal"),
        (
            r"maxs32 \d+ \((ln beta|gates)\): (stage|size one fewer)",
            "the last repeat is ln beta, never below the bound but at minus infinity, which fp16 clamps as well",
        ),
        (r"mul32 \d+ \(factor scales\): size one fewer", "the last factor is the chunk's decay, times 1, and zeros"),
        (r"maxs32 \d+ \(log decay\): p\[6\]", "exp of one bound is as zero as that of the other"),
        (r"dup32 \d+ \(zeros\): p\[6\]", "fills lanes that nobody uses"),
        (r"gate_to_ub \d+ \(beta\): p\[0\]", "the host gives beta for erase where there is one strength"),
        (r"^stage: rows_to_l1 .*\(value\): stage 1", "values are used a stage later still, so they come in time"),
        (r"^field: load_[ab] .*: p\[4\] one more$", "an operand that is symmetric"),
        (r"^field: rows_from_ub .*: p\[3\] one more$", "one row of blocks is the same in both layouts"),
    ),
    "delta_rule": (
        (r"InGm\(c\.constants\) 32 bytes further on", "zeros go on"),
        (r"uint64_t row = 0; one more", "every tensor sets its own"),
        (r"mask = HJ_MASKS; one more", "a number that no mask has, either way"),
        (r"program_ = \w+; one more|prepared_ = program_; one more", "brings or prepares again what is there"),
        (r"control = step\.Control\(\); one more", "only the stage's bits change, which are not read here"),
        (r"finish_ = Unsigned.*one more", "reads on into zeros, a step that does nothing"),
        (r"uint32_t bytes = .*one more", "is rounded up to 32"),
        (r"c\.l0[abc]_apart = .*one more", "no plan alternates in L0"),
        (r"flags = words\.Third\(\); one more", "no step of these plans has more than two flags; 1 is no flag"),
        (r"i < end; one round fewer", "steps have three words"),
        (r"i \+ 1 < chunks_ \+ stages; one round more", "an iteration that no chunk is in"),
        (r"PipeBarrier<PIPE_ALL>|code_\.Carries", "in these plans flags order all that the finish needs, too"),
        (r"if not \(i != 0 && \(how & kBarrierBetween\) != 0\)", "barriers where none is needed; no plan asks for them here"),
    ),
}
FUSED = {"plan": _plan_mutants.judge, "delta_rule": _kernel_mutants.judge}


def why_harmless(name: str, mutant: _mutants.Mutant, evidence: str) -> str | None:
    """The reason why a survivor is as right as the kernel, if one is known."""
    if evidence in (_kernel_mutants.UNREACHED, _plan_mutants.ORDERED):
        return evidence
    if name in PROBLEMS:
        return HARMLESS.get((name, mutant.text))
    return next((reason for pattern, reason in EQUAL[name] if re.search(pattern, f"{mutant.kind}: {mutant.text}")), None)


def _differs(got: np.ndarray, expected: np.ndarray, tolerance: float) -> bool:
    if not np.isfinite(got).all():
        return True
    return bool(np.abs(got.astype(np.float64) - expected).max() > tolerance)


def judge(name: str, target: str) -> list[tuple[_mutants.Mutant, str, str]]:
    """Every mutant of a kernel with its verdict (check, result, survivor) and the evidence. The kernel itself must be right."""
    problem = PROBLEMS[name]
    source, mutants = _mutants.mutate((KERNELS / f"{name}.cpp").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.cpp"
        path.write_text(source, encoding="utf-8")
        library = sim.compile_kernel(path, target)
        switch = ctypes.c_int.in_dll(ctypes.CDLL(str(library)), _mutants.SWITCH)

        def run(number: int) -> tuple[str, str]:
            arguments, expected = problem.arguments()
            switch.value = number
            try:
                done = sim.run(library, name, arguments, target=target, blocks=problem.blocks)
            except sim.SimFault as fault:
                return "check", f"{fault.check}: {str(fault).splitlines()[0]}"
            finally:
                switch.value = 0
            different = _differs(done.arrays[-1], expected, problem.tolerance)
            return ("result", "another result") if different else ("survivor", "same result, no check")

        verdict, evidence = run(0)
        if verdict != "survivor":
            raise SystemExit(f"mutations: {name} itself fails: {evidence}")
        return [(mutant, *run(mutant.number)) for mutant in mutants]


def rows_of(name: str, judged: list[tuple[_mutants.Mutant, str, str]]) -> list[dict[str, Any]]:
    rows = []
    for kind in dict.fromkeys(mutant.kind for mutant, _, _ in judged):
        verdicts = [verdict for mutant, verdict, _ in judged if mutant.kind == kind]
        survivors = [
            {"line": m.line, "mutant": m.text, "why_harmless": why_harmless(name, m, evidence)}
            for m, verdict, evidence in judged
            if m.kind == kind and verdict == "survivor"
        ]
        by_check, by_result = verdicts.count("check"), verdicts.count("result")
        caught = by_check + by_result
        rows.append(
            {"kernel": name, "kind": kind, "total": len(verdicts), "caught": caught, "by_check": by_check,
             "by_result": by_result, "survivors": survivors}
        )  # fmt: skip
    return rows


def show(report: dict[str, Any]) -> None:
    print(f"{'kernel':<14}{'kind':<10}{'caught/total':>14}{'by check':>10}{'by result':>11}")
    for row in report["rows"]:
        share = f"{row['caught']}/{row['total']}"
        print(f"{row['kernel']:<14}{row['kind']:<10}{share:>14}{row['by_check']:>10}{row['by_result']:>11}")
    for row in report["rows"]:
        for one in row["survivors"]:
            why = one["why_harmless"] or "UNEXPLAINED"
            place = "step " if row["kernel"] == "plan" else "line "
            print(f"survivor: {row['kernel']}, {place}{one['line']}: {one['mutant']}: {why}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--kernels", default=",".join((*PROBLEMS, *FUSED)))
    parser.add_argument("--target", default="ascend310p1")
    parser.add_argument("--most", type=int, default=40, help="mutants of a kind, of delta_rule and plan; 0: all")
    parser.add_argument("--jobs", type=int, default=_machine.usable_cpus(), help="mutants side by side, of delta_rule and plan")
    parser.add_argument("--all", action="store_true", help="list every mutant with what caught it, on standard error")
    options = parser.parse_args()
    unknown = set(options.kernels.split(",")) - {*PROBLEMS, *FUSED}
    if unknown:
        parser.error(f"--kernels: expected some of {', '.join((*PROBLEMS, *FUSED))}, got {', '.join(sorted(unknown))}")
    for name, least in (("most", 0), ("jobs", 1)):
        if getattr(options, name) < least:
            parser.error(f"--{name}: expected at least {least}, got {getattr(options, name)}")
    rows = []
    for name in options.kernels.split(","):
        judged = FUSED[name](options.most, options.jobs) if name in FUSED else judge(name, options.target)
        rows += rows_of(name, judged)
        if options.all:
            for mutant, verdict, evidence in judged:
                print(f"{name}:{mutant.line}: {mutant.kind}: {mutant.text} -> {verdict}: {evidence}", file=sys.stderr)
    report = {"machine": _machine.facts(), "rows": rows, "missing": []}
    _harness.publish(report, options.json, show)
    if any(one["why_harmless"] is None for row in rows for one in row["survivors"]):
        sys.exit("mutations: unexplained survivors")


if __name__ == "__main__":
    main()
