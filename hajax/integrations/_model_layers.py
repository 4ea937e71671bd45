"""Norms, feed-forward and attention layers of transformers' hybrid models, in fewer passes over memory: inference on a CPU."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hajax.integrations import _layers
from hajax.integrations._delta_layers import serves

_NOT_PLAIN = ("cu_seq_lens_q", "seq_idx", "is_causal", "position_bias", "softcap", "past_key_values")


def _real(module: Any, x: Tensor) -> bool:
    """Whether all is fp32, where the order of casts makes no difference."""
    return x.dtype == torch.float32 and serves(module, x) and all(p.dtype == torch.float32 for p in module.parameters())


def centred_norm(original: Callable[..., Any]) -> Callable[..., Any]:
    """RMSNorm whose weight is what it has beyond 1."""

    def forward(self: Any, x: Tensor) -> Any:
        return _layers.rms_norm(x, 1.0 + self.weight, self.eps) if _real(self, x) else original(self, x)

    return forward


def plain_norm(original: Callable[..., Any]) -> Callable[..., Any]:
    """RMSNorm."""

    def forward(self: Any, hidden_states: Tensor) -> Any:
        if not _real(self, hidden_states):
            return original(self, hidden_states)
        return _layers.rms_norm(hidden_states, self.weight, self.variance_epsilon)

    return forward


def mlp(original: Callable[..., Any]) -> Callable[..., Any]:
    """down(silu(gate(x)) up(x))."""

    def forward(self: Any, x: Tensor) -> Any:
        silu = isinstance(self.act_fn, nn.SiLU) or type(self.act_fn).__name__ == "SiLUActivation"
        if not silu or _layers.hooked(self.act_fn) or not serves(self, x):
            return original(self, x)
        gate, up = _layers.owned(self.gate_proj, x), self.up_proj(x)
        return self.down_proj(_layers.silu_times_(gate.view(-1, gate.shape[-1]), up.view(-1, up.shape[-1])).view(gate.shape))

    return forward


def gated_attention(original: Callable[..., Any]) -> Callable[..., Any]:
    """Attention with a gate in the query projection, of a prompt that nothing precedes and nothing masks but causality."""

    def forward(
        self: Any,
        hidden_states: Tensor,
        position_embeddings: tuple[Tensor, Tensor],
        attention_mask: Any = None,
        cache: Any = None,
        **kwargs: Any,
    ) -> Any:
        plain = attention_mask is None and self.config._attn_implementation == "sdpa" and not self.training
        if not plain or any(kwargs.get(name) is not None for name in _NOT_PLAIN) or not _real(self, hidden_states):
            return original(self, hidden_states, position_embeddings, attention_mask, cache=cache, **kwargs)
        batch, tokens = hidden_states.shape[:2]
        shape = (batch, tokens, -1, self.head_dim)
        query, gate = self.q_proj(hidden_states).view(batch, tokens, -1, 2 * self.head_dim).chunk(2, dim=-1)
        query, key = self.q_norm(query), self.k_norm(self.k_proj(hidden_states).view(shape))
        value = self.v_proj(hidden_states).view(shape).transpose(1, 2)
        query, key = (_layers.half_rotated(x, *position_embeddings) for x in (query, key))
        if cache is not None:
            key, value = cache.update(key, value, self.layer_idx, kwargs=kwargs)
        output = F.scaled_dot_product_attention(
            query, key, value, is_causal=tokens > 1, scale=self.scaling, enable_gqa=query.shape[1] != key.shape[1]
        )  # fmt: skip
        output = output.transpose(1, 2).contiguous()
        output.mul_(gate.sigmoid())
        return self.o_proj(output.view(batch, tokens, -1)), None

    return forward
