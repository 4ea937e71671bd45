import evaluate
import jinja2
import pytest
import tokenizer as bpe

TEXT = "It is a truth universally acknowledged, that a single man must be in want of a wife.\n\n" * 40


@pytest.fixture(scope="module")
def small():
    return bpe.train_tokenizer(TEXT + bpe.END + TEXT, 300)


@pytest.mark.parametrize("text", ["It is a truth", "  two  spaces\n\n\ttab", "naïve £5 — 漢字 🐋", ""])
def test_any_text_comes_back_from_its_tokens(small, text):
    assert small.decode(small.encode(text).ids) == text


def test_special_tokens_come_first_and_are_never_cut(small):
    assert [small.token_to_id(name) for name in bpe.SPECIAL] == [0, 1, 2]
    assert small.encode(bpe.END + "It" + bpe.TURN_END).ids[0] == 0
    assert small.encode(bpe.END + "It" + bpe.TURN_END).ids[-1] == 2


def test_passages_start_with_the_separator_and_nothing_of_the_text_is_lost(small):
    tokens = bpe.encode_passages(small, f"one man\n\n{bpe.END}\n\na wife\n").tolist()
    assert tokens.count(0) == 2
    assert tokens[0] == 0
    assert small.decode(tokens, skip_special_tokens=False) == f"{bpe.END}one man{bpe.END}a wife"


def test_the_chat_template_is_chatml():
    template = jinja2.Environment().from_string(bpe.CHAT_TEMPLATE)
    said = template.render(messages=[{"role": "user", "content": "Hello"}], add_generation_prompt=True)
    assert said == "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"


@pytest.mark.parametrize("size", [2, 3, 8, 16])
@pytest.mark.parametrize("length", [2, 3, 8, 9, 10, 17, 40])
def test_windows_score_every_token_but_the_first_once_with_half_a_window_before_it(size, length):
    tokens = list(range(length))
    scored = []
    for ids, first in evaluate.windows(tokens, size):
        assert len(ids) <= size + 1
        scored += ids[first + 1 :]
        assert first >= size // 2 or ids[0] == 0
    assert scored == tokens[1:]
