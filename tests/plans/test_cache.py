"""The plan cache on disk: whatever is wrong with it is one warning and a plan made anew, and nothing half-written stays."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest
from planning import AVX512, shape_of
from problem import environment

from hajax import cache, planner, plans
from hajax.mechanisms import GATED_DELTA_RULE
from hajax.plans import from_json, to_json
from hajax.targets import npu

SHAPE = shape_of(100, (2, 4))
CHIP_SHAPE = shape_of(100, (1, 1), (16, 16), "float16")
KEY = planner.cache_key(GATED_DELTA_RULE, SHAPE, AVX512, "cpu_fused")


def plan():
    planner.plan.cache_clear()
    return planner.plan(GATED_DELTA_RULE, SHAPE, AVX512)


def entry(folder):
    (path,) = folder.glob("*.json")
    return path


def assert_tidy(folder):
    assert not [p for p in folder.rglob("*") if p.is_file() and p.suffix != ".json"]
    for path in folder.glob("*.json"):
        data = json.loads(path.read_text(encoding="utf-8"))
        from_json(data["text"])


def test_a_plan_is_stored_once_and_read_back(plan_cache, monkeypatch):
    made = plan()
    assert from_json(cache.read(KEY)) == made
    monkeypatch.setattr(planner.schedules, "CPU", {"cpu_fused": None})  # making one would now fail
    assert plan() == made
    assert_tidy(plan_cache)


def test_in_memory_it_is_the_same_object(plan_cache):
    assert planner.plan(GATED_DELTA_RULE, SHAPE, AVX512) is planner.plan(GATED_DELTA_RULE, SHAPE, AVX512)


@pytest.mark.parametrize("content", [
    b"", b"{", b"[]", b"null", b"[" * 100_000, b"\xff\xfe\x00", b'{"key": 3}', json.dumps({"text": "{}"}).encode(),
], ids=range(8))  # fmt: skip
def test_a_damaged_entry_is_a_warning_and_a_new_plan(content, plan_cache):
    made = plan()
    entry(plan_cache).write_bytes(content)
    with pytest.warns(RuntimeWarning, match=r"hajax plan cache: .*\.json is damaged .*planning anew"):
        assert plan() == made
    assert plan() == made  # repaired: no warning
    assert_tidy(plan_cache)


def test_a_truncated_entry_is_a_warning_and_a_new_plan(plan_cache):
    made = plan()
    whole = entry(plan_cache).read_bytes()
    for size in range(0, len(whole), max(1, len(whole) // 7)):
        entry(plan_cache).write_bytes(whole[:size])
        with pytest.warns(RuntimeWarning, match="is damaged"):
            assert plan() == made
        assert entry(plan_cache).read_bytes() == whole


def test_an_entry_with_another_number_is_a_warning_and_a_new_plan(plan_cache):
    made = plan()
    data = json.loads(entry(plan_cache).read_text())
    changed = to_json(replace(made, launch=replace(made.launch, workers=made.launch.workers + 1)))
    entry(plan_cache).write_text(json.dumps(data | {"text": changed}))
    with pytest.warns(RuntimeWarning, match="is damaged .its text is not the one that was written"):
        assert plan() == made


def test_an_entry_whose_text_is_nested_too_deeply_is_a_warning_and_a_new_plan(plan_cache):
    made = plan()
    cache.write(KEY, "[" * 100_000)
    with pytest.warns(RuntimeWarning, match=r"is stale \(plan: not JSON of a plan \(nested too deeply\)\); planning anew"):
        assert plan() == made
    assert plan() == made  # repaired: no warning
    assert_tidy(plan_cache)


def chip_plan():
    planner.plan.cache_clear()
    return planner.plan(GATED_DELTA_RULE, CHIP_SHAPE, npu.load("ascend310p1"))


def test_a_chips_plan_with_one_byte_changed_is_a_warning_and_a_new_plan(plan_cache):
    made = chip_plan()
    whole = entry(plan_cache).read_text()
    middle = whole.index("zlib") + 1000  # within the programs
    entry(plan_cache).write_text(whole[:middle] + ("A" if whole[middle] != "A" else "B") + whole[middle + 1 :])
    with pytest.warns(RuntimeWarning, match="is damaged .its text is not the one that was written"):
        assert chip_plan() == made
    assert entry(plan_cache).read_text() == whole


@pytest.mark.parametrize("change", [lambda data: data[:-32], lambda data: data[:8] + bytes(32) + data[40:]], ids=["cut", "abi"])
def test_a_chips_plan_that_is_cut_or_of_another_abi_is_a_warning_and_a_new_plan(change, plan_cache):
    made = chip_plan()
    key = planner.cache_key(GATED_DELTA_RULE, CHIP_SHAPE, npu.load("ascend310p1"), "hajax")
    cache.write(key, to_json(replace(made, launch=plans.Packed(change(made.launch.data)))))
    with pytest.warns(RuntimeWarning, match=r"is stale \(plan: expected bytes that start"):
        assert chip_plan() == made
    assert from_json(cache.read(key)) == made


def test_an_entry_of_another_key_is_not_taken(plan_cache):
    made = plan()
    data = json.loads(entry(plan_cache).read_text())
    entry(plan_cache).write_text(json.dumps(data | {"key": "another"}))
    with pytest.warns(RuntimeWarning, match="it holds the key 'another'"):
        assert plan() == made


def stale_plans():
    fresh = planner.schedules.CPU["cpu_fused"](GATED_DELTA_RULE, SHAPE, AVX512, planner.VERSION)
    yield "version", replace(fresh, version=planner.VERSION + 1)
    yield "shape", replace(fresh, shape=replace(SHAPE, tokens=101))
    yield "target", replace(fresh, target="cpu-of-another-machine")
    yield "mechanism", replace(fresh, mechanism=replace(GATED_DELTA_RULE, delta=False))
    yield "schedule", replace(fresh, schedule="another")
    yield "isa", replace(fresh, launch=replace(fresh.launch, isa="avx2"))
    yield "panel", replace(fresh, launch=replace(fresh.launch, panel=16))
    yield "chunk", replace(fresh, launch=replace(fresh.launch, chunk=48))
    yield "unknown isa", replace(fresh, launch=replace(fresh.launch, isa="avx1024"))


@pytest.mark.parametrize("stale", [p for _, p in stale_plans()], ids=[n for n, _ in stale_plans()])
def test_a_stored_plan_that_no_longer_fits_is_a_warning_and_a_new_plan(stale, plan_cache):
    made = plan()
    cache.write(KEY, to_json(stale))
    with pytest.warns(RuntimeWarning, match=r"is stale \(.*\); planning anew"):
        assert plan() == made
    assert from_json(cache.read(KEY)) == made


def test_another_planner_version_is_another_entry(plan_cache, monkeypatch):
    plan()
    monkeypatch.setattr(planner, "VERSION", planner.VERSION + 1)
    plan()
    assert len(list(plan_cache.glob("*.json"))) == 2


def test_a_file_where_the_folder_should_be_is_a_warning(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("HAJAX_CACHE_DIR", str(tmp_path / "file"))
    with pytest.warns(RuntimeWarning, match="hajax plan cache: cannot (read|write)"):
        assert plan().shape == SHAPE
    assert (tmp_path / "file").read_text() == "in the way"


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="no /proc")
def test_a_read_only_folder_is_a_warning(monkeypatch):
    monkeypatch.setenv("HAJAX_CACHE_DIR", "/proc/self/hajax")  # root, too, cannot write there
    with pytest.warns(RuntimeWarning, match="hajax plan cache: cannot write .*; going on without it"):
        assert plan().shape == SHAPE


def test_a_write_that_fails_leaves_nothing(plan_cache, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.warns(RuntimeWarning, match="No space left on device"):
        plan()
    assert not list(plan_cache.iterdir())


def test_a_write_that_is_interrupted_leaves_nothing(plan_cache, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        plan()
    assert not list(plan_cache.iterdir())


def test_switched_off_it_neither_reads_nor_writes(plan_cache, monkeypatch):
    monkeypatch.setenv("HAJAX_CACHE", "0")
    plan()
    assert cache.folder() is None
    assert not plan_cache.exists()
    assert list(cache.entries()) == []
    assert cache.clear() == 0


def test_clear_removes_entries_and_leftovers_and_says_how_many(plan_cache):
    plan()
    (plan_cache / "left.tmp").write_text("half")
    (plan_cache / "note.txt").write_text("not ours")
    assert cache.clear() == 2
    assert [p.name for p in plan_cache.iterdir()] == ["note.txt"]
    assert cache.clear() == 0


def test_entries_are_listed_and_damaged_ones_are_warned_of(plan_cache):
    made = plan()
    (plan_cache / "damaged.json").write_text("{")
    with pytest.warns(RuntimeWarning, match=r"damaged\.json is damaged"):
        ((path, key, text),) = list(cache.entries())
    assert (path, key, from_json(text)) == (entry_of_plan(plan_cache), KEY, made)


def entry_of_plan(folder):
    return next(p for p in folder.glob("*.json") if p.name != "damaged.json")


def test_the_folder_is_the_users_unless_it_is_named(monkeypatch):
    import platformdirs

    monkeypatch.delenv("HAJAX_CACHE_DIR")
    assert str(cache.folder()).startswith(platformdirs.user_cache_dir("hajax"))


WRITER = """
import sys
sys.path.insert(0, sys.argv[1])
from planning import *
from hajax.mechanisms import GATED_DELTA_RULE
for _ in range(30):
    for tokens in (100, 200):
        planner.plan.cache_clear()
        made = planner.plan(GATED_DELTA_RULE, shape_of(tokens, (2, 4)), AVX512)
        assert made.shape.tokens == tokens
"""


def test_many_writers_and_readers_at_once_never_see_half_an_entry(plan_cache):
    support = next(p for p in sys.path if p.endswith("support"))
    command = [sys.executable, "-W", "error", "-c", WRITER, support]
    processes = [subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, text=True) for _ in range(3)]
    for process in processes:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    assert len(list(plan_cache.glob("*.json"))) == 2
    assert_tidy(plan_cache)
