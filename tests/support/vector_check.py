"""Expected outcomes of vector instructions, and their comparison with what the emulator left."""

import dataclasses
from typing import Any

import numpy as np
import vector_oracle as oracle
from hypothesis import currently_in_test_context, note
from vector_cases import Operand
from vector_program import Case, execute


@dataclasses.dataclass
class Expected:
    """What a case leaves: its image, elements that may differ by some ulps or as NaN, and counts."""

    image: np.ndarray
    loose: list[tuple[int, Any, int]]  # UB offset, type, ulps
    clamped: int = 0
    lanes: int = 0


def write(expected: Expected, to: Operand, found: oracle.Lanes, repeat: int, active: np.ndarray) -> None:
    places = to.write(expected.image, found.values, repeat, active)
    if found.values.dtype.kind == "f":
        expected.loose += [(int(place), found.values.dtype.type, found.ulps) for place in places]
    expected.clamped += int((found.clamped & active).sum())


def compare(case: Case, actual: np.ndarray, expected: Expected) -> None:
    """Every byte of the image: those that nothing may touch too."""
    wrong = actual != expected.image
    for dtype in (np.float16, np.float32):
        here = sorted({place: ulps for place, kind, ulps in expected.loose if kind is dtype}.items())
        if not here:
            continue
        places = np.array([place for place, _ in here])[:, None] + np.arange(np.dtype(dtype).itemsize)
        got, want = (image[places].view(dtype)[:, 0] for image in (actual, expected.image))
        near = oracle.ulps_apart(got, want) <= np.array([ulps for _, ulps in here])
        wrong[places[near]] = False
    assert not wrong.any(), (
        f"{case}: UB byte {int(np.argmax(wrong))}: got {actual[wrong][:8]}, expected {expected.image[wrong][:8]}"
    )


def check(cases: list[tuple[Case, Expected, np.ndarray]], target: str = "ascend310p1") -> tuple[np.ndarray, list[Expected]]:
    """Runs a batch and compares images and counts; returns the registers after each case."""
    for case, _, _ in cases:
        if currently_in_test_context():
            note(str(case))
    images, registers, run = execute([c for c, _, _ in cases], np.stack([image for _, _, image in cases]), target)
    for (case, expected, _), image in zip(cases, images, strict=True):
        compare(case, image, expected)
    entry = cases[0][0].entry
    assert run.counts[entry.instruction] >= len(cases)
    assert run.counts["saturated"] == sum(e.clamped for _, e, _ in cases)
    assert run.counts["vector_lanes"] == sum(e.lanes for _, e, _ in cases)
    return registers, [e for _, e, _ in cases]
