"""What a rule is: it turns one equation of a jaxpr into a torch function, once, when the program is planned."""

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from jax.extend import core as jex

from hajax.npu.dtypes import Unsupported, held, held_shape

Function = Callable[..., Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Operation:
    """A torch function for one equation. It takes the operands in order and returns a tensor, or a tuple of them.

    view: the result is the storage of operand 0, without overlaps. in_place: the same function writing into operand `target`,
    which it returns (as its result number `result`): taken where that operand is the program's own and dies here.
    syncs: it reads a value back to the host. fresh: what the rule says, unless this equation differs. identity: the result is
    operand 0. reshape: it is operand 0's elements in their order, so that a reshape of it is one of the operand.
    """

    run: Function
    view: bool = False
    in_place: Function | None = None
    target: int = 0
    result: int = 0
    syncs: bool = False
    fresh: bool | None = None
    identity: bool = False
    reshape: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Context:
    """What a rule may use: the device of the program, and the planner for jaxprs inside of an equation."""

    device: torch.device
    plan: Callable[..., Any]  # (closed jaxpr, donated positions) -> Program


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """build(equation, context) -> Operation or plain function. fresh: results are new storage that nothing else shares.

    scalars: literals come as Python numbers instead of tensors. complex, keys: complex numbers and typed random keys (whose
    tensors have a last axis of words) are right, too. host: operands that stay on the host when they are constants.
    """

    build: Callable[[Any, Context], Any]
    fresh: bool
    scalars: bool
    complex: bool
    keys: bool
    host: tuple[int, ...] = ()


RULES: dict[str, Rule] = {}


def rule(
    *names: str,
    fresh: bool = False,
    scalars: bool = False,
    complex: bool = False,
    keys: bool = False,
    host: tuple[int, ...] = (),
) -> Callable[[Any], Any]:
    """Registers `build` for these primitives. Without `fresh`, results are taken to share storage with any operand."""

    def register(build: Any) -> Any:
        for name in names:
            if name in RULES:
                raise ValueError(f"two rules for {name}")
            RULES[name] = Rule(build, fresh, scalars, complex, keys, host)
        return build

    return register


def is_literal(atom: Any) -> bool:
    return isinstance(atom, jex.Literal)


def dtype_of(atom: Any) -> torch.dtype:
    """The torch dtype that holds an equation's operand or result."""
    return held(atom.aval.dtype)


def shape_of(atom: Any) -> tuple[int, ...]:
    """The shape of the tensor that holds an equation's operand or result."""
    return held_shape(atom.aval)


def name_of(atom: Any) -> str:
    """The JAX dtype's name."""
    return str(atom.aval.dtype)


def refuse(equation: Any, what: str) -> Unsupported:
    """An Unsupported that names the primitive."""
    return Unsupported(f"primitive {equation.primitive.name}: {what} cannot run on torch")
