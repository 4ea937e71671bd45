"""A mechanism and the sizes of a chunk -> the graph of its chunkwise form as it is defined, before any rewriting.

With decays d, strengths e (erase) and w (write): A = (I + strictly_lower(e E o K K^T))^-1, x = A w V - A (e d K) S,
o = scale (d Q S + lower(E o Q K^T) x), S' = d_C S + (d_end K)^T x. Parts that a mechanism lacks are left out.
"""

from collections.abc import Mapping

from hajax.graph.model import Axis, Composite, Elementwise, Graph, Mask, Operator, Products, Tensor, Term, Unit
from hajax.mechanisms import Mechanism


def build(mechanism: Mechanism, chunk: int, key_dim: int, value_dim: int) -> Graph:
    """The definition's graph: gate, K K^T, solve, w and u, state, output; the state is one operator that reads and updates."""
    for name, size in (("chunk", chunk), ("key_dim", key_dim), ("value_dim", value_dim)):
        if size < 16 or size % 16:
            raise ValueError(f"{name}: expected a positive multiple of 16, got {size}")
    if chunk & (chunk - 1):
        raise ValueError(f"chunk: expected a power of two, got {chunk}")
    tensors = {t.name: t for t in _tensors(mechanism, chunk, key_dim, value_dim)}
    state = compose("state", _state(mechanism), ("x", "state_out") if mechanism.delta else ("state_out",), tensors)
    operators = [*_loads(mechanism), *_gates(mechanism), *_scores(mechanism), *_solved(mechanism), state, *_output(mechanism)]
    used = {name for operator in operators for name in (*operator.inputs, *operator.outputs)}
    kept = tuple(tensor for name, tensor in tensors.items() if name in used)
    return Graph(mechanism, chunk, key_dim, value_dim, tuple(operators), kept)


def multiply(name: str, result: str, inputs: dict[str, Axis], mask: Mask = "none") -> Operator:
    """An elementwise product; inputs: tensor to its axis."""
    return Operator(name, "multiply", tuple(inputs), (result,), "vector", Elementwise(tuple(inputs.values()), mask))


def accumulate(name: str, kind: str, result: str, base: str, inputs: dict[str, Axis]) -> Operator:
    """base plus (multiply_add) or less (multiply_subtract) an elementwise product."""
    return Operator(name, kind, (base, *inputs), (result,), "vector", Elementwise(("tile", *inputs.values())))


def product(name: str, result: str, left: str, right: str, term: Term | None = None) -> Operator:
    """One product on the cube."""
    return Operator(name, "products", (left, right), (result,), "matrix", Products((term or Term(),)))


def split(name: str, unit: Unit) -> Operator:
    """A tensor's high and low fp16 parts, which a product needs where the values are not exact in fp16."""
    return Operator(f"split_{name}", "split", (name,), (f"{name}_parts",), unit)


def erase_of(mechanism: Mechanism) -> str:
    """The tensor of the strength that erases."""
    return "erase_strength" if mechanism.strengths == 2 else "strength"


def strict_key_scores(mechanism: Mechanism, strength: str, axis: Axis) -> Operator:
    """The system's strictly lower part, from K K^T, the decay ratios and a strength for each row or column."""
    ratio: dict[str, Axis] = {"ratio": "tile"} if mechanism.decay == "scalar" else {}
    return multiply("system", "system", {"key_key": "tile", **ratio, strength: axis}, "strictly_lower")


def _loads(mechanism: Mechanism) -> list[Operator]:
    names = {"key": "k", "value": "v", "query": "q", "beta": "strength"}
    if mechanism.decay != "none":
        names["log_decay"] = "g"
    if mechanism.strengths == 2:
        names["erase"] = "erase_strength"
    return [Operator(f"load_{source}", "load", (source,), (target,), "move") for source, target in names.items()]


def _gates(mechanism: Mechanism) -> list[Operator]:
    if mechanism.decay == "none":
        return []
    decays = Operator("decays", "decays", ("g",), ("from_start", "to_end", "chunk_decay"), "vector")
    if mechanism.decay == "per_channel":
        return [decays]
    exponents = Operator("exponents", "segment_sums", ("g",), ("exponents",), "matrix")
    return [decays, exponents, Operator("ratio", "exp", ("exponents",), ("ratio",), "vector")]


def _scores(mechanism: Mechanism) -> list[Operator]:
    """K K^T. With a decay per channel it comes from halving, and Q K^T with it: they share the scaled keys."""
    if mechanism.decay == "per_channel":
        pairs = {"key_key": "k", "query_key": "q"} if mechanism.delta else {"query_key": "q"}
        inputs = ("g", "k", *pairs.values())
        return [Operator("anchored_scores", "anchored_scores", inputs, tuple(pairs), "matrix")]
    return [product("key_key", "key_key", "k", "k", Term(right="transposed"))] if mechanism.delta else []


