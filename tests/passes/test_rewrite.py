"""Each rule alone keeps what its graph computes, leaves the graph it was given, and says what it changed."""

import numpy as np
import pytest
from family import MEMBERS, inputs_of

from hajax.graph import build, counts, evaluate, tensors_of
from hajax.mechanisms import GATED_DELTA_RULE, GATED_DELTA_RULE_2, KDA, LINEAR_ATTENTION
from hajax.passes.rewrite import HAJAX_RULES, HANPU_RULES, RULES, rewrite

BEFORE = {
    "split_state": (),
    "read_before_inverse": ("split_state",),
    "vector_elementwise": ("split_state", "read_before_inverse"),
    "cube_dataflow": ("split_state", "read_before_inverse"),
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("mechanism", MEMBERS, ids=lambda m: m.name)
def test_a_rule_keeps_the_values_of_the_graph_before_it(mechanism, rule):
    """Against the unrewritten graph, on the same inputs: bound as in test_graph."""
    before, _ = rewrite(build(mechanism, 32, 48, 32), BEFORE[rule])
    after, notes = rewrite(before, (rule,))
    for gates in ("weak", "mixed"):
        inputs = inputs_of(mechanism, 50, 48, 32, gates=gates, seed=11)
        for a, b in zip(evaluate(after, None, inputs), evaluate(before, None, inputs), strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-11 * max(1.0, np.abs(b).max()))
    assert len(notes) == 1 and notes[0].by == "rewrite" and notes[0].choice.startswith(rule)
    assert str(counts(after).useful_macs) in notes[0].choice and str(counts(before).useful_macs) in notes[0].beaten


@pytest.mark.parametrize("rules", [HANPU_RULES, HAJAX_RULES])
@pytest.mark.parametrize("mechanism", MEMBERS, ids=lambda m: m.name)
def test_operands_of_the_chosen_form_are_exact_or_split(mechanism, rules):
    """The cube takes fp16: what a product reads is an fp16 input, two parts, or a diagonal. The state is written as fp32."""
    graph, _ = rewrite(build(mechanism, 32, 32, 32), rules)
    dtypes = {name: tensor.dtype for name, tensor in tensors_of(graph).items()}
    operands = [name for o in graph.operators if o.kind == "products" for name in o.inputs]
    assert {dtypes[name] for name in operands} <= {"float16", "float16x2", "diagonal"}
    assert dtypes["state_out"] == "float32"
    kind = "vector" if rules is HANPU_RULES else "matrix"
    assert {o.unit for o in graph.operators if o.kind == "split"} == {kind}
    assert next(o.unit for o in graph.operators if "state_out" in o.outputs) == kind


def test_the_state_is_read_before_the_inverse():
    graph, _ = rewrite(build(GATED_DELTA_RULE, 32, 32, 32), HANPU_RULES[:2])
    needs = {o.name: set() for o in graph.operators}
    for operator in graph.operators:
        for other in graph.operators:
            if set(other.outputs) & set(operator.inputs):
                needs[operator.name] |= {other.name} | needs[other.name]
    assert "inverse" not in needs["key_state"] and {"inverse", "key_state"} <= needs["solve"]
    plain, _ = rewrite(build(GATED_DELTA_RULE, 32, 32, 32), ("split_state",))
    assert next(o for o in plain.operators if o.name == "read").inputs == ("w", "state_in")


def test_the_cube_form_of_one_strength_has_no_row_of_betas():
    """One strength is in the ratio (or the scores' columns) and nowhere among the row factors of the system."""
    graph, _ = rewrite(build(GATED_DELTA_RULE, 32, 32, 32), HAJAX_RULES)
    system = next(o for o in graph.operators if o.name == "system")
    assert system.inputs == ("key_key", "ratio")
    two, _ = rewrite(build(GATED_DELTA_RULE_2, 32, 32, 32), HAJAX_RULES)
    assert next(o for o in two.operators if o.name == "system").inputs == ("key_key", "ratio", "erase_strength")


def test_the_cube_form_leaves_little_to_the_vector_unit():
    for mechanism in MEMBERS:
        plain = counts(rewrite(build(mechanism, 64, 128, 128), HANPU_RULES)[0])
        cube = counts(rewrite(build(mechanism, 64, 128, 128), HAJAX_RULES)[0])
        share = 0.85 if mechanism.decay == "per_channel" else 0.3  # halved scores need scaled rows in any form
        assert cube.vector_elements < share * plain.vector_elements
        assert cube.useful_macs == plain.useful_macs


def test_without_delta_there_is_nothing_to_read():
    graph, _ = rewrite(build(LINEAR_ATTENTION, 32, 32, 32), ("split_state",))
    assert rewrite(graph, ("read_before_inverse",))[0] == graph
    assert not any(o.kind == "inverse" for o in graph.operators)


def test_rules_out_of_turn_are_refused():
    graph = build(KDA, 32, 32, 32)
    with pytest.raises(ValueError, match=r"rules: expected names of split_state, .*, got 'fold'"):
        rewrite(graph, ("fold",))
    for rule in ("read_before_inverse", "vector_elementwise", "cube_dataflow"):
        with pytest.raises(ValueError, match=f"{rule}: expected a graph after split_state, got one without key_value"):
            rewrite(graph, (rule,))
    with pytest.raises(ValueError, match="cube_dataflow: expected a graph after read_before_inverse"):
        rewrite(graph, ("split_state", "cube_dataflow"))
    with pytest.raises(ValueError, match="expected a graph whose form is not chosen yet, got the vector form"):
        rewrite(graph, (*HANPU_RULES, "cube_dataflow"))
