"""Launches that one kernel runs, and slots of the workspace: on the emulated chip, all checks on, against the steps' meaning."""

import dataclasses

import numpy as np
import pytest
import steps
from workspace_plan import CHUNK, UNITS, doubled_twice, held, held_values, in_four, moved_back, shape_of, shifted

from hajax import abi
from hajax.backends import npu, sim
from hajax.backends._arrays import ARRAYS
from hajax.plans import Plan, from_bytes, interpret, summed, to_bytes, verify
from hajax.targets.npu import load


def arrays_of(shape, bounds=None):
    sizes = {name: getattr(shape, name) for name in ("key_heads", "value_heads", "key_dim", "value_dim")}
    bounds = None if bounds is None else [bounds]
    return steps.call(shape.tokens, sequences=shape.sequences, bounds=bounds, **sizes)


def run(plan: Plan, bounds=None, **options):
    """Output and what each kernel did, with all checks; equal to what the steps mean, also as the bytes say it."""
    assert verify(plan) is plan
    arrays, data = arrays_of(plan.shape, bounds), to_bytes(plan)
    output, state, runs = npu.execute(data, arrays, scale=1.0, options=npu.SimOptions(**options) if options else None)
    for programs in (plan.launch, from_bytes(data)):
        meant = interpret.run(programs, interpret.Inputs(**arrays), 1.0)
        assert output.tobytes() == meant[0].tobytes() and state.tobytes() == meant[1].tobytes()
    assert state.tobytes() == arrays["state_in"].tobytes()
    return output, arrays["value"], runs


@pytest.mark.parametrize("memory", ["UB", "L1"])
@pytest.mark.parametrize(("writes", "reads", "stride"), [(64, 64, UNITS), (16, 64, UNITS), (64, 16, 300), (32, 16, 257)])
@pytest.mark.parametrize(("back", "tokens"), [(0, 40), (1, 70), (3, 70), (4, 80)])
def test_slots_of_earlier_chunks_and_of_column_pieces(back, tokens, writes, reads, stride, memory):
    plan = moved_back(shape_of(tokens), back=back, writes=writes, reads=reads, stride=stride, memory=memory)
    output, value, (done,) = run(plan)
    assert (output == shifted(value, [0, tokens], back)).all()
    assert done.counts["sync_alls"] == done.blocks == 3


def test_more_chunks_back_than_a_byte_holds():
    tokens, back = 261 * CHUNK, 258
    output, value, _ = run(moved_back(shape_of(tokens, 1, 16), back=back, writes=16, reads=16))
    assert (output == shifted(value, [0, tokens], back)).all()


@pytest.mark.parametrize(("back", "tokens"), [(1, 96), (2, 90), (3, 150)])
def test_setup_reads_from_before_the_items_first_chunk(back, tokens):
    output, value, _ = run(held(shape_of(tokens), back=back))
    assert (output == held_values(value, back, 3)).all()


@pytest.mark.parametrize("bounds", [[0, 40, 40, 100], [3, 3, 60, 99], [0, 1, 16, 100]])
def test_packed_sequences_keep_to_their_own_slots(bounds):
    """Also ones without a token, and ones that end before an item's first chunk."""
    output, value, (done,) = run(moved_back(shape_of(100, sequences=3), back=2, reads=32), bounds)
    expected = shifted(value, bounds, 2)
    expected[:, : bounds[0]] = expected[:, bounds[-1] :] = 0
    assert (output == expected).all() and done.blocks == 3


@pytest.mark.parametrize("synced", [
    (False, False, False), (True, False, False), (True, False, True), (False, True, True), (True, True, True)
])  # fmt: skip
def test_a_run_of_synced_launches_is_one_kernel(synced):
    output, value, runs = run(in_four(shape_of(50, 3), synced))
    assert (output == value).all()
    assert len(runs) == 4 - sum(synced)
    phases = np.diff([0, *(at + 1 for at, follows in enumerate((*synced, False)) if not follows)])
    assert [one.counts["sync_alls"] for one in runs] == [3 * (phase - 1) for phase in phases]


def test_a_barrier_costs_less_than_a_launch_and_moves_what_two_launches_do():
    chip = load("ascend310p1")
    shape = shape_of(50, 3)
    _, _, (one,) = run(in_four(shape))
    _, _, four = run(in_four(shape, (False,) * 3))
    spent = sum(run.timing["cycles"] for run in four)
    less = 3 * (chip.launch_cycles - chip.sync_all_cycles)
    assert less > 0 and 0.5 * less < spent - one.timing["cycles"] < 1.5 * less
    for name in ("ub_to_gm", "gm_to_ub"):  # the blocks in which cores meet, and no plan, call and arguments for each launch
        bytes_moved = sum(run.counts[name] for run in four)
        assert abs(one.counts[name] - bytes_moved) <= 3 * 3 * 512, name
    assert one.counts["ub_to_gm"] - sum(run.counts["ub_to_gm"] for run in four) == 3 * 3 * 32


@pytest.mark.parametrize("cores", [1, 2, 10])
def test_cores_without_items_meet_the_others(cores):
    output, value, (done,) = run(in_four(shape_of(33, 1), cores=cores))
    assert (output == value).all() and done.blocks == cores


def test_equal_bits_counts_and_cycles_with_any_number_of_threads():
    plan = moved_back(shape_of(100), back=2, reads=16)
    (first, _, (one,)), *others = (run(plan, threads=threads) for threads in (1, 2, 3))
    for output, _, (other,) in others:
        assert output.tobytes() == first.tobytes()
        assert (other.counts, other.timing) == (one.counts, one.timing)


