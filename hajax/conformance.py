"""A conformance case as a one-line string: drawn inputs, the fp64 token recurrence, and how far an implementation is from it.

The same strings serve the tests, `hajax check "<case>"` and the benchmarks, e.g.
`T=150 B=2 Hk=2 Hv=4 Dk=16 Dv=24 dtype=float32 decay=mixed lengths=150,70 op=kda`.
"""

import dataclasses
import functools
import itertools
import zlib
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from hajax.mechanisms import MECHANISMS, Mechanism

OPS = {
    "gdn": "gated_delta_rule",
    "kda": "kda",
    "delta": "delta_rule",
    "gla": "gated_linear_attention",
    "ret": "retention",
    "lin": "linear_attention",
    "gdn2": "gated_delta_rule_2",
}
DECAYS = ("none", "weak", "usual", "strong", "mixed", "resets", "infinite", "wide", "bounded")
BETAS = ("uniform", "zero", "one", "edges")
KEYS = ("random", "alike", "repeated", "zeros")
_DTYPES = {"float32": np.float32, "bfloat16": ml_dtypes.bfloat16, "float16": np.float16}
MOST_ELEMENTS = 2**27  # of one array: 1 GiB in fp64, of which the recurrence holds a few
_SIZES = ("tokens", "batch", "key_heads", "value_heads", "key_dim", "value_dim")
_CHOICES = {"dtype": tuple(_DTYPES), "decay": DECAYS, "beta": BETAS, "keys": KEYS, "op": tuple(OPS)}
_SHORT = {"B": "batch", "T": "tokens", "Hk": "key_heads", "Hv": "value_heads", "Dk": "key_dim", "Dv": "value_dim"}


@dataclasses.dataclass(frozen=True)
class Case:
    """One problem of a member of the family. `lengths` pads rows, `cu` packs sequences; `state` draws an initial state.

    Raises ValueError naming what is wrong when it is none.
    """

    tokens: int
    batch: int = 1
    key_heads: int = 1
    value_heads: int = 1
    key_dim: int = 16
    value_dim: int = 16
    dtype: str = "float32"
    decay: str = "usual"
    beta: str = "uniform"
    keys: str = "random"
    state: bool = True
    l2norm: bool = False
    lengths: tuple[int, ...] | None = None
    cu: tuple[int, ...] | None = None
    op: str = "gdn"

    def __post_init__(self) -> None:
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"case: expected {name} to be one of {allowed}, got {getattr(self, name)!r}")
        for name in _SIZES:
            if getattr(self, name) < 1:
                raise ValueError(f"case: expected {name} >= 1, got {getattr(self, name)}")
        if self.value_heads % self.key_heads:
            expected = f"a multiple of key_heads={self.key_heads}"
            raise ValueError(f"case: expected value_heads to be {expected}, got {self.value_heads}")
        for name in ("key_dim", "value_dim"):
            if getattr(self, name) % 8 or getattr(self, name) > 256:
                raise ValueError(f"case: expected {name} to be a multiple of 8 up to 256, got {getattr(self, name)}")
        _check_sequences(self)
        rows = self.batch if self.cu is None else len(self.cu) - 1
        width = max(self.key_dim, self.value_dim)
        arrays = (self.batch * self.tokens * self.value_heads * width, rows * self.value_heads * self.key_dim * self.value_dim)
        for which, elements in zip(("[B, T, Hv, max(Dk, Dv)]", "[sequences, Hv, Dk, Dv]"), arrays, strict=True):
            if elements > MOST_ELEMENTS:
                raise ValueError(f"case: expected at most {MOST_ELEMENTS} elements of {which}, got {elements}")

    @property
    def mechanism(self) -> Mechanism:
        return MECHANISMS[OPS[self.op]]

    def __str__(self) -> str:
        names = {long: short for short, long in _SHORT.items()}
        words = []
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value != field.default:
                text = ",".join(map(str, value)) if isinstance(value, tuple) else int(value) if isinstance(value, bool) else value
                words.append(f"{names.get(field.name, field.name)}={text}")
        return " ".join(words)


def _check_sequences(case: Case) -> None:
    lengths, cu, tokens = case.lengths, case.cu, case.tokens
    if lengths is not None and cu is not None:
        raise ValueError("case: expected at most one of lengths and cu, got both")
    if lengths is not None:
        if len(lengths) != case.batch:
            raise ValueError(f"case: expected one of lengths for each of B={case.batch} rows, got {len(lengths)}")
        if wrong := [length for length in lengths if not 0 <= length <= tokens]:
            raise ValueError(f"case: expected lengths from 0 to T={tokens}, got {wrong[0]}")
    if cu is not None:
        if case.batch != 1:
            raise ValueError(f"case: expected B=1 with cu, got B={case.batch}")
        if len(cu) < 2 or cu[0] != 0 or cu[-1] != tokens or any(a > b for a, b in itertools.pairwise(cu)):
            raise ValueError(f"case: expected cu to ascend from 0 to T={tokens}, got {','.join(map(str, cu))}")


