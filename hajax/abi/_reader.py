"""Reads the headers and .def lists of this folder. No cffi, no JAX: the standard library only."""

import ast
import functools
import hashlib
import re
from enum import IntEnum
from importlib import resources
from typing import Any, cast

_ROW = re.compile(r"^([A-Z]+)\((.*)\)\s*$")
_CFFI = re.compile(r"/\* cffi: begin \*/(.*?)/\* cffi: end \*/", re.DOTALL)


def _text(name: str) -> str:
    return resources.files("hajax.abi").joinpath(name).read_text(encoding="utf-8")


@functools.cache
def rows(name: str) -> tuple[tuple[int | str, ...], ...]:
    """The rows of `<name>.def`, bare words as strings, in file order."""
    found = []
    for line in _text(f"{name}.def").splitlines():
        if match := _ROW.match(line):
            call = ast.parse(f"f({match[2]})", mode="eval").body
            assert isinstance(call, ast.Call)
            found.append(tuple(a.id if isinstance(a, ast.Name) else ast.literal_eval(a) for a in call.args))
    if not found:
        raise ValueError(f"{name}.def has no rows")
    return tuple(found)


@functools.cache
def table(name: str) -> type[IntEnum]:
    """`<name>.def` as an enumeration: number and name are the first two fields of each row."""
    make: Any = IntEnum  # the functional form, with a name that only this call knows
    return cast(type[IntEnum], make(name.capitalize(), {str(row[1]): int(row[0]) for row in rows(name)}))


@functools.cache
def names(name: str) -> tuple[str, ...]:
    """The names of `<name>.def`'s rows, in file order."""
    return tuple(row.name for row in table(name))


@functools.cache
def header_text() -> str:
    """The C declarations of every header of this folder, as cffi's cdef takes them."""
    headers = ("plan.h", "hajax.h", "target.h", "sim.h", "ascend.h")
    return "\n".join(part for name in headers for part in _CFFI.findall(_text(name)))


@functools.cache
def constant(name: str) -> int:
    """The value of an integer `#define` of the shared headers."""
    found = re.search(rf"#define {name} (\w+)", header_text())
    if found is None:
        raise KeyError(name)
    return int(found[1], 0)


@functools.cache
def digest() -> str:
    """SHA-256 over every .h and .def file of this folder in name order; CMake computes the same."""
    files = sorted((f for f in resources.files("hajax.abi").iterdir() if f.name.endswith((".h", ".def"))), key=lambda f: f.name)
    return hashlib.sha256(b"".join(f.read_bytes() for f in files)).hexdigest()
