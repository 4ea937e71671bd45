"""hajax.profile: each block has the calls that ended while it was open, however blocks are nested or overlap."""

import contextlib
import threading

import jax
import numpy as np
import pytest
import steps
from steps import FREE, flag, plan, program, step

import hajax
from hajax import _profile, abi
from hajax.backends import LibraryError, npu, sim, xla

TENSOR = abi.table("tensors")
SHAPE = {"key_heads": 1, "value_heads": 1, "key_dim": 16, "value_dim": 16}
ORDER = ("query", "key", "value", "log_decay", "beta", "state_in", "bounds")


def copying(chunk):
    """A plan whose output is its values; the chunk makes it another one."""
    row = [(TENSOR[name], 0, 0, 0, 0, 0, 0, 2) for name in ("value", "output")]
    body = [
        step("rows_to_ub", dst=FREE, count=1, p=row[0], set=[flag("MTE2_MTE3", 0)]),
        step("rows_from_ub", src0=FREE, count=1, p=row[1], wait=[flag("MTE2_MTE3", 0)]),
    ]
    return plan([program((), body, ())], **SHAPE, chunk=chunk)


PLANS = {chunk: copying(chunk) for chunk in (16, 32, 48)}


@pytest.fixture(scope="module")
def call():
    """Makes a call through XLA with the plan of a chunk and waits for it."""
    arrays = steps.call(5, **SHAPE)
    state = arrays["state_in"].reshape(-1, *arrays["state_in"].shape[2:])
    operands = [state if name == "state_in" else arrays[name] for name in ORDER]
    with jax.enable_x64(True):
        results = [
            jax.ShapeDtypeStruct(arrays["value"].shape, np.float16), jax.ShapeDtypeStruct(state.shape, np.float32),
            jax.ShapeDtypeStruct((abi.constant("HJ_COUNTERS"),), np.int64),
        ]  # fmt: skip
        kernel = jax.ffi.ffi_call(xla.register_sim(), results)
        compiled = {
            chunk: jax.jit(
                lambda *xs, data=data: kernel(
                    *xs, plan=np.frombuffer(data, np.uint8), scale=np.float32(1), l2norm_eps=np.float32(-1)
                )
            )
            .lower(*operands)
            .compile()
            for chunk, data in PLANS.items()
        }

    def one(chunk):
        with jax.enable_x64(True):
            jax.block_until_ready(compiled[chunk](*operands))

    return one


@pytest.fixture(autouse=True)
def nothing_stays():
    """After each test no block is open and the library no longer records."""
    yield
    assert not _profile._blocks._open
    assert npu.take_calls() == ()


def chunks(profile):
    of = {data: chunk for chunk, data in PLANS.items()}
    return [of[one.plan] for one in profile.calls]


def test_blocks_one_after_the_other_have_their_own_calls(call):
    call(16)
    with hajax.profile() as first:
        call(16)
        call(32)
    call(48)
    with hajax.profile() as second:
        call(32)
    call(48)
    assert (chunks(first), chunks(second)) == ([16, 32], [32])


def test_an_inner_blocks_calls_are_those_made_in_it_and_count_in_the_outer_one_too(call):
    with hajax.profile() as outer:
        call(16)
        with hajax.profile() as inner:
            call(32)
            with hajax.profile() as innermost:
                call(48)
            call(32)
        call(16)
    assert chunks(innermost) == [48]
    assert chunks(inner) == [32, 48, 32]
    assert chunks(outer) == [16, 32, 48, 32, 16]
    assert outer.cycles == pytest.approx(inner.cycles + 2 * outer.calls[0].runs[0].timing["cycles"])
    assert outer.counts["gm_to_ub"] > inner.counts["gm_to_ub"] > innermost.counts["gm_to_ub"] > 0


