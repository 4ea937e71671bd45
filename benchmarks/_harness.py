"""Interleaved timing of peers that run in processes of their own, and printing of what came out."""

import argparse
import contextlib
import json
import signal
import statistics
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import _machine

QUIET = 0.06  # a sample counts as quiet when other processes used at most this share of the machine
SAMPLE_SECONDS = 0.12
_WORKER = Path(__file__).with_name("_worker.py")


class PeerError(RuntimeError):
    """A peer that is not installed, refuses the problem or crashed; the message says which."""


class Worker:
    """One engine's process, started at its first request."""

    def __init__(self, engine: str, threads: int) -> None:
        self.engine, self.threads = engine, threads
        self._process: subprocess.Popen[str] | None = None
        self._errors: list[str] = []

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Sends a request and waits for the answer. Raises PeerError."""
        if self._process is None:
            command = [sys.executable, str(_WORKER), self.engine, str(self.threads)]
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
            self._errors = []
            threading.Thread(target=self._listen, args=(self._process,), daemon=True).start()
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            code = process.wait()
            self._process = None
            said = f" ({self._errors[-1]})" if self._errors else ""
            raise PeerError(f"its process ended with code {code}{said}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise PeerError(answer["error"])
        return answer

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        for line in process.stderr:
            self._errors = [*self._errors[-20:], line.strip()]

    def drop(self) -> None:
        """Lets the engine forget what it prepared, if it ever did."""
        if self._process is not None:
            with contextlib.suppress(PeerError):
                self.ask("drop")

    def close(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            try:
                self._process.wait(timeout=5)
            except subprocess.TimeoutExpired:  # in the middle of a long call
                self._process.kill()
                self._process.wait()
            self._process = None


@dataclass(slots=True)
class Entry:
    """One peer ready to be timed: where it runs, how long a call takes, and the samples so far as (seconds, load of others)."""

    worker: Worker
    slot: int
    estimate: float
    samples: list[tuple[float, float]] = field(default_factory=list)

    def quiet(self) -> list[tuple[float, float]]:
        return [sample for sample in self.samples if sample[1] <= QUIET]

    def kept(self, runs: int) -> list[tuple[float, float]]:
        """`runs` samples: those of the least load, the earlier first among equals."""
        return sorted(self.samples, key=lambda sample: sample[1] > QUIET and sample[1])[:runs]

    def wanted(self, runs: int, seconds: float) -> int:
        """Fewer samples of a slow peer: about `seconds` in all, at least one."""
        return max(1, min(runs, int(seconds / max(self.estimate, 1e-9))))


def interleave(
    entries: list[Entry], runs: int, *, patience: int = 2, seconds: float = 20.0, at_least: float = SAMPLE_SECONDS
) -> list[tuple[Entry, PeerError]]:
    """Samples the entries in turn, each round from another one on, until each has `runs` quiet samples or patience * runs in all.

    Returns the entries that broke on the way, with why.
    """
    broken: list[tuple[Entry, PeerError]] = []
    for turn in range(runs * patience):
        start = turn % max(1, len(entries))
        for entry in entries[start:] + entries[:start]:
            wanted = entry.wanted(runs, seconds)
            if len(entry.quiet()) >= wanted or len(entry.samples) >= wanted * patience or any(entry is e for e, _ in broken):
                continue
            try:
                answer = entry.worker.ask("sample", slot=entry.slot, at_least=at_least, estimate=entry.estimate)
                entry.samples.append((answer["seconds"], answer["others"]))
            except PeerError as error:
                broken.append((entry, error))
    return broken


def summary(entry: Entry, runs: int, seconds: float = 20.0) -> dict[str, Any]:
    """Median and least milliseconds of a call, and the number of samples behind them."""
    times = [1e3 * sample[0] for sample in entry.kept(entry.wanted(runs, seconds))]
    return {"ms_median": round(statistics.median(times), 4), "ms_min": round(min(times), 4), "runs": len(times)}


def machine(entries: list[Entry], runs: int, threads: int) -> dict[str, Any]:
    """The machine's facts, with how busy others kept it while the samples that count were taken."""
    loads = [sample[1] for entry in entries for sample in entry.kept(entry.wanted(runs, 20.0))] or [0.0]
    return {
        **_machine.facts(),
        "threads": threads,
        "other_load_median": round(statistics.median(loads), 3),
        "other_load_max": round(max(loads), 3),
        "samples_over_quiet": round(sum(load > QUIET for load in loads) / len(loads), 3),
    }


def caption(facts: dict[str, Any]) -> str:
    """What stands under a table of measured times."""
    return (
        f"measured on {facts['cpu']}, {facts['threads']} threads, {facts['date']}, commit {facts['commit']}; other processes "
        f"used {facts['other_load_median']:.0%} of the machine (median; at most {facts['other_load_max']:.0%})"
    )


def end_cleanly_when_told() -> None:
    """SIGTERM leaves as an error does, so that temporary folders (gigabytes of weights) and workers go too."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def closing_lines(report: dict[str, Any]) -> list[str]:
    """What stands under a table: peers that are missing, and what was measured where."""
    return [f"missing: {absent['peer']}: {absent['reason']}" for absent in report["missing"]] + [caption(report["machine"])]


def check_threads(parser: argparse.ArgumentParser, threads: int) -> None:
    """Ends the program with the parser's error when there are not so many CPUs."""
    if not 1 <= threads <= _machine.usable_cpus():
        parser.error(f"--threads: expected 1 to {_machine.usable_cpus()}, the CPUs at hand, got {threads}")


def publish(report: dict[str, Any], as_json: bool, show: Callable[[dict[str, Any]], None]) -> None:
    """Prints the report: one JSON object, or tables for people."""
    if as_json:
        print(json.dumps(report, indent=1))
    else:
        show(report)


def progress(message: str) -> None:
    """A line on standard error, where it disturbs no --json."""
    print(message, file=sys.stderr, flush=True)
