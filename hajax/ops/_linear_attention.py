"""Any member of the delta-rule family: signature, words, call."""

from typing import Any

import jax

from hajax.mechanisms import Decay, Mechanism, member
from hajax.ops import _arguments as arguments
from hajax.ops import _family


def linear_attention(
    query: Any,
    key: Any,
    value: Any,
    *,
    log_decay: Any = None,
    beta: Any = None,
    erase: Any = None,
    delta: bool = False,
    initial_state: Any = None,
    scale: float | None = None,
    lengths: Any = None,
    cu_seqlens: Any = None,
    l2norm_eps: float | None = None,
    preferred_element_type: Any = None,
    implementation: str | None = None,
    target: str | None = None,
) -> tuple[jax.Array, jax.Array]:
    r"""Linear attention with a state: the whole family, by which of its parts are given.

    For each value head, with the state S [Dk, Dv] in fp32, token after token::

        S <- exp(log_decay) S;   u = beta v - erase S^T k;   S <- S + k u^T;   o = scale S^T q

    ==============================  ==========================  ==============================================
    given                           u                           known as
    ==============================  ==========================  ==============================================
    nothing                         v                           linear attention
    log_decay [B, T, Hv]            v                           RetNet, Mamba-2's decay
    log_decay [B, T, Hv, Dk]        v                           gated linear attention (GLA)
    delta=True                      beta (v - S^T k)            DeltaNet
    delta=True and a log_decay      beta (v - S^T k)            Gated DeltaNet [B, T, Hv]; KDA [B, T, Hv, Dk]
    delta=True and erase            beta v - erase S^T k        Gated DeltaNet-2
    ==============================  ==========================  ==============================================

    Args:
      log_decay: natural logarithm, <= 0, a head's [B, T, Hv] or a channel's [B, T, Hv, Dk]; no decay when None.
      beta: write strength [B, T, Hv], with or without `delta`; ones when None.
      erase: erase strength [B, T, Hv], only with `delta`; beta when None.
      delta: whether a write is corrected by what the state already answers for its key.

    Everything else, arguments, results and errors, as in `gated_delta_rule`.
    """
    tokens = {"query": query, "key": key, "value": value}
    if not isinstance(delta, bool):
        raise TypeError(f"delta: expected True or False, got {type(delta).__name__}")
    if erase is not None and not delta:
        raise ValueError("erase: expected None unless delta is True, got an array")
    tokens |= {name: x for name, x in (("log_decay", log_decay), ("beta", beta), ("erase", erase)) if x is not None}
    return _family.sequences(
        _mechanism(log_decay, delta, erase),
        tokens,
        initial_state=initial_state,
        lengths=lengths,
        cu_seqlens=cu_seqlens,
        scale=scale,
        l2norm_eps=l2norm_eps,
        preferred_element_type=preferred_element_type,
        implementation=implementation,
        target=target,
    )


def _mechanism(log_decay: Any, delta: bool, erase: Any) -> Mechanism:
    decay: Decay = "none"
    if log_decay is not None:
        rank = arguments.as_array("log_decay", log_decay).ndim
        if rank not in (3, 4):
            raise ValueError(f"log_decay: expected rank 3 [B, T, Hv] or 4 [B, T, Hv, Dk], got rank {rank}")
        decay = "scalar" if rank == 3 else "per_channel"
    return member(decay, delta, 1 if erase is None else 2)
