"""`hajax tune` without the command line: a grid of problems from text, measured within a budget, stored, and told."""

import dataclasses
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from hajax import _tune, abi, backends, cache, planner, tuned
from hajax.mechanisms import MECHANISMS
from hajax.plans import Shape
from hajax.plans.verify_shape import most, verify_shape
from hajax.targets import CpuTarget

TOKENS = "1,16,64,256,1024,4096,16384"
HEADS = "16x16,16x32"
MOST_PROBLEMS = 1000


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asked for: lists with commas, as the options take them. budget: seconds, None for no end."""

    tokens: str = TOKENS
    heads: str = HEADS
    mechanism: str = "gated_delta_rule,kda"
    dtype: str = "float32,bfloat16"
    dim: int = 128
    batch: int = 1
    budget: float | None = None
    dry_run: bool = False


class _OutOfTime(Exception):
    """Raised by a tick when the budget is spent."""


def run(request: Request, measurer: Callable[[_tune.Problem], _tune.Measure] = _tune.measurer) -> dict[str, Any]:
    """Measures each problem of the grid, shortest first, and stores what beats the planner. Raises ValueError."""
    if request.budget is not None and not 0 < request.budget < float("inf"):
        raise ValueError(f"--budget: expected seconds above 0, got {request.budget}")
    target = backends.cpu_target()
    grid = list(problems(request, target))
    folder = cache.folder(cache.TUNED)
    if folder is None and not request.dry_run:
        raise ValueError("HAJAX_CACHE: expected 1 to store what is measured, got 0; --dry-run needs none")
    report: dict[str, Any] = {"target": target.fingerprint, "folder": str(folder) if folder else None}
    if request.dry_run:
        rows = [{**_place(one), "candidates": len(_tune.candidates(one))} for one in grid]
        return {**report, "dry_run": True, "rows": rows, "not_reached": 0}
    end = None if request.budget is None else time.monotonic() + request.budget
    rows = []
    with _progress(len(grid)) as advance:
        for one in grid:
            try:
                rows.append(_measured(one, measurer, end))
            except _OutOfTime:
                break
            advance(_told(rows[-1]))
    planner.plan.cache_clear()
    return {**report, "dry_run": False, "rows": rows, "not_reached": len(grid) - len(rows)}


def problems(request: Request, target: CpuTarget) -> Iterator[_tune.Problem]:
    """The grid, shortest first. Raises ValueError naming the option."""
    lengths = [_number("--tokens", word, most("tokens")) for word in _words("--tokens", request.tokens)]
    heads = [_heads(word) for word in _words("--heads", request.heads)]
    names = {"--mechanism": tuple(MECHANISMS), "--dtype": abi.names("dtypes")}
    chosen = {}
    for option, text in (("--mechanism", request.mechanism), ("--dtype", request.dtype)):
        chosen[option] = _words(option, text)
        for word in chosen[option]:
            if word not in names[option]:
                raise ValueError(f"{option}: expected names of {', '.join(names[option])}, got {word!r}")
    count = len(lengths) * len(heads) * len(chosen["--mechanism"]) * len(chosen["--dtype"])
    if count > MOST_PROBLEMS:
        raise ValueError(f"--tokens: expected a grid of at most {MOST_PROBLEMS} problems, got {count}")
    targets = kernels(target)
    for tokens in sorted(lengths):
        for key_heads, value_heads in heads:
            for name in chosen["--mechanism"]:
                for dtype in chosen["--dtype"]:
                    sizes = (request.batch, tokens, 1, key_heads, value_heads, request.dim, request.dim)
                    shape = Shape(*sizes, dtype, dtype)
                    verify_shape(shape)
                    if request.dim % 8 or not 8 <= request.dim <= 256:
                        raise ValueError(f"--dim: expected a multiple of 8 up to 256, got {request.dim}")
                    yield _tune.Problem(MECHANISMS[name], shape, target, targets)


def kernels(target: CpuTarget) -> tuple[CpuTarget, ...]:
    """The target with all that its CPU has, and the next best kernel unless HAJAX_CPU_ISA names one: it may be faster."""
    library = backends.open_library()
    dot = backends.has_bf16_dot(target.isa) and os.environ.get("HAJAX_CPU_BF16_DOT") != "0"
    found = [dataclasses.replace(target, bf16_dot=dot)]
    if not os.environ.get("HAJAX_CPU_ISA"):
        for isa in backends.available_isas()[-2:]:
            if isa not in (target.isa, "baseline", "tiles"):
                panel = int(library.lib.hajax_cpu_panel(abi.table("isas")[isa]))
                found.append(dataclasses.replace(target, isa=isa, panel=panel, bf16_dot=False))
    return tuple(found)


def _measured(problem: _tune.Problem, measurer: Callable[[_tune.Problem], _tune.Measure], end: float | None) -> dict[str, Any]:
    def tick() -> None:
        if end is not None and time.monotonic() >= end:
            raise _OutOfTime

    tick()
    found = _tune.search(problem, measurer(problem), tick=tick)
    kept = _tune.worth_keeping(found)
    if kept:
        tuned.write(problem.mechanism, problem.shape, problem.target, planner.VERSION, found)
    return {
        **_place(problem),
        "candidates": len(_tune.candidates(problem)),
        "planned": planner.describe_choice(_tune.planned(problem)),
        "planned_us": round(1e6 * found.planned_seconds, 1),
        "best": planner.describe_choice(found.choice),
        "best_us": round(1e6 * found.seconds, 1),
        "stored": kept,
    }


def _place(problem: _tune.Problem) -> dict[str, Any]:
    shape = problem.shape
    return {
        "mechanism": problem.mechanism.name, "T": shape.tokens, "B": shape.batch, "Hk": shape.key_heads, "Hv": shape.value_heads,
        "D": shape.key_dim, "dtype": shape.input_dtype,
    }  # fmt: skip


def describe(report: dict[str, Any]) -> Iterator[str]:
    """Lines for people."""
    yield f"{report['target']}: {len(report['rows'])} problems"
    for row in report["rows"]:
        yield "  " + (f"{_title(row)}: {row['candidates']} candidates" if report["dry_run"] else _told(row))
    if report["not_reached"]:
        yield f"the budget was spent: {report['not_reached']} problems were not reached"
    if not report["dry_run"]:
        stored = sum(row["stored"] for row in report["rows"])
        yield f"{stored} choices stored in {report['folder']}; later plans of these shapes and nearby lengths take them"


def _title(row: dict[str, Any]) -> str:
    return f"{row['mechanism']} T={row['T']} heads {row['Hk']}/{row['Hv']} {row['dtype']}"


def _told(row: dict[str, Any]) -> str:
    if not row["stored"]:
        return f"{_title(row)}: the planner's choice stays ({row['planned_us']:.0f} us; best measured {row['best_us']:.0f} us)"
    return f"{_title(row)}: {row['best']}, {row['best_us']:.0f} us instead of {row['planned_us']:.0f} us"


class _progress:
    """A bar on a terminal's standard error, elsewhere a line for each problem."""

    def __init__(self, total: int) -> None:
        self._total, self._bar = total, None
        if sys.stderr.isatty():
            columns = (
                TextColumn("measuring"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.description}"),
            )
            self._bar = Progress(*columns, console=Console(stderr=True))

    def __enter__(self) -> Callable[[str], None]:
        if self._bar is None:
            return lambda line: print(line, file=sys.stderr, flush=True)
        self._bar.start()
        task = self._bar.add_task("", total=self._total)
        bar = self._bar
        return lambda line: bar.update(task, advance=1, description=line)

    def __exit__(self, *_: Any) -> None:
        if self._bar is not None:
            self._bar.stop()


def _words(option: str, text: str) -> list[str]:
    words = list(dict.fromkeys(word.strip() for word in text.split(",")))
    if not all(words):
        raise ValueError(f"{option}: expected words with commas between them, got {text!r}")
    return words


def _number(option: str, text: str, largest: int) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 12 and 1 <= int(text) <= largest):
        raise ValueError(f"{option}: expected numbers from 1 to {largest}, got {text!r}")
    return int(text)


def _heads(text: str) -> tuple[int, int]:
    key, cross, value = text.partition("x")
    if not cross:
        raise ValueError(f"--heads: expected HkxHv, such as 16x32, got {text!r}")
    pair = _number("--heads", key, most("key_heads")), _number("--heads", value, most("value_heads"))
    if pair[1] % pair[0]:
        raise ValueError(f"--heads: expected Hv a multiple of Hk, got {text!r}")
    return pair
