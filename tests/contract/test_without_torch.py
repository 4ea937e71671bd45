"""`import hajax`, its models and operators import neither torch nor torch_npu; a third test proves that the check can fail."""

import subprocess
import sys

CHECK = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "torch_npu"):
            raise ImportError(f"{name} was imported")
sys.meta_path.insert(0, Refuse())
"""


def run(code):
    return subprocess.run([sys.executable, "-c", CHECK + code], capture_output=True, text=True)


def test_importing_hajax_and_everything_public_imports_no_torch():
    done = run("import hajax\nfor name in hajax.__all__: getattr(hajax, name)\nimport hajax.cli, hajax.npu, hajax.integrations")
    assert done.returncode == 0, done.stderr


def test_running_an_operator_and_a_command_imports_no_torch():
    done = run(
        "import hajax, jax.numpy as jnp\n"
        "x, g = jnp.ones((1, 3, 1, 8)), jnp.zeros((1, 3, 1))\n"
        "hajax.jit(hajax.gated_delta_rule)(x, x, x, g, g)\n"
        "from hajax import report; report.diagnose()"
    )
    assert done.returncode == 0, done.stderr


def test_the_check_can_fail():
    done = run("import hajax.npu.executor")
    assert done.returncode != 0
    assert "torch was imported" in done.stderr


def test_a_torch_backend_without_torch_says_so():
    done = run("import hajax\nhajax.jit(lambda x: x, backend='torch')")
    assert done.returncode != 0
    assert "torch was imported" in done.stderr or "needs torch" in done.stderr
