"""Choices for the gradient's kernel: whole key heads to a task while that keeps the threads busy, short chunks for short rows."""

import dataclasses

import pytest
from planning import AVX512, shape_of

from hajax import planner, schedules
from hajax.mechanisms import GATED_DELTA_RULE


def launch_of(shape, threads):
    target = dataclasses.replace(AVX512, threads=threads)
    return schedules.CPU["cpu_backward"](GATED_DELTA_RULE, shape, target, planner.VERSION).launch


@pytest.mark.parametrize(("heads", "threads", "group", "workers"), [
    ((16, 32), 2, 2, 2), ((16, 32), 16, 2, 16), ((16, 32), 32, 1, 32), ((1, 8), 1, 8, 1), ((1, 8), 4, 2, 4), ((1, 6), 4, 2, 3),
    ((2, 2), 8, 1, 2),
])  # fmt: skip
def test_value_heads_part_only_where_threads_would_idle(heads, threads, group, workers):
    launch = launch_of(shape_of(2048, heads), threads)
    assert (launch.group, launch.workers, launch.column_blocks, launch.bf16_dot) == (group, workers, 1, False)


def test_rows_count_as_tasks():
    assert launch_of(shape_of(64, (1, 8), batch=4), 4).group == 8
    assert launch_of(shape_of(64, (1, 8), sequences=4), 4).group == 8


@pytest.mark.parametrize(("tokens", "chunk"), [(1, 16), (16, 16), (17, 32), (33, 64), (100, 64), (4096, 64)])
def test_short_rows_have_short_chunks(tokens, chunk):
    assert launch_of(shape_of(tokens), 2).chunk == chunk


def test_scratch_of_a_long_row_grows_with_the_root_of_its_length():
    short, long, longer = (launch_of(shape_of(64 * n), 2).scratch_bytes for n in (64, 1024, 65536))
    assert long < 1.1 * short
    assert longer < 9 * short
