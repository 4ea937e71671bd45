"""schedule="auto": the plan of the schedule that takes the least modelled time, which says what that beat."""

import pytest
from blank_calls import emulated_cycles, shape_of
from planning import AVX2
from planning import shape_of as cpu_shape

import hajax
from hajax import cache, planner, plans, schedules
from hajax.mechanisms import MECHANISMS
from hajax.targets import npu

pytestmark = pytest.mark.slow
CHIP = npu.load("ascend310p1")
GDN, KDA = MECHANISMS["gated_delta_rule"], MECHANISMS["kda"]
SMALL = shape_of(64, (1, 1), (16, 16))


def note_of(plan):
    (note,) = [note for note in plan.notes if note.by == "auto"]
    return note


CASES = [(GDN, 64, 1), (GDN, 512, 4), (GDN, 1024, 1), (KDA, 64, 1), (KDA, 512, 1)]


@pytest.mark.parametrize(("mechanism", "tokens", "heads"), CASES)
def test_the_choice_is_the_best_of_the_emulated_chip(mechanism, tokens, heads, plan_cache):
    problem = mechanism, shape_of(tokens, (heads, heads)), CHIP
    made = planner.plan(*problem, "auto")
    named = {name: planner.plan(*problem, name) for name in schedules.COMPARED}
    emulated = {name: sum(emulated_cycles(plan, CHIP)) for name, plan in named.items()}
    assert made.schedule == min(emulated, key=emulated.get)
    assert plans.to_bytes(made) == plans.to_bytes(named[made.schedule])
    assert made.notes[1:] == named[made.schedule].notes
    note = note_of(made)
    assert note.choice.startswith(f"schedule {made.schedule}, ")
    for name in set(schedules.COMPARED) - {made.schedule}:
        assert f"{name} " in note.beaten
    assert "modelled cycles, beside" in note.saved


def test_not_always_the_same_schedule_wins(plan_cache):
    """One head's chunks over all cores, and then its states, take less than one core's chunks if there are many."""
    short, long = (planner.plan(GDN, shape_of(tokens, (1, 1)), CHIP, "auto") for tokens in (64, 1024))
    assert short.schedule == "hajax" != long.schedule
    assert "hajax " in note_of(long).beaten


def test_a_stored_choice_is_found_again(plan_cache, monkeypatch):
    made = planner.plan(GDN, SMALL, CHIP, "auto")
    assert planner.plan(GDN, SMALL, CHIP, "auto") is made
    planner.plan.cache_clear()
    monkeypatch.setattr(planner.schedules, "ASCEND", dict.fromkeys(schedules.ASCEND))  # making one would now fail
    assert planner.plan(GDN, SMALL, CHIP, "auto") == made


def test_a_named_plan_is_no_choice(plan_cache):
    """Under the key of "auto" only a plan that says what it beat is taken, and nothing else was compared."""
    named = planner.plan(GDN, SMALL, CHIP, "hajax")
    cache.write(planner.cache_key(GDN, SMALL, CHIP, "auto"), plans.to_json(named))
    with pytest.warns(RuntimeWarning, match="it is another problem's plan"):
        assert note_of(planner.plan(GDN, SMALL, CHIP, "auto"))
    assert not [note for note in planner.plan(GDN, SMALL, CHIP, "hajax").notes if note.by == "auto"]


def test_another_set_to_choose_from_is_another_key(monkeypatch):
    before = planner.cache_key(GDN, SMALL, CHIP, "auto"), planner.cache_key(GDN, SMALL, CHIP, "hajax")
    monkeypatch.setattr(planner.schedules, "COMPARED", ("hajax",))
    after = planner.cache_key(GDN, SMALL, CHIP, "auto"), planner.cache_key(GDN, SMALL, CHIP, "hajax")
    assert before[0] != after[0] and before[1] == after[1]


def test_a_schedule_without_a_plan_is_out_of_the_race_and_says_why(plan_cache):
    made = planner.plan(MECHANISMS["gated_delta_rule_2"], SMALL, CHIP, "auto")
    assert made.schedule == "hajax"
    assert "hanpu, which has none: mechanism: schedule hanpu has no lowering for separate erase and write" in note_of(made).beaten
    with pytest.raises(ValueError, match="hanpu has no lowering"):
        planner.plan(MECHANISMS["gated_delta_rule_2"], SMALL, CHIP, "hanpu")


def test_where_no_schedule_has_a_plan_the_reasons_are_given(plan_cache, monkeypatch):
    with pytest.raises(ValueError, match=r"^shape\.key_dim: expected at most 128"):
        planner.plan(GDN, shape_of(64, (1, 1), (256, 128)), CHIP, "auto")
    monkeypatch.setattr(planner.schedules, "COMPARED", ("hanpu", "fla"))
    with pytest.raises(ValueError, match=r"hanpu: .*; fla: "):
        planner.plan(MECHANISMS["gated_delta_rule_2"], SMALL, CHIP, "auto")


def test_a_broken_plan_is_never_chosen(plan_cache, monkeypatch):
    """Only what a schedule refuses takes it out of the race; what it gives is verified."""

    def broken(mechanism, shape, target, version):
        raise AssertionError("a pass is wrong")

    monkeypatch.setattr(planner.schedules, "ASCEND", schedules.ASCEND | {"hanpu": broken})
    with pytest.raises(AssertionError, match="a pass is wrong"):
        planner.plan(GDN, SMALL, CHIP, "auto")


def test_a_cpu_has_one_schedule(plan_cache):
    assert planner.plan(GDN, cpu_shape(64), AVX2, "auto") == planner.plan(GDN, cpu_shape(64), AVX2)


@pytest.mark.parametrize("target", ["cpu", "ascend310p1"])
def test_an_unknown_schedule_is_answered_with_those_there_are(target):
    with pytest.raises(ValueError, match=r"schedule: expected one of \['auto', .*, got 'least'"):
        hajax.plan(tokens=64, key_heads=1, value_heads=1, target=target, schedule="least")


def test_explain_tells_what_was_beaten():
    made = hajax.plan(tokens=64, key_heads=1, value_heads=1, key_dim=16, value_dim=16, target="ascend310p1", schedule="auto")
    (line,) = [line for line in hajax.explain(made).splitlines() if line.startswith("  auto: ")]
    assert f"schedule {made.schedule}, " in line
    for name in set(schedules.COMPARED) - {made.schedule}:
        assert name in line


def test_whoever_is_compared_is_a_schedule():
    assert set(schedules.COMPARED) < set(schedules.ASCEND)
    assert "chunk_head" not in schedules.COMPARED
    assert "auto" not in schedules.ASCEND
