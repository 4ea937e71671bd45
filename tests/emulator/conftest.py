"""The emulator's settings are those of each test; its library is the one built for this session."""

import os
from pathlib import Path

import pytest

KERNELS = Path(__file__).parent / "kernels.cpp"


@pytest.fixture(autouse=True)
def no_settings(monkeypatch):
    """No HAJAX_SIM_* of the developer's shell but the library's path."""
    for name in list(os.environ):
        if name.startswith("HAJAX_SIM_") and name != "HAJAX_SIM_LIBRARY":
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def kernels():
    """tests/emulator/kernels.cpp, built."""
    from hajax.backends import sim

    return sim.compile_kernel(KERNELS)
