"""From a jaxpr to a flat torch program: calls inlined, dead code dropped, constants folded, buffers written in place.

Assumes a closed jaxpr with known shapes. What has no rule is refused by name here, never when the program runs.
"""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch

from hajax.npu import _compat, code, storage
from hajax.npu.dtypes import Unsupported, constant, held, held_shape
from hajax.npu.rules import RULES, fused
from hajax.npu.rules.registry import Context, Operation, Rule, is_literal
from hajax.npu.steps import Slot, Step
from hajax.ops import _fused

CALLS = {
    "jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr", "checkpoint",
    "remat", "remat2", "custom_vmap_call", "composite",
}  # fmt: skip
_NEVER_FOLDED = {"scan", "while", "cond", "random_bits", "hajax_delta_rule"}
_MOST_FOLDED = 1 << 18  # elements of a constant that a program may hold instead of making it


@dataclasses.dataclass(frozen=True, slots=True)
class Program:
    """A planned function of tensors: call it with one tensor an input, get a tuple of tensors.

    `written`: the inputs in whose memory it may write, all of them donated. `syncs`: steps that wait for the device.
    """

    function: Callable[..., tuple[torch.Tensor, ...]]
    steps: tuple[Step, ...]
    source: str
    device: torch.device
    written: frozenset[int]

    def __call__(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self.function(*tensors)

    @property
    def syncs(self) -> tuple[str, ...]:
        return tuple(step.name for step in self.steps if step.syncs)


@dataclasses.dataclass(frozen=True, slots=True)
class _Equation:
    """An equation outside of any call: literals where calls were given literals, results by slot."""

    equation: Any
    rule: Rule
    name: str
    operands: tuple[Any, ...]  # Slot, tensor, or None for a literal
    results: tuple[int, ...]


def plan(closed: Any, device: torch.device, donated: Iterable[int] = ()) -> Program:
    """The program of a closed jaxpr on a torch device. It may write into the inputs at the positions of `donated`.

    Raises Unsupported, naming the primitive or dtype.
    """

    def inner(body: Any, given: Iterable[int] = ()) -> Program:
        return plan(body, device, given)

    jaxpr = closed.jaxpr
    flat = _Flattener(device)
    inputs = [flat.new() for _ in jaxpr.invars]
    for var in jaxpr.invars:
        _check(var.aval, "an argument")
    outputs = [flat.value(x, atom) for x, atom in zip(flat.emit(jaxpr, closed.consts, inputs), jaxpr.outvars, strict=True)]
    equations = _live(flat.equations, outputs)
    context = Context(device, inner)
    calls, outputs = _built(equations, outputs, context)
    numbers = [slot.number for slot in inputs]
    finished = storage.assign(calls, numbers, outputs, frozenset(donated))
    function, source = code.compile_steps(finished.steps, numbers, finished.outputs)
    return Program(function, finished.steps, source, device, finished.written)


class _Flattener:
    """Walks a jaxpr and the jaxprs of its calls, and keeps what is to be done in one list."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.count = 0
        self.equations: list[_Equation] = []

    def new(self) -> Slot:
        self.count += 1
        return Slot(self.count - 1)

    def value(self, found: Any, atom: Any) -> Any:
        """A slot or a tensor, also for a literal."""
        return constant(_literal(found), atom.aval.dtype, self.device) if is_literal(found) else found

    def emit(self, jaxpr: Any, consts: Sequence[Any], operands: Sequence[Any]) -> list[Any]:
        """The values of the jaxpr's results: slots, tensors, or literals."""
        environment: dict[Any, Any] = dict(zip(jaxpr.invars, operands, strict=True))
        for var, const in zip(jaxpr.constvars, consts, strict=True):
            environment[var] = constant(const, var.aval.dtype, self.device)

        def read(atom: Any) -> Any:
            return atom if is_literal(atom) else environment[atom]

        for equation in jaxpr.eqns:
            values = [read(atom) for atom in equation.invars]
            for var, result in zip(equation.outvars, self._equation(equation, values), strict=True):
                environment[var] = result
        return [read(atom) for atom in jaxpr.outvars]

    def _equation(self, equation: Any, values: list[Any]) -> Sequence[Any]:
        name = equation.primitive.name
        rule, label = RULES.get(name), name
        if name in CALLS:
            found = fused.find(equation)
            if found is None:
                body = _compat.inner_jaxpr(equation.params)
                return self.emit(body.jaxpr, body.consts, values)
            rule, label = found
        wider = _compat.expanded(equation) or _fused.expanded(equation)
        if wider is not None:
            return self.emit(wider.jaxpr, wider.consts, values)
        if name == "platform_index":
            return [constant(_compat.default_platform(equation.params), np.int32, self.device)]
        if name == "cond" and not isinstance(values[0], Slot):  # known now: only that branch is planned
            branches = equation.params["branches"]
            known = _literal(values[0]) if is_literal(values[0]) else values[0]
            body = branches[min(max(int(known), 0), len(branches) - 1)]
            return self.emit(body.jaxpr, body.consts, values[1:])
        if rule is None:
            raise Unsupported(f"primitive {name}: there is no torch rule for it, in {_shortened(equation)}")
        for atom in (*equation.invars, *equation.outvars):
            aval = _check(atom.aval, name)
            if str(aval.dtype).startswith("complex") and not rule.complex:
                raise Unsupported(f"primitive {name}: complex numbers are not supported, in {_shortened(equation)}")
            if _compat.is_key(aval.dtype) and not rule.keys:
                raise Unsupported(f"primitive {name}: random keys are not supported, in {_shortened(equation)}")
        atoms = [value if is_literal(value) else atom for value, atom in zip(values, equation.invars, strict=True)]
        operands = tuple(None if is_literal(value) else value for value in values)
        results = tuple(self.new() for _ in equation.outvars)
        numbers = tuple(slot.number for slot in results)
        self.equations.append(_Equation(equation.replace(invars=atoms), rule, label, operands, numbers))
        return results


def _check(aval: Any, name: str) -> Any:
    if not hasattr(aval, "shape"):
        raise Unsupported(f"primitive {name}: expected arrays, got a value of type {aval}")
    held(aval.dtype)
    held_shape(aval)
    return aval


def _shortened(equation: Any) -> str:
    text = " ".join(str(equation).split())
    return text if len(text) <= 160 else f"{text[:160]}..."


def _literal(atom: Any) -> np.ndarray:
    """A literal's value rounded to its own dtype, as XLA sees it."""
    dtype = atom.aval.dtype
    return atom.val if _compat.is_key(dtype) else np.asarray(atom.val).astype(dtype)


def _live(equations: list[_Equation], outputs: list[Any]) -> list[_Equation]:
    """Those that an output or an effect needs, in order."""
    wanted = {x.number for x in outputs if isinstance(x, Slot)}
    kept = []
    for equation in reversed(equations):
        if equation.equation.effects or wanted.intersection(equation.results):
            wanted.update(x.number for x in equation.operands if isinstance(x, Slot))
            kept.append(equation)
    return kept[::-1]


def _built(equations: list[_Equation], outputs: list[Any], context: Context) -> tuple[list[storage.Call], list[Any]]:
    """Each equation as a call of a torch function; what is known already, or nothing but another value, is no call."""
    known: dict[int, Any] = {}  # by the number of a slot: the tensor or slot that it is
    reshaped: dict[int, Any] = {}  # what a slot is a reshape of

    def value(x: Any) -> Any:
        return known.get(x.number, x) if isinstance(x, Slot) else x

    calls = []
    for one in equations:
        rule, equation = one.rule, one.equation
        operands = [value(x) for x in one.operands]
        chosen = _chosen(one.name, operands, equation)
        if chosen is not None:
            known[one.results[0]] = chosen
            continue
        made = rule.build(equation, context)
        operation = made if isinstance(made, Operation) else Operation(made)
        if operation.identity and operands[0] is not None:
            known[one.results[0]] = operands[0]
            continue
        scalars = rule.scalars and any(x is not None for x in operands)
        filled = [
            _given(atom, scalars, context.device) if x is None else x for x, atom in zip(operands, equation.invars, strict=True)
        ]
        for position in rule.host:
            if isinstance(filled[position], torch.Tensor):
                filled[position] = filled[position].cpu()
        many = bool(equation.primitive.multiple_results)
        if not any(isinstance(x, Slot) for x in filled) and _folds(equation):
            with torch.no_grad():
                found = operation.run(*filled)
            known.update(zip(one.results, found if many else (found,), strict=True))
            continue
        if operation.reshape and isinstance(filled[0], Slot):  # of a reshape: of what that was made of
            filled[0] = reshaped[one.results[0]] = reshaped.get(filled[0].number, filled[0])
        about = ", ".join(f"{v.aval.str_short()}" for v in equation.outvars)
        fresh = rule.fresh if operation.fresh is None else operation.fresh
        calls.append(storage.Call(one.name, operation, fresh, tuple(filled), one.results, many, about))
    outputs = [value(x) for x in outputs]
    return _needed(calls, outputs), outputs


def _needed(calls: list[storage.Call], outputs: list[Any]) -> list[storage.Call]:
    """Without reshapes that nobody reads any more."""
    wanted = {x.number for x in outputs if isinstance(x, Slot)}
    wanted.update(x.number for call in calls if not call.operation.reshape for x in call.operands if isinstance(x, Slot))
    return [call for call in calls if not call.operation.reshape or wanted.intersection(call.results)]


def _chosen(name: str, operands: list[Any], equation: Any) -> Any:
    """The case of a select that a constant predicate takes everywhere, if there is one."""
    if name != "select_n" or not isinstance(operands[0], torch.Tensor) or operands[0].dtype != torch.bool:
        return None
    takes = operands[0]
    if takes.numel() == 0 or not (bool(takes.all()) or not bool(takes.any())):
        return None
    return operands[2 if bool(takes.all()) else 1]


def _folds(equation: Any) -> bool:
    if equation.effects or equation.primitive.name in _NEVER_FOLDED:
        return False
    size = sum(int(np.prod(v.aval.shape)) for v in equation.outvars)
    return size <= _MOST_FOLDED or equation.primitive.name in ("broadcast_in_dim", "iota")


def _given(atom: Any, scalars: bool, device: torch.device) -> Any:
    """A literal operand: a Python number if the rule takes those, else a tensor."""
    value = _literal(atom)
    if scalars and isinstance(value, np.ndarray):
        kind = value.dtype.kind
        return value.item() if kind in "biu" else complex(value) if kind == "c" else float(value.astype(np.float64))
    return constant(value, atom.aval.dtype, device)
