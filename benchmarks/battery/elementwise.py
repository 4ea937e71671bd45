"""Element by element: floats at their edges, integers at theirs, conversions and bits."""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from battery.case import (
    BF16,
    F16,
    F32,
    F64,
    FLOATS,
    INTEGERS,
    SIGNED,
    UNSIGNED,
    Program,
    all_pairs,
    array,
    fixed,
    normal,
    over,
    special,
    whole_edges,
)  # fmt: skip
from jax import lax


def _each(function: Any) -> Any:
    """The function of each of its arguments, one for each dtype."""
    return lambda *xs: [function(x) for x in xs]


def _specials(*more: float) -> Any:
    return fixed(*(np.concatenate([special(kind), array(more, kind)]) for kind in FLOATS))


def _inside(low: float, high: float) -> Any:
    """Edges, and points of an interval."""
    return fixed(
        *(np.concatenate([special(kind)[:5], np.linspace(low, high, 41).astype(np.float32).astype(kind)]) for kind in FLOATS)
    )


# What libraries give for functions of one float: each within 4 ulps of the true value, so 8 from one another, unless said.
_UNARY: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "abs": (jnp.abs, _specials(), {"ulps": 0, "signs": True}),
    "acos": (jnp.arccos, _inside(-1, 1), {"floor": 1.0}),
    "acosh": (jnp.arccosh, _inside(1, 60), {"floor": 1.0}),
    "asin": (jnp.arcsin, _inside(-1, 1), {}),
    "asinh": (jnp.arcsinh, _inside(-60, 60), {"floor": 1.0}),
    "atan": (jnp.arctan, _specials(), {}),
    "atanh": (jnp.arctanh, _inside(-0.96875, 0.96875), {}),
    "cbrt": (jnp.cbrt, _specials(27.0, -27.0, 8.0), {}),
    "ceil": (jnp.ceil, _specials(), {"ulps": 0, "signs": True}),
    "cos": (jnp.cos, _inside(-40, 40), {"floor": 1.0}),
    "cosh": (jnp.cosh, _inside(-10, 10), {}),
    "digamma": (jax.scipy.special.digamma, _inside(0.25, 20), {"floor": 4.0}),
    "erf": (jax.scipy.special.erf, _specials(), {}),
    "erf_inv": (jax.scipy.special.erfinv, _inside(-1, 1), {}),
    "erfc": (jax.scipy.special.erfc, _inside(-3, 3), {"ulps": 16}),
    "exp": (jnp.exp, _specials(), {}),
    "exp2": (jnp.exp2, _specials(), {"ulps": 96}),  # XLA has exp(x log 2), whose argument of up to 88 is off by half an ulp
    "expm1": (jnp.expm1, _specials(1e-6), {}),
    "floor": (jnp.floor, _specials(), {"ulps": 0, "signs": True}),
    "frexp": (jnp.frexp, _specials(), {"ulps": 0}),
    "bessel_i0": (jnp.i0, _inside(-8, 8), {}),
    "bessel_i1e": (jax.scipy.special.i1e, _inside(-8, 8), {}),
    "is_finite": (jnp.isfinite, _specials(), {}),
    "isinf isnan signbit": (lambda x: (jnp.isinf(x), jnp.isnan(x), jnp.signbit(x), jnp.isposinf(x)), _specials(), {}),
    "lgamma": (jax.scipy.special.gammaln, _inside(0.25, 20), {"floor": 4.0}),
    "log": (jnp.log, _specials(), {"floor": 1.0}),
    "log1p": (jnp.log1p, _specials(1e-6, -0.5), {}),
    "log2": (jnp.log2, _specials(), {"floor": 1.0}),
    "log10": (jnp.log10, _specials(), {"floor": 1.0}),
    "logistic": (jax.nn.sigmoid, _specials(), {}),
    "modf": (jnp.modf, _specials(), {"ulps": 0}),
    "nan_to_num": (jnp.nan_to_num, _specials(), {"ulps": 0}),
    "neg": (jnp.negative, _specials(), {"ulps": 0, "signs": True}),
    "reciprocal": (jnp.reciprocal, _specials(), {"ulps": 1}),
    "round": (jnp.round, _specials(), {"ulps": 0, "signs": True}),
    "round away": (lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO), _specials(0.49999997), {"ulps": 0, "signs": True}),
    "rsqrt": (lax.rsqrt, _specials(), {}),
    "sign": (jnp.sign, _specials(), {"ulps": 0, "signs": True}),
    "sin": (jnp.sin, _inside(-40, 40), {"floor": 1.0}),
    "sinc": (jnp.sinc, _inside(-4, 4), {"floor": 1.0}),
    "sinh": (jnp.sinh, _inside(-10, 10), {}),
    "sqrt": (jnp.sqrt, _specials(), {"ulps": 1}),
    "square": (jnp.square, _specials(), {"ulps": 1}),
    "tan": (jnp.tan, _inside(-1.5, 1.5), {}),
    "tanh": (jnp.tanh, _specials(), {}),
    "trunc": (jnp.trunc, _specials(), {"ulps": 0, "signs": True}),
    "integer_pow": (lambda x: (x**2, x**3, x**5, x**-1, x**-3, x**0), _inside(-3, 3), {}),
    "sqrt of square": (lambda x: jnp.sqrt(x * x + 1) - 1, _inside(-3, 3), {"floor": 4.0}),
    "cumulative activations": (
        lambda x: (jax.nn.silu(x), jax.nn.relu(x), jax.nn.relu6(x), jax.nn.softplus(x), jax.nn.elu(x), jax.nn.leaky_relu(x)),
        _inside(-9, 9),
        {"floor": 1.0},
    ),
    "gelu": (lambda x: (jax.nn.gelu(x), jax.nn.gelu(x, approximate=False)), _inside(-6, 6), {"floor": 4.0}),
    "hard activations": (
        lambda x: (jax.nn.hard_tanh(x), jax.nn.hard_sigmoid(x), jax.nn.hard_silu(x), jax.nn.mish(x), jax.nn.celu(x)),
        _inside(-9, 9),
        {"floor": 1.0},
    ),
}