def test_an_open_block_can_be_read_and_takes_nothing_from_another(call):
    with hajax.profile() as outer:
        call(16)
        assert chunks(outer) == [16]
        with hajax.profile() as inner:
            call(32)
            assert (chunks(inner), chunks(outer)) == ([32], [16, 32])
            assert chunks(inner) == [32]
            call(48)
        assert (chunks(inner), chunks(outer)) == ([32, 48], [16, 32, 48])


def test_blocks_that_overlap_have_what_was_done_while_each_was_open(call):
    first, second = hajax.profile(), hajax.profile()
    one = first.__enter__()
    call(16)
    two = second.__enter__()
    call(32)
    first.__exit__(None, None, None)
    call(48)
    second.__exit__(None, None, None)
    assert (chunks(one), chunks(two)) == ([16, 32], [32, 48])


def test_blocks_of_two_threads_each_have_all_calls_of_the_process(call):
    both, called, seen = threading.Barrier(2, timeout=60), threading.Barrier(2, timeout=60), {}

    def work(chunk):
        with hajax.profile() as profile:
            both.wait()
            call(chunk)
            call(chunk)
            called.wait()
        seen[chunk] = profile

    threads = [threading.Thread(target=work, args=(chunk,)) for chunk in (16, 32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert sorted(chunks(seen[16])) == sorted(chunks(seen[32])) == [16, 16, 32, 32]
    assert seen[16].calls == seen[32].calls  # in one order


def test_many_blocks_that_come_and_go_lose_and_double_nothing(call):
    """Threads open, call and read all the time; each finds its own calls among those that its block has."""
    rounds, failed = 15, []

    def work(chunk):
        try:
            for _ in range(rounds):
                with hajax.profile() as mine:
                    call(chunk)
                    call(chunk)
                    assert chunks(mine).count(chunk) == 2
                assert chunks(mine).count(chunk) == 2
        except BaseException as error:
            failed.append(error)

    with hajax.profile() as all_of_them:
        threads = [threading.Thread(target=work, args=(chunk,)) for chunk in PLANS]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(300)
    assert not failed
    assert sorted(chunks(all_of_them)) == sorted(2 * rounds * list(PLANS))


def test_an_exception_ends_its_block_and_no_other(call):
    with hajax.profile() as outer:
        call(16)
        with contextlib.suppress(ZeroDivisionError), hajax.profile() as inner:
            call(32)
            raise ZeroDivisionError
        call(48)
    assert chunks(inner) == [32]
    assert chunks(outer) == [16, 32, 48]
    with hajax.profile() as later:
        pass
    assert later.calls == ()


def has_timeline(call):
    try:
        return '"traceEvents"' in npu.timeline(call.runs[0])
    except ValueError:
        return False


@pytest.mark.parametrize("timelines", [(True, False), (False, True)], ids=["first", "second"])
def test_timelines_are_kept_for_as_long_as_the_block_that_asked_is_open(call, timelines):
    first, second = (hajax.profile(timelines=asks) for asks in timelines)
    one = first.__enter__()
    call(16)
    two = second.__enter__()
    call(16)
    first.__exit__(None, None, None)
    call(16)
    second.__exit__(None, None, None)
    asked, other = timelines
    assert [has_timeline(made) for made in one.calls] == [asked, True]
    assert [has_timeline(made) for made in two.calls] == [True, other]


def test_calls_of_somebody_elses_recording_are_not_the_blocks(call):
    with npu.recording():
        call(16)
        with hajax.profile() as profile:
            call(32)
    assert chunks(profile) == [32]


def test_without_the_library_a_block_does_not_begin_and_the_next_one_works(call, monkeypatch, tmp_path):
    with monkeypatch.context() as without:
        without.setenv("HAJAX_SIM_LIBRARY", str(tmp_path / "none.so"))
        with pytest.raises(LibraryError, match="no such file"), hajax.profile():
            pytest.fail("it began")
    assert sim.open_sim_library()
    with hajax.profile() as profile:
        call(16)
    assert chunks(profile) == [16]
