"""Each tile's layout in UB, blocked or dense, at each point of an order: the fewest modelled vector cycles. After order.

Products and their results are anchors: blocked. A chain of vector operators is one unit, all blocked or all dense; what it
shares with others is transformed once. Loads and stores take either layout; between chunks only the state's is carried.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from hajax.graph import Composite, Graph, Operator, Tensor, legal, readers_of, tensors_of, writer_of
from hajax.passes.vector_cycles import LAYOUTS, Layout, is_tile, operator_cycles, transform_cycles
from hajax.plans import Note
from hajax.targets import NpuTarget


@dataclass(frozen=True, slots=True)
class Chain:
    """Vector operators that hand tiles to one another, and their layout."""

    operators: tuple[str, ...]
    layout: Layout


@dataclass(frozen=True, slots=True)
class Transform:
    """A tensor is copied to `layout` right before an operator."""

    tensor: str
    layout: Layout
    before: str


@dataclass(frozen=True, slots=True)
class Layouts:
    """Of a chunk in the middle of a sequence; state: the carried layout (None: not in UB). cycles: vector work and transforms.

    dense_*: the same with every chain dense, and a transform wherever it meets an anchor.
    """

    chains: tuple[Chain, ...]
    transforms: tuple[Transform, ...]
    state: Layout | None
    transform_bytes: int
    cycles: float
    sequence_cycles: float
    dense_transform_bytes: int
    dense_cycles: float


def layouts(graph: Graph, names: Sequence[str], target: NpuTarget, chunks: int = 8) -> tuple[Layouts, Note]:
    """The layouts of the best sequence of `chunks` chunks. The state may come and go in either layout."""
    if chunks < 1:
        raise ValueError(f"chunks: expected at least 1, got {chunks}")
    if any(isinstance(operator.attributes, Composite) for operator in graph.operators):
        raise ValueError("graph: expected one whose state is split into its operators, got a composite")
    problem = _problem(graph, names, target)
    ways = {entry: _chunk(problem, entry) for entry in (LAYOUTS if problem.state else (None,))}
    total, path = _sequence(ways, chunks)
    entry, leave = path[len(path) // 2]
    best = ways[entry][leave]
    chains = tuple(Chain(tuple(operators), best.choices[n]) for n, operators in enumerate(problem.chains))
    moved = sum(problem.tensors[t.tensor].bytes for t in best.transforms)
    dense_bytes, dense_cycles = _every_anchor(problem)
    result = Layouts(chains, best.transforms, entry, moved, best.cycles, total, dense_bytes, dense_cycles)
    blocked = sum(chain.layout == "blocked" for chain in chains)
    note = Note(
        "layouts",
        f"{blocked} of {len(chains)} vector chains blocked, state {entry or 'not in UB'}, {moved} bytes transformed a chunk",
        f"all dense with a transform at every anchor: {dense_bytes} bytes, {dense_cycles:.0f} modelled vector cycles a chunk",
        f"{dense_bytes - moved} bytes, {dense_cycles - best.cycles:.0f} modelled vector cycles a chunk and head",
    )
    return result, note


@dataclass(frozen=True, slots=True)
class _Problem:
    """By operator: reads and writes, tiles in UB; dies, those read last; closes, chains that end. costs: by operator's layout."""

    operators: tuple[Operator, ...]
    chain: Mapping[str, int]
    chains: tuple[tuple[str, ...], ...]
    reads: tuple[tuple[str, ...], ...]
    writes: tuple[tuple[str, ...], ...]
    dies: tuple[tuple[str, ...], ...]
    closes: tuple[tuple[int, ...], ...]
    costs: Mapping[tuple[str, Layout], float]
    transforms: Mapping[str, float]
    tensors: Mapping[str, Tensor]
    state: bool


@dataclass(frozen=True, slots=True)
class _Way:
    """One way through a chunk: its cycles, the chains' layouts by number, and its transforms."""

    cycles: float
    choices: Mapping[int, Layout]
    transforms: tuple[Transform, ...]


