"""The gradient's CPU lowering: a plan, one custom call, and what the kernel leaves to the caller."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hajax import backends, planner
from hajax.backends import xla
from hajax.ops import _native, _observers
from hajax.plans import Fused, Plan, to_bytes

SCHEDULE = "cpu_backward"


def covers(operands: tuple[Any, ...]) -> bool:
    """Whether the kernel takes these operands (anything with a shape): sizes known, as its scratch grows with T, and not 0."""
    return all(isinstance(size, int) and size > 0 for x in operands for size in x.shape)


def plan_for(operands: tuple[Any, ...], static: Any) -> Plan:
    """The gradient's plan for these operands (anything with shape and dtype) on the CPU at hand."""
    shape = _native.shape_of(operands, static)
    return planner.plan(static.mechanism, shape, backends.cpu_target(), SCHEDULE)


def call(*operands: jax.Array, static: Any) -> tuple[jax.Array, ...]:
    """The gradients of the first six operands by the fused kernel."""
    plan = plan_for(operands, static)
    _observers.notify(plan)
    launch = plan.launch
    assert isinstance(launch, Fused), "a CPU plan is one fused launch"
    query, value, log_decay, beta, state = (jax.typeof(operands[i]) for i in (0, 2, 3, 4, 5))
    parts = plan.shape.value_heads // plan.shape.key_heads // launch.group
    of_keys = query.update(
        shape=(*query.shape[:3], parts, query.shape[3]), dtype=query.dtype if parts == 1 else np.dtype(np.float32)
    )
    scratch = value.update(shape=(launch.workers * launch.scratch_bytes,), dtype=np.dtype(np.uint8))
    kernel = jax.ffi.ffi_call(xla.register_backward(), (of_keys, of_keys, value, log_decay, beta, state, scratch))
    *gradients, _ = kernel(
        *operands,
        plan=np.frombuffer(to_bytes(plan), np.uint8),
        scale=np.float32(static.scale),
        l2norm_eps=np.float32(-1.0 if static.l2norm_eps is None else static.l2norm_eps),
    )
    d_query, d_key, d_value, d_log_decay, d_beta, d_state = gradients
    if static.mechanism.decay == "none":  # the operand is there, unread, and so is its gradient
        d_log_decay = jnp.zeros_like(operands[3])
    d_query, d_key = (jnp.sum(x, axis=3, dtype=x.dtype).astype(query.dtype) for x in (d_query, d_key))
    return d_query, d_key, d_value, d_log_decay, d_beta, d_state
