"""`hajax tune` with a measurer that counts instead of timing: what is tried, stored, found again, and refused."""

import dataclasses
import functools
import json
import sys

import numpy as np
import pytest
from planning import AVX2, AVX512, shape_of

import hajax
from hajax import _tune, _tune_command, cache, cli, planner, report, tuned
from hajax.mechanisms import GATED_DELTA_RULE, KDA

SHAPE = shape_of(1000, (2, 4), (64, 64), "bfloat16")
PROBLEM = _tune.Problem(GATED_DELTA_RULE, SHAPE, AVX512, (AVX512, dataclasses.replace(AVX2, threads=4)))
WANTED = {"isa": "avx2", "chunk": 16, "group": 1, "column_blocks": 2, "workers": 4}
OWN = planner.plan(GATED_DELTA_RULE, SHAPE, AVX512)


def cost_of(plan):
    """1 for what is wanted, more for every choice that differs: another plan than the cost model's is the best."""
    return 1e-3 * (1 + sum(getattr(plan.launch, name) != value for name, value in WANTED.items()))


def planned(shape=SHAPE, target=AVX512, mechanism=GATED_DELTA_RULE):
    planner.plan.cache_clear()
    return planner.plan(mechanism, shape, target)


def stored(problem=PROBLEM):
    found = _tune.search(problem, cost_of)
    tuned.write(problem.mechanism, problem.shape, problem.target, planner.VERSION, found)
    return found


def test_the_best_of_all_choices_is_found():
    found = _tune.search(PROBLEM, cost_of)
    assert {name: getattr(found.choice, name) for name in WANTED} == WANTED
    assert found.seconds == 1e-3
    assert found.planned_seconds == cost_of(OWN)
    assert _tune.worth_keeping(found)


def test_candidates_are_the_planners_choice_and_every_other_once():
    every = _tune.candidates(PROBLEM)
    assert len(set(every)) == len(every)
    assert every[0] == _tune.planned(PROBLEM)
    for choice in every:
        assert _tune.plan_of(PROBLEM, choice).launch.panel == choice.panel
    for name, values in {"chunk": {16, 32, 64, 128}, "group": {1, 2, 4}, "workers": {1, 4}, "bf16_dot": {False, True}}.items():
        assert {getattr(choice, name) for choice in every} == values
    assert not any(choice.bf16_dot for choice in every if choice.isa == "avx2")


def test_a_choice_no_better_than_the_planners_is_not_worth_keeping():
    found = _tune.search(PROBLEM, lambda plan: 1.0)
    assert found.choice == _tune.planned(PROBLEM)
    assert not _tune.worth_keeping(found)


@pytest.mark.parametrize("tokens", [725, 1000, 1024, 1400])
def test_plans_of_near_lengths_take_it_and_say_so(tokens, plan_cache):
    stored()
    plan = planned(dataclasses.replace(SHAPE, tokens=tokens))
    assert {name: getattr(plan.launch, name) for name in WANTED} == WANTED
    text = report.explain(plan)
    assert "tuned (measured)" in text
    assert "1000 us at T=1000" in text
    assert f"{1e6 * cost_of(OWN):.0f} us" in text


