"""The delta rule in fp64, chunk by chunk: what a long problem is compared with. Ratios are exp of differences of fp64 sums.

A log decay is clamped at -1000, whose exp is zero in fp64, so that sums stay small and -inf makes no NaN.
"""

import itertools
from collections.abc import Mapping

import numpy as np

Array = np.ndarray
CHUNK = {1: 64, 2: 16}  # by kind of decay: ratios per channel are [C, C, Dk]
_CLAMP = -1000.0


def chunkwise(arrays: Mapping[str, Array | None]) -> tuple[Array, Array]:
    """output [B, T, Hv, Dv] and final states [B, N, Hv, Dk, Dv] of the arrays that `hajax.backends.npu.execute` takes.

    One strength (beta) that erases and writes; log_decay [B, T, Hv] or [B, T, Hv, Dk]. Scaled by Dk ** -0.5.
    """
    given = {name: array for name, array in arrays.items() if array is not None}
    shared = given["value"].shape[2] // given["query"].shape[2]
    rows = {name: given[name].astype(np.float64) for name in ("query", "key", "value", "log_decay", "beta")}
    rows |= {name: np.repeat(rows[name], shared, axis=2) for name in ("query", "key")}
    per_channel = rows["log_decay"].ndim == 4
    decay = rows["log_decay"] if per_channel else rows["log_decay"][..., None]
    rows["log_decay"] = np.maximum(decay, _CLAMP)
    rows = {name: np.moveaxis(array, 2, 1) for name, array in rows.items()}  # heads before tokens
    output = np.zeros(rows["value"].shape)
    states = given["state_in"].astype(np.float64)
    for row, bounds in enumerate(given["bounds"]):
        for number, (start, end) in enumerate(itertools.pairwise(bounds)):
            for first in range(start, end, CHUNK[1 + per_channel]):
                chunk = slice(first, min(first + CHUNK[1 + per_channel], end))
                part = {name: array[row, :, chunk] for name, array in rows.items()}
                output[row, :, chunk], states[row, number] = _chunk(part, states[row, number])
    return np.moveaxis(output, 1, 2), states


def _chunk(part: Mapping[str, Array], state: Array) -> tuple[Array, Array]:
    """Scaled output [H, C, Dv] and the next state [H, Dk, Dv] of one chunk of all heads."""
    query, key, value, beta = part["query"], part["key"], part["value"], part["beta"][..., None]
    total = np.cumsum(part["log_decay"], axis=1)  # [H, C, 1 or Dk]
    below = np.tril(np.ones((key.shape[1],) * 2, bool))
    ratio = np.exp(np.where(below[:, :, None], total[:, :, None] - total[:, None], -np.inf))
    into = np.exp(total)
    system = np.eye(key.shape[1]) + beta * np.where(below & ~np.eye(key.shape[1], dtype=bool), _scores(key, key, ratio), 0)
    written = np.linalg.solve(system, beta * (value - (key * into) @ state))
    output = query.shape[-1] ** -0.5 * ((query * into) @ state + _scores(query, key, ratio) @ written)
    out_of = np.exp(total[:, -1:] - total)
    return output, into[:, -1, :, None] * state + (key * out_of).transpose(0, 2, 1) @ written


def _scores(left: Array, right: Array, ratio: Array) -> Array:
    """[H, C, C]: products of rows, weighted by the decay between them, which may differ by channel."""
    if ratio.shape[-1] == 1:
        return left @ right.transpose(0, 2, 1) * ratio[..., 0]
    return np.einsum("hijd,hid->hij", ratio * right[:, None], left)
