"""The delta-rule functions and layers of transformers on hajax's kernels, with transformers' own signatures and caches.

Functions that stand for its module functions take what it hands them and call the original for what the kernels do not serve.
Layers are for inference on a CPU: `serves` says when.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hajax.integrations import _layers, fla
from hajax.mechanisms import GATED_DELTA_RULE, KDA
from hajax.npu import torch_ops

_DEVICES = ("cpu", "npu", "privateuseone")
_DTYPES = frozenset(torch_ops.DTYPES.values())
_L2NORM_EPS = 1e-6


def supported(query: Tensor, value: Tensor) -> bool:
    """Whether the kernels take these: device, dtype, head dims."""
    return query.device.type in _DEVICES and query.dtype in _DTYPES and query.shape[-1] <= 256 and query.numel() > 0


def gated_delta_rule(original: Callable[..., Any]) -> Callable[..., Any]:
    """For torch_chunk_gated_delta_rule and torch_recurrent_gated_delta_rule."""
    return _delta_function(original, fla.chunk_gated_delta_rule)


def kimi_delta_attention(original: Callable[..., Any]) -> Callable[..., Any]:
    """For chunk_kimi_delta_attention and recurrent_kimi_delta_attention."""
    return _delta_function(original, fla.chunk_kda)


def _delta_function(original: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    def call(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        g: Tensor,
        beta: Tensor,
        chunk_size: int = 64,
        initial_state: Tensor | None = None,
        output_final_state: bool = False,
        use_qk_l2norm_in_kernel: bool = False,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor | None]:
        if not supported(query, value):
            return original(
                query, key, value, g=g, beta=beta, initial_state=initial_state, output_final_state=output_final_state,
                use_qk_l2norm_in_kernel=use_qk_l2norm_in_kernel, **kwargs,
            )  # fmt: skip
        state = None if initial_state is None else initial_state.float()
        output, final = ours(
            query, key, value, g, beta, initial_state=state, output_final_state=output_final_state,
            use_qk_l2norm_in_kernel=use_qk_l2norm_in_kernel, cu_seqlens=kwargs.get("cu_seqlens"),
        )  # fmt: skip
        return output, final

    return call


def causal_conv1d(original: Callable[..., Any]) -> Callable[..., Any]:
    """For causal_conv1d_fn: [B, C, T], of which transformers' own layers hand over channels-last views, as they get back."""

    def call(
        hidden_states: Tensor, weight: Tensor, bias: Tensor | None = None, activation: str | None = None, **kwargs: Any
    ) -> Tensor:
        seq_idx = kwargs.get("seq_idx")
        plain = seq_idx is None and bias is None and activation in ("silu", "swish") and weight.dtype == hidden_states.dtype
        plain = plain and not torch.compiler.is_compiling() and not _recording(hidden_states, weight)
        if plain and hidden_states.device.type == "cpu" and hidden_states.numel():
            rows = hidden_states.transpose(1, 2)
            (output,) = _layers.causal_conv1d_silu(rows, weight, None, (rows.shape[-1],))
            return output.transpose(1, 2)
        if seq_idx is None:
            return original(hidden_states, weight, bias, activation=activation)
        return _separate_conv1d(hidden_states, weight, bias, activation, seq_idx)

    return call


def _separate_conv1d(x: Tensor, weight: Tensor, bias: Tensor | None, activation: str | None, seq_idx: Tensor) -> Tensor:
    """As above over packed sequences: seq_idx [B, T] names each token's, and none sees another's."""
    taps, tokens = weight.shape[-1], x.shape[-1]
    total = x.to(weight.dtype) * weight[:, -1:]
    for back in range(1, min(taps, tokens)):
        same = (seq_idx[:, back:] == seq_idx[:, :-back])[:, None]
        shifted = torch.where(same, x[..., :-back].to(weight.dtype), 0.0) * weight[:, taps - 1 - back, None]
        total = total + F.pad(shifted, (back, 0))
    if bias is not None:
        total = total + bias[:, None]
    if activation is not None:
        from transformers.activations import ACT2FN

        total = ACT2FN[activation](total)
    return total.to(x.dtype)


def _recording(*tensors: Tensor) -> bool:
    return torch.is_grad_enabled() and any(x.requires_grad for x in tensors)


def serves(module: nn.Module, x: Tensor) -> bool:
    """Whether a layer's fast form does what its own would: inference on a CPU, of plain tensors, outside of a compiler."""
    if (
        torch.compiler.is_compiling()
        or torch.jit.is_tracing()
        or torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE)
    ):
        return False
    if x.device.type != "cpu" or x.dtype not in _DTYPES or x.numel() == 0 or type(x) is not Tensor:
        return False
    return not torch.is_grad_enabled() or not (x.requires_grad or any(p.requires_grad for p in module.parameters()))


def gated_delta_net(
    original: Callable[..., Any], project: Callable[..., tuple[Tensor, Tensor, Tensor, Tensor]]
) -> Callable[..., Any]:
    """The forward of a GatedDeltaNet. project(module, x) gives qkv [B, T, C], z [B, T, Hv * Dv], b and a [B, T, Hv]."""

    def forward(
        self: Any, hidden_states: Tensor, cache: Any = None, attention_mask: Tensor | None = None, **kwargs: Any
    ) -> Tensor:
        if not _is_plain(self, hidden_states, cache, kwargs):
            return original(self, hidden_states, cache=cache, attention_mask=attention_mask, **kwargs)
        x = _without_padding(hidden_states, attention_mask)
        batch, tokens = x.shape[:2]
        mixed, z, b, a = project(self, x)
        query, key, value = _convolved(self, (mixed,), cache, (self.key_dim, self.key_dim, self.value_dim))
        heads = (batch, tokens, -1)
        g = F.softplus(a.float() + self.dt_bias).mul_(-self.A_log.float().exp())
        output = _delta(
            self, GATED_DELTA_RULE.name, query.view(*heads, self.head_k_dim), key.view(*heads, self.head_k_dim),
            value.view(*heads, self.head_v_dim), g, b.float().sigmoid(), cache,
        )  # fmt: skip
        gated = _gated(self.norm, output, z.reshape(output.shape))
        return self.out_proj(gated.view(batch, tokens, -1))

    return forward


