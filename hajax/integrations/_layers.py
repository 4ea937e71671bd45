"""Layers of hybrid models in few passes over memory, for inference on CPUs: what libraries spell out operator by operator.

Activations are [B, T, channels] and stay so. Where several operators touch an array one after the other, they do so in blocks of
tokens that fit a cache, in place in arrays of their own.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_BLOCK_BYTES = 4 << 20  # what operators in a row work on: it stays in a last-level cache, and threads meet seldom


def _rows(x: Tensor) -> int:
    """Rows of a [rows, channels] array that make a block."""
    return max(1, _BLOCK_BYTES // max(1, x.shape[-1] * x.element_size()))


def hooked(module: nn.Module) -> bool:
    """Whether something looks at what goes into or comes out of a module: then it must be called."""
    everywhere = nn.modules.module._global_forward_hooks or nn.modules.module._global_forward_pre_hooks
    return bool(module._forward_hooks or module._forward_pre_hooks or everywhere)


def owned(module: nn.Module, x: Tensor) -> Tensor:
    """What a module gives for x, to be overwritten: a copy where a hook may have kept it."""
    output: Tensor = module(x)
    return output.clone() if hooked(module) else output


def causal_conv1d_silu(x: Tensor, weight: Tensor, history: Tensor | None, widths: Sequence[int]) -> list[Tensor]:
    """silu of a depthwise causal convolution of x [B, T, C], cut by channels into arrays [B, T, width] of their own.

    weight [C, K]; history [B, K - 1, C] are the tokens before the first, zeros when None.
    """
    batch, tokens, channels = x.shape
    taps = weight.t().contiguous()
    before = len(taps) - 1
    outputs = [x.new_empty(batch, tokens, width) for width in widths]
    if history is None:
        history = x.new_zeros(batch, before, channels)
    # The rows before a block are those of x, but for the first block's.
    step = max(2 * before, _BLOCK_BYTES // max(1, max(widths) * x.element_size()))
    for row in range(batch):
        first = torch.cat([history[row], x[row, :step]])
        for start in range(0, tokens, step):
            source = first if start == 0 else x[row, start - before : start + step]
            count, left = len(source) - before, 0
            for output, width in zip(outputs, widths, strict=True):
                columns, block = slice(left, left + width), output[row, start : start + count]
                torch.mul(source[before:, columns], taps[before, columns], out=block)
                for tap in range(before):
                    block.addcmul_(source[tap : tap + count, columns], taps[tap, columns])
                F.silu(block, inplace=True)
                left += width
    return outputs


def rms_norm(x: Tensor, weight: Tensor, eps: float, out: Tensor | None = None) -> Tensor:
    """x / sqrt(mean of squares + eps) times weight over the last axis."""
    flat = x.reshape(-1, x.shape[-1])
    output = torch.empty_like(flat) if out is None else out.view(flat.shape)
    for block, done in zip(flat.split(_rows(flat)), output.split(_rows(flat)), strict=True):
        torch.mul(block, _inverse_rms(block, eps), out=done)
        done.mul_(weight)
    return output.view(x.shape)


def gate_normed_(x: Tensor, gate: Tensor, weight: Tensor, eps: float, activation: str) -> Tensor:
    """x, in place: RMS-normed over the last axis, times weight, times silu or sigmoid of the gate, which is overwritten."""
    width = x.shape[-1]
    flat, gates = x.view(-1, width), gate.view(-1, width)
    for block, by in zip(flat.split(_rows(flat)), gates.split(_rows(flat)), strict=True):
        block.mul_(_inverse_rms(block, eps)).mul_(weight)
        block.mul_(F.silu(by, inplace=True) if activation == "silu" else by.sigmoid_())
    return x


def _inverse_rms(x: Tensor, eps: float) -> Tensor:
    return torch.linalg.vector_norm(x, dim=-1, keepdim=True).square_().div_(x.shape[-1]).add_(eps).rsqrt_()


def silu_times_(gate: Tensor, up: Tensor) -> Tensor:
    """gate, in place: silu(gate) up."""
    for block, by in zip(gate.split(_rows(gate)), up.split(_rows(gate)), strict=True):
        F.silu(block, inplace=True).mul_(by)
    return gate


def half_rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """x [B, T, H, D] with its first channels rotated in halves, by cos and sin [B, T, rotated]; [B, H, T, D] in memory."""
    rotated = cos.shape[-1]
    cos, sin = cos[:, None], sin[:, None]
    output = x.transpose(1, 2).clone(memory_format=torch.contiguous_format)
    first, second = output[..., : rotated // 2], output[..., rotated // 2 : rotated]
    turned = first * cos[..., : rotated // 2] - second * sin[..., : rotated // 2]
    second.mul_(cos[..., rotated // 2 :]).addcmul_(first, sin[..., rotated // 2 :])
    first.copy_(turned)
    return output
