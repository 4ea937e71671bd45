"""The engine of decode.py: single steps through XLA and through the library alone, and copies of the same bytes by numpy."""

import functools
import os
import threading
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from _problem import EPS, arrays_of

import hajax
from hajax.backends import cpu
from hajax.mechanisms import GATED_DELTA_RULE
from hajax.plans import Shape

NAMES = ("query", "key", "value", "log_decay", "beta")
COPY_BYTES = 1 << 29  # that one call copies in all, so that handing work to threads does not count


def _step(*, donate: bool, states: int = 1) -> Callable[[dict[str, Any]], Callable[[], Any]]:
    """hajax.gated_delta_rule_step under jit, on `states` states in turn as the layers of a model have them."""

    def build(problem: dict[str, Any]) -> Callable[[], Any]:
        arrays = arrays_of(problem["case"])
        token = [jnp.asarray(arrays[name][:, 0]) for name in NAMES]
        step = jax.jit(functools.partial(hajax.gated_delta_rule_step, l2norm_eps=EPS), donate_argnums=5 if donate else ())
        held = [jnp.array(arrays["initial_state"], copy=True) for _ in range(states)]

        def call() -> Any:
            for i in range(states):
                output, state = step(*token, held[i])
                if donate:
                    held[i] = state
            return output.block_until_ready()

        return call

    return build


def _library(*, in_place: bool) -> Callable[[dict[str, Any]], Callable[[], Any]]:
    """hajax_execute with addresses and the library's own threads: what the torch operator calls."""

    def build(problem: dict[str, Any]) -> Callable[[], Any]:
        arrays = {name: np.ascontiguousarray(x) for name, x in arrays_of(problem["case"]).items()}
        batch, _, key_heads, key_dim = arrays["query"].shape
        value_heads, value_dim = arrays["value"].shape[2:]
        shape = Shape(batch, 1, 1, key_heads, value_heads, key_dim, value_dim, "float32", "float32")
        launch = cpu.launch_of(GATED_DELTA_RULE, shape, int(os.environ["HAJAX_CPU_THREADS"]))
        state = arrays["initial_state"].copy()
        final = state if in_place else np.empty_like(state)
        bounds = np.tile(np.array([[0, 1]], np.int32), (batch, 1))
        output = np.empty(arrays["value"].shape, np.float32)
        operands = [*(arrays[name] for name in NAMES), state, bounds, output, final]
        addresses = [x.ctypes.data for x in operands]

        def call(held: Any = operands) -> Any:  # addresses alone would not keep the arrays
            cpu.run(launch, (batch, 1, 1), addresses, key_dim**-0.5, EPS)
            return output

        return call

    return build


def _copy(problem: dict[str, Any]) -> Callable[[], Any]:
    """The state's bytes (or problem["bytes"]) from one array to another by as many threads, again and again."""
    threads = int(os.environ["HAJAX_CPU_THREADS"])
    elements = problem["bytes"] // 4 // threads
    pairs = [(np.ones(elements, np.float32), np.zeros(elements, np.float32)) for _ in range(threads)]
    repeats = copies(problem["bytes"])

    def copy(source: np.ndarray, target: np.ndarray) -> None:
        for _ in range(repeats):
            np.copyto(target, source)  # without the interpreter's lock

    def call() -> Any:
        others = [threading.Thread(target=copy, args=pair) for pair in pairs[1:]]
        for thread in others:
            thread.start()
        copy(*pairs[0])
        for thread in others:
            thread.join()
        return pairs[0][1][:1]

    return call


def copies(size: int) -> int:
    """How often a call of `copy` copies `size` bytes."""
    return max(1, COPY_BYTES // size)


LAYERS = 24
PEERS = {
    "hajax": _step(donate=True),
    "hajax_layers": _step(donate=True, states=LAYERS),
    "hajax_separate": _step(donate=False),
    "library": _library(in_place=True),
    "library_separate": _library(in_place=False),
    "copy": _copy,
}


def to_numpy(result: Any) -> np.ndarray:
    return np.asarray(result)
