"""The emulator's settings are those of each test; its library is the one built for this session."""

import contextlib
import os
from pathlib import Path

import pytest
from acl_runtime import OK, Acl, function_of

from hajax.backends import ascend

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


def given_up():
    """The process's runtime, which launches on an emulated device may have left initialised."""
    with contextlib.suppress(ascend.AscendError):  # nobody had it
        ascend.reset(ascend.open_emulated_library())
    return Acl()


@pytest.fixture
def unset_acl():
    """A runtime that nobody has initialised."""
    return given_up()


@pytest.fixture
def acl():
    """A runtime with device 0 set; finalised afterwards whatever happened."""
    runtime = given_up()
    assert runtime.Init(0) == OK, runtime.text()
    assert runtime.rtSetDevice(0) == OK
    yield runtime
    assert runtime.inject(b"") == OK
    runtime.Finalize()


@pytest.fixture
def add(acl, kernels):
    """The function `add` of kernels.cpp."""
    return function_of(acl, kernels, "add")
