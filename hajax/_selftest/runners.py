"""How `hajax selftest` runs its cases: the fused kernel alone through ACL, or every operator through a torch program."""

import dataclasses
import hashlib
import statistics
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from hajax import conformance, ops, planner
from hajax._jit import jit
from hajax._selftest import cases
from hajax.backends import ascend
from hajax.backends.ascend_device import Device
from hajax.passes.plan_cycles import plan_cycles
from hajax.plans import Plan, Shape, to_bytes
from hajax.targets import NpuTarget

OUTPUT_NMSE, STATE_NMSE = 1e-6, 1e-8  # results in float16 and in fp32; a rounding to float16 is 5e-8


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """What came of one case. `path`: "acl" is the kernel alone, "torch" a program around it. Times are microseconds; `time_us` of
    the kernel alone is the device's own, the model's stands beside it."""

    op: str
    case: str
    path: str
    output_nmse: float | None
    state_nmse: float | None
    finite: bool
    time_us: float | None
    modelled_us: float | None = None
    modelled_cycles: float | None = None
    launches: int | None = None
    schedule: str | None = None
    plan: str | None = None  # the start of its SHA-256
    error: str | None = None  # why there are no results

    @property
    def ok(self) -> bool:
        """Whether errors are those of a float16 kernel; of a case that was only timed, whether its results are finite."""
        return self.finite and (self.output_nmse or 0) <= OUTPUT_NMSE and (self.state_nmse or 0) <= STATE_NMSE


def kernel_rows(device: Device, *, large: bool, repeats: int) -> Iterator[Row]:
    """The family's cases, the kernel alone: arrays laid out on the host, launched through ACL, the median of `repeats`."""
    target = device.target
    for op, case in cases.family(large):
        try:
            yield _kernel_row(device, target, op, case, repeats)
        except (ascend.AscendError, MemoryError) as error:  # the others may still run
            yield Row(op, str(case), "acl", None, None, False, None, error=" ".join(str(error).split()))
            if isinstance(error, ascend.DeviceLostError):
                device.reopen()


def _kernel_row(device: Device, target: NpuTarget, op: str, case: conformance.Case, repeats: int) -> Row:
    drawn = conformance.inputs(case)
    arrays = cases.kernel_arrays(case, drawn)
    plan = _plan_of(case, target)
    bounds = arrays["bounds"]
    assert bounds is not None
    call = device.place(to_bytes(plan)).prepare(case.tokens, bounds, case.key_dim**-0.5)
    results = [device.run(call, arrays) for _ in range(repeats)]
    output, state, _ = results[-1]
    cycles = sum(plan_cycles(plan, target))
    return _compared(
        op, str(case), "acl", (output, state.reshape(-1, *state.shape[2:])), cases.expected_of(case, drawn),
        time_us=statistics.median(time for *_, time in results),
        modelled_cycles=cycles, modelled_us=cycles / target.clock_mhz, launches=call.needs.launches, schedule=plan.schedule,
        plan=hashlib.sha256(to_bytes(plan)).hexdigest()[:12],
    )  # fmt: skip


def torch_rows(backend: str, *, large: bool, repeats: int) -> Iterator[Row]:
    """Every operator through `hajax.jit(backend=...)`, with the time of the whole program."""
    from hajax.npu import timing

    for op, case in cases.family(large):
        drawn = conformance.inputs(case)
        function = jit(conformance.operator(case), backend=backend)
        results = function(**drawn)
        time = timing.microseconds(backend, lambda f=function, x=drawn: f(**x), repeats)  # type: ignore[misc]
        yield _compared(op, str(case), "torch", results, cases.expected_of(case, drawn), time_us=time)
    for one in cases.small():
        function = jit(_with_options(one.op, one.options), backend=backend)
        results = function(**one.arrays)
        results = results if isinstance(results, tuple) else (results,)
        time = timing.microseconds(backend, lambda f=function, x=one.arrays: f(**x), repeats)  # type: ignore[misc]
        yield _compared(one.op, one.text, "torch", results, one.expected, time_us=time)


def _with_options(op: str, options: Mapping[str, Any]) -> Any:
    function = getattr(ops, op)
    return lambda **arrays: function(**arrays, **options)


def _plan_of(case: conformance.Case, target: NpuTarget) -> Plan:
    shape = Shape(
        batch=case.batch, tokens=case.tokens, sequences=1 if case.cu is None else len(case.cu) - 1, key_heads=case.key_heads,
        value_heads=case.value_heads, key_dim=case.key_dim, value_dim=case.value_dim, input_dtype="float16",
        output_dtype="float16",
    )  # fmt: skip
    return planner.plan(case.mechanism, shape, target)


def _compared(
    op: str, text: str, path: str, results: tuple[Any, ...], expected: tuple[np.ndarray, ...] | None, **facts: Any
) -> Row:
    arrays = [np.asarray(x.cpu() if hasattr(x, "cpu") else x).astype(np.float64) for x in results]
    errors: list[float | None] = [None, None]
    for number, wanted in enumerate(expected or ()):
        errors[number] = conformance.nmse(arrays[number], wanted)
    finite = all(bool(np.isfinite(array).all()) for array in arrays)
    return Row(op, text, path, errors[0], errors[1], finite, **facts)
