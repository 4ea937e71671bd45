"""Plans for fixed targets, as text in golden/, and a digest over many more. Rewritten by `pytest tests/plans --update-golden`.

A change of either needs a new planner.VERSION, since caches on disk hold plans of the old one.
"""

import hashlib
import itertools
import json
from pathlib import Path

import pytest
from planning import AVX2, AVX512, schedule, shape_of

from hajax import planner
from hajax.plans import from_json, to_bytes, to_json, verify

FOLDER = Path(__file__).parent / "golden"
DIGEST = FOLDER / "digest.json"

GOLDEN = {
    "prefill-2048-heads-16-16": schedule(shape_of(2048)),
    "prefill-2048-heads-16-32-bf16": schedule(shape_of(2048, (16, 32), dtype="bfloat16")),
    "prefill-2048-heads-16-32-avx2": schedule(shape_of(2048, (16, 32)), AVX2),
    "prefill-any-length": schedule(shape_of(None, (16, 32), batch=None)),
    "prefill-100-small-heads": schedule(shape_of(100, (2, 4), (32, 40))),
    "prefill-17-fp16-fp32-out": schedule(shape_of(17, (4, 8), dtype="float16", output="float32")),
    "one-head-long": schedule(shape_of(4096, (1, 1))),
    "decode": schedule(shape_of(1, (16, 32))),
    "decode-batch-8": schedule(shape_of(1, (16, 32), batch=8)),
    "packed-8-sequences": schedule(shape_of(512, (16, 32), sequences=8)),
    "dims-256": schedule(shape_of(1024, (4, 4), (256, 256))),
}


def conformance_plans():
    """Plans over the product of sizes that the conformance cases use."""
    sizes = itertools.product(
        (1, 7, 64, 130, 700, None), ((1, 1), (2, 4), (2, 6)), ((8, 8), (64, 40), (256, 128)), ("float32", "bfloat16", "float16"),
        (1, 3), (AVX512, AVX2),
    )  # fmt: skip
    for tokens, heads, dims, dtype, sequences, target in sizes:
        yield schedule(shape_of(tokens, heads, dims, dtype, sequences=sequences), target)


def digest():
    return hashlib.sha256("\n".join(to_json(plan) for plan in conformance_plans()).encode()).hexdigest()


def missing(path):
    return (
        f"{path.name} differs or is missing: run pytest tests/plans --update-golden, and raise planner.VERSION if plans changed"
    )


@pytest.mark.parametrize("name", GOLDEN)
def test_a_plan_equals_its_golden_text(name, update_golden):
    path, text = FOLDER / f"{name}.json", to_json(GOLDEN[name], indent=1) + "\n"
    if update_golden:
        path.write_text(text, encoding="utf-8")
    assert path.is_file(), missing(path)
    assert path.read_text(encoding="utf-8") == text, missing(path)


def test_no_golden_text_is_without_its_plan(update_golden):
    files = {path.stem for path in FOLDER.glob("*.json")} - {DIGEST.stem}
    for stale in files - set(GOLDEN) if update_golden else ():
        (FOLDER / f"{stale}.json").unlink()
    assert update_golden or files == set(GOLDEN)


def test_the_digest_of_all_conformance_plans(update_golden):
    now = {"planner_version": planner.VERSION, "sha256": digest()}
    if update_golden:
        DIGEST.write_text(json.dumps(now, indent=1) + "\n", encoding="utf-8")
    assert DIGEST.is_file(), missing(DIGEST)
    assert json.loads(DIGEST.read_text(encoding="utf-8")) == now, missing(DIGEST)


def test_every_conformance_plan_verifies_and_survives_text_and_wire():
    count = 0
    for plan in conformance_plans():
        assert verify(plan) is plan
        assert from_json(to_json(plan)) == plan
        assert len(to_bytes(plan)) > 0
        count += 1
    assert count == 6 * 3 * 3 * 3 * 2 * 2
