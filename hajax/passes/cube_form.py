"""The cube dataflow of a mechanism: what rewrite.cube_dataflow puts in the place of the definition's operators.

The vector unit keeps what has no product: exp, the scores' ratios, and the scaled rows of a decay per channel.
"""

from dataclasses import replace

from hajax.graph import Diagonals, Graph, Operator, Products, Tensor, Term, edited, tensors_of
from hajax.graph.build import multiply, product, split
from hajax.graph.model import Axis


def cube_form(graph: Graph) -> Graph:
    """With beta_j inside the ratio E'_ij = exp(D_ij + ln beta_j) (one strength), A' = (I + strictly_lower(E' o K K^T))^-1:

    x' = A' (V - d K S),  o = diag(scale d) Q S + (scale E' o Q K^T) x',  S' = diag(d_C) S + K^T (diag(beta d_end) x').
    x' is x / beta: nothing is divided. With two strengths diag(w) V - diag(e d) K S takes the place of V - d K S, and the ratio
    stays free of them. Row scalings are products with diagonal operands, sums stay in the accumulator; keys stay exact. Where a
    decay per channel scales the rows of keys and queries, the inverse takes the strengths in its columns.
    """
    operators = [operator for operator in graph.operators if operator.kind == "load"]
    operators += [*_gates(graph), *_system(graph), *_diagonals(graph), *_solved(graph), *_queries(graph), *_update(graph)]
    return edited(graph, tuple(operators), tuple(_tensors(graph)), "cube")


def _shared(graph: Graph) -> bool:
    """Whether one strength erases and writes, so that it leaves the system as a column factor."""
    return graph.mechanism.strengths == 1


def _gates(graph: Graph) -> list[Operator]:
    kept = {operator.name: operator for operator in graph.operators}
    found = [kept["decays"]] if "decays" in kept else []
    if graph.mechanism.decay != "scalar":
        return found
    inputs = ("g", "log_strength") if _shared(graph) else ("g",)
    if _shared(graph):
        found.append(Operator("log_strength", "log", ("strength",), ("log_strength",), "vector"))
    return [*found, Operator("exponents", "segment_sums", inputs, ("exponents",), "matrix"), kept["ratio"]]


def _column_strength(graph: Graph) -> dict[str, Axis]:
    """The strength as a factor of the scores' columns, where no ratio carries it."""
    return {"strength": "column"} if _shared(graph) and graph.mechanism.decay != "scalar" else {}


def _system(graph: Graph) -> list[Operator]:
    """K K^T, Q K^T and the inverse."""
    products = [o for o in graph.operators if o.name in ("anchored_scores", "key_key", "query_key")]
    if not graph.mechanism.delta:
        return products
    ratio: dict[str, Axis] = {"ratio": "tile"} if graph.mechanism.decay == "scalar" else {}
    rows: dict[str, Axis] = {} if _shared(graph) else {"erase_strength": "row"}
    factors: dict[str, Axis] = {"key_key": "tile", **ratio, **_column_strength(graph), **rows}
    return [
        *products,
        multiply("system", "system", factors, "strictly_lower"),
        Operator("inverse", "inverse", ("system",), ("solved",), "matrix"),
        split("solved", "matrix"),
    ]


def _diagonal_factors(graph: Graph) -> dict[str, tuple[str, ...]]:
    """Each diagonal operand and the vectors whose product it holds."""
    scalar = graph.mechanism.decay == "scalar"
    shared = _shared(graph)
    found: dict[str, tuple[str, ...]] = {}
    if graph.mechanism.delta and graph.mechanism.decay != "per_channel":
        found["value_diagonal"] = () if shared else ("strength",)
        found["read_diagonal"] = (("from_start",) if scalar else ()) + (() if shared else ("erase_strength",))
    elif not shared:
        found["write_columns_diagonal"] = ("strength",)
        found["read_columns_diagonal"] = ("erase_strength",)
    if graph.mechanism.decay != "per_channel":
        found["output_diagonal"] = ("scale", "from_start") if scalar else ("scale",)
        if scalar or shared:
            found["key_diagonal"] = (("to_end",) if scalar else ()) + (("strength",) if shared else ())
    found["decay_diagonal"] = () if graph.mechanism.decay == "none" else ("chunk_decay",)
    return found


def _diagonals(graph: Graph) -> list[Operator]:
    factors = _diagonal_factors(graph)
    inputs = tuple(dict.fromkeys(name for names in factors.values() for name in names))
    numbers = tuple(tuple(inputs.index(name) for name in names) for names in factors.values())
    return [Operator("diagonals", "diagonals", inputs, tuple(factors), "vector", Diagonals(numbers))]


