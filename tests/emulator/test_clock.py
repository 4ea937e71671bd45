"""Modelled time of hand-built event streams, against times worked out by hand."""

import random

import clock_driver
import pytest
from clock_driver import Core

from hajax import abi

# A chip of round numbers. Everything starts at cycle 1000; a move takes 10 + bytes / 128 (L2) or / 8 (DDR).
LAUNCH, ISSUE, FLAG, READ, WRITE = 1000, 1, 1, 100, 50
CHIP = [
    "target ascend310p1", "fact clock_mhz 1000", f"fact launch_cycles {LAUNCH}", f"fact issue_cycles {ISSUE}",
    "fact argument_cycles 0",
    f"fact flag_cycles {FLAG}", f"fact gm_read_latency {READ}", f"fact gm_write_latency {WRITE}", "fact cube_latency 20",
    "fact gm_ddr_read_rate 8", "fact gm_ddr_write_rate 8", "fact gm_l2_read_rate 128", "fact gm_l2_write_rate 128",
    "fact sustained_share 1", "fact queue_depth 4", "fact sync_all_cycles 500", "fact l2_line_bytes 128", "fact l2_ways 2",
    "fact l2_bytes 1024", "cost copy_gm_to_ubuf 10 0", "cost copy_ubuf_to_gm 10 0", "cost vadd 20 2", "cost mad 6 1",
]  # fmt: skip
WORK, SCALAR, QUEUE_FULL, SET, WAIT, BARRIER = range(6)


@pytest.fixture(scope="session")
def driver(tmp_path_factory):
    return clock_driver.build(tmp_path_factory.getbasetemp().parent)


@pytest.fixture
def measure(driver):
    """One launch of these cores, or all of several launches on one device."""

    def run(*cores, chip=(), launches=1):
        ((*found,),) = clock_driver.ask(driver, clock_driver.script([*CHIP, *chip], cores, f"measure {launches}"))
        return found if launches > 1 else found[0]

    return run


def slices(report, core=0, *what):
    """(event, start, end) in cycles after the launch."""
    return [(s[1], s[2] - LAUNCH, s[3] - LAUNCH) for s in report["cores"][core]["slices"] if not what or s[0] in what]


def end(report, core=0):
    return report["cores"][core]["end"] - LAUNCH


def test_an_empty_kernel_takes_the_launch(measure):
    report = measure(Core())
    assert report["values"]["cycles"] == report["values"]["launch_cycles"] == LAUNCH
    assert report["values"]["microseconds"] == 1.0


def test_arguments_cost_the_scalar_unit_but_flags_have_none(measure):
    report = measure(Core().event("vadd", "V", units=8), chip=["fact argument_cycles 3"])
    assert slices(report) == [(0, 4, 4 + 20 + 2 * 8)]
    flags = Core().set("S", "V", 0).wait("S", "V", 0)
    assert end(measure(flags, chip=["fact argument_cycles 3"])) == end(measure(flags))


def test_a_vector_instruction_starts_when_it_is_issued_and_takes_its_repeats(measure):
    report = measure(Core().event("vadd", "V", units=8))
    assert slices(report) == [(0, 1, 1 + 20 + 2 * 8)]
    assert report["values"]["cycles"] == LAUNCH + 37
    pipe = report["cores"][0]["pipes"]["V"]
    assert (pipe["busy"], pipe["held"], pipe["instructions"]) == (36, 0, 1)
    assert (pipe["start"], pipe["end"]) == (LAUNCH + 1, LAUNCH + 37)


def test_scalar_work_delays_what_is_issued_behind_it(measure):
    report = measure(Core().event("vadd", "V", scalar=30).event("vadd", "V", scalar=7))
    assert slices(report, 0, SCALAR) == [(0, 0, 30), (1, 31, 38)]
    assert slices(report, 0, WORK) == [(0, 31, 51), (1, 51, 71)]
    assert report["cores"][0]["pipes"]["S"]["busy"] == 30 + 1 + 7 + 1


def test_pipes_without_flags_overlap(measure):
    report = measure(Core().load(0, 1000).event("vadd", "V", units=10))
    assert slices(report, 0, WORK) == [(0, 1, 1 + 10 + 1024 / 8), (1, 2, 42)]  # 1000 bytes are 32 sectors


