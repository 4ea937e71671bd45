"""The pieces of a layer around the operator, through the C interface: every ISA and dtype against float64, guarded, refused."""

from itertools import pairwise

import numpy as np
import pytest
from kernel_driver import DTYPES, GUARD, decode, encode, ffi, isas, last_error, library

from hajax import abi

NAMES = [isa.name for isa in isas()]
ROUNDING = {"float32": 0.0, "bfloat16": 2.0**-8, "float16": 2.0**-11}  # half a unit in the last place, at most
FEW_ULPS = 2e-6  # of sums of up to 33 terms near 1


class Guarded:
    """A buffer between guard bytes."""

    def __init__(self, shape, dtype):
        self.array = np.zeros(shape, DTYPES[dtype])
        self.bytes = np.full(self.array.nbytes + 2 * GUARD, 0xA5, np.uint8)

    def pointer(self):
        return ffi().cast("void *", self.bytes.ctypes.data + GUARD)

    def value(self):
        inner = self.bytes[GUARD : len(self.bytes) - GUARD]
        assert (self.bytes[:GUARD] == 0xA5).all() and (self.bytes[len(self.bytes) - GUARD :] == 0xA5).all(), "written outside"
        return inner.view(self.array.dtype).reshape(self.array.shape)


def at(array, kind="void *"):
    return ffi().cast(kind, array.ctypes.data)


def silu(x):
    return x / (1 + np.exp(-x))


class Convolution:
    """A call over float64 numbers that the dtype holds exactly, and its result in float64."""

    def __init__(self, isa, *, bounds, tokens, sizes=(8,), taps=4, dtype="float32", activation=True, bias=True, workers=1):
        rng = np.random.default_rng([tokens, taps, *sizes])
        self.bounds = np.array(bounds, np.int32)
        rows, sequences, channels = self.bounds.shape[0], self.bounds.shape[1] - 1, sum(sizes)
        draw = lambda *shape: encode(rng.standard_normal(shape), dtype)
        self.x, self.state = draw(rows, tokens, channels), draw(rows, sequences, taps - 1, channels)
        self.weight = rng.standard_normal((taps, channels)).astype(np.float32)
        self.bias = rng.standard_normal(channels).astype(np.float32) if bias else None
        self.sizes, self.dtype, self.activation, self.tokens = np.array(sizes, np.int64), dtype, activation, tokens
        self.outputs = [Guarded((rows, tokens, size), dtype) for size in sizes]
        self.final = Guarded(self.state.shape, dtype)
        self.call = call = ffi().new("hj_convolution *")
        call.batch, call.tokens, call.sequences, call.channels, call.taps = rows, tokens, sequences, channels, taps
        call.isa, call.dtype, call.workers, call.silu = abi.table("isas")[isa], abi.table("dtypes")[dtype], workers, activation
        call.input, call.state_in, call.weight = at(self.x), at(self.state), at(self.weight, "float *")
        call.bias = at(self.bias, "float *") if bias else ffi().NULL
        call.bounds, call.parts, call.sizes = at(self.bounds, "int32_t *"), len(sizes), at(self.sizes, "int64_t *")
        self.pointers = ffi().new("void *[]", [x.pointer() for x in self.outputs])
        call.outputs, call.state_out = self.pointers, self.final.pointer()

    def run(self, parallel=None):
        return library().hajax_convolve(self.call, ffi().NULL if parallel is None else parallel)

    def results(self):
        y = np.concatenate([x.value() for x in self.outputs], -1)
        return decode(y, self.dtype), decode(self.final.value(), self.dtype)

    def expected(self):
        x, state = decode(self.x, self.dtype), decode(self.state, self.dtype)
        y, final, taps = np.zeros_like(x), np.zeros_like(state), self.weight.shape[0]
        for b, bounds in enumerate(self.bounds):
            for n, (first, last) in enumerate(pairwise(bounds)):
                padded = np.concatenate([state[b, n], x[b, first:last]])
                for t in range(last - first):
                    y[b, first + t] = (padded[t : t + taps] * self.weight).sum(0) + (0 if self.bias is None else self.bias)
                final[b, n] = padded[last - first :]
            if self.activation:
                y[b, bounds[0] : bounds[-1]] = silu(y[b, bounds[0] : bounds[-1]])
        return y, final


