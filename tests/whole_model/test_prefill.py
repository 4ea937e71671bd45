"""Whole prefills: sums add up, the delta rule is the emulator's own, longer prompts take longer."""

import dataclasses
import itertools

import numpy as np
import pytest

from hajax import planner, plans
from hajax.backends import npu as emulated
from hajax.mechanisms import MECHANISMS
from hajax.targets import npu
from hajax.whole_model import MODELS, profile_prefills
from hajax.whole_model.kernels import KINDS
from hajax.whole_model.sizes import DeltaRule, Layer, Mlp, Model

pytestmark = pytest.mark.native


def shortened(name, layers, **changes):
    """The first layers of a model: all kinds of them in little time."""
    return dataclasses.replace(MODELS[name], layers=MODELS[name].layers[:layers], **changes)


SMALL = shortened("Qwen3.5-0.8B", 4)


def test_layers_kernels_and_kinds_add_up():
    (prefill,) = profile_prefills(SMALL, (300,)).prefills
    by_kernel = sum(row.times * row.each.microseconds for row in prefill.kernels)
    by_kind = sum(amount.microseconds for _, amount in prefill.by_kind)
    ends = sum(row.each.microseconds for row in prefill.kernels if row.layer == "before and after")
    by_layer = sum(row.total.microseconds for row in prefill.layers) + ends
    assert [kind for kind, _ in prefill.by_kind] == list(KINDS)
    for total in (by_kernel, by_kind, by_layer):
        assert total == pytest.approx(prefill.total.microseconds)
    assert sum(row.times * row.each.gm_bytes for row in prefill.kernels) == prefill.total.gm_bytes
    assert sum(amount.gm_bytes for row in prefill.layers for _, amount in row.by_kind) < prefill.total.gm_bytes
    assert [row.mixer for row in prefill.layers] == 3 * ["gated delta rule"] + ["attention"]
    assert prefill.total.launches == sum(row.times * row.each.launches for row in prefill.kernels) == 3 + 3 * 9 + 8


@pytest.mark.parametrize(
    ("name", "mechanism", "heads"), [("Qwen3.5-4B", "gated_delta_rule", (16, 32)), ("Ling-3.0-tiny", "kda", (16, 16))]
)
@pytest.mark.parametrize("schedule", [None, "hanpu"])
def test_the_delta_rule_is_what_the_emulator_counts_with_all_checks(name, mechanism, heads, schedule):
    """Random inputs, arithmetic and all: blank arrays give the same counts and times."""
    tokens, (key_heads, value_heads), target = 70, heads, npu.load("ascend310p3")
    (prefill,) = profile_prefills(shortened(name, 1), (tokens,), target="ascend310p3", schedule=schedule).prefills
    (row,) = (row for row in prefill.kernels if row.by == "emulator")
    random = np.random.default_rng(0)
    shape = plans.Shape(1, tokens, 1, key_heads, value_heads, 128, 128, "float16", "float16")
    plan = planner.plan(MECHANISMS[mechanism], shape, target, schedule)
    gates = (1, tokens, value_heads)
    arrays = {
        "query": random.normal(0, 0.1, (1, tokens, key_heads, 128)).astype(np.float16),
        "key": random.normal(0, 0.1, (1, tokens, key_heads, 128)).astype(np.float16),
        "value": random.normal(0, 1, (*gates, 128)).astype(np.float16),
        "log_decay": -random.random((*gates, 128) if mechanism == "kda" else gates).astype(np.float32),
        "beta": random.random(gates).astype(np.float32),
        "state_in": np.zeros((1, 1, value_heads, 128, 128), np.float32),
        "bounds": np.array([[0, tokens]], np.int32),
    }
    runs = emulated.execute(plans.to_bytes(plan), arrays, scale=0.1, target=target)[2]
    assert row.each.microseconds == pytest.approx(sum(run.timing["microseconds"] for run in runs))
    energy = sum(run.timing["dynamic_microjoules"] + run.timing["static_microjoules"] for run in runs)
    assert row.each.microjoules == pytest.approx(energy)
    assert row.each.launches == len(runs)
    assert row.kind == "delta rule" and row.each.gm_bytes > 2 * tokens * 128 * (2 * key_heads + 2 * value_heads)


