"""A model's sizes from a Hugging Face config.json: Qwen3.5, Kimi Linear, Ling 3.0; also from a nested text_config."""

import os
from collections.abc import Callable, Mapping
from typing import Any

from hajax.whole_model.named import NO_MTP, ROUTER, TEXT_ONLY
from hajax.whole_model.sizes import Attention, DeltaRule, Experts, FeedForward, LatentAttention, Layer, Mixer, Mlp, Model

MOST_LAYERS = 1024
_FULL, _LINEAR = "full_attention", "linear_attention"


def model_from_file(path: str | os.PathLike[str]) -> Model:
    """Reads a config.json, or that of a folder. Raises OSError, or ValueError naming the file and the key."""
    from hajax.models._json import read_json  # brings JAX with it

    try:
        return model_from_config(read_json(path), name=os.fspath(path))
    except ValueError as error:
        text = str(error)
        raise ValueError(text if os.fspath(path) in text else f"{os.fspath(path)}: {text}") from None


def model_from_config(data: Mapping[str, Any], name: str = "config.json") -> Model:
    """The model of a config.json's mapping."""
    text = data.get("text_config", data)
    if not isinstance(text, Mapping):
        raise ValueError(f"config text_config: expected a mapping, got {type(text).__name__}")
    for mapping in (data, text):
        kind = mapping.get("model_type")
        if isinstance(kind, str) and kind in _READERS:
            return _READERS[kind](data, text, name)
    raise ValueError(f"config model_type: expected one of {', '.join(_READERS)}, got {data.get('model_type')!r}")


def _qwen(data: Mapping[str, Any], _: Mapping[str, Any], name: str) -> Model:
    from hajax.models.qwen3_5.config import LINEAR, Config

    config = Config.from_dict(data)
    linear: Mixer = DeltaRule(
        "gated_delta_rule", config.linear_num_key_heads, config.linear_num_value_heads, config.linear_key_head_dim,
        config.linear_value_head_dim, config.linear_conv_kernel_dim,
    )  # fmt: skip
    full: Mixer = Attention(config.num_attention_heads, config.num_key_value_heads, config.head_dim, config.rotary_dim)
    feed_forward = Mlp(config.intermediate_size)
    layers = tuple(Layer(linear if kind == LINEAR else full, feed_forward) for kind in config.layer_types)
    return Model(name, config.hidden_size, config.vocab_size, config.tie_word_embeddings, layers, (TEXT_ONLY,))


def _kimi_linear(_: Mapping[str, Any], text: Mapping[str, Any], name: str) -> Model:
    linear = text.get("linear_attn_config", {})
    if not isinstance(linear, Mapping):
        raise ValueError(f"config linear_attn_config: expected a mapping, got {type(linear).__name__}")
    count = _layers(text)
    heads = _size(linear, "num_heads") if "num_heads" in linear else _size(text, "linear_num_heads")
    dim = _size(linear, "head_dim") if "head_dim" in linear else _size(text, "linear_head_dim")
    short = "short_conv_kernel_size"
    taps = _size(linear, short) if short in linear else _size(text, "linear_conv_kernel_dim")
    delta: Mixer = DeltaRule("kda", heads, heads, dim, dim, taps, gate_rank=dim)
    rotates = text.get("mla_use_nope") is False  # transformers' class never rotates, and saves no such key
    return _latent_model(text, name, delta, _kimi_kinds(text, linear, count), rotates=rotates, head_gate=False, notes=())


def _kimi_kinds(text: Mapping[str, Any], linear: Mapping[str, Any], count: int) -> tuple[str, ...]:
    if "full_attn_layers" in linear:
        numbers = linear["full_attn_layers"]
        if not _are_layers(numbers, count):
            raise ValueError(f"config linear_attn_config.full_attn_layers: expected layers from 1 to {count}, got {numbers!r}")
        others = linear.get("kda_layers")
        wanted = [number for number in range(1, count + 1) if number not in numbers]
        if others is not None and (not _are_layers(others, count) or sorted(others) != wanted):
            raise ValueError(
                f"config linear_attn_config.kda_layers: expected {wanted}, those without full attention, got {others!r}"
            )
        return tuple(_FULL if number in numbers else _LINEAR for number in range(1, count + 1))
    return _kinds(text, "layer_types", count)


def _are_layers(numbers: Any, count: int) -> bool:
    """Whether these are some of the layers 1 to count, each once."""
    if not isinstance(numbers, (list, tuple)):
        return False
    whole = all(isinstance(one, int) and not isinstance(one, bool) and 1 <= one <= count for one in numbers)
    return whole and len(set(numbers)) == len(numbers)


