"""Kimi delta attention: signature, words, call. Kimi Team, "Kimi Linear" (2025)."""

from typing import Any

import jax

from hajax.mechanisms import KDA
from hajax.ops import _family


def kda(
    query: Any,
    key: Any,
    value: Any,
    log_decay: Any,
    beta: Any,
    *,
    initial_state: Any = None,
    scale: float | None = None,
    lengths: Any = None,
    cu_seqlens: Any = None,
    l2norm_eps: float | None = None,
    preferred_element_type: Any = None,
    implementation: str | None = None,
    target: str | None = None,
) -> tuple[jax.Array, jax.Array]:
    r"""Kimi delta attention over whole sequences: the gated delta rule with a decay of its own for each key channel.

    For each value head, with the state S [Dk, Dv] in fp32, token after token::

        S <- diag(exp(log_decay)) S;   u = beta (v - S^T k);   S <- S + k u^T;   o = scale S^T q

    log_decay [B, T, Hv, Dk] holds natural logarithms, <= 0 (-inf forgets that channel); a head shares a decay over its
    channels by `jnp.broadcast_to`. Everything else, arguments, results and errors, as in `gated_delta_rule`.
    """
    return _family.sequences(
        KDA,
        {"query": query, "key": key, "value": value, "log_decay": log_decay, "beta": beta},
        initial_state=initial_state,
        lengths=lengths,
        cu_seqlens=cu_seqlens,
        scale=scale,
        l2norm_eps=l2norm_eps,
        preferred_element_type=preferred_element_type,
        implementation=implementation,
        target=target,
    )


def kda_step(
    query: Any,
    key: Any,
    value: Any,
    log_decay: Any,
    beta: Any,
    state: Any,
    *,
    scale: float | None = None,
    l2norm_eps: float | None = None,
    preferred_element_type: Any = None,
    implementation: str | None = None,
    target: str | None = None,
) -> tuple[jax.Array, jax.Array]:
    """One token of `kda`, for decoding.

    query, key [B, Hk, Dk]; value [B, Hv, Dv]; log_decay [B, Hv, Dk]; beta [B, Hv]; state [B, Hv, Dk, Dv] float32. The state
    is updated in place when its buffer is donated to the surrounding jit (or carried by a scan).

    Returns the output [B, Hv, Dv] and the next state. Keywords and errors as in `gated_delta_rule`.
    """
    return _family.step(
        KDA,
        {"query": query, "key": key, "value": value, "log_decay": log_decay, "beta": beta},
        state=state,
        scale=scale,
        l2norm_eps=l2norm_eps,
        preferred_element_type=preferred_element_type,
        implementation=implementation,
        target=target,
    )
