"""The cost model beside the emulator: counts equal, busy pipes alike, times between its busiest pipe and its clock."""

import dataclasses
import itertools
from pathlib import Path

import numpy as np
import pytest

from hajax import chip_cost
from hajax.backends import sim
from hajax.targets import npu
from hajax.whole_model.attention_cost import attention_cost
from hajax.whole_model.kernel_cost import kernel_cost
from hajax.whole_model.kernels import Elementwise, Lanes, Matmul, SoftmaxAttention
from hajax.whole_model.matmul_cost import Tiling, best_tiling, matmul_cost
from hajax.whole_model.roofline import PIPES

EXAMPLES = Path(__file__).parents[2] / "examples" / "ascend"
COUNTS = sim.SimOptions(check_races=False, check_written=False, counts_only=True, timeline=False)
# The worked kernel has one L0C tile, one output buffer and 16 copies a panel, so its pipes wait for one another: its clock is
# at most this many times the time of the same tiles with all pipes fed.
WAITS = 1.6
TARGETS = ("ascend310p1", "ascend310p3")


def emulated(name, arguments, target, blocks):
    library = sim.compile_kernel(EXAMPLES / f"{name}.cpp", target)
    return sim.run(library, name, arguments, blocks=blocks, target=target, options=COUNTS)


def product(m, n, k, target):
    arguments = [np.zeros((m, k), np.float16), np.zeros((k, n), np.float16), sim.Output((m, n), np.float32), m, n, k]
    run = emulated("matmul", arguments, target.name, target.ai_cores)
    return run, Matmul("product", "projections", m, n, k, written=4 * m * n)


