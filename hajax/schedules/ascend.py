"""What the schedules of an Ascend core have in common: a mapping, the programs that it needs, each through the passes.

A program depends on the mechanism, its heads and columns, and the chip, never on the number of tokens or sequences.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace

from hajax.lowering.assembler import Assembler, Constants, Dims
from hajax.mechanisms import Mechanism
from hajax.passes.dependencies import unpipelined
from hajax.passes.heads_to_cores import Family, Kind, Mapping, Piece, Weights, map_to_cores
from hajax.passes.pipeline import pipeline
from hajax.passes.place_buffers import DoesNotFit, place_buffers
from hajax.passes.step_cost import step_cost
from hajax.passes.sync import synchronise
from hajax.plans import Note, Plan, Shape
from hajax.plans import footprint as of_steps
from hajax.plans.program import Item, Launch, Program, Programs
from hajax.targets import NpuTarget

CHUNK = 64
MOST_HEADS = 1 << 17  # of a call: each is an item of the plan at least
MOST_ROW_HEADS = 1 << 15  # of a row
SIDE = 16  # elements of a fractal's side
MOST_DIM = 128  # of a head: 64 tokens of it in two parts fill half of L0B
WORKSPACE_RATE = 17.0  # bytes a cycle from DDR
NEVER = 1e12  # bytes that no mapping would move between launches


@dataclass(frozen=True, slots=True)
class Form:
    """How a schedule lowers: `build(dims, constants, kind)`; whether two heads may go side by side and share a key head's rows.

    slot_bytes: what a map launch leaves for a head's chunk; None when the form has no such launches. family: the only kind of
    mapping that is wanted; None: whichever ends first.

    pipelined: steps are reordered so that stages overlap. carried: flags instead of a barrier order an iteration behind the last.
    """

    build: Callable[[Dims, Constants, Kind], Program]
    pairs: bool
    shares_keys: bool
    slot_bytes: Callable[[Dims], int] | None
    pipelined: bool = True
    carried: bool = False
    family: Family | None = None


def schedule(
    name: str, mechanism: Mechanism, shape: Shape, target: NpuTarget, version: int, form: Form, notes: tuple[Note, ...] = ()
) -> Plan:
    """The plan of a form: mapping -> lowering -> pipeline -> buffers -> sync, each with its notes."""
    sequences = checked_sequences(shape)
    full = Dims(CHUNK, shape.key_dim, shape.value_dim, 1, False)
    pairs = form.pairs and shape.value_heads % 2 == 0
    weights = replace(weights_of(form, full, target, pairs), **_shares(form, full, mechanism))
    chunks = chunks_of(shape)
    mapping, mapped = map_to_cores(
        sequences,
        shape.value_heads,
        shape.value_dim,
        chunks,
        target.ai_cores,
        weights,
        pairs=pairs,
        family=form.family,
    )
    constants = Constants()
    variants = _variants(mapping)
    programs, more = [], []
    for number, (kind, heads, columns) in enumerate(variants):
        shared = heads == 2 and form.shares_keys and shape.value_heads // shape.key_heads % 2 == 0
        dims = Dims(CHUNK, shape.key_dim, columns, heads, shared)
        program, made = through_passes(form, dims, constants, kind, target, searches=3 if number == 0 else 1)
        programs.append(program)
        more += made if number == 0 else []
    launches = tuple(
        Launch(tuple(tuple(_item(piece, variants, mapping) for piece in core) for core in launch)) for launch in mapping.launches
    )
    slot = form.slot_bytes(full) if form.slot_bytes is not None and len(launches) > 1 else 0
    made_of = Programs(target.npu_arch, CHUNK, tuple(programs), launches, constants.to_bytes(), slot)
    return Plan(version, mechanism, shape, target.fingerprint, name, made_of, (*notes, mapped, *more))


def checked_sequences(shape: Shape) -> int:
    """Sequences over all rows. Raises ValueError for shapes that no chip runs."""
    if shape.batch is None:
        raise ValueError("shape.batch: expected a size for an Ascend plan, got None")
    for field, size in (("key_dim", shape.key_dim), ("value_dim", shape.value_dim)):
        if size < SIDE or size % SIDE:
            raise ValueError(f"shape.{field}: expected a positive multiple of {SIDE} on a chip, got {size}")
        if size > MOST_DIM:
            raise ValueError(f"shape.{field}: expected at most {MOST_DIM} on a chip (L0B holds no more), got {size}")
    for field in ("input_dtype", "output_dtype"):
        if getattr(shape, field) != "float16":
            raise ValueError(f"shape.{field}: expected float16 for a chip, got {getattr(shape, field)}")
    if shape.value_heads > MOST_ROW_HEADS:
        raise ValueError(f"shape.value_heads: expected at most {MOST_ROW_HEADS} on a chip, got {shape.value_heads}")
    sequences = shape.batch * shape.sequences
    if sequences * shape.value_heads > MOST_HEADS:
        raise ValueError(
            f"shape: expected at most {MOST_HEADS} value heads over all sequences on a chip, got {sequences * shape.value_heads}"
        )
    return sequences


def chunks_of(shape: Shape) -> int:
    """Of each sequence, at most; some number where tokens are not known."""
    return -(-(shape.tokens or 4096) // shape.sequences // CHUNK) or 1


def through_passes(
    form: Form, dims: Dims, constants: Constants, kind: Kind, target: NpuTarget, searches: int
) -> tuple[Program, list[Note]]:
    """One program, lowered, ordered, placed and synchronised."""
    sizes = of_steps.Dims(dims.chunk, dims.key_dim)
    program = form.build(dims, constants, kind)
    notes = []
    if form.pipelined:
        program, note = pipeline(program, sizes, target, searches=searches, carried=form.carried)
        notes.append(note)
    else:
        program = replace(program, body=unpipelined(program.body))
    program, note = place_buffers(program, sizes, target)
    notes.append(note)
    program, note = synchronise(program, sizes, target, carried=form.carried)
    return program, [*notes, note]


def _variants(mapping: Mapping) -> list[tuple[Kind, int, int]]:
    """The programs that the pieces need, in the order in which they come up."""
    found: dict[tuple[Kind, int, int], None] = {}
    for launch in mapping.launches:
        for core in launch:
            for piece in core:
                found[(piece.kind, piece.heads, piece.columns)] = None
    return list(found)


def _item(piece: Piece, variants: list[tuple[Kind, int, int]], mapping: Mapping) -> Item:
    program = variants.index((piece.kind, piece.heads, piece.columns))
    chunks = piece.chunks if piece.kind == "map" else -1
    return Item(program, piece.sequence, piece.head, piece.column, piece.first_chunk if piece.kind == "map" else 0, chunks)


def _shares(form: Form, full: Dims, mechanism: Mechanism) -> dict[str, float]:
    """Of the bytes that a head's chunk has to move: what a piece of columns reads as well, and what a map launch leaves."""
    gates = {"none": 0, "scalar": 4, "per_channel": 4 * full.key_dim}[mechanism.decay] + 4 * mechanism.strengths
    rows = full.chunk * (2 * 2 * full.key_dim + gates)
    least = rows + full.chunk * 2 * 2 * full.columns
    left = form.slot_bytes(full) if form.slot_bytes is not None else 0
    return {"rows": rows / least, "left": left / least}


