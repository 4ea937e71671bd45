"""The operator graph of one head's chunk, as frozen data. `operators` stand in the order of their definition.

The state is carried: what is `state_out` of one chunk is `state_in` of the next one.
"""

import dataclasses
from dataclasses import dataclass
from typing import Literal

from hajax.mechanisms import Mechanism

Unit = Literal["matrix", "vector", "move"]
Role = Literal["input", "state", "output", "intermediate"]
Axis = Literal["tile", "row", "column", "scalar"]
Mask = Literal["none", "lower", "strictly_lower"]
Operand = Literal["plain", "transposed", "lower", "diagonal"]
Form = Literal["definition", "vector", "cube"]

# Bytes of an element. float16x2: a high and a low fp16 part. diagonal: an entry of diag(x) kept as 16 x 16 blocks, both parts.
ELEMENT_BYTES = {"float32": 4, "float16": 2, "float16x2": 4, "diagonal": 64}


@dataclass(frozen=True, slots=True)
class Term:
    """One product of a sum: left @ right. lower: a lower triangular left operand, whose upper blocks are skipped.

    bookkeeping: a product that replaces elementwise work, so not one of the definition's.
    """

    left: Operand = "plain"
    right: Operand = "plain"
    sign: int = 1
    bookkeeping: bool = False


@dataclass(frozen=True, slots=True)
class Products:
    """A sum of products in one accumulator; inputs are left, right of each term in turn."""

    terms: tuple[Term, ...] = (Term(),)


@dataclass(frozen=True, slots=True)
class Elementwise:
    """How each input meets the output's elements: whole tiles, one value a row or a column, or a scalar."""

    axes: tuple[Axis, ...]
    mask: Mask = "none"


@dataclass(frozen=True, slots=True)
class Diagonals:
    """For each output the numbers of the inputs whose product is its diagonal."""

    factors: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Composite:
    """An operator that is several, run in turn; tensors: those between them, which nothing else sees."""

    parts: "tuple[Operator, ...]"
    tensors: "tuple[Tensor, ...]"


Attributes = Products | Elementwise | Diagonals | Composite | None


@dataclass(frozen=True, slots=True)
class Operator:
    """kind: its meaning, a name of meanings.MEANINGS. Inputs and outputs are names of tensors."""

    name: str
    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    unit: Unit
    attributes: Attributes = None


@dataclass(frozen=True, slots=True)
class Tensor:
    """role input and output: in GM, read by a load and written by a store; but a scalar input needs no load."""

    name: str
    shape: tuple[int, ...]
    dtype: str = "float32"
    role: Role = "intermediate"

    def __post_init__(self) -> None:
        if self.dtype not in ELEMENT_BYTES:
            raise ValueError(f"dtype: expected one of {', '.join(ELEMENT_BYTES)}, got {self.dtype!r}")

    @property
    def elements(self) -> int:
        count = 1
        for size in self.shape:
            count *= size
        return count

    @property
    def bytes(self) -> int:
        return self.elements * ELEMENT_BYTES[self.dtype]


@dataclass(frozen=True, slots=True)
class Graph:
    """Operators and tensors of one head's chunk; each operator reads what stands before it. form: who does elementwise work."""

    mechanism: Mechanism
    chunk: int
    key_dim: int
    value_dim: int
    operators: tuple[Operator, ...]
    tensors: tuple[Tensor, ...]
    form: Form = "definition"

    def __post_init__(self) -> None:
        known = {t.name: t for t in self.tensors}
        if len(known) != len(self.tensors):
            raise ValueError("tensors: expected different names, got one twice")
        if len({o.name for o in self.operators}) != len(self.operators):
            raise ValueError("operators: expected different names, got one twice")
        made = {t.name for t in self.tensors if t.role == "input" or t.name == "state_in"}
        for operator in self.operators:
            for name in (*operator.inputs, *operator.outputs):
                if name not in known:
                    raise ValueError(f"{operator.name}: expected tensors of the graph, got {name!r}")
            for name in operator.inputs:
                if name not in made:
                    raise ValueError(f"{operator.name}: expected inputs that exist before it, got {name!r}")
            for name in operator.outputs:
                if name in made:
                    raise ValueError(f"{operator.name}: expected outputs that nothing else makes, got {name!r}")
                made.add(name)
        for tensor in self.tensors:
            if tensor.name not in made:
                raise ValueError(f"tensors: expected each one to be made, got {tensor.name!r} that no operator writes")


def tensors_of(graph: Graph) -> dict[str, Tensor]:
    """Tensors by name."""
    return {tensor.name: tensor for tensor in graph.tensors}


def readers_of(graph: Graph) -> dict[str, tuple[Operator, ...]]:
    """By tensor, the operators that read it, in the order of their definition."""
    readers: dict[str, list[Operator]] = {tensor.name: [] for tensor in graph.tensors}
    for operator in graph.operators:
        for name in dict.fromkeys(operator.inputs):
            readers[name].append(operator)
    return {name: tuple(operators) for name, operators in readers.items()}


def writer_of(graph: Graph) -> dict[str, Operator]:
    """By tensor, the operator that writes it; none for inputs and the carried state."""
    return {name: operator for operator in graph.operators for name in operator.outputs}


def stages(graph: Graph) -> dict[str, Literal["load", "map", "state"]]:
    """By operator: a load, part of the map over chunks (needs no state), or part of the chain from state to state and output."""
    stage: dict[str, Literal["load", "map", "state"]] = {}
    tainted = {"state_in"}
    for operator in graph.operators:
        if operator.kind == "load":
            stage[operator.name] = "load"
        elif tainted.intersection(operator.inputs):
            stage[operator.name] = "state"
            tainted.update(operator.outputs)
        else:
            stage[operator.name] = "map"
    return stage


def edited(
    graph: Graph,
    operators: tuple[Operator, ...],
    tensors: tuple[Tensor, ...] = (),
    form: Form | None = None,
) -> Graph:
    """The graph with these operators, more tensors (or others of the same name), and no tensor that nothing touches."""
    known = tensors_of(graph) | {tensor.name: tensor for tensor in tensors}
    used = {name for operator in operators for name in (*operator.inputs, *operator.outputs)} | {"state_in", "state_out"}
    kept = tuple(tensor for name, tensor in known.items() if name in used)
    return dataclasses.replace(graph, operators=operators, tensors=kept, form=form or graph.form)
