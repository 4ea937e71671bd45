"""Models as pure JAX functions, and conveniences over them. `load` reads a checkpoint folder."""

from hajax.models import qwen3_5

__all__ = ["qwen3_5"]
