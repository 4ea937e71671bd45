"""An Ascend plan's programs as C++: one kernel with every step as a call with constant words, so that none is loaded and decoded.

native/ascend/unrolled.h gives these calls the meaning that the kernel which walks a plan gives the plan's bytes.
"""

import math
import struct
from collections.abc import Sequence
from typing import Any

from hajax import abi
from hajax.plans import wire
from hajax.plans.model import Fused, Plan
from hajax.plans.program import Programs

_STEP = struct.Struct("<QQQ")
_CARRIES = abi.constant("HJ_CARRIES_FLAGS")
_BASIS, _PRIME, _WORD = 0xCBF29CE484222325, 0x100000001B3, (1 << 64) - 1  # FNV-1a
_STAGES = ("load", "map", "state")
_SPACES = (("L1", "kL1Apart"), ("L0A", "kL0aApart"), ("L0B", "kL0bApart"), ("L0C", "kL0cApart"), ("UB", "kUbApart"))
_TENSORS = ("query", "key", "value", "log_decay", "beta", "erase", "state_in", "output", "state_out", "workspace")


def kernel_name(data: bytes) -> str:
    """The name of the kernel that is made of these plan bytes' programs; equal programs give equal names.

    The host of a plan computes it too (native/ascend/host/special.cpp), to refuse a kernel of other programs.
    """
    plan, programs = _open(data)
    digest = _fold(_BASIS, bytes(plan.header.abi_digest) + plan.npu_arch.to_bytes(4, "little"))
    for program in programs:
        copy = wire._ffi().new("hj_npu_program *", program)
        copy.step_offset = copy.step_address = 0  # where they lie makes no difference
        digest = _fold(_fold(digest, bytes(wire._ffi().buffer(copy))), _step_bytes(data, program))
    return f"hajax_delta_rule_{digest:016x}"


def to_source(plan: Plan) -> str:
    """The translation unit of a plan's specialised kernel, with the arguments of `hajax_delta_rule`.

    Steps are named by their labels where the plan still has them. Raises ValueError for a plan of another backend.
    """
    launch = plan.launch
    if isinstance(launch, Fused):
        raise ValueError(f"plan: expected one for an Ascend chip, got one for {plan.target}")
    labels: list[list[str]] = []
    if isinstance(launch, Programs):
        labels = [[step.label for step in (*p.setup, *p.body, *p.finish)] for p in launch.programs]
    return source_of(wire.to_bytes(plan), labels)


def source_of(data: bytes, labels: Sequence[Sequence[str]] = ()) -> str:
    """The same from a plan's bytes; `labels`: of each program's steps."""
    plan, programs = _open(data)
    name = kernel_name(data)
    parts = [
        f"// {name}: the programs of a plan for {wire._ffi().string(plan.target).decode()}, one call a step. Written by hajax.",
        '#include "native/ascend/unrolled.h"\n',
        "namespace {\n\nusing hajax::ascend::Core;\n",
    ]
    for number, program in enumerate(programs):
        parts.append(_program(data, number, program, labels[number] if labels else ()))
    parts.append("}  // namespace\n")
    parts.append(_entry(name, len(programs)))
    return "\n".join(parts)


def _open(data: bytes) -> tuple[Any, Sequence[Any]]:
    """The plan's header and its programs. Raises ValueError when they do not lie within the bytes."""
    wire.from_bytes(data)
    plan = wire._ffi().from_buffer("hj_npu_plan *", data)
    if plan.header.backend != abi.table("backends")["npu"]:
        raise ValueError(f"plan: expected one for an Ascend chip, got backend {plan.header.backend}")
    at, size = plan.program_offset, plan.programs * wire._ffi().sizeof("hj_npu_program")
    return plan, wire._ffi().from_buffer(f"hj_npu_program[{plan.programs}]", memoryview(data)[at : at + size])


def _step_bytes(data: bytes, program: Any) -> bytes:
    count = program.setup + program.body + program.finish
    return data[program.step_offset : program.step_offset + count * _STEP.size]


def _fold(digest: int, data: bytes) -> int:
    for byte in data:
        digest = (digest ^ byte) * _PRIME & _WORD
    return digest