def parse(text: str) -> Case:
    """The case that a string names. Raises ValueError naming the word that is wrong."""
    fields = {field.name: field for field in dataclasses.fields(Case)}
    values: dict[str, Any] = {}
    for word in text.split():
        short, equals, value = word.partition("=")
        name = _SHORT.get(short, short)
        if not equals or name not in fields:
            raise ValueError(f"case: expected NAME=VALUE with a name of {sorted({*fields, *_SHORT})}, got {word!r}")
        if name in values:
            raise ValueError(f"case: expected {short} once, got it again in {word!r}")
        try:
            if name in ("lengths", "cu"):
                values[name] = tuple(int(part) for part in value.split(","))
            elif name in _CHOICES:
                values[name] = value
            else:
                values[name] = int(value)
        except ValueError:
            raise ValueError(f"case: expected an integer after {short}=, got {value!r}") from None
    if "tokens" not in values:
        raise ValueError(f"case: expected T=<tokens>, got {text!r}")
    for name in ("state", "l2norm"):
        if name in values:
            if values[name] not in (0, 1):
                raise ValueError(f"case: expected {name} to be 0 or 1, got {values[name]}")
            values[name] = bool(values[name])
    return Case(**values)


def _log_decay(rng: np.random.Generator, kind: str, shape: tuple[int, ...]) -> np.ndarray:
    if kind == "wide":  # along the last axis, channels or heads, from none to strong
        rates = np.concatenate([[0.0], np.geomspace(1e-4, 50, shape[-1] - 1)])
        return (-rng.permutation(rates) * rng.uniform(0, 2, shape)).astype(np.float32)
    if kind == "bounded":
        return -rng.uniform(0, 5, shape).astype(np.float32)
    usual = -np.exp(rng.uniform(0, 2.77, shape)) * np.log1p(np.exp(rng.normal(0, 1, shape) - 3))
    chance = rng.random(shape)
    choices = {
        "none": np.zeros(shape),
        "weak": -rng.uniform(0, 1e-3, shape),
        "usual": usual,
        "strong": -rng.uniform(20, 80, shape),
        "mixed": rng.choice([0, -1e-4, -1e-3, -5, -20, -80, -1e4], shape, p=[0.3, 0.2, 0.2, 0.1, 0.1, 0.05, 0.05]),
        "resets": np.where(chance < 0.1, -300.0, usual),
        "infinite": np.where(chance < 0.05, -np.inf, usual),
    }
    return choices[kind].astype(np.float32)


