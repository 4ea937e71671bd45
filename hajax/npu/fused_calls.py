"""One torch function for each of hajax's named functions: same result, few launches. No call waits for the device.

Sums and norms are fp32 as in the functions they stand for, masked scores are finite, and results are new tensors.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

_QUERY_BLOCK = 1024  # of attention over a cache, so that a mask stays small
_LEFT_OUT = -1e30


def l2norm(x: Tensor, *, eps: float) -> Tensor:
    """hajax.l2norm."""
    wide = x.float()
    return (wide * torch.rsqrt((wide * wide).sum(-1, keepdim=True) + eps)).to(x.dtype)


def rms_norm(x: Tensor, weight: Tensor, *, eps: float) -> Tensor:
    """hajax.models.layers.norms.rms_norm: the weight is an offset from one."""
    if x.device.type == "npu":
        return _rms(x, 1 + weight.float(), eps).to(x.dtype)
    normal = F.rms_norm(x.float(), (x.shape[-1],), None, eps)
    return torch.addcmul(normal, normal, weight.float()).to(x.dtype)


def plain_rms_norm(x: Tensor, weight: Tensor, *, eps: float) -> Tensor:
    """hajax.models.layers.norms.plain_rms_norm."""
    return _rms(x, weight.float(), eps).to(x.dtype)


def gated_rms_norm(x: Tensor, gate: Tensor, weight: Tensor, *, eps: float, activation: str) -> Tensor:
    """hajax.gated_rms_norm."""
    wide = gate.float()
    factor = F.silu(wide) if activation == "silu" else torch.sigmoid(wide)
    return _rms(x, weight.float(), eps).mul_(factor).to(gate.dtype)


def _rms(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    if x.device.type == "npu":  # torch has it in several launches there
        import torch_npu

        wide: Tensor = torch_npu.npu_rms_norm(x.float(), weight, eps)[0]
        return wide
    return F.rms_norm(x.float(), (x.shape[-1],), weight, eps)


def causal_conv1d(
    x: Tensor, state: Tensor, weight: Tensor, *, activation: str | None, sizes: tuple[int, ...]
) -> tuple[Tensor, ...]:
    """hajax.ops._causal_conv1d.causal_conv1d_split of whole rows."""
    padded = torch.cat((state, x), 1)
    y = _convolved(padded, weight, x, activation)
    return *_split(y, sizes), padded[:, x.shape[1] :].contiguous()


def causal_conv1d_padded(
    x: Tensor, state: Tensor, weight: Tensor, lengths: Tensor, *, activation: str | None, sizes: tuple[int, ...]
) -> tuple[Tensor, ...]:
    """hajax.ops._causal_conv1d.causal_conv1d_split of rows that end after `lengths` tokens: NaN where one is not in 0..T."""
    memory, tokens = state.shape[1], x.shape[1]
    outside = (torch.arange(tokens, device=x.device)[None] >= lengths[:, None])[..., None]
    padded = torch.cat((state, x.masked_fill(outside, 0)), 1)
    wrong = ((lengths < 0) | (lengths > tokens)).any()
    filling = torch.where(wrong, torch.nan, 0.0).to(x.dtype)
    y = torch.where(outside | wrong, filling, _convolved(padded, weight, x, activation))
    last = lengths.to(torch.int64).clamp(0, tokens)[:, None] + torch.arange(memory, device=x.device)[None]
    final = torch.gather(padded, 1, last[..., None].expand(-1, -1, x.shape[2]))
    return *_split(y, sizes), torch.where(wrong, filling, final)


def _split(y: Tensor, sizes: tuple[int, ...]) -> tuple[Tensor, ...]:
    return (y,) if len(sizes) == 1 else tuple(part.contiguous() for part in y.split(sizes, -1))


def _convolved(padded: Tensor, weight: Tensor, x: Tensor, activation: str | None) -> Tensor:
    """Tap after tap: a depthwise convolution is bound by memory, and torch's own wants another layout."""
    tokens, taps = x.shape[1], weight.shape[1]
    wide = weight.float()
    if tokens == 1:
        y = (padded.float() * wide.T).sum(1, keepdim=True)
    else:
        y = padded[:, :tokens].float() * wide[:, 0]
        for tap in range(1, taps):
            y = torch.addcmul(y, padded[:, tap : tap + tokens].float(), wide[:, tap])
    return (F.silu(y, inplace=True) if activation == "silu" else y).to(x.dtype)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """hajax.models.layers.rotary.rotate."""
    half = cos.shape[-1]
    turned = _turned(x[..., :half].float(), x[..., half : 2 * half].float(), cos, sin).to(x.dtype)
    return turned if 2 * half == x.shape[-1] else torch.cat((turned, x[..., 2 * half :]), -1)