def _problem(graph: Graph, names: Sequence[str], target: NpuTarget) -> _Problem:
    operators = legal(graph, names)
    tensors = tensors_of(graph)
    writer = writer_of(graph)
    readers = readers_of(graph)
    state = "state_out" in writer and writer["state_out"].unit == "vector"

    def in_ub(name: str) -> bool:
        """A tile that the vector unit reads or writes; what only goes from GM or the accumulator to products never comes."""
        if name in ("state_in", "state_out"):
            return state
        by_vector = name in writer and writer[name].unit == "vector"
        return is_tile(tensors[name]) and (by_vector or any(reader.unit == "vector" for reader in readers[name]))

    def read(operator: Operator) -> tuple[str, ...]:
        """Inputs of products that are loaded go to L1 from GM, and do not count."""
        found = [name for name in dict.fromkeys(operator.inputs) if in_ub(name)]
        loaded = {name for name in found if name in writer and writer[name].kind == "load"}
        return tuple(name for name in found if operator.unit == "vector" or name not in loaded)

    reads = tuple(read(operator) for operator in operators)
    writes = tuple(tuple(name for name in operator.outputs if in_ub(name)) for operator in operators)
    last = {name: index for index, found in enumerate(reads) for name in found}
    chains = _chains(operators, reads, writes)
    chain = {name: number for number, found in enumerate(chains) for name in found}
    closing = {number: max(i for i, o in enumerate(operators) if chain.get(o.name) == number) for number in range(len(chains))}
    every = {name for found in (*reads, *writes) for name in found}
    return _Problem(
        operators,
        chain,
        chains,
        reads,
        writes,
        tuple(tuple(sorted(n for n, place in last.items() if place == i)) for i in range(len(operators))),
        tuple(tuple(n for n, place in closing.items() if place == i) for i in range(len(operators))),
        {(o.name, x): operator_cycles(target, o, tensors, x) for o in operators if o.unit == "vector" for x in LAYOUTS},
        {name: transform_cycles(target, tensors[name]) for name in every},
        tensors,
        state,
    )


def _chains(
    operators: Sequence[Operator], reads: Sequence[tuple[str, ...]], made_by: Sequence[tuple[str, ...]]
) -> tuple[tuple[str, ...], ...]:
    """Vector operators that make tiles, joined where one reads what another one wrote, in the order in which they begin."""
    member: dict[str, list[str]] = {}
    made: dict[str, str] = {}
    for operator, found, writes in zip(operators, reads, made_by, strict=True):
        if operator.unit != "vector" or not writes:
            continue
        mine = [operator.name]
        for name in found:
            other = member[made[name]] if name in made else mine
            if other is not mine:
                other += mine
                member |= dict.fromkeys(mine, other)
                mine = other
        member |= dict.fromkeys(mine, mine)
        made |= dict.fromkeys(operator.outputs, operator.name)
    unique: dict[int, list[str]] = {id(chain): chain for chain in member.values()}
    place = {operator.name: index for index, operator in enumerate(operators)}
    ordered = sorted((sorted(chain, key=place.__getitem__) for chain in unique.values()), key=lambda chain: place[chain[0]])
    return tuple(tuple(chain) for chain in ordered)


# Which layouts of a tile exist, by name; and the layouts of chains that have begun. FREE: a load that may still come as either.
_Key = tuple[tuple[tuple[str, str], ...], tuple[tuple[int, Layout], ...]]
FREE, BOTH = "free", "both"


