"""A chip that the fused kernel is not written for, as a what-if: the kernel's instructions, the chip's own numbers."""

import dataclasses

import pytest

from hajax.mechanisms import KDA
from hajax.plans import Shape, verify
from hajax.plans.wire_programs import target_name
from hajax.schedules import ASCEND
from hajax.targets import npu

OTHERS = tuple(name for name in npu.names() if name not in npu.kernel_names())


def test_a_chip_that_the_kernel_is_written_for_is_itself():
    assert npu.kernel_names()
    for name in npu.kernel_names():
        assert npu.as_kernel_chip(name) is npu.load(name)
        assert npu.as_kernel_chip(npu.load(name)) is npu.load(name)


def test_another_has_its_own_numbers_and_a_name_that_is_no_chips():
    assert OTHERS == ("ascend310b1",)
    chip, real = npu.as_kernel_chip("ascend310b1"), npu.load("ascend310b1")
    assert chip.name == "ascend310b1_as_2002" and chip.name not in npu.names()
    assert chip == npu.as_kernel_chip(real) == npu.as_kernel_chip(chip)
    assert chip == dataclasses.replace(real, name=chip.name, npu_arch=npu.KERNEL_ARCH)
    assert (chip.ai_cores, chip.l0c_bytes, chip.first_reserved_flag) == (1, 128 * 1024, 6)
    assert chip.fingerprint.startswith("ascend310b1_as_2002-") and chip.fingerprint != real.fingerprint


def test_what_is_no_chip_is_refused():
    with pytest.raises(ValueError, match=r"^target: expected one of ascend310b1, .*, got 'ascend910'$"):
        npu.as_kernel_chip("ascend910")
    with pytest.raises(TypeError, match=r"^target: expected one of ascend310b1, .* or an NpuTarget, got int$"):
        npu.as_kernel_chip(3)


def test_a_plan_names_it_and_is_checked_for_it_only():
    chip = npu.as_kernel_chip("ascend310b1")
    plan = ASCEND["hajax"](KDA, Shape(1, 64, 1, 1, 1, 16, 16, "float16", "float16"), chip, 1)
    assert plan.target == chip.fingerprint and target_name(plan) == chip.name
    verify(plan, chip)
    with pytest.raises(ValueError, match=r"launch\.npu_arch: expected 3002, got 2002"):
        verify(plan, npu.load("ascend310b1"))
    with pytest.raises(ValueError, match=r"target: expected one of .*, got 'ascend310b1_as_2002'"):
        verify(plan)  # no chip has that name
