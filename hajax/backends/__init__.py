"""The native libraries: opening them, talking to them, registering them with XLA, and what the CPU at hand is."""

from hajax.backends.library import LibraryError, available_isas, cpu_target, execute, open_library

__all__ = ["LibraryError", "available_isas", "cpu_target", "execute", "open_library"]
