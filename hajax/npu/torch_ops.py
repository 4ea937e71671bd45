"""The delta-rule family as torch operators: `hajax::delta_rule` and, with the state updated in place, `hajax::delta_rule_`.

Operands as those of the JAX primitive (hajax.ops._primitive): query, key [B, T, Hk, Dk] and value [B, T, Hv, Dv] of one dtype,
log_decay and beta fp32, state fp32 [B * N, Hv, Dk, Dv], bounds int32[B, N + 1]; `mechanism` is a name of hajax.mechanisms,
l2norm_eps < 0 takes rows as they are. On the CPU libhajax_cpu works on the tensors' memory; on an Ascend device the fused kernel.
Importing this module registers them.
"""

import functools
from collections.abc import Callable
from typing import Any

try:
    import torch
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ImportError("hajax.npu.torch_ops needs torch, which is not installed: pip install torch", name="torch") from error
from torch import Tensor
from torch.autograd import forward_ad

from hajax.backends import cpu
from hajax.mechanisms import MECHANISMS
from hajax.npu import delta_rule_reference
from hajax.plans import Shape

_OPERANDS = ("query", "key", "value", "log_decay", "beta", "state", "bounds")
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}
_OPTIONS = "str mechanism, float scale, float l2norm_eps, str output_dtype"
_TOKENS = "Tensor query, Tensor key, Tensor value, Tensor log_decay, Tensor beta"

_library = torch.library.Library("hajax", "DEF")
for _schema in (
    f"delta_rule({_TOKENS}, Tensor state, Tensor bounds, {_OPTIONS}) -> (Tensor, Tensor)",
    f"delta_rule_({_TOKENS}, Tensor(a!) state, Tensor bounds, {_OPTIONS}) -> Tensor",
    f"delta_rule_backward(Tensor grad_output, Tensor grad_state, {_TOKENS}, Tensor state, Tensor bounds, {_OPTIONS})"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
):
    _library.define(_schema, tags=(torch.Tag.pt2_compliant_tag,))
del _schema


@functools.lru_cache(maxsize=4096)
def _signature(
    shapes: tuple[torch.Size, ...], dtypes: tuple[torch.dtype, ...], mechanism: str, output_dtype: str
) -> tuple[Shape, torch.dtype]:
    """The problem that operands of these shapes pose, and the output's dtype; raises where they pose none."""
    query, key, value, log_decay, beta, state, bounds = shapes
    if mechanism not in MECHANISMS:
        raise ValueError(f"mechanism: expected one of {', '.join(MECHANISMS)}, got {mechanism!r}")
    if output_dtype not in DTYPES:
        raise ValueError(f"output_dtype: expected one of {', '.join(DTYPES)}, got {output_dtype!r}")
    for name, shape, axes in (("query", query, "B, T, Hk, Dk"), ("value", value, "B, T, Hv, Dv"), ("bounds", bounds, "B, N + 1")):
        if len(shape) != len(axes.split(", ")):
            raise ValueError(f"{name}: expected [{axes}], got {list(shape)}")
    (batch, tokens, key_heads, key_dim), (value_heads, value_dim) = query, value[2:]
    sequences, member = bounds[1] - 1, MECHANISMS[mechanism]
    if key_heads < 1 or value_heads < 1 or value_heads % key_heads:
        raise ValueError(f"value: expected Hv to be a positive multiple of the query's Hk={key_heads}, got Hv={value_heads}")
    if sequences < 1:
        raise ValueError(f"bounds: expected [B, N + 1] with N >= 1, got {list(bounds)}")
    gates = (batch, tokens, value_heads)
    expected = {
        "key": (key, tuple(query)),
        "value": (value, (*gates, value_dim)),
        "log_decay": (log_decay, (*gates, key_dim) if member.decay == "per_channel" else gates),
        "beta": (beta, gates if member.strengths == 1 else (*gates, 2)),
        "state": (state, (batch * sequences, value_heads, key_dim, value_dim)),
        "bounds": (bounds, (batch, sequences + 1)),
    }
    for name, (got, wanted) in expected.items():
        if tuple(got) != wanted:
            raise ValueError(f"{name}: expected {list(wanted)}, got {list(got)}")
    if dtypes[0] not in _NAMES:
        raise TypeError(f"query: expected one of {', '.join(DTYPES)}, got {dtypes[0]}")
    real = torch.float32
    for name, got, wanted in zip(
        _OPERANDS[1:], dtypes[1:],
        (dtypes[0], dtypes[0], real, real, real, torch.int32), strict=True,
    ):  # fmt: skip
        if got != wanted:
            raise TypeError(f"{name}: expected {wanted}, got {got}")
    shape = Shape(batch, tokens, sequences, key_heads, value_heads, key_dim, value_dim, _NAMES[dtypes[0]], output_dtype)
    return shape, DTYPES[output_dtype]


