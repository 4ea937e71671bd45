"""Small faults in the fused kernel's own source (native/ascend), one at a time, each behind a switch of one compilation.

Kinds: flag and barrier (removed; one pair of pipes after the other), offset (a tensor operand 32 bytes further on, in L0 a
fractal), repeat (a count, length or gap one more or fewer), loop (a round more or fewer), step (what a loop adds, doubled), value
(an assigned integer one more), condition (of an if, the opposite). Each runs several plans until one shows it: by a check, by
other bits than the kernel gives as it is, by ending the process, or by not ending within a minute.
"""

import ctypes
import dataclasses
import multiprocessing
import re
import tempfile
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any
from unittest import mock

import _ascend
import _mutants
import _plan_mutants
import _rare_steps
import ablation
import numpy as np

from hajax import abi, plans
from hajax.backends import npu as emulated
from hajax.backends import sim
from hajax.plans import source as own_kernels
from hajax.targets import NpuTarget

FOLDER = Path(__file__).parents[1] / "native" / "ascend"
SWITCH = _mutants.SWITCH
_PLACE = {"Ub": 32, "L1": 32, "Gm": 32, "L0a": 512, "L0b": 512, "L0c": 1024}
_REACHED = "hajax_reached"
UNREACHED = "none of the plans runs this line with such operands"
_PRELUDE = f"""
extern "C" {{ int {SWITCH} = 0; int {_REACHED} = 0; }}
static inline bool HajaxIs(int mutant) {{
  if ({SWITCH} != mutant) return false;
  {_REACHED} = 1;
  return true;
}}
template <typename Tensor>
static inline Tensor HajaxMoved(const Tensor& tensor, int mutant, int bytes) {{
  return HajaxIs(mutant) ? tensor[bytes / sizeof(typename Tensor::PrimType)] : tensor;
}}
"""
_PATIENCE = 60.0  # seconds
CHIP = "ascend310p1"


class _Source:
    """One file with its switches. Only insertions, so that lines keep their numbers."""

    def __init__(self, name: str, text: str, mutants: list[_mutants.Mutant]) -> None:
        self.name, self.text, self.mutants = name, text, mutants
        self.edits: list[tuple[int, str]] = []

    def new(self, kind: str, at: int, text: str) -> int:
        number = self.mutants[-1].number + 1 if self.mutants else 1
        line = self.text.count("\n", 0, at) + 1
        self.mutants.append(_mutants.Mutant(number, kind, line, f"{self.name}: {' '.join(text.split())}"))
        return number

    def put(self, at: int, new: str) -> None:
        self.edits.append((at, new))

    def around(self, span: tuple[int, int], before: str, after: str) -> None:
        self.put(span[0], before)
        self.put(span[1], after)

    def result(self) -> str:
        text = self.text
        for _, (at, new) in sorted(enumerate(self.edits), key=lambda edit: (edit[1][0], edit[0]), reverse=True):
            text = text[:at] + new + text[at:]
        return text


def _removed(source: _Source) -> None:
    for match in re.finditer(r"AscendC::(SetFlag|WaitFlag|PipeBarrier)<([^;{}]*?)>\([^;]*?\);", source.text):
        kind = "barrier" if match[1] == "PipeBarrier" else "flag"
        before = source.text[: match.start()].rsplit("#define", 1)[-1]
        if "HardEvent::name" in match[2]:
            if "if constexpr" in before.split("#undef")[0].rsplit("\n\n", 1)[-1]:
                continue  # of the kernels that are made of one plan
            for number, name in _flags():
                mutant = source.new(kind, match.start(), f"without {match[1]}<{name}>")
                source.put(match.start(), f"if (number != {number} || !HajaxIs({mutant})) ")
        else:
            mutant = source.new(kind, match.start(), f"without {match[0]}")
            source.put(match.start(), f"if (!HajaxIs({mutant})) ")


def _flags() -> list[tuple[int, str]]:
    return [(int(row[0]), str(row[1])) for row in abi.rows("flags")]


def _moved(source: _Source) -> None:
    for match in re.finditer(r"(?<![\w:])In(Ub|L1|L0a|L0b|L0c|Gm)(<\w+>)?\(", source.text):
        _, close = _mutants.arguments(source.text, match.end() - 1)
        tail = source.text[close + 1 : close + 3]
        head = source.text[source.text.rfind("\n", 0, match.start()) + 1 : match.start()]
        if "inline" in head or tail.startswith((" {", ".")):
            continue  # its definition, or a scalar access
        bytes_ = _PLACE[match[1]]
        mutant = source.new("offset", match.start(), f"{source.text[match.start() : close + 1]} {bytes_} bytes further on")
        source.around((match.start(), close + 1), "HajaxMoved(", f", {mutant}, {bytes_})")


