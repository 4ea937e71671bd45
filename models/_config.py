"""What the models' configs share: how keys of a config.json are read and checked, and with which words they are refused."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

LINEAR = "linear_attention"
FULL = "full_attention"

_MOST_LAYERS = 4096  # a list is made of them


def check_counts(config: object, names: Collection[str]) -> None:
    for name in names:
        value = getattr(config, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"config {name}: expected a positive integer, got {value!r}")


def check_numbers(config: object, names: Collection[str]) -> None:
    for name in names:
        value = getattr(config, name)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
            raise ValueError(f"config {name}: expected a positive number, got {value!r}")


def check_flags(config: object, names: Collection[str]) -> None:
    for name in names:
        value = getattr(config, name)
        if not isinstance(value, bool):
            raise ValueError(f"config {name}: expected true or false, got {value!r}")


def check_kinds(name: str, kinds: tuple[str, ...], allowed: tuple[str, str]) -> None:
    if not kinds:
        raise ValueError(f"config {name}: expected at least one layer, got none")
    for index, kind in enumerate(kinds):
        if kind not in allowed:
            raise ValueError(f"config {name}[{index}]: expected {allowed[0]!r} or {allowed[1]!r}, got {kind!r}")


def layer_count(text: Mapping[str, Any]) -> int | None:
    """num_hidden_layers; None when it is absent."""
    count = text.get("num_hidden_layers")
    if count is None:
        return None
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ValueError(f"config num_hidden_layers: expected a positive integer, got {count!r}")
    if count > _MOST_LAYERS:
        raise ValueError(f"config num_hidden_layers: expected at most {_MOST_LAYERS}, got {count}")
    return count


def listed_kinds(text: Mapping[str, Any], name: str, count: int | None) -> tuple[str, ...] | None:
    """A list of one kind a layer; None when it is absent."""
    kinds = text.get(name)
    if kinds is None:
        return None
    if not isinstance(kinds, (list, tuple)):
        raise ValueError(f"config {name}: expected a list, got {kinds!r}")
    if count is not None and len(kinds) != count:
        raise ValueError(f"config {name}: expected num_hidden_layers={count} entries, got {len(kinds)}")
    return tuple(kinds)


def positive(text: Mapping[str, Any], name: str) -> int:
    value = text[name]
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"config {name}: expected a positive integer, got {value!r}")
    return value


def rope_of(text: Mapping[str, Any], kinds: tuple[str, ...]) -> Mapping[str, Any]:
    """rope_parameters, whose type must be one of `kinds`, with a rope_theta in it or beside it."""
    rope = text.get("rope_parameters") or text.get("rope_scaling") or {}
    if not isinstance(rope, Mapping):
        raise ValueError(f"config rope_parameters: expected a mapping, got {rope!r}")
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind not in kinds:
        raise ValueError(f"config rope_parameters.rope_type: expected {kinds[0]!r}, got {kind!r}")
    theta = rope.get("rope_theta", text.get("rope_theta"))
    if theta is None:
        raise ValueError("config rope_parameters.rope_theta: missing")
    return {**rope, "rope_theta": theta}


def refuse_others(text: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Keys that change a model in a way that is not modelled; an absent key, or null, stands for what is expected."""
    for name, wanted in expected.items():
        found = text.get(name)
        if found is not None and found != wanted:
            raise ValueError(f"config {name}: expected {wanted!r} (nothing else is supported), got {found!r}")


def require(text: Mapping[str, Any], names: Collection[str]) -> None:
    missing = [name for name in names if name not in text]
    if missing:
        raise ValueError(f"config {missing[0]}: missing (all missing keys: {', '.join(missing)})")


def token_ids(value: Any, name: str) -> tuple[int, ...]:
    """An eos_token_id entry (absent, one id, or a list) as a tuple. Raises ValueError that begins with `name`."""
    if value is None:
        return ()
    found = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    for token in found:
        if isinstance(token, bool) or not isinstance(token, int):
            raise ValueError(f"{name}: expected an integer or a list of them, got {token!r}")
    return found


def token_entry(tokens: tuple[int, ...]) -> int | list[int] | None:
    """The inverse of `token_ids`."""
    return tokens[0] if len(tokens) == 1 else list(tokens) or None