def test_a_flag_waits_for_the_result_and_its_latency(measure):
    core = Core().load(0, 320).set("MTE2", "V").wait("MTE2", "V").event("vadd", "V")
    report = measure(core)
    load_end = 1 + 10 + 320 / 8
    assert slices(report, 0, WORK)[0] == (0, 1, load_end)
    assert slices(report, 0, SET) == [(1, load_end, load_end + FLAG)]
    up = load_end + READ
    assert slices(report, 0, WAIT) == [(2, 3, up + FLAG)]
    assert slices(report, 0, WORK)[1] == (3, up + FLAG, up + FLAG + 20)
    assert report["cores"][0]["pipes"]["V"]["held"] == up + FLAG - 3


def test_a_latency_is_overlapped_by_the_next_instruction_of_the_pipe(measure):
    report = measure(Core().load(0, 320).load(4096, 320))
    assert slices(report, 0, WORK) == [(0, 1, 51), (1, 51, 101)]
    assert end(report) == 101 + READ


def test_a_set_holds_up_nothing(measure):
    report = measure(Core().load(0, 320).set("MTE2", "V").load(4096, 320).wait("MTE2", "V"))
    assert slices(report, 0, WORK) == [(0, 1, 51), (2, 52, 102)]
    assert slices(report, 0, WAIT) == [(3, 4, 51 + READ + FLAG)]


def test_a_barrier_holds_its_own_pipe_until_its_results_are_there(measure):
    report = measure(Core().load(0, 320).barrier("MTE2").load(4096, 320).event("vadd", "V"))
    assert slices(report, 0, BARRIER) == [(1, 51, 51 + READ + FLAG)]
    assert slices(report, 0, WORK)[1][1] == 51 + READ + FLAG
    assert slices(report, 0, WORK)[2][1] == 4  # another pipe


def test_a_barrier_of_all_pipes_holds_the_scalar_unit(measure):
    report = measure(Core().load(0, 320).event("vadd", "V", units=100).barrier("ALL").event("vadd", "V"))
    done = 2 + 20 + 200
    assert slices(report, 0, BARRIER) == [(2, 2, done + FLAG)]
    assert slices(report, 0, WORK)[2][1] == done + FLAG + ISSUE


def test_a_wait_of_the_scalar_unit_holds_all_that_it_issues(measure):
    report = measure(Core().event("vadd", "V").set("V", "S").wait("V", "S").event("vadd", "V"))
    assert slices(report, 0, WAIT) == [(2, 2, 22 + FLAG)]
    assert slices(report, 0, WORK)[1][1] == 23 + ISSUE


def test_the_scalar_unit_sets_a_flag_at_once(measure):
    report = measure(Core().set("S", "V").wait("S", "V").event("vadd", "V"))
    assert slices(report, 0, SET, WAIT) == [(0, 0, 1), (1, 2, 3)]
    assert slices(report, 0, WORK) == [(2, 3, 23)]


def test_the_queue_limits_how_far_the_scalar_unit_runs_ahead(measure):
    core = Core()
    for _ in range(6):
        core.event("vadd", "V", units=40)  # 100 cycles
    report = measure(core.event("copy_cbuf_to_ubuf", "MTE1"))
    assert slices(report, 0, WORK)[:6] == [(i, 1 + 100 * i, 101 + 100 * i) for i in range(6)]
    # The fifth needs the place of the first, which started at 1 (no wait); the sixth that of the second, which starts at 101.
    assert slices(report, 0, QUEUE_FULL) == [(5, 5, 101)]
    assert slices(report, 0, WORK)[6][1] == 101 + 2 * ISSUE
    assert report["cores"][0]["pipes"]["S"]["held"] == 96


def test_other_pipes_have_queues_of_their_own(measure):
    core = Core()
    for pipe, instruction in (("V", "vadd"), ("M", "mad"), ("MTE1", "load_cbuf_to_ca")):
        for _ in range(4):
            core.event(instruction, pipe, units=1000)
    assert slices(measure(core), 0, QUEUE_FULL) == []


def test_an_instruction_that_waited_in_the_queue_counts_from_its_issue(measure):
    """V waits for a flag that S sets later; what the record holds in between is issued, but not run."""
    core = Core().wait("S", "V", what="issued").event("vadd", "V", what="issued", scalar=5)
    core.set("S", "V", scalar=40).wait("S", "V", what="executed").event("vadd", "V", what="executed")
    report = measure(core)
    assert slices(report, 0, SET) == [(2, 47, 48)]
    assert slices(report, 0, WAIT) == [(3, 1, 49)]
    assert slices(report, 0, WORK) == [(4, 49, 69)]


