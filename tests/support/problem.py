"""Conformance cases for tests: strategies that draw them, and running one through the kernel without XLA."""

import os
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import strategies as st

from hajax import backends, conformance, planner
from hajax.conformance import BETAS, DECAYS, KEYS, Case, inputs
from hajax.plans import Shape, to_bytes

L2NORM_EPS = 1e-6


def eps_of(case):
    return L2NORM_EPS if case.l2norm else None


@dataclass(frozen=True)
class Frame:
    """What compiled code depends on; everything else of a case is drawn."""

    tokens: int
    heads: tuple[int, int] = (1, 1)
    dims: tuple[int, int] = (16, 16)
    batch: int = 1
    sequences: int | None = None  # packed, so many
    dtype: str = "float32"
    l2norm: bool = False
    op: str = "gdn"

    def __str__(self):
        packed = f"-N{self.sequences}" if self.sequences else ""
        words = (
            f"T{self.tokens}-B{self.batch}-H{self.heads[0]}.{self.heads[1]}-D{self.dims[0]}x{self.dims[1]}{packed}-{self.dtype}"
        )
        return words + ("-l2norm" if self.l2norm else "") + (f"-{self.op}" if self.op != "gdn" else "")

    def case(self, **values):
        return Case(
            tokens=self.tokens, batch=self.batch, key_heads=self.heads[0], value_heads=self.heads[1],
            key_dim=self.dims[0], value_dim=self.dims[1], dtype=self.dtype, l2norm=self.l2norm, op=self.op, **values,
        )  # fmt: skip


def packed_bounds(tokens, sequences):
    """cu_seqlens with empty and one-token members as often as long ones."""
    length = st.one_of(st.just(0), st.just(1), st.integers(0, tokens))

    def cumulate(lengths):
        inner = np.minimum(np.cumsum(lengths), tokens)
        return (0, *(int(n) for n in inner), tokens)

    return st.lists(length, min_size=sequences - 1, max_size=sequences - 1).map(cumulate)


@st.composite
def cases_in(draw, frame):
    """A case within a frame."""
    values = {
        "decay": draw(st.sampled_from(DECAYS)),
        "beta": draw(st.sampled_from(BETAS)),
        "keys": draw(st.sampled_from(KEYS)),
        "state": draw(st.booleans()),
    }
    if frame.sequences:
        values["cu"] = draw(packed_bounds(frame.tokens, frame.sequences))
    elif draw(st.booleans()):
        length = st.one_of(st.sampled_from([0, 1, frame.tokens]), st.integers(0, frame.tokens))
        values["lengths"] = tuple(draw(st.lists(length, min_size=frame.batch, max_size=frame.batch)))
    return frame.case(**values)


@st.composite
def cases(draw, op="gdn"):
    """A case of any shape: T from 1 to 700, larger dims with shorter sequences so that the oracle stays quick."""
    size = draw(st.sampled_from([8, 16, 24, 40, 64, 72, 128, 200, 256]))
    dims = (size, draw(st.sampled_from([8, 16, 32, 56, 64, 128, 256])))
    if draw(st.booleans()):
        dims = dims[::-1]
    most = 700 if dims[0] * dims[1] <= 2048 else 150
    shared = draw(st.sampled_from([1, 2, 3]))
    heads = draw(st.sampled_from([1, 2]))
    edges = [t for t in (1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129, 192, 193, 700) if t <= most]
    frame = Frame(
        tokens=draw(st.one_of(st.sampled_from(edges), st.integers(1, most))),
        heads=(heads, heads * shared),
        dims=dims,
        batch=draw(st.sampled_from([1, 2, 3])),
        dtype=draw(st.sampled_from(["float32", "float32", "bfloat16", "float16"])),
        l2norm=draw(st.booleans()),
        op=op,
    )
    if draw(st.booleans()):
        frame = replace(frame, batch=1, sequences=draw(st.integers(2, 6)))
    return draw(cases_in(frame))


def plan_of(case, target=None, output_dtype=None):
    """The plan that the operator takes for a case."""
    shape = Shape(
        batch=case.batch, tokens=case.tokens, sequences=1 if case.cu is None else len(case.cu) - 1,
        key_heads=case.key_heads, value_heads=case.value_heads, key_dim=case.key_dim, value_dim=case.value_dim,
        input_dtype=case.dtype, output_dtype=output_dtype or case.dtype,
    )  # fmt: skip
    return planner.plan(case.mechanism, shape, target or backends.cpu_target())


def kernel_arrays(case, arrays):
    """The operator's arrays in the kernel's form: a state for every sequence, and bounds."""
    if case.cu is not None:
        bounds = np.array([case.cu], np.int32)
    else:
        ends = arrays.get("lengths", np.full(case.batch, case.tokens))
        bounds = np.stack([np.zeros_like(ends), ends], axis=1).astype(np.int32)
    shape = (case.batch, bounds.shape[1] - 1, case.value_heads, case.key_dim, case.value_dim)
    state = arrays.get("initial_state", np.zeros(shape, np.float32)).reshape(shape)
    beta = np.stack([arrays["erase"], arrays["beta"]], axis=-1) if "erase" in arrays else arrays["beta"]
    gates = {"log_decay": arrays.get("log_decay", np.zeros_like(arrays["beta"])), "beta": beta}
    return {n: arrays[n] for n in ("query", "key", "value")} | gates | {"state_in": state, "bounds": bounds}


def run_kernel(case, arrays, plan=None):
    """Output, final state as the operator shapes it, and counters; one thread, no XLA."""
    plan = plan or plan_of(case)
    output, state, counters = backends.execute(
        to_bytes(plan),
        kernel_arrays(case, arrays),
        scale=case.key_dim**-0.5,
        l2norm_eps=eps_of(case),
        output_dtype=conformance._DTYPES[plan.shape.output_dtype],
        scratch_bytes=plan.launch.workers * plan.launch.scratch_bytes,
    )
    return output, state.reshape(-1, *state.shape[2:]), counters


def operands(case, arrays):
    """The primitive's operands for a case, as jax arrays."""
    import jax.numpy as jnp

    ready = kernel_arrays(case, arrays)
    ready["state_in"] = ready["state_in"].reshape(-1, *ready["state_in"].shape[2:])
    return tuple(jnp.asarray(ready[n]) for n in ("query", "key", "value", "log_decay", "beta", "state_in", "bounds"))


def environment(**variables):
    """The process environment with these variables, for subprocesses."""
    return {**os.environ, **{name: str(value) for name, value in variables.items()}}


def static_of(case, implementation="cpu"):
    """The primitive's static parameter for a case."""
    from hajax.ops._primitive import Static

    return Static(case.mechanism, case.key_dim**-0.5, eps_of(case), case.dtype, implementation)


def expected_of(case, arrays=None):
    """Output and final state of the recurrence in fp64."""
    arrays = inputs(case) if arrays is None else arrays
    return conformance.recurrence(arrays, l2norm_eps=eps_of(case), delta=case.mechanism.delta)


def run_counted(case, arrays):
    """Output, final state and counters of the custom call, freshly lowered through XLA; and the plan it carried."""
    import jax

    from hajax.ops import _native, _observers

    static, plans = static_of(case), []
    with _observers.observe(plans):
        output, state, counted = jax.jit(lambda *xs: _native.call_with_counters(*xs, static=static))(*operands(case, arrays))
    counters = {name: int(counted[number]) for name, number in counter_numbers()}
    return np.asarray(output), np.asarray(state), counters, plans[-1]


def counter_numbers():
    from hajax import abi

    return [(row[1], row[0]) for row in abi.rows("counters")]
