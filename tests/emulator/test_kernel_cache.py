"""Compiled kernels on disk: whatever became of their files is one warning and a kernel built anew, never a crash."""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from problem import environment

from hajax import cache
from hajax.backends import _compiler

KERNELS = Path(__file__).parent / "kernels.cpp"
SUPPORT = Path(__file__).parents[1] / "support"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder of kernels, of a cache that is this test's own."""
    monkeypatch.setenv("HAJAX_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "kernels"


@pytest.fixture
def build(folder, tmp_path):
    """Builds or finds a kernel, which nothing loads: damaging a file that is mapped would kill the tests."""
    source = tmp_path / "k.cpp"
    source.write_text(
        'extern "C" __attribute__((visibility("default"))) int k = 1;\n#define __global__\n__global__ void f(int n) {}\n'
    )
    return lambda: _compiler.compile_kernel(source)


@pytest.fixture
def compilations(monkeypatch):
    """The compiler's calls, but for those that ask for its version."""
    real, calls = _compiler._call, []

    def counting(command):
        if "--version" not in command:
            calls.append(command)
        return real(command)

    monkeypatch.setattr(_compiler, "_call", counting)
    return calls


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def only(folder, suffix):
    (path,) = folder.glob(f"*{suffix}")
    return path


def flipped(whole, at):
    return whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]


DAMAGES = {
    "empty": lambda whole: b"",
    "cut": lambda whole: whole[: len(whole) // 3],
    "one byte less": lambda whole: whole[:-1],
    "longer": lambda whole: whole + b"\0",
    "first bit": lambda whole: flipped(whole, 0),
    "a bit in the middle": lambda whole: flipped(whole, len(whole) // 2),
    "noise": lambda whole: np.random.default_rng(len(whole)).bytes(len(whole)),
    "zeros": lambda whole: bytes(len(whole)),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("suffix", [".so", ".json", ".manifest"])
def test_a_damaged_file_is_a_warning_and_a_kernel_built_anew(folder, build, compilations, suffix, damage):
    built = build()
    whole, path = contents(folder), only(folder, suffix)
    path.write_bytes(damage(whole[path.name]))
    with pytest.warns(RuntimeWarning, match=rf"hajax kernel cache: .*{path.name} is damaged .*; compiling anew$"):
        assert build() == built
    assert contents(folder) == whole
    assert build() == built  # no warning
    assert len(compilations) == 2


@pytest.mark.parametrize("suffix", [".so", ".json"])
def test_a_missing_file_is_a_warning_and_a_kernel_built_anew(folder, build, compilations, suffix):
    built = build()
    whole, path = contents(folder), only(folder, suffix)
    path.unlink()
    with pytest.warns(RuntimeWarning, match=rf"{path.name} is damaged \(No such file or directory\); compiling anew"):
        assert build() == built
    assert contents(folder) == whole
    assert build() == built
    assert len(compilations) == 2


def test_without_its_manifest_nothing_is_there_and_that_is_no_damage(folder, build, compilations):
    built = build()
    whole = contents(folder)
    only(folder, ".manifest").unlink()
    assert build() == built
    assert contents(folder) == whole
    assert len(compilations) == 2


@pytest.mark.parametrize("text", [
    "[]", "{}", "null", "[" * 100_000, '{"files": {}}', '{"files": {}, "headers": {}}',
    '{"files": 3, "headers": {}, "library": "x"}',
    '{"files": {"no.so": 3}, "headers": {}, "library": "no.so"}',
], ids=range(8))  # fmt: skip
def test_a_manifest_that_says_something_else_is_a_warning_and_a_kernel_built_anew(folder, build, text):
    built = build()
    manifest = only(folder, ".manifest")
    whole = manifest.read_bytes()
    for written in (text, cache.seal(manifest.stem, text)):
        manifest.write_text(written)
        with pytest.warns(RuntimeWarning, match="is damaged .*; compiling anew"):
            assert build() == built
        assert manifest.read_bytes() == whole


def test_the_manifest_of_another_kernel_is_not_taken(folder, build):
    built = build()
    manifest = only(folder, ".manifest")
    whole = manifest.read_bytes()
    manifest.write_text(cache.seal("another", cache.unseal(whole.decode())[1]))
    with pytest.warns(RuntimeWarning, match="is damaged .it is the one of another"):
        assert build() == built
    assert manifest.read_bytes() == whole


def test_a_changed_header_is_no_damage(folder, tmp_path, compilations):
    (tmp_path / "one.h").write_text("\n")
    (tmp_path / "k.cpp").write_text('#include "one.h"\n')
    _compiler.compile_kernel(tmp_path / "k.cpp")
    (tmp_path / "one.h").write_text("int one;\n")
    _compiler.compile_kernel(tmp_path / "k.cpp")
    (tmp_path / "one.h").unlink()
    with pytest.raises(_compiler.CompileError, match=r"one\.h"):
        _compiler.compile_kernel(tmp_path / "k.cpp")
    assert len(compilations) == 3


def test_an_interrupted_build_leaves_nothing_that_would_be_taken(folder, build, monkeypatch):
    """Whichever of the renames does not happen, the next time is as if there were nothing, or a warning."""
    real = os.replace
    for most in range(3):
        done = []

        def interrupted(old, new, most=most, done=done):
            if len(done) == most:
                raise KeyboardInterrupt
            done.append(new)
            real(old, new)

        monkeypatch.setattr(os, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            build()
        assert not list(folder.glob("*.manifest"))
        assert len(list(folder.iterdir())) == most
    monkeypatch.setattr(os, "replace", real)
    assert build().is_file()
    assert {path.suffix for path in folder.iterdir()} == {".so", ".json", ".manifest"}


def test_clear_removes_all_files_of_a_kernel_and_the_next_build_says_nothing(folder, build):
    build()
    _compiler.compile_text("text", "int one;\n", "ascend310p1")
    assert {path.suffix for path in folder.iterdir()} == {".so", ".json", ".manifest", ".cpp"}
    count = len(list(folder.iterdir()))
    assert cache.clear() == count
    assert not list(folder.iterdir())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert build().is_file()


# --- with what loads the library, in processes of their own

IN_PLACE = {
    "cut to 5000 bytes": lambda whole: whole[:5000],
    "empty": lambda whole: b"",
    "noise behind the ELF header": lambda whole: whole[:64] + np.random.default_rng(0).bytes(len(whole) - 64),
}
COMMAND = [sys.executable, "-c", "from hajax.cli import main; main()"]
SPECIALISED = """
import sys
sys.path.insert(0, sys.argv[1])
import steps
from hajax.backends import npu
_, _, (run,) = npu.execute(steps.plan([steps.program((), [steps.sync()], ())]), steps.call(), scale=1.0, specialised=True)
print(run.counts["pipe_barrier"], run.kernel)
"""


def processes(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(100, dtype=np.int32))
    yield "command", [*COMMAND, "sim", "run", str(KERNELS), "--kernel", "add", "--args", "x.npy", "y.npy:int32[100]", "100", "7"]
    yield "specialised", [sys.executable, "-c", SPECIALISED, str(SUPPORT)]


@pytest.mark.parametrize("which", ["command", "specialised"])
def test_a_damaged_library_does_not_reach_the_loader(folder, tmp_path, which):
    command = dict(processes(tmp_path))[which]

    def run():
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path, env=environment())
        assert done.returncode == 0, (done.returncode, done.stderr)
        return done.stdout, done.stderr

    expected = run()
    assert expected[0] and expected[1] == ""
    for damage in IN_PLACE.values():
        library = only(folder, ".so")
        whole = library.read_bytes()
        library.write_bytes(damage(whole))
        out, warned = run()
        assert out == expected[0]
        assert "kernel cache" in warned and f"{library.name} is damaged" in warned and "; compiling anew" in warned
        assert library.read_bytes() == whole
        assert run() == expected


def test_the_command_says_the_damage_in_one_line(folder, tmp_path):
    command = dict(processes(tmp_path))["command"]
    subprocess.run(command, check=True, capture_output=True, timeout=300, cwd=tmp_path, env=environment())
    library = only(folder, ".so")
    library.write_bytes(b"")
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path, env=environment())
    reason = "it is not what was written"
    assert done.stderr == f"hajax: warning: kernel cache: {library} is damaged ({reason}); compiling anew\n"
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), np.arange(100) + 7)


