"""What an order keeps in UB and what it spills: counted by hand on a small graph, and monotone in everything that adds to it."""

import pytest

from hajax.graph import Graph, Operator, Tensor, build
from hajax.mechanisms import GATED_DELTA_RULE, KDA
from hajax.passes.order import order
from hajax.passes.residency import SLICE_BYTES, spills, ub_peak, ub_tensors
from hajax.passes.rewrite import HAJAX_RULES, HANPU_RULES, rewrite

LIMIT = 248 << 10


def formed(mechanism, rules):
    return rewrite(build(mechanism, 64, 128, 128), rules)[0]


def default(graph):
    return [o.name for o in graph.operators]


def small():
    """Three loaded rows; the first is needed again at the end."""
    operators = [Operator(f"load{i}", "load", (f"gm{i}",), (f"t{i}",), "move") for i in range(3)]
    operators.append(Operator("a", "decays", ("t0", "t1"), ("a",), "vector"))
    operators.append(Operator("b", "decays", ("a", "t2"), ("b",), "vector"))
    operators.append(Operator("c", "decays", ("b", "t0"), ("c",), "vector"))
    operators.append(Operator("store", "store", ("c",), ("out",), "move"))
    tensors = [Tensor(f"gm{i}", (100,), role="input") for i in range(3)]
    tensors += [Tensor(name, (100,)) for name in ("t0", "t1", "t2", "a", "b", "c")]
    return Graph(GATED_DELTA_RULE, 16, 16, 16, tuple(operators), (*tensors, Tensor("out", (100,), role="output")))


def test_the_peak_is_what_one_counts_by_hand():
    """t0 t1 t2 a: 400 elements of 4 bytes, while a runs."""
    graph = small()
    assert ub_peak(graph, default(graph)) == 1600
    late = ["load0", "load1", "a", "load2", "b", "c", "store"]
    assert ub_peak(graph, late) == 1600  # t0 a t2 b
    assert ub_peak(graph, late, reserved_bytes=64) == 1664


def test_what_is_needed_last_is_spilled():
    """Room for three: t2, needed after t0 and t1, goes while a runs, then t0 while b does. Loads are only read again."""
    graph = small()
    fits = spills(graph, default(graph), 1, 1600)
    assert (fits.written_bytes, fits.read_bytes, fits.tensors, fits.inflation) == (0, 0, (), 0.0)
    tight = spills(graph, default(graph), 1, 1200)
    assert tight.tensors == ("t2", "t0") and tight.written_bytes == 0 and tight.read_bytes == 800
    assert tight.inflation == 800 / 1600  # of three rows in and one out
    with pytest.raises(ValueError, match="limit_bytes: expected room for one operator, got 800"):
        spills(graph, default(graph), 1, 800)


def test_only_the_vector_form_keeps_the_state_in_ub():
    for mechanism in (GATED_DELTA_RULE, KDA):
        assert {"state_in", "state_out"} <= set(ub_tensors(formed(mechanism, HANPU_RULES)))
        assert not {"state_in", "state_out"} & set(ub_tensors(formed(mechanism, HAJAX_RULES)))
        for rules in (HANPU_RULES, HAJAX_RULES):
            assert not any(name.endswith("_parts") for name in ub_tensors(formed(mechanism, rules)))


@pytest.mark.parametrize("mechanism", [GATED_DELTA_RULE, KDA], ids=lambda m: m.name)
@pytest.mark.parametrize("rules", [HANPU_RULES, HAJAX_RULES], ids=lambda r: r[-1])
def test_the_planned_order_fits_with_one_state(mechanism, rules):
    graph = formed(mechanism, rules)
    planned = order(graph)[0].names
    assert SLICE_BYTES < ub_peak(graph, planned, 1) <= ub_peak(graph, default(graph), 2) <= LIMIT
    assert ub_peak(graph, planned, 1, ahead=True) <= LIMIT
    assert ub_peak(graph, planned, 1) <= ub_peak(graph, planned, 2)
    assert spills(graph, planned, 1, LIMIT).inflation == 0.0


def test_a_tight_ub_spills_more_with_the_definitions_order_and_two_states():
    """Bytes that the planned order still does without."""
    for mechanism, reserved in ((GATED_DELTA_RULE, 96 << 10), (KDA, 32 << 10)):
        graph = formed(mechanism, HANPU_RULES)
        planned = order(graph)[0].names
        assert spills(graph, planned, 1, LIMIT, reserved).inflation == 0.0
        spilled = spills(graph, default(graph), 2, LIMIT, reserved)
        assert spilled.inflation > 0.2 and spilled.read_bytes and spilled.tensors


def test_wrong_versions_are_refused():
    graph = formed(KDA, HANPU_RULES)
    with pytest.raises(ValueError, match="state_versions: expected 1 or 2, got 3"):
        ub_peak(graph, default(graph), 3)
