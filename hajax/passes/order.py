"""The order of a graph's operators with the smallest peak of live bytes, exact over the graph's downsets. After rewrite.

Held to the design: products that share an operand stand before the inverse, the state's update last, so it can be in place.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hajax.graph import Graph, Operator, Products, Tensor, legal, readers_of, tensors_of, writer_of
from hajax.plans import Note

# May write over an input that nobody needs again; a composite's last part updates the state.
IN_PLACE = ("exp", "log", "multiply", "multiply_add", "multiply_subtract", "composite")


@dataclass(frozen=True, slots=True)
class Order:
    """names: the operators. peak_bytes: of this order; default_bytes: of the definition's; free_bytes: without constraints.

    grouped: products kept together. state_versions: 1 when the update may be in place, else 2, which costs version_bytes.
    """

    names: tuple[str, ...]
    peak_bytes: int
    default_bytes: int
    free_bytes: int
    state_versions: int
    version_bytes: int
    grouped: tuple[str, ...]


def order(
    graph: Graph, *, footprint: Mapping[str, int] | None = None, group_products: bool = True, update_last: bool = True
) -> tuple[Order, Note]:
    """The best order; of equals, grouped products together, then as in the definition.

    footprint: bytes of each tensor that count, by default live_footprint.
    """
    bytes_of = live_footprint(graph) if footprint is None else footprint
    grouped = sharing_products(graph) if group_products else ()
    search = _search(graph, bytes_of, grouped, update_last)
    peak = _smallest_peak(search)
    free = _smallest_peak(_search(graph, bytes_of, (), False)) if grouped or update_last else peak
    names = _canonical(search, peak, grouped)
    versions, cost = state_versions(graph, names)
    default = tuple(operator.name for operator in graph.operators)
    result = Order(names, peak, peak_bytes(graph, default, bytes_of), free, versions, cost, grouped)
    return result, _note(result, state_versions(graph, default)[0])


def _note(result: Order, default_versions: int) -> Note:
    versions = ("", "1 state version", "2 state versions")
    held = f"grouped before the inverse: {', '.join(result.grouped)}; " if result.grouped else ""
    price = f"{result.peak_bytes - result.free_bytes} bytes more than the best order without constraints"
    return Note(
        "order",
        f"peak {result.peak_bytes} live bytes, {versions[result.state_versions]}; {held}{price}",
        f"the definition's order: peak {result.default_bytes}, {versions[default_versions]}",
        f"{result.default_bytes - result.peak_bytes} bytes",
    )


def live_footprint(graph: Graph) -> dict[str, int]:
    """Bytes on core of each tensor, in whichever memory; those in GM and scalars are none."""
    return {tensor.name: 0 if tensor.role in ("input", "output") else tensor.bytes for tensor in graph.tensors}


def peak_bytes(graph: Graph, names: Sequence[str], footprint: Mapping[str, int] | None = None) -> int:
    """Peak of live bytes of an order: at each operator what lives, and its outputs, less an input it may write over."""
    search = _search(graph, live_footprint(graph) if footprint is None else footprint, (), False)
    position = {operator.name: index for index, operator in enumerate(search.operators)}
    mask, live, peak = 0, search.start, search.start
    for operator in legal(graph, names):
        mask, live, needed = _run(search, mask, live, position[operator.name])
        peak = max(peak, needed)
    return peak


def state_versions(graph: Graph, names: Sequence[str]) -> tuple[int, int]:
    """1 and no bytes if nobody reads the old state once the update has run, else 2 and the bytes of the second one."""
    operators = legal(graph, names)
    update = next((i for i, o in enumerate(operators) if "state_out" in o.outputs), len(operators))
    if any("state_in" in operator.inputs for operator in operators[update + 1 :]):
        return 2, tensors_of(graph)["state_out"].bytes
    return 1, 0


def sharing_products(graph: Graph) -> tuple[str, ...]:
    """The definition's products that share an operand with another one and wait for no product, save what only updates."""
    behind: set[str] = set()
    found: list[Operator] = []
    readers = readers_of(graph)
    for operator in graph.operators:
        terms = operator.attributes.terms if isinstance(operator.attributes, Products) else ()
        if behind.intersection(operator.inputs):
            behind.update(operator.outputs)
        elif operator.kind == "anchored_scores" or not all(term.bookkeeping for term in terms):
            found.append(operator)
            behind.update(operator.outputs)
    update = [o for o in found if all("state_out" in r.outputs for name in o.outputs for r in readers[name])]
    found = [o for o in found if o not in update]
    return tuple(o.name for o in found if any(o is not p and set(o.inputs) & set(p.inputs) for p in found))


@dataclass(frozen=True, slots=True)
class _Search:
    """Bit i of a mask: operator i has run. loads: operators without inputs on core, run right before their first reader."""

    operators: tuple[Operator, ...]
    before: tuple[int, ...]
    loads: int
    outputs: tuple[int, ...]  # bytes
    dead: tuple[int, ...]  # bytes of outputs that nobody reads
    inputs: tuple[tuple[tuple[int, int], ...], ...]  # (bytes, mask of readers) of each input
    reuse: tuple[int, ...]  # bytes that an operator may write over an input; 0: not in place
    start: int
    full: int


