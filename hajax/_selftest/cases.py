"""What `hajax selftest` runs: members of the delta-rule family as conformance cases, and the small operators of their layers."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from hajax import conformance

_FAMILY = {
    "gated_delta_rule": "gdn", "kda": "kda", "delta_rule": "delta", "gated_linear_attention": "gla", "retention": "ret",
    "linear_attention": "lin", "gated_delta_rule_2": "gdn2",
}  # fmt: skip
_SMALL = (
    ("gated_delta_rule", "T=256 Hk=2 Hv=4 Dk=128 Dv=128"),
    ("gated_delta_rule", "T=150 B=2 Hk=1 Hv=2 Dk=64 Dv=64 lengths=150,70"),
    ("gated_delta_rule", "T=200 Hk=1 Hv=2 Dk=128 Dv=128 cu=0,64,65,200"),
    ("gated_delta_rule", "T=1 B=4 Hk=4 Hv=8 Dk=128 Dv=128"),
    ("kda", "T=256 Hk=2 Hv=2 Dk=128 Dv=128"),
    ("kda", "T=150 B=2 Hk=1 Hv=2 Dk=64 Dv=64 lengths=150,70"),
    ("kda", "T=200 Hk=1 Hv=2 Dk=128 Dv=128 cu=0,64,65,200"),
    ("kda", "T=1 B=4 Hk=4 Hv=4 Dk=128 Dv=128"),
    ("delta_rule", "T=100 Hk=1 Hv=2 Dk=64 Dv=64"),
    ("gated_linear_attention", "T=100 Hk=1 Hv=2 Dk=64 Dv=64"),
    ("retention", "T=100 Hk=1 Hv=2 Dk=64 Dv=64"),
    ("linear_attention", "T=100 Hk=1 Hv=2 Dk=64 Dv=64"),
    ("gated_delta_rule_2", "T=100 Hk=1 Hv=2 Dk=64 Dv=64"),
)
# Sizes of models that are known, for timings: the cost model is calibrated with them.
_LARGE = (
    ("gated_delta_rule", "T=1024 Hk=16 Hv=16 Dk=128 Dv=128"),
    ("gated_delta_rule", "T=4096 Hk=16 Hv=32 Dk=128 Dv=128"),
    ("gated_delta_rule", "T=1 Hk=16 Hv=32 Dk=128 Dv=128"),
    ("kda", "T=1024 Hk=32 Hv=32 Dk=128 Dv=128"),
    ("kda", "T=4096 Hk=32 Hv=32 Dk=128 Dv=128"),
    ("kda", "T=1 Hk=32 Hv=32 Dk=128 Dv=128"),
)
_LONGEST_CHECKED = 256  # tokens: the recurrence in fp64 takes minutes for long ones, which are held to these in the small cases


@dataclasses.dataclass(frozen=True, slots=True)
class Small:
    """A small operator: its arguments, and what it gives in fp64."""

    op: str
    text: str
    arrays: Mapping[str, np.ndarray]
    options: Mapping[str, Any]
    expected: tuple[np.ndarray, ...]


def family(large: bool) -> tuple[tuple[str, conformance.Case], ...]:
    """Operators and cases, in float16."""
    rows = (*_SMALL, *_LARGE) if large else _SMALL
    return tuple((op, conformance.parse(f"{text} dtype=float16 op={_FAMILY[op]}")) for op, text in rows)


def expected_of(case: conformance.Case, arrays: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray] | None:
    """Output and final states in fp64; None for a case that is there for its time only."""
    if case.tokens > _LONGEST_CHECKED:
        return None
    return conformance.recurrence(arrays, delta=case.mechanism.delta)


def kernel_arrays(case: conformance.Case, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray | None]:
    """A case's arrays in the kernel's form: a state for every sequence, and bounds."""
    if case.cu is not None:
        bounds = np.array([case.cu], np.int32)
    else:
        ends = np.asarray(arrays.get("lengths", np.full(case.batch, case.tokens)))
        bounds = np.stack([np.zeros_like(ends), ends], axis=1).astype(np.int32)
    states = (case.batch, bounds.shape[1] - 1, case.value_heads, case.key_dim, case.value_dim)
    beta = np.stack([arrays["erase"], arrays["beta"]], axis=-1) if "erase" in arrays else arrays["beta"]
    return {
        **{name: arrays[name] for name in ("query", "key", "value")},
        "log_decay": arrays.get("log_decay"),
        "beta": beta,
        "state_in": arrays["initial_state"].reshape(states),
        "bounds": bounds,
    }


def small() -> tuple[Small, ...]:
    """The short convolution of a prompt and of a step, and the norms, in float16."""
    rng = np.random.default_rng(0)

    def draw(*shape: int) -> np.ndarray:
        return rng.normal(size=shape).astype(np.float16)

    return (
        _convolution("B=2 T=130 C=256 K=4", draw(2, 130, 256), draw(256, 4), draw(2, 3, 256)),
        _convolution("B=4 T=1 C=512 K=4", draw(4, 1, 512), draw(512, 4), draw(4, 3, 512)),
        _l2norm("rows=64 D=128", draw(64, 128)),
        _gated_rms_norm("rows=64 D=128", draw(64, 128), draw(64, 128), draw(128)),
    )


def _convolution(text: str, x: np.ndarray, weight: np.ndarray, state: np.ndarray) -> Small:
    wide = np.concatenate([state, x], 1).astype(np.float64)
    tokens, taps = x.shape[1], weight.shape[1]
    summed = sum(wide[:, tap : tap + tokens] * weight[:, tap].astype(np.float64) for tap in range(taps))
    arrays = {"x": x, "weight": weight, "initial_state": state}
    return Small("causal_conv1d", text, arrays, {"activation": "silu"}, (_silu(np.asarray(summed)), wide[:, tokens:]))


def _l2norm(text: str, x: np.ndarray) -> Small:
    wide = x.astype(np.float64)
    return Small("l2norm", text, {"x": x}, {}, (wide / np.sqrt((wide * wide).sum(-1, keepdims=True) + 1e-6),))


def _gated_rms_norm(text: str, x: np.ndarray, gate: np.ndarray, weight: np.ndarray) -> Small:
    wide, gates, weights = (array.astype(np.float64) for array in (x, gate, weight))
    normal = wide / np.sqrt((wide * wide).mean(-1, keepdims=True) + 1e-6)
    return Small("gated_rms_norm", text, {"x": x, "gate": gate, "weight": weight}, {}, (weights * normal * _silu(gates),))


def _silu(x: np.ndarray) -> np.ndarray:
    return np.asarray(x / (1 + np.exp(-x)))
