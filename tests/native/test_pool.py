"""The CPU library's own threads: results for every count, callers beside one another, after a fork, workers in range."""

import os
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import replace

import pytest
from kernel_driver import Case, execute, ffi, inputs_of, last_error, library

CASES = [Case(r=2, hk=3, blocks=2, dv=72, t=150), Case(t=3, hk=4, steps=9), Case(channels=True, batch=3, hk=2, t=97)]


def run_items(threads, workers, items, item):
    """item(number, worker) for every number below `items`, by the library's threads."""
    parallel = library().hajax_cpu_parallel(threads)

    @ffi().callback("void(void *, int64_t, int32_t)")
    def call(argument, number, worker):
        item(number, worker)

    parallel.run(parallel.context, items, workers, call, ffi().NULL)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_bits_do_not_depend_on_the_number_of_threads(case):
    inputs = inputs_of(case)
    alone = execute(case, inputs)
    assert alone[0] == 0, last_error()
    for threads in (1, 2, 3, 8, 3):
        for workers in (1, 3):
            run = execute(replace(case, workers=workers), inputs, parallel=library().hajax_cpu_parallel(threads))
            assert run[0] == 0, last_error()
            assert (run[1].tobytes(), run[2].tobytes()) == (alone[1].tobytes(), alone[2].tobytes())


@pytest.mark.parametrize("threads", [-1, 0, 1, 2, 5, 512, 513, 2**31 - 1])
@pytest.mark.parametrize(("workers", "items"), [(1, 7), (4, 0), (4, 1), (4, 3), (3, 200)])
def test_every_item_runs_once_with_a_worker_of_the_range(threads, workers, items):
    seen = []
    for _ in range(3):
        seen.clear()
        run_items(threads, workers, items, lambda number, worker: seen.append((number, worker)))
        assert Counter(number for number, _ in seen) == Counter(range(items))
        assert {worker for _, worker in seen} <= set(range(max(1, min(workers, threads))))


def test_helpers_come_and_each_worker_is_one_thread():
    owners, meeting = {}, threading.Barrier(3, timeout=20)

    def item(number, worker):
        meeting.wait()  # three threads, or this times out
        owners.setdefault(worker, set()).add(threading.get_ident())

    for _ in range(20):
        owners.clear()
        run_items(3, 3, 3, item)
        assert set(owners) == {0, 1, 2}
        assert all(len(idents) == 1 for idents in owners.values())
        assert owners[0] == {threading.get_ident()}


def test_a_second_caller_meanwhile_works_alone():
    workers, inside = set(), threading.Event()

    def first(number, worker):
        inside.set()
        time.sleep(0.05)

    other = threading.Thread(target=run_items, args=(2, 2, 4, first))
    other.start()
    assert inside.wait(20)
    run_items(2, 2, 8, lambda number, worker: workers.add(worker))
    assert other.is_alive(), "the first caller was done: nothing was shown"
    other.join()
    assert workers == {0}


def test_work_inside_of_work_is_done_by_its_own_caller():
    inner = []
    run_items(2, 2, 2, lambda number, worker: run_items(2, 2, 3, lambda n, w: inner.append(w)))
    assert inner == [0] * 6


def test_callers_side_by_side_have_equal_bits():
    inputs = {case: inputs_of(case) for case in CASES}
    alone = {case: execute(case, inputs[case])[1].tobytes() for case in CASES}
    wrong = []

    def call(case):
        for _ in range(20):
            run = execute(replace(case, workers=3), inputs[case], parallel=library().hajax_cpu_parallel(3))
            if run[0] != 0 or run[1].tobytes() != alone[case]:
                wrong.append(str(case))

    callers = [threading.Thread(target=call, args=(case,)) for case in CASES * 2]
    [caller.start() for caller in callers]
    [caller.join() for caller in callers]
    assert not wrong


FORK = """
import os, signal, sys, threading
sys.path.insert(0, {support!r})
from kernel_driver import Case, execute, ffi, inputs_of, library
from dataclasses import replace

case = Case(r=2, hk=3, t=150, workers=3)
inputs = inputs_of(case)
parallel = library().hajax_cpu_parallel(3)
expected = execute(case, inputs, parallel=parallel)[1].tobytes()
stop = threading.Event()

def busy():  # the pool is in use, its lock now and then held, while this process forks
    mine = Case(t=20, hk=4, workers=3)
    own = inputs_of(mine)
    while not stop.is_set():
        execute(mine, own, parallel=parallel)

thread = threading.Thread(target=busy)
if {beside}:
    thread.start()
for _ in range(20):
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # a child that hangs dies of it
        meet = threading.Barrier(3, timeout=10)

        @ffi().callback("void(void *, int64_t, int32_t)")
        def item(argument, number, worker):
            meet.wait()  # the child has helpers of its own

        parallel.run(parallel.context, 3, 3, item, ffi().NULL)
        os._exit(meet.broken or execute(case, inputs, parallel=parallel)[1].tobytes() != expected)
    assert os.waitpid(child, 0)[1] == 0, "the child failed, or hung"
assert execute(case, inputs, parallel=parallel)[1].tobytes() == expected
stop.set()
if {beside}:
    thread.join()
print("done")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.parametrize("beside", [False, True], ids=["quiet", "busy"])
def test_a_forked_child_gets_threads_of_its_own(beside):
    support = os.path.join(os.path.dirname(__file__), "..", "support")
    done = subprocess.run(
        [sys.executable, "-c", FORK.format(support=support, beside=beside)], capture_output=True, text=True, timeout=300
    )
    assert done.stdout == "done\n", done.stderr
