"""Drives the C interface of libhajax_cpu with numpy through cffi: cases, their inputs, the recurrence in float64, guarded runs.

Every buffer stands between guard bytes and scratch starts as NaN. No JAX.
"""

import threading
import zlib
from dataclasses import dataclass, replace
from functools import cache

import cffi
import numpy as np

from hajax import abi
from hajax.backends.library import library_path

GUARD = 256
DTYPES = {"float32": np.float32, "float16": np.float16, "bfloat16": np.uint16}


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
    if kind == "mild":  # of which a chunk's sum is one that matrix tiles take
        return np.array([0, -1e-4, -0.1, -1, -5])[rng.choice(5, shape, p=[0.25, 0.35, 0.3, 0.08, 0.02])]
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


def execute(case, inputs, plan=None, scale=None, parallel=None, **overrides):
    """Runs a case; returns status, output, state and counters after checking every guard. `parallel`: other threads to use."""
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
    if parallel is None:
        parallel = ffi().new("hj_parallel *", {"run": threads()}) if case.workers > 1 else ffi().NULL
    counters = ffi().new("int64_t[]", library().HJ_COUNTERS)
    status = library().hajax_execute(plan, ffi().sizeof("hj_cpu_plan"), call, parallel, counters)
    for name, buffer in buffers.items():
        assert buffer.intact(), f"{name}: guard bytes overwritten"
    for name, kept in before.items():
        assert buffers[name].array.tobytes() == kept, f"{name}: an input was changed"
    named = {counter.name: counters[counter] for counter in abi.table("counters")}
    return status, buffers["output"].array, buffers["state_out"].array, named


ISAS = [isa.name for isa in isas()]
IN_FLOATS = [isa for isa in ISAS if isa not in ("tiles", "amx")]
ON_TILES = [isa for isa in ISAS if isa in ("tiles", "amx")]  # where bf16_dot puts the whole kernel on matrix tiles
