"""The public face: these names and no others, each documented; no module named like a public function."""

import inspect
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import hajax
import hajax.ops

NAMES = [
    "backends",
    "causal_conv1d",
    "explain",
    "gated_delta_rule",
    "gated_delta_rule_step",
    "gated_rms_norm",
    "jit",
    "kda",
    "kda_step",
    "l2norm",
    "linear_attention",
    "models",
    "plan",
    "profile",
    "use",
    "__version__",
]


def test_the_public_names_are_these():
    assert hajax.__all__ == NAMES


def test_dir_lists_them():
    assert set(dir(hajax)) == set(NAMES)


@pytest.mark.parametrize("name", NAMES[:-1])
def test_a_public_name_imports_and_is_documented(name):
    thing = getattr(hajax, name)
    assert inspect.getdoc(thing)
    if inspect.isfunction(thing):
        documented = inspect.getdoc(thing)
        assert thing.__annotations__.get("return") is not None
        assert len(documented.splitlines()[0]) > 20


def test_the_ops_package_lists_what_it_offers():
    for name in hajax.ops.__all__:
        assert getattr(hajax, name) is getattr(hajax.ops, name)


def test_a_name_that_is_none_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'hajax' has no attribute 'attention'"):
        _ = hajax.attention


@pytest.mark.parametrize("name", ["npu", "sim"])
def test_the_emulated_chip_is_there_after_import_hajax_alone(name):
    code = f"import hajax; print(hajax.backends.{name}.__name__, hajax.backends.{name}.SimOptions.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [f"hajax.backends.{name}", "SimOptions"]


def test_the_backends_import_no_chip_until_it_is_asked_for_and_have_no_other_names():
    code = "import sys, hajax.backends; print(sorted(m for m in sys.modules if m.startswith(('hajax.backends.', 'jax'))))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['hajax.backends._arrays', 'hajax.backends.library']"
    assert {"npu", "sim", "execute"} <= set(dir(hajax.backends))
    with pytest.raises(AttributeError, match=r"module 'hajax\.backends' has no attribute 'gpu'"):
        _ = hajax.backends.gpu


def test_no_module_has_the_name_of_a_public_function():
    public = {n for n in NAMES if n not in ("backends", "models")}
    # An editable install leaves the models outside hajax's own folder, an installed one has them inside.
    folders = {Path(p) for p in (*hajax.__path__, *hajax.models.__path__)}
    names = {file.stem for folder in folders for file in folder.rglob("*.py")}
    assert {"planner", "delta_net"} <= names
    assert not names & public, "modules that would be taken for public functions"


def test_the_version_is_the_distributions():
    assert hajax.__version__ == metadata.version("hajax")


def test_the_face_imports_nothing_until_it_is_asked():
    code = "import sys, hajax; print(sorted(m for m in sys.modules if m.startswith(('hajax.', 'jax', 'numpy'))))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
