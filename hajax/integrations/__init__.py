"""hajax inside other frameworks. Each module names the one it is for, and imports torch; `import hajax` imports none of them."""

from typing import Any

__all__ = ["patch_transformers"]


def __getattr__(name: str) -> Any:
    if name == "patch_transformers":
        try:
            from hajax.integrations.transformers import patch_transformers
        except ImportError as error:
            if error.name != "torch":
                raise
            raise ImportError(
                "patch_transformers needs torch, which is not installed: pip install torch", name="torch"
            ) from error
        return patch_transformers
    raise AttributeError(f"module 'hajax.integrations' has no attribute {name!r}")