def _chunk(problem: _Problem, entry: Layout | None) -> dict[Layout | None, _Way]:
    """The best way from a carried layout to each one that the chunk may leave."""
    start: _Key = ((("state_in", entry),) if entry else (), ())
    ways: dict[_Key, _Way] = {start: _Way(0.0, {}, ())}
    for index, operator in enumerate(problem.operators):
        then: dict[_Key, _Way] = {}
        for (held, begun), way in ways.items():
            for layout in _candidates(problem, operator, dict(begun)):
                key, new = _step(problem, index, operator, layout, dict(held), dict(begun), way)
                if key not in then or new.cycles < then[key].cycles:
                    then[key] = new
        ways = then
    found: dict[Layout | None, _Way] = {}
    for (held, _), way in ways.items():
        leave = cast(Layout | None, dict(held).get("state_out"))
        if leave not in found or way.cycles < found[leave].cycles:
            found[leave] = way
    return found


def _candidates(problem: _Problem, operator: Operator, begun: Mapping[int, Layout]) -> tuple[Layout, ...]:
    if operator.name not in problem.chain:
        return ("blocked",)
    chosen = begun.get(problem.chain[operator.name])
    return (chosen,) if chosen else LAYOUTS


def _step(
    problem: _Problem, index: int, operator: Operator, layout: Layout, held: dict[str, str], begun: dict[int, Layout], way: _Way
) -> tuple[_Key, _Way]:
    """One operator in one layout: what is missing is transformed and stays."""
    cycles, choices, transforms = way.cycles, way.choices, way.transforms
    if operator.kind != "store":
        for name in problem.reads[index]:
            if held[name] == FREE:
                held[name] = layout
            elif held[name] not in (layout, BOTH):
                cycles += problem.transforms[name]
                transforms = (*transforms, Transform(name, layout, operator.name))
                held[name] = BOTH
    if operator.name in problem.chain:
        number = problem.chain[operator.name]
        cycles += problem.costs[operator.name, layout]
        begun[number] = layout
        choices = {**choices, number: layout}
    for name in problem.writes[index]:
        held[name] = FREE if operator.kind == "load" else layout
    gone = set(problem.dies[index])
    left = tuple(sorted((name, found) for name, found in held.items() if name not in gone))
    running = tuple(sorted((n, found) for n, found in begun.items() if n not in problem.closes[index]))
    return (left, running), _Way(cycles, choices, transforms)


def _sequence(
    ways: Mapping[Layout | None, Mapping[Layout | None, _Way]], chunks: int
) -> tuple[float, list[tuple[Layout | None, Layout | None]]]:
    """Cycles of the best sequence and each chunk's way (entry, leave): two layouts to carry, so linear in chunks."""
    best: dict[Layout | None, float] = dict.fromkeys(ways, 0.0)
    steps: list[dict[Layout | None, Layout | None]] = []
    for _ in range(chunks):
        then: dict[Layout | None, float] = {}
        source: dict[Layout | None, Layout | None] = {}
        for entry, cycles in best.items():
            for leave, way in ways[entry].items():
                if leave not in then or cycles + way.cycles < then[leave]:
                    then[leave], source[leave] = cycles + way.cycles, entry
        best = then
        steps.append(source)
    leave = min(best, key=lambda layout: best[layout])
    total = best[leave]
    path: list[tuple[Layout | None, Layout | None]] = []
    for source in reversed(steps):
        path.append((source[leave], leave))
        leave = source[leave]
    return total, path[::-1]


def _every_anchor(problem: _Problem) -> tuple[int, float]:
    """Bytes and cycles with every chain dense and no transform shared: each meeting of a chain and a product is one."""
    moved, cycles = 0, 0.0
    blocked = {n for o, found in zip(problem.operators, problem.writes, strict=True) if o.unit == "matrix" for n in found}
    for index, operator in enumerate(problem.operators):
        if operator.kind == "store":
            continue
        crossing = [name for name in problem.reads[index] if (operator.unit == "vector") == (name in blocked)]
        moved += sum(problem.tensors[name].bytes for name in crossing)
        cycles += sum(problem.transforms[name] for name in crossing)
        if operator.name in problem.chain:
            cycles += problem.costs[operator.name, "dense"]
    return moved, cycles
