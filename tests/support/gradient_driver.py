"""Drives libhajax_cpu's gradient with numpy through cffi, and the gradient of the recurrence in float64, token by token.

As kernel_driver: every buffer between guard bytes, scratch and results NaN at first. No JAX.
"""

import numpy as np
from kernel_driver import DTYPES, Guarded, decode, encode, ffi, library, plan_of, threads

from hajax import abi

GRADIENTS = ("query", "key", "value", "log_decay", "beta", "state_in")


def backward_plan_of(case, tokens=None):
    """The case's plan with a gradient's scratch."""
    plan = plan_of(case)
    size = ffi().sizeof("hj_cpu_plan")
    plan.scratch_bytes = library().hajax_cpu_backward_scratch_bytes(plan, size, case.t if tokens is None else tokens)
    return plan


def cotangents_of(case, inputs, seed=0):
    """Of the output, in its dtype, and of the final state."""
    rng = np.random.default_rng(seed)
    output = rng.standard_normal((case.batch, case.t, case.hk * case.r, case.dv))
    return encode(output, case.out), rng.standard_normal(inputs["state_in"].shape).astype(np.float32)


def _results(case, inputs):
    """Arrays for the gradients, by name; partial sums where a key head's value heads are several tasks'."""
    parts = case.r // case.group
    rows = (case.batch, case.t, case.hk, parts, case.dk)
    poison = {name: np.full(inputs[name].shape, np.nan, np.float32) for name in ("log_decay", "beta", "state_in")}
    dtype = DTYPES[case.dtype if parts == 1 else "float32"]
    poison |= {name: np.full(rows, 0x7FFF, np.uint16).astype(dtype) for name in ("query", "key")}
    return poison | {"value": np.full(inputs["value"].shape, 0x7FFF, np.uint16).astype(DTYPES[case.dtype])}


