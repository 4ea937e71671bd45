"""Generation: the loop against the pure functions, its chunks, its ends, and what it refuses."""

import dataclasses
import itertools

import hajax.models
import jax.numpy as jnp
import numpy as np
import pytest
from hajax.models import Sampling, _generate, qwen3_5
from tiny_models import TINY, draw, programs

from hajax.ops import _options

PROMPT = draw(1, 70)
THREE = [PROMPT.tolist(), PROMPT[:3].tolist(), PROMPT[:33].tolist()]  # batches are of three: programs are shared


def by_hand(params, prompt, count):
    """Greedy tokens by prefill and decode alone."""
    _, last, decode = programs(TINY)
    padded, length = np.pad(prompt, (0, 80 - len(prompt)))[None], np.array([len(prompt)], np.int32)
    logits, cache = last(params, padded, qwen3_5.init_cache(TINY, 1, 96), length)
    found = []
    for _ in range(count):
        found.append(int(logits[0].argmax()))
        logits, cache = decode(params, np.array(found[-1:], np.int32), cache)
    return found


@pytest.fixture
def small_buckets(monkeypatch):
    monkeypatch.setattr(_generate, "BUCKETS", (4, 16))


def test_greedy_generation_equals_prefill_and_decode_by_hand(model, params):
    """The model's programs take over (donate) the caches that they are handed; those by hand copy."""
    assert model.generate(PROMPT, max_new_tokens=10).tolist() == [by_hand(params, PROMPT, 10)]


@pytest.mark.parametrize(
    "form", [list, tuple, lambda x: x[None], jnp.asarray, lambda x: x.astype(np.uint16), lambda x: [x.tolist()]]
)
def test_ids_come_in_any_form(model, params, form):
    assert model.generate(form(PROMPT), max_new_tokens=3).tolist() == [by_hand(params, PROMPT, 3)]


def test_rows_of_different_lengths_generate_as_they_do_alone(model, params):
    rows = THREE
    expected = [by_hand(params, np.array(row, np.int32), 6) for row in rows]
    assert model.generate(rows, max_new_tokens=6).tolist() == expected
    padded = np.stack([np.pad(row, (0, 75 - len(row)), constant_values=60) for row in rows])
    assert model.generate(padded, max_new_tokens=6, lengths=[len(row) for row in rows]).tolist() == expected


def test_a_prompt_in_many_chunks_generates_the_same(model, params, small_buckets):
    rows = [PROMPT[:37].tolist(), PROMPT[:16].tolist(), PROMPT[:1].tolist()]  # they end in different chunks
    expected = [by_hand(params, np.array(row, np.int32), 4) for row in rows]
    assert model.generate(rows, max_new_tokens=4).tolist() == expected


def test_logits_in_chunks_equal_one_prefill(model, params, small_buckets):
    tokens, lengths = draw(3, 2, 21), np.array([21, 6])
    found = model.logits(tokens, lengths=lengths)
    assert (found.shape, found.dtype) == ((2, 21, TINY.vocab_size), np.float32)
    for row, length in enumerate(lengths):
        padded, cache = np.pad(tokens[row : row + 1], ((0, 0), (0, 59))), qwen3_5.init_cache(TINY, 1, 96)
        expected, _ = programs(TINY)[0](params, padded, cache, lengths[row : row + 1])
        np.testing.assert_allclose(found[row, :length], expected[0, :length], rtol=2e-4, atol=2e-4)
    assert (found[1, 6:] == 0).all()


def test_every_prompt_length_is_covered_by_few_programs():
    for tokens in (*range(1, 700), 2047, 2048, 2049, 4096, 4097, 10_000):
        pieces = list(_generate.chunks(tokens))
        assert pieces[0][0] == 0
        assert all(start + size == after for (start, size), (after, _) in itertools.pairwise(pieces))
        assert all(size == 2048 for _, size in pieces[:-1])
        assert pieces[-1][0] < tokens <= pieces[-1][0] + pieces[-1][1]
        assert pieces[-1][1] in _generate.BUCKETS
        assert _generate.capacity_for(tokens) >= tokens
    assert len({_generate.capacity_for(tokens) for tokens in range(1, 5000)}) == 7


def test_a_second_prompt_of_the_same_bucket_compiles_nothing(model):
    model.generate(PROMPT[:65], max_new_tokens=2)
    before = len(model._programs)
    model.generate(PROMPT, max_new_tokens=3)
    assert len(model._programs) == before


