"""What a member of the delta-rule family is: which parts of the one recurrence are switched on."""

from dataclasses import dataclass
from typing import Literal, get_args

Decay = Literal["none", "scalar", "per_channel"]
Strengths = Literal[1, 2]


@dataclass(frozen=True, slots=True)
class Mechanism:
    """S <- decay(S);  u = write v - erase S^T k if delta else write v;  S <- S + k u^T;  o = scale S^T q.

    strengths: 1 when one beta both erases and writes, 2 when beta has a trailing axis of two: erase, write.
    """

    name: str
    decay: Decay
    delta: bool
    strengths: int = 1

    def __post_init__(self) -> None:
        if self.decay not in get_args(Decay):
            raise ValueError(f"decay: expected one of {get_args(Decay)}, got {self.decay!r}")
        allowed = get_args(Strengths) if self.delta else (1,)
        if self.strengths not in allowed:
            when = "with" if self.delta else "without"
            raise ValueError(f"strengths: expected one of {allowed} {when} delta, got {self.strengths!r}")


GATED_DELTA_RULE = Mechanism("gated_delta_rule", decay="scalar", delta=True)
KDA = Mechanism("kda", decay="per_channel", delta=True)
DELTA_RULE = Mechanism("delta_rule", decay="none", delta=True)
GATED_LINEAR_ATTENTION = Mechanism("gated_linear_attention", decay="per_channel", delta=False)
RETENTION = Mechanism("retention", decay="scalar", delta=False)
LINEAR_ATTENTION = Mechanism("linear_attention", decay="none", delta=False)
GATED_DELTA_RULE_2 = Mechanism("gated_delta_rule_2", decay="scalar", delta=True, strengths=2)
KDA_2 = Mechanism("kda_2", decay="per_channel", delta=True, strengths=2)
DELTA_RULE_2 = Mechanism("delta_rule_2", decay="none", delta=True, strengths=2)

MECHANISMS: dict[str, Mechanism] = {
    m.name: m
    for m in (
        GATED_DELTA_RULE,
        KDA,
        DELTA_RULE,
        GATED_LINEAR_ATTENTION,
        RETENTION,
        LINEAR_ATTENTION,
        GATED_DELTA_RULE_2,
        KDA_2,
        DELTA_RULE_2,
    )
}


def member(decay: Decay, delta: bool, strengths: int) -> Mechanism:
    """The named mechanism with these parts. Every combination that is allowed has one."""
    return next(m for m in MECHANISMS.values() if (m.decay, m.delta, m.strengths) == (decay, delta, strengths))