def _solved(graph: Graph) -> list[Operator]:
    found = [split("state_in", "matrix")]
    if not graph.mechanism.delta:
        return found
    if graph.mechanism.decay == "per_channel":
        return [*found, *_solved_per_channel(graph)]
    scaled = Term(left="diagonal", bookkeeping=True)
    terms = Products((scaled, replace(scaled, sign=-1)))
    inputs = ("value_diagonal", "v", "read_diagonal", "key_state_parts")
    return [
        *found,
        product("key_state", "key_state", "k", "state_in_parts"),
        split("key_state", "matrix"),
        Operator("residual", "products", inputs, ("residual",), "matrix", terms),
        split("residual", "matrix"),
        product("solve", "x", "solved_parts", "residual_parts", Term(left="lower")),
        split("x", "matrix"),
    ]


def _solved_per_channel(graph: Graph) -> list[Operator]:
    """x' = A1 V - A2 K S. A1 V counts as bookkeeping: the definition has one product here."""
    found = []
    write = read = "solved_parts"
    if not _shared(graph):
        scaled = Term(left="lower", right="diagonal", bookkeeping=True)
        found += [product("write_columns", "solved_write", write, "write_columns_diagonal", scaled)]
        found += [product("read_columns", "solved_read", read, "read_columns_diagonal", scaled)]
        found += [split("solved_write", "matrix"), split("solved_read", "matrix")]
        write, read = "solved_write_parts", "solved_read_parts"
    terms = Products((Term(left="lower", bookkeeping=True), Term(left="lower", sign=-1)))
    return [
        *found,
        multiply("key_rows", "k_start", {"k": "tile", "from_start": "tile"}),
        split("k_start", "matrix"),
        product("key_state", "key_state", "k_start_parts", "state_in_parts"),
        split("key_state", "matrix"),
        Operator("solve", "products", (write, "v", read, "key_state_parts"), ("x",), "matrix", terms),
        split("x", "matrix"),
    ]


def _queries(graph: Graph) -> list[Operator]:
    """The output, as one sum in the accumulator."""
    ratio: dict[str, Axis] = {"ratio": "tile"} if graph.mechanism.decay == "scalar" else {}
    rows: dict[str, Axis] = {"scale": "scalar"}
    scores: dict[str, Axis] = {"query_key": "tile", **ratio, **_column_strength(graph), **rows}
    found = [multiply("scores", "scores", scores, "lower"), split("scores", "matrix")]
    if graph.mechanism.decay == "per_channel":
        left, right, first = "q_start_parts", "state_in_parts", Term()
        found += [multiply("query_rows", "q_start", {"q": "tile", "from_start": "tile", **rows}), split("q_start", "matrix")]
    else:
        left, right, first = "output_diagonal", "query_state_parts", Term(left="diagonal", bookkeeping=True)
        found += [product("query_state", "query_state", "q", "state_in_parts"), split("query_state", "matrix")]
    inputs = (left, right, "scores_parts", _values(graph))
    output = Operator("output", "products", inputs, ("o",), "matrix", Products((first, Term(left="lower"))))
    return [*found, output, Operator("store_output", "store", ("o",), ("output",), "move")]


def _update(graph: Graph) -> list[Operator]:
    found: list[Operator] = []
    key, values = "k", _values(graph)
    if graph.mechanism.decay == "per_channel":
        key = "k_end_parts"
        rows: dict[str, Axis] = {"strength": "row"} if _shared(graph) else {}
        found = [multiply("end_rows", "k_end", {"k": "tile", "to_end": "tile", **rows}), split("k_end", "matrix")]
    elif "key_diagonal" in _diagonal_factors(graph):
        scaled = product("written_rows", "written", "key_diagonal", values, Term(left="diagonal", bookkeeping=True))
        found = [scaled, split("written", "matrix")]
        values = "written_parts"
    terms = Products((Term(left="transposed"), Term(left="diagonal", bookkeeping=True)))
    inputs = (key, values, "decay_diagonal", "state_in_parts")
    return [*found, Operator("update", "products", inputs, ("state_out",), "matrix", terms)]


def _values(graph: Graph) -> str:
    """What the keys write: x', or without a correction the values as they came."""
    return "x_parts" if graph.mechanism.delta else "v"


def _tensors(graph: Graph) -> list[Tensor]:
    keys, values = (graph.chunk, graph.key_dim), (graph.chunk, graph.value_dim)
    square, state = (graph.chunk, graph.chunk), (graph.key_dim, graph.value_dim)
    known = tensors_of(graph)
    shapes = {
        "solved": square,
        "solved_write": square,
        "solved_read": square,
        "scores": square,
        "state_in": state,
        "key_state": values,
        "query_state": values,
        "residual": values,
        "written": values,
        "x": values,
        **dict.fromkeys(("k_start", "k_end", "q_start"), keys),
    }
    tensors = [Tensor(name, shape) for name, shape in shapes.items() if name not in known]
    tensors += [Tensor(f"{name}_parts", shape, "float16x2") for name, shape in shapes.items()]
    tensors.append(Tensor("log_strength", (graph.chunk,)))
    for name, factors in _diagonal_factors(graph).items():
        sizes = [known[factor].elements for factor in factors] or [1]
        exact = not factors and name == "value_diagonal"  # ones in one part
        tensors.append(Tensor(name, (max(sizes),), "float16" if exact else "diagonal"))
    return tensors
