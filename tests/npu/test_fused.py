"""Named functions: each is one torch call with its own result, recognised only while it is what its name says."""

import inspect
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hajax.models.layers import attention, delta_net, linear, mlp, moe, norms, rotary
from hajax.models.layers import kimi_delta_attention as channel_decay

import hajax
from hajax.ops import _causal_conv1d, _norms

torch = pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.torch

from hajax.npu import fused_calls  # noqa: E402 (needs torch)
from hajax.npu.rules.fused import FUSED  # noqa: E402

ROOT = Path(__file__).parents[2]
EPS = {"eps": 1e-6}
INTS = ("starts", "ends", "lengths")


def draw(rng, kind, *shape):
    return jnp.asarray(rng.normal(size=shape)).astype(kind)


def cases(kind):
    """(name, function, arguments, options) for every named function."""
    rng = np.random.default_rng(5)

    def x(*shape):
        return draw(rng, kind, *shape)

    def wide(*shape):
        return draw(rng, "float32", *shape)

    def whole(*values):
        return jnp.asarray(values, jnp.int32)

    angles = rotary.rotary_angles(whole([3, 4, 5], [0, 1, 2]), dims=8, theta=1e4)
    grouped = moe.Routing(experts=3, groups=4, chosen_groups=2, renormalise=True, scaling=2.5)
    plain = moe.Routing(experts=2, renormalise=False)
    chosen = whole([0, 2], [2, 3], [1, 0])
    return [
        ("l2norm", _norms._l2norm, (x(2, 3, 16),), EPS),
        ("rms_norm", norms.rms_norm, (x(2, 3, 16), wide(16)), EPS),
        ("plain_rms_norm", norms.plain_rms_norm, (x(2, 3, 16), wide(16)), EPS),
        *(
            ("gated_rms_norm", _norms._gated_rms_norm, (wide(2, 3, 16), x(2, 3, 16), wide(16)), {
                **EPS, "activation": activation, "implementation": None,
            })
            for activation in ("silu", "sigmoid")
        ),
        *(
            ("causal_conv1d", _causal_conv1d._whole_rows, (x(2, tokens, 8), x(2, 3, 8), x(8, 4)), {
                "activation": activation, "sizes": sizes, "implementation": None,
            })
            for tokens, activation, sizes in ((5, "silu", (2, 2, 4)), (1, None, (8,)))
        ),
        *(
            ("causal_conv1d_padded", _causal_conv1d._padded_rows, (x(2, 5, 8), x(2, 3, 8), x(8, 4), lengths), {
                "activation": activation, "sizes": sizes, "implementation": None,
            })
            for lengths, activation, sizes in ((whole(2, 5), "silu", (2, 2, 4)), (whole(4, 1), None, (8,)))
        ),
        ("rotate", rotary._rotate, (x(2, 3, 2, 16), *angles), {}),
        ("rotate", rotary._rotate, (x(2, 3, 2, 8), *angles), {}),
        ("rotate_interleaved", rotary._rotate_interleaved, (x(2, 3, 2, 8), *angles), {}),
        ("rounded_product", linear._rounded_product, (x(3, 16), x(5, 16)), {}),
        ("rounded_product", linear._rounded_product, (x(1, 16), x(5, 16)), {}),
        ("silu_gate", mlp.silu_gate, (x(2, 3, 16), x(2, 3, 16)), {}),
        ("log_decay_per_head", delta_net.log_decay, (30 * wide(2, 3, 4), wide(4), wide(4)), {}),
        ("log_decay_per_channel", channel_decay.log_decay, (30 * wide(2, 3, 4, 8), wide(4), wide(4, 8)), {"lower_bound": None}),
        ("log_decay_per_channel", channel_decay.log_decay, (30 * wide(2, 3, 4, 8), wide(4), wide(4, 8)), {"lower_bound": -5.0}),
        ("cache_put", attention._put_one, (x(3, 6, 2, 4), x(3, 1, 2, 4), whole(0, 5, 6)), {}),
        ("causal_attention", attention.causal_attention, (x(2, 5, 4, 8), x(2, 5, 2, 8), x(2, 5, 2, 6)), {}),
        ("cached_attention", attention._cached_attention, (
            x(2, 3, 4, 8), x(2, 9, 2, 8), x(2, 9, 2, 8), whole(0, 4), whole(3, 7),
        ), {}),
        ("cached_attention", attention._cached_attention, (
            x(2, 1, 4, 8), x(2, 9, 1, 8), x(2, 9, 1, 8), whole(8, 0), whole(9, 1),
        ), {}),
        ("route", moe._route, (wide(6, 16), wide(16)), {"routing": grouped}),
        ("route", moe._route, (jnp.round(wide(6, 16)), jnp.zeros(16)), {"routing": plain}),
        ("experts", moe._experts, (x(3, 8), chosen, jnp.abs(wide(3, 2)), x(4, 12, 8), x(4, 8, 6)), {}),
    ]  # fmt: skip


