"""The worked kernels of examples/ascend: right, counted as worked out by hand, the same on any number of host threads, and caught
when one flag is taken out."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from hajax.backends import sim

EXAMPLES = Path(__file__).parents[2] / "examples" / "ascend"
TARGETS = ("ascend310p1", "ascend310p3")
FAST = sim.SimOptions(check_races=False, check_written=False)
pytestmark = pytest.mark.native


def run(name, arguments, **options):
    return sim.run(sim.compile_kernel(EXAMPLES / f"{name}.cpp"), name, arguments, **options)


def vector_add(count, seed=0):
    random = np.random.default_rng(seed)
    x, y = (random.standard_normal(count).astype(np.float32) for _ in range(2))
    return [x, y, sim.Output((count,), np.float32), count], x + y


def matmul(m, n, k, seed=0):
    random = np.random.default_rng(seed)
    a, b = random.integers(-4, 5, (m, k)).astype(np.float16), random.integers(-4, 5, (k, n)).astype(np.float16)
    return [a, b, sim.Output((m, n), np.float32), m, n, k], a.astype(np.float32) @ b.astype(np.float32)


def row_softmax(rows, columns, seed=0):
    x = (5 * np.random.default_rng(seed).standard_normal((rows, columns))).astype(np.float32)
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    return [x, sim.Output(x.shape, np.float32), rows, columns], e / e.sum(1, keepdims=True)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("count", "blocks"), [(8, 1), (4096, 2), (4096 * 5 + 264, 3), (100000, 8)])
def test_vector_add_is_exact(count, blocks, target):
    arguments, expected = vector_add(count)
    done = run("vector_add", arguments, blocks=blocks, target=target)
    assert (done.arrays[2] == expected).all()
    assert done.unwritten[2] == 0
    tiles = -(-count // 4096)
    assert done.counts["gm_to_ub"] == 8 * count
    assert done.counts["ub_to_gm"] == 4 * count
    assert (done.counts["gm_to_ub_transfers"], done.counts["vadd"], done.counts["vector_lanes"]) == (2 * tiles, tiles, count)
    assert done.counts["peak_ub"] <= 6 * 4096 * 4


# Integers, so that every order of summation gives the same bits.
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("shape", "blocks"), [((16, 16, 16), 1), ((128, 128, 256), 1), ((160, 144, 400), 2), ((272, 400, 48), 8)]
)
def test_matmul_is_exact(shape, blocks, target):
    arguments, expected = matmul(*shape)
    done = run("matmul", arguments, blocks=blocks, target=target)
    assert (done.arrays[2] == expected).all()
    m, n, k = shape
    rows, columns = -(-m // 128), -(-n // 128)
    assert done.counts["macs"] == done.counts["useful_macs"] == m * n * k
    assert done.counts["gm_to_l1"] == done.counts["l1_to_l0a"] + done.counts["l1_to_l0b"]
    assert done.counts["l1_to_l0a"] == 2 * m * k * columns
    assert done.counts["l1_to_l0b"] == 2 * k * n * rows
    assert done.counts["l0c_to_ub"] == done.counts["ub_to_gm"] == 4 * m * n
    assert done.counts["mad"] == rows * columns * -(-k // 128)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("rows", "columns", "blocks"), [(1, 64, 1), (5, 1024, 2), (9, 8192, 4)])
def test_row_softmax_is_near(rows, columns, blocks, target):
    arguments, expected = row_softmax(rows, columns)
    done = run("row_softmax", arguments, blocks=blocks, target=target)
    # exp within 2 ulp, a sum of up to 8192 terms by trees, one product
    assert np.abs(done.arrays[1] / expected - 1).max() < 32 * np.finfo(np.float32).eps
    assert done.counts["vexp"] == rows


@pytest.mark.parametrize("case", [("vector_add", vector_add(50000)), ("matmul", matmul(272, 400, 160)),
                                  ("row_softmax", row_softmax(20, 512))], ids=lambda case: case[0])  # fmt: skip
def test_threads_and_modes_change_nothing_but_speed(case):
    name, (arguments, _) = case
    runs = [run(name, arguments, blocks=8, options=sim.SimOptions(threads=threads)) for threads in (1, 2, 5, 8)]
    runs.append(run(name, arguments, blocks=8, options=FAST))
    for other in runs[1:]:
        assert [a.tobytes() for a in other.arrays] == [a.tobytes() for a in runs[0].arrays]
        assert (other.counts, other.core_counts) == (runs[0].counts, runs[0].core_counts)
        assert (other.timing, other.busy_cycles) == (runs[0].timing, runs[0].busy_cycles)


@pytest.mark.parametrize("case", [("vector_add", vector_add(50000)), ("matmul", matmul(272, 400, 160))], ids=lambda case: case[0])
def test_counts_only_counts_and_times_the_same(case):
    name, (arguments, _) = case
    full = run(name, arguments, blocks=4)
    counted = run(name, arguments, blocks=4, options=sim.SimOptions(counts_only=True))
    assert (counted.counts, counted.timing) == (full.counts, full.timing)


@pytest.mark.parametrize(("name", "problem"), [("vector_add", vector_add(4096 * 5)), ("matmul", matmul(160, 144, 400)),
                                               ("row_softmax", row_softmax(5, 256))])  # fmt: skip
@pytest.mark.parametrize("which", [0, -1])
def test_a_kernel_without_one_of_its_waits_is_caught(name, problem, which, tmp_path):
    source = (EXAMPLES / f"{name}.cpp").read_text(encoding="utf-8")
    wait = list(re.finditer(r"WaitFlag<[^;]*;", source))[which]
    broken = tmp_path / f"{name}.cpp"
    broken.write_text(source[: wait.start()] + source[wait.end() :], encoding="utf-8")
    with pytest.raises(sim.SimFault) as caught:
        sim.run(sim.compile_kernel(broken), name, problem[0])
    assert f"kernel {name}, core 0" in caught.value.text
    assert f"{name}.cpp:" in caught.value.text


def test_the_timeline_has_a_track_a_pipe_and_an_arrow_a_flag():
    done = run("vector_add", vector_add(4096 * 3)[0], blocks=2)
    events = json.loads(sim.timeline(done))["traceEvents"]
    slices = [e for e in events if e["ph"] == "X"]
    assert {e["pid"] for e in slices} == {0, 1}
    named = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    assert {named[(e["pid"], e["tid"])].split()[0] for e in slices if e["name"] == "vadd"} == {"V"}
    starts, ends = (sorted(e["id"] for e in events if e["ph"] == phase) for phase in ("s", "f"))
    assert starts == ends
    assert len(starts) == done.counts["set_flag"]
    assert max(e["ts"] + e["dur"] for e in slices) <= done.timing["microseconds"] + 1e-3  # times are whole nanoseconds


@pytest.mark.parametrize("count", [-8, 1 << 32, (1 << 64) - 1])
def test_an_integer_that_its_parameter_cannot_hold_is_refused(count):
    (x, y, z, _), _ = vector_add(8)
    with pytest.raises(ValueError, match=r"arguments\[3\].*uint32_t count: expected 0 to 4294967295, got"):
        run("vector_add", [x, y, z, count])
