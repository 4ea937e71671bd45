"""One torch function for each of hajax's named functions: same result, few launches. No call waits for the device.

Sums and norms are fp32 as in the functions they stand for, and results are new tensors.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def l2norm(x: Tensor, *, eps: float) -> Tensor:
    """hajax.l2norm."""
    wide = x.float()
    return (wide * torch.rsqrt((wide * wide).sum(-1, keepdim=True) + eps)).to(x.dtype)


def gated_rms_norm(x: Tensor, gate: Tensor, weight: Tensor, *, eps: float) -> Tensor:
    """hajax.gated_rms_norm."""
    normal = F.rms_norm(x.float(), (x.shape[-1],), weight.float(), eps)
    return normal.mul_(F.silu(gate.float())).to(gate.dtype)


def causal_conv1d(x: Tensor, state: Tensor, weight: Tensor, *, activation: str | None) -> tuple[Tensor, Tensor]:
    """hajax.causal_conv1d of whole rows."""
    padded = torch.cat((state, x), 1)
    return _convolved(padded, weight, x, activation), padded[:, x.shape[1] :].contiguous()


def causal_conv1d_padded(
    x: Tensor, state: Tensor, weight: Tensor, lengths: Tensor, *, activation: str | None
) -> tuple[Tensor, Tensor]:
    """hajax.causal_conv1d of rows that end after `lengths` tokens."""
    memory = state.shape[1]
    outside = (torch.arange(x.shape[1], device=x.device)[None] >= lengths[:, None])[..., None]
    padded = torch.cat((state, x.masked_fill(outside, 0)), 1)
    y = _convolved(padded, weight, x, activation).masked_fill_(outside, 0)
    last = lengths.to(torch.int64).clamp(0, x.shape[1])[:, None] + torch.arange(memory, device=x.device)[None]
    return y, torch.gather(padded, 1, last[..., None].expand(-1, -1, x.shape[2]))


def _convolved(padded: Tensor, weight: Tensor, x: Tensor, activation: str | None) -> Tensor:
    """Tap after tap: a depthwise convolution is bound by memory, and torch's own wants another layout."""
    tokens, taps = x.shape[1], weight.shape[1]
    wide = weight.float()
    y = padded[:, :tokens].float() * wide[:, 0]
    for tap in range(1, taps):
        y = torch.addcmul(y, padded[:, tap : tap + tokens].float(), wide[:, tap])
    return (F.silu(y, inplace=True) if activation == "silu" else y).to(x.dtype)
