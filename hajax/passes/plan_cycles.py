"""Modelled cycles of a whole plan: of each launch the busiest core's items, without running anything."""

from dataclasses import dataclass, field

from hajax.passes.gm_reuse import CODE, CONSTANTS, Piece, Place, Reuse, is_write, pieces_of, place_of, traffic_of
from hajax.passes.kernel_clock import Rows, Visit, item_cycles, meeting_cycles, rows_of, start_cycles, walked
from hajax.plans import Plan, Programs, Shape, opened
from hajax.plans.footprint import Dims
from hajax.plans.program import Step
from hajax.targets import NpuTarget

_USUAL_TOKENS = 4096  # where a shape does not say


def plan_cycles(plan: Plan, target: NpuTarget) -> tuple[float, ...]:
    """Of each launch, its start included; of one in the kernel of the launch before it, that its cores meet. Modelled."""
    launch = opened(plan).launch
    if not isinstance(launch, Programs):
        raise ValueError(f"plan: expected one of a chip, got one of schedule {plan.schedule!r}")
    model = _Model(launch, plan.shape, target)
    return tuple(model.cycles(number) for number in range(len(launch.launches)))


@dataclass(slots=True)
class _Found:
    """A program in a launch: the share of each place that it misses; what came of it so far."""

    shares: dict[Place, float]
    code: float  # share of its steps
    rows: dict[bool, Rows] = field(default_factory=dict)
    cycles: dict[tuple[Visit, bool], tuple[float, float]] = field(default_factory=dict)


class _Model:
    """Launches one after the other."""

    def __init__(self, programs: Programs, shape: Shape, target: NpuTarget):
        self._programs, self._shape, self._target = programs, shape, target
        self._dims = Dims(programs.chunk, shape.key_dim)
        tokens = shape.tokens or _USUAL_TOKENS
        self._chunks = max(1, -(-tokens // shape.sequences // programs.chunk))
        every = enumerate(programs.programs)
        self._traffic = [traffic_of(number, program, self._dims, shape.value_dim) for number, program in every]
        self._reuse = Reuse(self._traffic, shape.value_heads // shape.key_heads, target.l2_bytes)

    def cycles(self, number: int) -> float:
        """Of the next launch, which has this number."""
        launch = self._programs.launches[number]
        cores = pieces_of(launch, self._chunks)
        self._reuse.launch(cores)
        busy = sum(1 for core in cores if core)
        found = {program: self._found(program, busy) for program in {piece.item.program for core in cores for piece in core}}
        longest = max((self._core_cycles(core, found) for core in cores), default=0.0)
        joined = number > 0 and self._programs.launches[number - 1].synced
        return (meeting_cycles if joined else start_cycles)(self._target) + longest

    def _found(self, program: int, busy: int) -> _Found:
        """Of constants and steps, the shares are those of the core that misses most of them: cores come for the same ones
        together, and one that had to wait finds the next ones there.
        """
        traffic = self._traffic[program]
        shares = {place: self._reuse.read(place, program) for place in traffic.reads}
        cold = {place: size for place, size in traffic.kept.items() if self._reuse.lost(place, program)}
        whole = sum(cold.values())
        most = max(max(cold.values(), default=0), whole / busy) / max(1, whole)
        kept = {place: most if place in cold else 0.0 for place in traffic.kept}
        return _Found({**shares, **kept}, next(share for place, share in kept.items() if place[0][0] == CODE))

    def _core_cycles(self, core: list[Piece], found: dict[int, _Found]) -> float:
        """Items one after the other; the first one of a program loads what it keeps."""
        total, before, met = 0.0, -1, set[int]()
        for piece in core:
            program = piece.item.program
            its, cold = found[program], program not in met
            chunks = walked(piece.chunks, self._programs.programs[program].stages)
            visit = Visit(chunks, piece.first, piece.last, program != before, its.code if cold else 0.0)
            if (visit, cold) not in its.cycles:
                if cold not in its.rows:
                    its.rows[cold] = self._rows(program, its.shares, cold)
                its.cycles[visit, cold] = item_cycles(its.rows[cold], visit, self._target)
            cycles, steady = its.cycles[visit, cold]
            total += cycles + (piece.chunks - chunks) * steady
            before = program
            met.add(program)
        return total

    def _rows(self, program: int, shares: dict[Place, float], cold: bool) -> Rows:
        others = self._shape.value_dim - self._programs.programs[program].columns

        def missed(step: Step) -> float:
            place = place_of(step, others)
            if place is None or (place[0][0] == CONSTANTS and not cold):
                return 0.0
            return self._reuse.lost(place, program) if is_write(step) else shares[place]

        return rows_of(self._programs.programs[program], self._dims, self._target, missed)
