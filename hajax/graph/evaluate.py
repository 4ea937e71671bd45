"""Runs a graph over all chunks of one head's sequence in fp64, in any legal order: what every rewriting is held against."""

from collections.abc import Mapping, Sequence

import numpy as np

from hajax.graph.meanings import Array, evaluate_operator
from hajax.graph.model import Graph, Operator, tensors_of


def evaluate(
    graph: Graph, order: Sequence[str] | None, inputs: Mapping[str, Array], *, state_versions: int = 2
) -> tuple[Array, Array]:
    """Output [T, Dv] and final state [Dk, Dv] of one head.

    order: names of all operators, or None for the definition's order. inputs: query, key [T, Dk], value [T, Dv], log_decay
    [T] or [T, Dk], beta [T] and, with two strengths, erase [T]; scale; state_in [Dk, Dv], zero if absent. A last chunk is
    filled up with zeros. state_versions 1: the update overwrites the state, and who reads it later reads the new one.
    """
    if state_versions not in (1, 2):
        raise ValueError(f"state_versions: expected 1 or 2, got {state_versions}")
    operators = legal(graph, order)
    sequences = [t.name for t in graph.tensors if t.role == "input" and t.shape]
    for name in (*sequences, "scale"):
        if name not in inputs:
            raise ValueError(f"inputs: expected {', '.join((*sequences, 'scale'))}, got none for {name}")
    tokens = len(inputs["query"])
    chunks = -(-tokens // graph.chunk)
    arrays = {name: _filled(graph, name, np.asarray(inputs[name], np.float64), tokens) for name in sequences}
    state: Array = np.zeros((graph.key_dim, graph.value_dim))
    if "state_in" in inputs:
        state = np.asarray(inputs["state_in"], np.float64)
    outputs: list[Array] = []
    for chunk in range(chunks):
        rows = slice(chunk * graph.chunk, (chunk + 1) * graph.chunk)
        values = {name: array[rows] for name, array in arrays.items()}
        values |= {"scale": np.asarray(inputs["scale"], np.float64), "state_in": state}
        values = _run(graph, operators, values, state_versions)
        outputs.append(values["output"])
        state = values["state_out"]
    output = np.concatenate(outputs)[:tokens] if outputs else np.zeros((0, graph.value_dim))
    return output, state


def legal(graph: Graph, order: Sequence[str] | None) -> tuple[Operator, ...]:
    """The operators in this order. Raises ValueError if one is missing or stands before what it reads is made."""
    if order is None:
        return graph.operators
    known = {operator.name: operator for operator in graph.operators}
    if sorted(order) != sorted(known):
        raise ValueError(f"order: expected each of {', '.join(known)} once, got {', '.join(order)}")
    waiting = {out for operator in graph.operators for out in operator.outputs}
    for name in order:
        early = waiting.intersection(known[name].inputs)
        if early:
            raise ValueError(f"order: expected {name} behind what makes {', '.join(sorted(early))}, got it before")
        waiting.difference_update(known[name].outputs)
    return tuple(known[name] for name in order)


def _run(graph: Graph, operators: Sequence[Operator], values: dict[str, Array], state_versions: int) -> dict[str, Array]:
    tensors = tensors_of(graph)
    for operator in operators:
        results = evaluate_operator(operator, values)
        for name, value in results.items():
            if value.shape != tensors[name].shape:
                raise ValueError(f"{operator.name}: expected {name} of shape {tensors[name].shape}, got {value.shape}")
        values |= results
        if state_versions == 1 and "state_out" in results:
            values["state_in"] = results["state_out"]
    return values


def _filled(graph: Graph, name: str, array: Array, tokens: int) -> Array:
    """With rows of zeros up to whole chunks."""
    expected = (tokens, *tensors_of(graph)[name].shape[1:])
    if array.shape != expected:
        raise ValueError(f"{name}: expected {expected}, with as many tokens as the query, got {array.shape}")
    return np.concatenate([array, np.zeros((-tokens % graph.chunk, *expected[1:]))])