@pytest.mark.parametrize(
    "plan", [moved_back(shape_of(70), back=2, writes=16, reads=32), in_four(shape_of(50, 3), (True, False, True))]
)
def test_a_kernel_made_of_the_programs_does_the_same(plan):
    data, arrays = to_bytes(plan), arrays_of(plan.shape)
    output, state, walked = npu.execute(data, arrays, scale=1.0)
    again, last, special = npu.execute(data, arrays, scale=1.0, specialised=True)
    assert (output.tobytes(), state.tobytes()) == (again.tobytes(), last.tobytes())
    assert [one.counts["sync_alls"] for one in walked] == [one.counts["sync_alls"] for one in special]
    assert special[0].kernel != npu.KERNEL


def test_masks_and_scalars_come_back_behind_a_barrier():
    """Cores meet where they lie."""
    output, value, (done,) = run(doubled_twice(shape_of(40, 3)))  # on core 0, too, whose place is theirs
    expected = value * np.float16(4)
    expected[..., ::2] *= 4
    assert (output == expected).all() and done.counts["sync_alls"] == 9


def test_the_hosts_counters_say_how_many_kernels_there_were():
    library = sim.open_sim_library()
    ffi = library.ffi
    for synced, kernels in (((True, True, True), 1), ((True, False, True), 2), ((False, False, False), 4)):
        plan = in_four(shape_of(50, 3), synced)
        arrays, data = arrays_of(plan.shape), to_bytes(plan)
        output, states = np.empty(arrays["value"].shape, np.float16), np.empty_like(arrays["state_in"])
        call = npu._call(library, {n: arrays[n] for n in ARRAYS} | {"state_in": arrays["state_in"]}, output, states)
        call.state_out = ffi.cast("float *", states.ctypes.data)
        call.scale, call.l2norm_eps = 1.0, -1.0
        counters = ffi.new("int64_t[]", abi.constant("HJ_COUNTERS"))
        nothing = ffi.NULL
        assert library.lib.hajax_sim_execute(nothing, data, len(data), call, nothing, counters, nothing, nothing) == 0
        numbers = abi.table("counters")
        assert (counters[numbers["launches"]], counters[numbers["tasks"]]) == (kernels, 12)


def changed(plan, part, number, **fields):
    """The plan's bytes with other fields of one launch, item or step of the last program."""
    data, ffi = bytearray(to_bytes(plan)), steps.ffi()
    top = ffi.from_buffer("hj_npu_plan *", data)
    offset = {"launch": top.launch_offset, "item": top.item_offset}.get(part)
    if part == "step":
        programs = ffi.from_buffer("hj_npu_program *", memoryview(data)[top.program_offset :])
        offset = programs[top.programs - 1].step_offset
    struct = {"launch": "hj_npu_launch", "item": "hj_npu_item", "step": "hj_step"}[part]
    one = ffi.from_buffer(f"{struct} *", memoryview(data)[offset + number * ffi.sizeof(struct) :])
    for name, value in fields.items():
        if isinstance(value, dict):
            for at, byte in value.items():
                getattr(one, name)[at] = byte
        else:
            setattr(one, name, value)
    del one, top
    return summed(data)


SOUND = moved_back(shape_of(70), back=2, writes=64, reads=16)
LATER = next(at for at, item in enumerate([i for launch in SOUND.launch.launches for core in launch.cores for i in core])
             if item.first_chunk == 2)  # fmt: skip


@pytest.mark.parametrize(("change", "message"), [
    (("launch", 1, {"sync_after": 1}), r"launches\[1\]\.sync_after: expected 0, as no launch follows, got 1"),
    (("launch", 0, {"sync_after": 2}), r"launches\[0\]\.sync_after: expected 0\.\.1, got 2"),
    (("launch", 1, {"cores": 4}), r"launches\[0\]\.cores: expected 4, as the launch that follows in the same kernel has, got 3"),
    (("item", LATER, {"first_chunk": 1}), r"items\[\d+\]\.first_chunk: expected 2\.\.2147483647, got 1"),
    (("step", 0, {"p": {2: 3}}), r"items\[\d+\]\.first_chunk: expected 3\.\.2147483647, got 2"),
    (("step", 0, {"p": {3: 1}}), r"items\[\d+\]\.first_chunk: expected 258\.\.2147483647, got 2"),
    (("step", 0, {"p": {4: UNITS + 1}}), r"\(workspace_to_ub\)\.p\[4\] \| p\[5\] << 8 .*: expected 0\.\.16, got 17"),
    (("step", 0, {"p": {5: 1}}), r"\(workspace_to_ub\)\.p\[4\] \| p\[5\] << 8 .*: expected 0\.\.16, got 272"),
    (("step", 0, {"src0": 1}), r"\(workspace_to_ub\)\.p\[4\] \| p\[5\] << 8 .*: expected 0\.\.15, got 16"),
])  # fmt: skip
def test_the_host_refuses_what_cannot_be(change, message):
    part, number, fields = change
    arrays = arrays_of(SOUND.shape)
    npu.execute(to_bytes(SOUND), arrays, scale=1.0)
    with pytest.raises(npu.LibraryError, match=message):
        npu.execute(changed(SOUND, part, number, **fields), arrays, scale=1.0)


def test_the_host_refuses_to_write_to_another_chunk():
    plan = in_four(shape_of(50, 3))
    only = dataclasses.replace(plan.launch, programs=plan.launch.programs[:1], launches=plan.launch.launches[:1])
    only = dataclasses.replace(only, launches=(dataclasses.replace(only.launches[0], synced=False),))
    data = changed(dataclasses.replace(plan, launch=only), "step", 1, p={2: 1})
    with pytest.raises(
        npu.LibraryError, match=r"\(workspace_from_ub\)\.p\[2\] \| p\[3\] << 8 .*: expected 0, as it writes, got 1"
    ):
        npu.execute(data, arrays_of(plan.shape), scale=1.0)
