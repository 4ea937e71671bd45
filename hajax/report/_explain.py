"""Renders a plan and the notes its passes left."""

from hajax.plans import Plan


def summary(plan: Plan) -> str:
    """One line: what runs, cut how, on what."""
    shape, launch = plan.shape, plan.launch
    tokens = "any length" if shape.tokens is None else f"T={shape.tokens}"
    how = f"chunk {launch.chunk}, {launch.group} value heads a task, {launch.column_blocks} column blocks"
    if shape.tokens is not None and shape.tokens <= launch.token_steps * shape.sequences:
        how = "token by token"
    return (
        f"{plan.mechanism.name} {tokens} heads {shape.key_heads}/{shape.value_heads} dims {shape.key_dim}x{shape.value_dim} "
        f"{shape.input_dtype}: {plan.schedule} on {launch.isa}, {how}, {launch.workers} threads, "
        f"{launch.scratch_bytes / 1024:.0f} KiB scratch a thread"
    )


def explain(plan: Plan) -> str:
    """What each pass chose, what it beat and what it saved; every figure is modelled unless it is a size."""
    lines = [summary(plan), f"planner version {plan.version}, target {plan.target}"]
    for note in plan.notes:
        beaten = f"; instead of {note.beaten}" if note.beaten else ""
        lines.append(f"  {note.by}: {note.choice}{beaten} ({note.saved})")
    return "\n".join(lines)
