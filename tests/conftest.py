"""Strict for every test: warnings are errors (pyproject.toml), ranks never promote, four CPU devices, a plan cache of its own.

All of it through the environment, before anything imports JAX, so that subprocesses inherit it.
"""

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

DEVICES = "--xla_force_host_platform_device_count=4"

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["JAX_NUMPY_RANK_PROMOTION"] = "raise"
if DEVICES not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {DEVICES}".strip()
for variable in ("HAJAX_CACHE", "HAJAX_CPU_ISA", "HAJAX_CPU_THREADS"):
    os.environ.pop(variable, None)
os.environ["HAJAX_CACHE_DIR"] = tempfile.mkdtemp(prefix="hajax-tests-")
atexit.register(shutil.rmtree, os.environ["HAJAX_CACHE_DIR"], ignore_errors=True)

sys.path.insert(0, str(Path(__file__).parent / "support"))  # oracles and case strategies, shared by folders

# Equal draws on every machine and in every run; HAJAX_HYPOTHESIS=explore draws anew.
settings.register_profile("fixed", deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
settings.register_profile("explore", deadline=None, print_blob=True, suppress_health_check=list(HealthCheck))
settings.load_profile(os.environ.get("HAJAX_HYPOTHESIS", "fixed"))


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden plans instead of comparing with them")


@pytest.fixture
def update_golden(request):
    """Whether golden files are to be rewritten."""
    return request.config.getoption("--update-golden")


@pytest.fixture
def plan_cache(tmp_path, monkeypatch):
    """An empty plan cache on disk, and none in memory."""
    from hajax import cache, planner

    monkeypatch.setenv("HAJAX_CACHE_DIR", str(tmp_path / "cache"))
    planner.plan.cache_clear()
    yield tmp_path / "cache" / "plans" / cache.LAYOUT
    planner.plan.cache_clear()
