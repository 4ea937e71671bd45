"""The delta-rule operators of flash-linear-attention (fla-core 0.6.0), argument by argument, on CPUs and Ascend devices.

An argument does here what it does there, or is refused by its name. Beyond fla, the recurrent forms have gradients and every
length, short or long, takes the same kernel: `chunk_size` and what else only tunes fla's kernels is checked and has no effect.
"""

import numbers
import warnings
from typing import Any

try:
    import torch
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ImportError("hajax.integrations.fla needs torch, which is not installed: pip install torch", name="torch") from error
import torch.nn.functional as F
from torch import Tensor

from hajax.mechanisms import DELTA_RULE, GATED_DELTA_RULE, KDA, Mechanism
from hajax.npu import torch_ops

_L2NORM_EPS = 1e-6
_WIDEST = 256  # head dims of the kernels: multiples of 8 up to this
_INTEGERS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
_NAMES = {dtype: name for name, dtype in torch_ops.DTYPES.items()}


def chunk_gated_delta_rule(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    scale: float | None = None,
    initial_state: Tensor | None = None,
    output_final_state: bool = False,
    use_qk_l2norm_in_kernel: bool = False,
    use_beta_sigmoid_in_kernel: bool = False,
    allow_neg_eigval: bool = False,
    state_v_first: bool = False,
    cu_seqlens: Tensor | None = None,
    cu_seqlens_cpu: Tensor | None = None,
    chunk_indices: Tensor | None = None,
    cp_context: Any = None,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None]:
    """Gated delta rule over whole sequences: output [B, T, HV, V] in q's dtype; final state [N, HV, K, V] fp32, or None.

    q, k [B, T, H, K]; v [B, T, HV, V]; g (log decay) and beta [B, T, HV]; initial_state [N, HV, K, V]. Keywords of `kwargs`:
    use_gate_in_kernel with A_log [HV] and dt_bias [HV] (g is then the gate's raw input), chunk_size 16, 32 or 64.
    `chunk_indices` and `cu_seqlens_cpu` repeat what `cu_seqlens` says; `cp_context` is refused.
    """
    state_v_first = _old_name(kwargs, state_v_first)
    _refuse(cp_context=(cp_context, None))
    _check_chunk_size(kwargs, (16, 32, 64))
    gate = {
        name: kwargs.pop(name, default) for name, default in (("use_gate_in_kernel", False), ("A_log", None), ("dt_bias", None))
    }
    _refuse_unknown(kwargs)
    _check(q, k, v, {"g": g, "beta": beta}, gate | {"initial_state": initial_state}, scale)
    if gate["use_gate_in_kernel"]:
        g = _scalar_gate(g, gate["A_log"], gate["dt_bias"])
    beta = _strength(beta, use_beta_sigmoid_in_kernel, allow_neg_eigval)
    bounds = _bounds(q, cu_seqlens, initial_state, cu_seqlens_cpu)
    return _delta_rule(
        GATED_DELTA_RULE, q, k, v, g, beta, bounds, scale, initial_state, output_final_state, use_qk_l2norm_in_kernel,
        state_v_first, q.dtype,
    )  # fmt: skip