def test_a_row_stops_at_its_end_token_and_repeats_it(model, params):
    rows = THREE
    free = model.generate(rows, max_new_tokens=8)
    end = int(free[0, 2])
    counts = [int(np.flatnonzero(row == end)[0]) + 1 if end in row else 8 for row in free]
    seen = []
    result = model.complete(rows, max_new_tokens=8, eos=end, on_tokens=lambda token, fresh: seen.append((token, fresh)))
    assert result.counts.tolist() == counts
    assert result.tokens.shape == (3, max(counts))
    assert result.new_tokens == sum(counts)
    for row, count in enumerate(counts):
        assert result.tokens[row, :count].tolist() == free[row, :count].tolist()
        assert (result.tokens[row, count:] == end).all()
        assert [int(token[row]) for token, fresh in seen if fresh[row]] == free[row, :count].tolist()
    assert model.generate(PROMPT, max_new_tokens=8, eos=[end, 0]).shape[1] <= 3
    assert model.generate(PROMPT, max_new_tokens=8, eos=()).tolist() == free[:1].tolist()


ENDS = [(5, None, (5,)), (None, [6, 7], (6, 7)), (5, 6, (6,)), (5, {}, (5,))]


@pytest.mark.parametrize(("config", "generation", "expected"), ENDS)
def test_end_tokens_come_from_the_generation_config_else_the_config(params, tmp_path, config, generation, expected):
    eos = () if config is None else (config,)
    qwen3_5.save(tmp_path, params, dataclasses.replace(TINY, eos_token_ids=eos))
    (tmp_path / "generation_config.json").unlink()
    if generation is not None:
        text = "{}" if generation == {} else f'{{"eos_token_id": {generation}}}'
        (tmp_path / "generation_config.json").write_text(text)
    assert hajax.models.load(tmp_path).eos == expected


def test_an_end_token_that_is_no_id_is_named(params, folder, tmp_path):
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).symlink_to(folder / name)
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [5, "</s>"]}')
    with pytest.raises(ValueError, match=r"generation_config\.json: eos_token_id: expected an integer .*, got '</s>'"):
        hajax.models.load(tmp_path)


def test_sampling_repeats_under_a_seed_and_differs_under_another(model):
    options = {"max_new_tokens": 12, "temperature": 1.5, "top_k": 40, "top_p": 0.95}
    one = model.generate(PROMPT, seed=1, **options)
    assert one.tolist() == model.generate(PROMPT, seed=1, **options).tolist()
    assert one.tolist() != model.generate(PROMPT, seed=2, **options).tolist()
    rows = model.generate(np.stack([PROMPT] * 3), seed=1, **options)
    assert rows[0].tolist() == one[0].tolist()
    assert len({tuple(row) for row in rows.tolist()}) == 3


def test_sampling_one_candidate_is_greedy(model):
    greedy = model.generate(PROMPT, max_new_tokens=5)
    assert model.generate(PROMPT, max_new_tokens=5, temperature=2.0, top_k=1).tolist() == greedy.tolist()
    assert model.generate(PROMPT, max_new_tokens=5, temperature=1.0, top_p=1e-6).tolist() == greedy.tolist()


def test_a_generation_counts_what_it_did(model):
    result = model.complete(THREE, max_new_tokens=4, sampling=Sampling())
    assert (result.prompt_tokens, result.new_tokens) == (106, 12)
    assert result.prefill_tokens_per_second == pytest.approx(106 / result.prefill_seconds)
    assert result.decode_tokens_per_second == pytest.approx(9 / result.decode_seconds)
    assert model.complete(PROMPT, max_new_tokens=1).decode_tokens_per_second == 0


def test_an_interrupt_ends_the_loop_and_the_model_stays_usable(model, params):
    def stop(token, fresh):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.generate(PROMPT, max_new_tokens=100, on_tokens=stop)
    assert model.generate(PROMPT, max_new_tokens=3).tolist() == [by_hand(params, PROMPT, 3)]