def test_the_cube_pays_its_start_only_after_a_gap(measure):
    report = measure(Core().event("mad", "M", units=64).event("mad", "M", units=64).event("mad", "M", units=8, scalar=500))
    assert slices(report, 0, WORK) == [(0, 1, 71), (1, 71, 135), (2, 503, 517)]
    assert end(report) == 517 + 20


def test_a_barrier_empties_the_cube(measure):
    report = measure(Core().event("mad", "M", units=64).barrier("M").event("mad", "M", units=64))
    assert slices(report, 0, WORK) == [(0, 1, 71), (2, 92, 162)]


def test_a_flag_that_is_up_already_leaves_no_gap_in_the_cube(measure):
    core = Core().set("S", "M").event("mad", "M", units=64).wait("S", "M").event("mad", "M", units=64)
    assert slices(measure(core), 0, WORK) == [(1, 2, 72), (3, 73, 137)]


def double_buffered(tiles, buffers):
    """load -> vadd -> store over `tiles` tiles with so many buffers, each handed over by flags."""
    core = Core()
    for i in range(tiles):
        slot = i % buffers
        if i >= buffers:
            core.wait("MTE3", "MTE2", slot)
        core.load(320 * i, 320).set("MTE2", "V", slot).wait("MTE2", "V", slot)
        core.event("vadd", "V", units=100).set("V", "MTE3", slot).wait("V", "MTE3", slot)
        core.store(1 << 20, 320).set("MTE3", "MTE2", slot)
    return core


def test_double_buffering_hides_loads_behind_the_vector_unit(measure):
    chip = ["fact queue_depth 16", "fact l2_bytes 1048576"]
    tiles = 20
    one, two = (measure(double_buffered(tiles, n), chip=chip, launches=2)[1] for n in (1, 2))  # the second: L2 is warm
    busy = two["cores"][0]["pipes"]["V"]["busy"]
    assert busy == tiles * (220 + FLAG)
    assert one["cores"][0]["pipes"]["V"]["busy"] == busy
    # With one buffer each tile's load, sum and store follow one another; with two, V never waits after its first tile.
    load, add, store = 10 + 320 / 128, 20 + 2 * 100, 10 + 320 / 128
    first = 1 + load + READ + FLAG
    # V: the first load, then sums with a set and a wait (which never holds) between; the last store's wait and store follow.
    assert end(two) == first + tiles * add + (tiles - 1) * 2 * FLAG + 2 * FLAG + store + WRITE
    # One buffer: load, sum and store of a tile after those of the last, each behind a set's and a wait's cycle (a set is seen
    # at once where a latency covers it).
    assert end(one) == 1 + tiles * (load + READ + FLAG + add + 2 * FLAG + store + WRITE) + (tiles - 1) * FLAG
    assert end(one) > 1.5 * end(two)


def test_l2_serves_what_was_read_before(measure):
    report = measure(Core().load(0, 256).load(0, 256))
    assert [e - s for _, s, e in slices(report, 0, WORK)] == [10 + 32, 10 + 2]
    values = report["values"]
    assert (values["ddr_read_bytes"], values["l2_read_bytes"], values["ddr_write_bytes"]) == (256, 256, 0)


def test_a_write_allocates_and_is_read_from_l2(measure):
    report = measure(Core().store(0, 256).set("MTE3", "MTE2").wait("MTE3", "MTE2").load(0, 256))
    assert [e - s for _, s, e in slices(report, 0, WORK)] == [42, 12]
    values = report["values"]
    assert (values["ddr_read_bytes"], values["l2_read_bytes"], values["l2_write_bytes"]) == (0, 256, 256)


def test_l2_fetches_sectors_of_a_line_only_as_they_are_read(measure):
    report = measure(Core().load(0, 32).load(32, 64).load(0, 128))
    assert [e - s for _, s, e in slices(report, 0, WORK)] == [10 + 4, 10 + 8, 10 + 96 / 128 + 4]