def test_another_schedule_changes_the_delta_rule_alone():
    one, other = (profile_prefills(SMALL, (512,), schedule=name).prefills[0] for name in ("hajax", "hanpu"))
    differing = [a.kind for a, b in zip(one.kernels, other.kernels, strict=True) if a.each != b.each]
    assert differing == ["delta rule"]
    assert (one.schedule, other.schedule) == ("hajax", "hanpu")


@pytest.mark.parametrize("name", ["Qwen3.5-0.8B", "Kimi-Linear-48B-A3B", "Ling-3.0-tiny"])
def test_longer_prompts_take_longer_and_more(name):
    prefills = profile_prefills(shortened(name, 4), (1, 64, 200, 513)).prefills
    for short, long in itertools.pairwise(prefills):
        assert long.total.microseconds >= short.total.microseconds
        assert long.total.microjoules >= short.total.microjoules
        assert long.total.gm_bytes > short.total.gm_bytes


def test_fewer_cores_take_longer():
    many, few = (profile_prefills(SMALL, (600,), target=name).prefills[0] for name in ("ascend310p1", "ascend310p3"))
    assert few.total.microseconds > many.total.microseconds


def test_weights_that_do_not_fit_are_reported_and_timed_anyway():
    profile = profile_prefills(shortened("Ling-3.0-Flash", 12), (64,))
    assert (profile.weight_bytes, profile.memory_bytes) == (2 * profile.parameters, 24 << 30)
    assert not profile.fits
    assert profile.prefills[0].total.microseconds > 0
    assert any("spread evenly" in note for note in profile.notes)
    assert profile_prefills(SMALL, (64,)).fits


def test_a_model_without_a_delta_rule_has_no_schedule():
    layers = (MODELS["Qwen3.5-0.8B"].layers[3],)
    (prefill,) = profile_prefills(dataclasses.replace(SMALL, layers=layers), (64,)).prefills
    assert prefill.schedule == ""
    assert all(row.by == "cost model" for row in prefill.kernels)


def test_progress_is_told_of_each_length():
    seen = []
    profile_prefills(SMALL, (64, 128), progress=lambda index, tokens: seen.append((index, tokens)))
    assert seen == [(0, 64), (1, 128)]


@pytest.mark.parametrize(("arguments", "text"), [
    ({"tokens": (0,)}, "tokens: expected 1 to 131072, got 0"),
    ({"tokens": (True,)}, "tokens: expected 1 to 131072, got True"),
    ({"tokens": (1 << 20,)}, "tokens: expected 1 to 131072, got 1048576"),
    ({"tokens": (64,), "target": "ascend910"}, "target: expected one of ascend310b1, ascend310p1.*got 'ascend910'"),
    ({"tokens": (64,), "schedule": "best"}, "schedule: expected one of .*got 'best'"),
])  # fmt: skip
def test_what_cannot_be_profiled_is_refused(arguments, text):
    with pytest.raises(ValueError, match=text):
        profile_prefills(SMALL, **arguments)


def test_sizes_that_no_plan_serves_are_refused_when_they_are_made():
    with pytest.raises(ValueError, match="value_heads: expected a multiple of the 3 key heads, got 4"):
        DeltaRule("gated_delta_rule", 3, 4, 128, 128, 4)
    with pytest.raises(ValueError, match="mechanism: expected gated_delta_rule or kda, got 'rwkv'"):
        DeltaRule("rwkv", 4, 4, 128, 128, 4)
    with pytest.raises(ValueError, match="layers: expected 1 to 1024 layers, got 0"):
        Model("m", 64, 64, True, ())
    with pytest.raises(ValueError, match="width: expected a positive integer"):
        Layer(DeltaRule("kda", 4, 4, 128, 128, 4), Mlp(0))


def test_a_chip_without_the_kernel_is_a_what_if_and_says_so():
    profile = profile_prefills(SMALL, (128,), target="ascend310b1")
    assert profile.target == "ascend310b1_as_2002" and any("what-if" in note for note in profile.notes)
    with_kernel = profile_prefills(SMALL, (128,))
    assert not any("what-if" in note for note in with_kernel.notes)
    assert profile.prefills[0].total.microseconds > with_kernel.prefills[0].total.microseconds  # one core
