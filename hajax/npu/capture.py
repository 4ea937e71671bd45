"""A program as one graph launch: what it would launch, proof that nothing in it waits for the host, and its replay on a device.

On the CPU the proof runs the same code under fake tensors, which hold no values: any read back to the host fails.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from hajax.npu.program import Program

_WARM_UPS = 2
_SMALL_BYTES = 1 << 16  # an input up to here is copied in: tokens, positions, convolution states


class NotCapturable(RuntimeError):
    """A program that waits for the host, with the step that does."""


@dataclasses.dataclass(frozen=True, slots=True)
class Launches:
    """What a program makes torch do: operators that compute or copy, in order, and how many only look at memory another way."""

    names: tuple[str, ...]
    views: int

    def __len__(self) -> int:
        return len(self.names)


class _Recorder(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.views = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "prim":  # a question about a tensor
            pass
        elif _is_view(func):
            self.views += 1
        else:
            self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def _is_view(func: Any) -> bool:
    returns = func._schema.returns
    return bool(returns) and all(one.alias_info is not None and not one.alias_info.is_write for one in returns)


def launches(program: Program, inputs: Sequence[torch.Tensor]) -> Launches:
    """What the program launches for such inputs, found under fake tensors: nothing is computed, no input is touched.

    Raises NotCapturable when a step needs a value on the host.
    """
    if program.syncs:
        raise NotCapturable(f"program: expected steps that never wait for the host, got {', '.join(sorted(set(program.syncs)))}")
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fakes = [mode.from_tensor(x) for x in inputs]
        recorder = _Recorder()
        try:
            with recorder, torch.no_grad():
                program(*fakes)
        except torch._subclasses.fake_tensor.DataDependentOutputException as error:
            raise NotCapturable(f"program: expected steps that never wait for the host, got one that reads {error}") from error
    return Launches(tuple(recorder.names), recorder.views)


Run = Callable[[], tuple[torch.Tensor, ...]]


class Graphs(Protocol):
    """A device's graphs: records what `function` launches, and gives what launches that again, into the same results."""

    def record(self, function: Run) -> tuple[Callable[[], None], tuple[torch.Tensor, ...]]: ...


class DeviceGraphs:
    """Graphs of torch_npu (torch.npu.NPUGraph), or of any device module with the same names."""

    def __init__(self, module: Any, graph: str = "NPUGraph") -> None:
        self._module, self._graph = module, graph

    def record(self, function: Run) -> tuple[Callable[[], None], tuple[torch.Tensor, ...]]:
        side = self._module.Stream()
        side.wait_stream(self._module.current_stream())
        with self._module.stream(side):  # kernels are loaded and buffers found before anything is recorded
            for _ in range(_WARM_UPS):
                function()
        self._module.current_stream().wait_stream(side)
        graph = getattr(self._module, self._graph)()
        with self._module.graph(graph):
            results = function()
        return graph.replay, results


class Replayed:
    """A program recorded once and replayed. Small inputs are copied to where they were then; large ones must lie there still.

    Donated inputs that the program writes are recorded in place: a cache that goes round between calls is never copied, and
    comes back as the tensor it was. Other results are copies.
    """

    def __init__(self, program: Program, inputs: Sequence[torch.Tensor], graphs: Graphs) -> None:
        if program.syncs:
            raise NotCapturable(f"program: expected steps that never wait for the host, got {', '.join(program.syncs)}")
        written = program.written
        self._fixed = tuple(i not in written and x.nbytes > _SMALL_BYTES for i, x in enumerate(inputs))
        self._inputs = tuple(
            x if i in written or fixed else x.clone() for i, (x, fixed) in enumerate(zip(inputs, self._fixed, strict=True))
        )
        self._kept = {self._inputs[i].data_ptr() for i in written}
        saved = {i: self._inputs[i].clone() for i in written}
        self._replay, self._results = graphs.record(lambda: program(*self._inputs))
        for i, x in saved.items():  # recording and warming up have written into them
            self._inputs[i].copy_(x)

    def serves(self, inputs: Sequence[torch.Tensor]) -> bool:
        """Whether the large inputs are those that were recorded."""
        pairs = zip(self._fixed, self._inputs, inputs, strict=True)
        return all(not fixed or mine.data_ptr() == given.data_ptr() for fixed, mine, given in pairs)

    def __call__(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        for mine, given in zip(self._inputs, inputs, strict=True):
            if mine.data_ptr() != given.data_ptr():
                mine.copy_(given)
        self._replay()
        return tuple(x if x.data_ptr() in self._kept else x.clone() for x in self._results)
