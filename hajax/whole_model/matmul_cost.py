"""What a product costs: tiles of the result over cores, L1 and L0 double-buffered, the best tiling of those that fit. Modelled.

Both operands lie in GM as 16 x 16 fractals in the order in which L1 takes them, weights packed so once, beforehand.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from hajax import chip_cost
from hajax.targets import NpuTarget
from hajax.whole_model.kernels import Matmul
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
_ROWS = (16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256)
_COLUMNS = (16, 32, 64, 96, 128, 192, 256, 384, 512)
_MOST_DEPTH = 512  # of what goes into L1 at a time
_MOST_REPEATS = 255  # fractals of one load

Kept = Literal["neither", "left", "right"]


@dataclass(frozen=True, slots=True)
class Tiling:
    """rows x columns: of the result, in L0C; depth: of an L0 tile; slab: of what goes into L1 at a time.

    twice: L0C holds two such tiles; of one alone, the cube waits until it has left.

    kept: the operand whose rows or columns of a tile stay in L1, all k of them, while the other one's pass by.
    batches, row_cores, column_cores: how the cores share products, rows and columns.
    """

    rows: int
    columns: int
    depth: int
    slab: int
    kept: Kept
    batches: int
    row_cores: int
    column_cores: int
    twice: bool = True


def matmul_cost(target: NpuTarget, kernel: Matmul, tiling: Tiling | None = None) -> Cost:
    """With the best tiling, or a given one."""
    used = tiling or best_tiling(target, kernel)
    m, n, k = _padded(kernel)
    row_tiles, column_tiles = -(-m // used.rows), -(-n // used.columns)
    products = _products(m, n, k, row_tiles, column_tiles, kernel.batch, used, _all_operands(target, kernel, used))
    fill, drain = _ends(target, kernel, used)
    return cost_of(
        target,
        _busiest(target, kernel, used),
        (*products, *_epilogue(kernel, 1, 1)),
        useful_macs=kernel.m * kernel.n * kernel.k * kernel.batch,
        fill=fill,
        drain=drain,
        cube_held=_held(target, kernel, used),
    )


@functools.lru_cache(maxsize=4096)
def best_tiling(target: NpuTarget, kernel: Matmul) -> Tiling:
    """The tiling with the fewest cycles."""

    def least_busy(tiling: Tiling) -> float:
        """Of the cube and of what brings its operands, without starts: a bound that is quick to have."""
        products = _own(kernel, tiling) * _padded(kernel)[2] // BLOCK**3
        read, missed = _operands(target, kernel, tiling)
        cube = products * target.costs["mad"][1] + _held(target, kernel, tiling)
        return max(cube, (read - missed) / chip_cost.path_rate(target, "gm_to_l1") + missed / target.gm_ddr_read_rate)

    best, least = None, float("inf")
    bounds = ((least_busy(tiling), tiling) for tiling in _tilings(target, *_padded(kernel), kernel.batch))
    for bound, tiling in sorted(bounds, key=lambda pair: pair[0]):
        if bound >= least:
            break
        busy = busy_cycles(target, _busiest(target, kernel, tiling))
        cycles = max(busy["M"] + _held(target, kernel, tiling), *busy.values()) + sum(_ends(target, kernel, tiling))
        if cycles < least:
            best, least = tiling, cycles
    assert best is not None, "the smallest tiling fits into any chip"
    return best


def _padded(kernel: Matmul) -> tuple[int, int, int]:
    return rounded_up(kernel.m), rounded_up(kernel.n), rounded_up(kernel.k)


def _tilings(target: NpuTarget, m: int, n: int, k: int, batch: int) -> Iterator[Tiling]:
    splits = _splits(target.ai_cores, m, n, batch)
    for rows in (size for size in _ROWS if size < m + BLOCK):
        for columns in (size for size in _COLUMNS if size < n + 8 * BLOCK):
            if SINGLE * rows * columns > target.l0c_bytes:
                continue
            twice = 2 * SINGLE * rows * columns <= target.l0c_bytes
            depth = min(target.l0a_bytes // (2 * HALF * rows), target.l0b_bytes // (2 * HALF * columns), k)
            depth = depth // BLOCK * BLOCK
            slab = depth * max(1, min(_MOST_DEPTH, k) // depth)
            for kept, size in (
                ("neither", 2 * slab * (rows + columns)),
                ("left", k * rows + 2 * slab * columns),
                ("right", k * columns + 2 * slab * rows),
            ):
                if HALF * size <= target.l1_bytes:
                    for split in splits:
                        yield Tiling(rows, columns, depth, slab, kept, *split, twice)  # type: ignore[arg-type]


@functools.lru_cache(maxsize=1024)
def _splits(cores: int, m: int, n: int, batch: int) -> tuple[tuple[int, int, int], ...]:
    found = set()
    for batches in range(1, min(cores, batch) + 1):
        for row_cores in range(1, min(cores // batches, m // BLOCK) + 1):
            found.add((batches, row_cores, min(cores // batches // row_cores, n // BLOCK)))
    return tuple(sorted(found))


def _part(size: int, tile: int, cores: int) -> int:
    """Rows or columns of the busiest core."""
    tiles = -(-size // tile)
    return min(size, -(-tiles // cores) * tile)


def _own(kernel: Matmul, tiling: Tiling) -> int:
    """Results of the busiest core."""
    m, n, _ = _padded(kernel)
    rows, columns = _part(m, tiling.rows, tiling.row_cores), _part(n, tiling.columns, tiling.column_cores)
    return -(-kernel.batch // tiling.batches) * rows * columns


def _held(target: NpuTarget, kernel: Matmul, tiling: Tiling) -> float:
    """Cycles that the cube of the busiest core waits for results to leave L0C."""
    if tiling.twice:
        return 0.0
    return busy_cycles(target, (moved("copy_matrix_cc_to_ubuf", "l0c_to_ub", SINGLE * _own(kernel, tiling)),))["V"]


def _busiest(target: NpuTarget, kernel: Matmul, tiling: Tiling) -> tuple[Issued, ...]:
    m, n, k = _padded(kernel)
    rows, columns = _part(m, tiling.rows, tiling.row_cores), _part(n, tiling.columns, tiling.column_cores)
    row_tiles, column_tiles = -(-rows // tiling.rows), -(-columns // tiling.columns)
    batch = -(-kernel.batch // tiling.batches)
    products = _products(rows, columns, k, row_tiles, column_tiles, batch, tiling, _operands(target, kernel, tiling))
    return (*products, *_epilogue(kernel, _own(kernel, tiling), m * n * kernel.batch))


def _operands(target: NpuTarget, kernel: Matmul, tiling: Tiling) -> tuple[int, int]:
    """Bytes that the busiest core reads of both operands, and of these its share of what is not in L2."""
    m, n, k = _padded(kernel)
    rows, columns = _part(m, tiling.rows, tiling.row_cores), _part(n, tiling.columns, tiling.column_cores)
    left_reads = 1 if tiling.kept == "left" else -(-columns // tiling.columns)
    right_reads = 1 if tiling.kept == "right" else -(-rows // tiling.rows)
    read = HALF * k * -(-kernel.batch // tiling.batches) * (rows * left_reads + columns * right_reads)
    missed = _missed(target, kernel, tiling)
    return read, min(read, -(-missed * _own(kernel, tiling) // (m * n * kernel.batch)))


def _all_operands(target: NpuTarget, kernel: Matmul, tiling: Tiling) -> tuple[int, int]:
    """The same of all cores, each of which reads the operand that it keeps for itself."""
    m, n, k = _padded(kernel)
    row_tiles, column_tiles = -(-m // tiling.rows), -(-n // tiling.columns)
    left_reads = min(tiling.column_cores, column_tiles) if tiling.kept == "left" else column_tiles
    right_reads = min(tiling.row_cores, row_tiles) if tiling.kept == "right" else row_tiles
    read = HALF * k * kernel.batch * (m * left_reads + n * right_reads)
    return read, min(read, _missed(target, kernel, tiling))


def _missed(target: NpuTarget, kernel: Matmul, tiling: Tiling) -> int:
    """Operand bytes from DDR, the least of three orders of the tiles.

    Half of L2 holds a stretch of one operand while all of the other passes by; or cores side by side walk in step, so that what
    one of them reads the others of its row or column find in L2.
    """
    m, n, k = _padded(kernel)
    left, right = HALF * m * k, HALF * k * n
    room = target.l2_bytes // (2 * tiling.batches)
    in_step = left * -(-n // (tiling.columns * tiling.column_cores)) + right * -(-m // (tiling.rows * tiling.row_cores))
    return kernel.batch * min(left + right * -(-left // room), right + left * -(-right // room), in_step)


def _products(
    m: int, n: int, k: int, row_tiles: int, column_tiles: int, batch: int, tiling: Tiling, operands: tuple[int, int]
) -> tuple[Issued, ...]:
    """Operands from GM to the cube, and the products."""
    read, missed = operands
    slabs = batch * row_tiles * column_tiles * -(-k // tiling.slab)
    steps = batch * row_tiles * column_tiles * -(-k // tiling.depth)
    left_loads = steps * (tiling.rows // BLOCK)  # a row of fractals each: L1 holds columns of them, L0A wants rows
    right_loads = steps * -(-(tiling.depth * tiling.columns // BLOCK**2) // _MOST_REPEATS)
    return (
        moved("copy_gm_to_cbuf", "gm_to_l1", read, missed, number=2 * slabs),
        moved("load_cbuf_to_ca", "l1_to_l0a", HALF * batch * m * k * column_tiles, number=left_loads),
        moved("load_cbuf_to_cb", "l1_to_l0b", HALF * batch * k * n * row_tiles, number=right_loads),
        Issued("mad", steps, units=batch * m * n * k // BLOCK**3),
        Issued("set_flag", 2 * slabs + 2 * steps),
    )


def _epilogue(kernel: Matmul, share: int, of: int) -> tuple[Issued, ...]:
    """L0C to UB, fp32 to fp16 on the way when nothing else is to do, vector work, and out: `share` of `of` results."""

    def part(size: int) -> int:
        return -(-size * share // of)

    results = rounded_up(kernel.m) * rounded_up(kernel.n) * kernel.batch
    pieces = moved("copy_matrix_cc_to_ubuf", "l0c_to_ub", SINGLE * part(results))
    return (
        pieces,
        *(vector(lanes.instruction, part(lanes.elements)) for lanes in kernel.epilogue),
        read_to_ub(part(kernel.read)),
        written_from_ub(part(kernel.written)),
        Issued("set_flag", 4 * pieces.number),
    )


def _ends(target: NpuTarget, kernel: Matmul, tiling: Tiling) -> tuple[float, float]:
    """The first slabs' way to the cube; the last tile's way to GM."""
    m, n, k = _padded(kernel)
    rows, columns = min(tiling.rows, m), min(tiling.columns, n)
    slab = HALF * min(tiling.slab, k) * (rows + columns) / target.gm_ddr_read_rate
    loads = chip_cost.instruction_cycles(target, "load_cbuf_to_cb", bytes=HALF * tiling.depth * columns, path="l1_to_l0b")
    fill = target.gm_read_latency + slab + target.l1_latency + loads
    last = busy_cycles(target, _epilogue(kernel, rows * columns, m * n * kernel.batch))
    return fill, target.cube_latency + last["V"] + last["MTE3"] + target.gm_write_latency
