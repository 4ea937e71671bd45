"""Text to ids and back: streaming never shows half a character, templates run in a sandbox, broken files are named."""

import json

import pytest
import tokenizers
from hajax.models import Tokenizer
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import decoders, models, pre_tokenizers, trainers

TEXTS = ["the quick brown fox", "jumps over the lazy dog", "naïve café", "\N{GRINNING FACE}"]
TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<{{ message.role }}>\n{{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A byte-level BPE with one merge-poor vocabulary: most characters beyond ASCII take several tokens."""
    path = tmp_path_factory.mktemp("tokenizer")
    made = tokenizers.Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=280, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=["<s>", "<end>"], show_progress=False
    )
    made.train_from_iterator(TEXTS, trainer)
    made.save(str(path / "tokenizer.json"))
    settings = {"bos_token": {"content": "<s>"}, "eos_token": "<end>", "chat_template": TEMPLATE}
    (path / "tokenizer_config.json").write_text(json.dumps(settings))
    return path


@pytest.fixture(scope="module")
def tokenizer(folder):
    return Tokenizer(folder)


def test_a_text_that_utf8_cannot_write_is_refused(tokenizer):
    with pytest.raises(ValueError, match=r"text: expected characters that UTF-8 can write, got '\\udcff'"):
        tokenizer.encode("a\udcff")


@given(st.text(max_size=40))
def test_streamed_text_equals_the_text(tokenizer, text):
    ids, stream = tokenizer.encode(text), tokenizer.stream()
    parts = [stream.push(token) for token in ids]
    assert "".join(parts) + stream.flush() == text == tokenizer.decode(ids)


@given(st.lists(st.integers(0, 279), max_size=30))
def test_streamed_ids_that_are_no_text_equal_their_decoding(tokenizer, ids):
    stream = tokenizer.stream()
    assert "".join(map(stream.push, ids)) + stream.flush() == tokenizer.decode(ids)


@pytest.mark.parametrize("character", ["é", "€", "\N{GRINNING FACE}"])
def test_no_half_character_is_shown(tokenizer, character):
    ids, stream = tokenizer.encode(f"a{character}b"), tokenizer.stream()
    parts = [stream.push(token) for token in ids]
    assert "".join(parts) == f"a{character}b"
    assert not any("\N{REPLACEMENT CHARACTER}" in part for part in parts)
    cut = tokenizer.stream()
    shown = "".join(map(cut.push, tokenizer.encode("€")[:1]))
    assert shown == ""
    assert cut.flush() == "\N{REPLACEMENT CHARACTER}"  # a text that ends there shows that something is missing
    assert cut.push(tokenizer.encode("a")[0]) == "a"


def test_special_tokens_are_hidden_unless_asked_for(tokenizer):
    end = tokenizer.token_id("<end>")
    ids = [*tokenizer.encode("dog"), end]
    assert tokenizer.decode(ids) == "dog"
    assert tokenizer.decode(ids, skip_special_tokens=False) == "dog<end>"
    stream = tokenizer.stream(skip_special_tokens=False)
    assert "".join(map(stream.push, ids)) == "dog<end>"
    assert tokenizer.token_id("<absent>") is None
    assert tokenizer.vocab_size == 280


def test_the_chat_template_makes_the_prompt(tokenizer):
    messages = [{"role": "user", "content": "hi <b>"}]
    assert tokenizer.apply_chat_template(messages) == "<s><user>\nhi <b>\n<assistant>"
    assert tokenizer.apply_chat_template(messages, add_generation_prompt=False) == "<s><user>\nhi <b>\n"


def with_template(folder, target, template):
    target.mkdir()
    (target / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())
    (target / "chat_template.jinja").write_text(template)
    return Tokenizer(target)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ raise_exception('only users speak') }}", "the chat template failed: only users speak"),
        ("{% if %}", "the chat template failed"),
        ("{{ messages.__class__.__mro__ }}", "the chat template failed: access to attribute '__class__'"),
        ("{{ messages.append(1) }}", "the chat template failed"),
        ("{{ 1 + 'a' }}", "the chat template failed"),
    ],
)
def test_a_template_that_fails_or_reaches_out_is_refused(folder, tmp_path, template, message):
    with pytest.raises(ValueError, match=message):
        with_template(folder, tmp_path / "t", template).apply_chat_template([{"role": "user", "content": "x"}])


def test_templates_have_loops_controls_json_and_variables(folder, tmp_path):
    text = "{% for m in messages %}{% if loop.index > 1 %}{% break %}{% endif %}{{ m | tojson }}{% endfor %}{{ thinking }}"
    made = with_template(folder, tmp_path / "t", text)
    assert made.apply_chat_template([{"content": "<é>"}, {"content": "b"}], thinking="on") == '{"content": "<é>"}on'


def test_named_templates_use_the_default_one(folder, tmp_path):
    (tmp_path / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())
    templates = [{"name": "tool_use", "template": "no"}, {"name": "default", "template": "yes"}]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": templates}))
    assert Tokenizer(tmp_path).apply_chat_template([]) == "yes"


def test_what_is_absent_or_broken_is_named(folder, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"tokenizer\.json: no such file"):
        Tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text('{"version": "1.0"')
    with pytest.raises(ValueError, match=r"tokenizer\.json: not a tokenizer that `tokenizers` .* reads"):
        Tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())
    plain = Tokenizer(tmp_path)
    assert not plain.has_chat_template
    with pytest.raises(ValueError, match="no chat template"):
        plain.apply_chat_template([])
    (tmp_path / "tokenizer_config.json").write_text('{"chat_template": [3]}')
    with pytest.raises(ValueError, match=r"tokenizer_config\.json: expected text, or a list of name and template"):
        Tokenizer(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text("[]")
    with pytest.raises(ValueError, match=r"tokenizer_config\.json: expected a JSON object, got list"):
        Tokenizer(tmp_path)
