"""A plan by hand, of what the kernel can do and no schedule asks for: some vector steps, results in fractals, rare flags.

What it computes means nothing, but every step's work is in its output.
"""

import dataclasses

import _ascend

from hajax import abi, plans
from hajax.mechanisms import MECHANISMS
from hajax.plans.program import LOAD, Buffer, Flag, Item, Launch, Operand, Program, Programs, Step

DIM, ROWS = 32, 64
_FRAME = abi.constant("HJ_FRAME_BYTES")
_SIZES = {  # bytes, by memory
    "L1": {"key": ROWS * DIM * 2},
    "L0A": {"a": 512}, "L0B": {"b": 512}, "L0C": {"c": 1024},
    "UB": {"value": ROWS * DIM * 2, "query": ROWS * DIM * 2, "copy": ROWS * DIM * 2, "out": ROWS * DIM * 2,
           "sum": ROWS * DIM * 4, "product": 1024, "sums": 128},
}  # fmt: skip
_ALL, _HALF = (2**64 - 1, 2**64 - 1), (2**32 - 1, 0)
_LAST = abi.constant("HJ_ZERO_BYTES")


def _rows(tensor: str, layout: int = 0, size: int = 0) -> tuple[int, ...]:
    return (abi.table("tensors")[tensor], 0, 0, layout, 0, 0, 0, size)


def _flag(pair: str, event: int = 0) -> Flag:
    source, target = pair.split("_")
    return Flag(source, target, event)


def _body() -> tuple[Step, ...]:
    at, repeats = Operand, ROWS * DIM // 64
    wide = (1, 1, 1, 8, 8, 8, 1, 0)
    narrow = (1, 1, 0, 8, 4, 0, 1, 0)  # fp32 from fp16
    key_there, value_there, query_there = _flag("MTE2_MTE1"), _flag("MTE2_V"), _flag("MTE2_V", 1)
    steps = (
        Step("rows_to_l1", at("key"), count=DIM // 16, p=_rows("key"), sets=(key_there, _flag("MTE2_M"))),
        Step("rows_to_ub", at("value"), count=DIM // 16, p=_rows("value"), sets=(value_there,)),
        Step("load_a", at("a"), at("key"), size=1, p=(1, 0, 0, 1, 0, 0, 0, 0), waits=(key_there,)),
        Step("load_b", at("b"), at("key"), size=1, p=(1, 0, 0, 1, 0, 0, 0, 0), sets=(_flag("MTE1_M"),)),
        Step("mmad", at("c"), at("a"), at("b"), p=(1, 1, 1, 0, 0, 0, 1, 0), waits=(_flag("MTE1_M"), _flag("MTE2_M"))),
        Step(
            "mmad", at("c"), at("a"), at("b"), count=2, p=(1, 1, 1, 0, 0, 0, 4, 0), barrier=True,
            sets=(_flag("M_V"), _flag("M_MTE2")),
        ),
        Step("rows_to_ub", at("query"), count=DIM // 16, p=_rows("query"), waits=(_flag("M_MTE2"),), sets=(query_there,)),
        Step("dup16", at("copy"), size=repeats // 2, p=(1, 0, 0, 8, 0, 0, 1, 0), sets=(_flag("V_MTE1"),)),
        Step("l1_to_ub", at("copy"), at("key"), size=ROWS * DIM * 2 // 32, waits=(_flag("V_MTE1"),), sets=(_flag("MTE1_V"),)),
        Step("c_to_ub32", at("product"), at("c"), size=1, waits=(_flag("M_V"),)),
        Step("to32", at("sum"), at("value"), size=repeats, p=narrow, waits=(value_there,)),
        Step("axpy32", at("sum"), at("product"), size=4, p=wide, barrier=True),
        Step("axpy16", at("sum"), at("copy"), size=repeats, p=narrow, waits=(_flag("MTE1_V"),), barrier=True),
        Step("axpy16", at("sum"), at("query"), size=repeats, p=narrow, waits=(query_there,), barrier=True),
        Step("cadd32", at("sums"), at("sum"), size=repeats, p=(1, 1, 0, 1, 8, 0, 0, 0), barrier=True),
        Step("add32", at("sum"), at("sum"), at("sums"), index=1, size=1, p=wide, barrier=True),
        Step(
            "to16", at("out"), at("sum"), size=repeats, p=(1, 1, 0, 4, 8, 0, 0, 0), barrier=True, sets=(_flag("V_MTE3"),),
        ),
        Step("rows_from_ub", src0=at("out"), count=DIM // 16, p=_rows("output", 2, 2), waits=(_flag("V_MTE3"),)),
    )  # fmt: skip
    return tuple(dataclasses.replace(step, stage=LOAD) for step in steps)


def plan() -> tuple[bytes, _ascend.Heads]:
    """The plan's bytes and the heads of a call of it, whose last chunk has a whole block of rows and one of a single row."""
    heads = _ascend.Heads("gdn", ROWS + 17, 1, 1, DIM, DIM)
    buffers = []
    for space, sizes in _SIZES.items():
        address = _FRAME if space == "UB" else 0
        for name, size in sizes.items():
            buffers.append(Buffer(name, space, size, address=address))
            address += size
    program = Program(
        heads=1, columns=DIM, stages=1, setup=(), body=_body(), finish=(), buffers=tuple(buffers), masks=(_ALL, _HALF),
        scalars=(1.0, 0.5), slot_bytes={}, step_address=1 << 16,
    )  # fmt: skip
    programs = Programs(2002, ROWS, (program,), (Launch(((Item(0, 0, 0, 0),),)),), bytes(_LAST), 0)
    shape = _ascend.shape_of(heads)
    target = _ascend.chip("ascend310p1")
    made = plans.Plan(0, MECHANISMS["gated_delta_rule"], shape, target.fingerprint, "by hand", programs, ())
    return plans.to_bytes(made), heads
