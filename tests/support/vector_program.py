"""Programs for tests/emulator/vector_entry.cpp: cases as words, their UB images, and both after a run."""

import dataclasses
import functools
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hajax.backends import sim
from hajax.backends.sim import Output, SimOptions, SimRun

LIST = Path(__file__).parents[2] / "native" / "emulator" / "instructions" / "vector_list.h"
ENTRY = Path(__file__).parents[1] / "emulator" / "vector_entry.cpp"
IMAGE = 64 * 1024
BLOCK = 32
CASE_WORDS = 48
FIRST_ARGUMENT = 6
RESULT_WORDS = 4
ALL = (1 << 64) - 1


@dataclasses.dataclass(frozen=True)
class Entry:
    """A row of vector_entry.cpp's table: instruction of instructions.def, function, element types (destination first)."""

    number: int
    instruction: str
    function: str
    types: tuple[str, ...]

    @property
    def name(self) -> str:
        """As a test's parameter is printed."""
        return "-".join((self.function, *self.types))


@dataclasses.dataclass(frozen=True)
class Mask:
    """Lanes in normal mode, or in counter mode the number of elements."""

    high: int = ALL
    low: int = ALL
    counter: bool = False

    def repeats(self, lanes: int, repeat: int) -> int:
        """How many repeats run."""
        return -(-self.low // lanes) if self.counter else repeat

    def active(self, lanes: int, repeat: int) -> list[np.ndarray]:
        """For each repeat, which lanes are on."""
        if self.counter:
            on = np.arange(self.repeats(lanes, repeat) * lanes) < self.low
            return list(on.reshape(-1, lanes))
        bits = (self.high << 64 | self.low) if lanes > 64 else self.low
        return [np.array([bits >> i & 1 for i in range(lanes)], bool)] * repeat


@dataclasses.dataclass(frozen=True)
class Case:
    """One instruction: its arguments as words, and the UB image that it finds (made from `seed` by the case's family)."""

    entry: Entry
    mask: Mask
    words: tuple[int, ...]
    scale: int = 0
    compare_mask: int = -1

    def encode(self) -> np.ndarray:
        """As vector_entry.cpp reads it."""
        words = np.zeros(CASE_WORDS, np.int64)
        head = (self.entry.number, int(self.mask.counter), self.mask.high, self.mask.low, self.scale, self.compare_mask)
        for i, word in enumerate((*head, *self.words)):
            words[i] = np.uint64(word % (1 << 64)).view(np.int64)
        return words


def listed(*lists: str) -> list[str]:
    """Names of the rows of vector_list.h's lists, as `Entry.name`."""
    found = []
    for name in lists:
        rows = re.search(rf"#define HAJAX_VECTOR_{name}\(X\)((?:.*\\\n)*.*)", LIST.read_text())
        assert rows is not None, name
        found += ["-".join((row[0], *row[2:])) for row in re.findall(r"X\((\w+), (\w+), (\w+)(?:, (\w+))?\)", rows[1])]
    assert found
    return [name.rstrip("-") for name in found]


@functools.cache
def library(target: str) -> Path:
    """The entry, built for a chip."""
    return sim.compile_kernel(ENTRY, target)


@functools.cache
def entries() -> dict[str, Entry]:
    """The table of vector_entry.cpp by its rows' names."""
    text = sim.run(library("ascend310p1"), "vector_names", [Output((1 << 15,), np.uint8), 1 << 15]).arrays[0]
    rows = bytes(text).split(b"\xff")[0].decode().splitlines()
    found = [Entry(i, *row.split()[:2], tuple(row.split()[2:])) for i, row in enumerate(rows)]
    return {entry.name: entry for entry in found}


def execute(
    cases: Sequence[Case], images: np.ndarray, target: str = "ascend310p1", options: SimOptions | None = None
) -> tuple[np.ndarray, np.ndarray, SimRun]:
    """Runs the cases one after the other in one launch. Returns the UB images and the registers after each."""
    program = np.stack([case.encode() for case in cases])
    results = Output((len(cases), RESULT_WORDS), np.int64)
    arguments = [program, images, results, len(cases), images.shape[1]]
    done = sim.run(
        library(target), "vector_entry", arguments, target=target, options=options or SimOptions(threads=1, timeline=False)
    )
    return done.arrays[1], done.arrays[2], done