def _check_devices(operands: tuple[Tensor, ...]) -> None:
    """All on one device; the bounds may stay on the host."""
    device, bounds = operands[0].device, operands[6].device
    if any(x.device != device for x in operands[:6]) or (bounds != device and bounds.type != "cpu"):
        found = ", ".join(f"{name} on {x.device}" for name, x in zip(_OPERANDS, operands, strict=True))
        raise ValueError(f"operands: expected all on one device, got {found}")


def check(operands: tuple[Tensor, ...], mechanism: str, output_dtype: str) -> tuple[Shape, torch.dtype]:
    """The problem of these seven operands, and the output's dtype. Raises ValueError or TypeError naming what does not fit."""
    _check_devices(operands)
    return _signature(tuple(x.shape for x in operands), tuple(x.dtype for x in operands), mechanism, output_dtype)


@functools.lru_cache(maxsize=4096)
def _prepared(
    shapes: tuple[torch.Size, ...], dtypes: tuple[torch.dtype, ...], mechanism: str, output_dtype: str, threads: int
) -> tuple[cpu.Launch | None, tuple[int | None, ...], torch.dtype]:
    """The CPU's launch, None where there is nothing to do; B, T and N; the output's dtype."""
    shape, dtype = _signature(shapes, dtypes, mechanism, output_dtype)
    empty = 0 in shapes[0] or 0 in shapes[2]
    launch = None if empty else cpu.launch_of(MECHANISMS[mechanism], shape, threads)
    return launch, (shape.batch, shape.tokens, shape.sequences), dtype


def _run_cpu(args: tuple[Any, ...], state_out: Tensor) -> Tensor:
    """Writes the final state to `state_out`, which may be the state, and returns the output."""
    operands, (mechanism, scale, eps, output_dtype) = args[:7], args[7:]
    shapes, dtypes = tuple([x.shape for x in operands]), tuple([x.dtype for x in operands])
    launch, sizes, dtype = _prepared(shapes, dtypes, mechanism, output_dtype, torch.get_num_threads())
    output = torch.empty(shapes[2], dtype=dtype)
    if launch is None:
        if state_out is not operands[5]:
            state_out.copy_(operands[5])
        return output
    held = [x if x.is_contiguous() else x.contiguous() for x in operands]  # no copy of what lies row-major
    addresses = [x.data_ptr() for x in held]
    cpu.run(launch, sizes, (*addresses, output.data_ptr(), state_out.data_ptr()), scale, eps)
    return output


def _delta_rule_cpu(*args: Any) -> tuple[Tensor, Tensor]:
    state_out = torch.empty(args[5].shape, dtype=torch.float32)
    return _run_cpu(args, state_out), state_out


def _updates_in_place(operands: tuple[Tensor, ...]) -> bool:
    """Whether a kernel may write to the memory of the state: row-major, and no other row-major operand lies there."""
    state = operands[5]
    if not state.is_contiguous():
        return False
    start = state.data_ptr()
    end = start + state.nbytes
    return all(x is state or x.data_ptr() >= end or x.data_ptr() + x.nbytes <= start or not x.is_contiguous() for x in operands)


def _in_place(run: Callable[[tuple[Any, ...], Tensor], Tensor], args: tuple[Any, ...]) -> Tensor:
    """`run` with its final state in the state itself, by way of a copy where a kernel may not write there."""
    state = args[5]
    if _updates_in_place(args[:7]):
        return run(args, state)
    own = state.clone(memory_format=torch.contiguous_format)
    output = run((*args[:5], own, *args[6:]), own)
    state.copy_(own)
    return output


def _delta_rule_in_place_cpu(*args: Any) -> Tensor:
    return _in_place(_run_cpu, args)


def _delta_rule_npu(*args: Any) -> tuple[Tensor, Tensor]:
    state_out = torch.empty_like(args[5], memory_format=torch.contiguous_format)
    return _launch_npu(args, state_out), state_out


def _delta_rule_in_place_npu(*args: Any) -> Tensor:
    return _in_place(_launch_npu, args)


def _launch_npu(args: tuple[Any, ...], state_out: Tensor) -> Tensor:
    from hajax.npu import ascend

    mechanism, scale, eps, output_dtype = args[7:]
    output: Tensor = ascend.launch(
        *args[:7], mechanism=mechanism, scale=scale, l2norm_eps=eps, output_dtype=output_dtype, state_out=state_out
    )
    return output


def _delta_rule_fake(*args: Any) -> tuple[Tensor, Tensor]:
    return _delta_rule_in_place_fake(*args), torch.empty_like(args[5], memory_format=torch.contiguous_format)


def _delta_rule_in_place_fake(*args: Any) -> Tensor:
    _check_devices(args[:7])
    value, output_dtype = args[2], args[10]
    if output_dtype not in DTYPES:
        raise ValueError(f"output_dtype: expected one of {', '.join(DTYPES)}, got {output_dtype!r}")
    return value.new_empty(value.shape, dtype=DTYPES[output_dtype])


