"""An assembler for tests: steps and programs by hand, straight to the bytes of an hj_npu_plan. The passes know nothing of it."""

import functools

import cffi
import numpy as np

from hajax import abi
from hajax.plans import summed

UNIT = 32
ALTERNATES = abi.constant("HJ_ALTERNATES")
ZERO_BYTES = abi.constant("HJ_ZERO_BYTES")
ALL_LANES = (2**64 - 1, 2**64 - 1)
UB, L1, L0A, L0B, L0C = (abi.table("spaces")[name] for name in ("UB", "L1", "L0A", "L0B", "L0C"))
FREE = 16 << 10  # UB above it is left to the steps' operands: the frame and the steps lie below


@functools.cache
def ffi():
    found = cffi.FFI()
    found.cdef(abi.header_text())
    return found


def flag(name, event):
    """A flag's byte: flag("MTE2_V", 3)."""
    return abi.table("flags")[name] * 8 + event


def alternating(address):
    """The address as an operand that odd chunks take from the second version."""
    return address | 1


def _word(address):
    address, odd = address & ~1, address & 1
    assert address % UNIT == 0
    return address // UNIT | (ALTERNATES if odd else 0)


def step(opcode, dst=0, src0=0, src1=0, *, p=(), count=1, index=0, size=0, wait=(), set=(), stage=0, barrier=False, first=False,
         last=False):  # fmt: skip
    """An hj_step; addresses in bytes, flags as bytes."""
    made = ffi().new("hj_step *")
    made.opcode = abi.table("opcodes")[opcode]
    made.control = stage | (4 if barrier else 0) | (8 if first else 0) | (16 if last else 0)
    for field, flags in ((made.wait, wait), (made.set, set)):
        for i, one in enumerate(flags):
            field[i] = one
    made.count, made.index, made.size = count, index, size
    made.dst, made.src0, made.src1 = _word(dst), _word(src0), _word(src1)
    for i, value in enumerate(p):
        made.p[i] = value
    return bytes(ffi().buffer(made))


def sync(waits=(), sets=(), **rest):
    """A sync step: the first two flags of each in the step itself, four more in p."""
    p = [0] * 8
    for at, flags in ((0, waits[2:]), (4, sets[2:])):
        p[at : at + len(flags)] = flags
    return step("sync", p=p, count=int(any(p)), wait=waits[:2], set=sets[:2], **rest)


def vector(opcode, dst, src0=0, src1=0, *, repeats=1, blocks=(1, 1, 1), strides=(8, 8, 8), scalar=0, mask=0, **rest):
    """A vector step."""
    return step(opcode, dst, src0, src1, p=(*blocks, *strides, scalar), size=repeats, index=mask, **rest)


def program(setup=(), body=(), finish=(), *, heads=1, columns=16, stages=1, slots=None, masks=(), scalars=(), address=512):
    """What `plan` takes: a dict of an hj_npu_program's fields, and its steps."""
    return {"sections": (setup, body, finish), "heads": heads, "columns": columns, "stages": stages, "slots": slots or {},
            "masks": masks, "scalars": scalars, "address": address}  # fmt: skip


def _pad(data):
    return data + bytes(-len(data) % UNIT)


def _program_struct(one, offset):
    made = ffi().new("hj_npu_program *")
    made.heads, made.columns, made.stages, made.step_address = one["heads"], one["columns"], one["stages"], one["address"]
    made.setup, made.body, made.finish = map(len, one["sections"])
    made.step_offset = offset
    for space, apart in one["slots"].items():
        made.slot_bytes[space] = apart
    for i, (low, high) in enumerate((ALL_LANES, *one["masks"])):
        made.masks[2 * i], made.masks[2 * i + 1] = low, high
    for i, value in enumerate(one["scalars"], 1):
        made.scalars[i] = value
    return bytes(ffi().buffer(made))