def _counted(source: _Source) -> None:
    for match in re.finditer(r"(?<!inline DataCopyParams )\bRuns\(", source.text):
        spans, _ = _mutants.arguments(source.text, match.end() - 1)
        alone = source.text[slice(*spans[0])].strip() == "1"  # then there is nothing between blocks
        for number, (begin, end) in enumerate(spans[: 2 if alone else 4]):
            name = ("count", "length", "source gap", "destination gap")[number]
            _more_and_fewer(source, "repeat", (begin, end), f"{name} {source.text[begin:end]}")
    pattern = r"\b(\w+\.(?:repeatTimes|srcStride|m|n|k)) = static_cast<\w+>\(([^;]*)\);"
    for match in re.finditer(pattern, source.text):
        _more_and_fewer(source, "repeat", match.span(2), match[0])
    for match in re.finditer(r"repeats\(static_cast<uint8_t>\((step\.Size\(\))\)\)", source.text):
        _more_and_fewer(source, "repeat", match.span(1), match[0])


def _more_and_fewer(source: _Source, kind: str, span: tuple[int, int], text: str) -> None:
    more, fewer = (source.new(kind, span[0], f"{text}, one {word}") for word in ("more", "fewer"))
    source.around(span, "(", f") + HajaxIs({more}) - HajaxIs({fewer})")


def _looped(source: _Source) -> None:
    for match in re.finditer(r"\bfor \([^;]*; (?:i(?: \+ 1)?|stage|row) (?:<=|<) ([^;]+);", source.text):
        bound = match[1]
        more, fewer = (source.new("loop", match.start(), f"{match[0]} one round {word}") for word in ("more", "fewer"))
        extra = f" + HajaxIs({more}) - (({bound}) != 0 && HajaxIs({fewer}))"
        source.around(match.span(1), "(", f"){extra}")
    for match in re.finditer(r"^ +[\w.]+ \+= ([^;]+);", source.text, re.MULTILINE):
        mutant = source.new("step", match.start(1), f"{match[0]} twice as far")
        source.around(match.span(1), f"(1 + HajaxIs({mutant})) * (", ")")


_NO_INTEGER = r"ChunkAt|TileOf|Runs\(|core_\.at|context\.at|nullptr"


def _valued(source: _Source) -> None:
    pattern = r"^ +(?:(?:const )?(?:uint32_t|uint64_t|int32_t|GM_ADDR|auto) )?(\w[\w.]*) = ([^;{}=]+);"
    for match in re.finditer(pattern, source.text, re.MULTILINE):
        whole = match[0].lstrip()
        starts = re.match(r"  \w+ \w+_? = ", match[0]) is not None  # of a member, which is set before it is read
        if starts or whole.startswith(("constexpr", "load.", "product.", "matrix.")) or re.search(_NO_INTEGER, whole):
            continue
        mutant = source.new("value", match.start(2), f"{whole} one more")
        source.around(match.span(2), "(", f") + HajaxIs({mutant})")


def _negated(source: _Source) -> None:
    for match in re.finditer(r"\bif \(", source.text):
        _, close = _mutants.arguments(source.text, match.end() - 1)
        span = (match.end(), close)
        mutant = source.new("condition", match.start(), f"if not ({source.text[span[0] : span[1]]})")
        source.around(span, "static_cast<bool>(", f") != HajaxIs({mutant})")


def mutate() -> tuple[str, tuple[_mutants.Mutant, ...]]:
    """Everything of the kernel that walks a plan, but its entry, in one text with all switches; and the mutants."""
    mutants: list[_mutants.Mutant] = []
    done: list[str] = []
    parts = ['#include "hajax/abi/plan.h"', '#include "kernel_operator.h"', " ".join(_PRELUDE.split("\n"))]

    def add(name: str) -> None:
        if name in done:
            return
        done.append(name)
        text = (FOLDER / name).read_text(encoding="utf-8")
        for other in re.findall(r'#include "native/ascend/(\w+\.h)"', text):
            add(other)
        text = re.sub(r'#include "native/ascend/\w+\.h"', "", text)
        source = _Source(name, text, mutants)
        for rule in (_removed, _moved, _counted, _looped, _valued, _negated):
            rule(source)
        parts.append(f'#line 1 "native/ascend/{name}"\n{source.result()}')

    for name in re.findall(r'#include "native/ascend/(\w+\.h)"', (FOLDER / "kernel.cpp").read_text(encoding="utf-8")):
        add(name)
    return "\n".join(parts), tuple(mutants)


def entry(name: str) -> str:
    """The kernel that walks a plan under another name, that of a plan's own kernel, so that the host takes it for that."""
    text = (FOLDER / "kernel.cpp").read_text(encoding="utf-8")
    body = text[text.index('extern "C"') :]
    return body.replace("hajax_delta_rule", name)


@dataclasses.dataclass(frozen=True, slots=True)
class Problem:
    """A plan and a call of it, for so many cores of a 310P1. It goes to other processes."""

    code: bytes
    arrays: dict[str, np.ndarray]
    cores: int

    @property
    def target(self) -> NpuTarget:
        return _ascend.replaced(_ascend.chip(CHIP), ai_cores=self.cores)


