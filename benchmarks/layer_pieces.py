"""The pieces of a Qwen3.5-0.8B delta-rule layer around its matrix products: hajax's kernels beside XLA's own code for them.

    python benchmarks/layer_pieces.py [--json] [--tokens 1,512,2048] [--runs N] [--threads N]

A row is a piece at a length in a dtype: the short convolution with silu, its 6144 channels cut into query, key and value (4
taps); the gated norm of 16 heads of 128. Median CPU and wall milliseconds of a jitted call, kernel and plain jnp in turns in one
process; `speedup` is of CPU time, which other processes disturb less.
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import _harness
import _machine

CHANNELS, HEADS, DIM, TAPS = 6144, 16, 128, 4
IMPLEMENTATIONS = {"kernel": "cpu", "xla": "xla"}


def pieces(tokens: int, dtype: str) -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    """Name -> function(implementation, *arrays) and its arrays."""
    import jax
    import jax.numpy as jnp

    from hajax import gated_rms_norm
    from hajax.ops._causal_conv1d import causal_conv1d_split

    def draw(number: int, *shape: int, kind: str = dtype) -> Any:
        return jax.random.normal(jax.random.key(number), shape, jnp.float32).astype(kind)

    def convolve(implementation: str, x: Any, weight: Any, state: Any) -> Any:
        sizes = (CHANNELS // 3,) * 3
        return causal_conv1d_split(x, weight, sizes, initial_state=state, activation="silu", implementation=implementation)

    def normalise(implementation: str, x: Any, gate: Any, weight: Any) -> Any:
        return gated_rms_norm(x, gate, weight, implementation=implementation)

    heads = (1, tokens, HEADS, DIM)
    return {
        "convolution": (
            convolve,
            (draw(0, 1, tokens, CHANNELS), draw(1, CHANNELS, TAPS), draw(2, 1, TAPS - 1, CHANNELS)),
        ),
        "gated norm": (normalise, (draw(3, *heads, kind="float32"), draw(4, *heads), draw(5, DIM, kind="float32"))),
    }


def measure(function: Callable[..., Any], arrays: tuple[Any, ...], runs: int) -> dict[str, float]:
    import jax

    calls: dict[str, Callable[[], Any]] = {}
    for name, implementation in IMPLEMENTATIONS.items():
        compiled = jax.jit(lambda *xs, implementation=implementation: function(implementation, *xs)).lower(*arrays).compile()
        calls[name] = lambda compiled=compiled: jax.block_until_ready(compiled(*arrays))
    found: dict[str, list[float]] = {f"{name}_{clock}": [] for name in calls for clock in ("cpu_ms", "wall_ms")}
    for call in calls.values():
        call()
    for _ in range(runs):
        for name, call in calls.items():
            wall, cpu = time.perf_counter(), time.process_time()
            call()
            found[f"{name}_cpu_ms"].append(1e3 * (time.process_time() - cpu))
            found[f"{name}_wall_ms"].append(1e3 * (time.perf_counter() - wall))
    medians = {name: round(statistics.median(values), 4) for name, values in found.items()}
    return {**medians, "speedup": round(medians["xla_cpu_ms"] / medians["kernel_cpu_ms"], 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object {machine, rows, missing}")
    parser.add_argument("--tokens", default="1,512,2048", help="lengths, comma-separated")
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--threads", type=int, default=_machine.usable_cpus())
    given = parser.parse_args()
    _harness.check_threads(parser, given.threads)
    words = given.tokens.split(",")
    if not all(word.isdecimal() and int(word) for word in words) or given.runs < 1:
        parser.error("--tokens, --runs: expected positive integers")
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: given.threads])
    os.environ["NPROC"] = os.environ["HAJAX_CPU_THREADS"] = str(given.threads)
    rows = []
    for tokens in map(int, words):
        for dtype in ("float32", "bfloat16"):
            for piece, (function, arrays) in pieces(tokens, dtype).items():
                times = measure(function, arrays, given.runs)
                rows.append({"piece": piece, "tokens": tokens, "dtype": dtype, "threads": given.threads, **times})
    if given.json:
        print(json.dumps({"machine": _machine.facts(), "rows": rows, "missing": []}, indent=1))
        return
    for row in rows:
        print(
            f"{row['piece']:12} T={row['tokens']:<5} {row['dtype']:9} kernel {row['kernel_cpu_ms']:8.3f} ms, "
            f"XLA {row['xla_cpu_ms']:8.3f} ms of CPU time ({row['speedup']:.2f}x)"
        )


if __name__ == "__main__":
    main()
