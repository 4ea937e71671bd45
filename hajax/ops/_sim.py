"""The lowering to an emulated chip: asks for a plan and emits one custom call that carries it.

The chip takes fp16 rows and head dims that are multiples of 16: inputs are cast and padded here, results cut and cast back.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hajax import abi, planner
from hajax.backends import xla
from hajax.ops import _observers
from hajax.plans import Plan, Shape, to_bytes
from hajax.targets import npu

_CUBE = 16  # rows and columns of a fractal
_STATE_OPERAND, _STATE_RESULT = 5, 1


def call(*operands: jax.Array, static: Any) -> tuple[jax.Array, jax.Array]:
    """Output and final state by the fused Ascend kernel on an emulated chip."""
    output, state, _ = call_with_counters(*operands, static=static)
    return output, state


def call_with_counters(*operands: jax.Array, static: Any) -> tuple[jax.Array, jax.Array, jax.Array]:
    """As `call`, and the kernel's counters [HJ_COUNTERS] in the order of counters.def."""
    key_dim, value_dim = operands[0].shape[-1], operands[2].shape[-1]
    operands = _prepared(operands, static)
    plan = plan_for(operands, static)
    _observers.notify(plan)
    value, state = jax.typeof(operands[2]), jax.typeof(operands[5])
    results = (  # `update` keeps what the operand's type says of sharding and of shard_map's axes
        value,
        state,
        value.update(shape=(abi.constant("HJ_COUNTERS"),), dtype=np.dtype(np.int64)),
    )
    kernel = jax.ffi.ffi_call(xla.register_sim(), results, input_output_aliases={_STATE_OPERAND: _STATE_RESULT})
    output, state, counters = kernel(
        *operands,
        plan=np.frombuffer(to_bytes(plan), np.uint8),
        scale=np.float32(static.scale),
        l2norm_eps=np.float32(-1.0),
    )
    return output[..., :value_dim].astype(static.output_dtype), state[:, :, :key_dim, :value_dim], counters


def plan_for(operands: tuple[Any, ...], static: Any) -> Plan:
    """The plan for these prepared operands on static.target. Raises NotImplementedError where there is none."""
    query, _, value, _, _, _, bounds = operands
    batch, tokens, key_heads, key_dim = query.shape
    for axis, size in (("B", batch), ("T", tokens)):
        if not isinstance(size, int):
            raise NotImplementedError(f"implementation: 'sim' needs {axis} when it compiles, got {size}")
    shape = Shape(
        batch=batch,
        tokens=tokens,
        sequences=bounds.shape[1] - 1,
        key_heads=key_heads,
        value_heads=value.shape[2],
        key_dim=key_dim,
        value_dim=value.shape[3],
        input_dtype="float16",
        output_dtype="float16",
    )
    return planner.plan(static.mechanism, shape, npu.load(static.target))


def _prepared(operands: tuple[jax.Array, ...], static: Any) -> tuple[jax.Array, ...]:
    """Rows normalised if asked, as float16, and head dims padded with zeros, which neither read nor write anything."""
    query, key, value, log_decay, beta, state, bounds = operands
    if static.l2norm_eps is not None:
        query, key = (_normalised(x, static.l2norm_eps) for x in (query, key))
    query, key, value = (_padded(x.astype(jnp.float16), (x.ndim - 1,)) for x in (query, key, value))
    if static.mechanism.decay == "per_channel":
        log_decay = _padded(log_decay, (log_decay.ndim - 1,))
    return query, key, value, log_decay, beta, _padded(state, (2, 3)), bounds


def _normalised(x: jax.Array, eps: float) -> jax.Array:
    wide = x.astype(jnp.float32)
    return wide * jax.lax.rsqrt(jnp.sum(wide * wide, -1, keepdims=True) + eps)


def _padded(x: jax.Array, axes: tuple[int, ...]) -> jax.Array:
    pads = [(0, -x.shape[axis] % _CUBE if axis in axes else 0) for axis in range(x.ndim)]
    return jnp.pad(x, pads) if any(after for _, after in pads) else x