_PAIRS_FLOAT: dict[str, tuple[Any, dict[str, Any]]] = {
    "add": (jnp.add, {"ulps": 1}),
    "sub": (jnp.subtract, {"ulps": 1}),
    "mul": (jnp.multiply, {"ulps": 1}),
    "div": (jnp.divide, {"ulps": 1}),
    "atan2": (jnp.arctan2, {}),
    "max": (jnp.maximum, {"ulps": 0}),
    "min": (jnp.minimum, {"ulps": 0}),
    "fmax fmin": (lambda x, y: (jnp.fmax(x, y), jnp.fmin(x, y)), {"ulps": 0}),
    "rem": (lax.rem, {"ulps": 0}),
    "mod": (jnp.mod, {"ulps": 1}),
    "floor_divide": (jnp.floor_divide, {"ulps": 1}),
    "divmod": (jnp.divmod, {"ulps": 1}),
    "nextafter": (jnp.nextafter, {"ulps": 0}),
    "hypot": (jnp.hypot, {}),
    "logaddexp": (jnp.logaddexp, {"floor": 1.0}),
    "copysign": (jnp.copysign, {"ulps": 0, "signs": True}),
    "heaviside": (jnp.heaviside, {"ulps": 0}),
    "compare": (lambda x, y: (x == y, x != y, x < y, x <= y, x > y, x >= y), {}),
    "select": (lambda x, y: jnp.where(x < y, x, y), {"ulps": 0, "signs": True}),
    "ldexp": (lambda x, y: jnp.ldexp(x, jnp.clip(jnp.nan_to_num(y), -8, 8).astype(jnp.int32)), {"ulps": 1}),
}
_PAIRS_WHOLE: dict[str, tuple[Any, Any]] = {
    "add": (jnp.add, INTEGERS),
    "sub": (jnp.subtract, INTEGERS),
    "mul": (jnp.multiply, INTEGERS),
    "div": (lax.div, INTEGERS),
    "rem": (lax.rem, INTEGERS),
    "floor_divide mod": (lambda x, y: (jnp.floor_divide(x, y), jnp.mod(x, y)), INTEGERS),
    "max min": (lambda x, y: (jnp.maximum(x, y), jnp.minimum(x, y)), INTEGERS),
    "compare": (lambda x, y: (x == y, x != y, x < y, x <= y, x > y, x >= y), INTEGERS),
    "bits": (lambda x, y: (x & y, x | y, x ^ y, ~x), INTEGERS),
    "shift_left": (lax.shift_left, INTEGERS),
    "shift_right_logical": (lax.shift_right_logical, INTEGERS),
    "shift_right_arithmetic": (lax.shift_right_arithmetic, INTEGERS),
    "power": (lambda x, y: jnp.power(x, jnp.abs(y) % 9), (np.dtype(np.int32), np.dtype(np.uint8))),
    "true divide": (jnp.true_divide, (np.dtype(np.int32), np.dtype(np.uint8))),
}
_UNARY_WHOLE: dict[str, Any] = {
    "abs neg sign": lambda x: (jnp.abs(x), jnp.negative(x), jnp.sign(x)),
    "population_count": lax.population_count,
    "clz": lax.clz,
    "integer_pow": lambda x: (x**2, x**3, x**7),
    "clip": lambda x: jnp.clip(x, 3, 60),
    "to floats": lambda x: (x.astype(jnp.float32), x.astype(jnp.bfloat16), x.astype(bool)),
}


