"""The reference implementation's logits and greedy tokens, for every folder of the golden results."""

import functools

import hajax.models
import numpy as np
import pytest
from hajax.models import _generate
from tiny_models import GOLDEN, quick_jit

FOLDERS = [path.parent for path in sorted(GOLDEN.glob("*/config.json"))]
WITHIN = 1e-3  # ../shared/golden/README.md; the reference itself is 1e-4 to 3e-4 from fp64
SPLITS = (1, 63, 64, 65)
ROWS = 1 + len(SPLITS)

pytestmark = [
    pytest.mark.skipif(not FOLDERS, reason=f"no results in {GOLDEN} (HAJAX_GOLDEN names another folder)"),
    pytest.mark.parametrize("implementation", ["cpu", "xla"]),
    pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name),
]


@functools.cache
def loaded(folder, implementation):
    return hajax.models.load(folder, implementation=implementation)


def expected(folder):
    with np.load(folder / "expected.npz") as file:
        return {name: file[name] for name in file}


def test_a_loaded_model_gives_the_reference_logits_and_greedy_tokens(folder, implementation):
    model, wanted = loaded(folder, implementation), expected(folder)
    rows = np.tile(wanted["input_ids"], (ROWS, 1))
    assert np.abs(model.logits(rows) - wanted["logits"]).max() <= WITHIN
    if implementation == "cpu" or folder == FOLDERS[0]:  # the others decode below
        assert model.generate(rows, max_new_tokens=12).tolist() == [wanted["greedy"].tolist()] * ROWS


def test_splitting_the_prompt_and_padding_beside_other_rows_change_nothing(folder, implementation):
    """The programs of the test above: row i > 0 reads SPLITS[i - 1] tokens first and the rest next, right-padded; row 0 all."""
    model, wanted = loaded(folder, implementation), expected(folder)
    ids = wanted["input_ids"]
    total = len(ids)
    first = np.array([total, *(min(split, total) for split in SPLITS)], np.int32)
    ((_, width),) = _generate.chunks(total)
    rows = np.full((2, ROWS, width), 255, np.int32)
    for row, split in enumerate(first):
        rows[0, row, :split] = ids[:split]
        rows[1, row, : total - split] = ids[split:]
    cache = model._empty_cache(ROWS, 256)
    read = functools.partial(model._compile("all", model._all, model.params, rows[0], cache, first), model.params)
    before, cache = read(rows[0], cache, first)
    after, cache = read(rows[1], cache, total - first)
    for row, split in enumerate(first):
        joined = np.concatenate([before[row, :split], after[row, : total - split]])
        assert np.abs(joined - wanted["logits"]).max() <= WITHIN, f"split at {split}"
    assert np.array_equal(cache.lengths, [total] * ROWS)
    token = np.repeat(wanted["logits"][-1:].argmax(-1), ROWS).astype(np.int32)
    decode = functools.partial(model._compile("decode", model._decode, model.params, token, cache), model.params)
    for step, greedy in enumerate(wanted["greedy"]):
        assert (token == greedy).all(), f"step {step}"
        logits, cache = decode(token, cache)
        token = np.asarray(logits.argmax(-1), np.int32)


def test_the_whole_sequence_form_gives_the_reference_logits(folder, implementation):
    model, wanted = loaded(folder, implementation), expected(folder)
    forward = quick_jit(lambda p, t: model.family.forward(p, model.config, t, implementation=implementation))
    found = forward(model.params, wanted["input_ids"][None])
    assert found.dtype == np.float32
    assert np.abs(found[0] - wanted["logits"]).max() <= WITHIN
