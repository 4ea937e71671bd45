"""What a CPU launch costs, in multiply-accumulates that take as long. Modelled; used only to compare plans with one another."""

import math
from dataclasses import dataclass

from hajax.mechanisms import Mechanism
from hajax.plans import Shape
from hajax.targets import CpuTarget


@dataclass(frozen=True, slots=True)
class KernelCosts:
    """What one kernel's work costs, as multiples of one multiply-accumulate of its large products."""

    row_element: float  # loading, normalising and transposing one element of a key row and a query row
    weight: float  # one decay ratio with the two entries that it scales, for each value head
    mask: float  # the two entries alone
    channel_element: float  # one channel's decay of one token, and what it scales: key row, query row, block scores
    state_pass: float  # reading and writing one state element once more, for each chunk
    token_state: float  # one state element in a single-token step: two reads and a write, bound by the cache
    repack: float  # moving one state element between its array and the panels
    row_tile: int = 4  # rows that a register tile pads a short chunk to
    parallel_units: float = 4e6  # below so much work a second thread costs more than it brings (about 100 us; not fitted)


_TILE_TOKENS = 32  # rows of two matrix tiles

# Fitted by `python benchmarks/planner_choices.py --fit` to single-thread CPU times; other kernels take the DEFAULT row.
DEFAULT = "avx2"
KERNELS = {
    # Zen 3, one unit 24 ps (41 G a second); on Sapphire Rapids, at 19 ps, the fit differs by a quarter and no choice does
    "avx2": KernelCosts(40.0, 30.0, 5.0, 100.0, state_pass=5.0, token_state=8.0, repack=7.5),
    # Sapphire Rapids, one unit 9.9 ps (101 G a second)
    "avx512": KernelCosts(87.0, 45.0, 45.0, 81.0, state_pass=7.8, token_state=11.0, repack=14.5),
    # The same on its matrix tiles, one unit 1.66 ps (602 G a second): of an earlier kernel, whose best choices are this one's
    "matrix": KernelCosts(
        383.0, 1288.0, 1288.0, 0.0, state_pass=330.0, token_state=66.0, repack=89.0, row_tile=32, parallel_units=2.4e7
    ),
}


def takes_bf16_dot(mechanism: Mechanism, shape: Shape, target: CpuTarget) -> bool:
    """Whether the CPU's products of bf16 are used: where inputs are bf16, on matrix tiles also for others, in parts, when tokens
    fill a tile; never for rows that are decayed channel by channel before they meet."""
    if not target.bf16_dot or mechanism.decay == "per_channel":
        return False
    fills = shape.tokens is None or shape.tokens >= shape.sequences * _TILE_TOKENS
    return shape.input_dtype == "bfloat16" or (target.matrix_tiles and fills)


def costs_of(mechanism: Mechanism, shape: Shape, target: CpuTarget) -> KernelCosts:
    """The constants of the kernel that runs such a problem in chunks."""
    if not target.matrix_tiles:
        return KERNELS.get(target.isa, KERNELS[DEFAULT])
    return KERNELS["matrix" if takes_bf16_dot(mechanism, shape, target) else "avx512"]


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


def _chunk_shared(costs: KernelCosts, mechanism: Mechanism, shape: Shape, tokens: int) -> float:
    """Rows and scores of one chunk, formed once for the value heads of a task; scores decayed by channel are a head's own."""
    scores = 0.0 if mechanism.decay == "per_channel" else _scores(mechanism, shape, tokens)
    return tokens * shape.key_dim * costs.row_element + scores


def _chunk_own(costs: KernelCosts, mechanism: Mechanism, shape: Shape, tokens: int, columns: int) -> float:
    """Weights, Q S, K^T X and P X of one chunk for one value head; K S and the solve with the correction."""
    weights = (costs.weight if mechanism.decay == "scalar" else costs.mask) * tokens * tokens
    if mechanism.decay == "per_channel":
        weights += _scores(mechanism, shape, tokens) + costs.channel_element * tokens * shape.key_dim
    products, triangles = (3.0, 1.0) if mechanism.delta else (2.0, 0.5)
    own = products * tokens * shape.key_dim + triangles * tokens * tokens + costs.state_pass * shape.key_dim
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
    costs: KernelCosts | None = None,
) -> float:
    """One task of `group` value heads over a sequence of `tokens`, chunk by chunk. costs: the target's kernel's when None."""
    costs = costs_of(mechanism, shape, target) if costs is None else costs
    columns = _padded(shape.value_dim if columns is None else columns, target.panel)
    key_heads = math.ceil(group * shape.key_heads / shape.value_heads)
    full, rest = divmod(tokens, chunk)
    total = 0.0
    for count, size in ((full, chunk), (1 if rest else 0, _padded(rest, costs.row_tile))):
        shared, own = _chunk_shared(costs, mechanism, shape, size), _chunk_own(costs, mechanism, shape, size, columns)
        total += count * (key_heads * shared + group * own)
    return total + 2 * costs.repack * group * shape.key_dim * columns


def cpu_tokens_cost(
    mechanism: Mechanism,
    shape: Shape,
    target: CpuTarget,
    tokens: int,
    *,
    columns: int | None = None,
    costs: KernelCosts | None = None,
) -> float:
    """One value head over a sequence of `tokens`, token by token; the first one fetches the state and stores it."""
    costs = costs_of(mechanism, shape, target) if costs is None else costs
    return (tokens + 1) * costs.token_state * shape.key_dim * (shape.value_dim if columns is None else columns)


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
        task = group * cpu_tokens_cost(mechanism, shape, target, average, columns=columns)
    else:
        task = cpu_chunked_cost(mechanism, shape, target, chunk, average, columns=columns, group=group)
    rows = shape.batch if shape.batch is not None else 1
    tasks = rows * shape.sequences * shape.value_heads // group * column_blocks
    workers = max(1, min(target.threads, tasks))
    if shape.batch is not None and shape.tokens is not None and tasks * task < costs_of(mechanism, shape, target).parallel_units:
        workers = 1
    return Makespan(math.ceil(tasks / workers) * task, None if shape.batch is None else tasks, workers)