def rotate_interleaved(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """hajax.models.layers.rotary.rotate_interleaved."""
    pairs = x.float().unflatten(-1, (-1, 2))
    return _turned(pairs[..., 0], pairs[..., 1], cos, sin).to(x.dtype)


def _turned(first: Tensor, second: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    cos, sin = cos[:, :, None], sin[:, :, None]
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


def rounded_product(rows: Tensor, weight: Tensor) -> Tensor:
    """hajax.models.layers.linear's of bfloat16: torch sums in fp32 and rounds once by itself."""
    return F.linear(rows, weight)


def silu_gate(gate: Tensor, x: Tensor) -> Tensor:
    """hajax.models.layers.mlp.silu_gate."""
    return F.silu(gate).mul_(x)


def log_decay_per_head(raw: Tensor, log_a: Tensor, dt_bias: Tensor) -> Tensor:
    """hajax.models.layers.delta_net.log_decay."""
    return F.softplus(raw + dt_bias).mul_(-torch.exp(log_a))


def log_decay_per_channel(raw: Tensor, log_a: Tensor, dt_bias: Tensor, *, lower_bound: float | None) -> Tensor:
    """hajax.models.layers.kimi_delta_attention.log_decay."""
    rate = torch.exp(log_a)[:, None]
    if lower_bound is None:
        return F.softplus(raw + dt_bias).mul_(-rate)
    return torch.sigmoid((raw + dt_bias).mul_(rate)).mul_(lower_bound)


def cache_put(old: Tensor, new: Tensor, starts: Tensor) -> Tensor:
    """hajax.models.layers.attention.put of one token a row."""
    return cache_put_in_place(old.clone(), new, starts)


def cache_put_in_place(old: Tensor, new: Tensor, starts: Tensor) -> Tensor:
    """The same in the cache's own memory; a row past its end writes what is there already."""
    deep = (-1,) + (1,) * (old.ndim - 1)
    place = starts.to(torch.int64).clamp(0, old.shape[1] - 1).reshape(deep).expand_as(new)
    inside = ((starts >= -old.shape[1]) & (starts < old.shape[1])).reshape(deep)
    return old.scatter_(1, place, torch.where(inside, new, old.gather(1, place)))


def causal_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """hajax.models.layers.attention.causal_attention."""
    return _attention(query, key, value, None)


def cached_attention(query: Tensor, key: Tensor, value: Tensor, starts: Tensor, ends: Tensor) -> Tensor:
    """hajax.models.layers.attention.cached_attention."""
    tokens, capacity = query.shape[1], key.shape[1]
    columns = torch.arange(capacity, device=query.device)[None, None]
    parts = []
    for first in range(0, tokens, _QUERY_BLOCK):
        part = query[:, first : first + _QUERY_BLOCK]
        rows = starts[:, None] + torch.arange(first, first + part.shape[1], device=query.device)[None]
        parts.append(_attention(part, key, value, columns <= rows[:, :, None]))
    return parts[0] if len(parts) == 1 else torch.cat(parts, 1)


def _attention(query: Tensor, key: Tensor, value: Tensor, seen: Tensor | None) -> Tensor:
    """query [B, T, H, D], key and value [B, S, Hkv, D]; seen [B, T, S], None for causal."""
    mask = None if seen is None else torch.where(seen, 0.0, _least(query.dtype)).to(query.dtype)[:, None]
    mixed = F.scaled_dot_product_attention(
        query.transpose(1, 2), key.transpose(1, 2).to(query.dtype), value.transpose(1, 2).to(query.dtype), attn_mask=mask,
        is_causal=mask is None, scale=1.0, enable_gqa=key.shape[2] != query.shape[2],
    )  # fmt: skip
    return mixed.transpose(1, 2).contiguous()


def _least(kind: torch.dtype) -> float:
    """A masked score: finite in the dtype, and gone after any softmax."""
    return max(_LEFT_OUT, torch.finfo(kind).min / 2)


def route(raw: Tensor, bias: Tensor, *, routing: Any) -> tuple[Tensor, Tensor]:
    """hajax.models.layers.moe.route, from the router's products on."""
    scores = torch.sigmoid(raw)
    ranked = scores + bias
    count, experts = scores.shape
    if routing.groups > 1:
        grouped = ranked.unflatten(1, (routing.groups, -1))
        best = grouped.sort(dim=-1, descending=True).values[..., :2].sum(-1)
        groups = _best(best, routing.chosen_groups)
        outside = torch.ones_like(best, dtype=torch.bool).scatter_(1, groups, False)
        ranked = grouped.masked_fill(outside[:, :, None], _LEFT_OUT).reshape(count, experts)
    chosen = _best(ranked, routing.experts)
    factors = scores.gather(1, chosen)
    if routing.renormalise:
        factors = factors / (factors.sum(1, keepdim=True) + 1e-20)
    return chosen.to(torch.int32), factors * routing.scaling


def _best(x: Tensor, count: int) -> Tensor:
    """Indices of the largest, of equals the first: torch.topk leaves that open."""
    return x.sort(dim=-1, descending=True, stable=True).indices[..., :count]


def experts(rows: Tensor, chosen: Tensor, factors: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    """hajax.models.layers.moe.apply_experts for few choices: each reads its expert."""
    count, each = chosen.shape
    owners, inner = chosen.reshape(-1).to(torch.int64), down.shape[2]
    taken = rows[:, None].expand(-1, each, -1).reshape(count * each, -1, 1)
    wide = torch.bmm(gate_up.index_select(0, owners).to(rows.dtype), taken)[..., 0]
    mixed = silu_gate(wide[:, :inner], wide[:, inner:])
    outputs = torch.bmm(down.index_select(0, owners).to(rows.dtype), mixed[..., None])
    return (outputs.float().reshape(count, each, -1) * factors[:, :, None]).sum(1).to(rows.dtype)
