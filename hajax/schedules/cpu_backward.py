"""The gradient's schedule on a CPU: the fused launch of its own kernel."""

from hajax import passes
from hajax.mechanisms import Mechanism
from hajax.plans import Plan, Shape
from hajax.targets import CpuTarget


def schedule_cpu_backward(mechanism: Mechanism, shape: Shape, target: CpuTarget, version: int) -> Plan:
    """chunk -> mapping -> scratch. Columns are never shared out and tokens never taken one by one."""
    draft = passes.Draft(mechanism, shape, token_steps=0, column_blocks=1, bf16_dot=False)
    for step in (passes.choose_backward_chunk, passes.map_backward_heads, passes.size_backward_scratch):
        draft = step(draft, target)
    return passes.finish(
        draft, version=version, target=target.fingerprint, schedule="cpu_backward", isa=target.isa, panel=target.panel
    )
