"""Text to token ids and back: tokenizer.json through `tokenizers`, the chat template through a jinja2 sandbox."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from hajax.models._json import read_json

_MOST_BYTES_PENDING = 3  # of a UTF-8 character that is not complete yet
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


class Tokenizer:
    """The tokenizer of a checkpoint folder. Raises FileNotFoundError or ValueError naming the file."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        folder = os.fspath(folder)
        path = os.path.join(folder, "tokenizer.json")
        if not os.path.isfile(path):
            raise FileNotFoundError(f"{path}: no such file (text needs a tokenizer; token ids work without one)")
        import tokenizers

        try:
            self._inner = tokenizers.Tokenizer.from_file(path)
        except Exception as error:  # tokenizers raises bare Exception for a file that it cannot read
            raise ValueError(f"{path}: not a tokenizer that `tokenizers` {tokenizers.__version__} reads ({error})") from None
        self._settings = _settings(os.path.join(folder, "tokenizer_config.json"))
        self._templates = _templates(folder, self._settings)
        self._folder = folder

    @property
    def vocab_size(self) -> int:
        return int(self._inner.get_vocab_size(with_added_tokens=True))

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Ids of a text. Raises ValueError for one that UTF-8 cannot write: half a surrogate pair, bytes that were no UTF-8."""
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"text: expected characters that UTF-8 can write, got {text[error.start]!a}") from error
        return list(self._inner.encode(text, add_special_tokens=add_special_tokens).ids)

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        return str(self._inner.decode([int(i) for i in ids], skip_special_tokens=skip_special_tokens))

    def token_id(self, token: str) -> int | None:
        """The id of a token given as it is spelt in the vocabulary, "<|im_end|>" for one."""
        found = self._inner.token_to_id(token)
        return None if found is None else int(found)

    def stream(self, *, skip_special_tokens: bool = True) -> Detokenizer:
        """A detokeniser for ids as they come."""
        return Detokenizer(self, skip_special_tokens=skip_special_tokens)

    @property
    def has_chat_template(self) -> bool:
        return "default" in self._templates

    def apply_chat_template(
        self, messages: Sequence[Mapping[str, Any]], *, add_generation_prompt: bool = True, **variables: Any
    ) -> str:
        """The prompt text for messages of role and content. Encode it with add_special_tokens=False.

        `variables` (tools, enable_thinking, ...) go to the template. Raises ValueError when there is no template or it fails.
        """
        if not self.has_chat_template:
            raise ValueError(f"{self._folder}: no chat template (chat_template.jinja, or chat_template in tokenizer_config.json)")
        import jinja2
        import jinja2.sandbox

        def refuse(message: str) -> None:
            raise jinja2.TemplateError(message)

        environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.filters["tojson"] = _to_json  # jinja2's own escapes HTML
        environment.globals.update(raise_exception=refuse, strftime_now=_strftime_now)
        special = {name: _token_text(self._settings.get(name)) for name in ("bos_token", "eos_token", "pad_token", "unk_token")}
        special = {name: text for name, text in special.items() if text is not None}
        try:
            template = environment.from_string(self._templates["default"])
            given = {**special, "messages": list(messages), "add_generation_prompt": add_generation_prompt, **variables}
            return template.render(given)
        except Exception as error:  # a template is a program of the folder's, and fails as programs do
            raise ValueError(f"{self._folder}: the chat template failed: {error}") from None


class Detokenizer:
    """Text of ids as they come: `push` returns what is certain by now, `flush` the rest.

    No half of a UTF-8 character is ever returned. Each push decodes a few ids, however long the text.
    """

    def __init__(self, tokenizer: Tokenizer, *, skip_special_tokens: bool = True) -> None:
        self._tokenizer, self._skip = tokenizer, skip_special_tokens
        self._context: list[int] = []  # ids whose text is out already: decoders treat the first id of a text in its own way
        self._held: list[int] = []  # ids after them
        self._shown = 0  # characters of the held ids' text that are out

    def push(self, token: int) -> str:
        self._held.append(int(token))
        base, text = self._decode(self._context), self._decode(self._context + self._held)
        if not text.startswith(base):
            return ""  # the new bytes made earlier ones of the same run unreadable until they are complete
        text = text[len(base) :]
        whole = len(text) - _pending(text)
        fresh = text[self._shown : whole]
        if whole == len(text):
            self._context = self._held if text else self._context + self._held
            self._held, self._shown = [], 0
        else:
            self._shown = max(self._shown, whole)
        return fresh

    def flush(self) -> str:
        base, text = self._decode(self._context), self._decode(self._context + self._held)
        rest = text[len(base) :] if text.startswith(base) else self._decode(self._held)
        fresh = rest[self._shown :]
        self._context, self._held, self._shown = [], [], 0
        return fresh

    def _decode(self, ids: list[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=self._skip)


def _pending(text: str) -> int:
    """How many characters at the end may still change: replacement characters, as bytes to come may complete them."""
    count = 0
    while count < min(_MOST_BYTES_PENDING, len(text)) and text[-1 - count] == _REPLACEMENT:
        count += 1
    return count


def _templates(folder: str, settings: Mapping[str, Any]) -> dict[str, str]:
    path = os.path.join(folder, "chat_template.jinja")
    if os.path.isfile(path):
        try:
            with open(path, encoding="utf-8") as file:
                return {"default": file.read()}
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}: not valid UTF-8 ({error})") from None
    given = settings.get("chat_template")
    if isinstance(given, str):
        return {"default": given}
    if isinstance(given, list) and all(isinstance(entry, Mapping) and {"name", "template"} <= entry.keys() for entry in given):
        return {str(entry["name"]): str(entry["template"]) for entry in given}
    if given is not None:
        raise ValueError(f"{folder}: chat_template in tokenizer_config.json: expected text, or a list of name and template")
    return {}


def _settings(path: str) -> dict[str, Any]:
    return read_json(path) if os.path.isfile(path) else {}


def _token_text(value: Any) -> str | None:
    """A special token in tokenizer_config.json: its text, or a mapping with its content."""
    if isinstance(value, Mapping):
        value = value.get("content")
    return value if isinstance(value, str) else None


def _to_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _strftime_now(form: str) -> str:
    import datetime

    return datetime.datetime.now().strftime(form)
