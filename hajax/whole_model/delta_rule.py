"""What the delta rule of a layer costs: its plan run by the emulator. Bytes are counted, time and energy modelled."""

import functools
from collections.abc import Mapping

import numpy as np

from hajax import chip_cost, planner, plans
from hajax.backends import npu as emulated
from hajax.mechanisms import MECHANISMS
from hajax.targets import NpuTarget
from hajax.whole_model.kernels import DeltaRuleCore
from hajax.whole_model.roofline import PIPES, Cost

_OPTIONS = emulated.SimOptions(check_races=False, check_written=False, counts_only=True, timeline=False)


def delta_rule_plan(target: NpuTarget, kernel: DeltaRuleCore, schedule: str | None) -> plans.Plan:
    """Raises ValueError for a schedule that there is not, or that has no plan for such a problem."""
    shape = plans.Shape(
        1, kernel.tokens, 1, kernel.key_heads, kernel.value_heads, kernel.key_dim, kernel.value_dim, "float16", "float16"
    )
    return planner.plan(MECHANISMS[kernel.mechanism], shape, target, schedule)


@functools.lru_cache(maxsize=256)
def delta_rule_cost(target: NpuTarget, kernel: DeltaRuleCore, schedule: str | None) -> Cost:
    """All launches of the plan, one after the other, on arrays of zeros: neither counts nor times depend on what they hold."""
    plan = delta_rule_plan(target, kernel, schedule)
    *_, runs = emulated.execute(plans.to_bytes(plan), _blank(kernel), scale=1.0, target=target, options=_OPTIONS)
    counts: dict[str, int] = {}
    for run in runs:
        for name, count in run.counts.items():
            counts[name] = max(counts.get(name, 0), count) if name.startswith("peak_") else counts.get(name, 0) + count
    timing = {name: sum(run.timing[name] for run in runs) for name in runs[0].timing}
    return Cost(
        cycles=timing["cycles"],
        microseconds=timing["microseconds"],
        dynamic_microjoules=timing["dynamic_microjoules"],
        static_microjoules=timing["static_microjoules"],
        gm_bytes=sum(counts[path] for path in (*chip_cost.GM_READS, *chip_cost.GM_WRITES)),
        ddr_bytes=round(timing["ddr_read_bytes"] + timing["ddr_write_bytes"]),
        busy={pipe: sum(max(core[pipe] for core in run.busy_cycles) for run in runs) for pipe in PIPES},
        counts=counts,
        launches=len(runs),
    )


def _blank(kernel: DeltaRuleCore) -> Mapping[str, np.ndarray]:
    keys = (1, kernel.tokens, kernel.key_heads, kernel.key_dim)
    gates = (1, kernel.tokens, kernel.value_heads)
    return {
        "query": np.zeros(keys, np.float16),
        "key": np.zeros(keys, np.float16),
        "value": np.zeros((*gates, kernel.value_dim), np.float16),
        "log_decay": np.zeros((*gates, kernel.key_dim) if kernel.mechanism == "kda" else gates, np.float32),
        "beta": np.zeros(gates, np.float32),
        "state_in": np.zeros((1, 1, kernel.value_heads, kernel.key_dim, kernel.value_dim), np.float32),
        "bounds": np.array([[0, kernel.tokens]], np.int32),
    }
