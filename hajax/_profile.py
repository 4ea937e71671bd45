"""hajax.profile: what the calls of a block did on the emulated chip, counted, and what they would take, modelled."""

import contextlib
from collections.abc import Iterator

from hajax.backends import npu


class Profile:
    """The calls with implementation "sim" of a `with hajax.profile()` block, in the order in which they ended.

    Wait for results (`block_until_ready`) before reading it: JAX runs calls behind the program's back.
    """

    def __init__(self) -> None:
        self._calls: tuple[npu.Call, ...] = ()
        self._open = True

    @property
    def calls(self) -> tuple[npu.Call, ...]:
        """Of each call, the plan's bytes and its launches: counts (exact) and timing (modelled)."""
        if self._open:
            self._calls += npu.take_calls()
        return self._calls

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

    def close(self) -> None:
        """Takes what is there and ends."""
        self._calls = self.calls
        self._open = False


@contextlib.contextmanager
def profile(*, timelines: bool = False) -> Iterator[Profile]:
    """Keeps what every call with implementation "sim" does within the block, over all threads of this process.

    timelines: keep what `hajax.backends.npu.timeline(run)` needs, some 64 bytes an instruction. Raises LibraryError where
    libhajax_sim cannot be used. Counts are exact; cycles and times are modelled.
    """
    with npu.recording(timelines=timelines):
        found = Profile()
        try:
            yield found
        finally:
            found.close()
