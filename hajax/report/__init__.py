"""What a plan does and what an installation is, as text for people."""

from hajax.report._doctor import diagnose
from hajax.report._explain import explain, summary

__all__ = ["diagnose", "explain", "summary"]
