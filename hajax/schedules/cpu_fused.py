"""The CPU's own schedule: one fused launch, cut up for caches and threads."""

from dataclasses import asdict, replace

from hajax import passes
from hajax.mechanisms import Mechanism
from hajax.plans import Note, Plan, Shape
from hajax.targets import CpuTarget
from hajax.tuned import Choice


def schedule_cpu_fused(mechanism: Mechanism, shape: Shape, target: CpuTarget, version: int) -> Plan:
    """chunk -> token steps -> mapping -> bf16 dot -> scratch."""
    draft = passes.Draft(mechanism, shape)
    for step in (passes.choose_chunk, passes.choose_token_steps, passes.map_heads, passes.choose_bf16_dot, passes.size_scratch):
        draft = step(draft, target)
    return passes.finish(
        draft, version=version, target=target.fingerprint, schedule="cpu_fused", isa=target.isa, panel=target.panel
    )


def schedule_cpu_choice(mechanism: Mechanism, shape: Shape, target: CpuTarget, version: int, choice: Choice, note: Note) -> Plan:
    """The same launch with its choices given instead of made, and `note` to say where they came from; scratch as they need it."""
    chosen = asdict(choice)
    isa, panel = chosen.pop("isa"), chosen.pop("panel")
    draft = passes.size_scratch(passes.Draft(mechanism, shape, **chosen, notes=(note,)), replace(target, isa=isa, panel=panel))
    return passes.finish(draft, version=version, target=target.fingerprint, schedule="cpu_fused", isa=isa, panel=panel)
