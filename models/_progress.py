"""A progress bar on standard error, only where someone watches it."""

from __future__ import annotations

import sys
import time
from types import TracebackType

_WIDTH = 30
_SECONDS_BETWEEN_DRAWS = 0.1


class Progress:
    """`with Progress("loading", total_bytes) as bar: bar.advance(n)`. `shown` None: only on a terminal."""

    def __init__(self, label: str, total: int, shown: bool | None = None) -> None:
        self._label, self._total, self._done = label, max(total, 1), 0
        self._shown = sys.stderr.isatty() if shown is None else shown
        self._drawn = 0.0

    def __enter__(self) -> Progress:
        self._draw()
        return self

    def advance(self, amount: int) -> None:
        self._done += amount
        if time.monotonic() - self._drawn > _SECONDS_BETWEEN_DRAWS:
            self._draw()

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        if self._shown:
            self._draw()
            sys.stderr.write("\n")
            sys.stderr.flush()

    def _draw(self) -> None:
        if not self._shown:
            return
        filled = min(_WIDTH, _WIDTH * self._done // self._total)
        bar = "#" * filled + " " * (_WIDTH - filled)
        sys.stderr.write(f"\r{self._label} [{bar}] {self._done / 1e6:,.0f} / {self._total / 1e6:,.0f} MB")
        sys.stderr.flush()
        self._drawn = time.monotonic()
