"""Prefill of a whole model on this CPU: hajax beside transformers on the same random weights, interleaved in one run.

    python benchmarks/model_prefill.py [--json] [--tokens 512,2048] [--layers N] [--dtype fp32|bf16] [--runs N] [--tiny]

The model has the shape of Qwen3.5-0.8B's text part: hidden 1024, 24 layers (three gated-delta-rule layers to one of attention),
intermediate 3584, attention 8/2 heads of 256, delta rule 16/16 heads of 128, vocabulary 248320, tied. Its weights are written
once to a temporary folder, in `--dtype`, and loaded by all, each in a process of its own (llama.cpp, through llama-cpp-python,
from a GGUF of them). A row is an engine at a length:
one prompt, caches filled, logits of the last position.

Shares are by difference: (T - T without) / T, where "without" is the same model with less in its delta-rule layers.
`delta_rule_share`: the operator is replaced by a sum of its inputs. `delta_layers_share`: the whole layers are replaced by
nothing. `delta_nongemm_share`: of the layers only the projections are left, so it is the share of convolution, gates, operator
and norm together.
"hajax_xla" is hajax with its jnp reference as operator. `logits_max_abs_diff` and `same_next_token` are against transformers.
`missing` names what is not there or broke. Threads, samples and load are as in cpu_core.py.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import _harness
import _machine
import numpy as np
from _harness import Entry, PeerError, Worker

DTYPES = {"fp32": "float32", "bf16": "bfloat16"}
ENGINES = {"transformers": "_model_torch", "llama.cpp": "_model_llama", "hajax": "_model_jax", "hajax_xla": "_model_jax"}
IN_PARTS = ("transformers", "hajax")  # what hajax_xla leaves out is the same as hajax's
SHARES = {
    "delta_rule_share": " without rule",
    "delta_layers_share": " without layers",
    "delta_nongemm_share": " without all but products",
}
PARTS = ("", *SHARES.values())
SECONDS = 45.0  # about so long for all samples of one entry
LAYERS = 24


def measure(given: argparse.Namespace, folder: Path) -> tuple[list[dict[str, Any]], list[dict[str, str]], list[Entry]]:
    """Rows, what is missing, and the samples behind the rows."""
    workers = {engine: Worker(engine, given.threads) for engine in dict.fromkeys(ENGINES.values())}
    rows: list[dict[str, Any]] = []
    missing: dict[str, str] = {}
    entries: list[Entry] = []
    try:
        for tokens in given.tokens:
            found, logits = _prepare(given, folder, tokens, workers, missing)
            for entry, failure in _harness.interleave(list(found.values()), given.runs, seconds=SECONDS):
                peer = next(name for name, other in found.items() if other is entry)
                missing[peer] = f"{failure} (at {tokens} tokens)"
            found = {name: entry for name, entry in found.items() if entry.samples}
            entries += found.values()
            rows += [_row(given, tokens, peer, found, logits) for peer in ENGINES if peer in found]
            for worker in workers.values():
                worker.drop()
    finally:
        for worker in workers.values():
            worker.close()
    return rows, [{"peer": peer, "reason": reason} for peer, reason in missing.items()], entries


def _prepare(
    given: argparse.Namespace, folder: Path, tokens: int, workers: dict[str, Worker], missing: dict[str, str]
) -> tuple[dict[str, Entry], dict[str, np.ndarray]]:
    prompt = np.random.default_rng(tokens).integers(0, given.vocabulary, tokens).tolist()
    problem = {"folder": str(folder), "dtype": DTYPES[given.dtype], "tokens": prompt}
    found: dict[str, Entry] = {}
    logits: dict[str, np.ndarray] = {}
    for peer, engine in ENGINES.items():
        for part in PARTS if peer in IN_PARTS else PARTS[:1]:
            name = peer + part
            if peer in missing or name in missing:
                continue
            _harness.progress(f"{tokens} tokens: {name}")
            file = folder / "logits.npy"
            try:
                ready = workers[engine].ask("prepare", slot=len(found), peer=name, problem=problem, output=str(file))
            except PeerError as error:
                missing[name] = f"{error} (at {tokens} tokens)"
                continue
            logits[name] = np.load(file)
            found[name] = Entry(workers[engine], len(found), ready["seconds"])
    return found, logits


def _row(
    given: argparse.Namespace, tokens: int, peer: str, found: dict[str, Entry], logits: dict[str, np.ndarray]
) -> dict[str, Any]:
    def milliseconds(name: str) -> float | None:
        return _harness.summary(found[name], given.runs, SECONDS)["ms_median"] if name in found else None

    times = _harness.summary(found[peer], given.runs, SECONDS)
    stubbed = "hajax" if peer == "hajax_xla" else peer
    shares = {}
    for name, part in SHARES.items():
        rest = milliseconds(stubbed + part)
        shares[name] = None if rest is None else round(1 - rest / times["ms_median"], 3)
    theirs = logits.get("transformers")
    return {
        "engine": peer,
        "dtype": given.dtype,
        "tokens": tokens,
        "layers": given.layers,
        "threads": given.threads,
        **times,
        "tokens_per_second": round(1e3 * tokens / times["ms_median"], 1),
        **shares,
        "logits_max_abs": float(f"{np.abs(logits[peer]).max():.4g}"),
        "logits_max_abs_diff": None if theirs is None else float(f"{np.abs(logits[peer] - theirs).max():.3g}"),
        "same_next_token": None if theirs is None else bool(logits[peer].argmax() == theirs.argmax()),
    }


def show(report: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table(title="prefill: times hajax's, shares of the delta rule, its layers, its layers without their projections")
    for name in ("engine", "tokens", "dtype", "ms", "tokens/s", "ratio", "rule", "layers", "non-GEMM", "logits off by"):
        table.add_column(name, justify="left" if name == "engine" else "right", no_wrap=True)
    ours = {row["tokens"]: row["ms_median"] for row in report["rows"] if row["engine"] == "hajax"}
    for row in report["rows"]:
        ratio = f"{row['ms_median'] / ours[row['tokens']]:.2f}x" if row["tokens"] in ours else "-"
        shares = ["-" if row[n] is None else f"{row[n]:.0%}" for n in SHARES]
        cells = [row["engine"], str(row["tokens"]), row["dtype"], f"{row['ms_median']:.0f}", f"{row['tokens_per_second']:.0f}"]
        difference = row["logits_max_abs_diff"]
        table.add_row(*cells, ratio, *shares, "-" if difference is None else f"{difference:.1e}")
    console.print(table)
    for line in _harness.closing_lines(report):
        console.print(line, markup=False)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object {machine, rows, missing}")
    parser.add_argument("--tokens", type=_lengths, default=[512, 2048], help="prompt lengths, comma-separated")
    parser.add_argument("--layers", type=int, default=LAYERS)
    parser.add_argument("--dtype", choices=list(DTYPES), default="fp32")
    parser.add_argument("--runs", type=int, default=3, help="samples of each engine at each length")
    parser.add_argument("--threads", type=int, default=_machine.usable_cpus())
    parser.add_argument("--tiny", action="store_true", help="a toy's widths, to try this program")
    given = parser.parse_args()
    _harness.check_threads(parser, given.threads)
    if given.layers < 1 or given.runs < 1:
        parser.error("--layers, --runs: expected at least 1")
    given.vocabulary = 320 if given.tiny else 248320
    return given


def _lengths(text: str) -> list[int]:
    if not all(word.isdecimal() and int(word) for word in text.split(",")):
        raise argparse.ArgumentTypeError(f"expected positive integers, got {text!r}")
    return [int(word) for word in text.split(",")]


def main() -> None:
    given = _arguments()
    _harness.end_cleanly_when_told()
    os.environ["HAJAX_CACHE"] = "0"
    with tempfile.TemporaryDirectory(prefix="hajax-bench-") as folder:
        size = "tiny" if given.tiny else "0.8B"
        make = [
            sys.executable,
            str(Path(__file__).with_name("_model_weights.py")),
            folder,
            str(given.layers),
            DTYPES[given.dtype],
            size,
        ]
        _harness.progress("writing random weights")
        subprocess.run(make, check=True, stdout=sys.stderr)
        rows, missing, entries = measure(given, Path(folder))
    report = {"machine": _harness.machine(entries, given.runs, given.threads), "rows": rows, "missing": missing}
    _harness.publish(report, given.json, show)


if __name__ == "__main__":
    main()