def problems() -> tuple[Problem, ...]:
    """Plans that together reach the kernel's lines: pairs of heads, packed sequences, the vector form, spills, launches, KDA."""
    first, chip = _plan_mutants.problem(), _ascend.chip(CHIP)
    packed, small = _ascend.Heads("gdn", 90, 1, 3, 32, 48, 2, 3), _ascend.Heads("gdn", 80, 1, 2)
    code, rare = _rare_steps.plan()
    found = [Problem(plans.to_bytes(first.plan), first.arrays, 1), Problem(code, _plan_mutants.drawn(rare), 1)]
    for heads in (packed, _ascend.Heads("gdn", 70, 1, 1)):  # the second one in pieces of columns
        found.append(Problem(plans.to_bytes(_ascend.plan_of(heads, chip)), _plan_mutants.drawn(heads), chip.ai_cores))
    for mechanism in _ascend.NAMES:
        heads = dataclasses.replace(small, mechanism=mechanism)
        for variant in ablation.VARIANTS:
            try:
                found.append(Problem(plans.to_bytes(variant.make(heads, first.target)), _plan_mutants.drawn(heads), 1))
            except ValueError:
                continue  # no such plan, or it does not fit
    return tuple(found)


def judge(most: int, jobs: int) -> list[tuple[_mutants.Mutant, str, str]]:
    """Every mutant of the kernel, at most so many of a kind (spread evenly), with verdict and evidence."""
    text, mutants = mutate()
    chosen = _plan_mutants.spread(mutants, most, lambda mutant: mutant.kind)
    given = problems()
    names = dict.fromkeys(own_kernels.kernel_name(one.code) for one in given)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mutants.cpp"
        path.write_text("\n".join([text, *map(entry, names)]), encoding="utf-8")
        library = sim.compile_kernel(path, CHIP, flags=("-O1",))
        workers = [_Worker(library, given) for _ in range(min(jobs, len(chosen)))]
        try:
            return _share_out(workers, chosen)
        finally:
            for worker in workers:
                worker.stop()


class _Worker:
    """A process that runs mutants, as one may end it or run for ever."""

    def __init__(self, library: Path, given: tuple[Problem, ...]) -> None:
        self._made_of = (library, given)
        self.mutant: _mutants.Mutant | None = None
        self._process: BaseProcess | None = None
        self.pipe: Connection | None = None

    def ask(self, mutant: _mutants.Mutant) -> None:
        if self._process is None:
            context = multiprocessing.get_context("spawn")
            self.pipe, other = context.Pipe()
            self._process = context.Process(target=_serve, args=(other, *self._made_of), daemon=True)
            self._process.start()
            other.close()
            assert self.pipe.recv() == "ready"
        assert self.pipe is not None
        self.mutant = mutant
        self.pipe.send(mutant.number)

    def answer(self) -> tuple[str, str]:
        assert self.pipe is not None
        if not self.pipe.poll(_PATIENCE):
            self.stop()
            return "result", "did not end"
        try:
            verdict: tuple[str, str] = self.pipe.recv()
        except EOFError:
            self.stop()
            return "result", "ended the process"
        return verdict

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None


def _share_out(workers: list[_Worker], chosen: list[_mutants.Mutant]) -> list[tuple[_mutants.Mutant, str, str]]:
    judged = []
    for start in range(0, len(chosen), len(workers)):
        some = list(zip(workers, chosen[start : start + len(workers)], strict=False))
        for worker, mutant in some:
            worker.ask(mutant)
        judged += [(mutant, *worker.answer()) for worker, mutant in some]
    return judged


def _serve(pipe: Connection, library: Path, given: tuple[Problem, ...]) -> None:
    """Answers numbers of mutants with verdicts."""
    opened = sim.open_sim_library()  # first, as the kernels need it
    switch, reached = (ctypes.c_int.in_dll(ctypes.CDLL(str(library)), name) for name in (SWITCH, _REACHED))

    def kernel(code: bytes) -> Any:
        return sim.LoadedKernel(opened, library, own_kernels.kernel_name(code))

    def run(one: Problem) -> tuple[np.ndarray, np.ndarray]:
        options = emulated.SimOptions(threads=1, timeline=False, fatal_saturation=True)
        scale = one.arrays["query"].shape[-1] ** -0.5
        return emulated.execute(one.code, one.arrays, scale=scale, target=one.target, options=options, specialised=True)[:2]

    with mock.patch.object(emulated, "specialise", kernel):
        good = [run(one) for one in given]
        pipe.send("ready")
        while True:
            switch.value, reached.value = pipe.recv(), 0
            verdict = ("survivor", "")
            for one, right in zip(given, good, strict=True):
                verdict = _plan_mutants.verdict_of(right, lambda one=one: run(one))  # type: ignore[misc]
                if verdict[0] != "survivor":
                    break
            switch.value = 0
            pipe.send(verdict if reached.value or verdict[0] != "survivor" else ("survivor", UNREACHED))
