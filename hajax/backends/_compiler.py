"""Kernel sources to shared libraries with the host's C++ compiler, against the emulator's headers; kept in the user's cache.

A library is found again when source, flags, compiler and every header outside of the system's are what they were, and it is
still what was written.
"""

import atexit
import functools
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path

from hajax import abi, cache
from hajax.backends.library import check_present, find_library
from hajax.targets import npu

LIBRARY = "libhajax_sim.so"
VARIABLE = "HAJAX_SIM_LIBRARY"
_LAYOUT = "v2"  # of the files that stand for a kernel
_LONGEST_SECONDS = 600
_MOST_LINES = 20
# -g1: line tables, for messages; in DWARF 4, as addr2line of binutils 2.40 misreads those of DWARF 5 for code that the
# compiler moved out of line. No tail calls: the return address names the line. No contraction: scalar floats of the
# kernel's own round as written.
LINE_FLAGS = ("-g1", "-gdwarf-4", "-fno-optimize-sibling-calls")
_FLAGS = (
    "-std=c++17", "-O2", *LINE_FLAGS, "-fPIC", "-shared", "-fno-strict-aliasing", "-ffp-contract=off",
)  # fmt: skip


class CompileError(RuntimeError):
    """The host compiler refused a kernel; the message has its first error, `output` all it said."""

    def __init__(self, message: str, output: str = "") -> None:
        super().__init__(message)
        self.output = output


def library_path() -> Path:
    """The emulator's library file."""
    return find_library(LIBRARY, VARIABLE)


def include_folders() -> tuple[Path, ...]:
    """Where kernel_operator.h, acl/acl.h and what they include lie: in a checkout, or inside the installed package."""
    package = Path(str(resources.files("hajax")))
    root = package.parent if (package.parent / "native" / "emulator").is_dir() else package / "include"
    return (root / "native" / "emulator" / "ascendc", root / "native" / "emulator" / "acl" / "include", root)


def compile_flags(target: str) -> tuple[str, ...]:
    """What makes a host compiler see the emulator's headers for a chip. Raises ValueError for an unknown one."""
    arch = npu.load(target).npu_arch
    defines = (f"-D__NPU_ARCH__={arch}", f"-D__CCE_AICORE__={arch // 1000 * 100}")
    return (*defines, *(f"-I{folder}" for folder in include_folders()))


def link_flags() -> tuple[str, ...]:
    """What links a host program or a kernel with the emulator."""
    library = library_path()
    check_present(library, VARIABLE)
    return (str(library), f"-Wl,-rpath,{library.parent}")


def find_compiler(named: str | None = None) -> tuple[str, ...]:
    """The host's C++ compiler as a command: `named`, else $CXX, else the first of c++, g++ and clang++. Raises CompileError."""
    wanted = named or os.environ.get("CXX")
    for candidate in [wanted] if wanted else ["c++", "g++", "clang++"]:
        try:
            words = shlex.split(candidate)
        except ValueError as error:
            raise CompileError(f"compiler: cannot split {candidate!r} into words ({error})") from None
        if words and (path := shutil.which(words[0])):
            return (path, *words[1:])
    if wanted:
        raise CompileError(f"compiler: expected a C++ compiler, got {wanted!r}, which is no program" + _origin(named))
    raise CompileError("compiler: found none of c++, g++ and clang++; install one, or set CXX")


def _origin(named: str | None) -> str:
    return "" if named else " (from CXX)"


@functools.cache
def compiler_version(command: tuple[str, ...]) -> str:
    """The first line of what the compiler says of itself."""
    done = _call((*command, "--version"))
    if done.returncode != 0:
        raise CompileError(f"compiler: {command[0]} --version failed: {done.stderr.strip()}")
    return done.stdout.splitlines()[0] if done.stdout else ""


def compile_kernel(source: Path, target: str = "ascend310p1", *, flags: Sequence[str] = (), compiler: str | None = None) -> Path:
    """Builds a kernel source into a shared library for the emulated chip, or finds it built; returns the library's path.

    Raises CompileError with the compiler's first error, ValueError for an unknown target, OSError for an unreadable source.
    """
    source = Path(source).absolute()
    text = source.read_bytes()
    command = find_compiler(compiler)
    options = (*_FLAGS, *compile_flags(target), *flags)
    inputs = [
        _LAYOUT,
        str(source),
        hashlib.sha256(text).hexdigest(),
        options,
        command,
        compiler_version(command),
        abi.digest(),
        link_flags(),
    ]
    key = hashlib.sha256(json.dumps(inputs).encode()).hexdigest()[:32]
    folder = _folder()
    if found := _find(folder, key):
        return found
    return _build(folder, key, source, (*command, *options), kernels_in(text.decode(errors="replace")))


def compile_text(name: str, text: str, target: str, *, flags: Sequence[str] = ()) -> Path:
    """`compile_kernel` of a source that hajax wrote, which lies beside the libraries as `<name>.cpp`: messages name its lines."""
    folder = _folder()
    source = folder / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.cpp"
    try:
        there = source.read_text(encoding="utf-8") == text
    except (OSError, ValueError):
        there = False
    if not there:
        with tempfile.TemporaryDirectory(dir=folder) as work:
            written = Path(work) / source.name
            written.write_text(text, encoding="utf-8")
            os.replace(written, source)
    return compile_kernel(source, target, flags=flags)