def kimi_delta_net(original: Callable[..., Any], norm_gate: Callable[[Any, Tensor], Tensor]) -> Callable[..., Any]:
    """The forward of a Kimi delta attention layer. norm_gate(module, x) is the raw output gate [B, T, H * D]."""

    def forward(
        self: Any, hidden_states: Tensor, cache: Any = None, attention_mask: Tensor | None = None, **kwargs: Any
    ) -> Tensor:
        if not _is_plain(self, hidden_states, cache, kwargs):
            return original(self, hidden_states, cache=cache, attention_mask=attention_mask, **kwargs)
        x = _without_padding(hidden_states, attention_mask)
        batch, tokens = x.shape[:2]
        parts = (self.q_proj(x), self.k_proj(x), self.v_proj(x))
        shape = (batch, tokens, -1, self.head_dim)
        query, key, value = (y.view(shape) for y in _convolved(self, parts, cache, (self.qkv_dim,) * 3))
        g, beta = self.forget_gate(x).float(), self.b_proj(x).float().sigmoid()
        output = _delta(self, KDA.name, query, key, value, g, beta, cache)
        gated = _gated(self.o_norm, output, norm_gate(self, x).view(output.shape))
        return self.o_proj(gated.view(batch, tokens, -1))

    return forward


def _is_plain(module: Any, x: Tensor, cache: Any, kwargs: dict[str, Any]) -> bool:
    others = any(kwargs.get(name) is not None for name in ("cu_seq_lens_q", "seq_idx", "cu_seqlens", "cache_params"))
    recorded = cache is not None and cache.is_recording_past(module.layer_idx)
    conv = module.conv1d
    plain_conv = conv.bias is None and conv.weight.dtype == x.dtype and not hasattr(conv, "_hf_hook")
    return not others and not recorded and plain_conv and module.activation in ("silu", "swish") and serves(module, x)


def _without_padding(x: Tensor, attention_mask: Tensor | None) -> Tensor:
    return x if attention_mask is None else (x * attention_mask[:, :, None]).to(x.dtype)


def _convolved(module: Any, parts: tuple[Tensor, ...], cache: Any, widths: tuple[int, ...]) -> list[Tensor]:
    """The convolution of the new tokens after those that the cache knows, whose last ones it keeps as transformers does.

    parts: q, k and v in one array or in three.
    """
    weight = module.conv1d.weight.squeeze(1)
    taps = weight.shape[-1]
    history = None
    if cache is not None:
        state = cache.get_conv_state(module.layer_idx, state_idx=0)
        newest = torch.cat([x[:, -taps:] for x in parts], dim=-1).transpose(1, 2)
        if state is None:  # only what the cache keeps is handed to it: it copies the end
            cache.update_conv_state(newest, module.layer_idx, conv_kernel_size=taps)
        else:
            history = state[..., state.shape[-1] - taps + 1 :].transpose(1, 2).clone()
            state.copy_(torch.cat([state, newest], dim=-1)[..., -state.shape[-1] :])
    if len(parts) == 1:
        return _layers.causal_conv1d_silu(parts[0], weight, history, widths)
    before = (None,) * len(parts) if history is None else history.split(widths, -1)
    rows = zip(parts, weight.split(widths), before, widths, strict=True)
    return [_layers.causal_conv1d_silu(x, w, h, (width,))[0] for x, w, h, width in rows]


def _delta(module: Any, mechanism: str, query: Tensor, key: Tensor, value: Tensor, g: Tensor, beta: Tensor, cache: Any) -> Tensor:
    """The delta rule from the cache's state, which it advances in place."""
    batch, tokens, heads, width = value.shape
    bounds = torch.tensor([[0, tokens]], dtype=torch.int32).expand(batch, 2)
    state = None if cache is None else cache.get_recurrent_state(module.layer_idx, state_idx=0)
    options = (mechanism, query.shape[-1] ** -0.5, _L2NORM_EPS, str(value.dtype).removeprefix("torch."))
    operands = (query, key, value, g, beta)
    if state is not None and state.dtype == torch.float32:
        output: Tensor = torch_ops.delta_rule_(*operands, state, bounds, *options)
        return output
    start = torch.zeros(batch, heads, query.shape[-1], width) if state is None else state.float()
    output = torch_ops.delta_rule_(*operands, start, bounds, *options)
    if cache is not None:
        cache.update_recurrent_state(start, module.layer_idx)
    return output


def _gated(norm: Any, output: Tensor, gate: Tensor) -> Tensor:
    """The gated norm of a layer, in place where its arrays are its own."""
    plain = output.dtype == torch.float32 and not _layers.hooked(norm)
    if plain and norm.weight.dtype == torch.float32 and norm.activation in ("silu", "sigmoid"):
        return _layers.gate_normed_(output, gate.contiguous(), norm.weight, norm.variance_epsilon, norm.activation)
    normed: Tensor = norm(output.reshape(-1, output.shape[-1]), gate.reshape(-1, gate.shape[-1]))
    return normed.view(output.shape)
