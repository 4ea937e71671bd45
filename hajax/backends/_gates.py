"""Gates as the Ascend kernel reads them: [Hv, gates], every sequence's tokens in whole chunks, zeros behind them."""

import itertools
from collections.abc import Iterable

import numpy as np

LEAST_LOG_DECAY = -1e4  # no exponential tells it from a decay to nothing


def gate_tokens(bounds: np.ndarray, tokens: int, chunk: int) -> np.ndarray:
    """For each entry of a head's gates its token's number over all rows of T tokens, batch * T where there is none.

    `bounds` int32[B, N + 1]: sequence n of row b is tokens bounds[b, n] up to bounds[b, n + 1].
    """
    none = bounds.shape[0] * tokens
    parts = [_in_chunks(row * tokens + start, end - start, chunk, none) for row, start, end in _sequences(bounds) if end > start]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _sequences(bounds: np.ndarray) -> Iterable[tuple[int, int, int]]:
    for row, ends in enumerate(bounds.tolist()):
        for start, end in itertools.pairwise(ends):
            yield row, start, end


def _in_chunks(first: int, count: int, chunk: int, none: int) -> np.ndarray:
    entries = np.full(-(-count // chunk) * chunk, none, np.int64)
    entries[:count] = np.arange(first, first + count)
    return entries


def by_head(gate: np.ndarray, entries: np.ndarray) -> np.ndarray:
    """float32[Hv, gates] of a gate [B, T, Hv]."""
    rows = gate.reshape(-1, gate.shape[-1]).astype(np.float32)
    rows = np.concatenate([rows, np.zeros((1, rows.shape[1]), np.float32)])
    return np.ascontiguousarray(rows[entries].T)