def plan(programs, *, chunk=16, key_heads=1, value_heads=1, key_dim=16, value_dim=16, sequences=1, items=None, launches=None,
         constants=b"", slot_bytes=0, output="float16", decay="scalar", strengths=1, target="ascend310p1"):  # fmt: skip
    """The bytes of a plan. items: tuples in hj_npu_item's order; launches: (first item, items of each core[, 1: synced])."""
    items = items or [(0, 0, 0, 0, 0, -1)]
    launches = launches or [(0, (len(items),))]
    made = ffi().new("hj_npu_plan *")
    data = bytes(ffi().sizeof(made[0]))

    def add(part):
        nonlocal data
        at = len(data)
        data = _pad(data + part)
        return at

    launch_bytes = b""
    for first, cores, *synced in launches:
        fields = {"cores": len(cores), "first_item": first, "core_items": list(cores), "sync_after": sum(synced)}
        launch = ffi().new("hj_npu_launch *", fields)
        launch_bytes += bytes(ffi().buffer(launch))
    made.launch_offset = add(launch_bytes)
    item_bytes = b""
    for item in items:
        names = ("program", "sequence", "head", "column", "first_chunk", "chunks")
        item_bytes += bytes(ffi().buffer(ffi().new("hj_npu_item *", dict(zip(names, item, strict=True)))))
    made.item_offset = add(item_bytes)
    made.program_offset = len(data)
    at = len(data) + len(programs) * ffi().sizeof("hj_npu_program")
    structs, steps = b"", b""
    for one in programs:
        structs += _program_struct(one, at + len(steps))
        steps += _pad(b"".join(b for section in one["sections"] for b in section))
    add(structs + steps)
    made.constant_bytes = len(_pad(bytes(ZERO_BYTES) + constants))
    made.constant_offset = add(bytes(ZERO_BYTES) + constants)
    made.header.magic, made.header.total_bytes = abi.constant("HJ_PLAN_MAGIC"), len(data)
    ffi().memmove(made.header.abi_digest, bytes.fromhex(abi.digest()), 32)
    made.header.backend = abi.table("backends")["npu"]
    made.header.decay, made.header.delta, made.header.strengths = abi.table("decays")[decay], 1, strengths
    made.npu_arch, made.chunk, made.workspace_slot_bytes = 2002, chunk, slot_bytes
    made.key_heads, made.value_heads, made.key_dim, made.value_dim = key_heads, value_heads, key_dim, value_dim
    made.input_dtype, made.output_dtype = abi.table("dtypes")["float16"], abi.table("dtypes")[output]
    made.sequences, made.launches, made.programs, made.items = sequences, len(launches), len(programs), len(items)
    ffi().memmove(made.target, target.encode(), len(target))
    return summed(bytes(ffi().buffer(made)) + data[ffi().sizeof(made[0]) :])


def call(tokens=16, *, batch=1, sequences=1, key_heads=1, value_heads=1, key_dim=16, value_dim=16, strengths=1, per_channel=False,
         bounds=None, seed=0):  # fmt: skip
    """Arrays of a call, with values that tell every element from its neighbours."""
    random = np.random.default_rng(seed)
    gates = (batch, tokens, value_heads)
    return {
        "query": random.standard_normal((batch, tokens, key_heads, key_dim)).astype(np.float16),
        "key": random.standard_normal((batch, tokens, key_heads, key_dim)).astype(np.float16),
        "value": random.standard_normal((batch, tokens, value_heads, value_dim)).astype(np.float16),
        "log_decay": -random.random((*gates, key_dim) if per_channel else gates).astype(np.float32),
        "beta": random.random((*gates, 2) if strengths == 2 else gates).astype(np.float32),
        "state_in": random.standard_normal((batch, sequences, value_heads, key_dim, value_dim)).astype(np.float32),
        "bounds": np.tile(np.array([0, tokens], np.int32), (batch, 1)) if bounds is None else np.array(bounds, np.int32),
    }


def run_on_ub(body, data, *, tokens=16, scale=1.0, options=None, **fields):
    """What UB from FREE on holds after the body ran on `data` there, as bytes, and the run. fields: of `plan` and `program`."""
    from hajax.backends import npu

    data = data + bytes(-len(data) % 1024)
    key_dim = len(data) // 64
    kept = {name: fields.pop(name) for name in tuple(fields) if name in ("stages", "slots", "masks", "scalars", "heads")}
    tensors = abi.table("tensors")
    setup = [step("constant_to_ub", dst=FREE, src0=ZERO_BYTES, size=len(data) // UNIT)]
    finish = [step("rows_from_ub", src0=FREE, p=(tensors["state_out"], 0, 0, 0, 1, 0, 0, 4))]
    made = plan([program(setup, body, finish, **kept)], key_dim=key_dim, constants=data, **fields)
    arrays = call(tokens, key_dim=key_dim, value_heads=fields.get("value_heads", 1), key_heads=fields.get("key_heads", 1))
    _, state, (run,) = npu.execute(made, arrays, scale=scale, options=options)
    return state[0, 0, 0].tobytes(), run
