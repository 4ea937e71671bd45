"""Makes `tiny_models` importable and shares one random model."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def params():
    from tiny_models import TINY, random_params

    return random_params(TINY, 0)


@pytest.fixture(scope="session")
def folder(params, tmp_path_factory):
    """The random model, saved."""
    from hajax.models import qwen3_5
    from tiny_models import TINY

    path = tmp_path_factory.mktemp("model")
    qwen3_5.save(path, params, TINY)
    return path


@pytest.fixture(scope="session")
def model(folder):
    """The random model, loaded. Its compiled programs are shared by the tests that generate."""
    import hajax.models

    return hajax.models.load(folder)