def _program(data: bytes, number: int, program: Any, labels: Sequence[str]) -> str:
    spaces = abi.table("spaces")
    lines = [
        f"// {program.heads} value heads, {program.columns} state columns; {program.setup} steps, then {program.body} an "
        f"iteration, then {program.finish}.",
        f"struct Program{number} : hajax::ascend::Unrolled<Program{number}> {{",
        f"  static constexpr uint32_t kStages = {program.stages & ~_CARRIES};",
        f"  static constexpr bool kCarries = {'true' if program.stages & _CARRIES else 'false'};",
    ]
    lines += [f"  static constexpr uint32_t {name} = {program.slot_bytes[spaces[space]]};" for space, name in _SPACES]
    masks = [f"{mask:#018x}" for mask in program.masks]
    lines += _switch("uint64_t Mask(uint32_t at)", "at", masks, "0x0000000000000000", "0")
    scalars = [_literal(scalar) for scalar in program.scalars]
    lines += _switch("float Scalar(uint32_t number)", "number", scalars, _literal(0.0), "0.0f")
    words = list(_STEP.iter_unpack(_step_bytes(data, program)))
    at = 0
    for section in ("Setup", "Body", "Finish"):
        count = getattr(program, section.lower())
        lines.append("")
        lines.append(f"  __aicore__ static void Run{section}({'Core& core' if count else 'Core&'}) {{")
        for i in range(at, at + count):
            comment = _comment(section, words[i], labels[i] if labels else "")
            first, second, third = (f"{word:#018x}" for word in words[i])
            lines.append(f"    {section}<{first}, {second}, {third}>(core);  // {comment}")
        if count and not (section == "Body" and program.stages & _CARRIES):
            lines.append("    AscendC::PipeBarrier<PIPE_ALL>();")
        lines.append("  }")
        at += count
    return "\n".join([*lines, "};\n"])


def _switch(signature: str, name: str, values: Sequence[str], unused: str, otherwise: str) -> list[str]:
    lines = ["", f"  __aicore__ static constexpr {signature} {{", f"    switch ({name}) {{"]
    for number, value in enumerate(values):
        if value != unused:
            lines += [f"      case {number}:", f"        return {value};"]
    return [*lines, "      default:", f"        return {otherwise};", "    }", "  }"]


def _literal(value: float) -> str:
    if math.isnan(value):
        return '__builtin_nanf("")'
    if math.isinf(value):
        return "-__builtin_inff()" if value < 0 else "__builtin_inff()"
    return f"{value.hex()}f"


def _comment(section: str, words: tuple[int, int, int], label: str) -> str:
    """What a step is, for people: its opcode, what it is for, its stage, its flags."""
    first, _, third = words
    control = first >> 8 & 0xFF
    parts = [abi.table("opcodes")(first & 0xFF).name + (f": {' '.join(label.split())}" if label else "")]
    parts[0] = parts[0].replace("\\", "/")  # one at a line's end would go on to the next
    if section == "Body":
        parts.append(_STAGES[control & abi.constant("HJ_STAGE_MASK")])
    named = (("HJ_FIRST_CHUNK", "first"), ("HJ_LAST_CHUNK", "last"), ("HJ_BARRIER_BEFORE", "barrier"))
    parts += [word for bit, word in named if control & abi.constant(bit)]
    waits, sets = [first >> 16 & 0xFF, first >> 24 & 0xFF], [first >> 32 & 0xFF, first >> 40 & 0xFF]
    if parts[0].startswith("sync") and first >> 48 & 0xFF:
        waits += [third >> 8 * i & 0xFF for i in range(4)]
        sets += [third >> 8 * i & 0xFF for i in range(4, 8)]
    for word, events in (("waits for", waits), ("sets", sets)):
        flags = [f"{abi.table('flags')(event >> 3).name}.{event & 7}" for event in events if event]
        parts += [f"{word} {' '.join(flags)}"] if flags else []
    return "; ".join(parts)


def _entry(name: str, programs: int) -> str:
    arguments = ", ".join(f"GM_ADDR {argument}" for argument in ("plan", "call", *_TENSORS))
    code = ", ".join(f"Program{number}" for number in range(programs))
    return (
        f'extern "C" __global__ __aicore__ void {name}({arguments}) {{\n'
        "  AscendC::InitSocState();\n"
        f"  GM_ADDR tensors[hajax::ascend::kTensors] = {{{', '.join(_TENSORS)}}};\n"
        f"  hajax::ascend::Machine<hajax::ascend::Specialised<{code}>> machine;\n"
        "  machine.Run(plan, call, tensors);\n"
        "}\n"
    )