CASES = [
    *[{"bounds": [[0, t]], "tokens": t} for t in (1, 2, 3, 4, 5, 63, 64, 65, 130)],
    *[{"bounds": [[0, 9]], "tokens": 9, "taps": taps} for taps in (1, 2, 3, 5, 8, 32)],
    *[{"bounds": [[0, 7]], "tokens": 7, "sizes": sizes} for sizes in ((1,), (3, 5), (16, 8, 40), (17, 1, 31), (520, 512, 1030))],
    {"bounds": [[0, 70], [0, 3], [0, 0]], "tokens": 70},  # right-padded rows
    {"bounds": [[5, 5, 6, 8, 70, 70, 90]], "tokens": 97},  # packed, with tokens before the first and after the last
    {"bounds": [[0, 9]], "tokens": 9, "activation": False},
    {"bounds": [[0, 9]], "tokens": 9, "bias": False},
]


@pytest.mark.parametrize("isa", NAMES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_convolution_equals_its_definition(case, dtype, isa):
    convolution = Convolution(isa, dtype=dtype, **case)
    assert convolution.run() == 0, last_error()
    (y, final), (wanted, last) = convolution.results(), convolution.expected()
    assert (np.abs(y - wanted) <= ROUNDING[dtype] * np.abs(wanted) + FEW_ULPS * np.sqrt(case.get("taps", 4))).all()
    assert (final == last).all()
    outside = wanted == 0
    assert (y[outside] == 0).all()


@pytest.mark.parametrize("isa", NAMES)
def test_bits_of_a_convolution_do_not_depend_on_workers(isa):
    case = {"bounds": [[0, 150], [0, 149]], "tokens": 150, "sizes": (512, 520)}
    runs = [Convolution(isa, workers=workers, **case) for workers in (1, 2, 3)]
    assert [run.run(library().hajax_cpu_parallel(3)) for run in runs] == [0, 0, 0]
    assert len({run.results()[0].tobytes() for run in runs}) == 1


@pytest.mark.parametrize("bounds", [[[0, 10]], [[-1, 9]], [[5, 4]]])
@pytest.mark.parametrize("dtype", DTYPES)
def test_wrong_bounds_make_every_result_nan(bounds, dtype):
    convolution = Convolution(NAMES[-1], bounds=[[0, 9]], tokens=9, dtype=dtype)
    convolution.bounds[:] = bounds
    assert convolution.run() == 0
    assert all(np.isnan(x).all() for x in convolution.results())


@pytest.mark.parametrize(("field", "value", "message"), [
    ("isa", 99, "isa: expected one that was built and that this CPU runs, got 99"),
    ("workers", 0, "workers: expected at least 1, got 0"),
    ("dtype", 9, "dtype: expected a number of dtypes.def, got 9"),
    ("batch", -1, "batch: expected 0 or more, got -1"),
    ("tokens", 2**31, "tokens: expected 0..2147483647, got 2147483648"),
    ("sequences", 0, "sequences: expected 1..2147483647, got 0"),
    ("channels", -8, "channels: expected 0 or more, got -8"),
    ("channels", 9, "sizes: expected channels of the parts, 9 in all, got others"),
    ("channels", 2**61, "input: expected a size that fits 63 bits, got more"),
    ("taps", 33, "taps: expected 1..32, got 33"),
    ("taps", 0, "taps: expected 1..32, got 0"),
    ("parts", 0, "parts: expected at least 1, with sizes and outputs, got 0"),
    ("input", None, "input: expected 288 bytes, got null"),
    ("state_out", None, "state_out: expected 96 bytes, got null"),
    ("bounds", None, "bounds: expected 8 bytes, got null"),
])  # fmt: skip
def test_a_wrong_convolution_is_refused_by_name(field, value, message):
    convolution = Convolution(NAMES[-1], bounds=[[0, 9]], tokens=9)
    setattr(convolution.call, field, ffi().NULL if value is None else value)
    assert convolution.run() == abi.table("statuses").bad_call
    assert last_error() == f"call: {message}"
    assert (convolution.outputs[0].bytes == 0xA5).all()


class GatedNorm:
    def __init__(self, isa, *, rows=5, dim=128, dtypes=("float32", "float32"), activation=True, workers=1, spread=1.0):
        rng = np.random.default_rng([rows, dim])
        self.dtypes, self.activation = dtypes, activation
        self.x = encode(rng.standard_normal((rows, dim)) * spread, dtypes[0])
        self.gate = encode(rng.standard_normal((rows, dim)) * 8, dtypes[1])
        self.weight = rng.standard_normal(dim).astype(np.float32)
        self.output = Guarded((rows, dim), dtypes[1])
        self.call = call = ffi().new("hj_gated_norm *")
        call.rows, call.dim, call.isa, call.workers, call.silu = rows, dim, abi.table("isas")[isa], workers, activation
        call.input_dtype, call.gate_dtype = (abi.table("dtypes")[dtype] for dtype in dtypes)
        call.eps, call.input, call.gate = 1e-6, at(self.x), at(self.gate)
        call.weight, call.output = at(self.weight, "float *"), self.output.pointer()

    def run(self, parallel=None):
        return library().hajax_normalise_gated(self.call, ffi().NULL if parallel is None else parallel)

    def result(self):
        return decode(self.output.value(), self.dtypes[1])

    def expected(self):
        x, gate = decode(self.x, self.dtypes[0]), decode(self.gate, self.dtypes[1])
        factor = silu(gate) if self.activation else 1 / (1 + np.exp(-gate))
        return self.weight * x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(1e-6)) * factor


