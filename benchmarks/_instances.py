"""The instances of accuracy.py: shapes and lengths from one list, gates, strengths, keys and states drawn from the number.

Each has so many output values that rounding them to fp16, an error of 4.3e-8 with some scatter, stays below the bound of 5.23e-8;
the shortest sequences therefore come in many rows and heads. A test holds this against the fp64 outputs.
"""

import dataclasses
import itertools
from collections.abc import Callable, Mapping

import numpy as np

Array = np.ndarray
Draw = Callable[[np.random.Generator, tuple[int, ...]], Array]
MECHANISMS = {"gdn": "gated_delta_rule", "kda": "kda"}

# (B, sequences a row, Hk, Hv, Dk, Dv) with the lengths T to try. Few heads go to cores as column pieces, many as whole pairs.
SHAPES: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((1, 1, 1, 1, 128, 128), (63, 65, 500, 1700, 4096)),
    ((1, 1, 1, 2, 128, 128), (16, 100, 640, 1024, 2500)),
    ((1, 1, 2, 2, 128, 128), (17, 129, 400, 1000, 2048)),
    ((1, 1, 1, 3, 128, 128), (12, 64, 191, 513, 1500)),
    ((1, 1, 3, 3, 128, 128), (14, 66, 192, 700, 1100)),
    ((1, 1, 1, 4, 128, 128), (11, 33, 127, 320, 1024)),
    ((1, 1, 2, 4, 128, 128), (10, 62, 128, 450, 800)),
    ((1, 1, 4, 4, 128, 128), (8, 80, 257, 512, 900)),
    ((2, 1, 1, 1, 128, 128), (31, 64, 321, 1023, 2047)),
    ((2, 1, 1, 2, 128, 128), (7, 48, 150, 385, 1200)),
    ((2, 1, 2, 4, 128, 128), (6, 61, 193, 256, 600)),
    ((3, 1, 2, 2, 128, 128), (9, 95, 160, 449, 704)),
    ((4, 1, 2, 4, 128, 128), (1, 15, 65, 130, 300)),
    ((6, 1, 1, 4, 128, 128), (1, 32, 63, 100, 190)),
    ((1, 1, 16, 16, 128, 128), (1, 64, 70, 128, 200)),
    ((1, 1, 8, 16, 128, 128), (2, 16, 97, 129, 256)),
    ((1, 3, 1, 1, 128, 128), (60, 190, 500, 900, 3000)),
    ((1, 4, 2, 2, 128, 128), (20, 131, 260, 600, 1280)),
    ((1, 6, 1, 2, 128, 128), (12, 200, 333, 777, 1600)),
    ((2, 3, 2, 4, 128, 128), (6, 90, 140, 270, 400)),
    ((1, 1, 2, 2, 64, 64), (40, 128, 350, 1000, 4000)),
    ((2, 1, 1, 2, 64, 128), (10, 64, 222, 480, 1024)),
    ((1, 1, 1, 4, 128, 64), (13, 96, 180, 512, 1100)),
    ((2, 2, 2, 4, 32, 48), (30, 110, 255, 640, 1000)),
    ((4, 1, 1, 1, 16, 16), (70, 200, 384, 1025, 2000)),
    ((1, 1, 2, 2, 96, 80), (24, 126, 300, 500, 1400)),
    ((1, 1, 2, 4, 112, 16), (50, 161, 220, 576, 1000)),
)  # fmt: skip
KEYS = ("random", "silu", "half_alike", "alike", "few", "identical")
STRENGTHS = ("sigmoid", "high", "one", "edges")


@dataclasses.dataclass(frozen=True, slots=True)
class Instance:
    """One problem. `number` and mechanism seed what is drawn."""

    number: int
    mechanism: str
    batch: int
    sequences: int
    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    tokens: int
    decay: str
    keys: str
    strength: str
    state: bool

    def __str__(self) -> str:
        return (
            f"#{self.number} {self.mechanism} B={self.batch} N={self.sequences} T={self.tokens} Hk={self.key_heads} "
            f"Hv={self.value_heads} Dk={self.key_dim} Dv={self.value_dim} decay={self.decay} keys={self.keys} "
            f"beta={self.strength} state={int(self.state)}"
        )


def _softplus(x: Array) -> Array:
    return np.logaddexp(0, x)


