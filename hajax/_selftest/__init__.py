"""`hajax selftest`: whether the operators are right on a backend, and how fast, in a form that can be pasted into an issue."""

from hajax._selftest.command import Request, describe, paste, run

__all__ = ["Request", "describe", "paste", "run"]
