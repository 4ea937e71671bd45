"""What Python and C++ share: C structs read by cffi, lists of rows read by both, one digest over all of it."""

from hajax.abi._reader import constant, digest, header_text, names, rows, table

__all__ = ["constant", "digest", "header_text", "names", "rows", "table"]