def fused_recurrent_gated_delta_rule(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor | None = None,
    gk: Tensor | None = None,
    gv: Tensor | None = None,
    beta: Tensor | None = None,
    scale: float | None = None,
    initial_state: Tensor | None = None,
    output_final_state: bool = False,
    use_qk_l2norm_in_kernel: bool = False,
    use_gate_in_kernel: bool = False,
    A_log: Tensor | None = None,
    dt_bias: Tensor | None = None,
    use_beta_sigmoid_in_kernel: bool = False,
    allow_neg_eigval: bool = False,
    state_v_first: bool = False,
    cu_seqlens: Tensor | None = None,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None]:
    """As `chunk_gated_delta_rule`, with decays g [B, T, HV], gk [B, T, HV, K], both or none; output in v's dtype.

    Refused: gv (a decay for each value channel) and a beta for each value channel.
    """
    state_v_first = _old_name(kwargs, state_v_first)
    _refuse(gv=(gv, None))
    _refuse_unknown(kwargs)
    given = {"g": g, "gk": gk, "beta": beta}
    given = {name: x for name, x in given.items() if x is not None or (name == "g" and use_gate_in_kernel)}
    _check(q, k, v, given, {"A_log": A_log, "dt_bias": dt_bias, "initial_state": initial_state}, scale)
    if use_gate_in_kernel:
        assert g is not None
        g = _scalar_gate(g, A_log, dt_bias)
    beta = torch.ones_like(v[..., 0]) if beta is None else beta
    beta = _strength(beta, use_beta_sigmoid_in_kernel, allow_neg_eigval)
    bounds = _bounds(q, cu_seqlens, initial_state)
    mechanism, decay = GATED_DELTA_RULE, g
    if gk is not None:
        mechanism, decay = KDA, gk.float() if g is None else gk.float() + g.float()[..., None]
    elif g is None:
        mechanism, decay = DELTA_RULE, torch.zeros_like(beta)
    assert decay is not None
    return _delta_rule(
        mechanism, q, k, v, decay, beta, bounds, scale, initial_state, output_final_state, use_qk_l2norm_in_kernel,
        state_v_first, v.dtype,
    )  # fmt: skip


def chunk_kda(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    scale: float | None = None,
    initial_state: Tensor | None = None,
    output_final_state: bool = False,
    use_qk_l2norm_in_kernel: bool = False,
    use_gate_in_kernel: bool = False,
    use_beta_sigmoid_in_kernel: bool = False,
    allow_neg_eigval: bool = False,
    safe_gate: bool = False,
    lower_bound: float | None = None,
    disable_recompute: bool = False,
    return_intermediate_states: bool = False,
    state_v_first: bool = False,
    cu_seqlens: Tensor | None = None,
    cu_seqlens_cpu: Tensor | None = None,
    cp_context: Any = None,
    use_graph: bool = False,
    max_num_seqs: int | None = None,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None]:
    """Kimi delta attention over whole sequences: as `chunk_gated_delta_rule`, with g [B, T, HV, K].

    With use_gate_in_kernel, g is the raw input of -exp(A_log) softplus(g + dt_bias), or with a lower_bound of
    lower_bound sigmoid(exp(A_log) (g + dt_bias)); A_log [HV], dt_bias [HV K] and chunk_size 32 or 64 come as keywords.
    Without it `lower_bound`, A_log and dt_bias have no effect, as in fla. A half initial_state is converted, which fla refuses.
    `safe_gate` and `disable_recompute` only choose among fla's kernels. Refused: cp_context, return_intermediate_states and
    use_graph.
    """
    state_v_first = _old_name(kwargs, state_v_first)
    _refuse(
        cp_context=(cp_context, None), return_intermediate_states=(return_intermediate_states, False),
        use_graph=(use_graph, False), max_num_seqs=(max_num_seqs, None),
    )  # fmt: skip
    _check_chunk_size(kwargs, (32, 64))
    a_log, dt_bias = kwargs.pop("A_log", None), kwargs.pop("dt_bias", None)
    _refuse_unknown(kwargs)
    optional = {"A_log": a_log, "dt_bias": dt_bias, "initial_state": initial_state}
    _check(q, k, v, {"g": g, "beta": beta}, optional, scale, lower_bound, by_channel=True)
    if use_gate_in_kernel:
        if safe_gate and (lower_bound is None or not -5 <= lower_bound < 0):
            raise ValueError(f"lower_bound: expected -5 <= lower_bound < 0 with safe_gate=True, got {lower_bound}")
        g = _channel_gate(g, a_log, dt_bias, lower_bound)
    beta = _strength(beta, use_beta_sigmoid_in_kernel, allow_neg_eigval)
    bounds = _bounds(q, cu_seqlens, initial_state, cu_seqlens_cpu)
    return _delta_rule(
        KDA, q, k, v, g, beta, bounds, scale, initial_state, output_final_state, use_qk_l2norm_in_kernel, state_v_first, q.dtype,
    )  # fmt: skip


