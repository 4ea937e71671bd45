"""The CPU lowering: asks for a plan and emits one custom call that carries it."""

import functools
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hajax import abi, backends, planner
from hajax.backends import xla
from hajax.ops import _observers
from hajax.plans import Fused, Plan, Shape, to_bytes

_STATE_OPERAND, _STATE_RESULT = 5, 1


def available(*, required: bool) -> bool:
    """Whether the native library can be used; when `required`, raises LibraryError with the reason instead."""
    try:
        backends.open_library()
    except backends.LibraryError as error:
        if required:
            raise
        _warn_once(str(error))
        return False
    return True


@functools.cache
def _warn_once(reason: str) -> None:
    warnings.warn(
        f"hajax: the native CPU kernels are not used: {reason}; running implementation 'xla'", RuntimeWarning, stacklevel=2
    )


def attributes() -> dict[str, np.int32]:
    """What a custom call without a plan says of the CPU at hand: the instruction set to use, and how many threads at most."""
    target = backends.cpu_target()
    return {"isa": np.int32(abi.table("isas")[target.isa]), "workers": np.int32(target.threads)}


def shape_of(operands: tuple[Any, ...], static: Any) -> Shape:
    """The problem that these operands (anything with shape and dtype) pose."""
    query, _, value, _, _, _, bounds = operands[:7]
    batch, tokens, key_heads, key_dim = query.shape
    return Shape(
        batch=batch if isinstance(batch, int) else None,
        tokens=tokens if isinstance(tokens, int) else None,
        sequences=bounds.shape[1] - 1,
        key_heads=key_heads,
        value_heads=value.shape[2],
        key_dim=key_dim,
        value_dim=value.shape[3],
        input_dtype=query.dtype.name,
        output_dtype=static.output_dtype,
    )


def plan_for(operands: tuple[Any, ...], static: Any) -> Plan:
    """The plan for these operands on the CPU at hand."""
    return planner.plan(static.mechanism, shape_of(operands, static), backends.cpu_target())


def call(*operands: jax.Array, static: Any) -> tuple[jax.Array, jax.Array]:
    """Output and final state by the fused kernel."""
    output, state, _ = call_with_counters(*operands, static=static)
    return output, state


def call_with_counters(*operands: jax.Array, static: Any) -> tuple[jax.Array, jax.Array, jax.Array]:
    """As `call`, and the kernel's counters [HJ_COUNTERS] in the order of counters.def."""
    plan = plan_for(operands, static)
    _observers.notify(plan)
    launch = plan.launch
    assert isinstance(launch, Fused), "a CPU plan is one fused launch"
    value, state = jax.typeof(operands[2]), jax.typeof(operands[5])
    results = (  # `update` keeps what the operand's type says of sharding and of shard_map's axes
        value.update(dtype=jnp.dtype(static.output_dtype)),
        state,
        value.update(shape=(abi.constant("HJ_COUNTERS"),), dtype=np.dtype(np.int64)),
        value.update(shape=(launch.workers * launch.scratch_bytes,), dtype=np.dtype(np.uint8)),
    )
    kernel = jax.ffi.ffi_call(xla.register(), results, input_output_aliases={_STATE_OPERAND: _STATE_RESULT})
    output, state, counters, _ = kernel(
        *operands,
        plan=np.frombuffer(to_bytes(plan), np.uint8),
        scale=np.float32(static.scale),
        l2norm_eps=np.float32(-1.0 if static.l2norm_eps is None else static.l2norm_eps),
    )
    return output, state, counters