def _solved(mechanism: Mechanism) -> list[Operator]:
    """The inverse, w = A (e d K) and u = A (w V); without delta u is w V and there is no w."""
    if not mechanism.delta:
        return [multiply("write_rows", "x", {"v": "tile", "strength": "row"})]
    decay: dict[str, Axis] = {}
    if mechanism.decay != "none":
        decay["from_start"] = "row" if mechanism.decay == "scalar" else "tile"
    lower = Term(left="lower")
    return [
        strict_key_scores(mechanism, erase_of(mechanism), "row"),
        Operator("inverse", "inverse", ("system",), ("solved",), "matrix"),
        multiply("erase_rows", "k_erase", {"k": "tile", **decay, erase_of(mechanism): "row"}),
        multiply("write_rows", "v_write", {"v": "tile", "strength": "row"}),
        product("w", "w", "solved", "k_erase", lower),
        product("u", "u", "solved", "v_write", lower),
    ]


def _state(mechanism: Mechanism) -> tuple[Operator, ...]:
    """What reads the state for the correction and updates it: one operator, as a kernel of its own would do it."""
    parts: list[Operator] = []
    if mechanism.delta:
        parts.append(product("read", "read", "w", "state_in"))
        parts.append(accumulate("correct", "multiply_subtract", "x", "u", {"read": "tile"}))
    left, right = "k", "x"
    if mechanism.decay == "scalar":
        parts.append(multiply("end_rows", "x_end", {"x": "tile", "to_end": "row"}))
        right = "x_end"
    elif mechanism.decay == "per_channel":
        parts.append(multiply("end_rows", "k_end", {"k": "tile", "to_end": "tile"}))
        left = "k_end"
    parts.append(product("key_value", "key_value", left, right, Term(left="transposed")))
    decay: dict[str, Axis] = {}
    if mechanism.decay != "none":
        decay["chunk_decay"] = "scalar" if mechanism.decay == "scalar" else "row"
    parts.append(accumulate("update", "multiply_add", "state_out", "key_value", {"state_in": "tile", **decay}))
    return tuple(parts)


def compose(name: str, parts: tuple[Operator, ...], outputs: tuple[str, ...], tensors: Mapping[str, Tensor]) -> Operator:
    """Several operators as one, of which only these outputs are seen."""
    made = dict.fromkeys(out for part in parts for out in part.outputs)
    inputs = dict.fromkeys(name for part in parts for name in part.inputs if name not in made)
    unit: Unit = "matrix" if any(part.unit == "matrix" for part in parts) else "vector"
    hidden = tuple(tensors[tensor] for tensor in made if tensor not in outputs)
    return Operator(name, "composite", tuple(inputs), outputs, unit, Composite(parts, hidden))


def _output(mechanism: Mechanism) -> list[Operator]:
    operators = []
    if mechanism.decay != "per_channel":
        operators.append(product("query_key", "query_key", "q", "k", Term(right="transposed")))
    ratio: dict[str, Axis] = {"ratio": "tile"} if mechanism.decay == "scalar" else {}
    operators.append(multiply("scores", "scores", {"query_key": "tile", **ratio, "scale": "scalar"}, "lower"))
    query = "q"
    rows: dict[str, Axis] = {"scale": "scalar"}
    if mechanism.decay == "per_channel":
        operators.append(multiply("query_rows", "q_start", {"q": "tile", "from_start": "tile"}))
        query = "q_start"
    elif mechanism.decay == "scalar":
        rows["from_start"] = "row"
    operators += [
        product("query_state", "query_state", query, "state_in"),
        product("attend", "attended", "scores", "x", Term(left="lower")),
        accumulate("output", "multiply_add", "o", "attended", {"query_state": "tile", **rows}),
        Operator("store_output", "store", ("o",), ("output",), "move"),
    ]
    return operators


def _tensors(mechanism: Mechanism, chunk: int, key_dim: int, value_dim: int) -> list[Tensor]:
    """Every tensor that a member of the family may have; intermediates of the composite included, for their shapes."""
    gate = (chunk, key_dim) if mechanism.decay == "per_channel" else (chunk,)
    total = (key_dim,) if mechanism.decay == "per_channel" else (1,)
    keys, values, square, state = (chunk, key_dim), (chunk, value_dim), (chunk, chunk), (key_dim, value_dim)
    return [
        *(Tensor(name, keys, "float16", "input") for name in ("key", "query")),
        Tensor("value", values, "float16", "input"),
        Tensor("log_decay", gate, role="input"),
        *(Tensor(name, (chunk,), role="input") for name in ("beta", "erase")),
        Tensor("scale", (), role="input"),
        Tensor("state_in", state, role="state"),
        Tensor("state_out", state, role="state"),
        Tensor("output", values, "float16", "output"),
        *(Tensor(name, keys, "float16") for name in ("k", "q")),
        Tensor("v", values, "float16"),
        *(Tensor(name, gate) for name in ("g", "from_start", "to_end")),
        Tensor("chunk_decay", total),
        *(Tensor(name, (chunk,)) for name in ("strength", "erase_strength")),
        *(Tensor(name, keys) for name in ("k_erase", "w", "k_end", "q_start")),
        *(Tensor(name, square) for name in ("exponents", "ratio", "key_key", "query_key", "system", "solved", "scores")),
        *(Tensor(name, values) for name in ("v_write", "u", "read", "x", "x_end", "query_state", "attended")),
        Tensor("key_value", state),
        Tensor("o", values, "float16"),
    ]
