"""What results are held against: comparisons with their bounds, and the token recurrence as differentiable jnp."""

import jax
import jax.numpy as jnp
import numpy as np

NMSE = 1e-11  # fp32 bound of the issue, on outputs and states
ROUNDING = {"float32": 2.0**-24, "bfloat16": 2.0**-9, "float16": 2.0**-12}  # half a unit in the last place, relative to the value
TINY = {"float32": 2.0**-118, "bfloat16": 2.0**-118, "float16": 2.0**-24}  # below: lost to underflow (XLA flushes subnormals)


def error(got, expected, dtype="float32"):
    """NMSE in fp64 after forgiving what the dtype's underflow takes (an absolute 2^-118, from terms up to 2^8 times tiny)."""
    difference = np.abs(np.asarray(got).astype(np.float64) - expected)
    assert np.isfinite(difference).all(), "not finite where the recurrence is"
    difference = np.where(difference <= TINY[dtype], 0.0, difference)
    energy, wrong = (expected**2).sum(), (difference**2).sum()
    return 0.0 if wrong == 0 else float(wrong / energy) if energy else float("inf")


def recurrence(query, key, value, log_decay, beta, state, erase=None, *, l2norm_eps=None, delta=True):
    """Token by token in the inputs' dtype (fp64 under jax.enable_x64): [B, T, ...] to output and final state [B, Hv, Dk, Dv].

    log_decay [B, T, Hv] or [B, T, Hv, Dk], no decay when None; erase is beta when None.
    """
    if l2norm_eps is not None:
        query, key = (x / jnp.sqrt((x * x).sum(-1, keepdims=True) + l2norm_eps) for x in (query, key))
    query, key = (jnp.repeat(x, value.shape[2] // key.shape[2], axis=2) for x in (query, key))
    scale = query.shape[-1] ** -0.5

    log_decay = jnp.zeros_like(beta) if log_decay is None else log_decay
    decay = jnp.exp(log_decay if log_decay.ndim == 4 else log_decay[..., None])
    erase = (beta if erase is None else erase) * delta

    def step(s, token):
        q, k, v, d, b, e = token
        s = s * d[..., None]
        u = b[..., None] * v - e[..., None] * jnp.einsum("bhk,bhkv->bhv", k, s)
        s = s + k[..., None] * u[..., None, :]
        return s, scale * jnp.einsum("bhk,bhkv->bhv", q, s)

    tokens = tuple(jnp.moveaxis(x, 1, 0) for x in (query, key, value, decay, beta, erase))
    state, output = jax.lax.scan(step, state, tokens)
    return jnp.moveaxis(output, 0, 1), state


def convolution(x, weight, bias, state):
    """Depthwise causal convolution in numpy fp64, tap by tap: x [T, C], weight [C, K], state [K - 1, C]."""
    taps = weight.shape[1]
    padded = np.concatenate([state, x]).astype(np.float64)
    y = np.array([(padded[t : t + taps] * weight.T).sum(0) for t in range(len(x))]).reshape(x.shape) + bias
    return y, padded[len(x) :]
