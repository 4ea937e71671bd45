"""The fused kernel on a torch device's tensors and its current stream: libhajax_ascend with data pointers.

What the kernel reads is made by torch operators on the device: rows normalised if asked, cast to float16, saturating, head dims
padded to multiples of 16, gates by head with zeros behind each sequence. Nothing is read back. `bounds` decide what is launched
and are wanted in host memory; of bounds on the device one copy is made, which waits for the device, unless the same tensor came
before. Plans and what a call needs besides its arrays lie on the device and are kept for each problem and its bounds.
"""

import contextlib
import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from hajax import planner
from hajax.backends import ascend
from hajax.backends._gates import LEAST_LOG_DECAY, gate_tokens
from hajax.backends.library import Library
from hajax.mechanisms import MECHANISMS, Mechanism
from hajax.npu.torch_ops import check
from hajax.plans import Shape, to_bytes
from hajax.targets import NpuTarget

_CUBE = 16  # rows and columns of a fractal
_MOST_HALF = 65504.0
_ALIGNMENT = 32
_MOST_PLANS, _MOST_CALLS = 512, 4096


class Device(Protocol):
    """What a launch needs of a device; one instance a device, as plans and calls are kept by instance."""

    def __hash__(self) -> int:
        """By identity."""

    @property
    def library(self) -> Library:
        """libhajax_ascend, or the emulated one."""

    @property
    def target(self) -> NpuTarget:
        """The chip to plan for."""

    def current(self) -> contextlib.AbstractContextManager[Any]:
        """The device is the thread's current one meanwhile."""

    def records(self) -> bool:
        """Whether launches are recorded into a graph now, to be run again later."""

    def launch(self, call: ascend.PreparedCall, arrays: Mapping[str, Tensor]) -> None:
        """Launches on the device's current stream, with tensors by the names of `PreparedCall.launch`."""


class NpuDevice:
    """A device of torch_npu."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.library = ascend.open_ascend_library()
        with self.current():
            self.target = ascend.target_of(ascend.soc_name(self.library))

    def current(self) -> contextlib.AbstractContextManager[Any]:
        """As Device."""
        return torch.npu.device(self.number)

    def records(self) -> bool:
        """As Device."""
        return bool(torch.npu.is_current_stream_capturing())

    def launch(self, call: ascend.PreparedCall, arrays: Mapping[str, Tensor]) -> None:
        """As Device."""
        addresses = {name: tensor.data_ptr() for name, tensor in arrays.items()}
        # Asking for the stream drains torch_npu's own queue of launches: only then is what follows in order.
        call.launch(**addresses, stream=int(torch.npu.current_stream().npu_stream))


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class _Ready:
    """A call that was prepared, and where its gates' entries come from: None when they are all tokens in order."""

    call: ascend.PreparedCall
    entries: Tensor | None


def launch(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    log_decay: Tensor,
    beta: Tensor,
    state: Tensor,
    bounds: Tensor,
    *,
    mechanism: str,
    scale: float,
    l2norm_eps: float,
    output_dtype: str,
    state_out: Tensor | None = None,
    device: Device | None = None,
) -> Tensor:
    """The output [B, T, Hv, Dv] of the operands of `hajax::delta_rule`; final states go to `state_out`, by default to `state`.

    Raises ValueError and TypeError for operands that do not fit, NotImplementedError for what the chip has not, MemoryError, and
    the errors of `hajax.backends.ascend`.
    """
    operands = (query, key, value, log_decay, beta, state, bounds)
    shape, dtype = check(operands, mechanism, output_dtype)
    for name, one in (("query", shape.input_dtype), ("output_dtype", output_dtype)):
        if one == "bfloat16":
            raise NotImplementedError(f"{name}: expected float16 or float32, as the 310P has no bfloat16, got bfloat16")
    final = state if state_out is None else state_out
    if final.shape != state.shape or final.dtype != state.dtype or final.device != state.device:
        expected = f"{state.dtype}{list(state.shape)} on {state.device}, as the state"
        raise ValueError(f"state_out: expected {expected}, got {final.dtype}{list(final.shape)} on {final.device}")
    if 0 in value.shape or 0 in query.shape:
        if final is not state:
            final.copy_(state)
        return value.new_zeros(value.shape, dtype=dtype)
    device = device or _npu_device(query.device.index or 0)
    with device.current():
        try:
            output = _launch(device, operands, final, MECHANISMS[mechanism], shape, scale, l2norm_eps)
        except ascend.DeviceLostError:
            forget()
            raise
    return output[..., : shape.value_dim].to(dtype)


def _results(states: Tensor, state: Tensor, final: Tensor, in_place: bool) -> Tensor:
    """Where the kernel writes final states: over those that it reads where it may, else into `final` if it lies as they do."""
    same = final.data_ptr() == state.data_ptr()
    if in_place and (same or states is not state):
        return states
    if not same and final.shape == states.shape and final.is_contiguous() and final.data_ptr() % _ALIGNMENT == 0:
        return final
    return states.new_empty(states.shape)


_recorded: set[_Ready] = set()  # what graphs refer to, for as long as the process lasts: nobody says when a graph goes


def forget() -> None:
    """Gives up plans and calls that are kept for later launches. Graphs with launches must not be run any more."""
    _recorded.clear()
    _ready.cache_clear()
    _placed.cache_clear()


