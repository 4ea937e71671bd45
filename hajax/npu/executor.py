"""A JAX function on a torch device: traced by JAX for each new signature, planned once, then run without touching JAX."""

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import torch

from hajax.npu import _compat, capture, dtypes, program
from hajax.npu.dtypes import Unsupported
from hajax.npu.program import Program
from hajax.ops import _observers
from hajax.plans import Plan


class Planned:
    """The program for one signature: call it with arguments of that signature."""

    def __init__(
        self,
        planned: Program,
        inputs: Sequence[Any],
        output_avals: Sequence[Any],
        output_tree: Any,
        graphs: capture.Graphs | None,
    ) -> None:
        self.program = planned
        self._graphs = graphs
        self._replayed: capture.Replayed | None = None
        self.donated = frozenset(i for i, info in enumerate(inputs) if info.donated)
        self._kinds = tuple(info.dtype for info in inputs)
        self._shapes = [tuple(info.shape) for info in inputs]
        self._out_kinds = tuple(aval.dtype for aval in output_avals)
        self._plain_results = all(
            str(kind) not in ("uint16", "uint32") and not str(kind).startswith("key<") for kind in self._out_kinds
        )
        self._tree = output_tree

    def check(self, leaves: Sequence[Any]) -> None:
        """Raises ValueError unless these are as many arrays, of the shapes planned for."""
        shapes = [tuple(np.shape(leaf)) for leaf in leaves]
        if shapes != self._shapes:
            wrong = next((i for i, pair in enumerate(zip(shapes, self._shapes, strict=False)) if pair[0] != pair[1]), len(shapes))
            expected, got = (list(x[wrong]) if wrong < len(x) else "none" for x in (self._shapes, shapes))
            raise ValueError(f"arguments: expected array {wrong} of shape {expected}, as planned for, got {got}")

    def run(self, leaves: Sequence[Any], arrays: "_Arrays") -> Any:
        """Results as torch tensors, in the function's own pytree."""
        if self.donated and len(set(map(id, leaves))) < len(leaves):
            self._check_apart(leaves)
        given = self.tensors(leaves, arrays)
        with torch.no_grad():
            for position in self._shared(leaves, given):  # to write there would change what another argument holds
                given[position] = given[position].clone()
            results = self._call(given)
        if not self._plain_results:
            results = tuple(dtypes.leave(x, kind) for x, kind in zip(results, self._out_kinds, strict=True))
        return jax.tree.unflatten(self._tree, results)

    def _check_apart(self, leaves: Sequence[Any]) -> None:
        """Raises ValueError where a donated tensor is another argument as well, which would see it written."""
        first: dict[int, int] = {}
        for position, leaf in enumerate(leaves):
            other = first.setdefault(id(leaf), position)
            if other != position and isinstance(leaf, torch.Tensor) and not self.donated.isdisjoint((other, position)):
                raise ValueError(f"arguments: expected a donated tensor once, got one as arguments {other} and {position}")

    def _shared(self, leaves: Sequence[Any], given: list[torch.Tensor]) -> list[int]:
        """The donated tensors of a caller that share memory with another of the caller's tensors."""
        if not any(isinstance(leaves[i], torch.Tensor) for i in self.donated):
            return []
        # What came as a numpy array was copied, and nobody may write into a JAX array's memory.
        spans = sorted((*_span(x), i) for i, x in enumerate(given) if isinstance(leaves[i], torch.Tensor))
        found, reach, last = set(), 0, -1
        for start, end, i in spans:
            if start < min(reach, end):
                found |= {i, last}
            if end > reach:
                reach, last = end, i
        return [i for i in found if i in self.donated]

    def tensors(self, leaves: Sequence[Any], arrays: "_Arrays") -> list[torch.Tensor]:
        """Arguments as the program takes them."""
        return [
            arrays.tensor(leaf, kind, position in self.donated)
            for position, (leaf, kind) in enumerate(zip(leaves, self._kinds, strict=True))
        ]

    def _call(self, given: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        if self._graphs is None or self.program.syncs:
            return self.program(*given)
        if self._replayed is None or not self._replayed.serves(given):
            self._replayed = capture.Replayed(self.program, given, self._graphs)
        return self._replayed(*given)


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """First and last address of a tensor's memory, of its whole storage where it is not row-major."""
    if tensor.is_contiguous():
        start = tensor.data_ptr()
        return start, start + tensor.nbytes
    storage = tensor.untyped_storage()
    return storage.data_ptr(), storage.data_ptr() + storage.nbytes()


class _Arrays:
    """Arguments as tensors of the device. A JAX array never changes, so it is moved once and remembered while it lives."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._moved: dict[int, tuple[weakref.ref[Any], torch.Tensor]] = {}

    def tensor(self, leaf: Any, kind: Any, donated: bool) -> torch.Tensor:
        if isinstance(leaf, torch.Tensor):
            if donated and leaf.requires_grad:
                raise ValueError(
                    "donated argument: expected a tensor that requires no gradient, got one that does: use .detach()"
                )
            tensor = dtypes.enter(leaf, kind, self.device)
            return tensor.contiguous() if donated else tensor
        if isinstance(leaf, jax.Array) and not donated:
            known = self._moved.get(id(leaf))
            if known is not None and known[0]() is leaf:
                return known[1]
            tensor = dtypes.shared(leaf, self.device)
            key = id(leaf)
            self._moved[key] = (weakref.ref(leaf, lambda _: self._moved.pop(key, None)), tensor)
            return tensor
        return dtypes.to_torch(np.asarray(leaf, dtype=kind) if not isinstance(leaf, jax.Array) else leaf, self.device)


class Executed:
    """What `hajax.jit(function, backend=...)` returns. Call it with torch tensors, JAX or numpy arrays, in any pytree.

    Donated tensors may be written into and are of no use afterwards, unless a result is that tensor. graphs: of a device, when
    programs that never wait for the host are to be recorded once and replayed.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        device: torch.device,
        options: dict[str, Any],
        context: Callable[[], Any],
        graphs: capture.Graphs | None = None,
    ) -> None:
        functools.update_wrapper(self, function)
        self.device, self._graphs = device, graphs
        self._static_names = _as_tuple(options.get("static_argnames"))
        self._static_numbers = _as_tuple(options.get("static_argnums"))
        self._jitted = jax.jit(function, **options)
        self._context = context
        self._planned: dict[Any, Planned] = {}
        self._arrays = _Arrays(self.device)
        self._plans: list[Plan] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        planned, leaves = self._find(args, kwargs)
        return planned.run(leaves, self._arrays)

    def lower(self, *args: Any, **kwargs: Any) -> "Lowered":
        """As `jax.jit(...).lower`: plans for these arguments; `.compile()` gives a function of arguments like them."""
        planned, _ = self._find(args, kwargs)
        return Lowered(self, planned)

    def program(self, *args: Any, **kwargs: Any) -> Program:
        """The program for these arguments: its steps, and its source as text."""
        return self._find(args, kwargs)[0].program

    def launches(self, *args: Any, **kwargs: Any) -> capture.Launches:
        """What one call makes torch launch; nothing is computed. Raises NotCapturable when a step waits for the host."""
        planned, leaves = self._find(args, kwargs)
        return capture.launches(planned.program, planned.tensors(leaves, self._arrays))

    def plans(self) -> tuple[Plan, ...]:
        """The kernel plans of the signatures so far, in the order in which they came up."""
        return tuple(self._plans)

    def _find(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Planned, list[Any]]:
        statics = tuple((i, args[i]) for i in self._static_numbers if -len(args) <= i < len(args))
        named = tuple((name, kwargs[name]) for name in self._static_names if name in kwargs)
        places = {i % len(args) for i, _ in statics} if args else set()
        dynamic = tuple(x for i, x in enumerate(args) if i not in places)
        leaves, tree = jax.tree.flatten((dynamic, {k: v for k, v in kwargs.items() if k not in self._static_names}))
        with self._context() as chosen:
            for argument, value in (*statics, *named):
                _check_hashable(argument, value)
            key = (statics, named, tree, tuple(map(_signature, leaves)), chosen, _compat.wide_types())
            if key not in self._planned:
                self._planned[key] = self._plan(args, kwargs, places)
        return self._planned[key], leaves

    def _plan(self, args: tuple[Any, ...], kwargs: dict[str, Any], statics: set[int]) -> Planned:
        shown = tuple(x if i in statics else jax.tree.map(_shown, x) for i, x in enumerate(args))
        traced = self._jitted.trace(
            *shown, **{k: v if k in self._static_names else jax.tree.map(_shown, v) for k, v in kwargs.items()}
        )
        inputs = jax.tree.leaves(traced.args_info)
        closed = traced.jaxpr
        if len(inputs) != len(closed.jaxpr.invars):
            raise Unsupported(f"arguments: expected one array a leaf, got {len(inputs)} for {len(closed.jaxpr.invars)}")
        donated = [i for i, info in enumerate(inputs) if info.donated]
        with _observers.observe(self._plans):
            planned = program.plan(closed, self.device, donated)
        return Planned(planned, inputs, closed.out_avals, jax.tree.structure(traced.out_info), self._graphs)


