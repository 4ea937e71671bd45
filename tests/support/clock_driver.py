"""Chips and hand-built event streams for the emulator's clock, through a small program that is compiled with it and sanitized."""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = [
    ROOT / "tests/emulator/clock_driver.cpp",
    ROOT / "native/emulator/core/lists.cpp",
    *sorted((ROOT / "native/emulator/timing").glob("*.cpp")),
]
FLAGS = ["-std=c++17", "-O1", "-g1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-ffp-contract=off"]


def _compiler():
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    return compiler


def compile_errors(source, first):
    """What the compiler says about a source of the project when the folder `first` comes before all others."""
    command = [_compiler(), "-std=c++17", "-Wconversion", "-Werror", "-fsyntax-only", "-I", first, "-I", ROOT, ROOT / source]
    return subprocess.run(command, capture_output=True, text=True).stderr


def build(folder):
    """The program, compiled once for its sources into `folder`, which test processes may share."""
    compiler = _compiler()
    parts = [*SOURCES, *(ROOT / "native/emulator").rglob("*.h"), *(ROOT / "hajax").rglob("*.def"), ROOT / "hajax/abi/target.h"]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(parts))).hexdigest()[:16]
    program = Path(folder) / f"clock-driver-{digest}"
    with open(program.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            made = program.with_suffix(".part")
            done = subprocess.run([compiler, *FLAGS, "-I", ROOT, *SOURCES, "-o", made], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            made.rename(program)
    return program


def ask_text(program, text):
    """What the program prints for this input."""
    done = subprocess.run([program], input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def ask(program, text):
    """The same, a JSON value a line."""
    return [json.loads(line) for line in ask_text(program, text).splitlines()]


@dataclass
class Core:
    """The events of one core, in the order in which they ran."""

    lines: list[str] = field(default_factory=list)

    def event(
        self, instruction, pipe, kind="work", *, what="both", from_="S", to="S", id=0, path="none", scalar=0, units=0, bytes=0
    ):
        self.lines.append(f"event {instruction} {pipe} {kind} {what} {from_} {to} {id} {path} {scalar} {units} {bytes}")
        return self

    def set(self, from_, to, id=0, **more):
        return self.event("set_flag", from_, "set", from_=from_, to=to, id=id, **more)

    def wait(self, from_, to, id=0, **more):
        return self.event("wait_flag", to, "wait", from_=from_, to=to, id=id, **more)

    def barrier(self, pipe, **more):
        return self.event("pipe_barrier", "S" if pipe == "ALL" else pipe, "barrier", id=int(pipe == "ALL"), **more)

    def gm(self, offset, bytes, *, stride=0, runs=1, write=False):
        self.lines.append(f"gm {offset} {bytes} {stride} {runs} {int(write)}")
        return self

    def load(self, offset, bytes, **more):
        return self.event("copy_gm_to_ubuf", "MTE2", path="gm_to_ub", bytes=bytes, **more).gm(offset, bytes)

    def store(self, offset, bytes, **more):
        return self.event("copy_ubuf_to_gm", "MTE3", path="ub_to_gm", bytes=bytes, **more).gm(offset, bytes, write=True)

    def count(self, name, value):
        self.lines.append(f"count {name} {value}")
        return self

    def path(self, name, bytes):
        self.lines.append(f"path {name} {bytes}")
        return self


def script(target, cores, command):
    """The input for a chip given as a list of lines."""
    return "\n".join([*target, *(line for core in cores for line in ("core", *core.lines)), command, ""])
