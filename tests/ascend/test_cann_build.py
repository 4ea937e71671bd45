"""native/ascend/CMakeLists.txt, which is for CANN, by itself and in an install: with a stand-in for CANN's functions and without.

What the stand-in makes is a libhajax_ascend that stands on the emulator's ACL, and runs.
"""

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from problem import kernel_arrays, plan_of

from hajax import conformance
from hajax.backends import ascend, npu, sim
from hajax.backends.ascend_device import Device
from hajax.plans import to_bytes
from hajax.targets import npu as targets

ROOT = Path(__file__).parents[2]
# What CANN's functions come down to, over the emulator's headers.
STAND_IN = """
function(ascendc_library name type)
  add_library(${name} ${type} ${ARGN})
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_STANDARD 17)
  target_compile_definitions(${name} PRIVATE __NPU_ARCH__=2002 __CCE_AICORE__=200)
  target_include_directories(${name} PRIVATE "${HAJAX_ROOT}/native/emulator/ascendc")
  file(WRITE "${CMAKE_BINARY_DIR}/launch/aclrtlaunch_hajax_delta_rule.h" "#include \\"acl/acl.h\\"\\n")
  target_include_directories(${name} INTERFACE "${CMAKE_BINARY_DIR}/launch" "${HAJAX_ROOT}/native/emulator/acl/include")
endfunction()
function(ascendc_include_directories name scope)
  target_include_directories(${name} ${scope} ${ARGN})
endfunction()
"""


def cmake(*arguments, **variables):
    program = shutil.which("cmake")
    if program is None:
        pytest.skip("no cmake")
    environment = {name: value for name, value in os.environ.items() if name not in ("ASCEND_HOME_PATH", "SOC_VERSION")}
    return subprocess.run(
        [program, *map(str, arguments)], capture_output=True, text=True, env=environment | {"HOME": "/nowhere"} | variables
    )


def cann(folder, functions=STAND_IN):
    """A tree like CANN's: its functions, its headers and a libascendcl."""
    package = folder / "cann"
    (package / "tools/tikcpp/ascendc_kernel_cmake").mkdir(parents=True)
    (package / "tools/tikcpp/ascendc_kernel_cmake/ascendc.cmake").write_text(functions)
    (package / "include").symlink_to(ROOT / "native/emulator/acl/include")
    (package / "lib64").mkdir()
    (package / "lib64/libascendcl.so").symlink_to(sim.open_sim_library().path)
    return package


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The library of a build by itself."""
    folder = tmp_path_factory.mktemp("ascend")
    package, build = cann(folder), folder / "build"
    done = cmake("-S", ROOT / "native/ascend", "-B", build, f"-DASCEND_CANN_PACKAGE_PATH={package}")
    assert done.returncode == 0, done.stderr
    done = cmake("--build", build, "-j", 2)
    assert done.returncode == 0, done.stdout + done.stderr
    return build / "libhajax_ascend.so"


def test_without_cann_it_says_what_is_missing(tmp_path):
    done = cmake("-S", ROOT / "native/ascend", "-B", tmp_path, f"-DASCEND_CANN_PACKAGE_PATH={tmp_path}")
    assert done.returncode != 0
    message = " ".join(done.stderr.split())
    assert "expected CANN's ascendc.cmake below ASCEND_CANN_PACKAGE_PATH, got none in" in message
    assert "docs/ascend-build.md" in message


def test_the_library_shows_its_interface_and_nothing_else(built):
    nm = shutil.which("nm")
    if nm is None:
        pytest.skip("no nm")
    lines = subprocess.run([nm, "-D", "--defined-only", built], capture_output=True, text=True, check=True).stdout.splitlines()
    names = {line.split()[-1] for line in lines}
    assert names and all(name.startswith("hajax_ascend_") for name in names), sorted(names)


def test_the_library_runs_plans(built, monkeypatch):
    monkeypatch.setenv("HAJAX_ASCEND_LIBRARY", str(built))
    case = conformance.parse("T=70 B=2 Hk=1 Hv=2 Dk=16 Dv=16 dtype=float16 lengths=70,20")
    plan = to_bytes(plan_of(case, targets.load("ascend310p1")))
    arrays = kernel_arrays(case, conformance.inputs(case))
    with Device() as device:
        assert device.library.path == built and ascend.library_path() == built
        output, state, microseconds = device.run(device.place(plan).prepare(case.tokens, arrays["bounds"], 0.25), arrays)
    wanted = npu.execute(plan, arrays, scale=0.25)
    np.testing.assert_array_equal(output, wanted[0])
    np.testing.assert_array_equal(state, wanted[1])
    assert microseconds > 0


def configured(build, *options, **variables):
    return cmake("-S", ROOT, "-B", build, "-DHAJAX_BUILD_CPU=OFF", "-DHAJAX_BUILD_SIM=OFF", *options, **variables)


def installed(build, prefix):
    done = cmake("--build", build, "-j", 2)
    assert done.returncode == 0, done.stdout + done.stderr
    assert cmake("--install", build, "--prefix", prefix).returncode == 0
    return done.stdout + done.stderr, prefix / "hajax/lib/libhajax_ascend.so"


def test_an_install_builds_it_where_cann_is_found(tmp_path):
    package = cann(tmp_path)
    done = configured(tmp_path / "build", ASCEND_HOME_PATH=str(package), SOC_VERSION="Ascend310P3")
    assert done.returncode == 0, done.stderr
    assert f"hajax: libhajax_ascend with CANN in {package}" in done.stdout
    _, library = installed(tmp_path / "build", tmp_path / "site")
    assert library.is_file()
    assert "SOC_VERSION:STRING=Ascend310P3" in (tmp_path / "build/ascend/CMakeCache.txt").read_text().replace(
        "UNINITIALIZED", "STRING"
    )


def test_an_install_without_cann_says_so_once_and_goes_on(tmp_path):
    done = configured(tmp_path / "build", ASCEND_HOME_PATH=str(tmp_path / "nothing"))
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stdout.splitlines() if "CANN" in line]
    assert len(said) == 1 and "no libhajax_ascend, as CANN's toolkit was not found in" in said[0]
    assert not installed(tmp_path / "build", tmp_path / "site")[1].exists()
    done = configured(tmp_path / "strict", "-DHAJAX_BUILD_ASCEND=ON", ASCEND_HOME_PATH=str(tmp_path / "nothing"))
    assert done.returncode != 0 and "HAJAX_BUILD_ASCEND: expected CANN's toolkit" in " ".join(done.stderr.split())


def test_a_toolkit_that_fails_is_a_warning_unless_the_library_is_asked_for(tmp_path):
    package = cann(tmp_path, 'message(FATAL_ERROR "this toolkit is broken")')
    assert configured(tmp_path / "build", ASCEND_HOME_PATH=str(package)).returncode == 0
    said, library = installed(tmp_path / "build", tmp_path / "site")
    assert "this toolkit is broken" in said and "everything else is installed" in " ".join(said.split())
    assert not library.exists()
    assert configured(tmp_path / "strict", "-DHAJAX_BUILD_ASCEND=ON", ASCEND_HOME_PATH=str(package)).returncode == 0
    assert cmake("--build", tmp_path / "strict").returncode != 0
    off = configured(tmp_path / "off", "-DHAJAX_BUILD_ASCEND=OFF", ASCEND_HOME_PATH=str(package))
    assert off.returncode == 0 and "CANN" not in off.stdout
