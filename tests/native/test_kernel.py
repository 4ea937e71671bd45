"""The C interface of libhajax_cpu, driven by numpy through cffi, against a token recurrence in float64. No JAX.

Every buffer stands between guard bytes and scratch starts as NaN; each run is checked to have been the ISA that was asked for.
"""

import shutil
import subprocess
import threading
import zlib
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import cffi
import numpy as np
import pytest

from hajax import abi
from hajax.backends.library import library_path

ROOT = Path(__file__).parents[2]
GUARD = 256
NMSE = 1e-11
DTYPES = {"float32": np.float32, "float16": np.float16, "bfloat16": np.uint16}
EPS = {"float32": 0.0, "bfloat16": 2.0**-8, "float16": 2.0**-11}  # rounding of an output element


@cache
def ffi():
    f = cffi.FFI()
    f.cdef(abi.header_text())
    return f


@cache
def library():
    return ffi().dlopen(str(library_path()))  # HAJAX_LIBRARY, else the installed one


def isas():
    bits = library().hajax_cpu_isas()
    return [isa for isa in abi.table("isas") if bits >> isa & 1]


def last_error():
    return ffi().string(library().hajax_last_error()).decode()


@dataclass(frozen=True)
class Case:
    isa: str = "baseline"
    t: int = 65
    lengths: tuple = ()  # packed members of one row; empty: a sequence of t tokens from token 0 in each of `batch` rows
    start: int = 0  # tokens before the first member
    batch: int = 1
    hk: int = 1
    r: int = 1
    dk: int = 40
    dv: int = 24
    chunk: int = 64
    group: int = 1
    blocks: int = 1
    steps: int = 4
    workers: int = 1
    dtype: str = "float32"
    out: str = "float32"
    g: str = "mixed"
    beta: str = "mixed"
    delta: int = 1
    strengths: int = 1
    channels: bool = False  # whether each key channel has a decay of its own
    eps: float = 1e-6
    state: bool = True
    alias: bool = False
    bf16_dot: int = 0

    def __str__(self):
        changed = [f"{k}={v}" for k, v in vars(self).items() if v != getattr(Case, k)]
        return ",".join(changed).replace(" ", "") or "default"


def plan_of(case):
    plan = ffi().new("hj_cpu_plan *")
    head = plan.header
    head.magic, head.total_bytes = library().HJ_PLAN_MAGIC, ffi().sizeof("hj_cpu_plan")
    ffi().memmove(head.abi_digest, bytes.fromhex(abi.digest()), 32)
    head.backend, head.delta, head.strengths = abi.table("backends").cpu, case.delta, case.strengths
    head.decay = abi.table("decays")["none" if case.g == "none" else "per_channel" if case.channels else "scalar"]
    plan.isa = abi.table("isas")[case.isa]
    plan.input_dtype, plan.output_dtype = abi.table("dtypes")[case.dtype], abi.table("dtypes")[case.out]
    plan.key_heads, plan.value_heads, plan.key_dim, plan.value_dim = case.hk, case.hk * case.r, case.dk, case.dv
    plan.chunk, plan.panel = case.chunk, library().hajax_cpu_panel(plan.isa)
    plan.group, plan.column_blocks, plan.token_steps, plan.workers = case.group, case.blocks, case.steps, case.workers
    plan.bf16_dot = case.bf16_dot
    plan.scratch_bytes = library().hajax_cpu_scratch_bytes(plan, ffi().sizeof("hj_cpu_plan"))
    return plan