def fused_recurrent_kda(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    A_log: Tensor | None = None,
    dt_bias: Tensor | None = None,
    scale: float | None = None,
    initial_state: Tensor | None = None,
    output_final_state: bool = False,
    use_qk_l2norm_in_kernel: bool = False,
    use_gate_in_kernel: bool = False,
    use_beta_sigmoid_in_kernel: bool = False,
    allow_neg_eigval: bool = False,
    lower_bound: float | None = None,
    state_v_first: bool = False,
    cu_seqlens: Tensor | None = None,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None]:
    """As `chunk_kda`; output in v's dtype. Refused: a beta for each value channel."""
    state_v_first = _old_name(kwargs, state_v_first)
    _refuse_unknown(kwargs)
    optional = {"A_log": A_log, "dt_bias": dt_bias, "initial_state": initial_state}
    _check(q, k, v, {"g": g, "beta": beta}, optional, scale, lower_bound, by_channel=True)
    if use_gate_in_kernel:
        g = _channel_gate(g, A_log, dt_bias, lower_bound)
    beta = _strength(beta, use_beta_sigmoid_in_kernel, allow_neg_eigval)
    bounds = _bounds(q, cu_seqlens, initial_state)
    return _delta_rule(
        KDA, q, k, v, g, beta, bounds, scale, initial_state, output_final_state, use_qk_l2norm_in_kernel, state_v_first, v.dtype,
    )  # fmt: skip


def _old_name(kwargs: dict[str, Any], state_v_first: bool) -> bool:
    if "transpose_state_layout" not in kwargs:
        return state_v_first
    if state_v_first:
        raise ValueError("transpose_state_layout: expected it absent, as state_v_first, its new name, is given too")
    warnings.warn("transpose_state_layout is the old name of state_v_first", DeprecationWarning, stacklevel=3)
    return bool(kwargs.pop("transpose_state_layout"))


def _refuse(**arguments: tuple[Any, Any]) -> None:
    for name, (value, default) in arguments.items():
        if value is not default:
            raise NotImplementedError(f"{name}: expected {default}, as hajax has nothing for it, got {type(value).__name__}")


def _refuse_unknown(kwargs: dict[str, Any]) -> None:
    if "head_first" in kwargs:
        raise DeprecationWarning("head_first: fla removed it; inputs are [B, T, H, ...]")
    if kwargs:
        raise TypeError(f"unexpected keyword arguments: {', '.join(sorted(kwargs))}")


def _check_chunk_size(kwargs: dict[str, Any], sizes: tuple[int, ...]) -> None:
    if (size := kwargs.pop("chunk_size", sizes[-1])) not in sizes:
        raise ValueError(f"chunk_size: expected one of {sizes}, got {size!r}")


def _got(x: Any) -> str:
    return "None" if x is None else type(x).__name__


