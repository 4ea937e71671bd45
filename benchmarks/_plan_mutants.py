"""Small faults in a plan's steps, one at a time: does anything notice that the fused kernel was given a wrong plan?

Kinds: set and wait (a flag dropped), pair (a set and its wait dropped), barrier (dropped), address (an operand one place further
on), version (an operand does not alternate, or setup does not reach the odd one), count (one more or fewer), field (one more in
p), stage (works on another chunk). Each is caught by the host, which refuses the plan, by a check of the
emulator, or by its result, which has other bits than the good plan's; that one is right against fp64 and against the meaning of
its steps in numpy. What nobody of these misses goes to plans.verify, without which no plan is stored: it refuses what does more
than its buffers have room for, and what reads what was not written for it.
"""

import dataclasses
import functools
import struct
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import _ascend
import _mutants
import _recurrence
import cffi
import numpy as np

from hajax import abi, conformance, plans
from hajax.backends import npu as emulated
from hajax.plans import interpret
from hajax.plans.program import Operand, Step
from hajax.targets import NpuTarget

OUTPUT_BOUND, STATE_BOUND, MEANT_BOUND = 5.23e-8, 9.38e-12, 1e-8
_STEP = struct.Struct("<8B4H8B")
_WAITS, _SETS, _COUNT, _DST, _SIZE, _P = (2, 3), (4, 5), 6, 8, 11, 12
_STAGE, _BARRIER = abi.constant("HJ_STAGE_MASK"), abi.constant("HJ_BARRIER_BEFORE")
_LAST = abi.constant("HJ_LAST_CHUNK")
_ALTERNATES = abi.constant("HJ_ALTERNATES")
_UNIT = abi.constant("HJ_ADDRESS_UNIT")
_FIRST_VECTOR = 32  # opcode
_SETUP, _BODY = 0, 1  # sections
ORDERED = "verify, too, finds every access in order without it"
_PLACE = {"UB": 32, "L1": 32, "L0A": 512, "L0B": 512, "L0C": 1024}  # bytes from one legal address to the next
_READS_COUNT = frozenset(
    {"rows_to_l1", "rows_to_ub", "load_a", "load_b", "l1_to_ub", "mmad", "c_to_ub32", "c_to_ub16", "ub_to_c32", "ub_to_l1",
     "rows_from_ub"}
)  # fmt: skip
_NO_SIZE = frozenset({"sync", "rows_to_l1", "rows_to_ub", "gate_to_ub", "mmad", "rows_from_ub"})

One = TypeVar("One")
Words = tuple[int, ...]
Edits = dict[int, Words]  # by number of the step


@dataclasses.dataclass(frozen=True, slots=True)
class Problem:
    """A call with what it must give."""

    plan: plans.Plan
    labelled: plans.Plan  # the same with buffers and labels
    target: NpuTarget
    arrays: dict[str, Any]
    good: tuple[np.ndarray, np.ndarray]  # output and states of the plan as it is
    exact: tuple[float, float]  # their NMSE against fp64
    meant: tuple[float, float]  # and against the plan's steps in numpy


@functools.cache
def problem(tokens: int = 136, key_heads: int = 2, value_heads: int = 4) -> Problem:
    """Two pairs of heads on one core, one after the other, three chunks, the last one short; every input matters."""
    target = _ascend.replaced(_ascend.chip("ascend310p1"), ai_cores=1)
    heads = _ascend.Heads("gdn", tokens, key_heads, value_heads)
    arrays = drawn(heads)
    plan = _ascend.plan_of(heads, target)
    meant = interpret.run(_ascend.programs_of(plan), interpret.Inputs(**arrays), heads.key_dim**-0.5)
    good = execute(plans.to_bytes(plan), arrays, target)
    labelled = _ascend.labelled_plan_of(heads, target)
    assert plans.to_bytes(labelled) == plans.to_bytes(plan)
    return Problem(plan, labelled, target, arrays, good, _worst(good, _recurrence.chunkwise(arrays)), _worst(good, meant))


def drawn(heads: _ascend.Heads) -> dict[str, np.ndarray]:
    """Arrays of which every part matters."""
    random = np.random.default_rng(5)
    arrays = _ascend.blank(heads)
    for name in ("query", "key"):
        drawn = random.normal(size=arrays[name].shape)
        arrays[name] = (drawn / np.linalg.norm(drawn, axis=-1, keepdims=True)).astype(np.float16)
    arrays["value"] = random.normal(size=arrays["value"].shape).astype(np.float16)
    decay, beta = -random.uniform(0, 0.1, arrays["log_decay"].shape), random.uniform(0.2, 1, arrays["beta"].shape)
    decay[:, 40::50] = -1e5  # what clamps are for; some heads keep their states to the end
    decay[:, :, 0::3] = -0.02 * random.uniform(0, 1, decay[:, :, 0::3].shape)  # no two chunks alike
    beta[:, 9::25] = 0
    arrays["log_decay"], arrays["beta"] = decay.astype(np.float32), beta.astype(np.float32)
    arrays["state_in"] = random.normal(size=arrays["state_in"].shape).astype(np.float32)
    return arrays


