"""The delta-rule family token by token in torch float64, differentiable: what operators and drop-ins are compared with."""

import itertools

import torch


def recurrence(query, key, value, log_decay, beta, state, ends, *, scale, l2norm_eps=None, delta=True):
    """Output [B, T, Hv, Dv] and final states [B * N, Hv, Dk, Dv]; ends: a list of N + 1 token positions for each row.

    log_decay [B, T, Hv] or [B, T, Hv, Dk], or None; beta [B, T, Hv] or [B, T, Hv, 2] = erase, write.
    """
    query, key, value, beta, state = (x.double() for x in (query, key, value, beta, state))
    if l2norm_eps is not None:
        query, key = (x / torch.sqrt((x * x).sum(-1, keepdim=True) + l2norm_eps) for x in (query, key))
    group = value.shape[2] // query.shape[2]
    query, key = (x.repeat_interleave(group, 2) for x in (query, key))
    erase, write = (beta[..., 0], beta[..., 1]) if beta.ndim == 4 else (beta, beta)
    rows, finals, sequence = [], [], 0
    for row, bounds in enumerate(ends):
        outputs = [torch.zeros_like(value[row, : bounds[0]])]
        for start, end in itertools.pairwise(bounds):
            one = state[sequence]
            sequence += 1
            for t in range(start, end):
                if log_decay is not None:
                    decay = log_decay[row, t].double().exp()
                    one = one * (decay[..., None] if decay.ndim == 2 else decay[:, None, None])
                known = torch.einsum("hk,hkv->hv", key[row, t], one) if delta else 0.0
                change = write[row, t, :, None] * value[row, t] - erase[row, t, :, None] * known
                one = one + key[row, t, :, :, None] * change[:, None]
                outputs.append(scale * torch.einsum("hk,hkv->hv", query[row, t], one)[None])
            finals.append(one)
        outputs.append(torch.zeros_like(value[row, bounds[-1] :]))
        rows.append(torch.cat(outputs))
    return torch.stack(rows), torch.stack(finals)
