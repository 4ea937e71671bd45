"""hajax.jit: jax.jit, with the chosen implementation in its cache key and the plans it used at hand; or the same on torch."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax

from hajax.ops import _observers, _options
from hajax.ops._arguments import check_implementation, check_target
from hajax.plans import Plan

BACKENDS = ("npu", "torch")


class Jitted:
    """What `hajax.jit` returns: call it, lower it, ask for its plans."""

    def __init__(
        self, function: Callable[..., Any], implementation: str | None, target: str | None, options: dict[str, Any]
    ) -> None:
        functools.update_wrapper(self, function)
        self._implementation = check_implementation(implementation)
        self._target = target if target is None else check_target(target)
        self._plans: list[Plan] = []

        # A function of its own: jax.jit shares compiled code between wrappers of one function, and then nothing is lowered.
        @functools.wraps(function)
        def own(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        self._jitted = jax.jit(own, **options)

    def _run(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        implementation, target = _options.chosen(self._implementation, self._target)
        with _options.use(implementation=implementation, target=target), _observers.observe(self._plans):
            return method(*args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._run(self._jitted, *args, **kwargs)

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        """As `jax.jit(...).lower`: ahead-of-time lowering for these arguments."""
        return self._run(self._jitted.lower, *args, **kwargs)

    def plans(self) -> tuple[Plan, ...]:
        """The plans that the calls and lowerings so far took, in the order in which they came up."""
        return tuple(self._plans)


def jit(
    function: Callable[..., Any] | None = None,
    *,
    backend: str | None = None,
    implementation: str | None = None,
    target: str | None = None,
    capture: bool = False,
    **options: Any,
) -> Any:
    """`jax.jit` with an `implementation` for the hajax operators inside that name none, and `.plans()`.

    `options` go to `jax.jit` (static_argnums, donate_argnums, ...). May be used as a decorator with or without arguments.
    target: the chip that implementation "sim" emulates.
    backend: None runs on JAX. "torch" (torch on the CPU) and "npu" (an Ascend device, by torch_npu) plan the traced function
    into one flat torch program and run that; results are torch tensors, see hajax.npu.executor. Both need torch.
    capture: on an Ascend device, record the launches of a program that never waits for the host once and replay them from then
    on, for steps that are many small launches; elsewhere it changes nothing.
    Raises ValueError for an unknown implementation, target or backend, and when called NotImplementedError naming what a torch
    program cannot do. Raises RuntimeError when torch, torch_npu or the device is missing.
    """
    if function is None:
        return functools.partial(jit, backend=backend, implementation=implementation, target=target, capture=capture, **options)
    if not callable(function):
        raise TypeError(f"function: expected a callable, got {type(function).__name__}")
    if backend is None:
        return Jitted(function, implementation, target, options)
    return _on_torch(function, backend, implementation, target, capture, options)


def _on_torch(
    function: Callable[..., Any],
    backend: str,
    implementation: str | None,
    target: str | None,
    capture: bool,
    options: dict[str, Any],
) -> Any:
    if backend not in BACKENDS:
        raise ValueError(f"backend: expected None or one of {', '.join(BACKENDS)}, got {backend!r}")
    check_implementation(implementation)
    if implementation == "sim" or target is not None:
        raise ValueError(f"implementation: expected None, 'cpu' or 'xla' with backend {backend!r}, got {implementation!r}")
    try:
        from hajax.npu import devices, executor
    except ImportError as error:
        if (error.name or "").split(".")[0] != "torch":
            raise
        raise RuntimeError(f"backend: {backend!r} needs torch, which is not installed: pip install torch") from error

    @contextlib.contextmanager
    def context() -> Iterator[Any]:
        chosen = _options.chosen(implementation, None)
        with _options.use(implementation=chosen[0], target=chosen[1]):
            yield chosen

    device = devices.open_device(backend)
    return executor.Executed(function, device, options, context, devices.graphs_of(device) if capture else None)
