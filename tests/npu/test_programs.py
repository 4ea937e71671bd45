"""The battery of JAX programs on torch: each right, or refused by name when it is planned."""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hajax

torch = pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.torch

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import _programs  # noqa: E402
from battery.case import Program, fixed  # noqa: E402

from hajax.npu import _compat, rules  # noqa: E402 (needs torch)
from hajax.npu.dtypes import Unsupported  # noqa: E402
from hajax.npu.program import CALLS  # noqa: E402
from hajax.npu.rules.registry import Rule  # noqa: E402

# XLA's compiler is most of the time; what it computes is the same without its optimisations.
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}

# Rules for what only some versions of JAX have, with the first that does.
SINCE = {
    "empty2": (0, 9),
    "log2": (0, 11),
    "mulhi": (0, 9),
    "one_minus_square": (0, 11),
    "polynomial": (0, 11),
    "stack": (0, 9),
    "tile": (0, 9),
    "unstack": (0, 9),
}
ELSEWHERE = {
    "hajax_delta_rule": "tests/npu/test_executor.py",
    "hajax_delta_rule_backward": "tests/npu/test_executor.py",
}
# Primitives of programs that are refused; there is no rule for them.
WITHOUT_RULES = {"debug_print", "eig", "pure_callback", "ragged_dot_general", "regularized_incomplete_beta"}
SETTLED_WHEN_PLANNED = {"call_hi_primitive", "platform_index"}


def run(function, arguments):
    return hajax.jit(function, backend="torch")(*arguments)


@pytest.mark.parametrize("program", _programs.PROGRAMS, ids=lambda program: program.name)
def test_programs_are_right_or_refused_by_name(program):
    status, _, message = _programs.check(program, run, QUICK)
    assert status == ("refused" if program.refuses else "right"), message
    if program.refuses:
        assert program.refuses in message


def test_the_battery_is_large_and_its_names_differ():
    names = [program.name for program in _programs.PROGRAMS]
    assert len(set(names)) == len(names) >= 160


def primitives(jaxpr, found):
    """Names of all primitives in a jaxpr and what it calls."""
    for equation in jaxpr.eqns:
        found.add(equation.primitive.name)
        inner = [_compat.expanded(equation), *jax.tree.leaves(list(equation.params.values()), is_leaf=is_jaxpr)]
        for value in filter(is_jaxpr, inner):
            primitives(getattr(value, "jaxpr", value), found)
    return found


def is_jaxpr(value):
    return hasattr(value, "eqns") or hasattr(getattr(value, "jaxpr", None), "eqns")


def test_every_rule_is_exercised_by_some_program_and_no_exception_is_stale():
    seen = set()
    for program in _programs.PROGRAMS:
        with _programs.surroundings(program):
            arguments = program.arguments(np.random.default_rng(_programs.SEED))
            primitives(jax.make_jaxpr(program.function)(*arguments).jaxpr, seen)
    here = jax.__version_info__
    absent = {name for name, since in SINCE.items() if here < since}
    assert set(rules.RULES) - seen == absent | set(ELSEWHERE)
    assert seen - set(rules.RULES) - CALLS - SETTLED_WHEN_PLANNED == WITHOUT_RULES


def planted(name, change):
    """The rule of a primitive, its torch function's result changed."""
    right = rules.RULES[name]

    def build(equation, context):
        made = right.build(equation, context)
        function = getattr(made, "run", made)
        return lambda *xs: change(function(*xs))

    return Rule(build, right.fresh, right.scalars, right.complex, right.keys)


@pytest.mark.parametrize(
    ("name", "function", "change"),
    [
        ("exp", jnp.exp, lambda x: x * (1 + 2.0**-18)),  # 32 ulps
        ("floor", jnp.floor, lambda x: x + 0.0),  # -0 becomes 0
        ("sort", jnp.sort, lambda xs: tuple(x.flip(0) for x in xs)),
        ("sqrt", jnp.sqrt, lambda x: torch.nan_to_num(x, nan=0.0)),
        ("argmax", lambda x: jnp.argmax(x[5:]), lambda x: x + 1),
        ("convert_element_type", lambda x: x.astype(jnp.int32), lambda x: torch.where(x == 2**31 - 1, -(2**31), x)),
        ("neg", jnp.negative, lambda x: x.double()),
        ("cumsum", lambda x: jnp.cumsum(x[5:]), lambda x: x[:-1]),
    ],
)
def test_a_planted_wrong_rule_is_found(name, function, change, monkeypatch):
    from battery.case import F32, special

    program = Program("planted", function, fixed(special(F32)), ulps=8, signs=True)
    assert _programs.check(program, run, QUICK)[0] == "right"
    monkeypatch.setitem(rules.RULES, name, planted(name, change))
    status, _, message = _programs.check(program, run, QUICK)
    assert status == "wrong"
    assert message


def test_what_torch_cannot_do_when_run_is_no_refusal(monkeypatch):
    def broken(*_):
        raise NotImplementedError("not implemented for 'Half'")

    monkeypatch.setitem(rules.RULES, "exp", Rule(lambda *_: broken, True, False, False, False))
    status, _, message = _programs.check(Program("planted", jnp.exp, fixed(np.ones(2, np.float32))), run, QUICK)
    assert (status, "when run" in message) == ("wrong", True)


@pytest.mark.parametrize("program", [p for p in _programs.PROGRAMS if p.refuses], ids=lambda program: program.name)
def test_refusals_come_when_planning(program):
    with _programs.surroundings(program):
        arguments = program.arguments(np.random.default_rng(_programs.SEED))
        with pytest.raises(Unsupported, match=program.refuses):
            hajax.jit(program.function, backend="torch").lower(*arguments)