def _search(graph: Graph, footprint: Mapping[str, int], grouped: Sequence[str], update_last: bool) -> _Search:
    operators = graph.operators
    position = {operator.name: index for index, operator in enumerate(operators)}
    writer = {name: position[operator.name] for name, operator in writer_of(graph).items()}
    readers = {n: sum(1 << position[o.name] for o in found) for n, found in readers_of(graph).items()}
    before = [_mask(writer[name] for name in operator.inputs if name in writer) for operator in operators]
    inverse = next((i for i, operator in enumerate(operators) if operator.kind == "inverse"), None)
    if inverse is not None:
        before[inverse] |= _mask(position[name] for name in grouped)
    update = writer.get("state_out")
    if update is not None:
        behind = _descendants(before, update)
        others = ((1 << len(operators)) - 1) & ~behind
        first = others if update_last else readers["state_in"] & others
        before[update] |= first & ~(1 << update)
    known: dict[str, Tensor] = tensors_of(graph)
    kept = {"state_out"}
    return _Search(
        operators,
        tuple(before),
        _mask(i for i, o in enumerate(operators) if o.kind == "load"),
        tuple(sum(footprint[name] for name in o.outputs) for o in operators),
        tuple(sum(footprint[name] for name in o.outputs if not readers[name] and name not in kept) for o in operators),
        tuple(tuple((footprint[name], readers[name]) for name in dict.fromkeys(o.inputs) if footprint[name]) for o in operators),
        tuple(max((footprint[n] for n in o.outputs), default=0) if o.kind in IN_PLACE else 0 for o in operators),
        footprint["state_in"] if "state_in" in known else 0,
        (1 << len(operators)) - 1,
    )


def _mask(numbers: Iterable[int]) -> int:
    mask = 0
    for number in numbers:
        mask |= 1 << number
    return mask


def _descendants(before: Sequence[int], operator: int) -> int:
    """Mask of an operator and all that stand behind it; operators are in a legal order."""
    mask = 1 << operator
    for number in range(operator + 1, len(before)):
        if before[number] & mask:
            mask |= 1 << number
    return mask


def _run(search: _Search, mask: int, live: int, operator: int) -> tuple[int, int, int]:
    """Mask and live bytes behind an operator, and the bytes needed while it runs; its missing loads run right before it."""
    for load in _bits(search.before[operator] & search.loads & ~mask):
        mask |= 1 << load
        live += search.outputs[load]
    mask |= 1 << operator
    freed = reused = 0
    bound = search.reuse[operator]
    for size, readers in search.inputs[operator]:
        if not readers & ~mask:
            freed += size
            if bound and size >= bound:
                reused = bound
    needed = live + search.outputs[operator] - reused
    return mask, needed + reused - freed - search.dead[operator], needed


def _bits(mask: int) -> list[int]:
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found


def _ready(search: _Search, mask: int) -> list[int]:
    """Operators, other than loads, that may run next."""
    done = mask | search.loads
    return [i for i in _bits(search.full & ~done) if not search.before[i] & ~done]


def _moves(search: _Search, mask: int, live: int, limit: int) -> list[tuple[int, int, int]]:
    """(mask, live, needed) of each operator that may run next; only one if it frees what it adds within the limit.

    Running such an operator now is never worse: from here on, every order that has it later needs as much or more.
    """
    found = []
    for operator in _ready(search, mask):
        move = _run(search, mask, live, operator)
        if move[1] <= live and move[2] <= limit:
            return [move]
        found.append(move)
    return found


def _smallest_peak(search: _Search) -> int:
    """Best first: the state of the smallest peak so far is the next one to go on from, the deepest one of equals."""
    bound = search.start
    for operator in range(len(search.operators)):
        if not search.loads >> operator & 1:
            read = sum(size for size, _ in search.inputs[operator])
            bound = max(bound, read + search.outputs[operator] - search.reuse[operator])
    heap = [(bound, 0, 0, search.start)]
    seen: set[int] = set()
    while heap:
        peak, _, mask, live = heapq.heappop(heap)
        if not search.full & ~(mask | search.loads):
            return peak
        if mask in seen:
            continue
        seen.add(mask)
        for after, then_live, needed in _moves(search, mask, live, peak):
            if after not in seen:
                heapq.heappush(heap, (max(peak, needed), -after.bit_count(), after, then_live))
    raise AssertionError("a graph of legal order has an order")


def _canonical(search: _Search, peak: int, grouped: Sequence[str]) -> tuple[str, ...]:
    """The order within this peak that keeps grouped products together, else follows the definition."""
    ends: dict[int, bool] = {}

    def ends_well(mask: int, live: int) -> bool:
        if not search.full & ~(mask | search.loads):
            return True
        if mask not in ends:
            moves = _moves(search, mask, live, peak)
            ends[mask] = any(needed <= peak and ends_well(after, then_live) for after, then_live, needed in moves)
        return ends[mask]

    names: list[str] = []
    mask, live = 0, search.start
    last_in_group = False
    while search.full & ~(mask | search.loads):
        ready = _ready(search, mask)
        if last_in_group:
            ready.sort(key=lambda i: search.operators[i].name not in grouped)
        for operator in ready:
            after, then_live, needed = _run(search, mask, live, operator)
            if needed <= peak and ends_well(after, then_live):
                names += [search.operators[load].name for load in _bits(after & search.loads & ~mask)]
                names.append(search.operators[operator].name)
                mask, live = after, then_live
                last_in_group = names[-1] in grouped
                break
        else:
            raise AssertionError("an order within the smallest peak can be completed")
    return tuple(names)
