"""What an order keeps in UB, and what it spills to GM where that does not fit. For people and ablations: after order.

The buffers pass gives the true addresses; here whole tensors stand in UB from what writes them to their last reader there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hajax.graph import Graph, Operator, legal, readers_of, stages, tensors_of
from hajax.passes.order import IN_PLACE

SLICE_BYTES = 16384  # in flight to L1: operands are split and moved in pieces
CHUNKS = 10  # simulated
COUNTED = range(3, 7)  # of them: the mean of some in the middle, where what comes and goes is what every long sequence sees


@dataclass(frozen=True, slots=True)
class Spills:
    """GM bytes a chunk beyond inputs and output, and which tensors they are of. inflation: their share of the minimum."""

    written_bytes: int
    read_bytes: int
    tensors: tuple[str, ...]
    inflation: float


@dataclass(frozen=True, slots=True)
class _Event:
    """An operator in one chunk: tensors (by name and chunk) that it reads in UB and makes there, and bytes in passing."""

    iteration: int
    reads: tuple[str, ...]
    makes: tuple[str, ...]
    passing: int
    in_place: bool


def ub_tensors(graph: Graph) -> tuple[str, ...]:
    """Tensors that need a place in UB: what vector operators and stores read or write, but for split parts, which go to L1."""
    readers = readers_of(graph)
    found: dict[str, None] = {}
    for operator in graph.operators:
        if operator.unit == "vector":
            found |= dict.fromkeys(operator.outputs)
        for name in operator.outputs:
            if any(_in_ub(reader) for reader in readers[name]):
                found[name] = None
    state = ("state_in",) if "state_out" in found else ()
    gone = {t.name for t in graph.tensors if t.role in ("input", "output") or t.dtype in ("float16x2", "diagonal")}
    return tuple(name for name in (*state, *found) if name not in gone)


def ub_peak(graph: Graph, names: Sequence[str], state_versions: int = 1, reserved_bytes: int = 0, ahead: bool = False) -> int:
    """Peak of UB bytes of an order. reserved_bytes: constants, code and other things that stay.

    state_versions 2: the old state stays until its last product, and the update goes beside it. ahead: what needs no state runs
    one chunk before the rest, so that what passes from the one to the other stays for an iteration.
    """
    events = _events(graph, names, state_versions, ahead)
    sizes = {tensor.name: tensor.bytes for tensor in graph.tensors}
    last = _last_use(events)
    resident: set[str] = set()
    peak = 0
    for number, event in enumerate(events):
        resident |= set(event.reads)
        peak = max(peak, _bytes(resident, sizes) + _needed(event, sizes, last, number))
        resident |= set(event.makes)
        resident = {name for name in resident if last[name] > number}
    return peak + reserved_bytes


def spills(
    graph: Graph, names: Sequence[str], state_versions: int, limit_bytes: int, reserved_bytes: int = 0, ahead: bool = False
) -> Spills:
    """GM bytes a chunk when UB has limit_bytes: what is needed last goes out first, and comes back when it is needed.

    Raises ValueError when one operator alone needs more.
    """
    events = _events(graph, names, state_versions, ahead)
    sizes = {tensor.name: tensor.bytes for tensor in graph.tensors}
    last = _last_use(events)
    loaded = {name for operator in graph.operators if operator.kind == "load" for name in operator.outputs}
    saved: set[str] = set()
    resident: set[str] = set()
    written = read = 0
    moved: dict[str, None] = {}
    for number, event in enumerate(events):
        counted = event.iteration in COUNTED
        back = [name for name in event.reads if name not in resident and name in saved]
        resident |= set(event.reads)
        room = limit_bytes - reserved_bytes - _needed(event, sizes, last, number)
        while _bytes(resident, sizes) > room:
            idle = sorted(resident.difference(event.reads))
            if not idle:
                raise ValueError(
                    f"limit_bytes: expected room for one operator, got {limit_bytes} and {event.reads} alone need more"
                )
            victim = max(idle, key=lambda name: (_next_use(events, name, number), sizes[_name(name)]))
            resident.remove(victim)
            if counted:
                moved[_name(victim)] = None
                written += 0 if victim in saved or _name(victim) in loaded else sizes[_name(victim)]
            saved.add(victim)
        read += sum(sizes[_name(name)] for name in back) if counted else 0
        resident |= set(event.makes)
        resident = {name for name in resident if last[name] > number}
    minimum = sum(tensor.bytes for tensor in graph.tensors if tensor.role in ("input", "output") and tensor.shape)
    written, read = written // len(COUNTED), read // len(COUNTED)
    return Spills(written, read, tuple(moved), (written + read) / minimum)


def _in_ub(reader: Operator) -> bool:
    return reader.unit == "vector" or reader.kind == "store"


def _name(instance: str) -> str:
    """The tensor of an instance; the state that a chunk starts with is the one of the chunk before."""
    return instance.rpartition("@")[0]


def _events(graph: Graph, names: Sequence[str], state_versions: int, ahead: bool) -> list[_Event]:
    """The order, a few chunks in a row. Results of the cube come to UB when their first reader there runs."""
    if state_versions not in (1, 2):
        raise ValueError(f"state_versions: expected 1 or 2, got {state_versions}")
    kept = set(ub_tensors(graph))
    parts = {operator.outputs[0] for operator in graph.operators if operator.inputs == ("state_in",)}
    late = {(n, c) for o in graph.operators if o.unit == "matrix" for n in o.outputs if n in kept for c in range(CHUNKS)}
    tensors = tensors_of(graph)
    stage = stages(graph)
    operators = legal(graph, names)
    turns = [(iteration, iteration, operator) for iteration in range(CHUNKS) for operator in operators]
    if ahead:
        first = [(i, i, o) for i in range(CHUNKS) for o in operators if stage[o.name] != "state"]
        then = [(i + 1, i, o) for i in range(CHUNKS) for o in operators if stage[o.name] == "state"]
        turns = sorted((*first, *then), key=lambda turn: turn[0])
    events = []
    for iteration, chunk, operator in turns:
        reads = [name for name in dict.fromkeys(operator.inputs) if name in kept and _in_ub(operator)]
        if state_versions == 2 and "state_in" in kept and parts.intersection(operator.inputs):
            reads.append("state_in")
        late.difference_update((name, chunk) for name in reads)
        makes = [name for name in operator.outputs if name in kept and (name, chunk) not in late]
        out = sum(tensors[name].bytes for name in operator.outputs)
        passing = min(SLICE_BYTES, out) if operator.kind == "split" else 0
        in_place = operator.kind in IN_PLACE
        events.append(_Event(iteration, _instances(reads, chunk), _instances(makes, chunk), passing, in_place))
    return events


def _instances(names: Sequence[str], chunk: int) -> tuple[str, ...]:
    return tuple(f"state_out@{chunk - 1}" if name == "state_in" else f"{name}@{chunk}" for name in names)


def _last_use(events: Sequence[_Event]) -> dict[str, int]:
    last: dict[str, int] = {}
    for number, event in enumerate(events):
        last |= dict.fromkeys((*event.reads, *event.makes), number)
    return last | {f"state_out@{CHUNKS - 1}": len(events)}


def _next_use(events: Sequence[_Event], name: str, number: int) -> int:
    return next((later for later in range(number + 1, len(events)) if name in events[later].reads), len(events))


def _bytes(instances: set[str], sizes: Mapping[str, int]) -> int:
    return sum(sizes[_name(instance)] for instance in instances)


def _needed(event: _Event, sizes: Mapping[str, int], last: Mapping[str, int], number: int) -> int:
    """Bytes beside what is resident: outputs, less an input that they may stand in, and slices on their way to L1."""
    made = sum(sizes[_name(name)] for name in event.makes)
    dying = (sizes[_name(name)] for name in event.reads if last[name] == number)
    reused = made if event.in_place and any(size >= made for size in dying) else 0
    return made - reused + event.passing
