"""native/ascend/CMakeLists.txt, which is for CANN: refused without it, and built with a stand-in for CANN's functions."""

import shutil
import subprocess
from pathlib import Path

import pytest

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


def cmake(*arguments):
    program = shutil.which("cmake")
    if program is None:
        pytest.skip("no cmake")
    return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)


def test_without_cann_it_says_what_is_missing(tmp_path):
    done = cmake("-S", ROOT / "native/ascend", "-B", tmp_path, f"-DASCEND_CANN_PACKAGE_PATH={tmp_path}")
    assert done.returncode != 0
    message = " ".join(done.stderr.split())
    assert "expected CANN's ascendc.cmake below ASCEND_CANN_PACKAGE_PATH, got none in" in message
    assert "docs/ascend-build.md" in message


def test_with_a_stand_in_it_builds_kernel_and_host(tmp_path):
    package = tmp_path / "cann"
    (package / "tools/tikcpp/ascendc_kernel_cmake").mkdir(parents=True)
    (package / "tools/tikcpp/ascendc_kernel_cmake/ascendc.cmake").write_text(STAND_IN)
    build = tmp_path / "build"
    done = cmake("-S", ROOT / "native/ascend", "-B", build, f"-DASCEND_CANN_PACKAGE_PATH={package}")
    assert done.returncode == 0, done.stderr
    done = cmake("--build", build, "-j", 2)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(path.name for path in build.glob("*.a")) == ["libhajax_ascend_host.a", "libhajax_ascend_kernel.a"]