def test_the_whole_context_may_be_used_but_not_one_token_more(model, monkeypatch):
    monkeypatch.setattr(_generate, "BUCKETS", (64, 128))
    long = draw(5, 254)
    assert model.generate(long, max_new_tokens=2).shape == (1, 2)
    with pytest.raises(ValueError, match="at most max_position_embeddings=256, got 254 prompt tokens and 3 new ones"):
        model.generate(long, max_new_tokens=3)
    with pytest.raises(ValueError, match=r"at most max_position_embeddings=256, got 257 prompt tokens$"):
        model.logits(draw(5, 257))


WRONG = [
    ({"tokens": []}, "tokens: expected at least one token in each prompt"),
    ({"tokens": [[1], []]}, "tokens: expected at least one token in each prompt, got none in row 1"),
    ({"tokens": np.zeros((2, 0), np.int32)}, r"at least one token in each prompt, got shape \[2, 0\]"),
    ({"tokens": [1, 61]}, "tokens: expected ids from 0 to 60, got 61"),
    ({"tokens": [[1], [-1, 2]]}, "tokens: expected ids from 0 to 60, got -1"),
    ({"tokens": [1.0, 2.0]}, "tokens: expected integers, got float64"),
    ({"tokens": "text"}, "tokens: expected token ids, got text"),
    ({"tokens": np.zeros((1, 2, 3), np.int32)}, r"tokens: expected \[B, T\] or \[T\], got shape \[1, 2, 3\]"),
    ({"tokens": [[1, 2]], "lengths": [3]}, "lengths: expected from 1 to 2 tokens, got 3"),
    ({"tokens": [[1, 2]], "lengths": [0]}, "lengths: expected from 1 to 2 tokens, got 0"),
    ({"tokens": [[1, 2]], "lengths": [1, 2]}, r"lengths: expected integers \[1\]"),
    ({"tokens": [[1, 2], [3]], "lengths": [2, 1]}, "rows of different lengths beside `lengths`"),
    ({"tokens": [1], "max_new_tokens": 0}, "max_new_tokens: expected an integer >= 1, got 0"),
    ({"tokens": [1], "max_new_tokens": 2.0}, "max_new_tokens: expected an integer >= 1, got 2.0"),
    ({"tokens": [1], "max_new_tokens": 10**10}, "at most max_position_embeddings=256, got 1 prompt tokens and 10000000000 new"),
    ({"tokens": [1], "top_p": 2.0}, "top_p: expected a number"),
    ({"tokens": [1], "eos": 1.5}, "eos: expected an integer or a list of them, got 1.5"),
    ({"tokens": [1], "eos": "</s>"}, "eos: expected an integer or a list of them, got '</s>'"),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG)
def test_wrong_input_is_named(model, wrong, message):
    with pytest.raises(ValueError, match=message):
        model.generate(**{"max_new_tokens": 2, **wrong})


def test_padding_may_hold_anything(model):
    padded = np.array([[5, 6, 999, -4]])
    assert model.generate(padded, lengths=[2], max_new_tokens=2).tolist() == model.generate([5, 6], max_new_tokens=2).tolist()


def test_an_unknown_implementation_is_named(folder):
    with pytest.raises(ValueError, match="implementation: expected None or one of"):
        hajax.models.load(folder, implementation="gpu")


def test_a_folder_without_a_tokenizer_works_until_text_is_asked_for(model):
    with pytest.raises(FileNotFoundError, match=r"tokenizer\.json: no such file .*token ids work without one"):
        _ = model.tokenizer


def test_an_implementation_chosen_around_a_call_is_the_one_that_runs(params):
    lowered = []

    class Lowers:
        """Stands for what compiles, and remembers the choice that was in force."""

        def __init__(self, function, **options):
            pass

        def lower(self, params, tokens, cache, lengths):
            lowered.append(_options.chosen(None, None)[0])
            return self

        def compile(self):
            return lambda params, tokens, cache, lengths: (jnp.zeros((*tokens.shape, TINY.vocab_size)), cache)

    model = hajax.models.Model(qwen3_5, TINY, params, folder="", eos=(), implementation=None, jit=Lowers)
    for choice in ("xla", "cpu", "xla", "cpu"):
        with hajax.use(implementation=choice):
            model.logits(PROMPT[:4])
    assert lowered == ["xla", "cpu"]


def test_a_loaded_model_says_which_plans_it_ran(folder):
    model = hajax.models.load(folder, implementation="cpu")
    assert model.plans() == ()
    model.logits(PROMPT[:4])
    assert {plan.shape.tokens for plan in model.plans()} == {64}
