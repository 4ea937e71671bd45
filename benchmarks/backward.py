"""The gradient of the delta-rule operators on this CPU: the native kernel beside the pullback of the jnp formulation under jit.

    python benchmarks/backward.py [--json] [--threads N] [--ops gdn,kda] [--cases 512x16,4096x32] [--runs N]

A case is TxHv: B=1, Hk=16, D=128, fp32, random inputs, l2norm inside, cotangents of output and final state. Timed is the
gradient alone, from operands and cotangents to the gradients of all six operands, without the forward pass. Both peers run in
one process on the same threads (affinity, NPROC, HAJAX_CPU_THREADS) and take turns. ms_median is wall clock, cpu_ms the median
processor time of all threads, which a busy machine disturbs less; times_hajax and cpu_times_hajax are a peer's over the kernel's.
temp_bytes is what XLA allocates besides operands and results, the kernel's scratch included (compiled.memory_analysis()). nmse is
the largest of the six gradients', one peer against the other.
"""

import argparse
import os
import statistics
import time
from typing import Any

import _harness
import _machine

KEY_HEADS, DIM = 16, 128
PEERS = {"hajax": "cpu", "jnp": "xla"}
CASES = ((512, 16), (512, 32), (2048, 16), (2048, 32), (4096, 16), (4096, 32))
OPS = {"gdn": "gated_delta_rule", "kda": "kda"}
L2NORM_EPS = 1e-6


def _problem(op: str, tokens: int, heads: int) -> tuple[Any, ...]:
    import jax.numpy as jnp
    import numpy as np

    rng = np.random.default_rng(0)

    def normal(*shape: int) -> Any:
        return jnp.asarray(rng.standard_normal(shape), jnp.float32)

    query, key = normal(1, tokens, KEY_HEADS, DIM), normal(1, tokens, KEY_HEADS, DIM)
    value, state = normal(1, tokens, heads, DIM), normal(1, heads, DIM, DIM)
    channels = (DIM,) if op == "kda" else ()
    log_decay = -jnp.exp(normal(1, tokens, heads, *channels) - 2)
    beta = jnp.asarray(rng.random((1, tokens, heads)), jnp.float32)
    bounds = jnp.asarray([[0, tokens]], jnp.int32)
    return query, key, value, log_decay, beta, state, bounds, normal(1, tokens, heads, DIM), normal(1, heads, DIM, DIM)


def _compile(op: str, implementation: str, operands: tuple[Any, ...]) -> Any:
    import jax

    from hajax.mechanisms import MECHANISMS
    from hajax.ops import _gradient
    from hajax.ops._static import Static

    static = Static(MECHANISMS[OPS[op]], DIM**-0.5, L2NORM_EPS, "float32", implementation)
    return jax.jit(lambda *xs: _gradient.gradients(static, *xs)).lower(*operands).compile()


def _sample(call: Any, operands: tuple[Any, ...]) -> tuple[float, float]:
    """Milliseconds of wall clock and of all threads' processor time."""
    import jax

    wall, cpu = time.perf_counter(), time.process_time()
    jax.block_until_ready(call(*operands))
    return 1e3 * (time.perf_counter() - wall), 1e3 * (time.process_time() - cpu)


def _largest_nmse(got: Any, expected: Any) -> float:
    import numpy as np

    def nmse(a: Any, b: Any) -> float:
        a, b = (np.asarray(x).astype(np.float64) for x in (a, b))
        return float(((a - b) ** 2).sum() / (b**2).sum())

    return max(nmse(a, b) for a, b in zip(got, expected, strict=True))


def measure(op: str, tokens: int, heads: int, threads: int, runs: int) -> list[dict[str, Any]]:
    """A row for each peer at one case."""
    operands = _problem(op, tokens, heads)
    calls = {peer: _compile(op, implementation, operands) for peer, implementation in PEERS.items()}
    results = {peer: call(*operands) for peer, call in calls.items()}  # also warms up
    nmse = _largest_nmse(results["hajax"], results["jnp"])
    samples: dict[str, list[tuple[float, float]]] = {peer: [] for peer in PEERS}
    for turn in range(runs):
        for peer in list(PEERS)[:: 1 if turn % 2 == 0 else -1]:
            samples[peer].append(_sample(calls[peer], operands))
    wall, cpu = ({peer: statistics.median(x[i] for x in samples[peer]) for peer in PEERS} for i in (0, 1))
    memory = {peer: calls[peer].memory_analysis().temp_size_in_bytes for peer in PEERS}
    return [
        {
            "peer": peer, "op": op, "dtype": "fp32", "T": tokens, "Hk": KEY_HEADS, "Hv": heads, "D": DIM, "threads": threads,
            "ms_median": round(wall[peer], 2), "ms_min": round(min(x[0] for x in samples[peer]), 2),
            "cpu_ms": round(cpu[peer], 2), "runs": runs, "temp_bytes": memory[peer],
            "times_hajax": round(wall[peer] / wall["hajax"], 2), "cpu_times_hajax": round(cpu[peer] / cpu["hajax"], 2),
            "bytes_over_hajax": round(memory[peer] / memory["hajax"], 2), "nmse": nmse,
        }
        for peer in PEERS
    ]  # fmt: skip


def show(report: dict[str, Any]) -> None:
    print(f"{'op':4}{'T':>6}{'Hv':>4}  {'peer':8}{'ms':>9}{'times':>7}{'cpu ms':>9}{'times':>7}{'temp MB':>9}{'times':>7}")
    for row in report["rows"]:
        print(
            f"{row['op']:4}{row['T']:6}{row['Hv']:4}  {row['peer']:8}{row['ms_median']:9.1f}{row['times_hajax']:7.2f}"
            f"{row['cpu_ms']:9.1f}{row['cpu_times_hajax']:7.2f}{row['temp_bytes'] / 1e6:9.1f}{row['bytes_over_hajax']:7.1f}"
        )
    print(f"{report['machine']['cpu']}, {report['machine']['threads']} threads, commit {report['machine']['commit']}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    parser.add_argument("--threads", type=int, default=_machine.usable_cpus())
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--ops", default=",".join(OPS))
    parser.add_argument("--cases", default=",".join(f"{t}x{h}" for t, h in CASES))
    arguments = parser.parse_args()
    _harness.check_threads(parser, arguments.threads)
    ops = arguments.ops.split(",")
    if wrong := [op for op in ops if op not in OPS]:
        parser.error(f"--ops: expected some of {sorted(OPS)}, got {wrong[0]!r}")
    try:
        cases = [tuple(int(n) for n in case.split("x")) for case in arguments.cases.split(",")]
        if any(t < 1 or h < 1 or h % KEY_HEADS for t, h in cases):
            raise ValueError
    except ValueError:
        parser.error(f"--cases: expected TxHv with Hv a multiple of {KEY_HEADS}, got {arguments.cases!r}")
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: arguments.threads])
    os.environ |= {
        "NPROC": str(arguments.threads),
        "HAJAX_CPU_THREADS": str(arguments.threads),
        "HAJAX_CACHE": "0",
    }  # plans of this code
    rows = []
    for op in ops:
        for tokens, heads in cases:
            _harness.progress(f"{op} T={tokens} Hv={heads}")
            rows += measure(op, tokens, heads, arguments.threads, arguments.runs)
    machine = {**_machine.facts(), "threads": arguments.threads}
    _harness.publish({"machine": machine, "rows": rows, "missing": []}, arguments.json, show)


if __name__ == "__main__":
    main()