def _launch(
    device: Device, operands: tuple[Tensor, ...], final: Tensor, mechanism: Mechanism, shape: Shape, scale: float, eps: float
) -> Tensor:
    query, key, value, log_decay, beta, state, bounds = operands
    padded = _padded(shape)
    ends = _on_host(bounds)
    ready = _ready(device, mechanism, padded, ends.tobytes(), ends.shape[0], scale, value.device)
    if device.records():
        _recorded.add(ready)
    if eps >= 0:
        query, key = (_normalised(x, eps) for x in (query, key))
    arrays = {name: _rows(x) for name, x in (("query", query), ("key", key), ("value", value))}
    arrays |= _gates(ready, mechanism, log_decay, beta)
    arrays["output"] = value.new_empty((*value.shape[:3], padded.value_dim), dtype=torch.float16)
    arrays["workspace"] = value.new_empty(ready.call.needs.workspace_bytes, dtype=torch.uint8)
    states = _placed_state(state, padded)
    results = _results(states, state, final, ready.call.needs.in_place)
    device.launch(ready.call, arrays | {"state_in": states, "state_out": results})
    if results is not final:
        final.copy_(results[:, :, : shape.key_dim, : shape.value_dim])
    return arrays["output"]


@functools.lru_cache(maxsize=64)
def _npu_device(number: int) -> NpuDevice:
    return NpuDevice(number)


@functools.lru_cache(maxsize=_MOST_PLANS)
def _placed(device: Device, mechanism: Mechanism, shape: Shape) -> ascend.PlacedPlan:
    return ascend.PlacedPlan(device.library, to_bytes(planner.plan(mechanism, shape, device.target)), device.target)


@functools.lru_cache(maxsize=_MOST_CALLS)
def _ready(device: Device, mechanism: Mechanism, shape: Shape, ends: bytes, batch: int, scale: float, on: torch.device) -> _Ready:
    bounds, tokens = np.frombuffer(ends, np.int32).reshape(batch, -1), shape.tokens
    assert tokens is not None  # a chip's plan is for so many
    call = _placed(device, mechanism, shape).prepare(tokens, bounds, scale)
    entries = gate_tokens(bounds, tokens, call.needs.chunk)
    if np.array_equal(entries, np.arange(batch * tokens)):
        return _Ready(call, None)
    return _Ready(call, torch.from_numpy(entries).to(on))


_host_copies: Any = WeakIdKeyDictionary()  # of bounds on a device: the version that was copied, and the copy


def _on_host(bounds: Tensor) -> np.ndarray:
    if bounds.device.type == "cpu":
        return np.ascontiguousarray(bounds.numpy())
    version = None if bounds.is_inference() else bounds._version
    known = _host_copies.get(bounds)
    if known is None or version is None or known[0] != version:
        known = _host_copies[bounds] = (version, np.ascontiguousarray(bounds.cpu().numpy()))
    copy: np.ndarray = known[1]
    return copy


@functools.lru_cache(maxsize=_MOST_PLANS)
def _padded(shape: Shape) -> Shape:
    """The problem as the kernel solves it."""
    dims = {name: -(-size // _CUBE) * _CUBE for name, size in (("key_dim", shape.key_dim), ("value_dim", shape.value_dim))}
    return dataclasses.replace(shape, input_dtype="float16", output_dtype="float16", **dims)


def _as_placed(x: Tensor) -> Tensor:
    x = x.contiguous()
    return x if x.data_ptr() % _ALIGNMENT == 0 else x.clone()


def _normalised(x: Tensor, eps: float) -> Tensor:
    wide = x.float()
    return wide * torch.rsqrt((wide * wide).sum(-1, keepdim=True) + eps)


def _rows(x: Tensor) -> Tensor:
    """As the kernel takes them: float16, whole fractals. Numbers beyond float16's range become the largest there are."""
    if x.dtype != torch.float16:
        x = x.clamp(-_MOST_HALF, _MOST_HALF).half()
    if behind := -x.shape[-1] % _CUBE:
        x = torch.nn.functional.pad(x, (0, behind))
    return _as_placed(x)


def _gates(ready: _Ready, mechanism: Mechanism, log_decay: Tensor, beta: Tensor) -> dict[str, Tensor]:
    """log_decay, beta and erase as tensors.def has them."""
    heads = log_decay.shape[2]
    gates: dict[str, Tensor] = {"beta": beta}
    if mechanism.strengths == 2:
        gates = {"beta": beta[..., 1], "erase": beta[..., 0]}
    if mechanism.decay == "scalar":
        gates["log_decay"] = log_decay.clamp(min=LEAST_LOG_DECAY)
    rows = torch.cat([gate.reshape(-1, heads) for gate in gates.values()], 1) if len(gates) > 1 else beta.reshape(-1, heads)
    if ready.entries is None:
        by_head = rows.t().contiguous()
    else:
        by_head = torch.nn.functional.pad(rows, (0, 0, 0, 1)).t().index_select(1, ready.entries)
    made = {name: by_head[heads * i : heads * (i + 1)] for i, name in enumerate(gates)}
    if mechanism.decay == "per_channel":
        held = log_decay.clamp(min=LEAST_LOG_DECAY)
        made["log_decay"] = _as_placed(torch.nn.functional.pad(held, (0, -held.shape[-1] % _CUBE)))
    elif mechanism.decay == "none":
        made["log_decay"] = torch.zeros_like(made["beta"])
    return made


def _placed_state(state: Tensor, padded: Shape) -> Tensor:
    """The state itself where the kernel can take it as it lies."""
    rows, columns = padded.key_dim - state.shape[-2], padded.value_dim - state.shape[-1]
    if rows or columns:
        return torch.nn.functional.pad(state, (0, columns, 0, rows))
    return _as_placed(state)
