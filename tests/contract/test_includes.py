"""Which C++ folder may include which, that only native/xla sees XLA's headers, what device code sees; with planted violations."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
APART = ("native/cpu", "native/ascend", "native/emulator")  # never one another
ALSO = {
    "native/cpu": ("native/xla", "native/tools", "native/sim"),
    "native/ascend": ("native/xla", "native/sim"),
    "native/emulator": ("native/xla", "native/sim"),
    "native/emulator/core": ("native/emulator/ascendc", "native/emulator/acl"),
    "native/sim": ("native/cpu", "native/xla"),
}
# The kernel, which also a device's compiler reads, sees the API's header, hajax/abi and itself; nothing of the standard library.
DEVICE, HOST = "native/ascend/", "native/ascend/host/"


def sources():
    return sorted(p for p in (ROOT / "native").rglob("*") if p.suffix in (".h", ".cpp"))


def violations(path, text):
    found = []
    for include in re.findall(r'^\s*#\s*include\s*["<]([^">]+)[">]', text, re.MULTILINE):
        if include.startswith("xla/") and not path.startswith("native/xla/"):
            found.append(f"{path} includes XLA's {include}")
        for folder in APART:
            others = [other for other in APART if other != folder]
            if path.startswith(f"{folder}/") and include.startswith(tuple(f"{other}/" for other in others)):
                found.append(f"{path} includes {include}")
        for folder, forbidden in ALSO.items():
            if path.startswith(f"{folder}/") and include.startswith(tuple(f"{other}/" for other in forbidden)):
                found.append(f"{path} includes {include}")
        if path.startswith(DEVICE) and not path.startswith(HOST):
            own = include.startswith(DEVICE) and not include.startswith(HOST)
            if include != "kernel_operator.h" and not include.startswith("hajax/abi/") and not own:
                found.append(f"device code {path} includes {include}")
    return found


def test_there_are_sources():
    assert len(sources()) > 10


@pytest.mark.parametrize("path", [str(p.relative_to(ROOT)) for p in sources()])
def test_a_file_includes_only_what_its_folder_may(path):
    assert not violations(path, (ROOT / path).read_text(encoding="utf-8"))


@pytest.mark.parametrize(("path", "include"), [
    ("native/cpu/run.cpp", '#include "native/ascend/host.h"'), ("native/ascend/host.cpp", '#include "native/cpu/run.h"'),
    ("native/emulator/core/pipe.cpp", '#include "native/cpu/run.h"'),
    ("native/emulator/core/pipe.cpp", '#include "native/emulator/acl/acl.h"'),
    ("native/cpu/run.cpp", '#include "native/xla/pool.h"'), ("native/cpu/run.cpp", '#include "xla/ffi/api/ffi.h"'),
    ("native/tools/replay.cpp", "# include <xla/ffi/api/c_api.h>"),
    ("native/emulator/interface.cpp", '#include "native/sim/execute.h"'),
    ("native/ascend/kernel.cpp", "#include <cstring>"), ("native/ascend/frame.h", '#include "native/ascend/host/lists.h"'),
    ("native/sim/execute.cpp", '#include "native/cpu/run.h"'),
])  # fmt: skip
def test_a_planted_violation_is_found(path, include):
    assert violations(path, f"// text\n{include}\n")
