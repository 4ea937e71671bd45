"""Graph rules, each one a function from graph to graph that keeps what is computed. First pass: it makes what others plan.

read_before_inverse and vector_elementwise or cube_dataflow see the state's reads only when split_state has parted them.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from hajax.graph import Composite, Graph, Operator, Products, Tensor, Term, counts, edited, readers_of, tensors_of
from hajax.graph.build import accumulate, erase_of, multiply, product, split
from hajax.graph.model import Axis
from hajax.passes.cube_form import cube_form
from hajax.plans import Note


def rewrite(graph: Graph, rules: Sequence[str]) -> tuple[Graph, tuple[Note, ...]]:
    """The graph after these rules of RULES, in turn, and for each the counts before and after it."""
    notes = []
    for name in rules:
        if name not in RULES:
            raise ValueError(f"rules: expected names of {', '.join(RULES)}, got {name!r}")
        result = RULES[name](graph)
        notes.append(Note("rewrite", f"{name}: {_text(result)}", _text(graph), _saved(graph, result)))
        graph = result
    return graph, tuple(notes)


def split_state(graph: Graph) -> Graph:
    """The state operator as its parts: what reads the state no longer waits for, or holds up, what updates it."""
    operators: list[Operator] = []
    tensors: list[Tensor] = []
    for operator in graph.operators:
        if isinstance(operator.attributes, Composite):
            operators += operator.attributes.parts
            tensors += operator.attributes.tensors
        else:
            operators.append(operator)
    return edited(graph, tuple(operators), tuple(tensors))


def read_before_inverse(graph: Graph) -> Graph:
    """A w V - (A e d K) S becomes A (w V - e d (K S)): K S needs no inverse, and one product of C x C is gone."""
    if not graph.mechanism.delta:
        return graph  # nothing is read for a correction
    _require(graph, "key_value", "read_before_inverse", "split_state")
    per_channel = graph.mechanism.decay == "per_channel"
    key = "k_start" if per_channel else "k"
    rows: dict[str, Axis] = {"from_start": "row"} if graph.mechanism.decay == "scalar" else {}
    read = [product("key_state", "key_state", key, "state_in")]
    if per_channel:
        read.insert(0, multiply("key_rows", "k_start", {"k": "tile", "from_start": "tile"}))
    factors: dict[str, Axis] = {"key_state": "tile", **rows, erase_of(graph.mechanism): "row"}
    corrected = [
        accumulate("residual", "multiply_subtract", "residual", "v_write", factors),
        product("solve", "x", "solved", "residual", Term(left="lower")),
    ]
    replaced = {"erase_rows": [], "w": [], "u": [], "read": read, "correct": corrected}
    operators = tuple(new for old in graph.operators for new in replaced.get(old.name, [old]))
    values = (graph.chunk, graph.value_dim)
    more = (Tensor("k_start", (graph.chunk, graph.key_dim)), Tensor("key_state", values), Tensor("residual", values))
    return edited(graph, operators, more)


def vector_elementwise(graph: Graph) -> Graph:
    """Elementwise work stays on the vector unit and the state in UB: operands that are not exact fp16 are split there.

    Splits inside an inverse or halved scores are theirs.
    """
    _require(graph, "key_value", "vector_elementwise", "split_state")
    tensors = tensors_of(graph)
    readers = readers_of(graph)
    inexact = {
        name: f"{name}_parts"
        for name, tensor in tensors.items()
        if tensor.dtype == "float32" and any(reader.kind == "products" for reader in readers[name])
    }
    operators: list[Operator] = []
    if "state_in" in inexact:
        operators.append(split("state_in", "vector"))
    for old in graph.operators:
        renamed = isinstance(old.attributes, Products)
        operators.append(replace(old, inputs=tuple(inexact.get(i, i) for i in old.inputs)) if renamed else old)
        operators += [split(name, "vector") for name in old.outputs if name in inexact]
    more = tuple(Tensor(parts, tensors[name].shape, "float16x2") for name, parts in inexact.items())
    return edited(graph, tuple(operators), more, "vector")


def cube_dataflow(graph: Graph) -> Graph:
    """Elementwise work as products, splits through the accumulator, beta as a column factor: see cube_form. Needs beta >= 0."""
    _require(graph, "key_value", "cube_dataflow", "split_state")
    if graph.mechanism.delta:
        _require(graph, "key_state", "cube_dataflow", "read_before_inverse")
    return cube_form(graph)


def _require(graph: Graph, operator: str, rule: str, before: str) -> None:
    if graph.form != "definition":
        raise ValueError(f"{rule}: expected a graph whose form is not chosen yet, got the {graph.form} form")
    if all(o.name != operator for o in graph.operators):
        raise ValueError(f"{rule}: expected a graph after {before}, got one without {operator}")


RULES: dict[str, Callable[[Graph], Graph]] = {
    "split_state": split_state,
    "read_before_inverse": read_before_inverse,
    "vector_elementwise": vector_elementwise,
    "cube_dataflow": cube_dataflow,
}
HANPU_RULES = ("split_state", "read_before_inverse", "vector_elementwise")
HAJAX_RULES = ("split_state", "read_before_inverse", "cube_dataflow")


def _text(graph: Graph) -> str:
    c = counts(graph)
    return (
        f"{c.operators} operators, {c.useful_macs} + {c.split_macs} + {c.bookkeeping_macs} MACs (useful, split, bookkeeping), "
        f"{c.vector_elements} vector elements, {c.copied_elements} copied from the accumulator"
    )


def _saved(before: Graph, after: Graph) -> str:
    a, b = counts(before), counts(after)
    return f"{a.macs - b.macs} MACs, {a.vector_elements - b.vector_elements} vector elements a chunk and head"
