"""What a graph costs for one chunk, in products and elements: for notes and comparisons, not a machine's cycles.

MACs are of whole tiles; upper blocks of lower triangular operands are counted (a schedule may skip them). The products inside
an inverse, a sum of decays or halved scores count as the kernel does them: split operands, tiles of 16.
"""

from dataclasses import dataclass

from hajax.graph.model import Composite, Graph, Operator, Products, Tensor, Term, readers_of, tensors_of

BLOCK = 16
SPLIT_PASSES = 3  # to fp16, x - hi, to fp16 again
DIAGONAL_LANES = 64  # of the substitution in 16 x 16 blocks: every block's 16 columns in turn


@dataclass(frozen=True, slots=True)
class Counts:
    """useful: one product each of the definition's; split: more of them for low parts; bookkeeping: all other MACs.

    vector_elements: elements that vector operators compute, pass by pass; copied_elements: what the vector pipe copies out of
    the accumulator.
    """

    operators: int
    useful_macs: int = 0
    split_macs: int = 0
    bookkeeping_macs: int = 0
    vector_elements: int = 0
    copied_elements: int = 0

    @property
    def macs(self) -> int:
        return self.useful_macs + self.split_macs + self.bookkeeping_macs


def counts(graph: Graph) -> Counts:
    """Sums over a graph's operators."""
    total = Counts(len(graph.operators))
    tensors = tensors_of(graph)
    for operator in graph.operators:
        total = _sum(total, operator_counts(operator, tensors))
    return _sum(total, Counts(0, copied_elements=_copied(graph)))


def operator_counts(operator: Operator, tensors: dict[str, Tensor]) -> Counts:
    """Of one operator; copies out of the accumulator are the graph's, as they depend on who reads."""
    out = tensors[operator.outputs[0]] if operator.outputs else None
    if isinstance(operator.attributes, Composite):
        total = Counts(0)
        known = tensors | {tensor.name: tensor for tensor in operator.attributes.tensors}
        for part in operator.attributes.parts:
            total = _sum(total, operator_counts(part, known))
        return total
    match operator.kind:
        case "products":
            return _products(operator, tensors)
        case "inverse" | "segment_sums" | "anchored_scores" | "split" | "decays" | "diagonals":
            assert out is not None
            return _special(operator, tensors[operator.inputs[0]], out, len(operator.inputs) - 2)
        case "exp" | "log":
            return Counts(0, vector_elements=tensors[operator.inputs[0]].elements)
        case "multiply" | "multiply_add" | "multiply_subtract":
            assert out is not None
            return Counts(0, vector_elements=out.elements * max(1, len(operator.inputs) - 1))
        case _:
            return Counts(0)


def _sum(a: Counts, b: Counts) -> Counts:
    return Counts(*(getattr(a, name) + getattr(b, name) for name in Counts.__slots__))


def _products(operator: Operator, tensors: dict[str, Tensor]) -> Counts:
    assert isinstance(operator.attributes, Products)
    useful = split = bookkeeping = 0
    for number, term in enumerate(operator.attributes.terms):
        left, right = (tensors[name] for name in operator.inputs[2 * number : 2 * number + 2])
        macs = term_macs(term, left, right)
        products = 1 + sum(t.dtype in ("float16x2", "diagonal") for t in (left, right))
        if term.bookkeeping:
            bookkeeping += macs * products
        else:
            useful += macs
            split += macs * (products - 1)
    return Counts(0, useful, split, bookkeeping)


def term_macs(term: Term, left: Tensor, right: Tensor) -> int:
    """MACs of one product with unsplit operands. A diagonal operand is a row of 16 x 16 blocks."""
    if term.left == "diagonal":
        return right.elements * BLOCK
    if term.right == "diagonal":
        return left.elements * BLOCK
    rows, inner = left.shape if term.left != "transposed" else left.shape[::-1]
    return rows * inner * (right.shape[1] if term.right != "transposed" else right.shape[0])


def _special(operator: Operator, first: Tensor, out: Tensor, lefts: int) -> Counts:
    blocks = max(1, (first.shape or (1,))[0] // BLOCK)
    tile = BLOCK**3
    match operator.kind:
        case "inverse":  # two products of s x s blocks for each merge of two s x s inverses, both operands split
            tiles, size = 0, 1
            while size < blocks:
                tiles, size = tiles + blocks // (2 * size) * 2 * size**3, 2 * size
            return Counts(0, bookkeeping_macs=3 * tiles * tile, vector_elements=(BLOCK - 1) * BLOCK * DIAGONAL_LANES)
        case "segment_sums":  # lower triangular operands in two parts
            tiles = blocks * (blocks + 1) * (blocks + 2) // 6
            return Counts(0, bookkeeping_macs=2 * tiles * tile, vector_elements=2 * first.elements * BLOCK)
        case "anchored_scores":
            return _halving(first.shape[0], first.shape[1], lefts)
        case "split":
            if operator.unit == "vector":
                return Counts(0, vector_elements=SPLIT_PASSES * out.elements)
            return Counts(0, bookkeeping_macs=out.elements * BLOCK)
        case "decays":  # three exponentials, of which the last is short
            return Counts(0, vector_elements=2 * first.elements)
        case _:
            return Counts(0, vector_elements=sum(BLOCK * out.shape[0] for _ in operator.outputs))


def _halving(chunk: int, key_dim: int, lefts: int) -> Counts:
    """At each level half of the rows are left operands (of each of `lefts`), the other half keys; both scaled and split."""
    macs = elements = 0
    size = chunk
    while size > 1:
        tile = max(size // 2, BLOCK)
        macs += chunk // max(size, 2 * BLOCK) * tile * tile * key_dim * lefts
        rows = chunk // 2 * key_dim
        elements += rows * 2 + rows * (1 + lefts) * (1 + SPLIT_PASSES)
        size //= 2
    return Counts(0, useful_macs=macs, split_macs=2 * macs, vector_elements=elements)


def _copied(graph: Graph) -> int:
    """Results of the cube that a vector operator, a store or a split reads; a split on the cube copies both parts."""
    tensors = tensors_of(graph)
    readers = readers_of(graph)
    copied = 0
    for operator in graph.operators:
        if operator.unit != "matrix":
            continue
        for name in operator.outputs:
            if operator.kind == "split":
                copied += 2 * tensors[name].elements
            elif any(reader.unit != "matrix" for reader in readers[name]):
                copied += tensors[name].elements
    return copied
