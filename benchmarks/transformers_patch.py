"""Prefill of a random Qwen3.5-0.8B under transformers on this CPU, with patch_transformers() and without, in turns.

    python benchmarks/transformers_patch.py [--json] [--tokens 2048] [--layers N] [--runs N] [--threads N] [--profile]

hidden 1024, 24 layers (three of the gated delta rule to one of attention), intermediate 3584, attention 8/2 heads of 256, delta
rule 16/16 heads of 128, vocabulary 248320, tied, fp32. A call takes one prompt, fills the cache and gives the last logits. A row
is a mode: seconds (median), `speedup` over the row without, `gemm_seconds` and `gemm_gflops` (the model's matrix products alone,
by torch.mm in the same shapes, in turns with the rest: what no patch around them can go below), `logits_max_abs_diff` from the
row without. `others` is the share of the machine that other processes took; samples of the least load are kept.
"""

import argparse
import os
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import _harness
import _machine

LAYERS, HIDDEN, INNER, VOCABULARY = 24, 1024, 3584, 248320
SHAPE = {
    "hidden_size": HIDDEN, "intermediate_size": INNER, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 256,
    "linear_num_key_heads": 16, "linear_num_value_heads": 16, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4, "rms_norm_eps": 1e-6, "tie_word_embeddings": True,
}  # fmt: skip
MLP = [(HIDDEN, INNER), (HIDDEN, INNER), (INNER, HIDDEN)]
PRODUCTS = {
    "linear_attention": [(HIDDEN, 6144), (HIDDEN, 2048), (HIDDEN, 16), (HIDDEN, 16), (2048, HIDDEN), *MLP],
    "full_attention": [(HIDDEN, 4096), (HIDDEN, 512), (HIDDEN, 512), (2048, HIDDEN), *MLP],
}


@dataclass(slots=True)
class Mode:
    """What is timed: a call, and its samples as (seconds, load of others)."""

    call: Callable[[], Any]
    samples: list[tuple[float, float]] = field(default_factory=list)

    def kept(self, runs: int) -> list[tuple[float, float]]:
        return sorted(self.samples, key=lambda sample: sample[1] > _harness.QUIET and sample[1])[:runs]

    def sample(self) -> None:
        watch = _machine.Stopwatch()
        self.call()
        elapsed = watch.stop()
        self.samples.append((elapsed.seconds, elapsed.others))


def modes(given: argparse.Namespace) -> tuple[dict[str, Mode], float, float]:
    """The modes, the largest difference of their logits, and the matrix products' operations in GFLOP."""
    import torch
    from transformers import Qwen3_5ForCausalLM, Qwen3_5TextConfig

    from hajax.integrations import patch_transformers

    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    _harness.progress("drawing random weights")
    config = Qwen3_5TextConfig(num_hidden_layers=given.layers, vocab_size=given.vocabulary, **SHAPE)
    model = Qwen3_5ForCausalLM(config).eval()
    tokens = torch.randint(0, given.vocabulary, (1, given.tokens))
    shapes = [shape for kind in config.layer_types for shape in PRODUCTS[kind]]
    operands = {shape: (torch.randn(given.tokens, shape[0]), torch.randn(shape[1], shape[0])) for shape in set(shapes)}
    results = {shape: torch.empty(given.tokens, shape[1]) for shape in operands}

    def plain() -> torch.Tensor:
        with torch.inference_mode():
            return model(tokens, use_cache=True, logits_to_keep=1).logits

    def patched() -> torch.Tensor:
        with patch_transformers():
            return plain()

    def products() -> None:
        with torch.inference_mode():
            for shape in shapes:
                x, weight = operands[shape]
                torch.mm(x, weight.t(), out=results[shape])

    _harness.progress("comparing logits")
    difference = float((plain() - patched()).abs().max())
    if given.profile:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            patched()
        _harness.progress(profile.key_averages().table(sort_by="self_cpu_time_total", row_limit=20))
    work = sum(2.0 * given.tokens * rows * columns for rows, columns in shapes) / 1e9
    return {"transformers": Mode(plain), "patched": Mode(patched), "products": Mode(products)}, difference, work


def measure(given: argparse.Namespace) -> tuple[list[dict[str, Any]], list[tuple[float, float]]]:
    """Rows, and the samples behind them."""
    found, difference, work = modes(given)
    order = list(found)
    for turn in range(given.runs * given.patience):
        for name in order[turn % 3 :] + order[: turn % 3]:
            _harness.progress(f"{name}, round {turn + 1}")
            found[name].sample()
        if all(sum(load <= _harness.QUIET for _, load in mode.samples) >= given.runs for mode in found.values()):
            break
    kept = {name: mode.kept(given.runs) for name, mode in found.items()}
    seconds = {name: statistics.median(one for one, _ in samples) for name, samples in kept.items()}
    rows = [
        {
            "case": f"{given.tokens} tokens, {given.layers} layers",
            "mode": name,
            "seconds": seconds[name],
            "seconds_min": min(one for one, _ in found[name].samples),
            "tokens_per_second": given.tokens / seconds[name],
            "speedup": seconds["transformers"] / seconds[name],
            "gemm_seconds": seconds["products"],
            "gemm_gflops": work / seconds["products"],
            "logits_max_abs_diff": difference if name == "patched" else 0.0,
            "others": max(load for _, load in kept[name]),
            "samples": len(found[name].samples),
        }
        for name in ("transformers", "patched")
    ]
    return rows, [sample for samples in kept.values() for sample in samples]


def show(report: dict[str, Any]) -> None:
    print(
        f"{'mode':<14}{'seconds':>9}{'least':>9}{'tokens/s':>10}{'speedup':>9}{'products':>10}{'GF/s':>7}{'diff':>10}{'others':>8}"
    )
    for row in report["rows"]:
        print(
            f"{row['mode']:<14}{row['seconds']:>9.2f}{row['seconds_min']:>9.2f}{row['tokens_per_second']:>10.0f}{row['speedup']:>9.2f}"
            f"{row['gemm_seconds']:>10.2f}{row['gemm_gflops']:>7.0f}{row['logits_max_abs_diff']:>10.1e}{row['others']:>8.0%}"
        )

    for line in _harness.closing_lines(report):
        print(line)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="machine, rows and missing as JSON")
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--layers", type=int, default=LAYERS)
    parser.add_argument("--vocabulary", type=int, default=VOCABULARY)
    parser.add_argument("--runs", type=int, default=5, help="quiet samples wanted of each mode")
    parser.add_argument("--patience", type=int, default=2, help="at most so many times the runs, where the machine is not quiet")
    parser.add_argument("--threads", type=int, default=_machine.usable_cpus())
    parser.add_argument("--profile", action="store_true", help="also print where a patched call spends its time")
    given = parser.parse_args()
    _harness.check_threads(parser, given.threads)
    if given.layers < 4:
        parser.error(f"--layers: expected 4 or more, as every fourth is one of attention, got {given.layers}")
    _harness.end_cleanly_when_told()
    os.environ["HAJAX_CACHE"] = "0"
    try:
        rows, samples = measure(given)
        missing: list[dict[str, str]] = []
    except ImportError as error:
        rows, samples, missing = [], [], [{"peer": "transformers", "reason": str(error)}]
    loads = [load for _, load in samples] or [0.0]
    load = {"other_load_median": round(statistics.median(loads), 3), "other_load_max": round(max(loads), 3)}
    machine = _machine.facts() | {"threads": given.threads} | load
    _harness.publish({"machine": machine, "rows": rows, "missing": missing}, given.json, show)


if __name__ == "__main__":
    main()
