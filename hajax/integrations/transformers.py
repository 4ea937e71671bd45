"""`patch_transformers()`: Qwen3.5, Qwen3-Next, Kimi Linear and Ling models of transformers on hajax's kernels.

transformers looks its delta-rule and convolution functions up in each model's module when a layer runs, and a layer's `forward`
in its class. Both are replaced, so models built before a patch are patched as well; what was compiled, exported or wrapped
object by object before is not. Training takes hajax's operators with their gradients, inference on a CPU whole layers; what hajax
does not serve (another device, dtype or activation, packed sequences with a cache) runs as transformers has it.
"""

import contextlib
import dataclasses
import importlib
import threading
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self

import torch
from torch import Tensor

from hajax.integrations import _delta_layers, _model_layers
from hajax.integrations._layers import owned

_GATED_DELTA = {
    "torch_chunk_gated_delta_rule": _delta_layers.gated_delta_rule,
    "torch_recurrent_gated_delta_rule": _delta_layers.gated_delta_rule,
}
_KIMI_DELTA = {
    "chunk_kimi_delta_attention": _delta_layers.kimi_delta_attention,
    "recurrent_kimi_delta_attention": _delta_layers.kimi_delta_attention,
}
_CONV = {"causal_conv1d_fn": _delta_layers.causal_conv1d}

Forward = Callable[..., Any]


def _qwen3_5_project(module: Any, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return module.in_proj_qkv(x), owned(module.in_proj_z, x), module.in_proj_b(x), module.in_proj_a(x)


def _qwen3_next_project(module: Any, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    parts = module.fix_query_key_value_ordering(owned(module.in_proj_qkvz, x), module.in_proj_ba(x))
    query, key, value, z, b, a = parts
    return torch.cat([y.flatten(2) for y in (query, key, value)], dim=-1), z, b, a


def _qwen3_5_net(original: Forward) -> Forward:
    return _delta_layers.gated_delta_net(original, _qwen3_5_project)


def _qwen3_next_net(original: Forward) -> Forward:
    return _delta_layers.gated_delta_net(original, _qwen3_next_project)


def _kimi_net(original: Forward) -> Forward:
    return _delta_layers.kimi_delta_net(original, lambda module, x: owned(module.g_b_proj, module.g_a_proj(x)))


def _ling_net(original: Forward) -> Forward:
    return _delta_layers.kimi_delta_net(original, lambda module, x: owned(module.g_proj, x))


@dataclasses.dataclass(frozen=True, slots=True)
class _Family:
    """What is replaced in a model's module: functions by name, and the forward of classes by name."""

    module: str
    functions: Mapping[str, Callable[[Any], Any]]
    classes: Mapping[str, Callable[[Any], Any]]


_MLP, _CENTRED, _PLAIN = _model_layers.mlp, _model_layers.centred_norm, _model_layers.plain_norm
_FAMILIES = (
    _Family("qwen3_5", _GATED_DELTA | _CONV, {
        "Qwen3_5GatedDeltaNet": _qwen3_5_net, "Qwen3_5MLP": _MLP, "Qwen3_5RMSNorm": _CENTRED,
        "Qwen3_5Attention": _model_layers.gated_attention,
    }),
    _Family("qwen3_5_moe", _GATED_DELTA | _CONV, {
        "Qwen3_5MoeGatedDeltaNet": _qwen3_5_net, "Qwen3_5MoeMLP": _MLP, "Qwen3_5MoeRMSNorm": _CENTRED,
        "Qwen3_5MoeAttention": _model_layers.gated_attention,
    }),
    _Family("qwen3_next", _GATED_DELTA | _CONV, {
        "Qwen3NextGatedDeltaNet": _qwen3_next_net, "Qwen3NextMLP": _MLP, "Qwen3NextRMSNorm": _CENTRED,
        "Qwen3NextAttention": _model_layers.gated_attention,
    }),
    _Family("kimi_linear", _KIMI_DELTA | _CONV, {
        "KimiLinearDeltaAttention": _kimi_net, "KimiLinearMLP": _MLP, "KimiLinearRMSNorm": _PLAIN,
    }),
    _Family("bailing_hybrid", _KIMI_DELTA | _CONV, {
        "BailingHybridDeltaAttention": _ling_net, "BailingHybridMLP": _MLP, "BailingHybridRMSNorm": _PLAIN,
    }),
)  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class _Replaced:
    owner: Any
    name: str
    original: Any


_lock = threading.Lock()
_replaced: list[_Replaced] = []
_holders: set[int] = set()


class Patch:
    """A patch that is on: `undo()` takes it off, as leaving a `with` block does. The last holder's undo restores transformers."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.undo()

    def undo(self) -> None:
        """Gives transformers its own functions back, unless another patch is on; a second call does nothing."""
        with _lock:
            if id(self) not in _holders:
                return
            _holders.discard(id(self))
            _holding.pop(id(self))
            if not _holders:
                while _replaced:
                    one = _replaced.pop()
                    setattr(one.owner, one.name, one.original)


_holding: dict[int, Patch] = {}  # so that no two patches that are on share an id


def patch_transformers() -> Patch:
    """Makes the models named above use hajax; returns what undoes it, at will as a context manager.

    Raises ImportError without transformers, RuntimeError for a transformers that has none of these models or has them otherwise.
    """
    patch = Patch()
    with _lock:
        if not _holders:
            _replaced.extend(_replace_all())
        _holders.add(id(patch))
        _holding[id(patch)] = patch
    return patch


def _replace_all() -> list[_Replaced]:
    done: list[_Replaced] = []
    try:
        for family, module in _modules():
            for name, make in family.functions.items():
                done.append(_replace(module, name, make))
            for name, make in family.classes.items():
                done.append(_replace(getattr(module, name), "forward", make))
    except AttributeError as error:
        for one in reversed(done):
            setattr(one.owner, one.name, one.original)
        version = importlib.import_module("transformers").__version__
        raise RuntimeError(
            f"patch_transformers: transformers {version} has its models otherwise than expected: {error}"
        ) from None
    return done


def _modules() -> Iterator[tuple[_Family, Any]]:
    importlib.import_module("transformers")
    found = False
    for family in _FAMILIES:
        with contextlib.suppress(ModuleNotFoundError):
            module = importlib.import_module(f"transformers.models.{family.module}.modeling_{family.module}")
            found = True
            yield family, module
    if not found:
        raise RuntimeError(f"patch_transformers: transformers has none of {', '.join(family.module for family in _FAMILIES)}")


def _replace(owner: Any, name: str, make: Callable[[Any], Any]) -> _Replaced:
    original = getattr(owner, name)
    setattr(owner, name, make(original))
    return _Replaced(owner, name, original)
