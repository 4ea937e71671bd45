"""The small kernels of tests/emulator/api: built once, and run."""

import functools
from pathlib import Path

from hajax.backends import sim

SOURCES = Path(__file__).parents[1] / "emulator" / "api"
FLAGS = ("-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror")


@functools.cache
def built(name, target):
    return sim.compile_kernel(SOURCES / f"{name}.cpp", target, flags=FLAGS)


def run(source, kernel, *arguments, target="ascend310p1", **options):
    return sim.run(built(source, target), kernel, list(arguments), target=target, **options)


def output(shape, dtype):
    return sim.Output(shape if isinstance(shape, tuple) else (shape,), dtype)
