"""A process of its own for one engine: `python _worker.py ENGINE THREADS`, driven by _harness.Worker over its standard streams.

Engines are modules of this folder with PEERS: name -> function(problem) -> callable that does the timed work and returns its
output. One engine a process: their thread pools do not meet, and one that crashes takes no other along.
"""

import importlib
import json
import math
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from _machine import Stopwatch

SLOW_SECONDS = 5.0  # a call so long is not repeated only to compile
WARM_UP_BELOW_SECONDS = 1.0


def limit_threads(threads: int) -> None:
    """Before any engine is imported: CPU affinity, and the variables that XLA, hajax and OpenMP read at their start."""
    cpus = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cpus[:threads])
    for name in ("NPROC", "HAJAX_CPU_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(threads)


class Session:
    """The callables that are ready, by a number that the driver chose."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.ready: dict[int, Callable[[], Any]] = {}

    def prepare(self, slot: int, peer: str, problem: dict[str, Any], output: str) -> dict[str, Any]:
        """Builds a peer, runs it twice (a slow one once), saves its output: {"seconds": of the faster run}."""
        call = self.engine.PEERS[peer](problem)
        seconds = float("inf")
        for _ in range(2):
            start = time.perf_counter()
            result = call()
            seconds = min(seconds, time.perf_counter() - start)
            if seconds > SLOW_SECONDS:
                break
        np.save(output, self.engine.to_numpy(result))
        self.ready[slot] = call
        return {"seconds": seconds}

    def sample(self, slot: int, at_least: float, estimate: float) -> dict[str, Any]:
        """One run to warm up, then enough to fill `at_least` seconds: {"seconds": a call's, "others": load}."""
        call = self.ready[slot]
        calls = max(1, math.ceil(at_least / max(estimate, 1e-6)))
        if estimate < WARM_UP_BELOW_SECONDS:
            call()
        watch = Stopwatch()
        for _ in range(calls):
            call()
        elapsed = watch.stop()
        return {"seconds": elapsed.seconds / calls, "others": elapsed.others}

    def drop(self) -> dict[str, Any]:
        """Forgets all callables and what they hold."""
        self.ready.clear()
        getattr(self.engine, "drop", lambda: None)()
        return {}


def main() -> None:
    engine_name, threads = sys.argv[1], int(sys.argv[2])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not mix with the answers
    limit_threads(threads)
    sys.path.insert(0, str(Path(__file__).parent))
    session: Session | None = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if session is None:  # here, so that an engine that cannot be imported is an answer
                session = Session(importlib.import_module(engine_name))
                getattr(session.engine, "start", lambda threads: None)(threads)
            answer = getattr(session, request.pop("do"))(**request)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}".split("\n", 1)[0]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
