"""The JAX engine of cpu_core.py: this operator by its kernel and by its jnp reference, and three more jnp formulations."""

from collections.abc import Callable
from typing import Any

import _jnp_variants as variants
import jax
import jax.numpy as jnp
import numpy as np
from _problem import EPS, arrays_of

import hajax
from hajax import conformance

_NAMES = ("query", "key", "value", "log_decay", "beta")


GEMM = 1024  # rows and columns


def _operator(implementation: str) -> Callable[[dict[str, Any]], Callable[[], Any]]:
    """The operator of the problem's case."""

    def build(problem: dict[str, Any]) -> Callable[[], Any]:
        operator = conformance.operator(conformance.parse(problem["case"]))
        function = hajax.jit(lambda *xs: operator(*xs, l2norm_eps=EPS), implementation=implementation)
        return _peer(function)(problem)

    return build


def _gemm(problem: dict[str, Any]) -> Callable[[], Any]:
    """A square fp32 product of XLA's: what this machine makes of floats with as many threads."""
    square = jnp.full((GEMM, GEMM), 0.5, jnp.float32)
    product = jax.jit(jnp.dot)
    return lambda: [jax.block_until_ready(product(square, square))]


def _peer(function: Callable[..., Any]) -> Callable[[dict[str, Any]], Callable[[], Any]]:
    def build(problem: dict[str, Any]) -> Callable[[], Any]:
        operands = [jnp.asarray(arrays_of(problem["case"])[name]) for name in _NAMES]
        return lambda: jax.block_until_ready(function(*operands))

    return build


PEERS = {
    "hajax": _operator("cpu"),
    "hajax_xla": _operator("xla"),
    "jnp_scan_solve": _peer(jax.jit(variants.scan_solve)),
    "jnp_product_inverse": _peer(jax.jit(variants.product_inverse)),
    "jnp_token_scan": _peer(jax.jit(variants.token_scan)),
    "gemm": _gemm,
}


def to_numpy(result: Any) -> np.ndarray:
    return np.asarray(result[0].astype(jnp.float32))


def drop() -> None:
    jax.clear_caches()