def _check(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    required: dict[str, Tensor | None],
    optional: dict[str, Any],
    scale: float | None,
    lower_bound: float | None = None,
    by_channel: bool = False,
) -> None:
    """Raises TypeError or ValueError naming the first argument that does not go with the others."""
    given = {name: x for name, x in optional.items() if x is not None and name != "use_gate_in_kernel"}
    tensors: dict[str, Any] = {"q": q, "k": k, "v": v, **required, **given}
    for name, x in tensors.items():
        if not isinstance(x, Tensor):
            raise TypeError(f"{name}: expected a torch tensor, got {_got(x)}")
    for name, number in (("scale", scale), ("lower_bound", lower_bound)):
        if number is not None and (isinstance(number, bool) or not isinstance(number, numbers.Real)):
            raise TypeError(f"{name}: expected a number or None, got {number!r}")
    for name, x in tensors.items():
        if x.device != q.device:
            raise ValueError(f"{name}: expected a tensor on {q.device} as q, got one on {x.device}")
    if q.dtype not in _NAMES:
        raise TypeError(f"q: expected one of {', '.join(torch_ops.DTYPES)}, got {q.dtype}")
    for name, x in tensors.items():
        if name in ("k", "v") and x.dtype != q.dtype:
            raise TypeError(f"{name}: expected {q.dtype} as q, got {x.dtype}")
        if not x.is_floating_point():
            raise TypeError(f"{name}: expected a floating-point tensor, got {x.dtype}")
    if q.ndim != 4:
        raise ValueError(f"q: expected [B, T, H, K], got {list(q.shape)}")
    batch, tokens, heads, key_dim = q.shape
    if k.shape != q.shape:
        raise ValueError(f"k: expected [B, T, H, K] = {list(q.shape)} as q, got {list(k.shape)}")
    if v.ndim != 4 or v.shape[:2] != q.shape[:2]:
        raise ValueError(f"v: expected [B, T, HV, V] = [{batch}, {tokens}, HV, V] as q, got {list(v.shape)}")
    value_heads = v.shape[2]
    if heads < 1 or value_heads < 1 or value_heads % heads:
        raise ValueError(f"v: expected HV to be a positive multiple of q's H={heads}, got HV={value_heads}")
    gates, beta = (batch, tokens, value_heads), required.get("beta")
    if beta is not None and beta.shape == v.shape:
        raise NotImplementedError(
            f"beta: expected [B, T, HV] = {list(gates)}, as hajax has none by channel, got {list(beta.shape)}"
        )
    channels = (*gates, key_dim)
    wanted = {"g": channels if by_channel else gates, "gk": channels, "beta": gates}
    for name, y in required.items():
        if y is not None and y.shape != wanted[name]:
            axes = "[B, T, HV]" if len(wanted[name]) == 3 else "[B, T, HV, K]"
            raise ValueError(f"{name}: expected {axes} = {list(wanted[name])}, got {list(y.shape)}")
    sizes = {"A_log": value_heads, "dt_bias": value_heads * (key_dim if by_channel else 1)}
    for name, size in sizes.items():
        if name in given and given[name].numel() != size:
            raise ValueError(f"{name}: expected {size} elements, got {list(given[name].shape)}")


def _scalar_gate(g: Tensor, a_log: Tensor | None, dt_bias: Tensor | None) -> Tensor:
    if a_log is None:
        raise ValueError("A_log: expected a tensor [HV] with use_gate_in_kernel=True, got None")
    raw = g.float() if dt_bias is None else g.float() + dt_bias.float().reshape(-1)
    return -a_log.float().exp().reshape(-1) * F.softplus(raw)


def _channel_gate(g: Tensor, a_log: Tensor | None, dt_bias: Tensor | None, lower_bound: float | None) -> Tensor:
    if a_log is None and lower_bound is None:
        raise ValueError("A_log: expected a tensor [HV] with use_gate_in_kernel=True and no lower_bound, got None")
    raw = g.float() if dt_bias is None else g.float() + dt_bias.float().reshape(g.shape[-2:])
    strength = None if a_log is None else a_log.float().exp().reshape(-1, 1)
    if lower_bound is not None:
        return lower_bound * torch.sigmoid(raw if strength is None else strength * raw)
    assert strength is not None
    return -strength * F.softplus(raw)


def _strength(beta: Tensor, sigmoid: bool, allow_neg_eigval: bool) -> Tensor:
    if allow_neg_eigval and not sigmoid:
        raise ValueError("allow_neg_eigval: expected False without use_beta_sigmoid_in_kernel=True, got True")
    beta = beta.float()
    return (2.0 if allow_neg_eigval else 1.0) * beta.sigmoid() if sigmoid else beta


