"""The gated delta rule (Gated DeltaNet): signature, words, call. Yang, Kautz, Hatamizadeh, "Gated Delta Networks" (2024)."""

from typing import Any

import jax

from hajax.mechanisms import GATED_DELTA_RULE
from hajax.ops import _family


def gated_delta_rule(
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
    r"""Gated delta rule over whole sequences.

    For each value head, with the state S [Dk, Dv] in fp32, token after token::

        S <- exp(log_decay) S;   u = beta (v - S^T k);   S <- S + k u^T;   o = scale S^T q

    ===============  =======================  ==========================================================
    argument         shape                    dtype
    ===============  =======================  ==========================================================
    query, key       [B, T, Hk, Dk]           float32, bfloat16 or float16
    value            [B, T, Hv, Dv]           as query; Hv a multiple of Hk, value head h reads key head h // (Hv / Hk)
    log_decay        [B, T, Hv]               floating point, natural logarithm, <= 0 (-inf forgets everything)
    beta             [B, T, Hv]               floating point, write strength
    initial_state    [B, Hv, Dk, Dv]          converted to float32; [N, Hv, Dk, Dv] with cu_seqlens; zeros when None
    lengths          [B]                      integers: row b ends after lengths[b] tokens, the rest is padding
    cu_seqlens       [N + 1]                  integers 0 .. T, ascending: N sequences packed into one row (B = 1)
    ===============  =======================  ==========================================================

    Head dims are multiples of 8 up to 256; Dk and Dv may differ.

    Args:
      scale: multiplies the query; Dk ** -0.5 when None.
      l2norm_eps: when given, query and key rows are divided by sqrt(sum of squares + l2norm_eps) first, in fp32.
      preferred_element_type: dtype of the output (float32, bfloat16 or float16); value's dtype when None.
      implementation: "cpu" (the fused native kernel), "xla" (plain jnp, wherever JAX runs), "sim" (the fused Ascend kernel on
        an emulated chip), or None: the best that runs.
      target: the chip that "sim" emulates, "ascend310p1" when None; only with "sim".

    Returns:
      output [B, T, Hv, Dv], zero at padding, and the final state [B, Hv, Dk, Dv] ([N, ...] with cu_seqlens) in float32.

    Raises:
      ValueError, TypeError: while tracing, naming the argument, what was expected and what came. Values of `lengths`,
        `cu_seqlens` and `log_decay` are checked when they are concrete; of wrong lengths that only the running program
        knows the kernel raises RuntimeError, and plain jnp makes NaN.
    """
    return _family.sequences(
        GATED_DELTA_RULE,
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


def gated_delta_rule_step(
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
    """One token of `gated_delta_rule`, for decoding.

    query, key [B, Hk, Dk]; value [B, Hv, Dv]; log_decay, beta [B, Hv]; state [B, Hv, Dk, Dv] float32. The state is
    updated in place when its buffer is donated to the surrounding jit (or carried by a scan).

    Returns the output [B, Hv, Dv] and the next state. Keywords and errors as in `gated_delta_rule`.
    """
    return _family.step(
        GATED_DELTA_RULE,
        {"query": query, "key": key, "value": value, "log_decay": log_decay, "beta": beta},
        state=state,
        scale=scale,
        l2norm_eps=l2norm_eps,
        preferred_element_type=preferred_element_type,
        implementation=implementation,
        target=target,
    )
