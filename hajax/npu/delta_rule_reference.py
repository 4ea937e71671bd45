"""The delta-rule family in torch operators, chunk by chunk: what the backward pass of `hajax::delta_rule` differentiates.

The meaning, and the algebra, of hajax.ops._reference: every decay is exp of a sum of log decays, every product is in fp32 (fp64
for fp64 values). Nothing but matrix products, so it runs on any device; no host synchronisation while a row has one sequence.
"""

import dataclasses
import itertools
from collections.abc import Callable

import torch
from torch import Tensor

from hajax.mechanisms import Mechanism

CHUNK = 64
_BLOCK = 16  # of the triangular solve
_LOWEST_LOG_DECAY = -1000.0  # exp of it is 0, and sums of it stay finite where -inf would make NaN


@dataclasses.dataclass(frozen=True, slots=True)
class _Decays:
    """exp of the sums of log decays of a chunk's tokens up to each, and after each: [B, Hk, R, C, 1 or Dk]; None without a decay.

    `scores(left)` is left_i . key_j decayed over j < t <= i, [B, Hk, R, C, C], 0 for j > i.
    """

    from_start: Tensor | None
    to_end: Tensor | None
    scores: Callable[[Tensor], Tensor]


def delta_rule(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    log_decay: Tensor,
    beta: Tensor,
    state: Tensor,
    bounds: Tensor,
    *,
    mechanism: Mechanism,
    scale: float,
    l2norm_eps: float | None,
    output_dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """Output [B, T, Hv, Dv] and final state [B * N, Hv, Dk, Dv] of the sequences that `bounds` [B, N + 1] cuts."""
    real = torch.float64 if value.dtype == torch.float64 else torch.float32
    heads = (query.shape[2], value.shape[2] // query.shape[2])
    position = torch.arange(query.shape[1], device=bounds.device)[None]
    inside = (position >= bounds[:, :1]) & (position < bounds[:, -1:])
    query, key, value, log_decay, beta = (_masked(x.to(real), inside) for x in (query, key, value, log_decay, beta))
    if l2norm_eps is not None:
        query, key = (x * torch.rsqrt((x * x).sum(-1, keepdim=True) + l2norm_eps) for x in (query, key))
        query, key = _masked(query, inside), _masked(key, inside)  # without an eps, a row of zeros became NaN
    log_decay = log_decay.clamp(min=_LOWEST_LOG_DECAY)
    tokens = (query * scale, key, value.unflatten(2, heads), log_decay.unflatten(2, heads), beta.unflatten(2, heads))
    states = state.to(real).unflatten(1, heads)
    if bounds.shape[1] == 2:
        output, final = _sequence(tokens, states, mechanism)
    else:
        rows = [_packed(tuple(x[row : row + 1] for x in tokens), one, ends.tolist(), mechanism)
                for row, (one, ends) in enumerate(zip(states.chunk(len(bounds)), bounds, strict=True))]  # fmt: skip
        output, final = (torch.cat(parts) for parts in zip(*rows, strict=True))
    return output.flatten(2, 3).to(output_dtype), final.flatten(1, 2)


def _masked(x: Tensor, inside: Tensor) -> Tensor:
    return torch.where(inside.reshape(*inside.shape, *(1,) * (x.ndim - 2)), x, 0.0)


def _packed(tokens: tuple[Tensor, ...], states: Tensor, ends: list[int], mechanism: Mechanism) -> tuple[Tensor, Tensor]:
    """The sequences of one row, one after the other."""
    outputs, finals = [torch.zeros_like(tokens[2][:, : ends[0]])], []
    for number, (start, end) in enumerate(itertools.pairwise(ends)):
        output, final = _sequence(tuple(x[:, start:end] for x in tokens), states[number : number + 1], mechanism)
        outputs.append(output)
        finals.append(final)
    outputs.append(torch.zeros_like(tokens[2][:, ends[-1] :]))
    return torch.cat(outputs, 1), torch.cat(finals)


def _sequence(tokens: tuple[Tensor, ...], state: Tensor, mechanism: Mechanism) -> tuple[Tensor, Tensor]:
    total = tokens[0].shape[1]
    outputs = [torch.zeros_like(tokens[2][:, :0])]
    for start in range(0, total, CHUNK):
        part = tuple(x[:, start : start + CHUNK] for x in tokens)
        size = part[0].shape[1]
        padded = next(n for n in (1, 8, 16, 32, CHUNK) if n >= size)
        output, state = _chunk(tuple(_padded(x, padded) for x in part), state, mechanism)
        outputs.append(output[:, :size])
    return torch.cat(outputs, 1), state


def _padded(x: Tensor, size: int) -> Tensor:
    """With tokens of zeros behind: such a token neither decays, writes nor reads."""
    return x if x.shape[1] == size else torch.cat([x, x.new_zeros(x.shape[0], size - x.shape[1], *x.shape[2:])], 1)


def _chunk(tokens: tuple[Tensor, ...], state: Tensor, mechanism: Mechanism) -> tuple[Tensor, Tensor]:
    """State [B, Hk, R, Dk, Dv] and a chunk ([B, C, Hk, ...]) to the output [B, C, Hk, R, Dv] and the next state."""
    query, key = (x.transpose(1, 2)[:, :, None] for x in tokens[:2])  # [B, Hk, 1, C, Dk]
    value, log_decay, beta = (x.movedim(1, 3) for x in tokens[2:])  # [B, Hk, R, C, ...]
    erase, write = (beta[..., :1], beta[..., 1:]) if mechanism.strengths == 2 else (beta[..., None], beta[..., None])
    decays = _decays(mechanism, log_decay, key)
    update = write * value
    if mechanism.delta:
        update = update - erase * (_scaled(key, decays.from_start) @ state)
        update = _solve_unit_lower((erase * decays.scores(key)).tril(-1), update)
    output = _scaled(query, decays.from_start) @ state + decays.scores(query) @ update
    if decays.from_start is None:
        state = state + key.mT @ update
    else:
        state = decays.from_start[..., -1, :, None] * state + _scaled(key, decays.to_end).mT @ update
    return output.movedim(3, 1), state


def _scaled(rows: Tensor, factor: Tensor | None) -> Tensor:
    return rows if factor is None else rows * factor


def _decays(mechanism: Mechanism, log_decay: Tensor, key: Tensor) -> _Decays:
    size = key.shape[-2]
    lower = torch.ones(size, size, dtype=key.dtype, device=key.device).tril()
    if mechanism.decay == "none":
        return _Decays(None, None, lambda left: (left @ key.mT).tril())
    strict = lower.tril(-1)
    channels = log_decay if mechanism.decay == "per_channel" else log_decay[..., None]
    from_start, to_end = (lower @ channels).exp(), (strict.mT @ channels).exp()
    if mechanism.decay == "per_channel":
        return _Decays(from_start, to_end, lambda left: _scores_by_channel(log_decay, left, key))
    between = lower @ (channels * strict)
    ratio = torch.where(lower > 0, between, -torch.inf).exp()
    return _Decays(from_start, to_end, lambda left: ratio * (left @ key.mT))


def _scores_by_channel(log_decay: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """By halving: a block's second half against its first, both decayed to the boundary between them. C is a power of two.

    Arrays are [B, Hk, R, blocks, tokens, Dk].
    """
    left, right = (x.expand_as(log_decay).unsqueeze(4) for x in (left, right))
    before = total = log_decay.unsqueeze(4)
    after = torch.zeros_like(total)
    blocks = (left * right).sum(-1, keepdim=True)
    while blocks.shape[3] > 1:
        first, second = slice(None, None, 2), slice(1, None, 2)
        low = left[:, :, :, second] * before[:, :, :, second].exp()
        high = right[:, :, :, first] * after[:, :, :, first].exp()
        corner = torch.zeros_like(blocks[:, :, :, first])
        blocks = torch.cat([torch.cat([blocks[:, :, :, first], corner], -1),
                            torch.cat([low @ high.mT, blocks[:, :, :, second]], -1)], -2)  # fmt: skip
        before = torch.cat([before[:, :, :, first], before[:, :, :, second] + total[:, :, :, first]], -2)
        after = torch.cat([after[:, :, :, first] + total[:, :, :, second], after[:, :, :, second]], -2)
        total = total[:, :, :, first] + total[:, :, :, second]
        left, right = (torch.cat([x[:, :, :, first], x[:, :, :, second]], -2) for x in (left, right))
    return blocks[:, :, :, 0]


def _solve_unit_lower(strict: Tensor, right: Tensor) -> Tensor:
    """X of (I + strict) X = right, block by block; C is 1 or a multiple of 8."""
    size = strict.shape[-1]
    block = min(size, _BLOCK)
    done: list[Tensor] = []
    for start in range(0, size, block):
        rest = right[..., start : start + block, :]
        if done:
            rest = rest - strict[..., start : start + block, :start] @ torch.cat(done, -2)
        done.append(_inverse_unit_lower(strict[..., start : start + block, start : start + block]) @ rest)
    return torch.cat(done, -2)


def _inverse_unit_lower(strict: Tensor) -> Tensor:
    """(I + strict)^-1 by doubling: from the inverses of all diagonal blocks of size s to those of 2 s."""
    size = strict.shape[-1]
    inverse = torch.eye(size, dtype=strict.dtype, device=strict.device).expand_as(strict)
    own = torch.arange(size, device=strict.device)
    reach = 1
    while reach < size:
        group = own // reach
        neighbours = (group[:, None] == group[None] + 1) & (group[:, None] % 2 == 1)
        inverse = inverse - inverse @ torch.where(neighbours, strict, 0.0) @ inverse
        reach *= 2
    return inverse