class Lowered:
    """Arguments planned for; `compile` gives what runs them."""

    def __init__(self, executed: Executed, planned: Planned) -> None:
        self._executed, self._planned = executed, planned

    def compile(self) -> "Lowered":
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves = jax.tree.leaves((args, kwargs))
        self._planned.check(leaves)
        return self._planned.run(leaves, self._executed._arrays)


def _as_tuple(value: Any) -> tuple[Any, ...]:
    if value is None:
        return ()
    return tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else (value,)


def _check_hashable(argument: int | str, value: Any) -> None:
    try:
        hash(value)
    except TypeError as error:
        raise TypeError(f"static argument {argument!r}: expected a hashable value, got {value!r}") from error


def _signature(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        if leaf.layout is not torch.strided or leaf.is_meta:
            raise Unsupported(f"arguments: expected strided tensors that hold values, got {leaf.layout} on {leaf.device.type}")
        return leaf.shape, dtypes.jax_dtype(leaf.dtype), False
    if isinstance(leaf, jax.core.Tracer):
        raise TypeError("arguments: expected arrays, got a tracer: JAX cannot trace a torch program; put its transforms inside")
    if isinstance(leaf, (np.ndarray, np.generic, jax.Array)):
        return leaf.shape, leaf.dtype, bool(getattr(leaf, "weak_type", False))
    return type(leaf)


def _shown(leaf: Any) -> Any:
    """What JAX traces in place of an argument."""
    if isinstance(leaf, torch.Tensor):
        return jax.ShapeDtypeStruct(tuple(leaf.shape), dtypes.jax_dtype(leaf.dtype))
    return leaf