def _worst(got: tuple[np.ndarray, np.ndarray], expected: tuple[np.ndarray, np.ndarray]) -> tuple[float, float]:
    """NMSE of output and states."""
    output, states = (conformance.nmse(g, e.astype(np.float64)) for g, e in zip(got, expected, strict=True))
    return output, states


def execute(code: bytes, arrays: dict[str, Any], target: NpuTarget) -> tuple[np.ndarray, np.ndarray]:
    """Output and states, with all checks."""
    options = emulated.SimOptions(threads=1, timeline=False, fatal_saturation=True)
    scale = arrays["query"].shape[-1] ** -0.5
    return emulated.execute(code, arrays, scale=scale, target=target, options=options)[:2]


def verdict_of(good: tuple[np.ndarray, np.ndarray], run: Callable[[], tuple[np.ndarray, np.ndarray]]) -> tuple[str, str]:
    """check, result or survivor, and the evidence."""
    try:
        got = run()
    except emulated.SimFault as fault:
        return "check", f"{fault.check}: {fault.text.splitlines()[0]}"
    except emulated.LibraryError as error:
        return "check", f"refused: {error}"
    names = [name for name, new, old in zip(("output", "states"), got, good, strict=True) if new.tobytes() != old.tobytes()]
    return ("result", f"other {' and '.join(names)}") if names else ("survivor", "the same bits, no check")


def judge(most: int, jobs: int) -> list[tuple[_mutants.Mutant, str, str]]:
    """Every mutant of a plan, at most so many of a kind (spread evenly), with its verdict and evidence."""
    given = problem()
    code = plans.to_bytes(given.plan)
    at, sections = _steps_at(code)
    steps = [_STEP.unpack_from(code, at + i * _STEP.size) for i in range(sum(sections))]

    def run(edits: Edits) -> tuple[str, str]:
        data = bytearray(code)
        for number, words in edits.items():
            _STEP.pack_into(data, at + number * _STEP.size, *words)
        return verdict_of(given.good, lambda: execute(plans.summed(data), given.arrays, given.target))

    if given.exact[0] > OUTPUT_BOUND or given.exact[1] > STATE_BOUND or max(given.meant) > MEANT_BOUND:
        raise SystemExit(
            f"mutations: the plan itself is wrong: NMSE {given.exact} against fp64, {given.meant} against its meaning"
        )
    chosen = spread(list(_mutated(steps, sections, _labels(given.labelled))), most, lambda one: one[0])
    mutants = [_mutants.Mutant(i, kind, number, text) for i, (kind, number, text, _) in enumerate(chosen, 1)]
    with ThreadPoolExecutor(jobs) as pool:
        verdicts = list(pool.map(lambda one: run(one[3]), chosen))
    for i, ((verdict, _), (kind, *_, edits)) in enumerate(zip(verdicts, chosen, strict=True)):
        if verdict == "survivor":
            objection = _objection(given, steps, edits)
            evidence = ORDERED if kind in ("wait", "set", "pair", "barrier") else "the same bits, no check, nor verify"
            verdicts[i] = ("survivor", evidence) if objection is None else ("check", f"verify: {objection}")
    return [(mutant, *verdict) for mutant, verdict in zip(mutants, verdicts, strict=True)]


def _objection(given: Problem, before: Sequence[Words], edits: Edits) -> str | None:
    """What hajax.plans.verify, which a plan passes before it is stored, says of the plan with these steps."""
    plan = given.labelled
    assert isinstance(plan.launch, plans.Programs)
    (program,) = plan.launch.programs
    steps = [*program.setup, *program.body, *program.finish]
    for number, words in edits.items():
        steps[number] = _like(steps[number], before[number], words)
    start, end = len(program.setup), len(program.setup) + len(program.body)
    changed = dataclasses.replace(program, setup=tuple(steps[:start]), body=tuple(steps[start:end]), finish=tuple(steps[end:]))
    try:
        plans.verify(dataclasses.replace(plan, launch=dataclasses.replace(plan.launch, programs=(changed,))), given.target)
    except ValueError as error:
        return str(error)
    return None


