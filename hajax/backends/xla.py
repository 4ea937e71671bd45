"""Registers the handlers of libhajax_cpu and libhajax_sim with XLA, once each, from their addresses."""

import functools

import jax
from jax.extend import backend

from hajax.backends.library import Library, LibraryError, open_library
from hajax.backends.sim import open_sim_library

DELTA_RULE = "hajax.delta_rule"
DELTA_RULE_BACKWARD = "hajax.delta_rule_backward"
CONVOLUTION = "hajax.convolution"
GATED_NORM = "hajax.gated_norm"
SIM_DELTA_RULE = "hajax.sim_delta_rule"


@functools.cache
def register() -> str:
    """The custom-call target's name, registered when this returns. Raises LibraryError when there is no library."""
    return _register(DELTA_RULE, open_library(), "hajax_xla_delta_rule")


@functools.cache
def register_backward() -> str:
    """Likewise of the operator's gradient."""
    return _register(DELTA_RULE_BACKWARD, open_library(), "hajax_xla_delta_rule_backward")


@functools.cache
def register_convolution() -> str:
    """Likewise of the short convolution."""
    return _register(CONVOLUTION, open_library(), "hajax_xla_convolution")


@functools.cache
def register_gated_norm() -> str:
    """Likewise of the gated norm."""
    return _register(GATED_NORM, open_library(), "hajax_xla_gated_norm")


@functools.cache
def register_sim() -> str:
    """Likewise of the emulated Ascend chip: the plan names it."""
    return _register(SIM_DELTA_RULE, open_sim_library(), "hajax_sim_xla_delta_rule")


def _register(target: str, library: Library, function: str) -> str:
    try:
        address = library.address(function)
    except AttributeError:
        raise LibraryError(
            f"{library.path}: built without XLA's headers, so it has no {function}; rebuild it with them"
        ) from None
    backend.get_backend("cpu")  # registrations made before the client exists are queued and flushed out of order
    jax.ffi.register_ffi_target(target, jax.ffi.pycapsule(address), platform="cpu")
    return target
