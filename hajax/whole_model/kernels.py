"""Kernels as data: what one launch computes, reads and writes. Sizes are those of the whole chip; fp16 in GM unless said."""

from dataclasses import dataclass
from typing import Literal, get_args

Kind = Literal["delta rule", "conv and gates", "projections", "attention", "feed forward", "norms", "embedding and head"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class Lanes:
    """One vector instruction over so many fp32 elements."""

    instruction: str
    elements: int


@dataclass(frozen=True, slots=True)
class Matmul:
    """`batch` products [m, k] x [k, n]. epilogue: vector work on results that have just left L0C, over all of the batch.

    shared_rows: all products of the batch read other rows; read: bytes that the epilogue reads; written: bytes of all results.
    """

    name: str
    kind: Kind
    m: int
    n: int
    k: int
    written: int
    batch: int = 1
    epilogue: tuple[Lanes, ...] = ()
    read: int = 0

    @property
    def weights(self) -> int:
        """Elements of all right-hand sides."""
        return self.batch * self.n * self.k


@dataclass(frozen=True, slots=True)
class Elementwise:
    """Vector work on tiles that are read and written once. copies: 0, or rows that each take an instruction of their own."""

    name: str
    kind: Kind
    work: tuple[Lanes, ...]
    read: int
    written: int
    copies: int = 0
    weights: int = 0


@dataclass(frozen=True, slots=True)
class SoftmaxAttention:
    """Causal attention of `tokens` with themselves, tile by tile, scores never in GM. epilogue, read: as of a Matmul."""

    name: str
    kind: Kind
    tokens: int
    heads: int
    kv_heads: int
    key_dim: int
    value_dim: int
    epilogue: tuple[Lanes, ...] = ()
    read: int = 0
    weights: int = 0


@dataclass(frozen=True, slots=True)
class DeltaRuleCore:
    """The delta rule itself: a plan that the emulator runs. Gates and state are fp32."""

    name: str
    kind: Kind
    mechanism: str
    tokens: int
    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    weights: int = 0


Kernel = Matmul | Elementwise | SoftmaxAttention | DeltaRuleCore
