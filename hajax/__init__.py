"""hajax: hybrid linear-attention language models from pure JAX functions, with fused, statically planned kernels.

The public names are those of `__all__`; each is imported when it is first used, so that planning needs no JAX.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hajax import backends as backends
    from hajax import models as models
    from hajax._jit import jit as jit
    from hajax._plan import plan as plan
    from hajax._profile import profile as profile
    from hajax.ops import causal_conv1d as causal_conv1d
    from hajax.ops import gated_delta_rule as gated_delta_rule
    from hajax.ops import gated_delta_rule_step as gated_delta_rule_step
    from hajax.ops import gated_rms_norm as gated_rms_norm
    from hajax.ops import kda as kda
    from hajax.ops import kda_step as kda_step
    from hajax.ops import l2norm as l2norm
    from hajax.ops import linear_attention as linear_attention
    from hajax.ops import use as use
    from hajax.report import explain as explain

__version__ = "0.1.0"

_HOMES = {
    "backends": "",
    "causal_conv1d": "hajax.ops",
    "explain": "hajax.report",
    "gated_delta_rule": "hajax.ops",
    "gated_delta_rule_step": "hajax.ops",
    "gated_rms_norm": "hajax.ops",
    "jit": "hajax._jit",
    "kda": "hajax.ops",
    "kda_step": "hajax.ops",
    "l2norm": "hajax.ops",
    "linear_attention": "hajax.ops",
    "models": "",
    "plan": "hajax._plan",
    "profile": "hajax._profile",
    "use": "hajax.ops",
}

__all__ = [*sorted(_HOMES), "__version__"]  # noqa: PLE0604 (names are strings)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'hajax' has no attribute {name!r}")
    home = _HOMES[name]
    return getattr(importlib.import_module(home), name) if home else importlib.import_module(f"hajax.{name}")


def __dir__() -> list[str]:
    return sorted(__all__)
