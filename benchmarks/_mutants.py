"""Turns an Ascend C kernel into itself plus switches: each mutant is one small fault that a global integer turns on.

Kinds: flag (a SetFlag or WaitFlag removed), barrier (a PipeBarrier removed), buffer (an InitBuffer 32 bytes smaller), offset
(a tensor operand 16 bytes further on), repeat (a repeat count, block count or element count one repeat more or fewer).
One compilation serves all mutants, as each is chosen when the kernel runs.
"""

import re
from dataclasses import dataclass

SWITCH = "hajax_mutant"
# Calls whose leading arguments are tensors, with how many, and whether the last argument counts elements.
CALLS = {
    "DataCopy": (2, True), "LoadData": (2, False), "Mmad": (3, False), "Add": (3, True), "Sub": (3, True), "Mul": (3, True),
    "Div": (3, True), "Max": (3, True), "Min": (3, True), "Exp": (2, True), "Ln": (2, True), "Abs": (2, True), "Sqrt": (2, True),
    "Rsqrt": (2, True), "Reciprocal": (2, True), "Relu": (2, True), "Adds": (2, False), "Muls": (2, False),
    "Duplicate": (1, True), "ReduceMax": (3, True), "ReduceSum": (3, True), "ReduceMin": (3, True),
}  # fmt: skip
_PRELUDE = f"""
extern "C" {{ int {SWITCH} = 0; }}
template <typename Tensor>
static inline Tensor HajaxMoved(const Tensor& tensor, int mutant) {{
  return {SWITCH} == mutant ? tensor[16 / sizeof(typename Tensor::PrimType)] : tensor;
}}
"""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault: its switch's value, its kind, and the line of the kernel with what was done to it."""

    number: int
    kind: str
    line: int
    text: str


def arguments(text: str, start: int) -> tuple[list[tuple[int, int]], int]:
    """Spans of the arguments of the call whose opening parenthesis is at `start`, and where its closing one is."""
    spans, depth, begin = [], 0, start + 1
    for i in range(start, len(text)):
        if text[i] in "([{":
            depth += 1
        elif text[i] in ")]}":
            depth -= 1
            if depth == 0:
                return [*spans, (begin, i)], i
        elif text[i] == "," and depth == 1 and text[begin:i].count("<") == text[begin:i].count(">"):
            spans.append((begin, i))
            begin = i + 1
    raise ValueError(f"no closing parenthesis after character {start}")


class _Rewriter:
    def __init__(self, source: str) -> None:
        self.source = source
        self.edits: list[tuple[int, int, str]] = []  # (from, to, new text), disjoint or nested inwards
        self.mutants: list[Mutant] = []

    def new(self, kind: str, at: int, text: str) -> int:
        number = len(self.mutants) + 1
        self.mutants.append(Mutant(number, kind, self.source.count("\n", 0, at) + 1, text))
        return number

    def removed(self) -> None:
        for match in re.finditer(r"\b(SetFlag|WaitFlag|PipeBarrier)<[^;]*?>\([^;]*?\)", self.source):
            kind = "barrier" if match[1] == "PipeBarrier" else "flag"
            number = self.new(kind, match.start(), f"without {match[0]}")
            self.edits.append((match.start(), match.start(), f"if ({SWITCH} != {number}) "))

    def shrunk(self) -> None:
        for match in re.finditer(r"\bInitBuffer\(", self.source):
            spans, _ = arguments(self.source, match.end() - 1)
            begin, end = spans[-1]
            number = self.new("buffer", match.start(), f"{self.source[spans[0][0] : spans[0][1]].strip()} 32 bytes smaller")
            self.edits.append((begin, begin, "("))
            self.edits.append((end, end, f") - ({SWITCH} == {number} ? 32 : 0)"))

    def moved_and_counted(self) -> None:
        for match in re.finditer(rf"\b({'|'.join(CALLS)})\(", self.source):
            tensors, counts = CALLS[match[1]]
            spans, _ = arguments(self.source, match.end() - 1)
            if len(spans) <= tensors - (match[1] == "Mmad") and not counts:
                continue  # a declaration or another function of that name
            for begin, end in spans[:tensors]:
                operand = self.source[begin:end].strip()
                number = self.new("offset", match.start(), f"{match[1]}: {operand} 16 bytes further on")
                self.edits.append((begin, begin, " HajaxMoved("))
                self.edits.append((end, end, f", {number})"))
            begin, end = spans[-1]
            if match[1] in ("Adds", "Muls") or (counts and not self._is_params(self.source[begin:end])):
                self._counted(match.start(), end, f"{match[1]} over {self.source[begin:end].strip()}", 64)
        for match in re.finditer(r"\.repeatTimes = static_cast<uint8_t>\(([^;]*)\);", self.source):
            self._counted(match.start(), match.end() - 2, f"repeatTimes {match[1]}", 1)
        for match in re.finditer(r"\bDataCopyParams \w+\(static_cast<uint16_t>\(", self.source):
            spans, close = arguments(self.source, match.end() - 1)
            self._counted(match.start(), close, f"block count {self.source[spans[0][0] : spans[0][1]]}", 1)

    def _is_params(self, text: str) -> bool:
        return re.search(rf"\w*Params {re.escape(text.strip())}\b", self.source) is not None

    def _counted(self, at: int, end: int, text: str, step: int) -> None:
        more = self.new("repeat", at, f"{text}, {step} more")
        fewer = self.new("repeat", at, f"{text}, {step} fewer")
        self.edits.append((end, end, f" + ({SWITCH} == {more} ? {step} : 0) - ({SWITCH} == {fewer} ? {step} : 0)"))

    def text(self) -> str:
        # Insertions only, so that lines keep their numbers; the order at one place is the order in which they were asked for.
        result = self.source
        for _, (at, _, new) in sorted(enumerate(self.edits), key=lambda item: (item[1][0], item[0]), reverse=True):
            result = result[:at] + new + result[at:]
        head = result.index("using namespace AscendC;")
        return result[:head] + " ".join(_PRELUDE.split("\n")) + result[head:]


def mutate(source: str) -> tuple[str, tuple[Mutant, ...]]:
    """The kernel with all its switches, and the mutants; switch value 0 is the kernel as it was."""
    rewriter = _Rewriter(source)
    rewriter.removed()
    rewriter.shrunk()
    rewriter.moved_and_counted()
    return rewriter.text(), tuple(rewriter.mutants)
