"""Trains the demo model on .corpus and writes a Hugging Face folder, OUT/demo.

Pure JAX: hajax's own forward, differentiated through hajax.gated_delta_rule. Kept is the checkpoint with the lowest
validation loss; heldout.txt is read once, at the end. See training/README.md.
"""

import argparse
import dataclasses
import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import adamw
import folder
import jax
import jax.numpy as jnp
import numpy as np
import shape
from evaluate import measure
from tokenizers import Tokenizer


def corrupt(tokens: jax.Array, key: jax.Array, rate: float, vocab: int) -> jax.Array:
    """Inputs with a share of them replaced by random tokens: on a small text, what dropout does."""
    if rate == 0:
        return tokens
    where, what = jax.random.split(key)
    wrong = jax.random.randint(what, tokens.shape, shape.TURN_END_TOKEN + 1, vocab)
    return jnp.where(jax.random.bernoulli(where, rate, tokens.shape), wrong, tokens)


def drop_weights(params: Any, key: jax.Array, rate: float, vocab: int) -> Any:
    """DropConnect (Wan et al., 2013) on every matrix but the embedding; one mask a step."""
    if rate == 0:
        return params
    leaves, structure = jax.tree.flatten(params)
    dropped = [
        jnp.where(jax.random.bernoulli(own, 1 - rate, leaf.shape), leaf / (1 - rate), 0.0)
        if adamw.decays(leaf) and vocab not in leaf.shape
        else leaf
        for leaf, own in zip(leaves, jax.random.split(key, len(leaves)), strict=True)
    ]
    return jax.tree.unflatten(structure, dropped)


def cross_entropy(logits: jax.Array, targets: jax.Array) -> jax.Array:
    """Mean over all tokens, in nats."""
    chosen = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - chosen)


@dataclasses.dataclass(frozen=True, slots=True)
class Options:
    """What shapes the compiled step."""

    batch: int
    seq: int
    vocab: int
    compute: str
    token_dropout: float
    weight_dropout: float
    weight_decay: float
    average: float


Forward = Callable[[Any, jax.Array], jax.Array]
PROMPTS = ("It is a truth universally acknowledged, that", '"My dear Watson," said Holmes,', "Call me Ishmael.")


def make_step(forward: Forward, options: Options) -> Callable[..., tuple[adamw.State, jax.Array]]:
    """(state, all tokens, key, rate) -> (next state, loss); random windows are cut on the device; state is donated."""

    def loss(params: Any, tokens: jax.Array, key: jax.Array) -> jax.Array:
        wrong, masks = jax.random.split(key)
        params = drop_weights(params, masks, options.weight_dropout, options.vocab)
        inputs = corrupt(tokens[:, :-1], wrong, options.token_dropout, options.vocab)
        return cross_entropy(forward(to_compute(params, options.compute), inputs), tokens[:, 1:])

    def step(state: adamw.State, corpus: jax.Array, key: jax.Array, rate: jax.Array) -> tuple[adamw.State, jax.Array]:
        key = jax.random.fold_in(key, state.steps)
        where, noise = jax.random.split(key)
        starts = jax.random.randint(where, (options.batch, 1), 0, corpus.shape[0] - options.seq)
        tokens = corpus[starts + jnp.arange(options.seq + 1)[None]].astype(jnp.int32)
        value, grads = jax.value_and_grad(loss)(state.params, tokens, noise)
        grads = jax.tree.map(lambda g: g.astype(jnp.float32), grads)
        state, _ = adamw.update(state, grads, rate, decay=options.weight_decay, average_decay=options.average)
        return state, value

    return jax.jit(step, donate_argnums=0)


def to_compute(params: Any, dtype: str) -> Any:
    """Matrices in the compute dtype; norms and gate constants stay fp32."""
    return jax.tree.map(lambda p: p.astype(dtype) if p.ndim > 1 else p, params)


def as_stored(params: Any) -> Any:
    """About the values that the bf16 checkpoint will hold (it keeps two small kinds of tensor in fp32)."""
    return jax.tree.map(lambda p: p.astype(jnp.bfloat16).astype(jnp.float32), params)


