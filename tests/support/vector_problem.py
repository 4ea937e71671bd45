"""Problems for lowered programs of one head, run by the interpreter and held against the fp64 recurrence."""

import numpy as np

from hajax import conformance
from hajax.lowering.assembler import Constants, Dims
from hajax.plans import interpret
from hajax.plans.program import Item, Launch, Programs

OUTPUT_NMSE, STATE_NMSE = 5.2e-8, 9.4e-12
LENGTHS = (1, 63, 64, 65, 150, 256)


def drawn(case):
    """The arrays of a case in fp16, with no initial state for every second sequence."""
    arrays = conformance.inputs(conformance.parse(case))
    arrays["initial_state"][::2] = 0
    return arrays


def programs_of(build, dims, value_heads, value_dim, sequences, **switches):
    """One core that runs every head, and each part of its columns, of every sequence."""
    constants = Constants()
    program = build(dims, constants, **switches)
    columns = range(0, value_dim, dims.columns)
    items = tuple(Item(0, s, head, column) for s in range(sequences) for head in range(value_heads) for column in columns)
    slot = max((step.constant + step.size for step in program.body if step.opcode.startswith("workspace")), default=0) * 32
    return Programs(2002, dims.chunk, (program,), (Launch((items,)),), constants.to_bytes(), slot)


def interpreted(arrays, build, columns=None, change=None, **switches):
    """Output and final states. change: what to do with the program first."""
    batch, tokens, heads, value_dim = arrays["value"].shape
    key_dim = arrays["key"].shape[3]
    dims = Dims(64, key_dim, columns or value_dim, 1, False)
    programs = programs_of(build, dims, heads, value_dim, batch, **switches)
    if change is not None:
        programs = change(programs)
    lengths = arrays.get("lengths", np.full(batch, tokens))
    bounds = np.stack([np.zeros(batch), lengths], 1).astype(np.int32)
    state = arrays["initial_state"][:, None]
    inputs = interpret.Inputs(
        arrays["query"], arrays["key"], arrays["value"], arrays.get("log_decay"), arrays["beta"], state, bounds
    )
    output, states = interpret.run(programs, inputs, key_dim**-0.5)
    return output, states[:, 0]


def assert_close(arrays, got, *, delta=True):
    """Bounds of the whole call, and of every sequence and head.

    A single sequence's output may be worse by chance, when a few of its elements hold most of the energy: rounding the exact
    output to fp16 is then worse, too, and at most a hundredth may come on top.
    """
    output, states = (x.astype(np.float64) for x in got)
    expected, expected_states = conformance.recurrence(arrays, delta=delta)
    nmse = conformance.nmse
    assert np.isfinite(output).all() and np.isfinite(states).all()
    assert nmse(output, expected) <= OUTPUT_NMSE
    assert nmse(states, expected_states) <= STATE_NMSE
    for row in range(output.shape[0]):
        for head in range(output.shape[2]):
            exact = expected[row, :, head]
            assert nmse(output[row, :, head], exact) <= max(OUTPUT_NMSE, 1.01 * nmse(exact.astype(np.float16), exact))
            assert nmse(states[row, head], expected_states[row, head]) <= STATE_NMSE
