"""A loaded model: conveniences over the pure functions, with the programs that they compiled."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import jax
import numpy as np
from hajax.models import _generate, _sampling
from hajax.models._generate import Generation, Steps
from hajax.models._sampling import Sampling
from hajax.models._tokenizer import Tokenizer

from hajax.ops import _options

OnTokens = Callable[[np.ndarray, np.ndarray], None]


class Model:
    """A checkpoint ready to use. `config` and `params` belong to the pure functions of `family` (hajax.models.qwen3_5, ...).

    jit: what compiles, hajax.jit or its like for another backend. eos: ids that end a text unless `generate` is told others.
    """

    def __init__(
        self,
        family: ModuleType,
        config: Any,
        params: Any,
        *,
        folder: str,
        eos: Sequence[int],
        implementation: str | None,
        jit: Callable[..., Any],
    ) -> None:
        self.family, self.config, self.params = family, config, params
        self.folder, self.eos, self.implementation = folder, tuple(eos), implementation
        self.dtype = params.embed.dtype
        options = {"implementation": implementation}
        self._last = jit(_bind(family.prefill, config, logits="last", implementation=implementation), donate_argnums=2, **options)
        self._all = jit(_bind(family.prefill, config, logits="all", implementation=implementation), donate_argnums=2, **options)
        self._decode = jit(_bind(family.decode, config, implementation=implementation), donate_argnums=2, capture=True, **options)
        self._picks = (jit(_sampling.greedy_tokens), jit(_sampling.sampled_tokens))
        self._programs: dict[Any, Any] = {}

    @functools.cached_property
    def tokenizer(self) -> Tokenizer:
        """Read at first use; raises FileNotFoundError when the folder has none."""
        return Tokenizer(self.folder)

    def plans(self) -> tuple[Any, ...]:
        """The kernel plans of the programs compiled so far."""
        found = [plan for program in (self._last, self._all, self._decode) for plan in program.plans()]
        return tuple(dict.fromkeys(found))

    def logits(self, tokens: Any, *, lengths: Any = None) -> np.ndarray:
        """tokens [B, T] (or [T]) -> logits [B, T, vocab] fp32; row b's are zero past lengths[b].

        A prompt is read in chunks of at most 2048 tokens, so memory beyond the result stays bounded.
        """
        rows, counts = self._prompt(tokens, lengths, new_tokens=0)
        batch, longest = rows.shape
        result = np.zeros((batch, longest, self.config.vocab_size), np.float32)
        cache = self._empty_cache(batch, _generate.capacity_for(longest))
        for start, part, count in _generate.pieces(rows, counts):
            program = self._compile("all", self._all, self.params, part, cache, count)
            part_logits, cache = program(self.params, part, cache, count)
            _generate.wait(part_logits)
            stop = min(start + part.shape[1], longest)
            keep = (np.arange(stop - start)[None] < count[:, None])[..., None]
            result[:, start:stop] = np.where(keep, _generate.on_host(part_logits)[:, : stop - start], 0.0)
        return result

    def generate(
        self,
        tokens: Any,
        *,
        max_new_tokens: int = 128,
        temperature: float = 0.0,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int = 0,
        eos: int | Sequence[int] | None = None,
        lengths: Any = None,
        on_tokens: OnTokens | None = None,
    ) -> np.ndarray:
        """New token ids [B, new] after prompts [B, T]; see `complete` for the arguments."""
        return self.complete(
            tokens,
            max_new_tokens=max_new_tokens,
            sampling=Sampling(temperature, top_k, top_p, seed),
            eos=eos,
            lengths=lengths,
            on_tokens=on_tokens,
        ).tokens

    def complete(
        self,
        tokens: Any,
        *,
        max_new_tokens: int = 128,
        sampling: Sampling | None = None,
        eos: int | Sequence[int] | None = None,
        lengths: Any = None,
        on_tokens: OnTokens | None = None,
    ) -> Generation:
        """Generates as `generate` does and says how long it took.

        tokens: ids [B, T], [T], or a list of rows of different lengths. lengths [B]: of right-padded rows.
        eos: ids that end a row; None takes the checkpoint's, () none. on_tokens(token [B], fresh [B]): after each step.
        Raises ValueError, naming the argument, for an empty prompt, ids outside the vocabulary, or more tokens than
        max_position_embeddings.
        """
        sampling = Sampling() if sampling is None else sampling
        if isinstance(max_new_tokens, bool) or not isinstance(max_new_tokens, (int, np.integer)) or max_new_tokens < 1:
            raise ValueError(f"max_new_tokens: expected an integer >= 1, got {max_new_tokens!r}")
        ends = self.eos if eos is None else _end_tokens(eos)
        rows, counts = self._prompt(tokens, lengths, new_tokens=int(max_new_tokens))
        began = time.perf_counter()
        cache = self._empty_cache(len(rows), _generate.capacity_for(rows.shape[1] + int(max_new_tokens)))
        steps = self._steps(rows, counts, cache, sampling)
        return _generate.run(
            steps,
            rows,
            counts,
            cache,
            max_new_tokens=int(max_new_tokens),
            eos=ends,
            on_tokens=on_tokens,
            compile_seconds=time.perf_counter() - began,
        )

    def _steps(self, rows: np.ndarray, counts: np.ndarray, cache: Any, sampling: Sampling) -> Steps:
        """Everything that this prompt needs, compiled before the clock starts."""
        batch, vocab = len(rows), self.config.vocab_size
        programs = {}
        for _, part, count in _generate.pieces(rows, counts):
            programs[part.shape[1]] = self._compile("last", self._last, self.params, part, cache, count)
        decode = self._compile("decode", self._decode, self.params, np.zeros(batch, np.int32), cache)
        logits = np.zeros((batch, vocab), np.float32)
        if sampling.greedy:
            pick = self._compile("pick greedy", self._picks[0], logits)
            scalars: tuple[Any, ...] = ()
        else:
            top_k = vocab if sampling.top_k is None else min(int(sampling.top_k), vocab)
            top_p = 1.0 if sampling.top_p is None else sampling.top_p
            scalars = (np.uint32(sampling.seed), np.float32(sampling.temperature), np.int32(top_k), np.float32(top_p))
            pick = self._compile("pick", self._picks[1], logits, scalars[0], np.int32(0), *scalars[1:])

        def choose(found: Any, index: int) -> Any:
            return pick(found, *scalars[:1], *((np.int32(index),) if scalars else ()), *scalars[1:])

        def advance(token: Any, index: int, held: Any) -> tuple[Any, Any]:
            found, held = decode(self.params, token, held)
            return choose(found, index), held

        def prefill(part: Any, count: Any, held: Any) -> tuple[Any, Any]:
            return programs[part.shape[1]](self.params, part, held, count)

        return Steps(prefill=prefill, pick=choose, advance=advance)

    def _compile(self, name: str, jitted: Any, *arguments: Any) -> Any:
        varying = [argument for argument in arguments if argument is not self.params]
        shapes = tuple(np.shape(leaf) for leaf in jax.tree.leaves(varying))
        key = (name, shapes, _options.chosen(self.implementation, None))  # `hajax.use` may have changed
        if key not in self._programs:
            self._programs[key] = jitted.lower(*arguments).compile()
        return self._programs[key]

    def _empty_cache(self, batch: int, capacity: int) -> Any:
        return self.family.init_cache(self.config, batch, capacity, self.dtype)

    def _prompt(self, tokens: Any, lengths: Any, *, new_tokens: int) -> tuple[np.ndarray, np.ndarray]:
        """Checked prompts: ids int32 [B, T] without padding columns, lengths int32 [B]."""
        rows, counts = _rows(tokens, lengths)
        rows = rows[:, : counts.max()]
        real = np.arange(rows.shape[1])[None] < counts[:, None]
        vocab = self.config.vocab_size
        wrong = rows[real & ((rows < 0) | (rows >= vocab))]
        if wrong.size:
            raise ValueError(f"tokens: expected ids from 0 to {vocab - 1}, got {wrong[0]}")
        most = self.config.max_position_embeddings
        longest = int(counts.max())
        if longest + new_tokens > most:
            extra = f" and {new_tokens} new ones" if new_tokens else ""
            raise ValueError(f"tokens: expected at most max_position_embeddings={most}, got {longest} prompt tokens{extra}")
        return np.where(real, rows, 0).astype(np.int32), counts


def _bind(function: Callable[..., Any], config: Any, **options: Any) -> Callable[..., Any]:
    """prefill or decode as a function of arrays alone: (params, tokens, cache, and lengths if any)."""

    def bound(params: Any, tokens: Any, cache: Any, lengths: Any = None) -> Any:
        given = options if lengths is None else {**options, "lengths": lengths}
        return function(params, config, tokens, cache, **given)

    return bound


def _rows(tokens: Any, lengths: Any) -> tuple[np.ndarray, np.ndarray]:
    """Anything that holds ids as [B, T] int64, and each row's length."""
    if isinstance(tokens, str):
        raise ValueError("tokens: expected token ids, got text (model.tokenizer.encode makes ids of it)")
    ragged = isinstance(tokens, (list, tuple)) and tokens and all(np.ndim(row) == 1 for row in tokens)
    if ragged and lengths is None:
        sizes = [len(row) for row in tokens]
        if min(sizes) == 0:
            raise ValueError(f"tokens: expected at least one token in each prompt, got none in row {sizes.index(0)}")
        rows = np.zeros((len(sizes), max(sizes)), np.int64)
        for row, given in zip(rows, tokens, strict=True):
            row[: len(given)] = _integers(given)
        return rows, np.asarray(sizes, np.int32)
    rows = _integers(tokens)
    if rows.size == 0:
        raise ValueError(f"tokens: expected at least one token in each prompt, got shape {list(rows.shape)}")
    if rows.ndim not in (1, 2):
        raise ValueError(f"tokens: expected [B, T] or [T], got shape {list(rows.shape)}")
    rows = rows[None] if rows.ndim == 1 else rows
    if lengths is None:
        return rows, np.full(len(rows), rows.shape[1], np.int32)
    counts = np.atleast_1d(np.asarray(lengths))
    if counts.shape != (len(rows),) or not np.issubdtype(counts.dtype, np.integer):
        raise ValueError(f"lengths: expected integers [{len(rows)}], got {counts.dtype}{list(counts.shape)}")
    if counts.min() < 1 or counts.max() > rows.shape[1]:
        bad = counts[(counts < 1) | (counts > rows.shape[1])][0]
        raise ValueError(f"lengths: expected from 1 to {rows.shape[1]} tokens, got {bad}")
    return rows, counts.astype(np.int32)


def _end_tokens(eos: Any) -> tuple[int, ...]:
    array = np.atleast_1d(np.asarray(eos))
    if array.size and (array.ndim != 1 or not np.issubdtype(array.dtype, np.integer)):
        raise ValueError(f"eos: expected an integer or a list of them, got {eos!r}")
    return tuple(array.tolist())


def _integers(values: Any) -> np.ndarray:
    try:
        array = np.asarray(values)
    except ValueError:
        raise ValueError("tokens: expected integers [B, T] or [T], got rows of different lengths beside `lengths`") from None
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"tokens: expected integers, got {array.dtype}")
    return array.astype(np.int64)
