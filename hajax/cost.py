"""What a CPU launch costs, in multiply-accumulates that take as long. Modelled; used only to compare plans with one another."""

import math
from dataclasses import dataclass

from hajax.mechanisms import Mechanism
from hajax.plans import Shape
from hajax.targets import CpuTarget

# Fitted to single-thread CPU times on Zen 3 with AVX2 (benchmarks/planner_choices.py; one unit there is 24 ps, 41 G a second),
# as multiples of one multiply-accumulate of the large products. Choices and the best measured differ by a few per cent.
ROW_ELEMENT = 40.0  # loading, normalising and transposing one element of a key row and a query row
WEIGHT = 30.0  # one decay ratio with the two entries that it scales, for each value head
MASK = 5.0  # the two entries alone
CHANNEL_ELEMENT = 100.0  # one channel's decay of one token, and what it scales: key row, query row, transposed key, block scores
STATE_PASS = 5.0  # reading and writing one state element once more, for each chunk
TOKEN_STATE = 8.0  # one state element in a single-token step: two reads and a write, bound by the cache
REPACK = 7.5  # moving one state element between its array and the panels
ROW_TILE = 4  # rows that a register tile pads a short chunk to
PARALLEL_UNITS = 4e6  # below so much work a second thread costs more than it brings (about 100 us; not fitted)


@dataclass(frozen=True, slots=True)
class Makespan:
    """The expected time of the busiest thread, in cost units, and how it comes about."""

    units: float
    tasks: int | None
    workers: int


def _padded(tokens: int, tile: int) -> int:
    return math.ceil(tokens / tile) * tile


def _scores(mechanism: Mechanism, shape: Shape, tokens: int) -> float:
    """Q K^T, and K K^T where the correction asks for it: lower triangles."""
    return (1.0 if mechanism.delta else 0.5) * tokens * tokens * shape.key_dim


def _chunk_shared(mechanism: Mechanism, shape: Shape, tokens: int) -> float:
    """Rows and scores of one chunk, formed once for the value heads of a task; scores decayed by channel are a head's own."""
    scores = 0.0 if mechanism.decay == "per_channel" else _scores(mechanism, shape, tokens)
    return tokens * shape.key_dim * ROW_ELEMENT + scores


def _chunk_own(mechanism: Mechanism, shape: Shape, tokens: int, columns: int) -> float:
    """Weights, Q S, K^T X and P X of one chunk for one value head; K S and the solve with the correction."""
    weights = (WEIGHT if mechanism.decay == "scalar" else MASK) * tokens * tokens
    if mechanism.decay == "per_channel":
        weights += _scores(mechanism, shape, tokens) + CHANNEL_ELEMENT * tokens * shape.key_dim
    products, triangles = (3.0, 1.0) if mechanism.delta else (2.0, 0.5)
    own = products * tokens * shape.key_dim + triangles * tokens * tokens + STATE_PASS * shape.key_dim
    return weights + columns * own


def cpu_chunked_cost(
    mechanism: Mechanism,
    shape: Shape,
    target: CpuTarget,
    chunk: int,
    tokens: int,
    *,
    columns: int | None = None,
    group: int = 1,
) -> float:
    """One task of `group` value heads over a sequence of `tokens`, chunk by chunk."""
    columns = _padded(shape.value_dim if columns is None else columns, target.panel)
    full, rest = divmod(tokens, chunk)
    total = 0.0
    for count, size in ((full, chunk), (1 if rest else 0, _padded(rest, ROW_TILE))):
        total += count * (_chunk_shared(mechanism, shape, size) + group * _chunk_own(mechanism, shape, size, columns))
    return total + 2 * REPACK * group * shape.key_dim * columns


def cpu_tokens_cost(shape: Shape, tokens: int, *, columns: int | None = None) -> float:
    """One value head over a sequence of `tokens`, token by token; the first one fetches the state and stores it."""
    return (tokens + 1) * TOKEN_STATE * shape.key_dim * (shape.value_dim if columns is None else columns)


def cpu_head_cost(mechanism: Mechanism, shape: Shape, target: CpuTarget, chunk: int) -> float:
    """One key head's task with all its value heads, for a whole row."""
    tokens = shape.tokens if shape.tokens is not None else 2048
    length, group = max(1, tokens // shape.sequences), shape.value_heads // shape.key_heads
    return cpu_chunked_cost(mechanism, shape, target, chunk, length, group=group)


def cpu_makespan(
    mechanism: Mechanism, shape: Shape, target: CpuTarget, chunk: int, token_steps: int, group: int, column_blocks: int
) -> Makespan:
    """The busiest thread's share when tasks of (row, sequence, value-head group, column block) are handed out in turn."""
    tokens = shape.tokens if shape.tokens is not None else 2048
    average = max(1, math.ceil(tokens / shape.sequences))
    columns = math.ceil(shape.value_dim / column_blocks)
    if average <= token_steps:
        task = group * cpu_tokens_cost(shape, average, columns=columns)
    else:
        task = cpu_chunked_cost(mechanism, shape, target, chunk, average, columns=columns, group=group)
    rows = shape.batch if shape.batch is not None else 1
    tasks = rows * shape.sequences * shape.value_heads // group * column_blocks
    workers = max(1, min(target.threads, tasks))
    if shape.batch is not None and shape.tokens is not None and tasks * task < PARALLEL_UNITS:
        workers = 1
    return Makespan(math.ceil(tasks / workers) * task, None if shape.batch is None else tasks, workers)