def _pairs(function: Any) -> Any:
    """The function of arguments two by two, a pair for each dtype."""
    return lambda *xs: [function(x, y) for x, y in zip(xs[::2], xs[1::2], strict=True)]


def _whole_pairs(kinds: Any) -> Any:
    return fixed(*(side for kind in kinds for side in all_pairs(whole_edges(kind))))


def _to_whole(x: Any) -> Any:
    return [x.astype(kind) for kind in INTEGERS]


def _between(*xs: Any) -> Any:
    return [x.astype(kind) for x in xs for kind in INTEGERS]


def _bitcasts(x: Any, half: Any, brain: Any, whole: Any) -> Any:
    return (
        lax.bitcast_convert_type(x, jnp.int32), lax.bitcast_convert_type(x, jnp.uint32),
        lax.bitcast_convert_type(half, jnp.uint16), lax.bitcast_convert_type(half, jnp.int16),
        lax.bitcast_convert_type(brain, jnp.uint16), lax.bitcast_convert_type(whole, jnp.float32),
    )  # fmt: skip


_SPREAD = np.array([1e9, 3e9, 5e9, -3e9, 255.5, 256.0, -129.0, 127.5, 65535.9, 65536.0, 2147483520.0, 2147483648.0, 4294967040.0])
_COMPLEX = np.array([1 + 2j, -0.5 + 0.25j, 3 - 4j, 2 + 0j, -1j, -3 - 0.5j], np.complex64)

_NEWER = [Program("mulhi", _pairs(lax.mulhi), _whole_pairs(INTEGERS))] if hasattr(lax, "mulhi") else []

