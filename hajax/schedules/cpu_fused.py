"""The CPU's own schedule: one fused launch, cut up for caches and threads."""

from hajax import passes
from hajax.mechanisms import Mechanism
from hajax.plans import Plan, Shape
from hajax.targets import CpuTarget


def schedule_cpu_fused(mechanism: Mechanism, shape: Shape, target: CpuTarget, version: int) -> Plan:
    """chunk -> token steps -> mapping -> bf16 dot -> scratch."""
    draft = passes.Draft(mechanism, shape)
    for step in (passes.choose_chunk, passes.choose_token_steps, passes.map_heads, passes.choose_bf16_dot, passes.size_scratch):
        draft = step(draft, target)
    return passes.finish(
        draft, version=version, target=target.fingerprint, schedule="cpu_fused", isa=target.isa, panel=target.panel
    )
