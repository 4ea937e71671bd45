"""The planned torch program beside XLA: models, samplers, a battery of small programs, and what a step costs.

    python benchmarks/executor.py [--models DIR ...] [--also PYTHON ...] [--json]

Models: the demo and every checkpoint below --models (folders as hajax.models.load takes them; ../shared/golden when it is there):
logits of the same prompt, greedy tokens and seeded samples on both, fp32; and fp16 logits of both against fp32 XLA's.
Battery: jax.numpy and lax programs on designed inputs, right or refused by name; --also runs it with another Python, for other
versions of JAX. A case is "wrong" when it misses its bound, and the program then exits with 1.
Times are measured, on the CPU, one thread; the launches of a decode step are counted under fake tensors.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("HAJAX_CACHE", "0")

import _harness
import _machine

HERE = Path(__file__).parent
GOLDEN = HERE.parents[1] / "shared" / "golden"
LOGITS_WITHIN = 1e-4
NEW_TOKENS = 24
FP16_FACTOR = 2.0
OVERHEAD_WITHIN = 1.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--models", type=Path, action="append", help="a checkpoint folder, or a folder of them")
    parser.add_argument("--also", action="append", default=[], help="another Python, with hajax, jax and torch, for the battery")
    parser.add_argument("--only", choices=("models", "battery", "overhead"), help="one part")
    options = parser.parse_args()
    try:
        import jax
        import torch
    except ImportError:
        parser.exit(2, "executor.py: torch is not installed: pip install torch\n")
    torch.set_num_threads(1)
    parts = ("models", "battery", "overhead") if options.only is None else (options.only,)
    rows: list[dict[str, Any]] = []
    missing: list[dict[str, str]] = []
    with contextlib.redirect_stdout(sys.stderr):  # a program of the battery prints
        if "models" in parts:
            for folder in _folders(options.models, missing):
                rows += _model_rows(folder)
        if "battery" in parts:
            rows += _battery_rows()
            for python in options.also:
                rows += _battery_elsewhere(python, missing)
        if "overhead" in parts:
            rows += _overhead_rows()
        jax.effects_barrier()
    report = {"machine": {**_machine.facts(), "threads": 1}, "rows": rows, "missing": missing}
    _harness.publish(report, options.json, _show)
    sys.exit(1 if any(row["status"] == "wrong" for row in rows) else 0)


def _folders(given: list[Path] | None, missing: list[dict[str, str]]) -> list[Path]:
    """The demo and the checkpoints at hand."""
    from hajax._generate_command import demo_folder

    found = [demo_folder()]
    for folder in given or [GOLDEN]:
        single = [folder] if (folder / "config.json").is_file() else []
        below = single or sorted(path.parent for path in folder.glob("*/config.json"))
        if not below:
            missing.append({"peer": str(folder.name), "reason": "no checkpoint folders there (--models names another)"})
        found += below
    return found


def _model_rows(folder: Path) -> list[dict[str, Any]]:
    """A row each for logits and greedy tokens, for samples, and for fp16."""
    import numpy as np

    from hajax import models

    _harness.progress(f"model {folder.name}")
    xla = models.load(folder, dtype="float32")
    mine = models.load(folder, dtype="float32", backend="torch")
    ids = _prompt(folder, xla)
    wanted = xla.logits(ids)
    distance = float(np.abs(mine.logits(ids) - wanted).max())
    length = {"max_new_tokens": NEW_TOKENS, "eos": ()}
    greedy = np.array_equal(mine.generate(ids, **length), xla.generate(ids, **length))
    draw = {**length, "temperature": 0.8, "top_k": 40, "top_p": 0.95, "seed": 11}
    sampled = np.array_equal(mine.generate(ids, **draw), xla.generate(ids, **draw))
    rows = [
        _row(f"{folder.name} fp32 logits, greedy", distance, greedy, distance <= LOGITS_WITHIN and greedy),
        _row(f"{folder.name} fp32 samples", None, sampled, sampled),
    ]
    halves = {
        name: float(np.abs(models.load(folder, dtype="float16", **options).logits(ids) - wanted).max())
        for name, options in (("xla", {}), ("torch", {"backend": "torch"}))
    }
    near = halves["torch"] <= FP16_FACTOR * halves["xla"]
    return [*rows, {**_row(f"{folder.name} fp16 from fp32", halves["torch"], None, near), "xla_max_abs_diff": halves["xla"]}]


def _row(case: str, distance: float | None, equal: bool | None, right: bool) -> dict[str, Any]:
    return {"case": case, "max_abs_diff": distance, "tokens_equal": equal, "status": "right" if right else "wrong"}


def _prompt(folder: Path, model: Any) -> Any:
    """The prompt of the expected results, or some text where there are none."""
    import numpy as np

    if (folder / "expected.npz").is_file():
        with np.load(folder / "expected.npz") as file:
            return file["input_ids"][None].astype(np.int32)
    return np.array([model.tokenizer.encode((folder / "prompt.txt").read_text())[:300]], np.int32)


def _battery_rows() -> list[dict[str, Any]]:
    """The battery in this process."""
    import jax
    import torch
    from _programs import PROGRAMS, check

    from hajax.npu.executor import Executed

    def run(function: Any, arguments: Any) -> Any:
        return Executed(function, torch.device("cpu"), {}, contextlib.nullcontext)(*arguments)

    rows = []
    for number, program in enumerate(PROGRAMS):
        if number % 40 == 0:
            _harness.progress(f"battery {number} of {len(PROGRAMS)}, jax {jax.__version__}")
        status, distance, message = check(program, run)
        distance = None if status == "refused" else distance
        row = {"case": program.name, "max_abs_diff": distance, "tokens_equal": None, "status": status}
        rows.append({**row, "jax": jax.__version__, **({"message": message} if message else {})})
    return rows


def _battery_elsewhere(python: str, missing: list[dict[str, str]]) -> list[dict[str, Any]]:
    """The battery with another Python."""
    command = [python, __file__, "--only", "battery", "--json"]
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment)
    if done.returncode not in (0, 1) or not done.stdout:
        missing.append({"peer": python, "reason": f"its battery ended with {done.returncode}"})
        return []
    rows: list[dict[str, Any]] = json.loads(done.stdout)["rows"]
    return rows


def _overhead_rows() -> list[dict[str, Any]]:
    """What a step of a planned program costs beside the same loop by hand, and what a decode step is."""
    return [_chain_row(), _decode_row()]


def _chain_row(steps: int = 300, rounds: int = 41) -> dict[str, Any]:
    """A chain of small additions and products, planned and by hand, in turn."""
    import torch

    from hajax.npu.executor import Executed

    def chain(x: Any, y: Any) -> Any:
        for _ in range(steps // 2):
            x = (x + y) * y
        return x

    x, y = torch.ones(64), torch.full((64,), 0.5)
    planned = Executed(chain, torch.device("cpu"), {}, contextlib.nullcontext)
    program = planned.program(x, y)
    times: dict[str, list[float]] = {"planned": [], "by_hand": [], "called": []}
    for _ in range(rounds):
        with torch.no_grad():
            for name, call in (("planned", program), ("by_hand", chain), ("called", planned)):
                began = time.perf_counter()
                call(x, y)
                times[name].append(1e6 * (time.perf_counter() - began))
    found = {name: statistics.median(values) / steps for name, values in times.items()}
    ratio = found["planned"] / found["by_hand"]
    distance = float((planned(x, y) - chain(x, y)).abs().max())
    row = _row(f"{steps} small steps", distance, None, ratio <= OVERHEAD_WITHIN and distance == 0)
    return {
        **row,
        "us_a_step": round(found["planned"], 3),
        "us_a_step_by_hand": round(found["by_hand"], 3),
        "us_a_step_called": round(found["called"], 3),
        "ratio": round(ratio, 3),
    }


def _decode_row() -> dict[str, Any]:
    """One decode step of the demo model: steps, launches, and milliseconds beside XLA's."""
    import numpy as np

    import hajax
    from hajax import models
    from hajax._generate_command import demo_folder

    model = models.load(demo_folder(), dtype="float32")
    family, config = model.family, model.config

    def decode(params: Any, token: Any, cache: Any) -> Any:
        return family.decode(params, config, token, cache)

    token = np.array([5], np.int32)
    sides = {"torch": hajax.jit(decode, backend="torch", donate_argnums=2), "xla": hajax.jit(decode, donate_argnums=2)}
    caches = {name: family.init_cache(config, 1, 256, model.dtype) for name in sides}
    launched = sides["torch"].launches(model.params, token, caches["torch"])
    steps = len(sides["torch"].program(model.params, token, caches["torch"]).steps)
    times: dict[str, list[float]] = {name: [] for name in sides}
    logits: dict[str, Any] = {}
    for _ in range(41):
        for name, step in sides.items():
            began = time.perf_counter()
            logits[name], caches[name] = step(model.params, token, caches[name])
            if name == "xla":
                logits[name].block_until_ready()
            times[name].append(1e3 * (time.perf_counter() - began))
    distance = float(np.abs(np.asarray(logits["torch"]) - np.asarray(logits["xla"])).max())
    row = _row("decode step of the demo model", distance, None, distance <= LOGITS_WITHIN)
    layers = config.num_hidden_layers
    return {
        **row,
        "launches": len(launched),
        "launches_a_layer": round(len(launched) / layers, 1),
        "steps": steps,
        "ms_torch": round(statistics.median(times["torch"]), 3),
        "ms_xla": round(statistics.median(times["xla"]), 3),
    }


def _show(report: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(width=140)
    rows = report["rows"]
    battery = [row for row in rows if "jax" in row]
    table = Table("case", "max abs diff", "tokens equal", "status", "more")
    for row in rows:
        if "jax" in row and row["status"] == "right":
            continue
        more = ", ".join(f"{k} {v}" for k, v in row.items() if k not in ("case", "max_abs_diff", "tokens_equal", "status"))
        distance = "" if row["max_abs_diff"] is None else f"{row['max_abs_diff']:.2g}"
        table.add_row(row["case"], distance, {None: "", True: "yes", False: "no"}[row["tokens_equal"]], row["status"], more[:90])
    console.print(table)
    for version in sorted({row["jax"] for row in battery}):
        counts = {s: sum(r["status"] == s and r["jax"] == version for r in battery) for s in ("right", "refused", "wrong")}
        console.print(f"battery, jax {version}: " + ", ".join(f"{count} {status}" for status, count in counts.items()))
    for absent in report["missing"]:
        console.print(f"missing: {absent['peer']}: {absent['reason']}")
    machine = report["machine"]
    console.print(f"measured on {machine['cpu']}, one thread, {machine['date']}, commit {machine['commit']}")


if __name__ == "__main__":
    main()
