"""The layouts are the best ones there are, by enumeration of every chain's layout in every chunk; and what they avoid is told."""

import dataclasses
import itertools
import random
import time

import pytest
from family import MEMBERS

from hajax.graph import build, readers_of, tensors_of, writer_of
from hajax.mechanisms import GATED_DELTA_RULE, KDA, RETENTION
from hajax.passes.layouts import layouts
from hajax.passes.order import order
from hajax.passes.rewrite import HAJAX_RULES, HANPU_RULES, rewrite
from hajax.passes.vector_cycles import LAYOUTS, operator_cycles, transform_cycles
from hajax.targets import npu

TARGET = npu.load("ascend310p1")


def formed(mechanism, rules=HANPU_RULES, chunk=64, dims=(128, 128)):
    graph, _ = rewrite(build(mechanism, chunk, *dims), rules)
    return graph, order(graph)[0].names


def with_copies(start, rate):
    """A chip whose copies inside UB cost this: free ones make dense row scales win, dear ones never."""
    costs = dict(TARGET.costs) | {"copy_ubuf_to_ubuf": (start, 0.0)}
    return dataclasses.replace(TARGET, ub_to_ub_rate=rate, costs=costs)


class Simulation:
    """(cycles, layout of the new state) of one chunk with these layouts of vector operators, told apart from the pass."""

    def __init__(self, graph, names, target):
        tensors, writer, readers = tensors_of(graph), writer_of(graph), readers_of(graph)
        vector = {o.name for o in graph.operators if o.unit == "vector"}
        self.operators = []
        for name in names:
            operator = next(o for o in graph.operators if o.name == name)
            reads = []
            for tensor in dict.fromkeys(operator.inputs):
                if len(tensors[tensor].shape) != 2 or tensors[tensor].role == "input" or operator.kind == "store":
                    continue
                loaded = tensor in writer and writer[tensor].kind == "load"
                seen = tensor == "state_in" or writer[tensor].name in vector or any(r.name in vector for r in readers[tensor])
                if seen and not (loaded and operator.unit == "matrix"):
                    reads.append((tensor, transform_cycles(target, tensors[tensor])))
            costs = {x: operator_cycles(target, operator, tensors, x) if name in vector else 0.0 for x in LAYOUTS}
            self.operators.append((operator, reads, costs))

    def __call__(self, assignment, state):
        exists = {"state_in": {state}}
        cycles = 0.0
        for operator, reads, costs in self.operators:
            mine = assignment.get(operator.name, "blocked")
            for tensor, transform in reads:
                here = exists.setdefault(tensor, set())
                cycles += transform if here and mine not in here else 0.0
                here.add(mine)
            cycles += costs[mine]
            if operator.kind != "load":
                exists |= {tensor: {mine} for tensor in operator.outputs}
        return cycles, next(iter(exists["state_out"]))


def enumerated(graph, names, target, chains, chunks):
    """The fewest cycles over every layout of every chain in every chunk, and the state's at the start."""
    carried = writer_of(graph)["state_out"].unit == "vector"
    simulated = Simulation(graph, names, target)
    best = float("inf")
    ways = {}
    for state in LAYOUTS if carried else ("blocked",):
        for choice in itertools.product(LAYOUTS, repeat=len(chains)):
            assignment = {name: layout for chain, layout in zip(chains, choice, strict=True) for name in chain.operators}
            ways.setdefault(state, []).append(simulated(assignment, state))
    for start in ways:
        found = [(0.0, start)]
        for _ in range(chunks):
            found = [(cycles + more, leave) for cycles, state in found for more, leave in ways[state if carried else "blocked"]]
            found = list({(c, s) for c, s in found})
        best = min(best, *(cycles for cycles, _ in found))
    return best


CHIPS = [(24.0, 256.0), (0.0, 1e9), (4.0, 1024.0), (0.0, 4096.0), (200.0, 8.0)]


@pytest.mark.parametrize("rules", [HANPU_RULES, HAJAX_RULES, ("split_state",)], ids=lambda r: r[-1])
@pytest.mark.parametrize("mechanism", MEMBERS, ids=lambda m: m.name)
def test_one_chunk_is_the_best_of_all_assignments(mechanism, rules):
    graph, names = formed(mechanism, rules)
    for chip in CHIPS[1:4] if rules == HANPU_RULES else CHIPS:
        target = with_copies(*chip)
        result, _ = layouts(graph, names, target, 1)
        assert result.sequence_cycles == pytest.approx(enumerated(graph, names, target, result.chains, 1), rel=1e-12)


