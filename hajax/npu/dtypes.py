"""JAX dtypes as torch holds them, and arrays from one to the other.

torch computes in few unsigned types, so uint16 and uint32 are held in the next wider signed one, and only converted at the
boundary. Typed random keys are their two words, in a last axis of 2.
"""

import functools
from typing import Any

import jax
import ml_dtypes
import numpy as np
import torch

from hajax.npu import _compat

HELD = {
    "bool": torch.bool,
    "int8": torch.int8,
    "int16": torch.int16,
    "int32": torch.int32,
    "int64": torch.int64,
    "uint8": torch.uint8,
    "uint16": torch.int32,
    "uint32": torch.int64,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "float64": torch.float64,
    "complex64": torch.complex64,
    "complex128": torch.complex128,
}
_OUTSIDE = {"uint16": torch.uint16, "uint32": torch.uint32}
_SIGNED = {"uint16": torch.int16, "uint32": torch.int32}
_KEY_WORDS = 2


class Unsupported(NotImplementedError):
    """What a torch program cannot do, named when it is planned."""


def held(dtype: Any) -> torch.dtype:
    """The torch dtype that holds values of a JAX dtype. Raises Unsupported."""
    if _compat.is_key(dtype):
        if _compat.key_name(dtype) != "fry":
            raise Unsupported(f"random keys: expected threefry2x32, got {dtype}")
        return torch.int64
    name = str(dtype)
    if name not in HELD:
        raise Unsupported(f"dtype: expected one of {', '.join(HELD)}, got {name}")
    return HELD[name]


def held_shape(aval: Any) -> tuple[int, ...]:
    """The shape of the tensor that holds values of an abstract value. Raises Unsupported for a symbolic one."""
    shape = tuple(aval.shape)
    if not all(isinstance(size, int) for size in shape):
        raise Unsupported(f"shape: expected sizes that are known when planning, got {shape}")
    return (*shape, _KEY_WORDS) if _compat.is_key(aval.dtype) else shape


def wrap(x: torch.Tensor, dtype: Any) -> torch.Tensor:
    """Integers modulo the size of an unsigned dtype, for those that are held wider."""
    bits = {"uint16": 16, "uint32": 32}.get(str(dtype))
    return x if bits is None else x & ((1 << bits) - 1)


def constant(value: Any, dtype: Any, device: torch.device) -> torch.Tensor:
    """A jaxpr's literal or constant on the device."""
    if isinstance(value, torch.Tensor):
        return value.to(device)
    if _compat.is_key(dtype):
        value = jax.random.key_data(value)
    return to_torch(np.asarray(value), device)


def to_torch(array: Any, device: torch.device) -> torch.Tensor:
    """A numpy or JAX array as a program holds it, copied."""
    if isinstance(array, jax.Array) and _compat.is_key(array.dtype):
        array = jax.random.key_data(array)
    host = np.array(array, order="C")
    kind = held(host.dtype)
    if host.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(host.view(np.int16)).view(torch.bfloat16).to(device)
    if str(host.dtype) in _OUTSIDE:
        return torch.from_numpy(host.astype(np.int64)).to(kind).to(device)
    return torch.from_numpy(host.astype(host.dtype.newbyteorder("="), copy=False)).to(device)


def shared(array: jax.Array, device: torch.device) -> torch.Tensor:
    """As `to_torch`, on the CPU in the array's own memory where it lies whole on one device. To be read only."""
    plain = not _compat.is_key(array.dtype) and str(array.dtype) not in _OUTSIDE
    if device.type != "cpu" or not plain or len(array.devices()) != 1 or next(iter(array.devices())).platform != "cpu":
        return to_torch(array, device)
    return torch.from_dlpack(jax.block_until_ready(array))


def enter(tensor: torch.Tensor, dtype: Any, device: torch.device) -> torch.Tensor:
    """A caller's tensor as a program holds it."""
    name = str(dtype)
    if name in _OUTSIDE:
        if tensor.dtype == _OUTSIDE[name]:
            tensor = tensor.view(_SIGNED[name])
        return wrap(tensor.to(device).to(HELD[name]), dtype)
    return tensor.to(device=device, dtype=held(dtype))


def leave(tensor: torch.Tensor, dtype: Any) -> Any:
    """A result as a caller sees it: unsigned types as such, keys as JAX keys."""
    if _compat.is_key(dtype):
        words = (tensor.cpu().numpy() & 0xFFFFFFFF).astype(np.uint32)
        return jax.random.wrap_key_data(jax.numpy.asarray(words), impl="threefry2x32")
    name = str(dtype)
    return tensor.to(_SIGNED[name]).view(_OUTSIDE[name]) if name in _OUTSIDE else tensor


def changes_on_leaving(dtype: Any) -> bool:
    """Whether `leave` has anything to do."""
    return _compat.is_key(dtype) or str(dtype) in _OUTSIDE


def jax_dtype(kind: torch.dtype) -> np.dtype[Any]:
    """The JAX dtype of a caller's tensor; 64-bit types are 32-bit ones unless jax_enable_x64 is set. Raises Unsupported."""
    return _jax_dtype(kind, _compat.wide_types())


@functools.cache
def _jax_dtype(kind: torch.dtype, wide: bool) -> np.dtype[Any]:
    name = str(kind).removeprefix("torch.")
    if name not in HELD:  # torch and JAX have one name for each
        raise Unsupported(f"dtype: expected a tensor of one of {', '.join(sorted(HELD))}, got {name}")
    wanted = np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)
    return np.dtype(jax.dtypes.canonicalize_dtype(wanted))
