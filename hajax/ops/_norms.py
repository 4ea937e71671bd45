"""The norms of a delta-rule layer. Sums in fp32, result in the input's dtype."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hajax.backends import xla
from hajax.ops import _arguments as arguments
from hajax.ops import _native as _native_calls
from hajax.ops._fused import Kernel, fused
from hajax.ops._named import named


def l2norm(x: Any, *, eps: float = 1e-6) -> jax.Array:
    """x / sqrt(sum of squares over the last axis + eps). Finite, value and gradient, for a zero row."""
    x = arguments.as_array("x", x)
    arguments.check_float("x", x)
    return _l2norm(x, eps=float(eps))


@named("l2norm")
def _l2norm(x: jax.Array, *, eps: float) -> jax.Array:
    wide = x.astype(jnp.float32)
    return (wide * jax.lax.rsqrt(jnp.sum(wide * wide, -1, keepdims=True) + eps)).astype(x.dtype)


def gated_rms_norm(
    x: Any, gate: Any, weight: Any, *, eps: float = 1e-6, activation: str = "silu", implementation: str | None = None
) -> jax.Array:
    """weight * x / sqrt(mean of squares over the last axis + eps) * activation(gate), in gate's dtype.

    x and gate [..., D], weight [D]. x may be wider than gate: an fp32 readout is normalised before it is rounded, so
    that a large state cannot overflow fp16. activation "silu" or "sigmoid"; implementation None, "cpu" (the kernel) or
    "xla" (plain jnp).
    """
    x, gate, weight = (arguments.as_array(n, a) for n, a in (("x", x), ("gate", gate), ("weight", weight)))
    for name, array in (("x", x), ("gate", gate), ("weight", weight)):
        arguments.check_float(name, array)
    arguments.check_shape("gate", gate, x.shape, "... D" if x.ndim < 2 else " ".join(["..."] * (x.ndim - 1) + ["D"]))
    arguments.check_shape("weight", weight, x.shape[-1:], "D")
    if activation not in ("silu", "sigmoid"):
        raise ValueError(f"activation: expected 'silu' or 'sigmoid', got {activation!r}")
    arguments.check_implementation(implementation)
    return _gated_rms_norm(x, gate, weight, eps=float(eps), activation=activation, implementation=implementation)


@named("gated_rms_norm")
def _gated_rms_norm(x: jax.Array, gate: jax.Array, weight: jax.Array, **options: Any) -> jax.Array:
    if x.ndim == 1:
        return _gated_norm(x[None], gate[None], weight, **options)[0][0]
    (y,) = _gated_norm(x, gate, weight, **options)
    return y


def _plain(x: jax.Array, gate: jax.Array, weight: jax.Array, *, eps: float, activation: str) -> tuple[jax.Array]:
    wide = x.astype(jnp.float32)
    wide = wide * jax.lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + eps)
    weight = weight.reshape(*(1,) * (x.ndim - 1), -1)
    factor = (jax.nn.silu if activation == "silu" else jax.nn.sigmoid)(gate.astype(jnp.float32))
    return ((weight.astype(jnp.float32) * wide * factor).astype(gate.dtype),)


def _native(x: jax.Array, gate: jax.Array, weight: jax.Array, *, eps: float, activation: str) -> tuple[jax.Array]:
    y = jax.ffi.ffi_call(xla.register_gated_norm(), jax.typeof(gate))(
        x,
        gate,
        weight.astype(jnp.float32),
        **_native_calls.attributes(),
        silu=np.int32(activation == "silu"),
        eps=np.float32(eps),
    )
    return (y,)


def _serves(x: Any, gate: Any, _: Any, **__: Any) -> bool:
    return {x.dtype.name, gate.dtype.name} <= set(arguments.INPUT_DTYPES)


_gated_norm = fused(Kernel("gated_rms_norm", _plain, _native, lambda x, gate, *_, **__: (gate,), _serves, shared=frozenset({2})))
