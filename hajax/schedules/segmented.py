"""FlashQLA's segment parallelism: few heads on many cores, each cut into segments that are worked on side by side.

What a segment makes of any state is computed beforehand, exactly, as a plan does not know the gates (docs/schedules/flashqla.md).
"""

import heapq
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from hajax.lowering.assembler import Dims
from hajax.lowering.segments import build_passed
from hajax.passes.stages_to_cores import segments_of
from hajax.plans import Note
from hajax.plans.program import Item, Launch, Program
from hajax.schedules.ascend import CHUNK, chunks_of
from hajax.schedules.staged import Planner, Stage

LEAST_CHUNKS = 4  # of a segment, as FlashQLA has it


@dataclass(frozen=True, slots=True)
class Segmented:
    """The stages: all chunks, then summaries of segments, the states behind them, and the segments."""

    solve: Stage
    summary: dict[str, Stage]  # of H and of M
    passed: dict[str, Stage]  # "first", "later"
    fused: dict[str, Stage]

    @property
    def stages(self) -> tuple[Stage, ...]:
        """In the order in which they run."""
        return (self.solve, *self.summary.values(), *self.passed.values(), *self.fused.values())


def segmented(solve: Stage, summary: Callable[..., Program], fused: Callable[..., Program], length: int) -> Segmented:
    """Stages for segments of so many chunks."""
    handed = tuple(solve.writes)
    return Segmented(
        solve,
        {of: Stage(f"summary {of}", partial(summary, of=of), reads=("A",), writes=(of,)) for of in ("H", "M")},
        {
            "first": Stage("state behind the first segment", partial(build_passed, back=0), reads=("M", "H"), writes=("S",)),
            "later": Stage("state behind a segment", partial(build_passed, back=length), reads=("M", "H", "S"), writes=("S",)),
        },
        {
            "first": Stage("first segment", partial(fused, segment="first"), reads=handed),
            "later": Stage("segment", partial(fused, segment="later"), reads=(*handed, "S")),
        },
    )


def segment_chunks(heads: int, chunks: int, cores: int) -> int:
    """FlashQLA's length of a segment: the power of two next to 3 sqrt(heads * chunks / cores), at least LEAST_CHUNKS."""
    return max(LEAST_CHUNKS, 2 ** round(math.log2(3 * math.sqrt(heads * chunks / cores))))


def launches_of(planner: Planner, stages: Segmented, length: int) -> tuple[tuple[Launch, ...], list[Note]]:
    """Four launches."""
    shape, cores = planner.shape, planner.target.ai_cores
    full, chunks = Dims(CHUNK, shape.key_dim, shape.value_dim, 1, False), chunks_of(shape)
    heads = [(s, h) for s in range(planner.sequences) for h in range(shape.value_heads)]
    parts = segments_of(chunks, length)
    solve, note = planner.parallel(stages.solve)
    kinds = [(planner.program(stages.summary["H"], full.columns), 0), (planner.program(stages.summary["M"], full.key_dim), 0)]
    summaries = [
        (count, [Item(program, *head, column, first, count)])
        for head in heads
        for first, count in parts[:-1]
        for program, column in kinds
    ]
    width = _width(full.values, len(heads), cores) * 16
    passed = {name: planner.program(stage, width) for name, stage in stages.passed.items()}
    chains = [
        (
            len(parts) - 1,
            [Item(passed["later" if first else "first"], *head, column, first + count - 1, 1) for first, count in parts[:-1]],
        )
        for head in heads
        for column in range(0, full.columns, width)
    ]
    fused = {name: planner.program(stage, full.columns) for name, stage in stages.fused.items()}
    segments = [
        (count, [Item(fused["later" if first else "first"], *head, 0, first, count if number < len(parts) - 1 else -1)])
        for head in heads
        for number, (first, count) in enumerate(parts)
    ]
    launches = [Launch(solve), *(Launch(_dealt(units, cores)) for units in (summaries, chains, segments))]
    told = Note(
        "segments",
        f"{len(parts)} segments of {length} chunks of each of {len(heads)} heads; all but the last summarised",
        "heads or columns of them on cores",
        f"{len(heads) * len(parts)} pieces of work for {cores} cores",
    )
    return tuple(launches), [note, told]


def _width(blocks: int, heads: int, cores: int) -> int:
    """Blocks of 16 columns of a piece, so that there are about as many pieces as cores and all are alike."""
    return min((n for n in range(1, blocks + 1) if blocks % n == 0 and heads * (blocks // n) <= cores), default=blocks)


def _dealt(units: Iterable[tuple[int, list[Item]]], cores: int) -> tuple[tuple[Item, ...], ...]:
    """Each unit to the core that has the least, the longest first; what is in a unit stays in order on one core."""
    found: list[list[Item]] = [[] for _ in range(cores)]
    heap = [(0, core) for core in range(cores)]
    for cost, items in sorted(units, key=lambda unit: -unit[0]):
        load, core = heapq.heappop(heap)
        found[core] += items
        heapq.heappush(heap, (load + cost, core))
    return tuple(tuple(core) for core in found)