@pytest.mark.parametrize("chip", CHIPS, ids=str)
def test_sequences_are_the_best_of_all_assignments(chip):
    """Every chain in every chunk on its own, over two and three chunks of a small member."""
    graph, names = formed(RETENTION, ("split_state",), 32, (64, 32))
    target = with_copies(*chip)
    for chunks in (2, 3):
        result, _ = layouts(graph, names, target, chunks)
        assert result.sequence_cycles == pytest.approx(enumerated(graph, names, target, result.chains, chunks), rel=1e-12)


def test_enumeration_sees_both_layouts_win():
    """The comparisons above are empty if one layout always wins."""
    chosen = {c.layout for chip in CHIPS for c in layouts(*formed(GATED_DELTA_RULE), with_copies(*chip))[0].chains}
    assert chosen == set(LAYOUTS)


@pytest.mark.parametrize("seed", range(6))
def test_reported_transforms_and_cycles_belong_together(seed):
    draw = random.Random(seed)
    graph, names = formed(draw.choice(MEMBERS), HANPU_RULES)
    target = with_copies(draw.choice([0.0, 2.0, 24.0]), draw.choice([256.0, 1e6]))
    result, note = layouts(graph, names, target, 5)
    assignment = {name: chain.layout for chain in result.chains for name in chain.operators}
    cycles, leave = Simulation(graph, names, target)(assignment, result.state)
    assert leave == result.state and cycles == pytest.approx(result.cycles)
    assert result.transform_bytes == sum(tensors_of(graph)[t.tensor].bytes for t in result.transforms)
    assert result.cycles <= result.dense_cycles and result.transform_bytes <= result.dense_transform_bytes
    assert note.by == "layouts" and f"{result.dense_transform_bytes} bytes" in note.beaten


def test_on_the_chip_blocked_chains_need_no_transform_at_all():
    """A row scale in blocked form takes more instructions, but less than a transform: what planning layouts is for."""
    for mechanism in (GATED_DELTA_RULE, KDA):
        for rules in (HANPU_RULES, HAJAX_RULES):
            result, _ = layouts(*formed(mechanism, rules), TARGET)
            assert result.transforms == () and result.transform_bytes == 0
            assert result.dense_transform_bytes > 64 << 10 and result.dense_cycles > result.cycles
    assert layouts(*formed(KDA, HAJAX_RULES), TARGET)[0].state is None


def test_costs_are_those_of_the_study():
    """A row scale of 64 x 128: 8 instructions of 16 repeats blocked, 2 of 64 dense; a copy for each 16 columns."""
    graph, _ = formed(GATED_DELTA_RULE)
    rows = next(o for o in graph.operators if o.name == "end_rows")
    tensors = tensors_of(graph)
    start, each = TARGET.costs["vmul"]
    assert operator_cycles(TARGET, rows, tensors, "blocked") == pytest.approx(8 * (start + 16 * each))
    assert operator_cycles(TARGET, rows, tensors, "dense") == pytest.approx(2 * (start + 64 * each))
    assert transform_cycles(TARGET, tensors["x"]) == pytest.approx(8 * (24 + 4096 / TARGET.ub_to_ub_rate))
    with pytest.raises(ValueError, match="key_value: expected a vector operator"):
        operator_cycles(TARGET, next(o for o in graph.operators if o.name == "key_value"), tensors, "dense")


def test_long_sequences_plan_as_fast():
    graph, names = formed(GATED_DELTA_RULE)
    start = time.perf_counter()
    long, _ = layouts(graph, names, TARGET, 4096)
    assert time.perf_counter() - start < 1.0  # 20 ms where it was written
    short, _ = layouts(graph, names, TARGET, 8)
    assert long.chains == short.chains and long.cycles == short.cycles
    assert long.sequence_cycles == pytest.approx(4096 * long.cycles, rel=1e-3)


def test_what_cannot_be_laid_out_is_refused():
    graph = build(GATED_DELTA_RULE, 64, 128, 128)
    with pytest.raises(ValueError, match="graph: expected one whose state is split"):
        layouts(graph, [o.name for o in graph.operators], TARGET)
    with pytest.raises(ValueError, match="chunks: expected at least 1, got 0"):
        layouts(*formed(KDA), TARGET, 0)
