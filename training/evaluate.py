"""Held-out perplexity of a checkpoint folder: `python training/evaluate.py models/demo`. Needs no network.

The text (heldout.txt of the folder) is cut at <|endoftext|>. Each passage is read after one such token, in windows that
overlap by half, so a token is scored with at least half a window before it, or all of its passage if that is shorter.
"""

import argparse
import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from tokenizers import Tokenizer

END = "<|endoftext|>"


@dataclass(frozen=True, slots=True)
class Measure:
    """Cross-entropy of a text: perplexity is per token of this tokenizer, bits_per_byte compares across tokenizers."""

    tokens: int
    bytes: int
    perplexity: float
    bits_per_byte: float


def windows(tokens: list[int], size: int) -> list[tuple[list[int], int]]:
    """(at most size + 1 tokens, index of the first target to score); each token but the first is a target once."""
    stride = max(1, size // 2)
    cut, scored = [], 1
    while scored < len(tokens):
        begin = max(0, scored - 1 - stride) if scored > 1 else 0
        end = min(len(tokens), begin + size + 1)
        cut.append((tokens[begin:end], scored - begin - 1))
        scored = end
    return cut


@jax.jit
def _surprise(logits: jax.Array, targets: jax.Array) -> jax.Array:
    return jax.nn.logsumexp(logits, axis=-1) - jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]


def measure(
    logits: Callable[[jax.Array], jax.Array], tokenizer: Tokenizer, text: str, *, window: int = 512, batch: int = 8
) -> Measure:
    """logits: tokens [B, T] int32 -> [B, T, vocab] fp32."""
    passages = [passage.strip("\n") for passage in text.split(END) if passage.strip()]
    first = int(tokenizer.token_to_id(END) or 0)  # a special token: number 0
    cut = [w for passage in passages for w in windows([first, *tokenizer.encode(passage).ids], window)]
    nats, count = 0.0, 0
    for begin in range(0, len(cut), batch):
        part = cut[begin : begin + batch]
        tokens = np.full((batch, window + 1), first, np.int32)  # padding stands to the right, where nothing looks at it
        wanted = np.zeros((batch, window), bool)
        for row, (ids, start) in enumerate(part):
            tokens[row, : len(ids)] = ids
            wanted[row, start : len(ids) - 1] = True
        lost = np.asarray(_surprise(logits(jnp.asarray(tokens[:, :-1])), jnp.asarray(tokens[:, 1:])), np.float64)
        nats += float(lost[wanted].sum())
        count += int(wanted.sum())
    size = sum(len(passage.encode()) for passage in passages)
    return Measure(count, size, math.exp(nats / count), nats / math.log(2) / size)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="checkpoint folder")
    parser.add_argument("--text", type=Path, help="text file (default: heldout.txt of the folder)")
    parser.add_argument("--window", type=int, default=512, help="tokens a window (default 512, as in training)")
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"), help="compute dtype")
    parser.add_argument("--implementation", choices=("cpu", "xla", "sim"), help="default: the best that runs here")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a sentence")
    arguments = parser.parse_args()
    import hajax

    model: Any = hajax.models.load(arguments.folder, arguments.dtype, implementation=arguments.implementation)
    text = (arguments.text or arguments.folder / "heldout.txt").read_text(encoding="utf-8")
    tokenizer = Tokenizer.from_file(str(arguments.folder / "tokenizer.json"))
    result = measure(model.logits, tokenizer, text, window=arguments.window)
    if arguments.json:
        print(json.dumps(asdict(result)))
    else:
        print(
            f"perplexity {result.perplexity:.2f} a token, {result.bits_per_byte:.3f} bits a byte "
            f"({result.tokens} tokens, {result.bytes} bytes)"
        )


if __name__ == "__main__":
    main()
