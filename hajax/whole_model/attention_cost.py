"""What causal softmax attention costs, tile by tile with a running maximum and sum: scores never leave the core. Modelled.

An item is a stretch of one head's queries; it takes key tiles from the first one to its own diagonal. Items are dealt out over
cores so that the longest go with the shortest.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass

from hajax.targets import NpuTarget
from hajax.whole_model.kernels import SoftmaxAttention
from hajax.whole_model.roofline import (
    BLOCK,
    Cost,
    Issued,
    busy_cycles,
    cost_of,
    moved,
    read_to_ub,
    rounded_up,
    vector,
    written_from_ub,
)

HALF, SINGLE = 2, 4
_QUERIES = (16, 32, 48, 64, 96, 128)
_KEYS = (64, 128, 256, 512)


@dataclass(frozen=True, slots=True)
class AttentionTiling:
    """Queries of an item, keys of a tile."""

    queries: int
    keys: int


def attention_cost(target: NpuTarget, kernel: SoftmaxAttention) -> Cost:
    """With the tiling that keeps its busiest pipe the least busy."""
    tilings = list(_tilings(target, kernel))
    return min((_cost(target, kernel, tiling) for tiling in tilings), key=lambda cost: cost.cycles)


def _tilings(target: NpuTarget, kernel: SoftmaxAttention) -> Iterator[AttentionTiling]:
    """L0C holds scores twice and products; UB scores, the fp16 weights made of them, the running output and what joins it."""
    key_dim, value_dim = rounded_up(kernel.key_dim), rounded_up(kernel.value_dim)
    for queries in _QUERIES:
        for keys in _KEYS:
            ub = queries * (keys * (SINGLE + HALF) + 2 * SINGLE * value_dim)
            l0c = SINGLE * queries * (2 * keys + value_dim)
            l1 = HALF * (2 * keys * (key_dim + value_dim) + queries * (keys + key_dim))
            l0a = HALF * queries * max(key_dim, BLOCK)
            fits = ub <= target.ub_bytes - target.ub_reserved_bytes and l0c <= target.l0c_bytes and l1 <= target.l1_bytes
            if fits and 2 * l0a <= target.l0a_bytes:
                yield AttentionTiling(queries, keys)


@functools.lru_cache(maxsize=1024)
def _key_tiles(tokens: int, tiling: AttentionTiling) -> tuple[int, int, int]:
    """Items of a head, key tiles of all of them, key tiles of the longest."""
    counts = [-(-min(tokens, end) // tiling.keys) for end in range(tiling.queries, tokens + tiling.queries, tiling.queries)]
    return len(counts), sum(counts), counts[-1]


def _cost(target: NpuTarget, kernel: SoftmaxAttention, tiling: AttentionTiling) -> Cost:
    items, tiles, longest = _key_tiles(kernel.tokens, tiling)
    items, tiles = items * kernel.heads, tiles * kernel.heads
    own_items, own_tiles = -(-items // target.ai_cores), max(-(-tiles // target.ai_cores), longest)
    missed = _missed(target, kernel, tiling, items, tiles)
    busiest = (
        *_walk(kernel, tiling, own_tiles, -(-missed // target.ai_cores)),
        *_item_ends(kernel, tiling, own_items, own_items, items),
    )
    everything = (*_walk(kernel, tiling, tiles, missed), *_item_ends(kernel, tiling, items, 1, 1))
    useful = kernel.heads * kernel.tokens * (kernel.tokens + 1) // 2 * (kernel.key_dim + kernel.value_dim)
    first = HALF * (tiling.queries + tiling.keys) * kernel.key_dim / target.gm_ddr_read_rate
    alone = busy_cycles(target, _walk(kernel, tiling, 1, 0))
    last = busy_cycles(target, _item_ends(kernel, tiling, 1, 1, items))
    fill = target.gm_read_latency + first + target.l1_latency + alone["MTE1"]
    # The first tile's scores, and the last one's weights and products, have nothing beside them to overlap with.
    drain = alone["V"] + alone["M"] + target.cube_latency + last["V"] + last["MTE3"] + target.gm_write_latency
    return cost_of(target, busiest, everything, useful_macs=useful, fill=fill, drain=drain)


def _missed(target: NpuTarget, kernel: SoftmaxAttention, tiling: AttentionTiling, items: int, tiles: int) -> int:
    """Key and value bytes from DDR: once when half of L2 holds those of a head, else once for every item on each core."""
    width = HALF * (kernel.key_dim + kernel.value_dim)
    once = kernel.kv_heads * kernel.tokens * width
    if kernel.tokens * width <= target.l2_bytes // 2:
        return once
    return max(once, tiles * tiling.keys * width // min(items, target.ai_cores))


def _walk(kernel: SoftmaxAttention, tiling: AttentionTiling, tiles: int, missed: int) -> tuple[Issued, ...]:
    """Key tiles: S = Q K^T, running maximum, exp, sum, fp16, P V, the output rescaled and added to."""
    queries, keys = tiling.queries, tiling.keys
    key_dim, value_dim = rounded_up(kernel.key_dim), rounded_up(kernel.value_dim)
    scores, outputs, edge = tiles * queries * keys, tiles * queries * value_dim, tiles * queries * BLOCK
    read = HALF * tiles * keys * (key_dim + value_dim)
    pieces = tiles * (-(-2 * HALF * keys * key_dim // (64 << 10)) + -(-2 * HALF * keys * value_dim // (64 << 10)))
    weights = HALF * scores
    work = ("vmax", "vsub", "vexp", "vadd", "vconv")
    reductions = (("vcgmax", edge), ("vcgadd", edge), ("vgather", edge), ("vexp", edge))
    return (
        moved("copy_gm_to_cbuf", "gm_to_l1", read, min(read, missed), number=2 * tiles),
        moved(
            "load_cbuf_to_ca", "l1_to_l0a", HALF * tiles * queries * (key_dim + keys), number=pieces * (queries // BLOCK)
        ),
        moved("load_cbuf_to_cb", "l1_to_l0b", read, number=pieces),
        Issued("mad", pieces, units=tiles * queries * keys * (key_dim + value_dim) // BLOCK**3),
        moved("copy_matrix_cc_to_ubuf", "l0c_to_ub", SINGLE * (scores + outputs)),
        *(vector(name, scores) for name in work),
        *(vector(name, size) for name, size in reductions),
        *(vector(name, outputs) for name in ("vmul", "vadd")),
        moved("copy_ubuf_to_cbuf", "ub_to_l1", weights),
        Issued("set_flag", 6 * tiles + 2 * pieces),
    )  # fmt: skip


def _item_ends(kernel: SoftmaxAttention, tiling: AttentionTiling, items: int, share: int, of: int) -> tuple[Issued, ...]:
    """An item's queries in, its output divided by the sums, the epilogue, and out: `share` of `of` of all of them."""

    def part(size: int) -> int:
        return -(-size * share // of)

    query_bytes = HALF * kernel.tokens * kernel.heads * kernel.key_dim
    outputs = kernel.tokens * kernel.heads * kernel.value_dim
    return (
        moved("copy_gm_to_cbuf", "gm_to_l1", part(query_bytes), part(query_bytes), number=items),
        vector("vdiv", part(outputs)),
        vector("vconv", part(outputs)),
        *(vector(lanes.instruction, part(lanes.elements)) for lanes in kernel.epilogue),
        read_to_ub(part(kernel.read)),
        written_from_ub(part(HALF * outputs)),
        Issued("set_flag", 4 * items),
    )
