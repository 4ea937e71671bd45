"""Who may import whom: the ranks of the design. A module imports only from a smaller rank, or from its own package."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# The longest prefix decides. Modules of one package and one rank may import one another.
RANKS = {
    "hajax.abi": 0,
    "hajax.targets": 1,
    "hajax.mechanisms": 1,
    "hajax.graph": 2,
    "hajax.plans": 2,
    "hajax.cache": 2,
    "hajax.cost": 3,
    "hajax.tuned": 3,
    "hajax.chip_cost": 3,
    "hajax.passes": 4,
    "hajax.lowering": 4,
    "hajax.schedules": 5,
    "hajax.planner": 6,
    "hajax.backends": 7,
    "hajax.ops": 8,
    "hajax.npu": 9,
    "hajax.models": 9,
    "hajax._jit": 10,
    "hajax._plan": 10,
    "hajax._profile": 10,
    "hajax.conformance": 10,
    "hajax.models._load": 11,  # the conveniences over the pure functions: they compile with hajax.jit
    "hajax.models._model": 11,
    "hajax.models._generate": 11,
    "hajax.models.__init__": 11,
    "hajax.report": 11,
    "hajax.integrations": 11,
    "hajax.whole_model": 11,
    "hajax._generate_command": 12,
    "hajax._profile_command": 12,
    "hajax._sim_command": 12,
    "hajax._tune": 11,
    "hajax._tune_command": 12,
    "hajax._selftest": 12,
    "hajax.cli": 13,
    "hajax.__init__": 14,
}
JAX_FROM = 7
TORCH_IN = ("hajax.npu", "hajax.integrations")


def modules():
    """(name, path) of every Python file that installs as hajax; a package's own file is named with its __init__."""
    for folder, base in ((ROOT / "hajax", "hajax"), (ROOT / "models", "hajax.models")):
        for path in sorted(folder.rglob("*.py")):
            yield ".".join((base, *path.relative_to(folder).with_suffix("").parts)), path


def rank_key(name):
    """The entry of RANKS that decides for a module."""
    found = [key for key in RANKS if name == key or name.startswith(f"{key}.")]
    return max(found, key=len) if found else None


def parent(key):
    return key.rsplit(".", 1)[0]


def imports(source):
    """Dotted names that a source imports for running; `if TYPE_CHECKING` blocks and the lazy face do not count."""
    names = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide ranks"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


def violations(name, source):
    own = rank_key(name)
    if own is None:
        return [f"{name}: has no rank"]
    found = []
    for imported in imports(source):
        top = imported.split(".")[0]
        if top == "jax" and RANKS[own] < JAX_FROM:
            found.append(f"{name}: imports JAX below rank {JAX_FROM}")
        if top == "torch" and not own.startswith(TORCH_IN):
            found.append(f"{name}: imports torch outside of {TORCH_IN}")
        other = rank_key(imported)
        if other is None or other == own or (parent(other) == parent(own) != "hajax" and RANKS[other] == RANKS[own]):
            continue
        if RANKS[other] >= RANKS[own]:
            found.append(f"{name} (rank {RANKS[own]}) imports {imported} (rank {RANKS[other]})")
    return found


@pytest.mark.parametrize(("name", "path"), list(modules()), ids=[name for name, _ in modules()])
def test_a_module_imports_only_from_smaller_ranks(name, path):
    if name == "hajax.__init__":  # the face, lazy: it names everything
        return
    assert not violations(name, path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(("name", "source"), [
    ("hajax.plans.model", "from hajax import planner"),
    ("hajax.plans.model", "import hajax.planner"),
    ("hajax.passes.mapping", "from hajax.schedules import cpu_fused"),
    ("hajax.planner", "def f():\n    from hajax.ops import _native"),
    ("hajax.cost", "import jax.numpy as jnp"),
    ("hajax.cost", "from hajax.passes.mapping import map_heads"),
    ("hajax.ops._norms", "import torch"),
    ("hajax.models.layers.norms", "from hajax._jit import jit"),
    ("hajax.models.qwen3_5.model", "from hajax.models._generate import generate"),
    ("hajax.report._explain", "import hajax.cli"),
    ("hajax.stranger", "import os"),
])  # fmt: skip
def test_a_planted_violation_is_found(name, source):
    assert violations(name, source)


def test_the_table_holds_what_the_folders_hold():
    """A module without a rank fails above; here, a rank without its module."""
    names = {name for name, _ in modules()}
    for key in RANKS:
        assert any(name == key or name.startswith(f"{key}.") for name in names), f"{key} is gone: drop its rank"