OTHERS = {
    "length": (dataclasses.replace(SHAPE, tokens=600), AVX512, GATED_DELTA_RULE),
    "unknown length": (dataclasses.replace(SHAPE, tokens=None), AVX512, GATED_DELTA_RULE),
    "heads": (dataclasses.replace(SHAPE, value_heads=2), AVX512, GATED_DELTA_RULE),
    "dtype": (dataclasses.replace(SHAPE, input_dtype="float32"), AVX512, GATED_DELTA_RULE),
    "mechanism": (SHAPE, AVX512, KDA),
    "threads": (SHAPE, dataclasses.replace(AVX512, threads=2), GATED_DELTA_RULE),
    "isa": (SHAPE, AVX2, GATED_DELTA_RULE),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_other_problems_and_machines_do_not_take_it(other, plan_cache):
    stored()
    assert not [note for note in planned(*other).notes if note.by.startswith("tuned")]


@pytest.mark.parametrize("guard", ["_version", "_cpu_model"])
def test_another_version_or_cpu_does_not_take_it(guard, plan_cache, monkeypatch):
    stored()
    monkeypatch.setattr(tuned, guard, lambda: "another")
    assert planned() == OWN


def test_another_planner_version_does_not_take_it(plan_cache, monkeypatch):
    stored()
    monkeypatch.setattr(planner, "VERSION", planner.VERSION + 1)
    assert planned().launch == OWN.launch


def test_a_damaged_entry_is_a_warning_and_the_planners_own_plan(plan_cache):
    stored()
    (path,) = cache.folder(cache.TUNED).glob("*.json")
    path.write_text(path.read_text()[:-40])
    with pytest.warns(RuntimeWarning, match="is damaged"):
        assert planned() == OWN


@pytest.mark.parametrize("change", [{"group": 3}, {"workers": 5}, {"chunk": "64"}, {"chunk": None}, {"isa": "avx1024"}], ids=str)
def test_a_stale_entry_is_a_warning_and_the_planners_own_plan(change, plan_cache):
    data = dataclasses.asdict(stored())
    data["choice"] |= change
    cache.write(tuned.key_of(GATED_DELTA_RULE, SHAPE, AVX512, planner.VERSION), json.dumps(data), cache.TUNED)
    with pytest.warns(RuntimeWarning, match=r"is stale"):
        assert planned() == OWN


def test_clearing_the_cache_forgets_it(plan_cache):
    stored()
    assert cache.clear() >= 1
    assert planned() == OWN


def test_the_budget_ends_it_and_says_what_was_not_reached(plan_cache, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(_tune_command.time, "monotonic", lambda: now[0])

    def measurer(problem):
        now[0] += 10.0  # each problem takes ten seconds
        return cost_of

    request = _tune_command.Request(tokens="16,64,256", heads="1x1", mechanism="kda", dtype="float32", dim=64, budget=15)
    found = _tune_command.run(request, measurer)
    assert [row["T"] for row in found["rows"]] == [16]
    assert found["not_reached"] == 2
    assert "not reached" in "\n".join(_tune_command.describe(found))


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs `hajax tune ARGUMENTS` in this process: (exit code, standard output, standard error)."""

    def start(*arguments):
        monkeypatch.setattr(sys, "argv", ["hajax", "tune", *arguments])
        code = 0
        try:
            cli.main()
        except SystemExit as stop:
            code = stop.code or 0
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return start


TINY = ("--tokens", "3,70", "--heads", "1x2", "--dim", "16", "--mechanism", "gated_delta_rule", "--dtype", "float32")


@pytest.mark.native
def test_a_run_prints_one_object_and_no_bar_without_a_terminal(run, plan_cache):
    code, out, error = run(*TINY, "--json")
    assert code == 0, error
    found = json.loads(out)
    assert [row["T"] for row in found["rows"]] == [3, 70]
    assert all(0 < row["best_us"] <= row["planned_us"] for row in found["rows"])
    assert found["not_reached"] == 0
    assert len(error.splitlines()) == 2
    assert len(list(cache.entries(cache.TUNED))) == sum(row["stored"] for row in found["rows"])


@pytest.mark.native
def test_a_dry_run_measures_and_stores_nothing(run, plan_cache, monkeypatch):
    monkeypatch.setattr(_tune, "measurer", None)
    code, out, _ = run(*TINY, "--dry-run")
    assert code == 0
    assert "T=70" in out and "candidates" in out
    assert not list(cache.entries(cache.TUNED))


@pytest.mark.native
@pytest.mark.parametrize("isa", ["tiles", "baseline"])
def test_products_of_bf16_are_tried_where_the_kernel_has_them(isa, monkeypatch):
    monkeypatch.setenv("HAJAX_CPU_ISA", isa)
    target = hajax.backends.cpu_target()
    (tried,) = _tune_command.kernels(target)
    assert (tried.isa, tried.bf16_dot) == (isa, isa == "tiles")
    shape = dataclasses.replace(shape_of(70, (1, 2), (16, 16)), input_dtype="bfloat16")
    dots = {choice.bf16_dot for choice in _tune.candidates(_tune.Problem(GATED_DELTA_RULE, shape, target, (tried,)))}
    assert dots == ({False, True} if isa == "tiles" else {False})


@pytest.mark.native
def test_every_choice_computes_the_same(plan_cache):
    """On this machine's own kernels: a choice is about time and nothing else."""
    rng = np.random.default_rng(0)
    query, key, value = (rng.standard_normal((1, 70, heads, 16), np.float32) for heads in (1, 1, 2))
    arguments = query, key, value, -rng.random((1, 70, 2), np.float32), rng.random((1, 70, 2), np.float32)
    target = hajax.backends.cpu_target()
    problem = _tune.Problem(GATED_DELTA_RULE, shape_of(70, (1, 2), (16, 16)), target, (target,))
    operator = functools.partial(hajax.gated_delta_rule, l2norm_eps=1e-6)
    expected = np.asarray(operator(*arguments, implementation="xla")[0])
    for chunk in (16, 128):
        choice = dataclasses.replace(_tune.planned(problem), chunk=chunk, group=1, token_steps=0)
        tuned.write(GATED_DELTA_RULE, problem.shape, target, planner.VERSION, tuned.Tuned(choice, 70, 1.0, 2.0))
        planner.plan.cache_clear()
        assert planner.plan(GATED_DELTA_RULE, problem.shape, target).launch.chunk == chunk
        np.testing.assert_allclose(operator(*arguments, implementation="cpu")[0], expected, atol=1e-5)


@pytest.mark.parametrize(("arguments", "parts"), [
    (("--tokens", "0"), ("--tokens", "'0'")),
    (("--tokens", "64,,32"), ("--tokens", "64,,32")),
    (("--heads", "16"), ("--heads", "HkxHv")),
    (("--heads", "3x4"), ("--heads", "multiple")),
    (("--mechanism", "gdn"), ("--mechanism", "'gdn'")),
    (("--dtype", "int8"), ("--dtype", "'int8'")),
    (("--dim", "12"), ("--dim", "12")),
    (("--budget", "-1"), ("--budget", "-1")),
    (("--budget", "nan"), ("--budget", "nan")),
])  # fmt: skip
@pytest.mark.native
def test_wrong_arguments_are_one_line_that_names_them(arguments, parts, run):
    code, _, error = run(*arguments)
    assert code == 2
    assert len(error.strip().splitlines()) == 1, error
    assert all(part in error for part in parts), error


@pytest.mark.native
def test_without_a_cache_there_is_nowhere_to_store(run, monkeypatch):
    monkeypatch.setenv("HAJAX_CACHE", "0")
    code, _, error = run(*TINY)
    assert code == 2
    assert "HAJAX_CACHE" in error