def _backward_by_recomputing(grad_output: Tensor, grad_state: Tensor, *args: Any) -> tuple[Tensor, ...]:
    """On any device: the torch operators of the reference, differentiated by autograd."""
    operands, (mechanism, scale, eps, output_dtype) = args[:7], args[7:]
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutogradFunctionality)
    # A kernel runs below autograd, which is to record here.
    include, exclude = torch._C._dispatch_tls_local_include_set(), torch._C._dispatch_tls_local_exclude_set()
    with torch._C._ForceDispatchKeyGuard(include, exclude - keys), torch.enable_grad():
        leaves = [x.detach().requires_grad_() for x in operands[:6]]
        query, key, value, log_decay, beta, state = leaves
        results = delta_rule_reference.delta_rule(
            query, key, value, log_decay, beta, state, operands[6],
            mechanism=MECHANISMS[mechanism], scale=scale, l2norm_eps=None if eps < 0 else eps, output_dtype=DTYPES[output_dtype],
        )  # fmt: skip
        grads = torch.autograd.grad(results, leaves, (grad_output, grad_state), allow_unused=True)
    return tuple(torch.zeros_like(x) if g is None else g.contiguous() for x, g in zip(operands[:6], grads, strict=True))


def _backward_fake(grad_output: Tensor, grad_state: Tensor, *args: Any) -> tuple[Tensor, ...]:
    return tuple(torch.empty_like(x, memory_format=torch.contiguous_format) for x in args[:6])


def _refuse_forward_mode(name: str, operands: tuple[Tensor, ...]) -> None:
    if forward_ad._current_level >= 0 and any(forward_ad.unpack_dual(x).tangent is not None for x in operands):
        raise NotImplementedError(
            f"hajax::{name}: expected a derivative in reverse mode, got an operand with a forward-mode tangent"
        )


class _DeltaRule(torch.autograd.Function):
    @staticmethod
    def forward(*args: Any) -> tuple[Tensor, Tensor]:
        with torch._C._AutoDispatchBelowAutograd():
            return delta_rule(*args)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.save_for_backward(*inputs[:7])
        ctx.options = inputs[7:]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return (*torch.ops.hajax.delta_rule_backward(*grads, *ctx.saved_tensors, *ctx.options), None, None, None, None, None)


def _delta_rule_autograd(*args: Any) -> tuple[Tensor, Tensor]:
    _refuse_forward_mode("delta_rule", args[:6])
    if torch.is_grad_enabled() and any(x.requires_grad for x in args[:6]):
        if torch._C._are_functorch_transforms_active():
            raise NotImplementedError("hajax::delta_rule: expected a gradient by torch.autograd, got a transform of torch.func")
        result: tuple[Tensor, Tensor] = _DeltaRule.apply(*args)  # type: ignore[no-untyped-call]
        return result
    with torch._C._AutoDispatchBelowAutograd():
        return delta_rule(*args)


def _refuse_second(ctx: Any, *gradients: Tensor) -> Any:
    raise NotImplementedError("hajax::delta_rule: expected a first derivative, got a derivative of its gradient")


def _delta_rule_in_place_autograd(*args: Any) -> Tensor:
    _refuse_forward_mode("delta_rule_", args[:6])
    if torch.is_grad_enabled() and any(x.requires_grad for x in args[:6]):
        raise RuntimeError(
            "hajax::delta_rule_ overwrites its state and has no gradient; use hajax::delta_rule, or torch.no_grad()"
        )
    with torch._C._AutoDispatchBelowAutograd():
        output: Tensor = delta_rule_(*args)
    return output


def _counts_a_version(keyset: Any, *args: Any) -> Tensor:
    """What autograd saved of the state is old from here on, and says so when it is used."""
    torch.autograd.graph.increment_version(args[5])
    output: Tensor = delta_rule_.redispatch(keyset & torch._C._after_ADInplaceOrView_keyset, *args)
    return output


_library.impl("delta_rule", _delta_rule_cpu, "CPU")
_library.impl("delta_rule_", _delta_rule_in_place_cpu, "CPU")
_library.impl("delta_rule", _delta_rule_npu, "PrivateUse1")
_library.impl("delta_rule_", _delta_rule_in_place_npu, "PrivateUse1")
_library.impl("delta_rule_backward", _backward_by_recomputing, "CompositeExplicitAutograd")
_library.impl("delta_rule", _delta_rule_autograd, "Autograd")
_library.impl("delta_rule_", _delta_rule_in_place_autograd, "Autograd")
_library.impl("delta_rule_", _counts_a_version, "ADInplaceOrView", with_keyset=True)
torch.library.register_fake("hajax::delta_rule", _delta_rule_fake, lib=_library)
torch.library.register_fake("hajax::delta_rule_", _delta_rule_in_place_fake, lib=_library)
torch.library.register_fake("hajax::delta_rule_backward", _backward_fake, lib=_library)
torch.library.register_autograd("hajax::delta_rule_backward", _refuse_second, lib=_library)

delta_rule = torch.ops.hajax.delta_rule.default
delta_rule_ = torch.ops.hajax.delta_rule_.default
