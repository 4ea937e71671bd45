"""Measuring CPU plan choices: which there are for a problem, which are fastest, and how a call of one is timed."""

import dataclasses
import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import ml_dtypes  # noqa: F401 (numpy learns bfloat16 from it)
import numpy as np

from hajax import cost, passes, planner, schedules
from hajax.backends import cpu
from hajax.mechanisms import Mechanism
from hajax.plans import Fused, Note, Plan, Shape
from hajax.plans.verify import CHUNKS
from hajax.targets import CpuTarget
from hajax.tuned import Choice, Tuned

Measure = Callable[[Plan], float]  # seconds of one call

MOST_TOKEN_STEPS = 32  # longer sequences are never run token by token
KEEP_BELOW = 0.97  # a choice is worth storing when it takes at most this share of the planner's time
_FINALISTS, _FINAL_ROUNDS = 3, 7
_NOTE = Note("candidate", "given to be measured", "", "")


@dataclass(frozen=True, slots=True)
class Problem:
    """What is tuned: the shape with its length, on a target. `targets`: one for each kernel of its CPU that is tried."""

    mechanism: Mechanism
    shape: Shape
    target: CpuTarget
    targets: tuple[CpuTarget, ...]


def planned(problem: Problem) -> Choice:
    """What the cost model chooses, whatever was measured before."""
    plan = schedules.CPU["cpu_fused"](problem.mechanism, problem.shape, problem.target, planner.VERSION)
    launch = plan.launch
    assert isinstance(launch, Fused), "a CPU plan is one fused launch"
    return Choice(**{field.name: getattr(launch, field.name) for field in dataclasses.fields(Choice)})


def candidates(problem: Problem) -> list[Choice]:
    """Every choice worth trying, the planner's own first and no two alike."""
    found = [planned(problem)]
    for target in problem.targets:
        found += _of_target(problem, target)
    return list(dict.fromkeys(found))


def _of_target(problem: Problem, target: CpuTarget) -> Iterator[Choice]:
    shape = problem.shape
    assert shape.tokens is not None, "tuning is of a length"
    panels = -(-shape.value_dim // target.panel)
    groups = passes.groups_to_try(shape, target)
    blocks = range(1, min(problem.target.threads, panels) + 1)
    workers = sorted({1, problem.target.threads})
    dots = [False]
    if cost.takes_bf16_dot(problem.mechanism, shape, target):
        dots.append(True)
    length = -(-shape.tokens // shape.sequences)
    fitting = [chunk for chunk in CHUNKS if chunk == CHUNKS[0] or chunk < 2 * length]
    ways = [(chunk, 0, dot) for chunk in fitting for dot in dots]
    if length <= MOST_TOKEN_STEPS:
        ways.append((CHUNKS[0], length, False))
    for (chunk, steps, dot), group, block, threads in itertools.product(ways, groups, blocks, workers):
        yield Choice(target.isa, target.panel, chunk, group, block, steps, threads, dot)


def plan_of(problem: Problem, choice: Choice) -> Plan:
    """The plan with this choice. Raises ValueError when it fits none."""
    return planner.choice_plan(problem.mechanism, problem.shape, problem.target, choice, _NOTE)


def search(problem: Problem, measure: Measure, *, tick: Callable[[], None] = lambda: None) -> Tuned:
    """The fastest choice: every candidate once, the faster half once more, and so on; the last few in turns.

    The planner's own choice is measured in every round, so that both figures are of the same minutes; each is the least of a
    choice's.

    tick: called before each measurement, to show progress or to stop by raising.
    """
    own, *others = candidates(problem)
    plans = {choice: plan_of(problem, choice) for choice in (own, *others)}
    least = dict.fromkeys(plans, float("inf"))

    def round_of(choices: list[Choice]) -> None:
        for choice in dict.fromkeys((own, *choices)):
            tick()
            least[choice] = min(least[choice], measure(plans[choice]))

    left = [own, *others]
    while len(left) > _FINALISTS:
        round_of(left)
        left = sorted(left, key=lambda choice: least[choice])[: max(_FINALISTS, len(left) // 2)]
    for _ in range(_FINAL_ROUNDS):
        round_of(left)
    best = min(plans, key=lambda choice: (least[choice], choice != own))
    assert problem.shape.tokens is not None
    return Tuned(best, problem.shape.tokens, least[best], least[own])


def worth_keeping(found: Tuned) -> bool:
    """Whether it beats the planner's choice by more than timing's own spread."""
    return found.seconds <= KEEP_BELOW * found.planned_seconds


def measurer(problem: Problem, *, least_seconds: float = 0.01, clock: Callable[[], float] = time.perf_counter) -> Measure:
    """Times calls on random inputs, on the library's own threads: one to warm up, then as many as fill `least_seconds`."""
    shape, rows = problem.shape, problem.shape.batch or 1
    assert shape.tokens is not None
    random = np.random.default_rng(0)

    def drawn(*sizes: int, dtype: str = "float32") -> Any:
        return random.standard_normal(sizes, np.float32).astype(dtype, copy=False)

    keys = (rows, shape.tokens, shape.key_heads, shape.key_dim)
    values = (rows, shape.tokens, shape.value_heads, shape.value_dim)
    by_channel = (shape.key_dim,) if problem.mechanism.decay == "per_channel" else ()
    strengths = (2,) if problem.mechanism.strengths == 2 else ()
    decay = np.abs(drawn(*values[:3], *by_channel)) * np.float32(-0.1)
    beta = np.full((*values[:3], *strengths), 0.5, np.float32)
    state = np.zeros((rows * shape.sequences, shape.value_heads, shape.key_dim, shape.value_dim), np.float32)
    bounds = np.linspace(0, shape.tokens, shape.sequences + 1).astype(np.int32)[None].repeat(rows, axis=0)
    inputs = [drawn(*sizes, dtype=shape.input_dtype) for sizes in (keys, keys, values)]
    output = np.zeros(values, shape.output_dtype)
    arrays = [*inputs, decay, beta, state, np.ascontiguousarray(bounds), output, state]  # in place, as with a donated state
    sizes = (rows, shape.tokens, shape.sequences)

    def measure(plan: Plan) -> float:
        launch = cpu.launch_of_plan(plan)
        addresses = [array.ctypes.data for array in arrays]

        def calls(count: int) -> float:
            start = clock()
            for _ in range(count):
                cpu.run(launch, sizes, addresses, shape.key_dim**-0.5, 1e-6)
            return (clock() - start) / count

        once = calls(1)
        return once if once > 10 * least_seconds else calls(max(1, int(least_seconds / once)))

    return measure