def test_the_least_recently_used_line_goes_and_dirty_bytes_are_written_back(measure):
    """1 KiB in two ways of 128 bytes: lines 512 bytes apart share a set of two."""
    core = Core().store(0, 64).load(512, 128).load(0, 32).load(1024, 128).load(0, 32).load(512, 128).load(1024, 128)
    report = measure(core)
    # 1024 drives out 512; then 0 is still there, 512 drives out 1024, and 1024 drives out 0 with its 64 written bytes.
    hits = [e - s < 12 for _, s, e in slices(report, 0, WORK)]
    assert hits == [False, False, True, False, True, False, False]
    assert report["values"]["ddr_write_bytes"] == 64


def test_strided_accesses_touch_their_runs_only(measure):
    core = Core().event("copy_gm_to_ubuf", "MTE2", path="gm_to_ub", bytes=128).gm(0, 32, stride=256, runs=4)
    report = measure(core.load(256, 32).load(32, 32), chip=["fact l2_bytes 16384"])
    assert report["values"]["ddr_read_bytes"] == 128 + 32
    assert report["values"]["l2_read_bytes"] == 32


def test_l2_stays_warm_over_launches_of_a_device(measure):
    cold, warm, again = measure(Core().load(0, 512), launches=3)
    assert (cold["values"]["ddr_read_bytes"], warm["values"]["ddr_read_bytes"]) == (512, 0)
    assert end(cold) - end(warm) == 512 / 8 - 512 / 128
    assert warm == again


@pytest.mark.parametrize("fact", ["l2_ways 0", "l2_line_bytes 48", "l2_line_bytes 1024", "l2_bytes 128"])
def test_sizes_that_make_no_l2_are_refused(driver, fact):
    with pytest.raises(
        AssertionError, match="L2: expected lines of 32 to 512 bytes in steps of 32, and room for one set of them"
    ):
        clock_driver.ask(driver, clock_driver.script([*CHIP, f"fact {fact}"], [Core()], "measure 1"))


def test_cores_share_l2_in_the_order_of_their_accesses(measure):
    """Core 0 comes later to the same bytes, so core 1 fetches them."""
    report = measure(Core().load(0, 256, scalar=100), Core().load(0, 256))
    assert [e - s for _, s, e in slices(report, 0, WORK)] == [12]
    assert [e - s for _, s, e in slices(report, 1, WORK)] == [42]
    tie = measure(Core().load(0, 256), Core().load(0, 256))
    assert [e - s for _, s, e in slices(tie, 0, WORK)] == [42]
    assert [e - s for _, s, e in slices(tie, 1, WORK)] == [12]


def test_cores_meet_at_sync_all(measure):
    def core(units):
        return Core().event("vadd", "V", units=units).event("sync_all", "S").event("vadd", "V")

    report = measure(core(10), core(500), core(50))
    met = 1 + 20 + 1000 + 500
    for i in range(3):
        assert slices(report, i, WORK)[1] == (2, met + ISSUE, met + ISSUE + 20)
        assert end(report, i) == met + 21
    assert slices(report, 0, BARRIER) == [(1, 1, met)]


def test_scalar_loads_of_gm_are_counted_but_charged_by_the_core(measure):
    core = Core().event("scalar_load", "S", path="gm_to_s", bytes=4, scalar=350).gm(64, 4).event("vadd", "V")
    report = measure(core)
    assert slices(report, 0, WORK)[1] == (1, 351, 371)
    assert report["values"]["ddr_read_bytes"] == 32


def test_the_last_core_ends_the_launch(measure):
    report = measure(Core().event("vadd", "V", units=5), Core().event("vadd", "V", units=50))
    assert report["values"]["cycles"] == LAUNCH + 121


def test_energy_is_the_sum_over_counts(measure):
    core = Core().load(0, 256).load(0, 256).count("macs", 1000).count("useful_macs", 800).count("vector_lanes", 50)
    for name in abi.names("paths"):
        core.path(name, 1)
    chip = [f"fact pj_per_{name} {10.0**i}" for i, name in enumerate(ENERGY)] + ["fact static_watts 7"]
    values = measure(core, core, chip=chip)["values"]
    # Ends of one byte on each path: L1 five, L0 six, UB eight (two of them UB to UB).
    ends = {"l1_byte": 5, "l0_byte": 6, "ub_byte": 8, "mac": 1000, "vector_lane": 50}
    expected = 2 * sum(count * 10.0 ** ENERGY.index(name) for name, count in ends.items())
    expected += 4 * 256 * 10.0 ** ENERGY.index("l2_byte") + 256 * 10.0 ** ENERGY.index("ddr_byte")
    assert values["dynamic_microjoules"] == pytest.approx(expected * 1e-6, rel=1e-14)
    assert values["static_microjoules"] == pytest.approx(7 * values["microseconds"], rel=1e-14)
    assert values["cube_utilisation"] == pytest.approx(1600 / (4096 * 10 * values["cycles"]), rel=1e-14)