def parameters(library: Path) -> Mapping[str, Sequence[str]] | None:
    """The kernels of a library that `compile_kernel` built, each with its parameters as they are declared; None of another's."""
    try:
        found = json.loads(library.with_suffix(".json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def kernels_in(source: str) -> dict[str, list[str]]:
    """Names and parameters of the `__global__` functions that a source defines."""
    bare = re.sub(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"", " ", source, flags=re.DOTALL)
    bare = re.sub(r"^[ \t]*#(?:\\\n|[^\n])*", "", bare, flags=re.MULTILINE)
    found = {}
    for match in re.finditer(r"\b__global__\b[^;{}()]*?\b(\w+)\s*\(([^(){};]*)\)\s*\{", bare):
        declared = " ".join(match[2].split())
        found[match[1]] = [] if declared in ("", "void") else [part.strip() for part in declared.split(",")]
    return found


def _folder() -> Path:
    folder = cache.kernels_folder()
    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            folder = None
    return folder if folder is not None and os.access(folder, os.W_OK) else _own_folder()


@functools.cache
def _own_folder() -> Path:
    """For this process only, when there is no cache on disk."""
    folder = tempfile.mkdtemp(prefix="hajax-kernels-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _find(folder: Path, key: str) -> Path | None:
    """What was built for the key, or None: when there is nothing, a header has changed or, with a warning, a file is damaged.

    The loader does not see a damaged library: it would map pages that the file no longer has, and the process would die.
    """
    path = folder / f"{key}.manifest"
    try:
        found, text = cache.unseal(path.read_text(encoding="utf-8"))
        if found != key:
            raise ValueError(f"it is the one of {found}")
        manifest = json.loads(text)
        if not _unchanged(manifest["headers"]):
            return None
        for name, digest in manifest["files"].items():
            path = folder / name
            if _digest(path) != digest:
                raise ValueError("it is not what was written")
        return folder / str(manifest["library"])
    except FileNotFoundError as error:
        if path.suffix != ".manifest":
            _warn(path, error.strerror or "gone")
    except OSError as error:
        _warn(path, error.strerror or str(error))
    except (*cache.DAMAGES, AttributeError) as error:
        _warn(path, str(error))
    return None


def _unchanged(headers: Mapping[str, str]) -> bool:
    try:
        return all(_digest(Path(path)) == digest for path, digest in headers.items())
    except OSError:  # a header that is gone
        return False


def _warn(path: Path, reason: str) -> None:
    message = f"hajax kernel cache: {path} is damaged ({reason}); compiling anew"
    warnings.warn(message, RuntimeWarning, stacklevel=4)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _build(folder: Path, key: str, source: Path, command: Sequence[str], kernels: Mapping[str, Sequence[str]]) -> Path:
    with tempfile.TemporaryDirectory(dir=folder) as work:
        built, list_of_headers = Path(work) / "kernel.so", Path(work) / "kernel.d"
        done = _call((
            *command, "-MMD", "-MT", "x", "-MF", str(list_of_headers), "-o", str(built), "-x", "c++", str(source),
            "-x", "none", *link_flags(), "-Wl,-z,defs",
        ))  # fmt: skip
        if done.returncode != 0:
            raise CompileError(f"{source.name} does not compile:\n{_first_error(done.stderr)}", done.stderr)
        headers = {path: _digest(Path(path)) for path in _dependencies(list_of_headers.read_text(encoding="utf-8"))}
        # Never overwritten by another content: a loader that has the file open would mix the two.
        name = hashlib.sha256(json.dumps([key, headers, _digest(built)]).encode()).hexdigest()[:32]
        library, declared = folder / f"{name}.so", folder / f"{name}.json"
        described = Path(work) / declared.name
        described.write_text(json.dumps(kernels), encoding="utf-8")
        files = {library.name: _digest(built), declared.name: _digest(described)}
        manifest = Path(work) / f"{key}.manifest"
        text = json.dumps({"library": library.name, "files": files, "headers": headers})
        manifest.write_text(cache.seal(key, text), encoding="utf-8")
        os.replace(described, declared)
        os.replace(built, library)
        os.replace(manifest, folder / manifest.name)  # the last: it names the others
    return library


def _dependencies(rule: str) -> list[str]:
    """The files of a make rule as compilers write it."""
    _, _, right = rule.replace("\\\n", " ").partition(":")
    return [re.sub(r"\\(.)", r"\1", word).replace("$$", "$") for word in re.findall(r"(?:\\.|[^\s\\])+", right)]


def _first_error(output: str) -> str:
    """What the compiler said up to its second error."""
    lines = output.strip().splitlines()
    errors = [n for n, line in enumerate(lines) if re.search(r"\berror\b|undefined reference", line)]
    end = errors[1] if len(errors) > 1 else len(lines)
    shown = lines[:end][-_MOST_LINES:]
    if len(errors) > 1:
        shown.append(f"({len(errors) - 1} more)")
    return "\n".join(shown)


def _call(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_LONGEST_SECONDS, stdin=subprocess.DEVNULL,
            env={**os.environ, "LC_ALL": "C"},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise CompileError(f"compiler: {command[0]} took longer than {_LONGEST_SECONDS} s") from None
    except OSError as error:
        raise CompileError(f"compiler: cannot run {command[0]} ({error.strerror})") from None