@pytest.mark.parametrize("isa", NAMES)
@pytest.mark.parametrize("dtypes", [(a, b) for a in DTYPES for b in DTYPES], ids=str)
@pytest.mark.parametrize("case", [
    *[{"dim": dim} for dim in (1, 3, 8, 16, 31, 40, 128, 256)],
    {"rows": 0}, {"rows": 700}, {"activation": False}, {"spread": 1e-4},
], ids=str)  # fmt: skip
def test_a_gated_norm_equals_its_definition(case, dtypes, isa):
    norm = GatedNorm(isa, dtypes=dtypes, **case)
    assert norm.run() == 0, last_error()
    wanted = norm.expected()
    assert (np.abs(norm.result() - wanted) <= (ROUNDING[dtypes[1]] + 1e-6) * np.abs(wanted) + 2.0**-24).all()


@pytest.mark.parametrize("isa", NAMES)
def test_bits_of_a_gated_norm_do_not_depend_on_workers(isa):
    runs = [GatedNorm(isa, rows=2000, workers=workers) for workers in (1, 2, 3)]
    assert [run.run(library().hajax_cpu_parallel(3)) for run in runs] == [0, 0, 0]
    assert len({run.result().tobytes() for run in runs}) == 1


@pytest.mark.parametrize(("field", "value", "message"), [
    ("isa", -1, "isa: expected one that was built and that this CPU runs, got -1"),
    ("workers", 0, "workers: expected at least 1, got 0"),
    ("input_dtype", 3, "input_dtype: expected a number of dtypes.def, got 3"),
    ("gate_dtype", -1, "gate_dtype: expected a number of dtypes.def, got -1"),
    ("rows", -1, "rows: expected 0 or more, got -1"),
    ("dim", 0, "dim: expected at least 1, got 0"),
    ("gate", None, "gate: expected 2560 bytes, got null"),
    ("output", None, "output: expected 2560 bytes, got null"),
])  # fmt: skip
def test_a_wrong_gated_norm_is_refused_by_name(field, value, message):
    norm = GatedNorm(NAMES[-1])
    setattr(norm.call, field, ffi().NULL if value is None else value)
    assert norm.run() == abi.table("statuses").bad_call
    assert last_error() == f"call: {message}"


@pytest.mark.parametrize("isa", NAMES)
def test_extremes_of_a_gate(isa):
    """silu of large numbers is those numbers or 0, of NaN is NaN; nothing overflows on the way."""
    norm = GatedNorm(isa, rows=1, dim=24)
    extremes = np.array([1e4, -1e4, 3e38, -3e38, 88, -88, 0, -0.0, np.nan, 120, -120, 1e-30] * 2, np.float32)
    norm.gate[:], norm.x[:], norm.weight[:] = extremes, 1, 1
    assert norm.run() == 0
    with np.errstate(over="ignore"):
        wanted = silu(extremes.astype(np.float64))
    np.testing.assert_allclose(norm.result()[0], wanted, rtol=2e-6, atol=1e-35)
