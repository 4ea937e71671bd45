"""A plan as the bytes that a backend library reads. cffi knows the structs; no offset or format string stands here."""

import dataclasses
import functools
from typing import Any

import cffi

from hajax import abi
from hajax.plans import wire_programs
from hajax.plans.model import Fused, Packed, Plan, check_plan
from hajax.plans.program import Programs


@functools.cache
def _ffi() -> cffi.FFI:
    ffi = cffi.FFI()
    ffi.cdef(abi.header_text())
    return ffi


def to_bytes(plan: Plan) -> bytes:
    """hj_cpu_plan or hj_npu_plan of abi/plan.h, with this abi's digest in its header. Equal plans give equal bytes.

    Raises TypeError for what is no plan.
    """
    check_plan(plan)
    match plan.launch:
        case Packed(data):
            return data
        case Programs():
            return wire_programs.encode(_ffi(), plan, plan.launch, _header(plan, "npu", 0))
        case Fused():
            return _fused(plan, plan.launch)


def from_bytes(data: bytes) -> Programs:
    """The programs of an hj_npu_plan. Raises ValueError when it is of another abi or cut short."""
    return wire_programs.decode(_ffi(), data)


def summed(data: bytes) -> bytes:
    """An hj_npu_plan with the checksum that its bytes have now: for those who change them and mean it."""
    return wire_programs.summed(_ffi(), data)


def packed(plan: Plan) -> Plan:
    """The plan with its programs as bytes; one for the CPU as it is."""
    return dataclasses.replace(plan, launch=Packed(to_bytes(plan))) if isinstance(plan.launch, Programs) else plan


def opened(plan: Plan) -> Plan:
    """The plan with programs that were bytes as steps again."""
    return dataclasses.replace(plan, launch=from_bytes(plan.launch.data)) if isinstance(plan.launch, Packed) else plan


def _header(plan: Plan, backend: str, total_bytes: int) -> dict[str, Any]:
    header = {
        "magic": abi.constant("HJ_PLAN_MAGIC"),
        "total_bytes": total_bytes,
        "abi_digest": bytes.fromhex(abi.digest()),
        "backend": abi.table("backends")[backend],
        "decay": abi.table("decays")[plan.mechanism.decay],
        "delta": int(plan.mechanism.delta),
        "strengths": plan.mechanism.strengths,
    }
    wire_programs.demand(_ffi(), "hj_plan_header", header)
    return header


def _fused(plan: Plan, launch: Fused) -> bytes:
    ffi, dtypes, shape = _ffi(), abi.table("dtypes"), plan.shape
    pointer = wire_programs.pointers(ffi)["hj_cpu_plan"]
    body = {
        "header": _header(plan, "cpu", ffi.sizeof(pointer.item)),
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
    wire_programs.demand(ffi, "hj_cpu_plan", body)
    return bytes(ffi.buffer(ffi.new(pointer, body)))
