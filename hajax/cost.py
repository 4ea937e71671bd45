"""What a CPU launch costs, in multiply-accumulates that take as long. Modelled; used only to compare plans with one another."""

import math
from dataclasses import dataclass

from hajax.plans import Shape
from hajax.targets import CpuTarget

# Fitted to single-thread CPU times on Zen 3 with AVX2 (benchmarks/planner_choices.py; one unit there is 24 ps, 41 G a second),
# as multiples of one multiply-accumulate of the large products. Choices and the best measured differ by a few per cent.
ROW_ELEMENT = 40.0  # loading, normalising and transposing one element of a key row and a query row
WEIGHT = 30.0  # one decay ratio with the two entries that it scales, for each value head
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


def _chunk_shared(shape: Shape, tokens: int) -> float:
    """Rows, K K^T and Q K^T (lower triangles) of one chunk, formed once for the value heads of a task."""
    return tokens * shape.key_dim * (tokens + ROW_ELEMENT)


def _chunk_own(shape: Shape, tokens: int, columns: int) -> float:
    """Weights, K S, Q S, K^T X, the solve and P X of one chunk for one value head."""
    return WEIGHT * tokens * tokens + columns * (3.0 * tokens * shape.key_dim + tokens * tokens + STATE_PASS * shape.key_dim)


def cpu_chunked_cost(
    shape: Shape, target: CpuTarget, chunk: int, tokens: int, *, columns: int | None = None, group: int = 1
) -> float:
    """One task of `group` value heads over a sequence of `tokens`, chunk by chunk."""
    columns = _padded(shape.value_dim if columns is None else columns, target.panel)
    full, rest = divmod(tokens, chunk)
    total = 0.0
    for count, size in ((full, chunk), (1 if rest else 0, _padded(rest, ROW_TILE))):
        total += count * (_chunk_shared(shape, size) + group * _chunk_own(shape, size, columns))
    return total + 2 * REPACK * group * shape.key_dim * columns


def cpu_tokens_cost(shape: Shape, tokens: int, *, columns: int | None = None) -> float:
    """One value head over a sequence of `tokens`, token by token; the first one fetches the state and stores it."""
    return (tokens + 1) * TOKEN_STATE * shape.key_dim * (shape.value_dim if columns is None else columns)


def cpu_head_cost(shape: Shape, target: CpuTarget, chunk: int) -> float:
    """One key head's task with all its value heads, for a whole row."""
    tokens = shape.tokens if shape.tokens is not None else 2048
    return cpu_chunked_cost(shape, target, chunk, max(1, tokens // shape.sequences), group=shape.value_heads // shape.key_heads)


def cpu_makespan(shape: Shape, target: CpuTarget, chunk: int, token_steps: int, group: int, column_blocks: int) -> Makespan:
    """The busiest thread's share when tasks of (row, sequence, value-head group, column block) are handed out in turn."""
    tokens = shape.tokens if shape.tokens is not None else 2048
    average = max(1, math.ceil(tokens / shape.sequences))
    columns = math.ceil(shape.value_dim / column_blocks)
    if average <= token_steps:
        task = group * cpu_tokens_cost(shape, average, columns=columns)
    else:
        task = cpu_chunked_cost(shape, target, chunk, average, columns=columns, group=group)
    rows = shape.batch if shape.batch is not None else 1
    tasks = rows * shape.sequences * shape.value_heads // group * column_blocks
    workers = max(1, min(target.threads, tasks))
    if shape.batch is not None and shape.tokens is not None and tasks * task < PARALLEL_UNITS:
        workers = 1
    return Makespan(math.ceil(tasks / workers) * task, None if shape.batch is None else tasks, workers)
