"""The generation loop: a prompt in bucketed chunks, then token after token. It is handed the compiled steps."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

BUCKETS = (64, 128, 256, 512, 1024, 2048)
_CAPACITIES = (256, 512, 1024)
_LONGEST_PAUSE_SECONDS = 1e-3


@dataclasses.dataclass(frozen=True, slots=True)
class Steps:
    """prefill(tokens [B, T], lengths [B], cache) -> (logits, cache); pick(logits, step) -> token [B];
    advance(token, step, cache) -> (token, cache). Caches handed in are used up."""

    prefill: Callable[[Any, Any, Any], tuple[Any, Any]]
    pick: Callable[[Any, int], Any]
    advance: Callable[[Any, int, Any], tuple[Any, Any]]


@dataclasses.dataclass(frozen=True, slots=True)
class Generation:
    """tokens [B, new]: after a row's end token, that token repeats; counts [B]: its tokens up to and with the end token.

    Seconds are wall clock on this machine, without compilation; the first new token belongs to the prefill.
    """

    tokens: np.ndarray
    counts: np.ndarray
    prompt_tokens: int
    new_tokens: int
    compile_seconds: float
    prefill_seconds: float
    decode_seconds: float

    @property
    def prefill_tokens_per_second(self) -> float:
        return self.prompt_tokens / max(self.prefill_seconds, 1e-9)

    @property
    def decode_tokens_per_second(self) -> float:
        """Of all rows together; 0 when no token was decoded after the first."""
        later = self.new_tokens - len(self.counts)
        return later / max(self.decode_seconds, 1e-9) if later > 0 else 0.0


def chunks(tokens: int) -> Iterator[tuple[int, int]]:
    """(start, size) of the compiled pieces that cover `tokens`: whole largest buckets, then the smallest that holds the rest."""
    start = 0
    while tokens - start > BUCKETS[-1]:
        yield start, BUCKETS[-1]
        start += BUCKETS[-1]
    yield start, next(size for size in BUCKETS if size >= tokens - start)


def capacity_for(tokens: int) -> int:
    """A cache capacity that holds `tokens`, from a short list, so that few programs are compiled."""
    for size in _CAPACITIES:
        if size >= tokens:
            return size
    return -(-tokens // _CAPACITIES[-1]) * _CAPACITIES[-1]


def pieces(tokens: np.ndarray, lengths: np.ndarray) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """(start, tokens [B, size], lengths [B]) for each chunk of a padded prompt [B, T]."""
    longest = int(lengths.max())
    for start, size in chunks(longest):
        part = np.zeros((len(tokens), size), np.int32)
        held = tokens[:, start : min(start + size, longest)]
        part[:, : held.shape[1]] = held
        yield start, part, np.clip(lengths - start, 0, size).astype(np.int32)


def run(
    steps: Steps,
    tokens: np.ndarray,
    lengths: np.ndarray,
    cache: Any,
    *,
    max_new_tokens: int,
    eos: Sequence[int],
    on_tokens: Callable[[np.ndarray, np.ndarray], None] | None = None,
    compile_seconds: float = 0.0,
) -> Generation:
    """Reads the prompts [B, T], then up to max_new_tokens new ones, until every row has met an end token.

    on_tokens(token [B], fresh [B] bool) is called after each step; fresh is false for rows that had ended before.
    """
    began = time.perf_counter()
    token, cache = _first_token(steps, tokens, lengths, cache)
    wait(token)
    prefilled = time.perf_counter()
    ended = np.zeros(len(tokens), bool)
    counts = np.zeros(len(tokens), np.int64)
    columns: list[np.ndarray] = []
    for step in range(max_new_tokens):
        following = None
        if step + 1 < max_new_tokens:  # dispatched before this token is read, so that the device never waits for Python
            following, cache = steps.advance(token, step + 1, cache)
        wait(token)
        column = on_host(token)
        if (column < 0).any():  # NO_TOKEN of the samplers
            row = int(np.argmin(column))
            raise ValueError(
                f"logits: expected numbers, got NaN in row {row} at new token {step} (NaN in the weights, or an overflow)"
            )
        if columns:
            column = np.where(ended, columns[-1], column)
        columns.append(column)
        counts += ~ended
        if on_tokens is not None:
            on_tokens(column, ~ended)
        ended |= np.isin(column, np.asarray(eos, np.int64))
        if ended.all():
            break
        token = following
    return Generation(
        tokens=np.stack(columns, axis=1).astype(np.int32),
        counts=counts,
        prompt_tokens=int(lengths.sum()),
        new_tokens=int(counts.sum()),
        compile_seconds=compile_seconds,
        prefill_seconds=prefilled - began,
        decode_seconds=time.perf_counter() - prefilled,
    )


def _first_token(steps: Steps, tokens: np.ndarray, lengths: np.ndarray, cache: Any) -> tuple[Any, Any]:
    """Rows may end in different chunks: each keeps the logits of the chunk that held its last token."""
    last: np.ndarray | None = None
    for _, part, count in pieces(tokens, lengths):
        logits, cache = steps.prefill(part, count, cache)
        wait(logits)
        if last is None and (count == lengths).all():
            return steps.pick(logits, 0), cache
        here = on_host(logits)
        last = here if last is None else np.where((count > 0)[:, None], here, last)
    return steps.pick(last, 0), cache


def wait(array: Any) -> None:
    """Waits in Python, so that Ctrl-C is seen during a long computation. A torch tensor is waited for when it is read."""
    pause = 2e-5
    while not getattr(array, "is_ready", lambda: True)():
        time.sleep(pause)
        pause = min(pause * 1.5, _LONGEST_PAUSE_SECONDS)


def on_host(array: Any) -> np.ndarray:
    """A JAX array or a torch tensor of any device as numpy's own."""
    return np.array(array.cpu() if hasattr(array, "cpu") else array)
