"""What each kind of operator means, on numpy arrays of fp64: a function of attributes and inputs to a tuple of outputs.

Decay ratios are exp of a sum of log decays, all of one sign, and never of a positive number.
"""

from collections.abc import Callable, Mapping

import numpy as np

from hajax.graph.model import Attributes, Composite, Diagonals, Elementwise, Mask, Operand, Operator, Products

Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def evaluate_operator(operator: Operator, values: Mapping[str, Array]) -> dict[str, Array]:
    """An operator's outputs by name, from the values of its inputs."""
    if isinstance(operator.attributes, Composite):
        known = dict(values)
        for part in operator.attributes.parts:
            known |= evaluate_operator(part, known)
        return {name: known[name] for name in operator.outputs}
    if operator.kind not in MEANINGS:
        raise ValueError(f"{operator.name}: expected a kind of {', '.join(MEANINGS)}, got {operator.kind!r}")
    results = MEANINGS[operator.kind](operator.attributes, *(values[name] for name in operator.inputs))
    return dict(zip(operator.outputs, results, strict=True))


def _same(attributes: Attributes, value: Array) -> tuple[Array, ...]:
    """Loads, stores, and splits: hi + lo is the value itself up to 2^-22, which fp64 arithmetic has no use for."""
    return (value,)


def _segment_sums(attributes: Attributes, log_decay: Array, log_strength: Array | None = None) -> tuple[Array, ...]:
    """D[i, j] = sum of log decays of j < t <= i (and the log strength of j), -inf for j > i: one product with ones."""
    size = len(log_decay)
    ones = np.tril(np.ones((size, size)))
    sums = (ones * log_decay) @ np.tril(ones, -1)
    if log_strength is not None:
        sums = sums + log_strength
    return (np.where(ones > 0, sums, -np.inf),)


def _decays(attributes: Attributes, log_decay: Array) -> tuple[Array, ...]:
    """e^G from the chunk's start through each token, e^(G_C - G) from behind it to the end, and e^G_C."""
    to_end = np.zeros_like(log_decay)
    to_end[:-1] = np.cumsum(log_decay[:0:-1], axis=0)[::-1]
    total = log_decay.sum(axis=0)
    return np.exp(np.cumsum(log_decay, axis=0)), np.exp(to_end), np.exp(np.atleast_1d(total))


def _exp(attributes: Attributes, value: Array) -> tuple[Array, ...]:
    return (np.exp(value),)


def _log(attributes: Attributes, value: Array) -> tuple[Array, ...]:
    """ln of a strength; of zero -inf, whose exp is zero again."""
    with np.errstate(divide="ignore"):
        return (np.log(value),)


def _product(left: Array, left_form: Operand, right: Array, right_form: Operand) -> Array:
    """A diagonal of one entry stands for as many equal ones as there are rows."""
    left = left.T if left_form == "transposed" else left
    right = right.T if right_form == "transposed" else right
    if left_form == "diagonal":
        return left[:, None] * right
    return left * right[None, :] if right_form == "diagonal" else left @ right


def _products(attributes: Attributes, *operands: Array) -> tuple[Array, ...]:
    assert isinstance(attributes, Products) and len(operands) == 2 * len(attributes.terms)
    result: Array | float = 0.0
    for number, term in enumerate(attributes.terms):
        left, right = operands[2 * number : 2 * number + 2]
        result = result + term.sign * _product(left, term.left, right, term.right)
    return (np.asarray(result),)


def _inverse(attributes: Attributes, system: Array) -> tuple[Array, ...]:
    """(I + L)^-1 of a strictly lower L, row by row."""
    result = np.eye(len(system))
    for row in range(1, len(system)):
        result[row, :row] = -system[row, :row] @ result[:row, :row]
    return (result,)


def _halved_scores(left: Array, key: Array, log_decay: Array) -> Array:
    """Scores of rows against keys before and at them, by halving: the later half against the earlier, the anchor between."""
    size = len(key)
    if size == 1:
        return left @ key.T
    half = size // 2
    result = np.zeros((size, size))
    result[:half, :half] = _halved_scores(left[:half], key[:half], log_decay[:half])
    result[half:, half:] = _halved_scores(left[half:], key[half:], log_decay[half:])
    behind = np.exp(np.cumsum(log_decay[half:], axis=0))
    before = np.zeros_like(log_decay[:half])
    before[:-1] = np.cumsum(log_decay[half - 1 : 0 : -1], axis=0)[::-1]
    result[half:, :half] = (left[half:] * behind) @ (key[:half] * np.exp(before)).T
    return result


def _anchored_scores(attributes: Attributes, log_decay: Array, key: Array, *lefts: Array) -> tuple[Array, ...]:
    """sum_d x[i, d] k[j, d] exp(sum of log decays[d] of j < t <= i) for i >= j, of each left operand x."""
    return tuple(_halved_scores(left, key, log_decay) for left in lefts)


def _aligned(axis: str, value: Array) -> Array:
    match axis:
        case "row":
            return value[:, None]
        case "column":
            return value[None, :]
        case "scalar":
            return value.reshape(1, 1)
        case _:
            return value


def _masked(mask: Mask, value: Array) -> Array:
    match mask:
        case "lower":
            return np.tril(value)
        case "strictly_lower":
            return np.tril(value, -1)
        case _:
            return value


def _factors(attributes: Attributes, values: tuple[Array, ...], first: int) -> Array:
    assert isinstance(attributes, Elementwise) and len(values) == len(attributes.axes)
    product = _aligned(attributes.axes[first], values[first])
    for axis, value in zip(attributes.axes[first + 1 :], values[first + 1 :], strict=True):
        product = product * _aligned(axis, value)
    return product


def _multiply(attributes: Attributes, *values: Array) -> tuple[Array, ...]:
    assert isinstance(attributes, Elementwise)
    return (_masked(attributes.mask, _factors(attributes, values, 0)),)


def _multiply_add(attributes: Attributes, *values: Array) -> tuple[Array, ...]:
    """The first input plus the product of the others."""
    return (values[0] + _factors(attributes, values, 1),)


def _multiply_subtract(attributes: Attributes, *values: Array) -> tuple[Array, ...]:
    """The first input less the product of the others."""
    return (values[0] - _factors(attributes, values, 1),)


def _diagonals(attributes: Attributes, *values: Array) -> tuple[Array, ...]:
    assert isinstance(attributes, Diagonals)
    results = []
    for factors in attributes.factors:
        result: Array = np.ones(1)
        for factor in factors:
            result = result * values[factor]
        results.append(result)
    return tuple(results)


MEANINGS: dict[str, Callable[..., tuple[Array, ...]]] = {
    "load": _same,
    "store": _same,
    "split": _same,
    "segment_sums": _segment_sums,
    "decays": _decays,
    "exp": _exp,
    "log": _log,
    "products": _products,
    "inverse": _inverse,
    "anchored_scores": _anchored_scores,
    "multiply": _multiply,
    "multiply_add": _multiply_add,
    "multiply_subtract": _multiply_subtract,
    "diagonals": _diagonals,
}