def make_validation(
    forward: Forward, tokens: np.ndarray, batch: int, seq: int, most: int | None = None
) -> Callable[[Any], float]:
    """Mean loss over the validation tokens, in at most `most` windows; a last incomplete batch is left out."""
    count = (tokens.size - 1) // seq
    if count < 1:
        raise ValueError(f"valid.bin: expected more than seq = {seq} tokens, got {tokens.size}")
    count = count if most is None else min(count, most)
    batch = min(batch, count)
    index = np.arange(count)[:, None] * seq + np.arange(seq + 1)
    rows = tokens[index][: count // batch * batch].reshape(-1, batch, seq + 1).astype(np.int32)
    held = jnp.asarray(rows)

    @jax.jit
    def total(params: Any) -> jax.Array:
        params = as_stored(params)
        return jnp.mean(jax.lax.map(lambda row: cross_entropy(forward(params, row[:, :-1]), row[:, 1:]), held))

    return lambda params: float(total(params))


def sample(forward: Forward, params: Any, tokenizer: Tokenizer, prompt: str, count: int, seed: int = 0) -> str:
    """A taste of the model without a cache: one forward pass of fixed length a token, temperature 0.8."""
    ids = tokenizer.encode(prompt).ids
    buffer = jnp.zeros((1, len(ids) + count), jnp.int32).at[0, : len(ids)].set(jnp.asarray(ids))

    @jax.jit
    def extend(params: Any, buffer: jax.Array) -> jax.Array:
        def one(at: jax.Array, buffer: jax.Array) -> jax.Array:
            row = forward(params, buffer)[0, at - 1] / 0.8
            return buffer.at[0, at].set(jax.random.categorical(jax.random.fold_in(jax.random.key(seed), at), row))

        filled: jax.Array = jax.lax.fori_loop(len(ids), buffer.shape[1], one, buffer)
        return filled

    return str(tokenizer.decode(np.asarray(extend(params, buffer))[0].tolist()))


def progress_of(arguments: argparse.Namespace) -> Iterator[float]:
    """Progress in [0, 1] before each step, ending when the budget (--steps or --minutes) is used up."""
    done, begin = 0, None
    while True:
        if arguments.steps is not None:
            progress = done / arguments.steps
        else:
            # The clock starts with the third step: compiling does not count.
            begin = time.monotonic() if done == 2 else begin
            progress = 0.0 if begin is None else (time.monotonic() - begin) / (60 * arguments.minutes)
        if progress >= 1:
            return
        yield progress
        done += 1


def load_corpus(data: Path, name: str) -> np.ndarray:
    """Tokens of train.bin or valid.bin."""
    return np.fromfile(data / f"{name}.bin", dtype="<u2")


def train(arguments: argparse.Namespace) -> None:
    """The whole run; leaves OUT/demo, OUT/params and OUT/log.jsonl."""
    from hajax.models import qwen3_5

    tokenizer = Tokenizer.from_file(str(arguments.data / "tokenizer.json"))
    described = shape.demo_config(tokenizer.get_vocab_size())
    config = qwen3_5.Config.from_dict(described)

    def forward(params: Any, tokens: jax.Array) -> jax.Array:
        logits: jax.Array = qwen3_5.forward(params, config, tokens, implementation=arguments.implementation)
        return logits

    facts = run(arguments, qwen3_5, config, forward)
    params = folder.kept(arguments.out / "params", qwen3_5, config)
    heldout = (arguments.data / "heldout.txt").read_text(encoding="utf-8")
    whole = jax.jit(lambda tokens: forward(params, tokens))
    result = measure(whole, tokenizer, heldout, window=arguments.seq)
    folder.finish(arguments.out / "demo", arguments.out / "params", arguments.data, described, facts, result)
    print(json.dumps({"best": facts, "heldout": dataclasses.asdict(result)}), file=sys.stderr)
    for prompt in PROMPTS if arguments.sample_tokens > 0 else ():
        print("---\n" + sample(forward, params, tokenizer, prompt, arguments.sample_tokens), file=sys.stderr)


def run(arguments: argparse.Namespace, model: Any, config: Any, forward: Forward) -> dict[str, Any]:
    """The training loop; keeps the best parameters in OUT/params and returns what the card says about them."""
    sizes = {name: getattr(arguments, name) for name in ("batch", "seq")}
    strengths = {name: getattr(arguments, name) for name in ("token_dropout", "weight_dropout", "weight_decay", "average")}
    options = Options(vocab=config.vocab_size, compute=arguments.compute, **sizes, **strengths)
    corpus = jnp.asarray(load_corpus(arguments.data, "train"))
    step = make_step(forward, options)
    valid_tokens = load_corpus(arguments.data, "valid")
    validation = make_validation(forward, valid_tokens, options.batch, options.seq, arguments.valid_windows)
    key = jax.random.key(arguments.seed)
    state = adamw.start(model.init(config, key, jnp.float32))
    arguments.out.mkdir(parents=True, exist_ok=True)
    best: dict[str, Any] = {"valid": math.inf}
    losses: list[float] = []
    begin, done, checked = time.monotonic(), 0, 0

    def check() -> None:
        nonlocal best, checked
        tokens = done * options.batch * options.seq
        line = {
            "step": done,
            "tokens": tokens,
            "epochs": round(tokens / corpus.size, 2),
            "train": round(sum(losses) / max(1, len(losses)), 4),
            "valid": round(validation(state.average), 4),
            "seconds": round(time.monotonic() - begin, 1),
        }
        losses.clear()
        checked = done
        for file in (log, sys.stderr):
            print(json.dumps(line), file=file, flush=True)
        if line["valid"] < best["valid"]:
            best = line
            folder.keep(arguments.out / "params", model, state.average, config)

    with (arguments.out / "log.jsonl").open("w") as log:
        for progress in progress_of(arguments):
            state, loss = step(state, corpus, key, jnp.float32(adamw.cosine(progress, arguments.rate)))
            done += 1
            if done <= 2 or done % 10 == 0:  # else the host would run ahead of the device, and of the clock
                losses.append(float(loss))
            if done % arguments.check_every == 0:
                check()
        if checked < done:
            check()
    if not math.isfinite(best["valid"]):
        raise FloatingPointError("training: expected a finite validation loss, got none: lower --rate")
    return best | sizes | strengths | {"rate": arguments.rate, "device": jax.devices()[0].device_kind}


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(".corpus"), help="folder of corpus.py and tokenizer.py")
    parser.add_argument("--out", type=Path, required=True, help="OUT/demo becomes the checkpoint folder")
    budget = parser.add_mutually_exclusive_group(required=True)
    budget.add_argument("--minutes", type=float, help="train for so long; the learning rate follows the clock")
    budget.add_argument("--steps", type=int, help="train for so many steps")
    parser.add_argument("--batch", type=int, default=64, help="windows a step (default 64)")
    parser.add_argument("--seq", type=int, default=512, help="tokens a window (default 512)")
    parser.add_argument("--rate", type=float, default=2e-3, help="peak learning rate (default 2e-3)")
    parser.add_argument("--weight-decay", type=float, default=0.1)
    parser.add_argument("--token-dropout", type=float, default=0.05, help="share of inputs replaced (default 0.05)")
    parser.add_argument("--weight-dropout", type=float, default=0.1, help="share of weights dropped (default 0.1)")
    parser.add_argument("--average", type=float, default=0.999, help="memory of the parameters' moving average")
    parser.add_argument("--compute", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--implementation", choices=("cpu", "xla"), default="xla", help="of hajax.gated_delta_rule")
    parser.add_argument("--check-every", type=int, default=100, help="steps between validations (default 100)")
    parser.add_argument("--valid-windows", type=int, help="validate on so many windows only (for a quick try)")
    parser.add_argument("--sample-tokens", type=int, default=120, help="length of the samples printed at the end")
    parser.add_argument("--seed", type=int, default=0)
    train(parser.parse_args())


if __name__ == "__main__":
    main()
