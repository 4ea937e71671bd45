"""A plan as the bytes that a backend library reads. cffi knows the structs; no offset or format string stands here."""

import functools

import cffi

from hajax import abi
from hajax.plans.model import Plan


@functools.cache
def _ffi() -> cffi.FFI:
    ffi = cffi.FFI()
    ffi.cdef(abi.header_text())
    return ffi


def to_bytes(plan: Plan) -> bytes:
    """hj_cpu_plan of abi/plan.h, with this abi's digest in its header."""
    ffi = _ffi()
    dtypes = abi.table("dtypes")
    shape, launch = plan.shape, plan.launch
    header = {
        "magic": abi.constant("HJ_PLAN_MAGIC"),
        "total_bytes": ffi.sizeof("hj_cpu_plan"),
        "abi_digest": bytes.fromhex(abi.digest()),
        "backend": abi.table("backends")["cpu"],
        "decay": abi.table("decays")[plan.mechanism.decay],
        "delta": int(plan.mechanism.delta),
        "strengths": plan.mechanism.strengths,
    }
    body = {
        "header": header,
        "isa": abi.table("isas")[launch.isa],
        "input_dtype": dtypes[shape.input_dtype],
        "output_dtype": dtypes[shape.output_dtype],
        "key_heads": shape.key_heads,
        "value_heads": shape.value_heads,
        "key_dim": shape.key_dim,
        "value_dim": shape.value_dim,
        "chunk": launch.chunk,
        "panel": launch.panel,
        "group": launch.group,
        "column_blocks": launch.column_blocks,
        "token_steps": launch.token_steps,
        "workers": launch.workers,
        "bf16_dot": int(launch.bf16_dot),
        "scratch_bytes": launch.scratch_bytes,
    }
    for struct, fields in (("hj_plan_header", header), ("hj_cpu_plan", body)):
        declared = {name for name, _ in ffi.typeof(struct).fields}
        assert declared == set(fields), f"{struct}: fields {declared ^ set(fields)} differ between plan.h and wire.py"
    return bytes(ffi.buffer(ffi.new("hj_cpu_plan *", body)))