CASES = [(kind, number) for kind in ("float32", "float16", "bfloat16") for number in range(len(cases("float32")))]


@pytest.mark.parametrize(("kind", "number"), CASES)
def test_the_torch_call_gives_what_the_function_gives(kind, number):
    """fp32 to a few ulps of sums of at most 16 terms; narrower results to two of their own, as both round fp32 sums once."""
    name, function, arguments, options = cases(kind)[number]
    planned = hajax.jit(lambda *xs: function(*xs, **options), backend="torch")
    assert [step.name for step in planned.program(*arguments).steps if step.name == name] == [name]
    found, wanted = planned(*arguments), jax.jit(lambda *xs: function(*xs, **options))(*arguments)
    bound = {"float32": 2.0**-19, "float16": 2.0**-9, "bfloat16": 2.0**-6}
    for mine, reference in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        dtype = reference.dtype.name
        assert mine.dtype == getattr(torch, dtype) and mine.shape == reference.shape
        values = np.asarray(reference.astype(jnp.float32))
        assert np.isfinite(values).all() and (values != 0).mean() > 0.3
        distance = np.abs(mine.float().numpy() - values).max()
        assert distance <= bound.get(dtype, 0) * max(1.0, np.abs(values).max())


def test_every_named_function_has_a_call_and_a_case():
    named = set()
    for folder in ("hajax/ops", "models"):
        for path in (ROOT / folder).rglob("*.py"):
            named |= set(re.findall(r'^@named\("(\w+)"\)', path.read_text(), re.MULTILINE))
    assert named == set(FUSED) == {name for name, *_ in cases("float32")}
    assert all(inspect.isfunction(getattr(fused_calls, name)) for name in FUSED)


@pytest.mark.parametrize("number", range(len(cases("float32"))))
def test_what_a_transformation_has_changed_is_no_longer_taken_for_it(number):
    """vmap over every floating-point operand, and the derivative: right, whether by the call or by operations."""
    _, function, arguments, options = cases("float32")[number]
    floats = [i for i, x in enumerate(arguments) if jnp.issubdtype(x.dtype, jnp.floating)]

    def loss(*xs):
        given = list(arguments)
        for place, x in zip(floats, xs, strict=True):
            given[place] = x
        results = jax.tree.leaves(function(*given, **options))
        return sum(jnp.sum(x * x) for x in results if jnp.issubdtype(x.dtype, jnp.floating))

    def both(*xs):
        return jax.grad(loss)(*xs), jax.vmap(loss)(*(jnp.stack([x, 2 * x]) for x in xs))

    xs = [arguments[i] for i in floats]
    for mine, wanted in zip(
        jax.tree.leaves(hajax.jit(both, backend="torch")(*xs)), jax.tree.leaves(jax.jit(both)(*xs)), strict=True
    ):
        np.testing.assert_allclose(mine.numpy(), wanted, rtol=2e-4, atol=2e-5)


def test_another_function_of_the_same_name_is_not_taken_for_it():
    def impostor(x):
        return x + 1

    impostor.__name__ = "hajax_l2norm_eps_1e-06"
    _norms._l2norm(jnp.ones((2, 8)), eps=1e-6)  # the name is known
    inner = jax.jit(impostor)
    found = hajax.jit(lambda x: inner(x) * 1, backend="torch")(np.ones((2, 8), np.float32))
    assert (found == 2).all()
