"""Renders a plan and the notes its passes left."""

from collections import Counter

from hajax.plans import Fused, Packed, Plan, Programs, opened
from hajax.plans.program import SPACES, Launch, Program, kernel_launches
from hajax.plans.wire_programs import peak_bytes


def summary(plan: Plan) -> str:
    """One line: what runs, cut how, on what. Raises TypeError for what is no plan."""
    _check(plan)
    shape = plan.shape
    tokens = "any length" if shape.tokens is None else f"T={shape.tokens}"
    match plan.launch:
        case Fused():
            how = _fused(plan, plan.launch)
        case Programs() | Packed():
            how = _programs(plan)
    return (
        f"{plan.mechanism.name} {tokens} heads {shape.key_heads}/{shape.value_heads} dims {shape.key_dim}x{shape.value_dim} "
        f"{shape.input_dtype}: {plan.schedule} on {how}"
    )


def explain(plan: Plan) -> str:
    """What each pass chose, what it beat and what it saved; every figure is modelled unless it is a size.

    Raises TypeError for what is no plan.
    """
    _check(plan)
    plan = opened(plan)
    lines = [summary(plan), f"planner version {plan.version}, target {plan.target}"]
    if isinstance(plan.launch, Programs):
        lines += [_launch(number, launch) for number, launch in enumerate(plan.launch.launches)]
        lines += [_program(number, program) for number, program in enumerate(plan.launch.programs)]
    for note in plan.notes:
        beaten = f"; instead of {note.beaten}" if note.beaten else ""
        lines.append(f"  {note.by}: {note.choice}{beaten} ({note.saved})")
    return "\n".join(lines)


def _check(plan: Plan) -> None:
    if not isinstance(plan, Plan):
        raise TypeError(f"plan: expected a Plan as hajax.plan gives it, got {type(plan).__name__}")


def _fused(plan: Plan, launch: Fused) -> str:
    shape = plan.shape
    how = f"chunk {launch.chunk}, {launch.group} value heads a task, {launch.column_blocks} column blocks"
    if shape.tokens is not None and shape.tokens <= launch.token_steps * shape.sequences:
        how = "token by token"
    return f"{launch.isa}, {how}, {launch.workers} threads, {launch.scratch_bytes / 1024:.0f} KiB scratch a thread"


def _programs(plan: Plan) -> str:
    launch = opened(plan).launch
    assert isinstance(launch, Programs), "packed programs open as programs"
    cores = max(len(one.cores) for one in launch.launches)
    items = sum(len(core) for one in launch.launches for core in one.cores)
    kinds = ", ".join(_cut(program) for program in launch.programs)
    started, phases = kernel_launches(launch.launches), len(launch.launches)
    synced = "" if started == phases else f" of {phases} synced phases"
    counted = f"{_count(started, 'launch', 'launches')}{synced}, {_count(items, 'item')} on {_count(cores, 'core')}"
    return f"{plan.target}, chunk {launch.chunk}, {counted} ({kinds})"


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


def _launch(number: int, launch: Launch) -> str:
    """Which items the cores run, for neighbours that run alike: "cores 0-7 run 4 items of program 0"."""
    loads = [Counter(item.program for item in core) for core in launch.cores]
    told = []
    first = 0
    for core, load in enumerate(loads):
        if core + 1 < len(loads) and loads[core + 1] == load:
            continue
        items = " and ".join(f"{_count(count, 'item')} of program {program}" for program, count in sorted(load.items()))
        cores = f"core {core} runs" if first == core else f"cores {first}-{core} run"
        told.append(f"{cores} {items or 'nothing'}")
        first = core + 1
    synced = "; all cores meet before the next one, in the same kernel" if launch.synced else ""
    return f"launch {number}: {', '.join(told)}{synced}"


def _program(number: int, program: Program) -> str:
    steps = f"{len(program.setup)} setup, {len(program.body)} body and {len(program.finish)} finish steps"
    peaks = peak_bytes(program)
    used = ", ".join(f"{space} {peaks[space] / 1024:.1f}" for space in SPACES if peaks[space])
    return f"program {number}: {_cut(program)}, {steps}; peak KiB: {used}"


def _cut(program: Program) -> str:
    return f"{_count(program.heads, 'head')} x {program.columns} columns"
