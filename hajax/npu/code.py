"""Steps as the text of one Python function: what runs is as fast as a loop written by hand, and can be read.

`program.source` shows it; tracebacks name its lines.
"""

import itertools
import linecache
import math
from collections.abc import Callable, Sequence
from typing import Any

_numbers = itertools.count()


def compile_steps(steps: Sequence[Any], inputs: Sequence[int], outputs: Sequence[Any]) -> tuple[Callable[..., Any], str]:
    """The function of the steps, and its text. Functions and tensors are names f0, f1, ... and c0, c1, ..."""
    names: dict[str, Any] = {}
    functions: dict[int, str] = {}
    constants: dict[int, str] = {}

    def named(table: dict[int, str], letter: str, value: Any) -> str:
        if id(value) not in table:
            table[id(value)] = f"{letter}{len(table)}"
            names[table[id(value)]] = value  # keeps it alive, so its id stays its own
        return table[id(value)]

    def operand(value: Any) -> str:
        if hasattr(value, "number"):
            return f"t{value.number}"
        if isinstance(value, (bool, int)) or (isinstance(value, float) and math.isfinite(value)):
            return f"({value!r})" if value < 0 else repr(value)
        return named(constants, "c", value)

    lines = [f"def program({', '.join(f't{number}' for number in inputs)}):"]
    for step in steps:
        call = f"{named(functions, 'f', step.function)}({', '.join(map(operand, step.operands))})"
        results = ["_" if number is None else f"t{number}" for number in step.results]
        left = f"{', '.join(results)}{',' if len(results) == 1 and step.many else ''} = " if results else ""
        lines.append(f"    {left}{call}  # {step.name}: {step.about}")
        if step.frees:
            lines.append(f"    del {', '.join(f't{number}' for number in step.frees)}")
    lines.append(f"    return ({''.join(f'{operand(value)}, ' for value in outputs)})")
    text = "\n".join(lines) + "\n"
    filename = f"<hajax program {next(_numbers)}>"
    exec(compile(text, filename, "exec"), names)
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    return names["program"], text
