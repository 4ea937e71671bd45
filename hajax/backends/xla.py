"""Registers libhajax_cpu's handler with XLA, once, from its address."""

import functools

import jax
from jax.extend import backend

from hajax.backends.library import open_library

DELTA_RULE = "hajax.delta_rule"


@functools.cache
def register() -> str:
    """The custom-call target's name, registered when this returns. Raises LibraryError when there is no library."""
    library = open_library()
    backend.get_backend("cpu")  # registrations made before the client exists are queued and flushed out of order
    jax.ffi.register_ffi_target(DELTA_RULE, jax.ffi.pycapsule(library.address("hajax_xla_delta_rule")), platform="cpu")
    return DELTA_RULE
