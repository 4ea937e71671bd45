"""Calls of zeros on an emulated chip, for what a plan takes there: that depends on sizes only."""

import numpy as np

from hajax.backends import npu
from hajax.plans import Shape, to_bytes

COUNTED = npu.SimOptions(check_races=False, check_written=False, timeline=False, counts_only=True)


def shape_of(tokens, heads, dims=(128, 128), batch=1, sequences=1):
    return Shape(batch, tokens, sequences, *heads, *dims, "float16", "float16")


def emulated_cycles(plan, target):
    """Of each kernel launch, by the emulator's clock."""
    shape = plan.shape
    rows = (shape.batch, shape.tokens)
    keys, values = (*rows, shape.key_heads, shape.key_dim), (*rows, shape.value_heads, shape.value_dim)
    channels = (shape.key_dim,) if plan.mechanism.decay == "per_channel" else ()
    ends = np.linspace(0, shape.tokens, shape.sequences + 1).astype(np.int32)
    arrays = {
        **{name: np.zeros(keys, np.float16) for name in ("query", "key")},
        "value": np.zeros(values, np.float16),
        "log_decay": np.zeros((*rows, shape.value_heads, *channels), np.float32),
        "beta": np.zeros((*rows, shape.value_heads), np.float32),
        "state_in": np.zeros((shape.batch, shape.sequences, shape.value_heads, shape.key_dim, shape.value_dim), np.float32),
        "bounds": np.tile(ends, (shape.batch, 1)),
    }
    _, _, runs = npu.execute(to_bytes(plan), arrays, scale=1.0, target=target, options=COUNTED)
    return [run.timing["cycles"] for run in runs]