def execute_backward(case, inputs, cotangents, plan=None, parallel=None, **overrides):
    """Status, gradients by operand in float64 (partial sums added up), counters; every guard is checked."""
    plan = plan or backward_plan_of(case)
    results = {name: Guarded(array) for name, array in _results(case, inputs).items()}
    buffers = {name: Guarded(array) for name, array in inputs.items()}
    buffers |= {"output_cotangent": Guarded(cotangents[0]), "state_cotangent": Guarded(cotangents[1])}
    before = {name: buffer.array.tobytes() for name, buffer in buffers.items()}
    buffers |= {f"{name.removesuffix('_in')}_gradient": buffer for name, buffer in results.items()}
    scratch_bytes = min(max(0, plan.scratch_bytes), 1 << 27) * case.workers
    buffers["scratch"] = Guarded(np.full(scratch_bytes // 4, np.nan, np.float32))
    call = ffi().new("hj_delta_backward *")
    call.batch, call.tokens, call.sequences = case.batch, case.t, inputs["state_in"].shape[1]
    fields = dict(ffi().typeof("hj_delta_backward").fields)
    for name, buffer in buffers.items():
        setattr(call, name, ffi().cast(fields[name].type, buffer.pointer()))
    call.scratch_bytes, call.scale, call.l2norm_eps = scratch_bytes, case.dk**-0.5, case.eps
    for name, value in overrides.items():
        setattr(call, name, value)
    if parallel is None:
        parallel = ffi().new("hj_parallel *", {"run": threads()}) if case.workers > 1 else ffi().NULL
    counters = ffi().new("int64_t[]", library().HJ_COUNTERS)
    status = library().hajax_execute_backward(plan, ffi().sizeof("hj_cpu_plan"), call, parallel, counters)
    for name, buffer in buffers.items():
        assert buffer.intact(), f"{name}: guard bytes overwritten"
    for name, kept in before.items():
        assert buffers[name].array.tobytes() == kept, f"{name}: an operand was changed"
    partial = "float32" if case.r > case.group else case.dtype
    gradients = {name: decode(results[name].array, partial).sum(3) for name in ("query", "key")}
    gradients["value"] = decode(results["value"].array, case.dtype)
    gradients |= {name: results[name].array.astype(np.float64) for name in ("log_decay", "beta", "state_in")}
    named = {counter.name: counters[counter] for counter in abi.table("counters")}
    return status, gradients, named


def recurrence_gradients(case, inputs, cotangents):
    """Gradients of kernel_driver.recurrence, by operand: states forwards, then each token backwards."""
    scale = case.dk**-0.5
    raw = {name: decode(inputs[name], case.dtype) for name in ("query", "key")}
    value = decode(inputs["value"], case.dtype)
    inverse = {n: 1 / np.sqrt((x * x).sum(-1, keepdims=True) + case.eps) if case.eps >= 0 else 1.0 for n, x in raw.items()}
    unit = {name: raw[name] * inverse[name] for name in raw}
    query, key = (np.repeat(unit[name], case.r, axis=2) for name in ("query", "key"))
    decay = np.exp(inputs["log_decay"].astype(np.float64))
    decay = decay[..., None] if case.channels else decay[..., None, None]
    beta = inputs["beta"].astype(np.float64)
    erase, write = (beta, beta) if case.strengths == 1 else (beta[..., 0], beta[..., 1])
    erase = erase * case.delta
    d_output, d_final = decode(cotangents[0], case.out), cotangents[1].astype(np.float64)
    d_query, d_key, d_value = np.zeros(query.shape), np.zeros(key.shape), np.zeros(value.shape)
    d_erase, d_write = np.zeros(erase.shape), np.zeros(erase.shape)
    d_decay = np.zeros(inputs["log_decay"].shape)
    d_state_in = np.empty(d_final.shape)
    down = lambda k, s: np.matmul(k[:, None], s)[:, 0]  # [Hv, Dk], [Hv, Dk, Dv] to [Hv, Dv]
    across = lambda s, v: np.matmul(s, v[..., None])[..., 0]  # and with [Hv, Dv] to [Hv, Dk]
    outer = lambda k, v: k[..., None] * v[:, None]
    for b in range(case.batch):
        for n in range(d_final.shape[1]):
            tokens = range(inputs["bounds"][b, n], inputs["bounds"][b, n + 1])
            state, kept = inputs["state_in"][b, n].astype(np.float64), []
            for t in tokens:
                decayed = state * decay[b, t]
                known = down(key[b, t], decayed)
                update = write[b, t, :, None] * value[b, t] - erase[b, t, :, None] * known
                state = decayed + outer(key[b, t], update)
                kept.append((decayed, known, update, state))
            d_state = d_final[b, n].copy()
            for t in reversed(tokens):
                decayed, known, update, state = kept[t - tokens[0]]
                d_query[b, t] = scale * across(state, d_output[b, t])
                d_state += outer(scale * query[b, t], d_output[b, t])
                d_update = down(key[b, t], d_state)
                d_known = -erase[b, t, :, None] * d_update
                d_value[b, t] = write[b, t, :, None] * d_update
                d_write[b, t], d_erase[b, t] = (d_update * value[b, t]).sum(-1), -(d_update * known).sum(-1)
                d_key[b, t] = across(d_state, update) + across(decayed, d_known)
                d_state += outer(key[b, t], d_known)
                said = (d_state * decayed).sum(-1)
                d_decay[b, t] = said if case.channels else said.sum(-1)
                d_state *= decay[b, t]
            d_state_in[b, n] = d_state
    d_beta = np.stack([d_erase, d_write], -1) if case.strengths == 2 else d_write + d_erase * case.delta
    heads = (case.batch, case.t, case.hk, case.r, case.dk)
    summed = {"query": d_query.reshape(heads).sum(3), "key": d_key.reshape(heads).sum(3)}
    for name, x in summed.items():
        if case.eps >= 0:
            along = (x * unit[name]).sum(-1, keepdims=True)
            summed[name] = inverse[name] * (x - unit[name] * along)
    return summed | {"value": d_value, "log_decay": d_decay, "beta": d_beta, "state_in": d_state_in}
