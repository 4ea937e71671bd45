"""What a member of the delta-rule family is: which parts of the one recurrence are switched on."""

from dataclasses import dataclass
from typing import Literal, get_args

Decay = Literal["none", "scalar", "per_channel"]


@dataclass(frozen=True, slots=True)
class Mechanism:
    """S <- decay(S);  u = beta (v - S^T k) if delta else beta v;  S <- S + k u^T;  o = scale S^T q."""

    name: str
    decay: Decay
    delta: bool

    def __post_init__(self) -> None:
        if self.decay not in get_args(Decay):
            raise ValueError(f"decay: expected one of {get_args(Decay)}, got {self.decay!r}")


GATED_DELTA_RULE = Mechanism("gated_delta_rule", decay="scalar", delta=True)

MECHANISMS: dict[str, Mechanism] = {m.name: m for m in (GATED_DELTA_RULE,)}