@functools.lru_cache(maxsize=256)
def weights_of(form: Form, full: Dims, target: NpuTarget, pairs: bool) -> Weights:
    """Modelled cycles of the busiest pipe, before any order is chosen."""
    sizes = of_steps.Dims(full.chunk, full.key_dim)

    def busiest(heads: int, columns: int) -> tuple[float, float]:
        """Of the stages without a state, and of the state's, a head."""
        program = form.build(Dims(full.chunk, full.key_dim, columns, heads, False), Constants(), "whole")
        sums: list[dict[int, float]] = [{}, {}]
        for step in program.body:
            cost = step_cost(step, sizes, target)
            side = sums[step.stage == program.stages - 1]
            side[cost.pipe] = side.get(cost.pipe, 0.0) + cost.busy
        return tuple(max(side.values(), default=0.0) / heads for side in sums)  # type: ignore[return-value]

    whole_map, whole_state = busiest(1, full.columns)
    narrow = min(16, full.columns)
    fixed = 0.0
    if full.columns > narrow:
        narrow_state = busiest(1, narrow)[1]
        slope = (whole_state - narrow_state) / (full.columns - narrow)
        fixed = max(0.0, narrow_state - slope * narrow)
    gain = 0.0
    if pairs:
        gain = max(0.0, 1 - sum(busiest(2, full.columns)) / (whole_map + whole_state))
    moved = (form.slot_bytes(full) if form.slot_bytes is not None else NEVER) / WORKSPACE_RATE
    return Weights(
        map=whole_map, state=whole_state - fixed, state_fixed=fixed, item=2 * (whole_map + whole_state), pair_gain=gain,
        write=moved, read=moved, launch=target.launch_cycles,
    )  # fmt: skip


__all__ = ["Assembler", "DoesNotFit", "Form", "schedule"]
