"""The operators: one primitive for the delta-rule family, and the small pieces of its layers."""

from hajax.ops._causal_conv1d import causal_conv1d
from hajax.ops._gated_delta_rule import gated_delta_rule, gated_delta_rule_step
from hajax.ops._kda import kda, kda_step
from hajax.ops._linear_attention import linear_attention
from hajax.ops._norms import gated_rms_norm, l2norm
from hajax.ops._options import use

__all__ = [
    "causal_conv1d",
    "gated_delta_rule",
    "gated_delta_rule_step",
    "gated_rms_norm",
    "kda",
    "kda_step",
    "l2norm",
    "linear_attention",
    "use",
]
