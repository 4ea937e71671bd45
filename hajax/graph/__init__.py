"""A delta-rule mechanism as operators and tensors of one head's chunk, each operator with its meaning and its cost in counts."""

from hajax.graph.build import build
from hajax.graph.counts import Counts, counts
from hajax.graph.evaluate import evaluate, legal
from hajax.graph.meanings import MEANINGS
from hajax.graph.model import (
    ELEMENT_BYTES,
    Composite,
    Diagonals,
    Elementwise,
    Graph,
    Operator,
    Products,
    Tensor,
    Term,
    edited,
    readers_of,
    stages,
    tensors_of,
    writer_of,
)

__all__ = [
    "ELEMENT_BYTES",
    "MEANINGS",
    "Composite",
    "Counts",
    "Diagonals",
    "Elementwise",
    "Graph",
    "Operator",
    "Products",
    "Tensor",
    "Term",
    "build",
    "counts",
    "edited",
    "evaluate",
    "legal",
    "readers_of",
    "stages",
    "tensors_of",
    "writer_of",
]