def _bailing(_: Mapping[str, Any], text: Mapping[str, Any], name: str) -> Model:
    count, heads = _layers(text), _size(text, "num_attention_heads")
    dim = _size(text, "head_dim", default=128)
    if dim == _size(text, "qk_rope_head_dim"):
        dim = _size(text, "linear_head_dim", default=128)  # transformers saves the rotated dims under the name of the heads'
    if text.get("no_kda_lora", True) is not True:
        raise ValueError(f"config no_kda_lora: expected true (gates of full rank), got {text['no_kda_lora']!r}")
    linear: Mixer = DeltaRule(
        "kda", heads, heads, dim, dim, _size(text, "short_conv_kernel_size", "linear_conv_kernel_dim", default=4),
        bounded=bool(text.get("kda_safe_gate", True)),
    )  # fmt: skip
    if "layer_types" in text:
        kinds = _kinds(text, "layer_types", count)
    else:
        group = _size(text, "layer_group_size")
        kinds = tuple(_LINEAR if (number + 1) % group else _FULL for number in range(count))
    return _latent_model(text, name, linear, kinds, rotates=True, head_gate=True, notes=(NO_MTP, ROUTER))


def _latent_model(
    text: Mapping[str, Any], name: str, linear: Mixer, kinds: tuple[str, ...], *, rotates: bool, head_gate: bool,
    notes: tuple[str, ...],
) -> Model:  # fmt: skip
    full: Mixer = LatentAttention(
        _size(text, "num_attention_heads"), None if text.get("q_lora_rank") is None else _size(text, "q_lora_rank"),
        _size(text, "kv_lora_rank"), _size(text, "qk_nope_head_dim"), _size(text, "qk_rope_head_dim"),
        _size(text, "v_head_dim"), rotates=rotates, head_gate=head_gate,
    )  # fmt: skip
    if text.get("moe_layer_freq", 1) not in (1, None):
        raise ValueError(
            f"config moe_layer_freq: expected 1 (experts in every layer behind the dense ones), got {text['moe_layer_freq']!r}"
        )
    dense: FeedForward = Mlp(_size(text, "intermediate_size"))
    sparse: FeedForward = Experts(
        _size(text, "num_experts", "num_local_experts"), _size(text, "num_experts_per_tok", "num_experts_per_token"),
        _size(text, "num_shared_experts", "n_shared_experts", least=0), _size(text, "moe_intermediate_size"),
    )  # fmt: skip
    if "mlp_layer_types" in text:
        few = [kind == "dense" for kind in _kinds(text, "mlp_layer_types", len(kinds), ("dense", "sparse"))]
    else:
        first = _size(text, "first_k_dense_replace", least=0)
        few = [number < first for number in range(len(kinds))]
    layers = tuple(
        Layer(full if kind == _FULL else linear, dense if is_dense else sparse) for kind, is_dense in zip(kinds, few, strict=True)
    )
    tied = text.get("tie_word_embeddings", False)
    if not isinstance(tied, bool):
        raise ValueError(f"config tie_word_embeddings: expected true or false, got {tied!r}")
    return Model(name, _size(text, "hidden_size"), _size(text, "vocab_size"), tied, layers, notes)


def _layers(text: Mapping[str, Any]) -> int:
    count = _size(text, "num_hidden_layers")
    if count > MOST_LAYERS:
        raise ValueError(f"config num_hidden_layers: expected at most {MOST_LAYERS}, got {count}")
    return count


def _size(mapping: Mapping[str, Any], *names: str, default: int | None = None, least: int = 1) -> int:
    """The integer under the first of the names that is there."""
    for name in names:
        if mapping.get(name) is not None:
            value = mapping[name]
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= 1 << 24:
                raise ValueError(f"config {name}: expected an integer from {least} to {1 << 24}, got {value!r}")
            return value
    if default is None:
        raise ValueError(f"config {' or '.join(names)}: missing")
    return default


def _kinds(
    text: Mapping[str, Any], name: str, count: int, allowed: tuple[str, ...] = (_FULL, _LINEAR)
) -> tuple[str, ...]:  # fmt: skip
    kinds = text.get(name)
    if kinds is None:
        raise ValueError(f"config {name}: missing")
    if not isinstance(kinds, (list, tuple)) or len(kinds) != count or any(kind not in allowed for kind in kinds):
        raise ValueError(f"config {name}: expected {count} entries, each {' or '.join(allowed)}, got {kinds!r}")
    return tuple(kinds)


_READERS: dict[str, Callable[[Mapping[str, Any], Mapping[str, Any], str], Model]] = {
    "qwen3_5": _qwen,
    "qwen3_5_text": _qwen,
    "kimi_linear": _kimi_linear,
    "bailing_hybrid": _bailing,
}
