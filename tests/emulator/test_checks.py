"""Every check of checks.def stops a kernel that was written to break it, and says where; the right kernels next to it pass."""

import re
from pathlib import Path

import numpy as np
import pytest

from hajax import abi
from hajax.backends import sim

FOLDER = Path(__file__).parent / "broken"
SOURCES = sorted(FOLDER.glob("*.cpp"))
COUNT = 256
# Not by a kernel of these files: unsupported types do not compile (test_api_compile.py), launches are refused (test_runtime.py).
ELSEWHERE = {"unsupported", "launch"}


def kernels():
    for source in SOURCES:
        for name in sim.kernels_in(_expanded(source)):
            yield pytest.param(source, name, id=name)


def _expanded(source):
    """The files define their kernels with a macro."""
    text = source.read_text(encoding="utf-8")
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#define"))
    return re.sub(r"^KERNEL\((\w+)\)", r'extern "C" __global__ __aicore__ void \1(GM_ADDR in)', lines, flags=re.MULTILINE)


def check_of(name):
    found = [check for check in abi.names("checks") if name.startswith(f"{check}_")]
    assert found, f"{name}: starts with no name of checks.def"
    return max(found, key=len)


def lines_of(source, name):
    """First and last line of a kernel."""
    lines = source.read_text(encoding="utf-8").splitlines()
    first = next(i for i, line in enumerate(lines, 1) if f"KERNEL({name})" in line)
    return first, next((i for i, line in enumerate(lines[first:], first) if line.startswith("KERNEL(")), len(lines))


def run(source, name, **options):
    blocks = 2 if name.startswith("gm_overlap") else 1
    library = sim.compile_kernel(source)
    arguments = [np.ones(COUNT, np.float32), sim.Output((COUNT,), np.float32), COUNT]
    return sim.run(library, name, arguments, blocks=blocks, options=sim.SimOptions(**options))


@pytest.mark.parametrize(("source", "name"), list(kernels()))
def test_a_broken_kernel_is_stopped_by_its_check(source, name):
    with pytest.raises(sim.SimFault) as caught:
        run(source, name, fatal_saturation=name.startswith("saturated"))
    fault = caught.value
    assert fault.check == check_of(name), fault.text
    assert f"kernel {name}" in fault.text
    assert "core " in fault.text
    assert "hint: " in fault.text
    if "queue" not in fault.check and "leaked" not in fault.check:
        first, last = lines_of(source, name)
        named = [int(line) for line in re.findall(rf"{re.escape(source.name)}:(\d+)", fault.text)]
        assert named, fault.text
        assert all(first <= line <= last for line in named), fault.text


def test_every_check_has_its_broken_kernel():
    broken = {check_of(param.values[1]) for param in kernels()}
    assert broken | ELSEWHERE == set(abi.names("checks"))
    assert not broken & ELSEWHERE


@pytest.mark.parametrize("name", ["race_read_after_write", "pipe_race_vector", "gm_overlap_writes"])
def test_the_race_checks_can_be_switched_off(name):
    source = FOLDER / "order.cpp"
    run(source, name, check_races=False)


@pytest.mark.parametrize("name", ["uninitialized_ub", "uninitialized_gm"])
def test_never_written_bytes_can_be_read_when_nobody_looks(name):
    run(FOLDER / "memory.cpp", name, check_written=False, check_races=False)


def test_automatic_barriers_stand_in_for_missing_ones_on_the_vector_pipe():
    done = run(FOLDER / "order.cpp", "pipe_race_vector", auto_barriers=True)
    assert done.counts["auto_barriers"] == 1
    with pytest.raises(sim.SimFault, match="MTE2"):
        run(FOLDER / "order.cpp", "pipe_race_mte2", auto_barriers=True)


def test_saturation_is_counted_and_harmless_unless_asked():
    assert run(FOLDER / "memory.cpp", "saturated_half").counts["saturated"] == 128


def test_a_message_names_both_accesses_and_both_lines():
    source = FOLDER / "order.cpp"
    start, _ = lines_of(source, "race_read_after_write")
    with pytest.raises(sim.SimFault) as caught:
        run(source, "race_read_after_write")
    text = caught.value.text
    assert f"order.cpp:{start + 3}: src" in text
    assert f"the other access: MTE2 instruction 1 (copy_gm_to_ubuf) at {source}:{start + 2}" in text
    assert "UB byte 0" in text


def test_a_deadlock_names_what_each_pipe_waits_for():
    with pytest.raises(sim.SimFault) as caught:
        run(FOLDER / "order.cpp", "deadlock_wrong_pipe")
    assert "MTE3 waits for the flag MTE2 to MTE3, event 0" in caught.value.text
    assert "1 instructions behind it" in caught.value.text
    assert "the flag MTE2 to V, event 0 is set and nobody waits for it" in caught.value.text


def test_what_raw_pointers_write_to_gm_is_kept(tmp_path):
    source = tmp_path / "raw.cpp"
    source.write_text("""
#include "kernel_operator.h"
extern "C" __global__ __aicore__ void raw(GM_ADDR y) {
  for (int i = 0; i < 8; ++i) reinterpret_cast<__gm__ float*>(y)[i] = 2.0f;
}
""")
    done = sim.run(sim.compile_kernel(source), "raw", [sim.Output((16,), np.float32)])
    assert (done.arrays[0][:8] == 2).all()
    assert np.isnan(done.arrays[0][8:]).all()
