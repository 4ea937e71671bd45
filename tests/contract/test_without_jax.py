"""Ranks 0 to 6 load, and make a plan, without JAX; a second test proves that the first can fail."""

import subprocess
import sys

CHECK = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("jax", "jaxlib", "torch"):
            raise ImportError(f"{name} was imported")
sys.meta_path.insert(0, Refuse())
"""
RANKS_0_TO_6 = ("abi", "targets", "mechanisms", "plans", "cache", "cost", "passes", "schedules", "planner")


def run(code):
    return subprocess.run([sys.executable, "-c", CHECK + code], capture_output=True, text=True)


def test_ranks_0_to_6_import_without_jax():
    done = run("import " + ", ".join(f"hajax.{name}" for name in RANKS_0_TO_6))
    assert done.returncode == 0, done.stderr


def test_the_native_library_opens_without_jax():
    done = run("from hajax import backends\nprint(backends.cpu_target())")
    assert done.returncode == 0, done.stderr


def test_planning_needs_no_jax():
    done = run("import hajax\nprint(hajax.explain(hajax.plan(tokens=100, key_heads=1, value_heads=2)))")
    assert done.returncode == 0, done.stderr
    assert "gated_delta_rule T=100" in done.stdout


def test_the_check_can_fail():
    done = run("import hajax.ops")
    assert done.returncode != 0
    assert "jax was imported" in done.stderr
