"""What a plan does, as text for people."""

from hajax.report._explain import explain, summary

__all__ = ["explain", "summary"]
