"""Lowering for a platform that has no native kernel, and artefacts: the reference there, never a CPU call."""

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from jax import jit

from hajax import gated_delta_rule
from hajax.conformance import inputs, parse

NAMES = ("query", "key", "value", "log_decay", "beta")


def tokens_of(text):
    arrays = inputs(parse(text))
    return tuple(jnp.asarray(arrays[n]) for n in NAMES)


@pytest.mark.parametrize("platform", ["tpu", "cuda"])
@pytest.mark.parametrize("implementation", [None, "xla"])
def test_elsewhere_the_reference_is_lowered(platform, implementation):
    call = jit(lambda *xs: gated_delta_rule(*xs, implementation=implementation))
    text = call.trace(*tokens_of("T=16 Hv=2")).lower(lowering_platforms=(platform,)).as_text()
    assert "hajax.delta_rule" not in text
    assert "dot_general" in text


def test_here_the_kernel_is_lowered():
    text = jit(gated_delta_rule).lower(*tokens_of("T=16 Hv=2")).as_text()
    assert "hajax.delta_rule" in text


@pytest.mark.parametrize("platform", ["tpu", "cuda"])
def test_the_cpu_kernel_is_refused_elsewhere(platform):
    call = jit(lambda *xs: gated_delta_rule(*xs, implementation="cpu"))
    with pytest.raises(NotImplementedError, match="implementation: 'cpu' runs on the CPU only; use None or 'xla'"):
        call.trace(*tokens_of("T=16")).lower(lowering_platforms=(platform,))


def exported(implementation, shapes, tokens):
    checks = [jax.export.DisabledSafetyCheck.custom_call("hajax.delta_rule")]
    arguments = [jax.ShapeDtypeStruct(shape, x.dtype) for shape, x in zip(shapes, tokens, strict=True)]
    call = jit(lambda *xs: gated_delta_rule(*xs, implementation=implementation))
    artefact = jax.export.export(call, platforms=["cpu"], disabled_checks=checks)(*arguments)
    return jax.export.deserialize(artefact.serialize())


@pytest.mark.parametrize("implementation", ["cpu", "xla"])
def test_an_exported_call_gives_the_same(implementation):
    tokens = tokens_of("T=16 B=2 Hk=1 Hv=2")
    got = exported(implementation, [x.shape for x in tokens], tokens).call(*tokens)
    for a, b in zip(got, gated_delta_rule(*tokens, implementation=implementation), strict=True):
        assert oracle.error(a, np.asarray(b).astype(np.float64)) <= oracle.NMSE


@pytest.mark.parametrize("implementation", ["cpu", "xla"])
def test_an_exported_call_with_symbolic_rows_and_tokens_serves_other_sizes(implementation):
    tokens = tokens_of("T=16 B=2 Hk=1 Hv=2")
    rows, count = jax.export.symbolic_shape("b, t")
    artefact = exported(implementation, [(rows, count, *x.shape[2:]) for x in tokens], tokens)
    for text in ("T=16 B=2 Hk=1 Hv=2", "T=70 B=1 Hk=1 Hv=2"):
        tokens = tokens_of(text)
        for a, b in zip(artefact.call(*tokens), gated_delta_rule(*tokens, implementation="cpu"), strict=True):
            assert oracle.error(a, np.asarray(b).astype(np.float64)) <= oracle.NMSE