def _like(step: Step, before: Words, words: Words) -> Step:
    """The step, which had other words before, with these; an operand is still one of its buffer."""
    kept = [{_name(flag) for flag in _flags(words, sets)} for sets in (False, True)]
    waits, sets = (
        tuple(flag for flag in flags if f"{flag.source}_{flag.target}.{flag.event}" in names)
        for flags, names in zip((step.waits, step.sets), kept, strict=True)
    )
    control = words[1]
    operands: dict[str, Operand | None] = {}
    for at, name in enumerate(("dst", "src0", "src1")):
        operand, further = getattr(step, name), (words[_DST + at] - before[_DST + at]) * _UNIT
        moved = operand is not None and not (words[_DST + at] ^ before[_DST + at]) & _ALTERNATES
        operands[name] = dataclasses.replace(operand, offset=operand.offset + further) if moved else operand
    return dataclasses.replace(
        step,
        **operands,
        waits=waits, sets=sets, barrier=bool(control & _BARRIER), stage=control & _STAGE, last=bool(control & _LAST),
        count=words[_COUNT], index=words[_COUNT + 1], size=words[_SIZE], p=step.p if step.opcode == "sync" else words[_P:],
    )  # fmt: skip


def _labels(plan: plans.Plan) -> list[str]:
    assert isinstance(plan.launch, plans.Programs)
    (program,) = plan.launch.programs
    return [step.label for step in (*program.setup, *program.body, *program.finish)]


def _steps_at(code: bytes) -> tuple[int, tuple[int, int, int]]:
    """Where the one program's steps begin, and how many its sections have."""
    ffi = cffi.FFI()
    ffi.cdef(abi.header_text())
    header = ffi.from_buffer("hj_npu_plan *", code[: ffi.sizeof("hj_npu_plan")])
    assert header.programs == 1
    start = header.program_offset
    program = ffi.from_buffer("hj_npu_program *", code[start : start + ffi.sizeof("hj_npu_program")])
    return program.step_offset, (program.setup, program.body, program.finish)


