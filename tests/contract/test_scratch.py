"""The planner's scratch formula is the kernel's layout: equal bytes over many plans, for each ISA that this CPU runs."""

import dataclasses
import itertools
from dataclasses import replace

import pytest
from planning import schedule, shape_of

from hajax import backends, planner, schedules
from hajax.mechanisms import MECHANISMS
from hajax.passes import Draft, size_backward_scratch, size_scratch
from hajax.plans import to_bytes
from hajax.targets import ON_TILES

DTYPES = ("float32", "bfloat16", "float16")


def library_scratch(plan):
    library, data = backends.open_library(), to_bytes(plan)
    return int(library.lib.hajax_cpu_scratch_bytes(data, len(data)))


def target_of(isa, monkeypatch):
    monkeypatch.setenv("HAJAX_CPU_ISA", isa)
    return backends.cpu_target()


@pytest.mark.parametrize("isa", backends.available_isas())
def test_planned_scratch_equals_the_librarys(isa, monkeypatch):
    target = dataclasses.replace(target_of(isa, monkeypatch), threads=4)
    count = 0
    for tokens, dims, heads, dtype in itertools.product(
        (1, 16, 100, 2048), ((8, 8), (40, 24), (64, 72), (128, 128), (256, 256), (8, 256), (256, 8)), ((1, 1), (2, 4), (2, 6)),
        DTYPES,
    ):  # fmt: skip
        plan = schedule(shape_of(tokens, heads, dims, dtype), target)
        assert plan.launch.scratch_bytes == library_scratch(plan), plan.shape
        count += 1
    assert count == 252


@pytest.mark.parametrize("decay", ["none", "scalar"])
@pytest.mark.parametrize("isa", [isa for isa in backends.available_isas() if isa in ON_TILES])
def test_matrix_tiles_have_the_librarys_scratch(isa, decay, monkeypatch):
    """Also for inputs that the planner would not put on them."""
    target = target_of(isa, monkeypatch)
    for dtype, dims, chunk in itertools.product(DTYPES, ((8, 8), (40, 72), (128, 128), (256, 200)), (16, 32, 64, 128)):
        base = schedule(shape_of(100, (1, 4), dims, dtype), target)
        draft = Draft(replace(base.mechanism, decay=decay), base.shape, chunk=chunk, group=2, column_blocks=1, bf16_dot=True)
        draft = size_scratch(draft, target)
        launch = replace(base.launch, chunk=chunk, group=2, column_blocks=1, bf16_dot=True)
        plan = replace(base, mechanism=draft.mechanism, launch=launch)
        assert draft.scratch_bytes == library_scratch(plan), (dtype, dims, chunk)


@pytest.mark.parametrize("isa", backends.available_isas())
def test_any_tiling_has_the_librarys_scratch(isa, monkeypatch):
    """Also those that the passes would not choose."""
    target = target_of(isa, monkeypatch)
    base = schedule(shape_of(100, (1, 6), (72, 200)), target)
    for chunk, group, blocks in itertools.product((16, 32, 64, 128), (1, 2, 3, 6), (1, 2, 3)):
        draft = Draft(base.mechanism, base.shape, chunk=chunk, group=group, column_blocks=blocks, bf16_dot=False)
        draft = size_scratch(draft, target)
        launch = dataclasses.replace(base.launch, chunk=chunk, group=group, column_blocks=blocks, bf16_dot=False)
        assert draft.scratch_bytes == library_scratch(dataclasses.replace(base, launch=launch)), (chunk, group, blocks)


@pytest.mark.parametrize("isa", backends.available_isas())
def test_a_gradients_scratch_equals_the_librarys(isa, monkeypatch):
    target, library = target_of(isa, monkeypatch), backends.open_library()
    count = 0
    for tokens, dims, chunk, group, mechanism in itertools.product(
        (1, 100, 4096, 4097, 100000), ((8, 8), (40, 24), (128, 128), (256, 8)), (16, 32, 64, 128), (1, 3),
        (MECHANISMS["gated_delta_rule"], MECHANISMS["kda"]),
    ):  # fmt: skip
        shape = shape_of(tokens, (1, 6), dims)
        plan = schedules.CPU["cpu_backward"](mechanism, shape, target, planner.VERSION)
        draft = size_backward_scratch(Draft(mechanism, shape, chunk=chunk, group=group), target)
        launch = dataclasses.replace(plan.launch, chunk=chunk, group=group)
        data = to_bytes(dataclasses.replace(plan, launch=launch))
        assert draft.scratch_bytes == library.lib.hajax_cpu_backward_scratch_bytes(data, len(data), tokens), (shape, chunk, group)
        count += 1
    assert count == 320