PROGRAMS = [
    *_NEWER,
    *(Program(name, _each(f), arguments, **{"ulps": 8, **more}) for name, (f, arguments, more) in _UNARY.items()),
    *(
        Program(name, _pairs(f), fixed(*(side for kind in FLOATS for side in all_pairs(special(kind)))), **{"ulps": 8, **more})
        for name, (f, more) in _PAIRS_FLOAT.items()
    ),
    *(Program(f"whole {name}", _pairs(f), _whole_pairs(kinds)) for name, (f, kinds) in _PAIRS_WHOLE.items()),
    *(Program(f"whole {name}", _each(f), fixed(*map(whole_edges, INTEGERS))) for name, f in _UNARY_WHOLE.items()),
    Program(
        "gcd lcm", lambda x, y: (jnp.gcd(x, y), jnp.lcm(x, y)), fixed(*all_pairs(whole_edges(np.int32)[1:]))
    ),  # XLA never ends at the least
    *over(
        FLOATS,
        "pow",
        jnp.power,
        lambda kind: fixed(
            *all_pairs(
                array([0, -0.0, 0.5, 1, 2, 3.5, math.inf, math.nan], kind),
                array([0, 1, -1, 0.5, 2, -2.5, 3, math.inf, math.nan], kind),
            )
        ),
        ulps=16,
    ),
    Program(
        "pow of a whole exponent",
        lax.pow,
        fixed(*all_pairs(array([-2, 0.5, 3, 0], F32), np.arange(-3, 4, dtype=np.int32))),
        ulps=8,
    ),
    Program("float_power", jnp.float_power, fixed(array([0.5, 2, 3], F32), np.array([2, -1, 0], np.int32)), ulps=8),
    *over(FLOATS, "to whole", _to_whole, lambda kind: fixed(np.concatenate([special(kind), array(_SPREAD, kind)]))),
    Program("whole to whole", _between, fixed(*map(whole_edges, INTEGERS))),
    Program("between floats", _each(lambda x: [x.astype(kind) for kind in FLOATS]), _specials(1e-7, 70000.0), ulps=0),
    Program("bool to numbers", lambda x: [x.astype(kind) for kind in (*INTEGERS, *FLOATS)], fixed(np.array([True, False]))),
    Program(
        "bitcast",
        _bitcasts,
        fixed(special(F32), special(F16), special(BF16), np.arange(-5, 9, dtype=np.int32) * 7919),
    ),
    Program("bitcast to bytes", lambda x: lax.bitcast_convert_type(x, jnp.uint8), fixed(special(F32))),
    Program(
        "bitcast from bytes",
        lambda x: lax.bitcast_convert_type(x, jnp.uint32),
        lambda rng: (rng.integers(0, 256, (5, 4), dtype=np.uint8),),
    ),
    Program(
        "reduce_precision",
        lambda x: [lax.reduce_precision(x, e, m) for e, m in ((5, 10), (8, 7), (8, 23), (4, 3), (5, 2))],
        fixed(np.concatenate([special(F32), array([1e-6, -6e-8, 65519.0, 65520.0, 1.0009766, 1.00048828125], F32)])),
        ulps=0,
        signs=True,
    ),
    Program(
        "reduce_precision of halves",
        lambda x, y: (lax.reduce_precision(x, 5, 5), lax.reduce_precision(y, 5, 10)),
        fixed(special(F16), special(BF16)),
        ulps=0,
    ),
    Program(
        "clamp",
        lambda low, x, high: (lax.clamp(low, x, high), lax.clamp(-1.0, x, 1.0)),
        lambda rng: (special(F32) - 1, special(F32), special(F32) + 1),
        ulps=0,
    ),
    Program(
        "clamp by scalars of whole numbers",
        lambda x: (lax.clamp(jnp.uint8(3), x, jnp.uint8(60)), jnp.clip(x, 10, 5)),
        fixed(whole_edges(np.uint8)),
    ),
    Program(
        "select_n of several",
        lax.select_n,
        lambda rng: (rng.integers(0, 3, (4, 5)).astype(np.int32), *(rng.standard_normal((4, 5)).astype(F32) for _ in range(3))),
        ulps=0,
    ),
    Program(
        "select_n by one predicate",
        lambda a, b: lax.select_n(a[0, 0] > b[0, 0], a, b),
        lambda rng: (rng.standard_normal((4, 5)).astype(F32), rng.standard_normal((4, 5)).astype(F32)),
        ulps=0,
    ),
    Program(
        "select and piecewise",
        lambda x: (
            jnp.select([x < 0, x < 1], [x * 2, x * 3], 7.0),
            jnp.piecewise(x, [x < 0, x >= 1], [lambda v: -v, lambda v: v * v, 5.0]),
        ),
        normal(F32, 30),
        ulps=1,
    ),
    Program(
        "logical",
        lambda x, y: (
            jnp.logical_and(x, y),
            jnp.logical_or(x, y),
            jnp.logical_xor(x, y),
            jnp.logical_not(x),
            x == y,
            x < y,
            jnp.maximum(x, y),
        ),
        fixed(*all_pairs(np.array([True, False]))),
    ),
    Program(
        "igamma",
        lambda a, x: (jax.scipy.special.gammainc(a, x), jax.scipy.special.gammaincc(a, x)),
        fixed(*all_pairs(array([0.5, 1, 2.5, 7], F32), array([0, 0.25, 1, 3, 9], F32))),
        ulps=32,
        floor=1.0,
    ),
    Program(
        "zeta polygamma",
        lambda x: (jax.scipy.special.zeta(x + 1.5, x), jax.scipy.special.polygamma(1, x)),
        fixed(array([0.5, 1, 2.5, 7], F32)),
        ulps=64,
    ),
    Program(
        "betainc",
        lambda a, x: jax.scipy.special.betainc(a, 2.0, x),
        fixed(array([0.5, 1, 2.5], F32), array([0.1, 0.5, 0.9], F32)),
        refuses="regularized_incomplete_beta",
    ),
    Program(
        "float16 overflow", lambda x: (x * 60000, x + 65504, jnp.exp(x * 12)), fixed(array([0.5, 1, 1.5, 2, -2], F16)), ulps=8
    ),
    Program(
        "unsigned wraparound",
        lambda *xs: [(x - 1, x + x, x * 3, -x, x + np.array(200, x.dtype)) for x in xs],
        fixed(*map(whole_edges, UNSIGNED)),
    ),
    Program("signed wraparound", lambda *xs: [(x - 1, x + x, x * 3, -x) for x in xs], fixed(*map(whole_edges, SIGNED))),
    Program(
        "literals beside halves",
        lambda x, y: (x * 0.1 + 0.3, 1 - x, 2.0 / x, x > 0.1, jnp.where(y > 0.1, 0.7, y), 3.0 - y * 1e-3),
        fixed(special(F16), special(BF16)),
        ulps=8,
        floor=1.0,
    ),
    Program(
        "literals that are not finite",
        lambda x: (jnp.where(x > 0, x, -jnp.inf), jnp.minimum(x, jnp.inf), x * jnp.nan),
        normal(F32, 9),
        ulps=0,
    ),
    Program(
        "double precision",
        lambda x, n: (jnp.exp(x), x / 3, jnp.sin(x), n // 3, n * n, x.astype(jnp.int64), n.astype(jnp.float32)),
        fixed(special(F64)[3:14], np.array([2**40, -7, 2**62, 0], np.int64)),
        ulps=8,
        x64=True,
    ),
    Program(
        "double conversions",
        lambda x: (x.astype(jnp.int32), x.astype(jnp.int64), x.astype(jnp.float16), x.astype(jnp.uint32)),
        fixed(np.concatenate([special(F64), array([1e19, -1e19, 2.0**53 + 1, 4e9], F64)])),
        ulps=0,
        x64=True,
    ),
    Program(
        "64-bit whole numbers",
        lambda x, n: (x >> 3, lax.shift_right_logical(x, n), x << n, lax.population_count(x), lax.clz(x), x // n, x % n),
        fixed(*all_pairs(np.array([-(2**63), -1, 5, 2**62], np.int64), np.array([0, 1, 63, 64, -1, 7], np.int64))),
        x64=True,
    ),
    Program("uint64", lambda x: x + 1, fixed(np.array([2**63], np.uint64)), refuses="dtype", x64=True),
    Program("int4", lambda x: x.astype(jnp.int4).astype(jnp.int32), fixed(np.arange(4, dtype=np.int32)), refuses="dtype"),
    Program("float8", lambda x: x.astype(jnp.float8_e4m3fn).astype(jnp.float32), normal(F32, 4), refuses="dtype"),
    Program(
        "complex arithmetic",
        lambda z: (z + 1, z * z, z - 2j, z / (1 + 1j), -z, jnp.abs(z), jnp.real(z), jnp.imag(z), jnp.conj(z)),
        fixed(_COMPLEX),
        ulps=8,
        floor=None,
    ),
    Program(
        "complex from parts",
        lambda x, y: (lax.complex(x, y), x.astype(jnp.complex64)),
        lambda rng: (rng.standard_normal(4).astype(F32), rng.standard_normal(4).astype(F32)),
        ulps=0,
    ),
    Program("complex exponential", jnp.exp, fixed(_COMPLEX), ulps=16, floor=None, refuses="exp"),
    Program(
        "0-d and zero-size",
        lambda x, y: (x * 2, jnp.exp(y), y + x, jnp.sum(y), x[None]),
        fixed(array(1.5, F32), np.zeros((0, 3), F32)),
        ulps=8,
    ),
    Program(
        "polynomials",
        lambda p, x: (jnp.polyval(p, x), jnp.polyder(p), jnp.polyadd(p, p[1:])),
        lambda rng: (rng.standard_normal(5).astype(F32), rng.standard_normal(7).astype(F32)),
        ulps=16,
        floor=None,
    ),
    Program(
        "logsumexp softmax",
        lambda x: (jax.nn.softmax(x), jax.nn.log_softmax(x), jax.nn.logsumexp(x, -1), jax.nn.softmax(x, where=x > 0)),
        lambda rng: (rng.standard_normal((5, 33)).astype(F32) * 9,),
        ulps=24,
        floor=1.0,
    ),
    Program(
        "logsumexp of infinities",
        lambda x: jax.nn.logsumexp(x, 1),
        fixed(array([[-math.inf, -math.inf], [math.inf, 0], [math.nan, 0], [-math.inf, 1]], F32)),
        ulps=8,
    ),
    *over((F16, BF16), "softmax", lambda x: jax.nn.softmax(x * 4), lambda kind: normal(kind, 4, 17), ulps=8),
    Program("erf of halves in a chain", functools.partial(lambda f, x: f(f(x)), jax.lax.erf), fixed(special(BF16)), ulps=4),
    Program("double remainders", lambda x, y: (lax.rem(x, y), jnp.mod(x, y)), fixed(*all_pairs(special(F64))), ulps=2, x64=True),
]
