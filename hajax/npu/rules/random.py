"""Random bits: threefry2x32 partitionable, the words that JAX draws. Salmon et al., "Parallel random numbers", 2011."""

import functools
import math
from typing import Any

import jax
import torch

from hajax.npu import _compat
from hajax.npu.dtypes import Unsupported
from hajax.npu.rules.registry import Context, Operation, refuse, rule

_WORD = 0xFFFFFFFF
_PARITY = 0x1BD11BDA
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def threefry(key: tuple[Any, Any], counts: tuple[Any, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """Twenty rounds of threefry2x32 on words held in int64."""
    words = (key[0], key[1], key[0] ^ key[1] ^ _PARITY)
    first, second = (counts[0] + words[0]) & _WORD, (counts[1] + words[1]) & _WORD
    for group in range(5):
        for turn in _ROTATIONS[group % 2]:
            first = (first + second) & _WORD
            second = (((second << turn) | (second >> (32 - turn))) & _WORD) ^ first
        first = (first + words[(group + 1) % 3]) & _WORD
        second = (second + words[(group + 2) % 3] + group + 1) & _WORD
    return first, second


def _check_partitionable() -> None:
    if not _compat.partitionable_threefry():
        raise Unsupported("random bits: expected jax_threefry_partitionable, the default, to be set")


def _counted(key: torch.Tensor, shape: tuple[int, ...], device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Two words for each of `shape` and each key [..., 2], shapes [..., *shape]."""
    places = torch.arange(math.prod(shape), device=device)
    words = threefry((key[..., 0, None], key[..., 1, None]), (torch.zeros_like(places), places))
    first, second = (word.reshape((*key.shape[:-1], *shape)) for word in words)
    return first, second


@rule("random_bits", fresh=True, keys=True)
def _bits(equation: Any, context: Context) -> Any:
    _check_partitionable()
    shape, width = equation.params["shape"], equation.params["bit_width"]
    if width == 64 or math.prod(shape) > _WORD:
        raise refuse(equation, f"{width} bits of shape {shape}")
    kind = {8: torch.uint8, 16: torch.int32, 32: torch.int64}[width]

    def draw(key: torch.Tensor) -> torch.Tensor:
        first, second = _counted(key, shape, context.device)
        return ((first ^ second) & ((1 << width) - 1)).to(kind)

    return draw


@rule("random_gamma", fresh=True, keys=True)
def _gamma(equation: Any, context: Context) -> Any:
    """As JAX computes it, by rejection: a loop that waits for the device."""
    avals = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in equation.invars]
    draw = context.plan(jax.make_jaxpr(functools.partial(equation.primitive.impl, **equation.params))(*avals))
    return Operation(lambda *xs: draw(*xs)[0], syncs=bool(draw.syncs))


@rule("random_split", fresh=True, keys=True)
def _split(equation: Any, context: Context) -> Any:
    _check_partitionable()
    shape = tuple(equation.params["shape"])
    return lambda key: torch.stack(_counted(key, shape, context.device), -1)


@rule("random_fold_in", fresh=True, keys=True)
def _fold_in(equation: Any, context: Context) -> Any:
    def fold(key: torch.Tensor, data: torch.Tensor) -> torch.Tensor:
        word = data.to(torch.int64) & _WORD
        return torch.stack(threefry((key[..., 0], key[..., 1]), (torch.zeros_like(word), word)), -1)

    return fold


@rule("random_seed", fresh=True, keys=True)
def _seed(equation: Any, context: Context) -> Any:
    def seed(number: torch.Tensor) -> torch.Tensor:
        wide = number.to(torch.int64)
        high = (wide >> 32) & _WORD if number.dtype == torch.int64 and _is_wide(equation) else torch.zeros_like(wide)
        return torch.stack((high, wide & _WORD), -1)

    return seed


def _is_wide(equation: Any) -> bool:
    return str(equation.invars[0].aval.dtype) in ("int64", "uint64")


@rule("random_wrap", "random_unwrap", "random_clone", keys=True)
def _words(equation: Any, context: Context) -> Any:
    return Operation(lambda x: x, view=True, identity=True)