def _bounds(q: Tensor, cu_seqlens: Tensor | None, state: Tensor | None, cu_seqlens_cpu: Tensor | None = None) -> Tensor:
    """int32 [B, N + 1] for the operator."""
    if cu_seqlens is None:
        if cu_seqlens_cpu is not None:
            raise ValueError("cu_seqlens_cpu: expected None without cu_seqlens, got a tensor")
        bounds = torch.zeros(q.shape[0], 2, dtype=torch.int32, device=q.device)
        bounds[:, 1] = q.shape[1]
        return bounds
    given = {"cu_seqlens": cu_seqlens} if cu_seqlens_cpu is None else {"cu_seqlens": cu_seqlens, "cu_seqlens_cpu": cu_seqlens_cpu}
    for name, x in given.items():
        if not isinstance(x, Tensor):
            raise TypeError(f"{name}: expected a torch tensor, got {_got(x)}")
        if x.dtype not in _INTEGERS:
            raise TypeError(f"{name}: expected integers, got {x.dtype}")
        if x.device not in (q.device, torch.device("cpu")):
            raise ValueError(f"{name}: expected a tensor on {q.device} as q, or on the CPU, got one on {x.device}")
    if q.shape[0] != 1:
        raise ValueError(f"q: expected one row, holding all sequences, with cu_seqlens, got {q.shape[0]}")
    if cu_seqlens.ndim != 1 or len(cu_seqlens) < 2:
        raise ValueError(f"cu_seqlens: expected [N + 1], got {list(cu_seqlens.shape)}")
    if cu_seqlens_cpu is not None and cu_seqlens_cpu.shape != cu_seqlens.shape:
        raise ValueError(f"cu_seqlens_cpu: expected {list(cu_seqlens.shape)} as cu_seqlens, got {list(cu_seqlens_cpu.shape)}")
    if state is not None and state.shape[:1] != (len(cu_seqlens) - 1,):
        raise ValueError(f"initial_state: expected {len(cu_seqlens) - 1} states as cu_seqlens cuts, got {list(state.shape)}")
    for name, x in given.items():
        if torch.compiler.is_compiling() or x.is_meta or isinstance(x, torch._subclasses.FakeTensor):
            continue  # no values to look at
        cuts = x.tolist()
        if cuts[0] != 0 or cuts[-1] != q.shape[1] or cuts != sorted(cuts):
            raise ValueError(f"{name}: expected ascending integers from 0 to T={q.shape[1]}, got {_few(cuts)}")
    return cu_seqlens.to(q.device, torch.int32)[None]


def _few(cuts: list[int]) -> str:
    return str(cuts) if len(cuts) <= 8 else f"[{', '.join(map(str, cuts[:4]))}, ..., {', '.join(map(str, cuts[-3:]))}]"


def _delta_rule(
    mechanism: Mechanism,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    bounds: Tensor,
    scale: float | None,
    initial_state: Tensor | None,
    output_final_state: bool,
    l2norm: bool,
    state_v_first: bool,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor | None]:
    key_dim, value_dim, heads = k.shape[-1], v.shape[-1], v.shape[-2]
    if key_dim > _WIDEST:
        raise NotImplementedError(f"k: expected K <= {_WIDEST}, got {key_dim}")
    rows = bounds.shape[0] * (bounds.shape[1] - 1)
    if initial_state is None:
        state = torch.zeros(rows, heads, key_dim, value_dim, dtype=torch.float32, device=q.device)
    else:
        layout = "[N, HV, V, K]" if state_v_first else "[N, HV, K, V]"
        wanted = [rows, heads, value_dim, key_dim] if state_v_first else [rows, heads, key_dim, value_dim]
        if list(initial_state.shape) != wanted:
            raise ValueError(f"initial_state: expected {layout} = {wanted}, got {list(initial_state.shape)}")
        state = initial_state.float().mT if state_v_first else initial_state.float()
    pads = (-key_dim % 8, -value_dim % 8)
    if pads != (0, 0):  # channels of zeros: they are never written and never read
        q, k, v = F.pad(q, (0, pads[0])), F.pad(k, (0, pads[0])), F.pad(v, (0, pads[1]))
        state = F.pad(state, (0, pads[1], 0, pads[0]))
        g = F.pad(g, (0, pads[0])) if mechanism is KDA else g
    options = (mechanism.name, float(key_dim**-0.5 if scale is None else scale), _L2NORM_EPS if l2norm else -1.0, _NAMES[dtype])
    # Value columns know nothing of one another.
    parts = [
        torch_ops.delta_rule(q, k, columns, g.float(), beta, part, bounds, *options)
        for columns, part in zip(v.split(_WIDEST, -1), state.split(_WIDEST, -1), strict=True)
    ]
    output, final = parts[0] if len(parts) == 1 else (torch.cat(x, -1) for x in zip(*parts, strict=True))
    if pads != (0, 0):
        output, final = output[..., :value_dim], final[..., :key_dim, :value_dim]
    if not output_final_state:
        return output, None
    return output, final.mT.contiguous() if state_v_first else final
