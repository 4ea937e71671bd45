"""Modelled cycles of a whole plan: of each launch the busiest core's items, without running anything."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hajax.passes.gm_reuse import Reuse
from hajax.passes.gm_traffic import CODE, Move, Piece, move_of, pieces_of, traffic_of
from hajax.passes.kernel_clock import Rows, Visit, item_cycles, meeting_cycles, rows_of, start_cycles, walked
from hajax.plans import Plan, Programs, Shape, opened
from hajax.plans.footprint import Dims
from hajax.plans.program import Step
from hajax.targets import NpuTarget

_USUAL_TOKENS = 4096  # where a shape does not say
_GRAINS = 4  # shares of bytes that are missed are multiples of one in so many, so that like pieces are walked once
_GROUPS = 8  # pieces of a core that are looked at; those behind them find in L2 what these do

_Shares = tuple[tuple[Move, float], ...]


def plan_cycles(plan: Plan, target: NpuTarget) -> tuple[float, ...]:
    """Of each launch, its start included; of one in the kernel of the launch before it, that its cores meet. Modelled."""
    launch = opened(plan).launch
    if not isinstance(launch, Programs):
        raise ValueError(f"plan: expected one of a chip, got one of schedule {plan.schedule!r}")
    model = _Model(launch, plan.shape, target)
    return tuple(model.cycles(number) for number in range(len(launch.launches)))


@dataclass(slots=True)
class _Walked:
    """What came of a launch's pieces so far."""

    rows: dict[tuple[int, _Shares, bool], Rows] = field(default_factory=dict)
    cycles: dict[tuple[int, _Shares, Visit, bool], tuple[float, float]] = field(default_factory=dict)


class _Model:
    """Launches one after the other."""

    def __init__(self, programs: Programs, shape: Shape, target: NpuTarget):
        self._programs, self._target = programs, target
        self._dims = Dims(programs.chunk, shape.key_dim)
        tokens = shape.tokens or _USUAL_TOKENS
        self._chunks = max(1, -(-tokens // shape.sequences // programs.chunk))
        self._traffic = [traffic_of(number, program, self._dims) for number, program in enumerate(programs.programs)]
        columns = {item.column for launch in programs.launches for core in launch.cores for item in core}
        self._reuse = Reuse(self._traffic, sorted(columns), shape.value_heads // shape.key_heads, target.l2_bytes)

    def cycles(self, number: int) -> float:
        """Of the next launch, which has this number."""
        launch = self._programs.launches[number]
        cores = pieces_of(launch, self._chunks)
        self._reuse.launch(cores)
        busy = sum(1 for core in cores if core)
        kept = {program: self._kept(program, busy) for program in {piece.item.program for core in cores for piece in core}}
        known = _Walked()
        longest = max((self._core_cycles(core, kept, known) for core in cores), default=0.0)
        joined = number > 0 and self._programs.launches[number - 1].synced
        return (meeting_cycles if joined else start_cycles)(self._target) + longest

    def _kept(self, program: int, busy: int) -> dict[Move, float]:
        """Of constants and steps, the shares that the core misses that misses most of them: cores come for the same ones
        together, and one that had to wait finds the next ones there.
        """
        kept = self._traffic[program].kept
        cold = {move: size for move, size in kept.items() if self._reuse.gone(move)}
        whole = sum(cold.values())
        most = max(max(cold.values(), default=0), whole / busy) / max(1, whole)
        return {move: most if move in cold else 0.0 for move in kept}

    def _core_cycles(self, core: list[Piece], kept: Mapping[int, dict[Move, float]], known: _Walked) -> float:
        """Items one after the other; the first one of a program loads what it keeps."""
        total, before, met = 0.0, -1, set[int]()
        alike: dict[tuple[int, int, int], _Shares] = {}
        group = -(-len(core) // _GROUPS)
        for number, piece in enumerate(core):
            program = piece.item.program
            kind = (program, piece.item.column, number // group)
            if kind not in alike:
                alike[kind] = self._shares(piece)
            chunks, cold = walked(piece.chunks, self._programs.programs[program].stages), program not in met
            code = next(share for move, share in kept[program].items() if move.tensor[0] == CODE) if cold else 0.0
            visit = Visit(chunks, piece.first, piece.last, program != before, code)
            key = (program, alike[kind], visit, cold)
            if key not in known.cycles:
                if (program, alike[kind], cold) not in known.rows:
                    known.rows[program, alike[kind], cold] = self._rows(program, dict(alike[kind]), kept[program] if cold else {})
                known.cycles[key] = item_cycles(known.rows[program, alike[kind], cold], visit, self._target)
            cycles, steady = known.cycles[key]
            total += cycles + (piece.chunks - chunks) * steady
            before = program
            met.add(program)
        return total

    def _shares(self, piece: Piece) -> _Shares:
        """Of what it moves, those that it misses."""
        moves = (move for move in self._traffic[piece.item.program].moves if not move.kept)
        return tuple((move, round(_GRAINS * self._reuse.missed(move, piece)) / _GRAINS) for move in moves)

    def _rows(self, program: int, shares: Mapping[Move, float], kept: Mapping[Move, float]) -> Rows:
        def missed(step: Step) -> float:
            move = move_of(step)
            return 0.0 if move is None else shares.get(move, kept.get(move, 0.0))

        return rows_of(self._programs.programs[program], self._dims, self._target, missed)