ENERGY = ["mac", "vector_lane", "ddr_byte", "l2_byte", "l1_byte", "l0_byte", "ub_byte"]


def random_core(draw):
    """Flags between random pairs, each wait behind its set; the same seed gives the same core."""
    core, up = Core(), []
    for _ in range(200):
        what = draw.randrange(6)
        if what == 0:
            core.load(32 * draw.randrange(256), 32 * draw.randrange(1, 64), scalar=draw.randrange(20))
        elif what == 1:
            core.store(32 * draw.randrange(256), 32 * draw.randrange(1, 64))
        elif what == 2:
            core.event("vadd", "V", units=draw.randrange(255))
        elif what == 3:
            core.event("mad", "M", units=draw.randrange(64))
        elif what == 4 and len(up) < 8:
            pair = (*draw.sample(["V", "M", "MTE2", "MTE3", "S"], 2), len(up))
            if pair not in up:
                up.append(pair)
                core.set(*pair)
        elif up:
            core.wait(*up.pop())
    return core


def test_equal_records_give_equal_bits(driver):
    for seed in range(5):
        draw = random.Random(f"clock-{seed}")
        text = clock_driver.script(CHIP, [random_core(draw) for _ in range(4)], "measure 2")
        assert clock_driver.ask(driver, text) == clock_driver.ask(driver, text), f"clock-{seed}"


def test_a_slower_part_never_makes_a_run_faster(measure):
    """With one core nobody competes for L2, so time is monotonic in every cost."""
    core = random_core(random.Random("monotonic"))
    base = measure(core)["values"]["cycles"]
    slower = ["cost vadd 25 2", "cost mad 6 2", f"fact gm_read_latency {READ + 30}", f"fact flag_cycles {FLAG + 1}",
              "fact gm_ddr_read_rate 7", "fact issue_cycles 3", "fact argument_cycles 2", "fact queue_depth 2",
              "fact launch_cycles 1010"]  # fmt: skip
    times = [measure(core, chip=[line])["values"]["cycles"] for line in slower]
    assert all(time >= base for time in times)
    assert sum(time > base for time in times) >= 5


TILE = 192 * 1024


def copy_loop(path, rounds):
    """Copies of one tile that L2 holds: five in a row into places of their own, or leg after leg."""
    core = Core().load(0, TILE).barrier("ALL")
    for _ in range(5 * rounds if path == "ub_to_gm_to_l1" else rounds):
        if path == "ub_to_gm_to_l1":
            core.store(0, TILE).set("MTE3", "MTE2").wait("MTE3", "MTE2")
            core.event("copy_gm_to_cbuf", "MTE2", path="gm_to_l1", bytes=TILE).gm(0, TILE).set("MTE2", "MTE3").wait(
                "MTE2", "MTE3"
            )
            continue
        for _ in range(5):
            if path == "gm_to_l1":
                core.event("copy_gm_to_cbuf", "MTE2", path=path, bytes=TILE).gm(0, TILE)
            else:
                core.event("copy_ubuf_to_cbuf", "MTE3", path=path, bytes=TILE)
        core.barrier("MTE2" if path == "gm_to_l1" else "MTE3")
    return core


@pytest.mark.parametrize(("path", "profiled"), [("ub_to_l1", 205), ("gm_to_l1", 95), ("ub_to_gm_to_l1", 48)])
def test_the_model_is_within_15_percent_of_the_profiled_bandwidths(driver, path, profiled):
    """Profiled on one core of a 310P, by others; the same loops as benchmarks/path_bandwidth.py."""
    microseconds = []
    for rounds in (2, 4):
        ((report,),) = clock_driver.ask(
            driver, clock_driver.script(["target ascend310p1"], [copy_loop(path, rounds)], "measure 1")
        )
        microseconds.append(report["values"]["microseconds"])
    modelled = 2 * 5 * TILE / (microseconds[1] - microseconds[0]) / 1e3
    assert abs(modelled / profiled - 1) < 0.15, f"{modelled:.1f} GB/s"