WRITER = """
import sys
from pathlib import Path
from hajax.backends import sim
for _ in range(3):
    for path in Path(sys.argv[2]).glob("*.manifest"):
        path.unlink(missing_ok=True)
    library = sim.compile_kernel(Path(sys.argv[1]))
    assert list(sim.run(library, "f", [sim.Output((8,), "int32")]).arrays[0]) == [3] * 8
"""


def test_many_builders_at_once_never_load_half_a_library(folder, tmp_path):
    source = tmp_path / "k.cpp"
    source.write_text("""
#include <stdint.h>
#include "native/emulator/core/services.h"
#include "native/emulator/instructions/types.h"
#ifndef GM_ADDR
#define GM_ADDR __gm__ uint8_t*
#endif
extern "C" __global__ __aicore__ void f(GM_ADDR x) {
  for (int i = 0; i < 8; ++i) {
    auto* at = reinterpret_cast<int32_t*>(x) + i;
    hajax::emulator::scalar_write(hajax::emulator::Space::GM, at, 4);
    *at = 3;
  }
}
""")
    command = [sys.executable, "-W", "error", "-c", WRITER, str(source), str(folder)]
    started = [subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, text=True) for _ in range(3)]
    for process in started:
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
    assert {path.suffix for path in folder.iterdir()} == {".so", ".json", ".manifest"}
    key, text = cache.unseal(only(folder, ".manifest").read_text())
    assert key == only(folder, ".manifest").stem
    assert set(json.loads(text)) == {"library", "files", "headers"}