def spread(all_of_them: Sequence[One], most: int, kind_of: Callable[[One], str]) -> list[One]:
    """At most so many of each kind, evenly spread; all of them for 0."""
    found: list[One] = []
    for kind in dict.fromkeys(map(kind_of, all_of_them)):
        of = [one for one in all_of_them if kind_of(one) == kind]
        found += of if not most or len(of) <= most else [of[i * len(of) // most] for i in range(most)]
    return found


def _mutated(steps: list[Words], sections: tuple[int, int, int], labels: list[str]) -> Iterator[tuple[str, int, str, Edits]]:
    """Kind, number of a step, what was done to it, and the steps as they are then."""
    start = 0
    for section, size in enumerate(sections):
        for number in range(start, start + size):
            name = f"{_opcode(steps[number])} {number} ({labels[number]})"
            for kind, text, words in _of_step(steps[number], section):
                yield kind, number, f"{name}: {text}", {number: words}
            for flag in _flags(steps[number], sets=True):
                # The wait may stand in the next iteration: then it is in front.
                order = (*range(number + 1, start + size), *range(start, number + 1))
                taker = next((n for n in order if flag in _flags(steps[n], sets=False)), None)
                if taker is None:  # in another section
                    continue
                edits = {number: _without(steps[number], flag, sets=True)}
                edits[taker] = _without(edits.get(taker, steps[taker]), flag, sets=False)
                yield "pair", number, f"{name}: without flag {_name(flag)} to {_opcode(steps[taker])} {taker}", edits
        start += size


def _opcode(words: Words) -> str:
    return str(abi.table("opcodes")(words[0]).name)


def _name(flag: int) -> str:
    return f"{abi.table('flags')(flag >> 3).name}.{flag & 7}"


def _places(words: Words, sets: bool) -> tuple[int, ...]:
    more = range(_P + 4, _P + 8) if sets else range(_P, _P + 4)
    return (*(_SETS if sets else _WAITS), *(more if _opcode(words) == "sync" and words[_COUNT] == 1 else ()))


def _flags(words: Words, sets: bool) -> list[int]:
    return [words[i] for i in _places(words, sets) if words[i]]


def _without(words: Words, flag: int, sets: bool) -> Words:
    place = next(i for i in _places(words, sets) if words[i] == flag)
    return _with(words, place, 0)


def _with(words: Words, place: int, value: int) -> Words:
    return (*words[:place], value, *words[place + 1 :])


def _of_step(words: Words, section: int) -> Iterator[tuple[str, str, Words]]:
    """Faults of one step alone."""
    name, control = _opcode(words), words[1]
    for sets, kind in ((False, "wait"), (True, "set")):
        for flag in _flags(words, sets):
            yield kind, f"without {'setting' if sets else 'waiting for'} {_name(flag)}", _without(words, flag, sets)
    if control & _BARRIER:
        yield "barrier", "without its barrier", _with(words, 1, control & ~_BARRIER)
    if name == "sync":
        return
    if section == _BODY:  # elsewhere a stage says nothing, and what is done only for a program's first item may be done again
        stage = control & _STAGE
        yield "stage", f"stage {(stage + 1) % 3}", _with(words, 1, control & ~_STAGE | (stage + 1) % 3)
    elif control & _LAST:
        yield "version", "not on the odd version", _with(words, 1, control & ~_LAST)
    # In setup, even versions lie where buffers lie that do not alternate.
    yield from _of_operands(name, words, versions=section != _SETUP or control & _LAST != 0)
    if name in _READS_COUNT:
        yield "count", "count one more", _with(words, _COUNT, (words[_COUNT] + 1) % 256)
        yield "count", "count one fewer", _with(words, _COUNT, words[_COUNT] - 1)
    if name not in _NO_SIZE:
        yield "count", "size one more", _with(words, _SIZE, words[_SIZE] + 1)
        yield "count", "size one fewer", _with(words, _SIZE, words[_SIZE] - 1)
    for i in range(8):
        if words[_P + i] and i not in _unread(name, words):
            yield "field", f"p[{i}] one more", _with(words, _P + i, (words[_P + i] + 1) % 256)


def _unread(name: str, words: Words) -> frozenset[int]:
    """Fields of p that say nothing in such a step."""
    if words[0] < _FIRST_VECTOR:
        if name in ("load_a", "load_b"):
            low = {7} if not words[_P + 5] | words[_P + 6] else set()
            return frozenset(low | ({1, 2, 3} if words[_COUNT] == 1 else set()) | ({0} if words[_SIZE] == 1 else set()))
        once = {"mmad": {3, 4, 5}, "l1_to_ub": {0, 1, 2, 3}, "ub_to_l1": {0, 1, 2, 3}, "c_to_ub32": {0, 1}, "c_to_ub16": {0, 1},
                "ub_to_c32": {0, 1}}  # fmt: skip
        return frozenset(once.get(name, set()) if words[_COUNT] == 1 else set())
    strides = {3, 4, 5} if words[_SIZE] == 1 else set()
    scalar = set() if name[:4] in ("muls", "adds", "maxs", "mins", "axpy", "dup3", "dup1") else {6}
    sources = sum(space is not None for space in _spaces(name)[1:])
    return frozenset(strides | scalar | ({2, 5} if sources < 2 else set()) | ({1, 4} if sources < 1 else set()))


def _of_operands(name: str, words: Words, versions: bool) -> Iterator[tuple[str, str, Words]]:
    for number, (field, space) in enumerate(zip(("dst", "src0", "src1"), _spaces(name), strict=True)):
        word = words[_DST + number]
        if space is not None:
            further = _with(words, _DST + number, word + _PLACE[space] // _UNIT)
            yield "address", f"{field} {_PLACE[space]} bytes further on", further
            if word & _ALTERNATES and versions:
                yield "version", f"{field} does not alternate", _with(words, _DST + number, word & ~_ALTERNATES)


def _spaces(name: str) -> tuple[str | None, str | None, str | None]:
    """Memories of dst, src0 and src1."""
    known = {
        "rows_to_l1": ("L1", None, None), "rows_to_ub": ("UB", None, None), "gate_to_ub": ("UB", None, None),
        "constant_to_l1": ("L1", None, None), "constant_to_ub": ("UB", None, None), "load_a": ("L0A", "L1", None),
        "load_b": ("L0B", "L1", None), "l1_to_ub": ("UB", "L1", None), "mmad": ("L0C", "L0A", "L0B"),
        "c_to_ub32": ("UB", "L0C", None), "c_to_ub16": ("UB", "L0C", None), "ub_to_c32": ("L0C", "UB", None),
        "ub_to_l1": ("L1", "UB", None), "rows_from_ub": (None, "UB", None), "workspace_to_l1": ("L1", None, None),
        "workspace_to_ub": ("UB", None, None), "workspace_from_ub": (None, "UB", None),
    }  # fmt: skip
    if name in known:
        return known[name]
    binary = name[:3] in ("add", "sub", "mul", "div", "max", "min", "mla") and name[3:] in ("32", "16")
    alone = name in ("dup32", "dup16")
    return "UB", None if alone else "UB", "UB" if binary else None
