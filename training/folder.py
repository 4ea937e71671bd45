"""The checkpoint folder of the demo model: written beside its place and moved there whole; and its model card."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import shape
from evaluate import Measure

CARD = """\
---
license: apache-2.0
language: en
library_name: hajax
---
# hajax demo model

A Qwen3.5-architecture language model of {millions:.1f} million parameters ({layers} layers, three of Gated DeltaNet to
one of gated attention; hidden size {hidden}; {vocab} byte-level BPE tokens), so that `hajax generate` prints words, not
noise. It knows nine novels and nothing else: expect their manner, not sense, facts or answers. It was not trained on
chat; the chat template is there to exercise the code.

## Data
Novels in the public domain: Austen died in 1817, Melville in 1891, Twain in 1910, Doyle in 1930. They come from Debian
packages; the packages' copyright files put what was packaged under MIT (R packages) and BSD-3-Clause (lz4), and the
Project Gutenberg headers were removed with the rest of the front and end matter.

| novel | author | Debian package | training bytes |
|---|---|---|---|
{books}

The last 5 % of every book were not trained on: the first part of them ({valid_bytes} bytes) chose the checkpoint, the
very last 1.5 % ({heldout_bytes} bytes, `heldout.txt`) are the test below and chose nothing.

## Training
`training/corpus.py`, `training/tokenizer.py`, `training/train.py`, in this order: AdamW through hajax's own
`gated_delta_rule` and its gradient, implementation "xla", on {device}. Best of the run: step {step}, {tokens} tokens
({epochs} passes over the text), {batch} windows of {seq} tokens a step, peak learning rate {rate}, weight decay
{weight_decay}, {token_dropout} of the input tokens replaced, {weight_dropout} of the weights dropped, moving average
{average}. Training loss {train}, validation loss {valid} nats a token. Stored in bf16; the decay rates and the DeltaNet
layers' norms in fp32, as published Qwen3.5 weights are.

## Held-out perplexity
**{perplexity:.2f} a token, {bits:.3f} bits a byte** ({scored} tokens), in windows of {seq} tokens that overlap by half.
Recompute it, with no network:

    python training/evaluate.py models/demo
"""


def keep(place: Path, model: Any, params: Any, config: Any) -> None:
    """Save params in bf16 at `place`, whole or not at all."""
    fresh = place.with_name(place.name + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    model.save(fresh, params, config, dtype=jnp.bfloat16)
    _move(fresh, place)


def kept(place: Path, model: Any, config: Any) -> Any:
    """What `keep` saved, in fp32."""
    return model.load_params(place, config, jnp.float32, progress=False)


def _move(fresh: Path, place: Path) -> None:
    old = place.with_name(place.name + ".old")
    shutil.rmtree(old, ignore_errors=True)
    if place.exists():
        os.rename(place, old)
    os.rename(fresh, place)
    shutil.rmtree(old, ignore_errors=True)


def card(described: dict[str, Any], sources: list[dict[str, Any]], facts: dict[str, Any], result: Measure) -> str:
    """README.md from what was used and measured."""
    books = "\n".join(
        f"| {s['title']} ({s['year']}) | {s['author']} | {s['package']} {s['version']} | {s['train_bytes']} |" for s in sources
    )
    return CARD.format(
        millions=shape.parameter_count(described) / 1e6,
        layers=described["num_hidden_layers"],
        hidden=described["hidden_size"],
        vocab=described["vocab_size"],
        books=books,
        valid_bytes=sum(s["valid_bytes"] for s in sources),
        heldout_bytes=sum(s["heldout_bytes"] for s in sources),
        perplexity=result.perplexity,
        bits=result.bits_per_byte,
        scored=result.tokens,
        **facts,
    )


def finish(place: Path, params: Path, data: Path, described: dict[str, Any], facts: dict[str, Any], result: Measure) -> None:
    """The complete folder: weights, config, tokenizer, generation settings, held-out text, card."""
    fresh = place.with_name(place.name + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    shutil.copyfile(params / "model.safetensors", fresh / "model.safetensors")
    for name in ("tokenizer.json", "tokenizer_config.json", "heldout.txt"):
        shutil.copyfile(data / name, fresh / name)
    sources = json.loads((data / "sources.json").read_text())
    (fresh / "config.json").write_text(json.dumps(described, indent=2) + "\n")
    (fresh / "generation_config.json").write_text(json.dumps(shape.generation_config(), indent=2) + "\n")
    (fresh / "README.md").write_text(card(described, sources, facts, result))
    _move(fresh, place)