def _usual(random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """As models initialise it: a rate of 0 to 16 a head, steps of 1e-3 to 0.1."""
    step = np.exp(random.uniform(np.log(1e-3), np.log(0.1), shape[2:]))
    bias = step + np.log(-np.expm1(-step))
    return -random.uniform(0, 16, shape[2:3]).reshape(-1, *[1] * (len(shape) - 3)) * _softplus(random.normal(size=shape) + bias)


def _rare(random: np.random.Generator, shape: tuple[int, ...], chance: float, strong: Array | float) -> Array:
    return np.where(random.random(shape) < chance, strong, -1e-3)


SCALAR_DECAYS: Mapping[str, Draw] = {
    "none": lambda r, s: np.zeros(s),
    "weak": lambda r, s: -1e-3 * _softplus(r.normal(size=s)),
    "usual": _usual,
    "sigmoid": lambda r, s: -_softplus(-r.normal(size=s)),
    "strong": lambda r, s: -r.uniform(2, 8, s),
    "total": lambda r, s: -r.uniform(50, 150, s),
    "gusts": lambda r, s: _rare(r, s, 0.05, -r.uniform(20, 60, s)),
    "resets": lambda r, s: _rare(r, s, 0.1, -300.0),
    "cuts": lambda r, s: _rare(r, s, 0.03, r.choice([-1e4, -np.inf], s)),
    "mixed": lambda r, s: r.choice([0, -1e-4, -1e-3, -5, -20, -300, -1e4], s, p=[0.3, 0.2, 0.2, 0.1, 0.1, 0.06, 0.04]),
}
CHANNEL_DECAYS: Mapping[str, Draw] = {
    **SCALAR_DECAYS,
    "wide": lambda r, s: -r.uniform(1, 16, (s[2], 1)) * _softplus(r.normal(size=s) + r.uniform(-9, 2, s[2:])),
    "bounded": lambda r, s: -5 / (1 + np.exp(-2 * r.normal(size=s) - r.uniform(-4, 2, s[2:]))),
    "near_bound": lambda r, s: -5 / (1 + np.exp(-4 - r.normal(size=s))),
    "uneven": lambda r, s: -r.uniform(2, 30, s),
}
DECAYS = {"gdn": SCALAR_DECAYS, "kda": CHANNEL_DECAYS}


def instances(mechanism: str, count: int) -> tuple[Instance, ...]:
    """The first `count`, in an order of which every start is a fair sample. Equal arguments give equal instances."""
    random = np.random.default_rng(list(MECHANISMS).index(mechanism))
    places = [(shape, tokens) for shape, lengths in SHAPES for tokens in lengths]
    turns = itertools.cycle([places[i] for i in random.permutation(len(places))])
    decays = itertools.cycle(DECAYS[mechanism])
    found = []
    for number in range(count):
        shape, tokens = next(turns)
        keys, strength = KEYS[random.integers(len(KEYS))], STRENGTHS[random.integers(len(STRENGTHS))]
        state = bool(random.integers(2)) or tokens < 8  # of a few tokens alone, one head's output may hold all the energy
        found.append(Instance(number, mechanism, *shape, tokens, next(decays), keys, strength, state))
    return tuple(found)


def arrays_of(instance: Instance) -> dict[str, Array | None]:
    """What `hajax.backends.npu.execute` takes: fp16 rows of norm one, values, fp32 gates, strengths, states and bounds."""
    random = np.random.default_rng([instance.number, list(MECHANISMS).index(instance.mechanism)])
    lead = (instance.batch, instance.tokens)
    rows, heads = (*lead, instance.key_heads, instance.key_dim), (*lead, instance.value_heads)
    key = _rows(random, instance.keys, rows)
    query = _rows(random, "random" if instance.keys == "random" else "silu", rows)
    gates = (*heads, instance.key_dim) if instance.mechanism == "kda" else heads
    states = (instance.batch, instance.sequences, instance.value_heads, instance.key_dim, instance.value_dim)
    return {
        "query": query.astype(np.float16),
        "key": key.astype(np.float16),
        "value": random.normal(size=(*heads, instance.value_dim)).astype(np.float16),
        "log_decay": DECAYS[instance.mechanism][instance.decay](random, gates).astype(np.float32),
        "beta": _strength(random, instance.strength, heads).astype(np.float32),
        "state_in": (random.normal(size=states) * (0.3 * instance.state)).astype(np.float32),
        "bounds": _bounds(random, instance).astype(np.int32),
    }


def _rows(random: np.random.Generator, kind: str, shape: tuple[int, ...]) -> Array:
    drawn = random.normal(size=shape)
    if kind == "silu":
        drawn = drawn / (1 + np.exp(-drawn))
    elif kind in ("half_alike", "alike"):
        share = {"half_alike": 0.5, "alike": 0.9}[kind]
        common = _unit(random.normal(size=(shape[0], 1, *shape[2:])))
        drawn = np.sqrt(share) * common + np.sqrt(1 - share) * _unit(drawn)
    elif kind == "few":
        drawn = np.take_along_axis(drawn, random.integers(0, min(8, shape[1]), (*shape[:3], 1)), axis=1)
    elif kind == "identical":
        drawn = np.repeat(drawn[:, :1], shape[1], axis=1)
    return _unit(drawn)


def _unit(rows: Array) -> Array:
    return rows / np.sqrt((rows * rows).sum(-1, keepdims=True) + 1e-6)


def _strength(random: np.random.Generator, kind: str, shape: tuple[int, ...]) -> Array:
    drawn = random.normal(size=shape)
    if kind == "one":
        return np.ones(shape)
    if kind == "edges":
        return random.choice([0.0, 0.5, 1.0], shape)
    return 1 / (1 + np.exp(-drawn - (3 if kind == "high" else 0)))


def _bounds(random: np.random.Generator, instance: Instance) -> Array:
    """Sequences of drawn lengths, some of them perhaps empty; together all of a row, so that every output counts."""
    cuts = np.sort(random.integers(0, instance.tokens + 1, (instance.batch, instance.sequences - 1)), axis=1)
    ends = np.full((instance.batch, 1), instance.tokens)
    return np.concatenate([0 * ends, cuts, ends], axis=1)