def _keys(rng: np.random.Generator, kind: str, shape: tuple[int, ...]) -> np.ndarray:
    drawn = rng.normal(size=shape)
    if kind == "alike":
        drawn = drawn + 1.0
    elif kind == "repeated":
        drawn = np.repeat(drawn[:, : -(-shape[1] // 9)], 9, axis=1)[:, : shape[1]]
    elif kind == "zeros":
        drawn[:, ::3] = 0
    return drawn / np.maximum(np.linalg.norm(drawn, axis=-1, keepdims=True), 1e-6)


def _strength(rng: np.random.Generator, kind: str, shape: tuple[int, ...]) -> np.ndarray:
    choices = {
        "uniform": rng.uniform(0, 1, shape),
        "zero": np.zeros(shape),
        "one": np.ones(shape),
        "edges": rng.choice([0.0, 1.0, 0.5], shape),
    }
    return choices[kind].astype(np.float32)


def inputs(case: Case) -> dict[str, np.ndarray]:
    """Arrays for the operator, drawn from a seed that the case's text gives. With l2norm the rows are not normalised yet."""
    rng = np.random.default_rng(zlib.crc32(str(case).encode()))
    dtype = _DTYPES[case.dtype]
    lead = (case.batch, case.tokens)
    query, key = (_keys(rng, case.keys, (*lead, case.key_heads, case.key_dim)) for _ in range(2))
    if case.l2norm:
        query, key = (x * rng.uniform(0.1, 3, (*x.shape[:-1], 1)) for x in (query, key))
    heads = (*lead, case.value_heads)
    beta = _strength(rng, case.beta, heads)
    rows = case.batch if case.cu is None else len(case.cu) - 1
    arrays = {
        "query": query.astype(dtype),
        "key": key.astype(dtype),
        "value": rng.normal(size=(*heads, case.value_dim)).astype(dtype),
        "log_decay": _log_decay(rng, case.decay, (*heads, case.key_dim) if case.mechanism.decay == "per_channel" else heads),
        "beta": beta,
    }
    state = rng.normal(size=(rows, case.value_heads, case.key_dim, case.value_dim)).astype(np.float32)
    if case.mechanism.decay == "none":
        del arrays["log_decay"]
    if case.mechanism.strengths == 2:
        arrays["erase"] = _strength(rng, case.beta, heads)
    if case.state:
        arrays["initial_state"] = state
    if case.lengths is not None:
        arrays["lengths"] = np.array(case.lengths, np.int32)
    if case.cu is not None:
        arrays["cu_seqlens"] = np.array(case.cu, np.int32)
    return arrays


def recurrence(
    arrays: dict[str, np.ndarray], *, l2norm_eps: float | None = None, delta: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Output and final state of the definition, token by token in fp64, from the very inputs that the operator gets.

    Arrays that are not there mean what they mean to `hajax.linear_attention`.
    """
    wide = {n: np.asarray(x).astype(np.float64) for n, x in arrays.items() if n not in ("lengths", "cu_seqlens")}
    query, key, value = (wide[n] for n in ("query", "key", "value"))
    if l2norm_eps is not None:
        query, key = (x / np.sqrt((x * x).sum(-1, keepdims=True) + l2norm_eps) for x in (query, key))
    batch, tokens, value_heads, value_dim = value.shape
    write = wide.get("beta", np.ones(value.shape[:3]))
    erase = wide.get("erase", write) if delta else np.zeros(write.shape)
    log_decay = wide.get("log_decay", np.zeros(write.shape))
    decay = np.exp(log_decay if log_decay.ndim == 4 else log_decay[..., None])  # [B, T, Hv, Dk or 1]
    shared = value_heads // query.shape[2]
    query, key = (np.repeat(x, shared, axis=2) for x in (query, key))
    scale = query.shape[-1] ** -0.5
    if "cu_seqlens" in arrays:
        cu = arrays["cu_seqlens"]
        spans = [(0, int(a), int(b)) for a, b in itertools.pairwise(cu)]
    else:
        lengths = arrays.get("lengths", np.full(batch, tokens))
        spans = [(row, 0, int(n)) for row, n in enumerate(lengths)]
    output = np.zeros(value.shape)
    states = np.zeros((len(spans), value_heads, query.shape[-1], value_dim))
    if "initial_state" in arrays:
        states[:] = arrays["initial_state"]
    for n, (row, start, end) in enumerate(spans):
        state = states[n]
        for t in range(start, end):
            state[:] *= decay[row, t][:, :, None]
            known = np.einsum("hk,hkv->hv", key[row, t], state)
            update = write[row, t][:, None] * value[row, t] - erase[row, t][:, None] * known
            state[:] += key[row, t][:, :, None] * update[:, None, :]
            output[row, t] = scale * np.einsum("hk,hkv->hv", query[row, t], state)
    return output, states


def nmse(got: Any, expected: np.ndarray) -> float:
    """sum (got - expected)^2 / sum expected^2 in fp64; 0 for two zeros, infinity where `got` is not finite."""
    difference = np.asarray(got).astype(np.float64) - expected
    energy = float((expected * expected).sum())
    error = float((difference * difference).sum())
    if not np.isfinite(error):
        return float("inf")
    return error / energy if energy else (0.0 if error == 0 else float("inf"))


@dataclasses.dataclass(frozen=True)
class Result:
    """How far one implementation is from the recurrence: NMSE and largest absolute error of output and state."""

    case: str
    implementation: str
    output_nmse: float
    state_nmse: float
    output_max_error: float
    state_max_error: float


def operator(case: Case) -> Callable[..., Any]:
    """The public operator that computes a case from its `inputs`, given as keywords."""
    from hajax import ops

    if case.op in ("gdn", "kda"):
        return ops.gated_delta_rule if case.op == "gdn" else ops.kda
    return functools.partial(ops.linear_attention, delta=case.mechanism.delta)


def check(case: Case, implementation: str) -> Result:
    """Runs a case on an implementation of its operator and compares with the fp64 recurrence."""
    eps = 1e-6 if case.l2norm else None
    arrays: dict[str, Any] = dict(inputs(case))
    expected = recurrence(arrays, l2norm_eps=eps, delta=case.mechanism.delta)
    got = operator(case)(**arrays, l2norm_eps=eps, implementation=implementation)
    errors = [np.abs(np.asarray(g).astype(np.float64) - e).max(initial=0) for g, e in zip(got, expected, strict=True)]
    return Result(
        str(case), implementation, nmse(got[0], expected[0]), nmse(got[1], expected[1]), float(errors[0]), float(errors[1])
    )
