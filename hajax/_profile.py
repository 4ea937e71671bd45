"""hajax.profile: what the calls of a block did on the emulated chip, counted, and what they would take, modelled.

The library keeps one record for the process, which reading empties: what is read here goes to every open block. Hence
`npu.take_calls` and a block must not be used at the same time.
"""

import contextlib
import threading
from collections.abc import Iterator

from hajax.backends import npu


class Profile:
    """The calls with implementation "sim" that ended within a `with hajax.profile()` block, in the order in which they ended.

    Wait for results (`block_until_ready`) before reading it: JAX runs calls behind the program's back.
    """

    def __init__(self) -> None:
        self._calls: list[npu.Call] = []

    @property
    def calls(self) -> tuple[npu.Call, ...]:
        """Of each call, the plan's bytes and its launches: counts (exact) and timing (modelled)."""
        with _blocks.lock:
            _blocks.hand_out()
            return tuple(self._calls)

    @property
    def counts(self) -> dict[str, int]:
        """Exact counts of all calls together: bytes by path, instructions, MACs; of peak bytes the largest."""
        total: dict[str, int] = {}
        for call in self.calls:
            for run in call.runs:
                for name, count in run.counts.items():
                    together = max if name.startswith("peak_") else int.__add__
                    total[name] = together(total.get(name, 0), count)
        return total

    @property
    def cycles(self) -> float:
        """Modelled cycles of all launches one after the other."""
        return sum(run.timing["cycles"] for call in self.calls for run in call.runs)

    @property
    def microseconds(self) -> float:
        """The same in modelled time."""
        return sum(run.timing["microseconds"] for call in self.calls for run in call.runs)


class _Blocks:
    """The open blocks of this process. Whoever calls a method holds the lock."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._open: list[Profile] = []
        self._recording = contextlib.ExitStack()  # from the first block's begin to the last one's end

    def hand_out(self) -> None:
        """Gives every open block the calls that ended since the last time."""
        if self._open:
            calls = npu.take_calls()
            for block in self._open:
                block._calls.extend(calls)

    def open(self, block: Profile) -> None:
        """What was done before is not the new block's."""
        if self._open:
            self.hand_out()
        else:
            self._recording.enter_context(npu.recording())
            npu.take_calls()  # of somebody else's recording
        self._open.append(block)

    def close(self, block: Profile) -> None:
        """What is done from now on is not this block's."""
        try:
            self.hand_out()
        finally:
            self._open = [other for other in self._open if other is not block]
            if not self._open:
                self._recording.close()


_blocks = _Blocks()


@contextlib.contextmanager
def profile(*, timelines: bool = False) -> Iterator[Profile]:
    """Keeps what every call with implementation "sim" does within the block, over all threads of this process.

    Blocks may be nested and may overlap: each has all calls that ended while it was open, whoever made them.
    timelines: keep what `hajax.backends.npu.timeline(run)` needs, some 64 bytes an instruction. Raises LibraryError where
    libhajax_sim cannot be used. Counts are exact; cycles and times are modelled.
    """
    found = Profile()
    with _blocks.lock:
        _blocks.open(found)
    try:
        # The library takes back the latest wish, whose ever it was. So the one without timelines is the first and the last, and
        # on it lie only such with them.
        with npu.recording(timelines=True) if timelines else contextlib.nullcontext():
            yield found
    finally:
        with _blocks.lock:
            _blocks.close(found)
