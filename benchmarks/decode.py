"""One decode step of the gated delta rule: bytes of state read and written over time, beside what a copy of them takes.

    python benchmarks/decode.py [--json] [--quick] [--threads 1,2] [--batches 1,16] [--runs N]

T=1, Hk=16, Hv=32, D=128, an fp32 state of 64 KiB a head; state bytes are those read and those written, once each. Peers:

* `hajax`: `hajax.gated_delta_rule_step` under jit, the state donated and so updated where it lies
* `hajax_layers`: the same on 24 states in turn, as the layers of a model come (B=1; a call is one of them)
* `hajax_separate`: the state not donated; XLA copies it first
* `library`, `library_separate`: libhajax_cpu called directly, in place and from one array to another
* `onnxruntime`: com.microsoft LinearAttention, from one array to another

copy_gb_s: numpy.copyto of as many bytes, from one array to another, by as many threads, again and again, so that threads are
started once for hundreds of copies: what fits a cache is copied in it. memory_gb_s: the same with 256 MiB, which no
second-level cache holds. Both count bytes read and bytes written. share is state_gb_s / copy_gb_s, share_of_memory
state_gb_s / memory_gb_s; a step in place touches half the addresses of a copy, so both may pass 1. Samples of all take turns.
"""

import argparse
import os
import statistics
import tempfile
from pathlib import Path
from typing import Any

import _harness
import _machine
from _harness import Entry, PeerError, Worker

os.environ["HAJAX_CACHE"] = "0"

from hajax import conformance

KEY_HEADS, VALUE_HEADS, DIM = 16, 32, 128
LAYERS = 24
MEMORY_BYTES = 256 << 20
COPY_BYTES = 1 << 29
ENGINES = {
    "hajax": "_decode_peers",
    "hajax_layers": "_decode_peers",
    "hajax_separate": "_decode_peers",
    "library": "_decode_peers",
    "library_separate": "_decode_peers",
    "onnxruntime": "_onnx_peers",
}


def case_of(batch: int) -> str:
    sizes = {"key_heads": KEY_HEADS, "value_heads": VALUE_HEADS, "key_dim": DIM, "value_dim": DIM}
    return str(conformance.Case(1, batch=batch, **sizes, l2norm=True))


def state_bytes(batch: int) -> int:
    return 4 * batch * VALUE_HEADS * DIM * DIM


def measure(batches: list[int], threads: int, runs: int, missing: dict[str, str]) -> tuple[list[dict[str, Any]], list[Entry]]:
    """One row a peer and batch, and the samples behind them."""
    workers = {engine: Worker(engine, threads) for engine in dict.fromkeys(ENGINES.values())}
    rows, kept = [], []
    try:
        with tempfile.TemporaryDirectory(prefix="hajax-bench-") as folder:
            for batch in batches:
                entries = _prepare(batch, workers, Path(folder) / "output.npy", missing)
                _harness.interleave(list(entries.values()), runs)
                rows += _rows(batch, threads, runs, entries)
                kept += entries.values()
                for worker in workers.values():
                    worker.drop()
    finally:
        for worker in workers.values():
            worker.close()
    return rows, kept


def _prepare(batch: int, workers: dict[str, Worker], file: Path, missing: dict[str, str]) -> dict[str, Entry]:
    entries: dict[str, Entry] = {}
    copies = {"copy": state_bytes(batch), "memory": MEMORY_BYTES}
    for name in (*copies, *ENGINES):
        if name == "hajax_layers" and batch > 1:
            continue
        engine, peer = (ENGINES[name], name) if name in ENGINES else ("_decode_peers", "copy")
        problem = {"case": case_of(batch), "bytes": copies.get(name)}
        _harness.progress(f"B={batch} {name}")
        try:
            ready = workers[engine].ask("prepare", slot=len(entries), peer=peer, problem=problem, output=str(file))
        except PeerError as refusal:
            missing[name] = str(refusal)
            continue
        entries[name] = Entry(workers[engine], len(entries), ready["seconds"])
    return entries


def _rows(batch: int, threads: int, runs: int, entries: dict[str, Entry]) -> list[dict[str, Any]]:
    moved = 2 * state_bytes(batch)
    seconds = {name: statistics.median(s for s, _ in entry.kept(runs)) for name, entry in entries.items()}
    copy = moved * max(1, COPY_BYTES // state_bytes(batch)) / seconds.pop("copy") / 1e9
    memory = 2 * MEMORY_BYTES * max(1, COPY_BYTES // MEMORY_BYTES) / seconds.pop("memory") / 1e9
    rows = []
    for peer, whole in seconds.items():
        taken = whole / LAYERS if peer == "hajax_layers" else whole
        rate = moved / taken / 1e9
        sizes = {"B": batch, "Hk": KEY_HEADS, "Hv": VALUE_HEADS, "D": DIM, "threads": threads}
        rates = {"state_gb_s": rate, "copy_gb_s": copy, "memory_gb_s": memory}
        shares = {"share": rate / copy, "share_of_memory": rate / memory}
        times = {"us_median": round(1e6 * taken, 1), "runs": len(entries[peer].kept(runs))}
        rows.append({"peer": peer, **sizes, **times, **{n: round(x, 2) for n, x in (rates | shares).items()}})
    return rows


def show(report: dict[str, Any]) -> None:
    """A line a row."""
    names = ("us_median", "state_gb_s", "copy_gb_s", "memory_gb_s", "share", "share_of_memory")
    print(f"{'peer':<18}{'B':>4}{'threads':>9}" + "".join(f"{name:>17}" for name in names))
    for row in report["rows"]:
        print(f"{row['peer']:<18}{row['B']:>4}{row['threads']:>9}" + "".join(f"{row[name]:>17}" for name in names))
    for line in _harness.closing_lines(report):
        print(line)


def _numbers(text: str) -> list[int]:
    numbers = text.split(",")
    if not all(number.isdecimal() and int(number) for number in numbers):
        raise argparse.ArgumentTypeError(f"expected positive integers with commas, got {text!r}")
    return [int(number) for number in numbers]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object {machine, rows, missing}")
    parser.add_argument("--quick", action="store_true", help="B=1, three runs")
    parser.add_argument("--threads", type=_numbers, default=[_machine.usable_cpus()], help="one or several, comma-separated")
    parser.add_argument("--batches", type=_numbers, help="comma-separated (1,16)")
    parser.add_argument("--runs", type=int, help="samples of each peer (15)")
    given = parser.parse_args()
    for threads in given.threads:
        _harness.check_threads(parser, threads)
    batches, runs = given.batches or ([1] if given.quick else [1, 16]), given.runs or (3 if given.quick else 15)
    missing: dict[str, str] = {}
    rows: list[dict[str, Any]] = []
    entries: list[Entry] = []
    for threads in given.threads:
        more, samples = measure(batches, threads, runs, missing)
        rows, entries = rows + more, entries + samples
    absent = [{"peer": peer, "reason": reason} for peer, reason in missing.items()]
    report = {"machine": _harness.machine(entries, runs, max(given.threads)), "rows": rows, "missing": absent}
    _harness.publish(report, given.json, show)


if __name__ == "__main__":
    main()