@pytest.mark.native
@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize(("shape", "cores"), [
    ((1280, 1280, 1024), (5, 2)), ((2048, 2048, 512), (5, 2)), ((640, 256, 4096), (5, 2)), ((1024, 4096, 256), (2, 5)),
])  # fmt: skip
def test_a_product_in_the_worked_kernels_tiles_counts_and_takes_what_the_emulator_says(name, shape, cores):
    target = npu.load(name)
    run, kernel = product(*shape, target)
    row_cores, column_cores = cores if target.ai_cores == 10 else tuple(4 if c == 5 else 2 for c in cores)
    same = matmul_cost(target, kernel, Tiling(128, 128, 128, 128, "neither", 1, row_cores, column_cores))
    for count in ("macs", "useful_macs", "gm_to_l1", "l1_to_l0a", "l1_to_l0b", "l0c_to_ub", "ub_to_gm", "mad"):
        assert same.counts[count] == run.counts[count], count
    busy = {pipe: max(core[pipe] for core in run.busy_cycles) for pipe in PIPES}
    tiles = -(-shape[0] // 128) * -(-shape[1] // 128)
    if tiles % target.ai_cores == 0:
        assert same.busy["M"] == pytest.approx(busy["M"], rel=0.02)
    assert same.cycles > max(busy.values())
    assert same.cycles < run.timing["cycles"] < WAITS * same.cycles


@pytest.mark.native
@pytest.mark.parametrize("shape", [(1280, 1280, 1024), (128, 1280, 1024), (16, 4096, 512), (2048, 1024, 2048)])
def test_no_tiling_beats_the_cube_or_ddr(shape):
    """All products over all cubes, and each operand once over the cores' shares of DDR, are what no kernel goes below."""
    target = npu.load("ascend310p1")
    m, n, k = shape
    run, kernel = product(m, n, k, target)
    best = matmul_cost(target, kernel)
    assert best.cycles > sum(core["M"] for core in run.busy_cycles) / target.ai_cores * 0.98  # flags aside
    assert best.cycles > 2 * k * (m + n) / target.ai_cores / target.gm_ddr_read_rate
    assert best.counts["macs"] == run.counts["macs"]
    assert best.cycles < run.timing["cycles"]


@pytest.mark.native
@pytest.mark.parametrize("count", [64 * 1024, 4 * 1024 * 1024])
def test_an_elementwise_kernel_takes_what_the_emulator_says(count):
    target = npu.load("ascend310p1")
    x = np.zeros(count, np.float32)
    run = emulated("vector_add", [x, x, sim.Output((count,), np.float32), count], target.name, target.ai_cores)
    cost = kernel_cost(target, Elementwise("add", "norms", (Lanes("vadd", count),), 8 * count, 4 * count))
    for name in ("gm_to_ub", "ub_to_gm", "vector_lanes"):
        assert cost.counts[name] == run.counts[name]
    busiest = max(max(core.values()) for core in run.busy_cycles)
    assert 0.95 * busiest < cost.cycles
    assert cost.cycles == pytest.approx(run.timing["cycles"], rel=0.15)


@pytest.mark.native
@pytest.mark.parametrize("name", TARGETS)
def test_energy_from_counts_is_the_emulators(name):
    target = npu.load(name)
    run, _ = product(272, 400, 160, target)
    moved = {key: int(run.timing[key]) for key in run.timing if key.endswith("_bytes")}
    energy = chip_cost.dynamic_microjoules(
        target,
        run.counts,
        l2_bytes=moved["l2_read_bytes"] + moved["ddr_read_bytes"] + moved["l2_write_bytes"],
        ddr_bytes=moved["ddr_read_bytes"] + moved["ddr_write_bytes"],
    )
    assert energy > 0
    assert energy == pytest.approx(run.timing["dynamic_microjoules"], rel=1e-12)


def test_a_costs_energy_is_the_formula_on_its_counts():
    target = npu.load("ascend310p1")
    cost = kernel_cost(target, Matmul("product", "projections", 256, 512, 384, written=2 * 256 * 512))
    counts = cost.counts
    picojoules = counts["macs"] * 1.0 + counts["gm_to_l1"] * 1.75 + (counts["l1_to_l0a"] + counts["l1_to_l0b"]) * (1.75 + 1.2)
    picojoules += counts["l0c_to_ub"] * (1.2 + 1.4) + counts["ub_to_gm"] * 1.4 + cost.gm_bytes * 6 + cost.ddr_bytes * 40
    assert "vector_lanes" not in counts
    assert cost.dynamic_microjoules == pytest.approx(picojoules * 1e-6)
    assert cost.static_microjoules == pytest.approx(15 * cost.microseconds)


def test_attention_counts_every_score_below_the_diagonal():
    target = npu.load("ascend310p1")
    tokens, heads, key_dim, value_dim = 1024, 4, 192, 128
    cost = attention_cost(target, SoftmaxAttention("a", "attention", tokens, heads, heads, key_dim, value_dim))
    exact = heads * tokens * (tokens + 1) // 2 * (key_dim + value_dim)
    assert cost.counts["useful_macs"] == exact
    assert exact < cost.counts["macs"] <= exact + heads * tokens * 512 * (key_dim + value_dim)  # whole tiles at the diagonal
    assert cost.counts["ub_to_gm"] == 2 * tokens * heads * value_dim
    assert cost.counts["ub_to_l1"] * (key_dim + value_dim) == 2 * cost.counts["macs"]  # one weight in fp16 a score


def test_shared_keys_are_read_from_ddr_once():
    target = npu.load("ascend310p1")
    many, few = (attention_cost(target, SoftmaxAttention("a", "attention", 2048, 16, kv, 128, 128)) for kv in (16, 4))
    assert many.gm_bytes == few.gm_bytes
    assert many.ddr_bytes - few.ddr_bytes == 12 * 2048 * 2 * 2 * 128


@pytest.mark.parametrize("kernel", [
    lambda size: Matmul("m", "projections", size, 1024, 512, written=2 * size * 1024),
    lambda size: Matmul("e", "feed forward", size, 1024, 512, written=2 * 64 * size * 1024, batch=64),
    lambda size: Elementwise("v", "norms", (Lanes("vmul", 10000 * size),), 20000 * size, 20000 * size),
    lambda size: SoftmaxAttention("a", "attention", size, 8, 2, 256, 256),
], ids=["product", "experts", "elementwise", "attention"])  # fmt: skip
def test_more_rows_take_no_less(kernel):
    target = npu.load("ascend310p1")
    costs = [kernel_cost(target, kernel(size)) for size in (1, 15, 16, 17, 100, 500, 501, 1000, 2000, 4100, 8192)]
    for fewer, more in itertools.pairwise(costs):
        assert more.cycles >= fewer.cycles * 0.9999
        assert more.counts.get("useful_macs", 0) >= fewer.counts.get("useful_macs", 0)
    assert costs[-1].cycles > 2 * costs[-3].cycles


def test_tiles_fit_into_the_cores_memories():
    target = npu.load("ascend310p1")
    for m, n, k, batch in (
        (1, 248320, 1024, 1),
        (2099, 8224, 1024, 1),
        (66, 2048, 2304, 256),
        (13717, 2304, 9216, 1),
        (16, 16, 16, 1),
    ):
        tiling = best_tiling(target, Matmul("m", "projections", m, n, k, written=2 * m * n * batch, batch=batch))
        tiles = 2 if tiling.twice else 1
        assert tiles * 4 * tiling.rows * tiling.columns <= target.l0c_bytes
        assert 2 * 2 * tiling.rows * tiling.depth <= target.l0a_bytes
        assert 2 * 2 * tiling.columns * tiling.depth <= target.l0b_bytes
        assert tiling.batches * tiling.row_cores * tiling.column_cores <= target.ai_cores


def test_doubled_constants_move_what_hangs_on_them():
    """A what-if chip: half the DDR rate slows what is bound by it, twice the energy of a MAC costs just that."""
    target = npu.load("ascend310p1")
    logits = Matmul("logits", "embedding and head", 1, 65536, 1024, written=2 * 65536)
    slow = kernel_cost(dataclasses.replace(target, gm_ddr_read_rate=target.gm_ddr_read_rate / 2), logits)
    usual = kernel_cost(target, logits)
    assert slow.cycles > 1.8 * usual.cycles
    dear = kernel_cost(dataclasses.replace(target, pj_per_mac=2 * target.pj_per_mac), logits)
    assert dear.dynamic_microjoules - usual.dynamic_microjoules == pytest.approx(usual.counts["macs"] * 1e-6)
