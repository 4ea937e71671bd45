"""Byte-level BPE of the training text -> tokenizer.json, tokenizer_config.json (Hugging Face layout) and token files.

Trained on train.txt only. train.bin and valid.bin are little-endian uint16 token numbers, passages divided by END.
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

END, TURN_START, TURN_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
SPECIAL = (END, TURN_START, TURN_END)
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def train_tokenizer(text: str, vocab_size: int) -> Tokenizer:
    """Byte-level BPE: every string has an encoding, and decoding gives it back."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator((part for part in text.split(END)), trainer=trainer)
    return tokenizer


def tokenizer_config(max_length: int) -> dict[str, object]:
    """What transformers reads beside tokenizer.json."""
    return {
        "added_tokens_decoder": {
            str(number): {
                "content": content,
                "lstrip": False,
                "normalized": False,
                "rstrip": False,
                "single_word": False,
                "special": True,
            }
            for number, content in enumerate(SPECIAL)
        },
        "add_prefix_space": False,
        "bos_token": None,
        "chat_template": CHAT_TEMPLATE,
        "clean_up_tokenization_spaces": False,
        "eos_token": END,
        "model_max_length": max_length,
        "pad_token": END,
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": None,
    }


def encode_passages(tokenizer: Tokenizer, text: str) -> np.ndarray:
    """END, passage, END, passage, ... as uint16; the blank lines around a separator are not part of a passage."""
    end = int(tokenizer.token_to_id(END) or 0)  # a special token: number 0
    numbers: list[int] = []
    for passage in text.split(END):
        numbers.append(end)
        numbers.extend(tokenizer.encode(passage.strip("\n")).ids)
    return np.asarray(numbers, dtype="<u2")


def build(data: Path, vocab_size: int, max_length: int) -> None:
    """Read train.txt and valid.txt of a corpus folder; write the tokenizer and the token files into it."""
    train = (data / "train.txt").read_text(encoding="utf-8")
    tokenizer = train_tokenizer(train, vocab_size)
    if tokenizer.get_vocab_size() != vocab_size:
        raise ValueError(f"vocab_size: expected {vocab_size} entries, got {tokenizer.get_vocab_size()}: text too small")
    tokenizer.save(str(data / "tokenizer.json"))
    config = json.dumps(tokenizer_config(max_length), indent=1, ensure_ascii=False)
    (data / "tokenizer_config.json").write_text(config + "\n", encoding="utf-8")
    for name, text in (("train", train), ("valid", (data / "valid.txt").read_text(encoding="utf-8"))):
        tokens = encode_passages(tokenizer, text)
        tokens.tofile(data / f"{name}.bin")
        print(f"{name}: {tokens.size} tokens, {len(text.encode()) / tokens.size:.2f} bytes a token", file=sys.stderr)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(".corpus"), help="folder that training/corpus.py wrote")
    parser.add_argument("--vocab", type=int, default=2048, help="entries, special tokens included (default 2048)")
    parser.add_argument("--max-length", type=int, default=4096, help="the model's max_position_embeddings")
    arguments = parser.parse_args()
    build(arguments.data, arguments.vocab, arguments.max_length)


if __name__ == "__main__":
    main()