def encode(x, dtype):
    """float64 to the storage dtype, rounding to nearest even."""
    if dtype != "bfloat16":
        return x.astype(DTYPES[dtype])
    bits = x.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def decode(x, dtype):
    if dtype != "bfloat16":
        return x.astype(np.float64)
    return (x.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def log_decays(rng, kind, shape):
    if kind == "mixed":
        levels = np.array([0, -1e-4, -0.1, -1, -5, -20, -80, -1e4])
        return levels[rng.choice(8, shape, p=[0.2, 0.3, 0.3, 0.12, 0.05, 0.01, 0.01, 0.01])]
    return np.full(shape, 0.0 if kind == "none" else float(kind))


def inputs_of(case):
    rng = np.random.default_rng(zlib.crc32(str(replace(case, isa="baseline", workers=1, alias=False)).encode()))
    hv = case.hk * case.r
    qk = (case.batch, case.t, case.hk, case.dk)
    spread = 1.0 if case.eps >= 0 else case.dk**-0.5  # keys near unit length, as models have them
    key = rng.standard_normal(qk) * spread
    if case.t > 3:
        key[:, 2] = key[:, 1]  # a repeated key
        key[:, 3] = 0
    lengths = case.lengths or (case.t,)
    bounds = np.tile(case.start + np.cumsum((0, *lengths)), (case.batch, 1)).astype(np.int32)
    n = len(lengths)
    heads = (case.batch, case.t, hv)
    strengths = heads if case.strengths == 1 else (*heads, 2)
    beta = rng.random(strengths) if case.beta == "mixed" else np.full(strengths, float(case.beta))
    state = rng.standard_normal((case.batch, n, hv, case.dk, case.dv)) * (0.5 if case.state else 0.0)
    return {
        "query": encode(rng.standard_normal(qk) * spread, case.dtype),
        "key": encode(key, case.dtype),
        "value": encode(rng.standard_normal((case.batch, case.t, hv, case.dv)), case.dtype),
        "log_decay": log_decays(rng, case.g, (*heads, case.dk) if case.channels else heads).astype(np.float32),
        "beta": beta.astype(np.float32),
        "state_in": state.astype(np.float32),
        "bounds": bounds,
    }


def recurrence(case, inputs, scale):
    """The meaning of the operator: float64, one token at a time."""
    q, k, v = (decode(inputs[name], case.dtype) for name in ("query", "key", "value"))
    if case.eps >= 0:
        q, k = (x / np.sqrt((x * x).sum(-1, keepdims=True) + case.eps) for x in (q, k))
    q, k = (np.repeat(x, case.r, axis=2) for x in (q, k))
    decay = np.exp(inputs["log_decay"].astype(np.float64))
    decay = decay[..., None] if case.channels else decay[..., None, None]
    beta = inputs["beta"].astype(np.float64)
    erase, write = (beta, beta) if case.strengths == 1 else (beta[..., 0], beta[..., 1])
    output = np.zeros(v.shape)
    states = inputs["state_in"].astype(np.float64)
    for b in range(case.batch):
        for n in range(states.shape[1]):
            s = states[b, n]
            for t in range(inputs["bounds"][b, n], inputs["bounds"][b, n + 1]):
                s *= decay[b, t]
                known = np.matmul(k[b, t, :, None], s)[:, 0] if case.delta else 0.0
                s += k[b, t, :, :, None] * (write[b, t, :, None] * v[b, t] - erase[b, t, :, None] * known)[:, None]
                output[b, t] = scale * np.matmul(q[b, t, :, None], s)[:, 0]
    return output, states


class Guarded:
    """A 64-byte aligned copy of an array between guard bytes."""

    def __init__(self, array):
        self.raw = np.full(array.nbytes + 2 * GUARD + 64, 0xA5, np.uint8)
        self.start = GUARD + -(self.raw.ctypes.data + GUARD) % 64
        self.array = self.raw[self.start : self.start + array.nbytes].view(array.dtype).reshape(array.shape)
        self.array[...] = array

    def pointer(self, kind="void *"):
        return ffi().cast(kind, self.raw.ctypes.data + self.start)

    def intact(self):
        end = self.start + self.array.nbytes
        return bool((self.raw[: self.start] == 0xA5).all() and (self.raw[end:] == 0xA5).all())


@cache
def threads():
    """An hj_parallel that gives every worker a thread of its own."""

    @ffi().callback("void(void *, int64_t, int32_t, hj_item, void *)")
    def run(context, items, workers, item, argument):
        def work(worker):
            for i in range(worker, items, workers):
                item(argument, i, worker)

        pool = [threading.Thread(target=work, args=(w,)) for w in range(workers)]
        [t.start() for t in pool]
        [t.join() for t in pool]

    return run


def execute(case, inputs, plan=None, scale=None, **overrides):
    """Runs a case; returns status, output, state and counters after checking every guard."""
    scale = case.dk**-0.5 if scale is None else scale
    plan = plan or plan_of(case)
    hv = case.hk * case.r
    buffers = {name: Guarded(array) for name, array in inputs.items()}
    buffers["output"] = Guarded(np.full((case.batch, case.t, hv, case.dv), 0x7FFF, np.uint16).astype(DTYPES[case.out]))
    scratch_bytes = min(max(0, plan.scratch_bytes), 1 << 26) * case.workers
    buffers["scratch"] = Guarded(np.full(scratch_bytes // 4, np.nan, np.float32))
    buffers["state_out"] = buffers["state_in"] if case.alias else Guarded(np.full(inputs["state_in"].shape, np.nan, np.float32))
    before = {name: buffers[name].array.tobytes() for name in inputs if not (case.alias and name == "state_in")}
    call = ffi().new("hj_delta_call *")
    call.batch, call.tokens, call.sequences = case.batch, case.t, inputs["state_in"].shape[1]
    for name, buffer in buffers.items():
        kind = ffi().typeof("hj_delta_call").fields
        setattr(call, name, ffi().cast(dict(kind)[name].type, buffer.pointer()))
    call.scratch_bytes, call.scale, call.l2norm_eps = scratch_bytes, scale, case.eps
    for name, value in overrides.items():
        setattr(call, name, value)
    parallel = ffi().new("hj_parallel *", {"run": threads()}) if case.workers > 1 else ffi().NULL
    counters = ffi().new("int64_t[]", library().HJ_COUNTERS)
    status = library().hajax_execute(plan, ffi().sizeof("hj_cpu_plan"), call, parallel, counters)
    for name, buffer in buffers.items():
        assert buffer.intact(), f"{name}: guard bytes overwritten"
    for name, kept in before.items():
        assert buffers[name].array.tobytes() == kept, f"{name}: an input was changed"
    named = {counter.name: counters[counter] for counter in abi.table("counters")}
    return status, buffers["output"].array, buffers["state_out"].array, named


def nmse(got, expected):
    return ((got - expected) ** 2).sum() / max((expected**2).sum(), 1e-30)


def check(case):
    inputs = inputs_of(case)
    status, output, state, counters = execute(case, inputs)
    assert status == 0, last_error()
    expected, expected_state = recurrence(case, inputs, case.dk**-0.5)
    got = decode(output, case.out)
    assert np.isfinite(got).all()
    assert np.isfinite(state).all()
    rounding = 0 if case.out == "float32" else EPS[case.out]
    assert nmse(got, expected) <= NMSE + rounding**2
    assert nmse(state.astype(np.float64), expected_state) <= NMSE
    largest = np.abs(expected).max(initial=1e-30)
    assert np.abs(got - expected).max(initial=0) <= (3e-5 + rounding) * largest
    assert counters["isa"] == abi.table("isas")[case.isa], "another ISA ran"
    assert counters["tasks"] == case.batch * inputs["state_in"].shape[1] * case.hk * (case.r // case.group) * case.blocks
    lengths = np.diff(inputs["bounds"], axis=1)
    share = case.hk * (case.r // case.group) * case.blocks
    assert counters["token_steps"] == lengths[lengths <= case.steps].sum() * share
    assert counters["chunks"] == (-(-lengths[lengths > case.steps] // case.chunk)).sum() * share
    return inputs, output, state, counters


ISAS = [isa.name for isa in isas()]
LENGTHS = [1, 2, 5, 15, 16, 17, 63, 64, 65, 130, 300]
DIMS = [(8, 8), (24, 8), (8, 24), (40, 40), (128, 128), (128, 24), (40, 256), (256, 40)]
CASES = [
    *[Case(t=t, steps=0) for t in LENGTHS],
    *[Case(t=t, steps=1000) for t in LENGTHS],
    *[Case(t=t, chunk=chunk, steps=0) for t in (31, 33, 130) for chunk in (16, 32, 128)],
    *[Case(dk=dk, dv=dv, steps=steps, t=35, hk=2) for dk, dv in DIMS for steps in (0, 1000)],
    *[
        Case(hk=2, r=r, group=group, dv=dv, steps=steps)
        for r in (2, 3)
        for group in {1, r}
        for dv in (24, 64)
        for steps in (0, 99)
    ],
    *[Case(dv=dv, blocks=blocks, steps=steps, r=2) for dv, blocks in ((64, 2), (72, 2), (128, 3), (128, 4)) for steps in (0, 99)],
    *[
        Case(g=g, t=70, dtype=d)
        for g in ("none", "0", "-1e-4", "-5", "-20", "-80", "-1e4", "-1e30", "-inf")
        for d in ("float32", "bfloat16")
    ],
    *[Case(g=g, t=20, steps=99) for g in ("none", "0", "-1e-4", "-20", "-1e4", "-inf")],
    *[Case(beta=beta, g="-1e-4", steps=steps) for beta in ("0", "1") for steps in (0, 99)],
    *[Case(eps=eps, steps=steps, g="-0.05") for eps in (-1.0, 1e-6, 1e-3) for steps in (0, 99)],
    *[Case(delta=0, g=g, steps=steps, eps=-1.0) for g in ("none", "mixed") for steps in (0, 99)],
    *[Case(strengths=2, g=g, steps=steps, t=t) for g in ("none", "mixed") for steps in (0, 99) for t in (7, 70)],
    *[Case(strengths=2, channels=True, g="mixed", steps=steps, t=70) for steps in (0, 99)],
    *[Case(channels=True, t=t, steps=0) for t in LENGTHS],
    *[Case(channels=True, t=t, steps=1000) for t in (1, 2, 17)],
    *[Case(channels=True, t=t, chunk=chunk, steps=0) for t in (8, 9, 24, 31, 100, 130) for chunk in (16, 32, 128)],
    *[Case(channels=True, dk=dk, dv=dv, steps=steps, t=35, hk=2, r=2) for dk, dv in DIMS for steps in (0, 99)],
    *[Case(channels=True, r=r, group=group, dv=72, blocks=2, t=70, hk=2) for r in (2, 3) for group in {1, r}],
    *[Case(channels=True, delta=0, g="mixed", t=t, steps=steps, eps=-1.0) for t in (9, 70) for steps in (0, 99)],
    *[
        Case(channels=True, g=g, t=t, steps=steps)
        for g in ("0", "-1e-4", "-0.3", "-5", "-20", "-80", "-1e4", "-1e30", "-inf")
        for t, steps in ((70, 0), (9, 99))
    ],
    *[Case(channels=True, dtype=d, out=d, t=40) for d in ("bfloat16", "float16")],
    *[Case(channels=True, batch=3, t=97, lengths=(1, 0, 40, 3, 0, 50), start=2, state=s, alias=s) for s in (True, False)],
    *[Case(dtype=d, out=o, dv=40, steps=s) for d in DTYPES for o in DTYPES for s in (0, 99)],
    *[Case(batch=3, t=97, lengths=(1, 0, 40, 3, 0, 50), start=2, state=s, alias=a) for s in (True, False) for a in (True, False)],
    Case(lengths=(0,), t=9),
    Case(lengths=(0, 0), t=0),
    Case(lengths=(65,), t=65, dv=72, alias=True, blocks=2, r=2, group=2),
    Case(steps=99, t=20, alias=True),
    Case(dk=128, dv=128, t=200, hk=2, r=2, group=2, blocks=2),
]


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_equals_the_recurrence(case, isa):
    check(replace(case, isa=isa))


@pytest.mark.skipif(not library().hajax_cpu_bf16_dot(), reason="this CPU has no bf16 dot product")
@pytest.mark.parametrize("t", LENGTHS)
def test_bf16_dot_equals_the_recurrence(t):
    case = Case(isa="avx512", dtype="bfloat16", bf16_dot=1, t=t, steps=0, dk=128, dv=128, r=2, group=2)
    assert check(case)[3]["bf16_dot"] == 1


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(
    "case",
    [
        Case(r=2, hk=3, blocks=2, dv=72, t=150),
        Case(t=3, hk=4, steps=9),
        Case(batch=2, hk=2, t=40),
        Case(channels=True, r=2, hk=3, blocks=2, dv=72, t=150),
        Case(channels=True, t=3, hk=4, steps=9),
    ],
    ids=str,
)
def test_bits_do_not_depend_on_workers_or_on_the_run(case, isa):
    case = replace(case, isa=isa)
    inputs = inputs_of(case)
    runs = [execute(replace(case, workers=w), inputs) for w in (1, 1, 2, 3)]
    for status, output, state, counters in runs:
        assert status == 0, last_error()
        assert output.tobytes() == runs[0][1].tobytes()
        assert state.tobytes() == runs[0][2].tobytes()
        assert counters["macs"] == runs[0][3]["macs"]
    assert [run[3]["workers"] for run in runs] == [1, 1, 2, 3]


@pytest.mark.parametrize("isa", ISAS)
def test_work_is_counted_with_its_padding(isa):
    token = check(Case(isa=isa, t=3, steps=4, hk=2, r=2, dk=16, dv=24))[3]
    assert token["macs"] == 3 * 3 * 2 * 2 * 16 * 24
    chunk = check(Case(isa=isa, t=64, steps=0, dk=128, dv=128))[3]
    least = 3 * 64 * 128 * 128 + 2 * 128 * 64 * 65 // 2 + 2 * 128 * 64 * 63 // 2
    assert least <= chunk["macs"] <= 1.25 * least


@pytest.mark.parametrize("channels", [False, True])
def test_a_state_carried_over_calls_equals_one_call(channels):
    for isa in ISAS:
        case = Case(isa=isa, t=130, hk=2, dk=64, dv=32, channels=channels)
        inputs = inputs_of(case)
        whole = execute(case, inputs)
        state, outputs = inputs["state_in"], []
        for begin, end in ((0, 1), (1, 64), (64, 67), (67, 130)):
            part = {k: v[:, begin:end] for k, v in inputs.items() if k not in ("state_in", "bounds")}
            part |= {"state_in": state, "bounds": np.array([[0, end - begin]], np.int32)}
            status, output, state, _ = execute(replace(case, t=end - begin), part)
            assert status == 0
            outputs.append(output)
        assert nmse(np.concatenate(outputs, 1).astype(float), whole[1].astype(float)) <= NMSE
        assert nmse(state.astype(float), whole[2].astype(float)) <= NMSE


HUGE = (-(2**31), -7, 1 << 30, 2**31 - 1)
CORRUPT = {  # what no valid plan holds; for a CPU plan of 2 key heads, 4 value heads, Dk 40, Dv 24, chunk 32
    "magic": (0, 1, 2**32 - 1),
    "total_bytes": (0, 56, 1 << 31),
    "abi_digest": range(32),
    "backend": (0, 2, *HUGE),
    "decay": (3, *HUGE),
    "delta": (2, *HUGE),
    "strengths": (0, 3, *HUGE),
    "isa": (4, 7, *HUGE),
    "input_dtype": (3, *HUGE),
    "output_dtype": (3, *HUGE),
    "key_heads": (0, 3, 8, *HUGE),
    "value_heads": (0, 1, 3, *HUGE),
    "key_dim": (0, 4, 12, 264, *HUGE),
    "value_dim": (0, 4, 12, 264, *HUGE),
    "chunk": (0, 1, 24, 256, *HUGE),
    "panel": (0, 1, 7, 64, *HUGE),
    "group": (0, 3, 4, *HUGE),
    "column_blocks": (0, 7, *HUGE),
    "token_steps": (-1, -(2**31)),
    "workers": (0, -1, 4097, *HUGE),
    "bf16_dot": (1, 2, *HUGE),
    "scratch_bytes": (0, 64, -64, 2**62, 2**63 - 1, 10**6 + 1),
}


def test_every_field_of_a_plan_has_corrupt_values():
    fields = [name for struct in ("hj_plan_header", "hj_cpu_plan") for name, _ in ffi().typeof(struct).fields]
    assert set(fields) - {"header"} == set(CORRUPT)


@pytest.mark.parametrize("field", CORRUPT)
def test_a_corrupt_plan_is_refused_by_the_name_of_the_field(field):
    case = Case(isa=ISAS[-1], hk=2, r=2, dv=24, chunk=32)
    inputs = inputs_of(case)
    for value in CORRUPT[field]:
        plan = plan_of(case)
        if field == "abi_digest":
            plan.header.abi_digest[value] ^= 1
        else:
            setattr(plan if hasattr(plan, field) else plan.header, field, value)
        status, output, _, _ = execute(case, inputs, plan=plan)
        assert status in (abi.table("statuses").bad_plan, abi.table("statuses").unsupported), f"{field}={value}: status {status}"
        if field not in ("key_heads",):  # whose change may show as a wrong value_heads
            assert last_error().startswith(f"plan: {field}: expected "), last_error()
        assert ", got " in last_error()
        assert (output == np.full(1, 0x7FFF, np.uint16).astype(np.float32)).all()


def test_the_message_names_field_expected_and_got():
    case = Case(isa=ISAS[-1])
    plan = plan_of(case)
    plan.key_dim = 12
    assert execute(case, inputs_of(case), plan=plan)[0] == abi.table("statuses").bad_plan
    assert last_error() == "plan: key_dim: expected a multiple of 8 in 8..256, got 12"
    assert library().hajax_cpu_scratch_bytes(plan, ffi().sizeof("hj_cpu_plan")) == -1


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ([[0, 70]], r"bounds[0][1]: expected 0..65"),
        ([[-1, 65]], r"bounds[0][0]"),
        ([[40, 30]], r"bounds[0][1]: expected 40..65 (ascending"),
    ],
)
def test_bad_bounds_are_refused_before_anything_runs(bounds, message):
    case = Case(isa=ISAS[-1])
    status, output, _, _ = execute(case, inputs_of(case) | {"bounds": np.array(bounds, np.int32)})
    assert status == abi.table("statuses").bad_call
    assert message in last_error()
    assert (output == np.full(1, 0x7FFF, np.uint16).astype(np.float32)).all()


@pytest.mark.parametrize(
    "name", ["query", "key", "value", "log_decay", "beta", "state_in", "bounds", "output", "state_out", "scratch"]
)
def test_a_null_buffer_is_refused_by_name(name):
    case = Case(isa=ISAS[-1])
    status, *_ = execute(case, inputs_of(case), **{name: ffi().NULL})
    assert status == abi.table("statuses").bad_call
    assert f"call: {name}" in last_error()


def test_bad_sizes_and_numbers_are_refused():
    case = Case(isa=ISAS[-1])
    inputs = inputs_of(case)
    plan = plan_of(case)
    bad = {"batch": -1, "tokens": 2**40, "sequences": 0, "scale": float("nan"), "l2norm_eps": float("nan"), "scratch_bytes": 64}
    for name, value in bad.items():
        status, *_ = execute(case, inputs, **{name: value})
        assert status == abi.table("statuses").bad_call
        assert name in last_error()
    assert library().hajax_execute(plan, 8, ffi().NULL, ffi().NULL, ffi().NULL) == abi.table("statuses").bad_plan
    size = ffi().sizeof("hj_cpu_plan")
    assert library().hajax_execute(plan, size, ffi().NULL, ffi().NULL, ffi().NULL) == abi.table("statuses").bad_call


def test_an_isa_that_is_missing_is_unsupported():
    case = Case(isa=ISAS[-1])
    plan = plan_of(case)
    plan.isa = next(isa for isa in abi.table("isas") if isa not in isas())
    assert execute(case, inputs_of(case), plan=plan)[0] == abi.table("statuses").unsupported
    assert "isa" in last_error()


def test_two_strengths_need_the_correction_and_a_decay_per_channel_refuses_the_bf16_dot_product():
    case = Case(isa=ISAS[-1], delta=0)
    plan = plan_of(case)
    plan.header.strengths = 2
    assert execute(case, inputs_of(case), plan=plan)[0] == abi.table("statuses").bad_plan
    assert last_error() == "plan: strengths: expected 1 without delta, got 2"
    case = Case(isa=ISAS[-1], channels=True, dtype="bfloat16")
    plan = plan_of(case)
    plan.bf16_dot = 1
    assert execute(case, inputs_of(case), plan=plan)[0] == abi.table("statuses").bad_plan
    assert last_error() == "plan: bf16_dot: expected 0 with a decay per channel, got 1"


def test_the_library_was_built_from_this_abi():
    assert ffi().string(library().hajax_abi_digest()).decode() == abi.digest()


def test_isa_objects_hold_no_weak_symbol():
    objects = sorted(ROOT.glob("build/**/hajax_kernels.dir/cpu/kernels/*.o"))
    if not objects or not shutil.which("nm"):
        pytest.skip("no object files beside the sources, or no nm")
    for path in objects:
        lines = subprocess.run(["nm", str(path)], check=True, capture_output=True, text=True).stdout.splitlines()
        kinds = {line.split()[-1]: line.split()[-2] for line in lines}
        assert not [name for name, kind in kinds.items() if kind in "WwVvu"], path
        assert len([name for name, kind in kinds.items() if kind in "TDBR"]) == 1, f"{path}: more than its one table is exported"
